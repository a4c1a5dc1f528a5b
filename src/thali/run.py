"""The one loop: it drives every engine's steps, in several chains, on as many threads as cores.

Kernels release the interpreter's lock, so chains run side by side. A chain is its own generator,
state and record, so neither the number of threads nor a stop and resume changes any draw.
Ctrl-C and a time budget stop at the end of a step and keep what was computed; a checkpoint holds
every chain at some step of its own, and resuming goes on from there.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thali import storage
from thali.data import Data
from thali.machine import cores
from thali.model import Model
from thali.progress import Progress
from thali.starting import Starting
from thali.trace import (
    ChainTrace,
    Kept,
    Trace,
    freeze_chain,
    freeze_draws,
    thaw_chain,
    thaw_draws,
)

SLICE = 0.1  # seconds a thread stays with one chain before it turns to the one furthest behind
CHECKPOINT_EVERY = 3.0  # seconds, or twenty times what writing takes if that is longer
LOOK = 50  # sweeps after which the number of features tells how many more, if that was left open


class Snapshot(NamedTuple):
    """A chain at one of its steps: the state's arrays, plain values, and draws of its burn-in."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]
    burning: list[tuple[int, Kept]]


@dataclass
class Chain:
    """A generator, a state and a record; ``saved`` is its last snapshot."""

    index: int
    rng: np.random.Generator
    state: Any
    trace: ChainTrace = field(default_factory=ChainTrace)
    saved: Snapshot | None = None

    def snapshot(self, engine: Any) -> None:
        """Everything needed to go on from here."""
        arrays, numbers = engine.freeze(self.state)
        steps, draws = len(self.trace.scalars), len(self.trace.kept)
        meta = {
            "numbers": numbers,
            "rng": self.rng.bit_generator.state,
            "steps": steps,
            "draws": draws,
            "names": self.trace.names,
            "drift": self.trace.drift,
        }
        self.saved = Snapshot(arrays, meta, list(self.trace.burning))


def run(
    seed: int,
    model: Model,
    engine: Any,
    data: Data,
    *,
    progress: bool | str = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    time_budget: float | None = None,
) -> Trace:
    """Run every chain of ``engine`` on ``model`` and ``data`` and return their trace."""
    loop = _Loop(seed, model, engine, data, checkpoint, time_budget)
    with Progress(progress) as bar, _one_blas_thread():
        loop.begin(bar, resume)
        loop.drive(bar)
    return loop.finish()


