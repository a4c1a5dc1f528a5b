"""Posterior moments of X = ZA + E with half-normal A, z_nk ~ Bernoulli(π_k), π_k ~ Beta(α/K, 1), on
tiny data: all Z, columns in order, and each column of A on a grid. Nothing here imports the
library.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import gammaln, logsumexp

from oracles.features import Floats


@dataclass(frozen=True)
class Exact:
    """Means given X; ``covariance`` is of the entries of each column of A, (D, K, K)."""

    on: Floats  # P(z = 1), (N, K)
    features: Floats  # E[A], (K, D)
    covariance: Floats
    fitted: Floats  # E[ZA], (N, D)
    frequencies: Floats  # E[π], (K,)


def log_prior(Z: Floats, alpha: float) -> float:
    n, k = Z.shape
    m, a = Z.sum(axis=0), alpha / k
    return float((np.log(a) + gammaln(m + a) + gammaln(n - m + 1.0) - gammaln(n + 1.0 + a)).sum())


def posterior(
    X: Floats, k: int, alpha: float, sigma_x: float, sigma_a: float, nodes: int = 80
) -> Exact:
    X = np.asarray(X, float)
    n, d = X.shape
    u, w = leggauss(nodes)
    reach = np.nanmax(X, initial=0.0) + 8.0 * max(sigma_x, sigma_a)
    axis, weight = 0.5 * reach * (u + 1.0), 0.5 * reach * w
    a = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    log_w = np.log(np.stack(np.meshgrid(*[weight] * k, indexing="ij"), -1).reshape(-1, k)).sum(1)
    log_w = log_w + stats.halfnorm.logpdf(a, scale=sigma_a).sum(axis=1)
    logs, found = [], []
    for bits in product((0.0, 1.0), repeat=n * k):
        Z = np.array(bits).reshape(n, k)
        log_p, first, second = log_prior(Z, alpha), np.zeros((k, d)), np.zeros((d, k, k))
        for c in range(d):
            seen = ~np.isnan(X[:, c])
            error = stats.norm.logpdf(X[seen, c], a @ Z[seen].T, sigma_x).sum(axis=1) + log_w
            total = logsumexp(error)
            p = np.exp(error - total)
            log_p += total
            first[:, c] = p @ a
            second[c] = (a * p[:, None]).T @ a
        logs.append(log_p)
        found.append(
            (Z, first, second, Z @ first, (Z.sum(axis=0) + alpha / k) / (n + 1 + alpha / k))
        )
    p = np.exp(np.array(logs) - logsumexp(logs))
    on, first, second, fitted, frequencies = (
        np.tensordot(p, np.array(each), axes=1) for each in zip(*found, strict=True)
    )
    covariance = second - first.T[:, :, None] * first.T[:, None, :]
    return Exact(on, first, covariance, fitted, frequencies)
