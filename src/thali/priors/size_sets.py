r"""Sums over the sets of sizes that the clusters of n rows can have, for priors that are no product
over clusters.

    log P(partition) = Σ_i λ_i m_i + w·φ(m) − log 𝒵

There are n!/∏ (i!)^{m_i} m_i! partitions with size counts m. Up to 60 rows all sets are summed
over: there are 966 467 of them, far fewer than partitions. Beyond, draws of a linear prior stand
for them, with weights.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln, logsumexp

from thali.priors.partition_sums import drawn_size_counts, expected_pairs, expected_sizes, sums_of

SizeFeatures = Callable[[np.ndarray], Any]

EVERY_SET = 60  # rows up to which all sets are summed over
AT_ONCE = 10_000  # sets whose counts are written out together
DRAWN = 100_000  # sets that are drawn where there are more
NEARER = 3  # rounds in which a linear prior near to one with features is found
ELSEWHERE = 0.25  # of all draws, from priors with other numbers of clusters
FARTHEST = 100.0  # what is added to their potentials at most


class SizeSets(NamedTuple):
    """Size counts m of sets of sizes, (S, n), and the log number of partitions each stands for."""

    counts: sparse.csr_array
    log_partitions: np.ndarray
    exact: bool  # all sets there are, or draws

    def log_weights(self, potentials: np.ndarray, extra: np.ndarray | float) -> np.ndarray:
        """log of what the partitions of each set weigh: λ·m and ``extra``, w·φ(m), added."""
        return np.asarray(self.log_partitions + self.counts @ potentials + extra)

    def features(self, function: SizeFeatures) -> np.ndarray:
        """φ(m) of each set, (S, F): a call for each, since φ is written for one."""
        found: list[np.ndarray] = []
        for begin in range(0, self.counts.shape[0], AT_ONCE):
            for m in self.counts[begin : begin + AT_ONCE].toarray():
                found.append(np.atleast_1d(np.asarray(function(m), float)))
        try:
            return np.stack(found)
        except ValueError as error:
            raise ValueError("features must give as many numbers for every m.") from error


@lru_cache(maxsize=2)
def all_size_sets(n: int) -> SizeSets:
    """Every set of sizes of n rows."""
    if n > EVERY_SET:
        raise ValueError(
            f"There are too many sets of sizes of {n} rows to list them: ask for up to {EVERY_SET}."
        )
    from thali.kernels.size_sets import size_sets

    ways = numbers_of_sets(n)
    starts, columns, values = size_sets(n, int(ways[n]), int(ways[:n].sum()))
    counts = sparse.csr_array((values, columns, starts), shape=(len(starts) - 1, n))
    i = np.arange(1.0, n + 1.0)
    fewer = counts @ gammaln(i + 1.0)
    equal = counts.copy()
    equal.data = gammaln(equal.data + 1.0)
    log_partitions = gammaln(n + 1.0) - fewer - equal @ np.ones(n)
    return SizeSets(counts, np.asarray(log_partitions), True)


def numbers_of_sets(n: int) -> np.ndarray:
    """In how many ways each of 0, …, n is a sum, whatever the order of its terms.

    >>> numbers_of_sets(5).tolist()
    [1, 1, 2, 3, 5, 7]
    """
    ways = np.zeros(n + 1, np.int64)
    ways[0] = 1
    for size in range(1, n + 1):
        for rows in range(size, n + 1):
            ways[rows] += ways[rows - size]
    return ways


def drawn_size_sets(rng: np.random.Generator, potentials: np.ndarray, count: int) -> SizeSets:
    """Draws of linear priors; they stand for all partitions by weights.

    Most are of the prior with these potentials. Some are of others that differ from it in how many
    clusters they have, few to many: features may give weight to what it has no draws of. Each draw
    is weighed against all these priors together.
    """
    n = len(potentials)
    others = tilted(potentials)
    each = int(count * ELSEWHERE / max(len(others), 1))
    laws = [(potentials, count - each * len(others)), *[(other, each) for other in others]]
    parts = []
    for own, many in laws:
        for begin in range(0, many, AT_ONCE):
            drawn = drawn_size_counts(rng, own, min(AT_ONCE, many - begin))
            parts.append(sparse.csr_array(drawn))
    counts = sparse.csr_array(sparse.vstack(parts))
    logs = [np.log(many) + counts @ own - sums_of(own.tobytes())[n] for own, many in laws]
    return SizeSets(counts, -logsumexp(np.array(logs), axis=0), False)


def tilted(potentials: np.ndarray) -> list[np.ndarray]:
    """λ_i + a for numbers a by which the number of clusters goes from the fewest to the most, in
    steps of two of its standard deviations, so that none is left out."""
    found = []
    for way in (-1.0, 1.0):
        a = 0.0
        while abs(a) < FARTHEST:
            own = potentials + a
            sums = sums_of(own.tobytes())
            mean = float(expected_sizes(own, sums).sum())
            with np.errstate(invalid="ignore"):
                square = float(np.nan_to_num(expected_pairs(own, sums)).sum())
            a += way * 2.0 / np.sqrt(max(square - mean**2, 1e-6))
            found.append(potentials + np.clip(a, -FARTHEST, FARTHEST))
    return found


@lru_cache(maxsize=2)
def all_features(function: SizeFeatures, n: int) -> np.ndarray:
    """φ(m) of every set of sizes of n rows."""
    return all_size_sets(n).features(function)


@lru_cache(maxsize=8)
def weighted_sets(
    potentials: tuple[float, ...], function: SizeFeatures, weights: tuple[float, ...]
) -> tuple[SizeSets, np.ndarray, float]:
    """Sets of sizes, the log probability of each, and log 𝒵: all sets, or many draws."""
    own, w, n = np.array(potentials), np.array(weights), len(potentials)
    if n <= EVERY_SET:
        sets, phi = all_size_sets(n), all_features(function, n)
    else:
        rng = np.random.default_rng(0)
        sets = drawn_size_sets(rng, nearest_linear(rng, own, function, w), DRAWN)
        phi = sets.features(function)
    logs = sets.log_weights(own, phi @ w)
    total = float(logsumexp(logs))
    return sets, logs - total, total


def nearest_linear(
    rng: np.random.Generator, own: np.ndarray, function: SizeFeatures, weights: np.ndarray
) -> np.ndarray:
    """Potentials that have in them what a cluster more of each size adds to w·φ on average."""

    def extra(m: np.ndarray) -> float:
        return float(np.atleast_1d(np.asarray(function(m), float)) @ weights)

    near = own
    for _ in range(NEARER):
        sets = drawn_size_sets(rng, near, DRAWN // 20)
        logs = sets.log_weights(own, sets.features(function) @ weights)
        mean = np.exp(logs - logsumexp(logs)) @ sets.counts
        here = extra(mean)
        near = own + np.array([extra(mean + one) - here for one in np.eye(len(own))])
    return near
