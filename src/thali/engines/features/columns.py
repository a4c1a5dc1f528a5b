r"""Moves on whole columns of Z, and the prior of one column, as they need it.

λ_m for m = 0 … N;    weights C(N, m) e^{λ_m}, m ≥ 1, of a column with m ones
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from thali.engines.features.state import FeatureState
from thali.structures.features import FeatureTables, potentials

if TYPE_CHECKING:
    from thali.kernels.gaussian_row import Scales


def move_columns(
    rng: np.random.Generator,
    state: FeatureState,
    tables: FeatureTables,
    scales: Scales,
    attempts: int,
) -> None:
    """Attempts at changes of whole columns; M and G are left to the sweep to make afresh."""
    from thali.kernels import column_moves as kernel

    prior = kernel.ColumnPrior(
        *column_tables(tables, state.data.n), tables.capacity, tables.row_potentials
    )
    state.rows, state.n_components, _ = kernel.column_moves(
        rng, state.X, state.rows, state.n_components, prior, scales, attempts, kernel.SHARES
    )


def column_tables(tables: FeatureTables, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """λ_m for m = 0 … n (λ_0 = 0), cumulative weights C(n, m) e^{λ_m} from m = 1 on in units of the
    largest, and the logarithm of their sum: the prior of one column.

    >>> from thali import IBP
    >>> potential, _, log_mass = column_tables(IBP(alpha=2.0).tables(2), 2)
    >>> [round(float(np.exp(x)), 6) for x in (*potential[1:], log_mass)]  # 2/2, 2/2; 2 H_2
    [1.0, 1.0, 3.0]
    """
    potential = potentials(tables)
    log_weight = potential[1:] + _log_binomials(n)
    top = log_weight.max()
    sums = np.cumsum(np.exp(log_weight - top))
    return potential, sums, float(top + np.log(sums[-1]))


@lru_cache(maxsize=4)
def _log_binomials(n: int) -> np.ndarray:
    """log C(n, m) for m = 1 … n."""
    m = np.arange(1.0, n + 1.0)
    return np.asarray(gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0))
