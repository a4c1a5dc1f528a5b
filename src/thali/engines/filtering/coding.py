r"""The rows that a search or filter which was stopped did not come to: their bits, all at once.

Given the features of the rows so far, bits of each row to come are turned on, from none, while a
flip of one raises its log density plus the log odds of the bits, (m_k + ½)/(n − m_k + ½) in the n
rows so far. No row opens a feature, and E[A] = M ZᵀX is taken for A, or the best Y for Y: it is a
way to end in a moment, not a step of the method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from thali.kernels.particle_rows import Particles


def coded(X: np.ndarray, particles: Particles, p: int, rows: int, sigma_x: float) -> np.ndarray:
    """The bits of X's rows given the features of particle p, which has seen ``rows`` others."""
    from thali.kernels.row_fits import flip_rows

    k = int(particles.k[p])
    A = particles.M[p, :k, :k] @ particles.T[p, :k]
    penalty = -2.0 * sigma_x**2 * log_odds(particles.m[p, :k], rows)
    Z = np.zeros((len(X), k), np.uint8)
    flip_rows(Z, X @ A.T, A @ A.T, penalty)
    return Z.astype(bool)


def coded_by_counts(
    X: np.ndarray, Y: np.ndarray, table: np.ndarray, m: np.ndarray, rows: int
) -> np.ndarray:
    """The bits of binary rows given Y, where ``table`` has log P(x | c) by the count c and x."""
    from thali.kernels.row_fits import flip_kept_rows

    Z = np.zeros((len(X), len(Y)), np.uint8)
    flip_kept_rows(Z, X, np.ascontiguousarray(Y, np.uint8), table, log_odds(m, rows))
    return Z.astype(bool)


def log_odds(m: np.ndarray, rows: int) -> np.ndarray:
    """Of a feature that m of so many rows have, half a row added to either side."""
    return np.asarray(np.log((m + 0.5) / (rows - m + 0.5)))
