"""What the first fit of each engine compiles: how many functions, and how long that takes.

Each engine fits a few rows, by default settings but for the time it has, in a process of its own
that finds nothing compiled; first in one process, where functions are counted, then as a first fit
does it, with a second process to compile in where the engine has work for one. "twice" names what
was compiled more than once, for other types or layouts of its arguments.

    python benchmarks/compiling.py [--only collapsed_gibbs variational]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

from tables import markdown

from thali.registry import ENGINES

CODE = """
import json, sys, time, pkgutil, importlib
import thali.kernels
from thali.cli import warming
from thali.run.compiling import watching
from numba.core.dispatcher import Dispatcher
engine, likelihood = sys.argv[1:]
clock, processor = time.perf_counter(), time.process_time()
with watching(lambda functions: None) as compiler:
    list(warming.warm_up([engine], [likelihood], False))
seconds, processors = time.perf_counter() - clock, time.process_time() - processor
kernels = {value for name, module in sys.modules.items() if name.startswith("thali.kernels")
           for value in vars(module).values() if isinstance(value, Dispatcher)}
twice = sorted(k.py_func.__name__ for k in kernels if len(k.nopython_signatures) > 1)
print(json.dumps([compiler.functions, seconds, processors, twice]))
"""
LIKELIHOOD = "linear_gaussian"


def first_fit(engine: str, aside: bool) -> tuple[int, float, float, list[str]]:
    """Functions compiled, seconds, seconds of this process's processor, and what came twice."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"NUMBA_CACHE_DIR": folder, "THALI_COMPILE_ASIDE": "1" if aside else "0"}
        done = subprocess.run(
            [sys.executable, "-c", CODE, engine, LIKELIHOOD],
            env=os.environ | own,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    functions, seconds, processor, twice = json.loads(done.stdout)
    return functions, seconds, processor, twice


def main() -> None:
    parser = argparse.ArgumentParser(description="What the first fit of each engine compiles.")
    parser.add_argument("--only", nargs="+", choices=list(ENGINES))
    names = parser.parse_args().only or list(ENGINES)
    rows = []
    for name in names:
        functions, _, processor, twice = first_fit(name, aside=False)
        _, seconds, _, _ = first_fit(name, aside=True)
        row = [name, functions, f"{processor:.1f}", f"{seconds:.1f}", " ".join(twice) or "none"]
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    head = ["engine", "functions", "s of one processor", "s of a first fit", "twice"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
