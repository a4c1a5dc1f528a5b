r"""Where maximization-expectation is: q(Z, A) = δ(Z) q(A), and one iteration of it.

    log P(X) ≥ E[log P(X | Z, A)] + log P(Z) + E[log p(A)] + H[q(A)]

The rows' laws ν are 0 or 1, and the frequencies of mean-field states are integrated out
(``counts.py``): features that no row has are not there, and cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thali.backends.base import PASSES
from thali.engines.ascent.counts import Counts
from thali.engines.ascent.hard_rows import Knowns, broadcast
from thali.engines.ascent.state import State
from thali.structures.statistics import Statistics


@dataclass
class PointState(State):
    """A state whose ``frequencies`` are ``Counts``; ``rng`` is for solvers that need chance."""

    solver: str = "best"
    side_by_side: bool = False  # blocks of rows
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def local_step(self, passes: int = PASSES) -> Statistics:
        """Every row in turn, or none if ``passes`` is 0; features without rows leave."""
        if passes == 0:
            found = self.backend.tally(self.data, self.rows)
        else:
            given = broadcast(self.knowns(), self.rows, self.data.masked)
            found = self.backend.hard_step(self.rng, self.data, self.rows, given, self.side_by_side)
        used = np.flatnonzero(found.counts > 0.5)
        if len(used) < self.k:
            self.take(used)
            found = found.taken(used)
        return found

    def knowns(self) -> Knowns:
        """What the rows are given."""
        law: Any = self.features
        prior: Counts = self.frequencies  # type: ignore[assignment]
        return Knowns(
            law,
            law.gains(self.hyper["sigma_a"]),
            prior,
            prior.prior.tables(self.rows.n),
            self.hyper["sigma_x"],
            self.solver,
        )

    def fit_prior(self, found: Statistics) -> None:
        """α, and what else the prior has, at their best."""
        prior: Counts = self.frequencies  # type: ignore[assignment]
        self.hyper = prior.best(self.laws, self.hyper, found.counts, found.n)
        self.frequencies = prior.at(self.hyper)  # type: ignore[assignment]

    @property
    def reported(self) -> float:
        """The bound with the left-ordered probability of Z."""
        prior: Counts = self.frequencies  # type: ignore[assignment]
        return self.bound + prior.spread(self.rows.products(), self.rows.n)