class _Loop:
    """The state of one run; split from ``run`` so that each phase fits a screen."""

    def __init__(
        self,
        seed: int,
        model: Model,
        engine: Any,
        data: Data,
        checkpoint: str | os.PathLike[str] | None,
        time_budget: float | None,
    ) -> None:
        self.seed, self.model, self.data = seed, model, data
        self.given = engine
        self.engine = engine.planned(data, 0)
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.fingerprint = {} if checkpoint is None else self._fingerprint()
        self.began = time.monotonic()
        self.earlier = 0.0  # seconds spent before a resume
        self.deadline = np.inf if time_budget is None else self.began + time_budget
        self.stop = threading.Event()
        self.stopped = "finished"
        self.starts: list[str] = []
        self.chains: list[Chain] = []
        self.lock = threading.Lock()
        self.waiting: list[Chain] = []
        self.resting: set[int] = set()  # chains that no thread is at work on
        self.asked = False  # whether a checkpoint is being collected,
        self.wanted: set[int] = set()  # and the chains that have yet to answer
        self.failure: BaseException | None = None
        self.left = threading.Condition()
        self.working = 0  # threads at work on chains
        self.until = 0  # the sweep to which chains are being driven

    # beginning

    def begin(self, bar: Progress, resume: bool) -> None:
        if self.checkpoint is not None:
            storage.check_writable(self.checkpoint)
            if resume and self.checkpoint.exists():
                self._resume()
                return
            _tell_of_fresh_start(self.checkpoint, resume)
        elif resume:
            raise ValueError("resume=True needs checkpoint=path, the file to resume from.")
        sequences = np.random.SeedSequence(self.seed).spawn(self.engine.chains + 1)
        starts = Starting(
            self.given,
            self.model,
            self.data,
            self.stop.is_set,
            lambda jobs, what: self._in_threads(jobs, bar, what),
        ).starts(sequences[-1])
        self.starts = [start.name for start in starts]
        for index, start in enumerate(starts):
            rng = np.random.default_rng(sequences[index])
            state = self.engine.begin(rng, self.model, self.data, start)
            self.chains.append(Chain(index, rng, state))
        if self.stop.is_set():  # a race cut short is not what a run never stopped would begin from
            self.checkpoint = None

    def _in_threads(self, jobs: Sequence[Callable[[], Any]], bar: Progress, what: str) -> list[Any]:
        """Run jobs side by side, results in order; a stop lets each end at its next step."""
        with ThreadPoolExecutor(max(1, min(len(jobs), cores()))) as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                while not all(f.done() for f in futures):
                    bar.say(what)
                    if time.monotonic() > self.deadline:
                        self._halt("time budget")
                    time.sleep(0.005)
            except KeyboardInterrupt:
                self._halt("interrupted")
            return [f.result() for f in futures]

    # running

    def drive(self, bar: Progress) -> None:
        """Run all chains to their end, or to a stop.

        Where the number of sweeps was left open, all chains first come to ``LOOK``, and the most
        features among them then tells how many sweeps to make.
        """
        if getattr(self.given, "sweeps", 0) is None:
            self._drive(bar, LOOK)
            if all(len(chain.trace.scalars) >= LOOK for chain in self.chains):
                k = max(int(chain.trace.scalars[LOOK - 1][0]) for chain in self.chains)
                self.engine = self.given.planned(self.data, k)
        self._drive(bar, self.engine.steps(self.data))

    def _drive(self, bar: Progress, until: int) -> None:
        """Let threads take turns on the chains until all are at sweep ``until`` or a stop."""
        if self.stop.is_set():
            return
        self.until = until
        self.waiting = [chain for chain in self.chains if not self._done(chain)]
        self.resting = {chain.index for chain in self.chains}
        next_save = time.monotonic() + min(1.0, CHECKPOINT_EVERY)
        try:
            for _ in range(min(len(self.waiting), cores())):
                self._hire()
            while self.working > 0:
                self._wait()
                bar.update(
                    [chain.trace for chain in self.chains],
                    self.engine.steps(self.data) * self.engine.chains,
                    self.engine.unit,
                )
                if time.monotonic() > self.deadline:
                    self._halt("time budget")
                if self.checkpoint is not None and time.monotonic() > next_save:
                    next_save = self._save_when_ready(next_save)
        except KeyboardInterrupt:
            self._halt("interrupted")
        except BaseException:
            self.stop.set()
            raise
        finally:
            while self.working > 0:
                self._wait()
        if self.failure is not None:
            raise self.failure
        if self.checkpoint is not None and self.stopped != "finished":
            for chain in self.chains:
                chain.snapshot(self.engine)
            self._save()

    def _hire(self) -> None:
        """Start a thread; one whose start is interrupted is not waited for."""
        with self.left:
            self.working += 1
        try:
            threading.Thread(target=self._work, daemon=True).start()
        except BaseException:
            with self.left:
                self.working -= 1
            raise

    def _work(self) -> None:
        """A thread's life: take the chain furthest behind, work on it for a while, put it back."""
        try:
            while not self.stop.is_set():
                with self.lock:
                    if not self.waiting:
                        return
                    chain = min(self.waiting, key=lambda c: len(c.trace.scalars))
                    self.waiting.remove(chain)
                    self.resting.discard(chain.index)
                self._advance(chain)
                with self.lock:
                    self.resting.add(chain.index)
                    if chain.index in self.wanted:
                        chain.snapshot(self.engine)
                        self.wanted.discard(chain.index)
                    if not self._done(chain):
                        self.waiting.append(chain)
        except BaseException as error:
            self.failure = error
            self.stop.set()
        finally:
            with self.left:
                self.working -= 1
                self.left.notify()

    def _wait(self) -> None:
        """Wait a little, or until a thread leaves. (Ctrl-C inside ``Thread.join`` makes Python,
        before 3.13, take the thread for dead while it is still at work.)"""
        with self.left:
            if self.working > 0:
                self.left.wait(0.02)

    def _advance(self, chain: Chain) -> None:
        engine, until = self.engine, time.monotonic() + SLICE
        while not self._done(chain):
            info = engine.step(chain.rng, self.model, self.data, chain.state)
            chain.trace.record(info, engine.measure)
            step = len(chain.trace.scalars) - 1 - engine.burned
            if engine.kind == "draws" and step % engine.thin == 0:
                keepsakes = engine.keepsakes(self.model, chain.state)
                chain.trace.keep(chain.state.Z, keepsakes, burning=step < 0)
            if self.stop.is_set() or time.monotonic() > until:
                return

    def _done(self, chain: Chain) -> bool:
        return len(chain.trace.scalars) >= self.until or (
            bool(chain.trace.scalars) and self.engine.finished(chain.state)
        )

    def _halt(self, why: str) -> None:
        if not self.stop.is_set():
            self.stopped = why
            self.stop.set()

    # checkpoints

    def _save_when_ready(self, due: float) -> float:
        """Ask each chain for a snapshot; write once all have answered. Returns when to be back."""
        with self.lock:
            if not self.asked:
                self.asked, self.wanted = True, {chain.index for chain in self.chains}
            for index in self.wanted & self.resting:
                self.chains[index].snapshot(self.engine)
                self.wanted.discard(index)
            if self.wanted:
                return due
            self.asked = False
        began = time.monotonic()
        self._save()
        took = time.monotonic() - began
        return time.monotonic() + max(CHECKPOINT_EVERY, 20.0 * took)

    def _save(self) -> None:
        arrays: dict[str, np.ndarray] = {}
        metas = []
        for chain in self.chains:
            if chain.saved is None:
                return
            (state, meta, burning), n, i = chain.saved, self.data.n, chain.index
            arrays |= {f"state{i}_{name}": value for name, value in state.items()}
            arrays |= freeze_chain(chain.trace, n, meta["steps"], meta["draws"], f"chain{i}")
            arrays |= freeze_draws(burning, n, f"burning{i}")
            metas.append(meta)
        whole = {
            "fingerprint": self.fingerprint,
            "chains": metas,
            "starts": self.starts,
            "seconds": self._seconds(),
        }
        assert self.checkpoint is not None
        storage.write(self.checkpoint, "checkpoint", arrays, whole)

    def _resume(self) -> None:
        assert self.checkpoint is not None
        arrays, meta = storage.read(self.checkpoint, "checkpoint")
        for what, value in self.fingerprint.items():
            if meta["fingerprint"].get(what) != value:
                raise ValueError(
                    f"The checkpoint {self.checkpoint} belongs to another run: {what} differs. "
                    "Resume with the same data, settings and seed, or choose another file."
                )
        self.starts, self.earlier = meta["starts"], meta["seconds"]
        for index, saved in enumerate(meta["chains"]):
            rng = np.random.default_rng()
            rng.bit_generator.state = saved["rng"]
            prefix = f"state{index}_"
            state_arrays = {
                name.removeprefix(prefix): value
                for name, value in arrays.items()
                if name.startswith(prefix)
            }
            state = self.engine.thaw(self.model, self.data, state_arrays, saved["numbers"])
            trace = thaw_chain(arrays, f"chain{index}", saved["names"], saved["drift"])
            if f"burning{index}_kept_at" in arrays:
                trace.burning = deque(thaw_draws(arrays, f"burning{index}"))
            self.chains.append(Chain(index, rng, state, trace))

    def _fingerprint(self) -> dict[str, str]:
        """What must be the same for a run to go on from another's checkpoint."""
        engine = {k: _plain(v) for k, v in self.given.get_params().items()}
        return {
            "the data": f"{self.data.X.shape} {_digest_of_data(self.data)}",
            "the model": f"{self.model.prior} {self.model.likelihood}",
            "the engine": f"{type(self.given).__name__} {engine}",
            "the seed": str(self.seed),
        }

    # ending

    def finish(self) -> Trace:
        """The trace; a chain stopped in its burn-in keeps the later half of what it did."""
        for chain in self.chains:
            if not chain.trace.scalars:  # stopped before the first sweep: there must be one
                info = self.engine.step(chain.rng, self.model, self.data, chain.state)
                chain.trace.record(info, self.engine.measure)
            if self.engine.kind in ("weighted", "point"):
                chain.trace.keep_population(
                    self.engine.population(chain.rng, self.model, self.data, chain.state)
                )
            elif self.engine.kind == "variational":
                continue
            elif not chain.trace.kept:
                keepsakes = self.engine.keepsakes(self.model, chain.state)
                chain.trace.keep_later_half(chain.state.Z, keepsakes)
        chains = [chain.trace for chain in self.chains]
        law = {}
        if self.engine.kind == "variational":
            law = self._keep_best_law()
        elif self.engine.kind == "point":
            law = self._keep_best_answer()
        return Trace(
            self.data.n,
            chains,
            min(self.engine.burned, *(chain.kept_at[0] for chain in chains if chain.kept_at)),
            self.engine.kind,
            self.starts,
            self.stopped,
            self._seconds(),
            self.engine.steps(self.data),
            law,
        )

    def _keep_best_law(self) -> dict[str, np.ndarray]:
        """The law of the restart with the highest bound, and draws of it with its record."""
        best = max(self.chains, key=lambda chain: chain.trace.scalars[-1][1])
        best.trace.keep_population(
            self.engine.population(best.rng, self.model, self.data, best.state)
        )
        return self.engine.law(self.model, best.state)  # type: ignore[no-any-return]

    def _keep_best_answer(self) -> dict[str, np.ndarray]:
        """The best answer alone, and what all restarts together know of it."""
        best, law = self.engine.together(self.model, [chain.state for chain in self.chains])
        for i, chain in enumerate(self.chains):
            if i != best:
                chain.trace.forget_population()
        return law  # type: ignore[no-any-return]

    def _seconds(self) -> float:
        return self.earlier + time.monotonic() - self.began


