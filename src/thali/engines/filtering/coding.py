r"""The rows that a search or filter which was stopped did not come to: their bits, all at once.

Given the features of the rows so far, E[A] = M ZᵀX, each row to come gets bits such that no flip of
one raises its log density plus their log odds log m_k/(n − m_k) in the n rows so far. No row opens
a feature, and E[A] is taken for A: it is a way to end in a moment, not a step of the method.
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
    m = particles.m[p, :k]
    penalty = 2.0 * sigma_x**2 * np.log((rows - m + 0.5) / (m + 0.5))
    Z = np.zeros((len(X), k), np.uint8)
    flip_rows(Z, X @ A.T, A @ A.T, penalty)
    return Z.astype(bool)
