"""Where the chains of a run begin: the starts that an engine asks for, raced if it says so.

A start is made, walked from and compared by the engine itself, several side by side; what is done
before the chains begin is seeded apart from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Collapsed
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.registry import STARTS
from thali.starts.anneal import as_tempered
from thali.starts.base import RACE, Start, contenders, suitable
from thali.starts.given import given_rows, given_start
from thali.starts.ica import with_inferred
from thali.starts.race import PLAIN, ROUND, TOGETHER, Finish, Search, different, rank, won
from thali.stopping import Stopped
from thali.structures.features import FEATURES

if TYPE_CHECKING:
    from thali.engines.base import AnyEngine, SpreadsStarts

TALL = 4  # times the rows of a sample: data of more are begun from one


@dataclass
class Starting:
    """Finds a start for each chain; ``side_by_side(jobs, what)`` runs jobs in threads, and has None
    for what a stop left behind."""

    given: AnyEngine
    model: Model
    data: Data
    stopped: Callable[[], bool]
    side_by_side: Callable[[Sequence[Callable[[], Any]], str], list[Any]]

    def __post_init__(self) -> None:
        self.engine = self.given.planned(self.model, self.data, 0)
        self.disagreed = False  # whether a race went on for longer than is usual

    @cached_property
    def filled(self) -> Data:
        """The data without gaps: starts look at complete data, in memory."""
        return self.data if self.data.far else self.model.likelihood.guess(self.data)

    def starts(self, sequence: np.random.SeedSequence) -> list[Start]:
        """A start for each chain, as the engine's ``init`` says."""
        if self.data.far or self._tall():
            return self._from_sample(sequence)
        init, chains = self.engine.init, self.engine.chains
        if not isinstance(init, str):
            owner = type(self.engine).__name__
            return [given_start(init, self.model, self.filled, owner)] * chains
        init = self.engine.start_in_place_of_race(self.model) if init == RACE else init
        init = suitable(init, self.model, self.engine.races)
        self._refuse_idle_annealing(init)
        names = self._contenders() if init == RACE else [init] * chains
        generators = [np.random.default_rng(s) for s in sequence.spawn(len(names))]
        if self.model.likelihood.spectrum:  # computed once, before threads need it
            self.filled.singular_values  # noqa: B018
            self.filled.squares  # noqa: B018
        if init == "empty" and getattr(self.engine, "anneal", 0) == 0:
            return [STARTS[init](generators[0], self.model, self.filled)] * chains
        starts = self._begin(names, generators)
        return self._race(starts, generators, sequence) if init == RACE else starts

    def _tall(self) -> bool:
        """Whether a start that looks at all rows would take a good part of the fit, and some of
        them say as much."""
        init, data = self.engine.init, self.data
        looks = isinstance(init, str) and (init == RACE or not STARTS[init].blind)
        spreads = hasattr(self.engine, "spread") and self.model.structure == FEATURES
        no_table = not isinstance(self.model.likelihood, TableLikelihood)  # which has no spread
        of_fewer = getattr(self.model.prior, "rows_described", None) is None  # rows, too
        tall = not data.sparse and data.n > TALL * data.sampled
        return looks and spreads and no_table and of_fewer and tall

    def _refuse_idle_annealing(self, init: str) -> None:
        """Say so where no start that knows nothing of the data is made, for all the asking."""
        steps = getattr(self.engine, "anneal", 0)
        if steps and self.model.structure == FEATURES:
            as_tempered(self.model.likelihood, self.engine)
        if steps and init != RACE and not STARTS[init].blind:
            blind = [name for name in self.model.likelihood.starts if STARTS[name].blind]
            raise ValueError(
                f"{type(self.engine).__name__}: anneal={steps} is for starts that know nothing of "
                f"the data, and with {type(self.model.likelihood).__name__} it begins from "
                f"{init!r}; give init={' or '.join(map(repr, blind))}, or leave anneal at 0."
            )

    def _from_sample(self, sequence: np.random.SeedSequence) -> list[Start]:
        """Starts of some rows that fit in memory, and then of all of them."""
        which, near = self.data.sample(np.random.default_rng(sequence))
        near = replace(near, future=self.data.future)
        if not isinstance(self.engine.init, str):
            filled, owner = self.model.likelihood.guess(near), type(self.engine).__name__
            start = given_rows(self.engine.init, self.model, self.data, filled, which, owner)
            return [start] * self.engine.chains
        cast(Any, self.engine).backend_for(self.model, self.data)  # which may refuse them at once
        engine = cast("SpreadsStarts[Any]", self.engine)
        if self.data.far:
            engine = engine.replace(backend="local")
        inner = Starting(engine, self.model, near, self.stopped, self.side_by_side)
        found = inner.starts(sequence)
        self.disagreed = inner.disagreed
        if near.n == self.data.n:
            return found
        rng = np.random.default_rng(sequence)
        spreads = cast("SpreadsStarts[Any]", self.engine).spread
        whole = {id(s): spreads(rng, self.model, self.data, near, s) for s in found}
        return [whole[id(start)] for start in found]

    def _contenders(self) -> list[str]:
        """Those of the likelihood; no draw of a prior that has no way to make one."""
        names = contenders(self.model.likelihood)
        try:
            self.model.at(self.model.start(self.data)).prior.sample(np.random.default_rng(0), 1)
        except NotImplementedError:
            names = [name for name in names if name != "prior"]
        except ValueError:
            pass  # a prior of so many rows, and not of one
        return names

    def _begin(self, names: Sequence[str], generators: list[np.random.Generator]) -> list[Start]:
        """The named starts; one that knows nothing of the data is annealed if the engine asks."""
        filled = self.filled  # where chains end is compared on what was observed

        def make(name: str, rng: np.random.Generator) -> Start | None:
            try:
                start = STARTS[name](rng, self.model, filled)
            except Stopped:
                return None
            if STARTS[name].blind and getattr(self.engine, "anneal", 0) > 0:
                return self.engine.annealed(rng, self.model, self.data, start, self.stopped)
            return start

        jobs = [partial(make, *pair) for pair in zip(names, generators, strict=True)]
        found: list[Start | None] = self.side_by_side(jobs, "finding starts")
        return [start or self._blank() for start in found]

    def _blank(self) -> Start:
        """Where to begin when a stop came before a start was found: all is noise."""
        scale = {"sigma_x": float(np.sqrt(self.data.mean_square)) or 1.0}
        hyper = with_inferred(self.model, self.model.start(self.data), scale)
        return Start("empty", self.model.structure.empty(self.data.n), hyper)

    def _race(
        self,
        starts: list[Start],
        generators: list[np.random.Generator],
        sequence: np.random.SeedSequence,
    ) -> list[Start]:
        """Short runs from every start, a search from the best of them, and a start per chain."""
        chains, structure = self.engine.chains, self.model.structure
        entrants = self._heat(starts, generators)
        if self.stopped():  # what was found goes before what was not
            entrants.sort(key=lambda entrant: structure.n_components(entrant[0].start.latent) == 0)
            return rank([self._compared(finish) for finish, _ in entrants], chains)
        kind = max(entrants, key=lambda entrant: entrant[0].level)[0].start.name
        more = [np.random.default_rng(s) for s in sequence.spawn(chains - 1)]
        entrants += self._heat(self._begin([kind] * len(more), more), more)
        if not self.engine.searches:
            return different([finish for finish, _ in entrants], chains, structure)
        most = self.model.at(self.model.start(self.data)).prior.most_components(self.data.n)
        searches = [
            Search(rng, at, self._walk, structure, most)
            for at, rng in sorted(entrants, key=lambda entrant: -entrant[0].level)[:chains]
        ]
        spent = len(entrants) * self._short() / chains
        usual, most_rounds = (
            self._rounds(searches, spent, disagreed) for disagreed in (False, True)
        )
        made = 0
        while made < most_rounds and not (self.stopped() or won(searches)):
            jobs = [
                partial(search.rounds, min(most_rounds - made, TOGETHER)) for search in searches
            ]
            self.side_by_side(jobs, "improving the best starts")
            made += TOGETHER
            if all(search.over for search in searches):
                break
        self.disagreed = made >= usual and not self.stopped()
        return rank([search.best for search in searches], chains)

    def _short(self) -> int:
        """Sweeps of each entrant in a heat."""
        return max(5, min(60, self.given.racing_sweeps(self.model, self.data, 0) // 5))

    def _rounds(self, searches: list[Search], spent: float, disagreed: bool) -> int:
        """Rounds that each search may make: the race as a whole is no longer than the chains."""
        k = max(self.model.structure.n_components(search.at.start.latent) for search in searches)
        a_round = ROUND * (1.0 + 1.0 / PLAIN)
        sweeps = self.given.racing_sweeps(self.model, self.data, k, disagreed)
        return int((sweeps - spent) / a_round)

    def _heat(
        self, starts: list[Start], generators: list[np.random.Generator]
    ) -> list[tuple[Finish, np.random.Generator]]:
        """A short run from each start, with the generator to go on with."""
        pairs = list(zip(starts, generators, strict=True))
        jobs = [partial(self._walk, rng, start, self._short()) for start, rng in pairs]
        ends: list[Finish | None] = self.side_by_side(jobs, "racing starts")
        each = zip(ends, pairs, strict=True)
        return [(end or Finish(start, -np.inf), rng) for end, (start, rng) in each]

    def _compared(self, finish: Finish) -> Finish:
        """A start from which a stop let no step be made: its own log joint, where there is one."""
        start = finish.start
        quick = isinstance(self.model.likelihood, Collapsed) and self.data.observed is None
        if finish.level > -np.inf or not quick or not start.latent.any():
            return finish
        return Finish(start, self.model.at(start.hyper).log_joint(self.data, start.latent))

    def _walk(self, rng: np.random.Generator, start: Start, sweeps: int) -> Finish:
        """A few sweeps from a start: where they end, and how high the later half of them was."""
        state = self.engine.begin(rng, self.model, self.data, start)
        logs: list[float] = []
        hyper = start.hyper
        while len(logs) < sweeps and not self.stopped():
            left = sweeps - len(logs)
            for drawn in self.engine.several(rng, self.model, self.data, state, left, keep=False):
                hyper = drawn.info.hyper
                late = 2 * len(logs) >= sweeps - 1  # what comes before is not looked at
                logs.append(
                    self.engine.level(rng, self.model, self.data, state, drawn.info)
                    if late
                    else drawn.info.log_joint
                )
        later = logs[len(logs) // 2 :] or [-np.inf]
        known = bool(np.isfinite(later).all())  # what a prior excludes has no log joint
        spread = float(np.std(later)) if len(later) > 1 and known else 0.0
        return Finish(Start(start.name, state.latent, hyper), float(np.mean(later)), spread)
