"""Compiling, once per installation: ahead of the run, on two cores, and with a word about it.

Kernels are compiled where they are first called, and kept on disk. Numba compiles one function at a
time in a process; an engine whose default kernels take long says what they are (``rehearsals``), so
that this process compiles the first of them and another process the rest, at the same time. What
the other one kept is then found on disk; should it fail, all is compiled here, as ever.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from numba.core import event

from thali.data import Data
from thali.engines.base import AnyEngine
from thali.machine import cores
from thali.model import Model

Say = Callable[[int], None]
ASIDE = "THALI_COMPILE_ASIDE"  # an environment variable; 0: no other process is started
EVENT = "numba:compile"
CHILD = "from thali.run.compiling import rehearse_from_stdin; rehearse_from_stdin()"


class Compiler(event.Listener):
    """Counts what Numba compiles in this process, and says so; ``first`` is called at the first."""

    def __init__(self, say: Say) -> None:
        self.tell = say
        self.functions = 0
        self.first: Callable[[], None] | None = None

    def on_start(self, _: object) -> None:
        self.functions += 1
        if self.first is not None:
            first, self.first = self.first, None
            first()
        self.say()

    def on_end(self, _: object) -> None:
        pass

    def say(self) -> None:
        """Tell how much was compiled."""
        self.tell(self.functions)


@contextmanager
def watching(say: Say) -> Iterator[Compiler]:
    """Count what is compiled meanwhile, in any thread."""
    compiler = Compiler(say)
    event.register(EVENT, compiler)  # type: ignore[no-untyped-call]
    try:
        yield compiler
    finally:
        event.unregister(EVENT, compiler)  # type: ignore[no-untyped-call]


def compile_ahead(compiler: Compiler, engine: AnyEngine, model: Model, data: Data) -> None:
    """Compile what a run will call, unless it is on disk already.

    Whether it is shows only when the first part is called: the other process is started once
    compilation has begun here.
    """
    parts = engine.rehearsals(model)
    missing = data.observed is not None
    others: list[subprocess.Popen[bytes]] = []
    if len(parts) > 1 and cores() > 1 and _may_start_another():
        compiler.first = lambda: others.extend(_start(engine, model, missing, parts[1:]))
    try:
        for part in parts[:1]:
            _rehearse(engine, part, model, missing)
        while any(process.poll() is None for process in others):
            compiler.say()
            time.sleep(0.05)
    finally:
        compiler.first = None
        for process in others:
            process.kill()
            process.wait()
    for part in parts[1:]:
        _rehearse(engine, part, model, missing)


def _rehearse(engine: AnyEngine, part: str, model: Model, missing: bool) -> None:
    """Whatever is wrong with a model will show in the run itself, on its own data."""
    with suppress(Exception):
        engine.rehearse(part, model, missing)


def _may_start_another() -> bool:
    """Whether there is an interpreter to start; an application that embeds Python is none."""
    name = Path(sys.executable or "").name.lower()
    return name.startswith(("python", "pypy")) and os.environ.get(ASIDE) != "0"


def _start(
    engine: AnyEngine, model: Model, missing: bool, parts: tuple[str, ...]
) -> list[subprocess.Popen[bytes]]:
    """A process that compiles these parts; none where they cannot be sent to one."""
    try:
        plain = engine.replace(init="empty")  # a fitted model to begin from would be sent along
        sent = pickle.dumps((plain, model, missing, parts))
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except Exception:  # in the middle of a compilation, which must go on
        return []
    assert process.stdin is not None
    try:
        with process.stdin:
            process.stdin.write(sent)
    except OSError:
        pass  # it ended at once; this process will compile the rest itself
    return [process]


def rehearse_from_stdin() -> None:
    """What the other process does."""
    engine, model, missing, parts = pickle.load(sys.stdin.buffer)
    for part in parts:
        engine.rehearse(part, model, missing)
