"""What `import thali` costs, and whether a second process compiles anything.

1. `import thali`, the dependencies alone that it cannot do without, and `import thali` where these
   are imported already: each in a fresh interpreter, taken in turns so that a busy moment of the
   machine hits all. Modules are compiled to bytecode before, as they are once they are installed.
   On a busy machine the difference of two long times is off by tenths of a second; the last line,
   which is the same work by itself, is not.
2. `thali demo` twice, in two processes that share an empty numba cache: how many kernels each
   compiled and loaded, and the seconds spent compiling.

    python benchmarks/imports.py [--repeats 15]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tables import markdown

DEPENDENCIES = "import numpy, scipy.linalg, scipy.sparse, scipy.special, sklearn.base"
OURS = "import thali"
TIMED = "import time; {}; t = time.perf_counter(); {}; print(time.perf_counter() - t)"

# Runs `thali demo` in this process and reports what numba did meanwhile.
DEMO = """
import json, sys, time
from numba.core import event
from numba.core.dispatcher import Dispatcher
names = []
class Compiling(event.TimingListener):
    def on_start(self, e):
        if self._depth == 0:
            function = e.data["dispatcher"].py_func
            names.append(function.__module__.partition(".")[0] + ": " + function.__name__)
        super().on_start(e)
compiling = Compiling()
event.register("numba:compile", compiling)
began = time.perf_counter()
from thali.cli import run
code = run(["demo", *sys.argv[2:]])
kernels = {id(value): value for name, module in sys.modules.items() if name.startswith("thali.")
           for value in vars(module).values() if isinstance(value, Dispatcher)}.values()
json.dump({
    "exit code": code,
    "seconds": time.perf_counter() - began,
    "compiled": sum(sum(k.stats.cache_misses.values()) for k in kernels),
    "loaded": sum(sum(k.stats.cache_hits.values()) for k in kernels),
    "seconds compiling": compiling.duration if compiling.done else 0.0,
    "names": names,
}, open(sys.argv[1], "w"))
"""


def seconds_to_import(statement: str, bytecode: str, before: str = "pass") -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", TIMED.format(before, statement)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def compare_imports(repeats: int) -> None:
    alone, ours, beyond = [], [], []
    with tempfile.TemporaryDirectory() as bytecode:
        seconds_to_import(OURS, bytecode)  # once unmeasured: bytecode and the disk's cache
        for _ in range(repeats):
            alone.append(seconds_to_import(DEPENDENCIES, bytecode))
            ours.append(seconds_to_import(OURS, bytecode))
            beyond.append(seconds_to_import(OURS, bytecode, before=DEPENDENCIES))
    print(f"\nFresh interpreters, the least of {repeats}\n")
    rows = [
        [f"dependencies alone: `{DEPENDENCIES}`", f"{min(alone):.3f}"],
        [f"`{OURS}`", f"{min(ours):.3f}"],
        ["the difference", f"{min(ours) - min(alone):.3f}"],
        [f"`{OURS}` after the dependencies, in one interpreter", f"{min(beyond):.3f}"],
    ]
    print(markdown(["what", "seconds"], rows))


def run_demo(cache: Path, folder: Path) -> dict[str, Any]:
    answer = folder / "answer.json"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", DEMO, str(answer), "--out", str(folder / "demo")]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return json.loads(answer.read_text())


def compare_demos() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [run_demo(folder / "cache", folder) for _ in range(2)]
    names = [run.pop("names") for run in runs]
    headers = ["thali demo", *runs[0]]
    rows = [
        [label, *(f"{value:.2f}" if isinstance(value, float) else value for value in run.values())]
        for label, run in zip(["first process", "second process"], runs, strict=True)
    ]
    print("\nKernels compiled and loaded, from an empty numba cache\n")
    print(markdown(headers, rows))
    print(f"\nThe second compiled: {', '.join(names[1]) or 'nothing'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="interpreters for each line")
    compare_imports(parser.parse_args().repeats)
    compare_demos()
