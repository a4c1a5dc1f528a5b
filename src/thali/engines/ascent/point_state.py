r"""Where maximization-expectation is: q(Z, A) = δ(Z) q(A), and what solvers of rows promise.

    log P(X) ≥ E[log P(X | Z, A)] + log P(Z) + E[log p(A)] + H[q(A)]

ν is 0 or 1, and the frequencies of mean-field states are integrated out (``counts.py``): features
that no row has are not there, and cost nothing. Rows follow one another, each knowing what those
before it took, or pieces of them are worked on side by side (``thali/backends/hard_rounds.py``).

A row's objective is submodular, and the solvers' guarantees hold, if no two features have
Σ_d E[a_kd a_ld] < 0 over the columns that the row shows; for features of any sign that may be so or
not, and the solvers are then good tries without a promise.
"""

from dataclasses import dataclass, field

import numpy as np

from thali.backends.base import PASSES, HardGlobals, Moments
from thali.engines.ascent.counts import Counts
from thali.engines.ascent.state import AscentState, iterate
from thali.engines.base import inferred
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.structures.statistics import Statistics

SOLVERS = ("best", "local_search", "double_greedy", "randomized_double_greedy", "exact")
SHARES = {"local_search": 1 / 3, "double_greedy": 1 / 3, "randomized_double_greedy": 1 / 2}


@dataclass
class PointState(AscentState):
    """A state whose rows have a feature or not; ``rng`` is for solvers that need chance."""

    frequencies: Counts
    solver: str = "best"
    side_by_side: bool = False  # blocks of rows
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def local_step(self, passes: int = PASSES) -> Statistics:
        """Every row in turn, or none if ``passes`` is 0; features without rows leave."""
        if passes == 0:
            found = self.backend.tally(self.data, self.rows)
        else:
            found = self.backend.hard_step(self.rng, self.data, self.rows, self.globals())
        used = np.flatnonzero(found.counts > 0.5)
        if len(used) < self.k:
            self.take(used)
            found = found.taken(used)
        return found

    def globals(self) -> HardGlobals:
        """What the rows are given."""
        prior, n = self.frequencies, self.rows.n
        tables = prior.prior.tables(n)
        sigma_x, sigma_a = self.sigmas
        gains = self.features.gains(sigma_a)  # what each feature costs

        def level(counts: np.ndarray) -> float:
            return prior.gain(counts, n, np.nan) + float(gains[counts > 0.5].sum())

        return HardGlobals(
            Moments.of(self.features, self.data.masked),
            sigma_x,
            tables.log_odds,
            tables.new_log_weight + gains,
            prior.by_number(self.rows.k, tables.capacity),
            SOLVERS.index(self.solver),
            level,
            self.side_by_side,
        )

    def fit_prior(self, found: Statistics) -> None:
        """α, and what else the prior has, at their best."""
        own = self.model.own_values("prior", self.hyper)
        own = self.frequencies.best(inferred(self.model.prior), own, found.counts, found.n)
        self.prior_hyper.update(own)
        self.frequencies = self.frequencies.at(own)

    @property
    def reported(self) -> float:
        """The bound with the left-ordered probability of Z."""
        return self.bound + self.frequencies.log_orders(self.rows.products(), self.rows.n)

    def reported_of(self, order: np.ndarray) -> float:
        gram = self.rows.products()[np.ix_(order, order)]
        return self.bound + self.frequencies.log_orders(gram, self.rows.n)

    def advance(self) -> None:
        """Rows as they were, where columns that came to be equal, or to have no row, cost more in
        orders than the bound gained; the rest is then fitted to them all the same."""
        before, kept = self.reported, self.copy()
        iterate(self)
        if self.reported < before:
            self.__dict__.update(kept.__dict__)
            iterate(self, passes=0)


def guarantee(features: FeaturePosterior, masked: bool, solver: str) -> float:
    """The share of the best that a row is sure to reach, counted from the worst.

    That of the randomized solver is an average. Refused where rows may not be submodular, but for
    "exact", which does not need it.
    """
    if solver == "exact":
        return 1.0
    pairs = features.grams() if masked else features.gram()[None]
    k = pairs.shape[1]
    worst = np.where(np.eye(k, dtype=bool), np.inf, pairs.min(axis=0, initial=np.inf))
    if k > 1 and worst.min() < 0.0:
        i, j = divmod(int(worst.argmin()), k)
        raise ValueError(
            f"Features {i} and {j} have a negative product ({worst.min():.3g}): rows are not "
            "submodular, and the solvers' guarantees do not hold. They do for "
            "NonnegativeLinearGaussian; solver='exact' needs none."
        )
    return SHARES.get(solver, 1 / 3)
