r"""What rows are given where q(Z) is a point, and what their solvers promise.

A row's objective is submodular, and the solvers' guarantees hold, if no two features have
Σ_d E[a_kd a_ld] < 0 over the columns that the row shows; for features of any sign that may be so or
not, and the solvers are then good tries without a promise.

Rows follow one another, each knowing what those before it took, or pieces of them are worked on
side by side (``thali/backends/hard_rounds.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thali.backends.base import HardGlobals, Moments
from thali.backends.rows import Rows
from thali.engines.ascent.counts import Counts
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.structures.features import FeatureTables

SOLVERS = ("best", "local_search", "double_greedy", "randomized_double_greedy", "exact")
SHARES = {"local_search": 1 / 3, "double_greedy": 1 / 3, "randomized_double_greedy": 1 / 2}


class Knowns(NamedTuple):
    """What is known when rows are looked at: features, tables of the prior, and how to solve."""

    law: FeaturePosterior
    gains: np.ndarray  # what each feature's law costs
    prior: Counts
    tables: FeatureTables
    sigma_x: float
    solver: str


def guarantee(law: FeaturePosterior, masked: bool, solver: str) -> float:
    """The share of the best that a row is sure to reach, counted from the worst.

    That of the randomized solver is an average. Refused where rows may not be submodular, but for
    "exact", which does not need it.
    """
    if solver == "exact":
        return 1.0
    pairs = law.grams() if masked else law.gram()[None]
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


def broadcast(knowns: Knowns, rows: Rows, masked: bool) -> HardGlobals:
    """What is known, as the arrays that rows are given."""
    tables = knowns.tables
    return HardGlobals(
        Moments.of(knowns.law, masked),
        knowns.sigma_x,
        tables.log_odds,
        tables.new_log_weight + knowns.gains,
        knowns.prior.crowd(rows.k, tables.capacity),
        SOLVERS.index(knowns.solver),
        lambda counts: level(knowns, counts, rows.n),
    )


def level(knowns: Knowns, counts: np.ndarray, n: int) -> float:
    """What the bound has of the counts alone: the prior, and the laws of features in use."""
    return knowns.prior.gain(counts, n, 0.0) + float(knowns.gains[counts > 0.5].sum())
