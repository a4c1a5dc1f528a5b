r"""Moves on whole columns of Z, and the prior of one column, as they need it.

λ_m for m = 0 … N;    weights C(N, m) e^{λ_m}, m ≥ 1, of a column with m ones
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from thali.data import Data
from thali.engines.features.state import FeatureState, kernel_matrix
from thali.structures.features import FeatureTables, potentials

if TYPE_CHECKING:
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.maintained_rows import Rows


def move_columns(
    rng: np.random.Generator,
    state: FeatureState,
    tables: FeatureTables,
    scales: Scales,
    attempts: int,
) -> None:
    """Attempts at changes of whole columns; M and G are left to the sweep to make afresh."""
    state.rows, state.n_components = attempt(
        rng, state.X, state.rows, state.n_components, tables, scales, attempts
    )


def moved_bits(
    rng: np.random.Generator,
    bits: np.ndarray,
    data: Data,
    tables: FeatureTables,
    scales: Scales,
    attempts: int,
) -> np.ndarray:
    """Z after such attempts, where no arrays are kept along with it; A must be drawn anew.

    They leave P(Z | X) invariant, A integrated out; with A then drawn given Z and X, P(Z, A | X).
    """
    from thali.kernels.maintained_rows import rows_of

    X = kernel_matrix(data)
    rows, k = attempt(rng, X, rows_of(bits, X), bits.shape[1], tables, scales, attempts)
    return np.ascontiguousarray(rows.Z[:, :k])


def attempt(
    rng: np.random.Generator,
    X: np.ndarray,
    rows: Rows,
    k: int,
    tables: FeatureTables,
    scales: Scales,
    attempts: int,
) -> tuple[Rows, int]:
    """The arrays of ``kernels.maintained_rows`` and K after so many attempts."""
    from thali.kernels import column_moves as kernel

    prior = kernel.ColumnPrior(
        *column_tables(tables, len(X)), tables.capacity, tables.row_potentials
    )
    rows, k, _ = kernel.column_moves(rng, X, rows, k, prior, scales, attempts, kernel.SHARES)
    return rows, int(k)


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
