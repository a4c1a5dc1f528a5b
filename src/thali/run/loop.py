"""The one loop: it drives every engine's steps, in several chains, on as many threads as cores.

Kernels release the interpreter's lock, so chains run side by side. A chain is its own generator,
state and record, so neither the number of threads nor a stop and resume changes any draw.
Ctrl-C and a time budget stop at the end of a step and keep what was computed; a checkpoint holds
every chain at some step of its own, and resuming goes on from there.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from thali import storage
from thali.data import Data
from thali.engines.base import AnyEngine
from thali.machine import cores
from thali.model import Model
from thali.results.fit import Fit, burned, fit_class
from thali.results.trace import Kept
from thali.run.checkpoints import Chain, fingerprint, read, tell_of_fresh_start, write
from thali.run.conclude import conclude
from thali.run.interrupts import Flag, interrupts_call
from thali.run.progress import Progress
from thali.starts.choosing import Starting
from thali.stopping import stopping

Result = TypeVar("Result")

SLICE = 0.1  # seconds a thread stays with one chain before it turns to the one furthest behind
CHECKPOINT_EVERY = 3.0  # seconds, or twenty times what writing takes if that is longer
SHORTEST_NAP, LONGEST_NAP = 0.0005, 0.02  # seconds between two looks at what is running
A_MOMENT = 0.2  # seconds that are given after a stop to what no stop can reach
LOOK = 50  # sweeps after which the number of components tells how many more, if that was left open


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
    from threadpoolctl import threadpool_limits

    from thali.run.compiling import compile_ahead, watching

    loop = _Loop(seed, model, engine, data, checkpoint, time_budget)
    # chains already fill the cores; BLAS threads of their own would only get in the way
    with (
        Progress(progress) as bar,
        watching(bar.compiling) as compiler,
        threadpool_limits(limits=1, user_api="blas"),
    ):
        compile_ahead(compiler, engine, model, data)
        with interrupts_call(partial(loop.halt, "interrupted")), stopping(loop.must_stop):
            loop.begin(bar, resume)
            loop.drive(bar)
            return loop.finish()


class End(Generic[Result]):
    """What became of a job. No lock guards it: one that Ctrl-C leaves locked would be waited for
    for ever."""

    def __init__(self) -> None:
        self.done = False
        self.value: Result | None = None
        self.error: BaseException | None = None

    def result(self) -> Result | None:
        """Its value, or the error that it ended with."""
        if self.error is not None:
            raise self.error
        return self.value


Pairs = Iterator[tuple[Callable[[], Result], End[Result]]]


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
        self.engine = engine.planned(model, data, 0)
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.fingerprint = {} if checkpoint is None else fingerprint(seed, model, engine, data)
        self.time_budget = np.inf if time_budget is None else time_budget
        self.began = self.deadline = np.inf
        self.earlier = 0.0  # seconds spent before a resume
        self.stop = Flag()
        self.stopped = "finished"
        self.starts: list[str] = []
        self.disagreed = False  # whether starts came to different ends: chains are then longer
        self.chains: list[Chain] = []
        self.lock = threading.Lock()
        self.waiting: list[Chain] = []
        self.resting: set[int] = set()  # chains that no thread is at work on
        self.asked = False  # whether a checkpoint is being collected,
        self.wanted: set[int] = set()  # and the chains that have yet to answer
        self.until = 0  # the sweep to which chains are being driven
        self.next_save = 0.0

    # beginning

    def begin(self, bar: Progress, resume: bool) -> None:
        """Find the chains' starts, or read the chains from a checkpoint; the clock starts here."""
        self.began = time.monotonic()
        self.deadline = self.began + self.time_budget
        if self.checkpoint is not None:
            storage.check_writable(self.checkpoint)
            if resume and self.checkpoint.exists():
                self.chains, self.starts, self.disagreed, self.earlier = read(
                    self.checkpoint, self.fingerprint, self.model, self.engine, self.data
                )
                return
            tell_of_fresh_start(self.checkpoint, resume)
        elif resume:
            raise ValueError("resume=True needs checkpoint=path, the file to resume from.")
        sequences = np.random.SeedSequence(self.seed).spawn(self.engine.chains + 1)
        over = self._race_is_over
        with stopping(over):
            starting = Starting(
                self.given,
                self.model,
                self.data,
                over,
                lambda jobs, what: self._in_threads(jobs, partial(bar.say, what), leave=over),
            )
            starts = starting.starts(sequences[-1])
        self.starts, self.disagreed = [start.name for start in starts], starting.disagreed
        for index, start in enumerate(starts):
            rng = np.random.default_rng(sequences[index])
            state = self.engine.begin(rng, self.model, self.data, start)
            self.chains.append(Chain(index, rng, state))
        if self.checkpoint is not None and over():
            self.halt("time budget")  # unless it was halted already
            self.checkpoint = None  # a race cut short is not where a run never stopped begins

    def _in_threads(
        self,
        jobs: Sequence[Callable[[], Result]],
        meanwhile: Callable[[], None],
        leave: Callable[[], bool] | None = None,
    ) -> list[Result | None]:
        """Run jobs side by side, results in order; a stop lets each end at its next step.

        Jobs that no stop can reach are left behind shortly after ``leave`` says so: they end by
        themselves, and have None for a result.
        """
        ends: list[End[Result]] = [End() for _ in jobs]
        todo = iter(list(zip(jobs, ends, strict=True)))

        def work() -> None:
            for job, end in _one_by_one(todo, self.lock):
                if leave is not None and leave():
                    return
                try:
                    end.value = job()
                except BaseException as error:
                    end.error = error
                end.done = True

        try:
            for _ in range(min(len(jobs), cores())):
                inherits = copy_context()  # by which work asks whether to stop
                threading.Thread(target=inherits.run, args=(work,), daemon=True).start()
            self._watch(ends, meanwhile, leave)
        except BaseException as error:
            self.stop.set()
            if leave is None and not isinstance(error, KeyboardInterrupt):
                while not all(end.done for end in ends):
                    time.sleep(LONGEST_NAP)
            raise
        return [end.result() if end.done else None for end in ends]

    def _watch(
        self,
        ends: Sequence[End[Result]],
        meanwhile: Callable[[], None],
        leave: Callable[[], bool] | None,
    ) -> None:
        """Wait for all, or for a moment after a stop; Ctrl-C and the time budget are stops."""
        patience, nap = np.inf, SHORTEST_NAP
        while time.monotonic() < patience:
            try:
                if all(end.done for end in ends):
                    return
                time.sleep(nap)
                nap = min(2.0 * nap, LONGEST_NAP)
                if not self.stop.is_set():
                    meanwhile()
                    if time.monotonic() > self.deadline:
                        self.halt("time budget")
                if leave is not None and leave():
                    patience = min(patience, time.monotonic() + A_MOMENT)
            except KeyboardInterrupt:  # of a handler that is not ours, or a second one
                if self.stop.is_set():  # not even a step is waited for
                    raise
                self.halt("interrupted")

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
                self.engine = self.given.planned(self.model, self.data, k, self.disagreed)
        self._drive(bar, self.engine.steps(self.data))

    def _drive(self, bar: Progress, until: int) -> None:
        """Let threads take turns on the chains until all are at sweep ``until`` or a stop."""
        if self.stop.is_set():
            return
        self.until = until
        self.waiting = [chain for chain in self.chains if not self._done(chain)]
        self.resting = {chain.index for chain in self.chains}
        self.next_save = time.monotonic() + min(1.0, CHECKPOINT_EVERY)

        def meanwhile() -> None:
            total = self.engine.steps(self.data) * self.engine.chains
            bar.update([chain.trace for chain in self.chains], total, self.engine.unit)
            if self.checkpoint is not None and time.monotonic() > self.next_save:
                self._save_when_ready()

        self._in_threads([self._work] * min(len(self.waiting), cores()), meanwhile)
        if self.checkpoint is not None and self.stopped != "finished":
            for chain in self.chains:
                chain.snapshot(self.engine)
            self._save()

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
        except BaseException:
            self.stop.set()
            raise

    def _advance(self, chain: Chain) -> None:
        engine, until = self.engine, time.monotonic() + SLICE
        while not self._done(chain):
            most = self.until - len(chain.trace.scalars)
            for drawn in engine.several(chain.rng, self.model, self.data, chain.state, most):
                chain.trace.record(drawn.info, engine.measure)
                step = len(chain.trace.scalars) - 1 - engine.burned
                if drawn.packed is not None and engine.keeps(step):
                    draw = Kept(drawn.packed.copy(), drawn.parameters)  # of all that a call made
                    chain.trace.keep(draw, burning=step < 0)
            if self.stop.is_set() or time.monotonic() > until:
                return

    def _done(self, chain: Chain) -> bool:
        return len(chain.trace.scalars) >= self.until or (
            bool(chain.trace.scalars) and self.engine.finished(chain.state)
        )

    def _race_is_over(self) -> bool:
        """Starts get half of the time; all of it where a run that was never stopped must have the
        same, since it can be resumed."""
        half = self.deadline if self.checkpoint is not None else self.began + self.time_budget / 2
        return self.stop.is_set() or time.monotonic() > half

    def must_stop(self) -> bool:
        """Whether a stop was asked for, or the time is over. No step is cut short that a resumed
        run would have made whole."""
        resumable = self.checkpoint is not None
        return not resumable and (self.stop.is_set() or time.monotonic() > self.deadline)

    def halt(self, why: str) -> None:
        """Stop at the end of the steps under way; the first reason counts."""
        if not self.stop.is_set():
            self.stopped = why
            self.stop.set()

    # checkpoints

    def _save_when_ready(self) -> None:
        """Ask each chain for a snapshot; write once all have answered."""
        with self.lock:
            if not self.asked:
                self.asked, self.wanted = True, {chain.index for chain in self.chains}
            for index in self.wanted & self.resting:
                self.chains[index].snapshot(self.engine)
                self.wanted.discard(index)
            if self.wanted:
                return
            self.asked = False
        began = time.monotonic()
        self._save()
        done = time.monotonic()
        self.next_save = done + max(CHECKPOINT_EVERY, 20.0 * (done - began))

    def _save(self) -> None:
        assert self.checkpoint is not None
        whole = {
            "fingerprint": self.fingerprint,
            "starts": self.starts,
            "disagreed": self.disagreed,
            "seconds": self._seconds(),
        }
        write(self.checkpoint, self.chains, self.model.structure, self.data.n, whole)

    # ending

    def finish(self) -> Fit:
        """What was found, as the kind of result that the engine leads to."""
        none = [chain for chain in self.chains if not chain.trace.scalars]
        self._in_threads([partial(self._first_step, chain) for chain in none], lambda: None)
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
            burn_in=burned(self.engine.burned, chains),
            starts=tuple(self.starts),
            stopped=self.stopped,
            seconds=self._seconds(),
            sweeps=self.engine.steps(self.data),
            extra=extra,
        )

    def _first_step(self, chain: Chain) -> None:
        """A run that was stopped before it has a step all the same: there must be something."""
        info = self.engine.step(chain.rng, self.model, self.data, chain.state)
        chain.trace.record(info, self.engine.measure)

    def _seconds(self) -> float:
        return self.earlier + time.monotonic() - self.began


def _one_by_one(pairs: Pairs[Result], lock: threading.Lock) -> Pairs[Result]:
    """The next of what several threads take from."""
    while True:
        with lock:
            pair = next(pairs, None)
        if pair is None:
            return
        yield pair
