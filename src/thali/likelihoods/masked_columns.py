r"""The linear-Gaussian likelihood column by column, where entries of X are missing.

With o the observed rows of column d and M_d = (Z_oᵀZ_o + rI)⁻¹:

    a_d | x_o, Z ~ N(M_d Z_oᵀx_o, σ_x² M_d),    log p(x_o | Z) as in ``kernels/masked_columns.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.data import Augmented, Data

if TYPE_CHECKING:
    from thali.kernels.masked_rows import Gaps


def gaps_of(data: Data) -> Gaps | None:
    """Where entries of what was given are missing, as kernels read it; None where none are.

    >>> found = gaps_of(Data.of([[1.0, np.nan], [2.0, 3.0], [np.nan, 4.0]]))
    >>> found.first.tolist(), found.columns.tolist(), found.squares
    ([0, 1, 1, 2], [1, 0], 30.0)
    """
    given = data.given
    return None if given.observed is None else given.once("gaps", lambda: _gaps(given))


def _gaps(data: Data) -> Gaps:
    from thali.kernels.masked_rows import Gaps

    rows, columns = data.where_missing
    first = np.zeros(data.n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=data.n), out=first[1:])
    lists = first, np.ascontiguousarray(columns, np.uint64)
    return Gaps(data.seen, *lists, *data.patterns, data.total_square)


def completed(
    rng: np.random.Generator, data: Data, Z: np.ndarray, A: np.ndarray, sigma_x: float
) -> Data:
    """The data with every missing entry drawn from N(z_n a_d, σ_x²), row by row."""
    from thali.kernels.masked_columns import fill

    given, gaps = data.given, gaps_of(data)
    if gaps is None:
        return given
    X = np.array(given.X)
    fill(rng, X, gaps, np.ascontiguousarray(Z, np.uint8), np.ascontiguousarray(A), sigma_x)
    return Augmented(X, source=given)


def solve(
    data: Data, Z: np.ndarray, r: float, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A (K, D), and ½ log|M⁻¹| and ‖L⁻¹Z_oᵀx_o‖² of each column."""
    from thali.kernels.masked_columns import columns

    if Z.shape[1] == 0:
        return np.zeros((0, data.d)), np.zeros(data.d), np.zeros(data.d)
    real = Z.astype(float)
    T = np.ascontiguousarray(real.T @ data.zeroed)
    return columns(np.ascontiguousarray(Z, np.uint8), T, *data.patterns, r, noise)


def solve_amounts(data: Data, W: np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As ``solve``, A being its mean, where amounts W stand for the bits Z.

    Real numbers do not cancel, so W_oᵀW_o is a sum over the observed rows: N·K² a pattern.
    """
    k, d = W.shape[1], data.d
    A, log_dets, explained = np.zeros((k, d)), np.zeros(d), np.zeros(d)
    if k == 0:
        return A, log_dets, explained
    of_column = data.patterns.of_column
    first = np.unique(of_column, return_index=True)[1]
    seen = data.seen[:, first].T.astype(float)
    M = np.stack([seen @ (W[:, [i]] * W) for i in range(k)], axis=1) + r * np.eye(k)
    L = np.linalg.cholesky(M)
    inverse, half_log = np.linalg.inv(L), np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    T = W.T @ data.zeroed
    for p, back in enumerate(inverse):
        mine = np.flatnonzero(of_column == p)
        half = back @ T[:, mine]
        A[:, mine] = back.T @ half
        explained[mine] = np.square(half).sum(axis=0)
    log_dets[:] = half_log[of_column]
    return A, log_dets, explained


def log_evidence(
    data: Data, log_dets: np.ndarray, explained: np.ndarray, k: int, sigma_x: float, sigma_a: float
) -> float:
    """log P(observed entries | Z) from what ``solve`` found."""
    d, seen = data.d, float(data.n * data.d - data.missing)
    return float(
        -0.5 * seen * np.log(2.0 * np.pi)
        - (seen - k * d) * np.log(sigma_x)
        - k * d * np.log(sigma_a)
        - log_dets.sum()
        - 0.5 * (data.total_square - explained.sum()) / sigma_x**2
    )


def variances(data: Data, Z: np.ndarray, r: float) -> np.ndarray:
    """z_n M_d z_nᵀ of the missing entries, column after column: the features' part, over σ_x²."""
    from thali.kernels import masked_columns as kernel

    of_column, start, rows = data.patterns
    found = kernel.variances(np.ascontiguousarray(Z, np.uint8), start, rows, r)
    return np.concatenate([found[start[p] : start[p + 1]] for p in of_column])
