r"""One row of a particle filter where entries are missing: plain NumPy, column by column, no reuse.

Each column d has M_d = (Z_oᵀZ_o + rI)⁻¹ and μ_d = M_d Z_oᵀx_o of the rows o observed there, all
made afresh from the rows so far, and what a row shows has the density

    ∏_d N(x_d; zμ_d, σ_x²(1 + z M_d zᵀ + j/r)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

LEAST = 1e-4  # of the probability with which a bit is proposed
TIE = 1e-9


@dataclass
class Columns:
    """What the rows so far say of every column: M (D, K, K) and μ (K, D)."""

    M: NDArray[np.float64]
    mu: NDArray[np.float64]


def columns(Z: NDArray, X: NDArray, sigma_x: float, sigma_a: float) -> Columns:
    k, d = Z.shape[1], X.shape[1]
    M, mu = np.zeros((d, k, k)), np.zeros((k, d))
    for c in range(d):
        seen = ~np.isnan(X[:, c])
        M[c] = np.linalg.inv(Z[seen].T @ Z[seen] + (sigma_x / sigma_a) ** 2 * np.eye(k))
        mu[:, c] = M[c] @ Z[seen].T @ X[seen, c]
    return Columns(M, mu)


def log_density(
    x: NDArray, z: NDArray, new: int, given: Columns, sigma_x: float, sigma_a: float
) -> float:
    """Of what the row shows, with ``new`` features of its own."""
    total = 0.0
    for c in np.flatnonzero(~np.isnan(x)):
        V = sigma_x**2 * (1.0 + z @ given.M[c] @ z) + new * sigma_a**2
        total -= 0.5 * np.log(2 * np.pi * V) + 0.5 * (x[c] - z @ given.mu[:, c]) ** 2 / V
    return total


def mode(x: NDArray, odds: NDArray, given: Columns, sigma_x: float) -> NDArray:
    """Flip the best bit until none pays, V left out of account."""
    z, seen = np.zeros(len(odds)), ~np.isnan(x)
    mu, precision = given.mu[:, seen], 0.5 / sigma_x**2
    for _ in range(2 * len(z)):
        sign, e = 1.0 - 2.0 * z, x[seen] - z @ mu
        gain = sign * odds + precision * (2.0 * sign * (mu @ e) - (mu**2).sum(axis=1))
        best, which = 0.0, -1
        for i, value in enumerate(gain):
            if value > best + TIE:
                best, which = value, i
        if which < 0:
            break
        z[which] = 1.0 - z[which]
    return z


def propose(
    u: NDArray, Z: NDArray, X: NDArray, x: NDArray, alpha: float, sigma_x: float, sigma_a: float
) -> tuple[NDArray, int, float]:
    """Bits, new features and the log weight of the next row under the IBP, from uniform numbers."""
    given, n, m = columns(Z, X, sigma_x, sigma_a), len(Z) + 1, Z.sum(axis=0)
    odds, log_w = np.log(m / (n - m)), np.log(alpha / n)
    z = mode(x, odds, given, sigma_x)

    def density(z: NDArray, j: int) -> float:
        return log_density(x, z, j, given, sigma_x, sigma_a)

    def value(z: NDArray) -> float:
        return float(np.logaddexp(density(z, 0), log_w + density(z, 1)))

    log_ratio = 0.0
    for i in range(len(z)):
        on, off = z.copy(), z.copy()
        on[i], off[i] = 1.0, 0.0
        chance = 1.0 / (1.0 + np.exp(-np.clip(value(on) - value(off) + odds[i], -600, 600)))
        chance, prior = np.clip(chance, LEAST, 1.0 - LEAST), m[i] / n
        taken = u[i] < chance
        z = on if taken else off
        log_ratio += np.log(prior / chance) if taken else np.log((1.0 - prior) / (1.0 - chance))
    j = np.arange(40)
    logs = j * log_w - gammaln(j + 1.0) - alpha / n + np.array([density(z, int(i)) for i in j])
    total = logsumexp(logs)
    new = int(np.searchsorted(np.cumsum(np.exp(logs - total)), u[len(z)]))
    return z, new, float(log_ratio + total)
