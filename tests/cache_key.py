"""Where a test run keeps its compiled kernels: build/numba/<key>, made ready and printed.

Numba asks of a compiled function only whether its own file changed, so an edited callee leaves
stale callers behind. Hence a folder for each state of the sources:

    key = SHA-256 of Python's, NumPy's and Numba's versions, and of every file with a kernel in it

A run that changed no kernel finds all of them compiled; one that did starts from an empty folder.
The ``KEPT`` folders last used stay, so that going back and forth between two branches costs
nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = 2


def sources(root: Path) -> Iterator[Path]:
    """The files whose text decides what is compiled: the kernels, and wherever else one is."""
    kernels = root / "src" / "thali" / "kernels"
    for folder in ("src", "tests", "benchmarks"):
        for path in sorted((root / folder).rglob("*.py")):
            if kernels in path.parents or b"njit" in path.read_bytes():
                yield path


def key(root: Path = ROOT) -> str:
    """The same for the same kernels under the same versions, on every machine."""
    digest = hashlib.sha256()
    for part in (sys.version, version("numpy"), version("numba")):
        digest.update(part.encode() + b"\0")
    for path in sources(root):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def prepare(root: Path = ROOT) -> Path:
    """The folder of the present key, marked as used now; all but the ``KEPT`` newest go."""
    folder = root / "build" / "numba" / key(root)
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    others = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in [path for path in others if path != folder][KEPT - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


if __name__ == "__main__":
    print(prepare())
