r"""Data that arrive in pieces: stochastic steps on the same statistics (Hoffman and others 2013).

A piece of B rows is fitted by local steps, and its statistics, scaled to all N rows, are mixed in:

    s ← (1 − ρ_t) s + ρ_t (N/B) s_piece,   ρ_t = (t + delay)^−forgetting   (Robbins and Monro)

and the features, frequencies and hyperparameters are the best ones for s. In natural parameters
that is a step of size ρ_t along the natural gradient of the bound. Where N is not known it is the
number of rows seen so far, and ρ_t = B/N: then every piece counts alike.

A feature that a piece calls for is added to it, if the bound of that piece gains: its q is found
given those of the others, and no row of earlier pieces has it.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from thali.backends.base import PASSES
from thali.backends.far import AnyBlock
from thali.backends.rows import Rows
from thali.engines.ascent.kept_moves import fewer_features
from thali.engines.ascent.moves import high_or_low, main_scores
from thali.engines.ascent.state import State
from thali.structures.statistics import Statistics

ROUNDS = 3  # local steps over a piece
MORE = 10.0  # times as many rows may come, where no one says how many


@dataclass
class Stream:
    """The state at the last piece, the mixed statistics, and how many pieces and rows were seen."""

    state: State
    statistics: Statistics
    pieces: int = 1
    seen: int = 0

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What the rows that are gone have left, as arrays."""
        fields = {**self.statistics.arrays(), "pieces": self.pieces, "seen": self.seen}
        return {f"stream_{name}": np.asarray(value) for name, value in fields.items()}

    @classmethod
    def from_arrays(cls, state: State, arrays: dict[str, np.ndarray]) -> Self:
        """The stream that ``to_arrays`` saved, at this state."""
        found = Statistics.of_arrays(arrays, "stream_")
        return cls(state, found, int(arrays["stream_pieces"]), int(arrays["stream_seen"]))

    def absorb(
        self,
        rng: np.random.Generator,
        piece: AnyBlock,
        total: int | None,
        forgetting: float,
        delay: float,
    ) -> None:
        """Take in one piece."""
        state = self.state
        size = piece.n
        start = np.tile(state.frequencies.mean()[: state.k], (size, 1))
        state.data, state.rows = piece, fresh_rows(rng, start, state.rows.slab)
        found = self._fit_rows(state)
        if state.room and self._add_feature(rng):
            found = self._fit_rows(state)
        self.seen += size
        n = float(self.seen if total is None else max(total, self.seen))
        rho = size / n if total is None else min(1.0, (self.pieces + delay) ** -forgetting)
        # what was mixed so far speaks for N rows, also where N has grown
        old = (1.0 - rho) * n / max(self.statistics.n, 1.0)
        self.statistics = self.statistics.mixed(old, found, rho * n / found.n)
        state.fit_globals(self.statistics)
        state.found = self.statistics
        state.bound = state.value(self.statistics)
        if fewer_features(state, MORE if total is None else 1.0):
            self.statistics = state.found
            self._fit_rows(state)
        self.pieces += 1

    def _add_feature(self, rng: np.random.Generator) -> bool:
        """Add a feature if the piece gains by it: its q found given all others as they are."""
        state = self.state
        size, alpha = state.data.n, state.alpha
        counts = self.statistics.counts * (size / self.statistics.n)
        base = state.copy()
        base.frequencies = state.frequencies.updated(counts, size, alpha)
        level = base.value(self._fit_rows(base, rounds=1))
        scores = main_scores(base, rng)
        for column in high_or_low(scores):
            trial = base.copy()
            trial.rows = base.rows.with_column(column, scores)
            more = np.append(counts, column.sum())
            trial.frequencies = state.frequencies.updated(more, size, alpha)
            trial.features = base.features.grown()
            found = self._fit_rows(trial, rounds=1, passes=0)
            for _ in range(ROUNDS):
                trial.features = base.features.grown(found, *state.sigmas)
                found = self._fit_rows(trial, rounds=1)
            if trial.value(found) > level:
                state.rows, state.features = trial.rows, trial.features
                state.frequencies = trial.frequencies
                self.statistics = self.statistics.padded()
                return True
        return False

    def _fit_rows(self, state: State, rounds: int = ROUNDS, passes: int = PASSES) -> Statistics:
        """Local steps over the piece, features as they are."""
        given = state.globals()
        for _ in range(rounds):
            found = state.backend.local_step(state.data, state.rows, given, passes)
        return found


def fresh_rows(rng: np.random.Generator, nu: np.ndarray, slab: str | None) -> Rows:
    """Rows that know nothing yet but the features' frequencies."""
    amounts = None if slab is None else rng.standard_normal(nu.shape)
    return Rows.of(nu, slab, amounts)
