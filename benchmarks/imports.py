"""What `import thali` costs, and whether a second process compiles anything.

1. `import thali` against `import numpy, scipy, sklearn.base`, each in a fresh interpreter, taken in
   turns so that a busy moment of the machine hits both; the medians and their ratio.
2. `thali demo` twice, in two processes that share an empty numba cache: how many kernels each
   compiled and loaded, and the seconds spent compiling.

    python benchmarks/imports.py [--repeats 15]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tables import markdown

BASELINE = "import numpy, scipy, sklearn.base"
OURS = "import thali"
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"

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


def seconds_to_import(statement: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", TIMED.format(statement)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def compare_imports(repeats: int) -> None:
    times: dict[str, list[float]] = {BASELINE: [], OURS: []}
    for statement in times:  # once unmeasured: bytecode and the disk's cache
        seconds_to_import(statement)
    for _ in range(repeats):
        for statement, measured in times.items():
            measured.append(seconds_to_import(statement))
    medians = {statement: statistics.median(measured) for statement, measured in times.items()}
    print(f"\nFresh interpreters, median of {repeats}\n")
    rows = [
        [f"`{statement}`", f"{1e3 * median:.0f}", f"{median / medians[BASELINE]:.2f}"]
        for statement, median in medians.items()
    ]
    print(markdown(["statement", "ms", "ratio"], rows))


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
    parser.add_argument("--repeats", type=int, default=15, help="interpreters for each statement")
    compare_imports(parser.parse_args().repeats)
    compare_demos()
