"""The one loop: it drives every engine's steps, in several chains, on as many threads as cores.

Kernels release the interpreter's lock, so chains run side by side. A chain is its own generator,
state and record, so neither the number of threads nor a stop and resume changes any draw.
Ctrl-C and a time budget stop at the end of a step and keep what was computed; a checkpoint holds
every chain at some step of its own, and resuming goes on from there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from thali import storage
from thali.data import Data
from thali.engines.base import AnyEngine
from thali.machine import cores
from thali.model import Model
from thali.results.fit import Fit, burned, fit_class
from thali.run.checkpoints import Chain, fingerprint, read, tell_of_fresh_start, write
from thali.run.conclude import conclude, kept
from thali.run.progress import Progress
from thali.starts.choosing import Starting

SLICE = 0.1  # seconds a thread stays with one chain before it turns to the one furthest behind
CHECKPOINT_EVERY = 3.0  # seconds, or twenty times what writing takes if that is longer
LOOK = 50  # sweeps after which the number of features tells how many more, if that was left open


def run(
    seed: int,
    model: Model,
    engine: AnyEngine,
    data: Data,
    *,
    progress: bool | str = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    time_budget: float | None = None,
) -> Fit:
    """Run every chain of ``engine`` on ``model`` and ``data``, and return what was found."""
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
        engine: AnyEngine,
        data: Data,
        checkpoint: str | os.PathLike[str] | None,
        time_budget: float | None,
    ) -> None:
        self.seed, self.model, self.data = seed, model, data
        self.given = engine
        self.engine = engine.planned(data, 0)
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.fingerprint = {} if checkpoint is None else fingerprint(seed, model, engine, data)
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
                self.chains, self.starts, self.earlier = read(
                    self.checkpoint, self.fingerprint, self.model, self.engine, self.data
                )
                return
            tell_of_fresh_start(self.checkpoint, resume)
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
        components among them then tells how many sweeps to make.
        """
        if self.given.plans():
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
            if engine.keeps(step):
                chain.trace.keep(kept(engine, self.model, chain.state), burning=step < 0)
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
        assert self.checkpoint is not None
        write(
            self.checkpoint,
            self.fingerprint,
            self.chains,
            self.model.structure,
            self.data.n,
            self.starts,
            self._seconds(),
        )

    # ending

    def finish(self) -> Fit:
        """What was found, as the kind of result that the engine leads to."""
        for chain in self.chains:
            if not chain.trace.scalars:  # stopped before the first step: there must be one
                info = self.engine.step(chain.rng, self.model, self.data, chain.state)
                chain.trace.record(info, self.engine.measure)
        extra = conclude(self.engine, self.model, self.data, self.chains)
        chains = tuple(chain.trace for chain in self.chains)
        engine = self.given
        if self.given.plans():
            engine = self.given.replace(sweeps=self.engine.steps(self.data))
        return fit_class(engine)(
            self.model,
            self.data,
            engine,
            self.seed,
            chains,
            burned(self.engine.burned, chains),
            tuple(self.starts),
            self.stopped,
            self._seconds(),
            self.engine.steps(self.data),
            extra,
        )

    def _seconds(self) -> float:
        return self.earlier + time.monotonic() - self.began


def _one_blas_thread() -> Any:
    """Chains already fill the cores; BLAS threads of their own would only get in the way."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")
