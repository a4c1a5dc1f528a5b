"""Sums over all partitions of n rows, from potentials of their clusters' sizes."""

from functools import lru_cache

import numpy as np
from scipy.special import gammaln


@lru_cache(maxsize=64)  # the log probability of every sweep asks for the same ones
def sums_of(potentials: bytes) -> np.ndarray:
    """log Z_0 … log Z_N of λ_1 … λ_N."""
    from thali.kernels.partition_sums import log_sums

    own = np.frombuffer(potentials)
    found = np.asarray(log_sums(own, gammaln(np.arange(len(own) + 1.0) + 1.0)))
    found.flags.writeable = False
    return found


def drawn_size_counts(rng: np.random.Generator, potentials: np.ndarray, count: int) -> np.ndarray:
    """Size counts of so many independent draws, (count, N)."""
    from thali.kernels.partition_sums import draw_size_counts

    log_factorial = gammaln(np.arange(len(potentials) + 1.0) + 1.0)
    sums = sums_of(potentials.tobytes()).copy()
    return np.asarray(draw_size_counts(rng, potentials, sums, log_factorial, count))


def log_choose(n: int, i: np.ndarray) -> np.ndarray:
    """log C(n, i)."""
    return np.asarray(gammaln(n + 1.0) - gammaln(i + 1.0) - gammaln(n - i + 1.0))


def expected_sizes(potentials: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """E[m_i]."""
    n = len(potentials)
    i = np.arange(1, n + 1)
    return np.asarray(np.exp(log_choose(n, i) + potentials + sums[n - i] - sums[n]))


def expected_pairs(potentials: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """E[m_i m_j]: ordered pairs of disjoint clusters, and on the diagonal E[m_i] more."""
    n = len(potentials)
    i = np.arange(1, n + 1)
    rest = n - i[:, None] - i
    own = potentials - gammaln(i + 1.0)
    inside = np.maximum(rest, 0)
    logs = own[:, None] + own + gammaln(n + 1.0) - gammaln(inside + 1.0) + sums[inside] - sums[n]
    pairs = np.where(rest >= 0, np.exp(np.where(rest >= 0, logs, 0.0)), 0.0)
    return np.asarray(pairs + np.diag(expected_sizes(potentials, sums)))