def seed_of(checkpoint: str | os.PathLike[str]) -> int:
    """The seed of the run that left a checkpoint."""
    _, meta = storage.read(checkpoint, "checkpoint")
    return int(meta["fingerprint"]["the seed"])


def _tell_of_fresh_start(checkpoint: Path, resume: bool) -> None:
    """Warn that there is nothing to resume, or that a checkpoint was moved out of the way."""
    if resume:
        said = f"There is no checkpoint {checkpoint} to resume from; starting afresh."
    elif checkpoint.exists():
        earlier = storage.set_aside(checkpoint)
        said = (
            f"Starting afresh: the checkpoint that lay at {checkpoint} is kept as {earlier} "
            "(resume=True goes on from a checkpoint)."
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=6)


def _digest(array: Any) -> str:
    """A hash of an array's bytes, without copying them where they lie in order."""
    return hashlib.sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()


def _digest_of_data(data: Data) -> str:
    """The same for equal data, whatever format a sparse X came in."""
    if not data.sparse:
        return _digest(data.X)
    parts = data.X.data, data.X.indices.astype(np.int64), data.X.indptr.astype(np.int64)
    return " ".join(_digest(part) for part in parts)


def _plain(value: Any) -> Any:
    """A setting as it should be compared: numbers as numbers, a matrix or a model by its Z."""
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "__index__") and np.ndim(value) == 0:
        return int(value)
    return _digest(np.asarray(getattr(value, "Z_", value), dtype=bool))


def _one_blas_thread() -> Any:
    """Chains already fill the cores; BLAS threads of their own would only get in the way."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")
