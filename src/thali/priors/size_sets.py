r"""Sums over the sets of sizes that the clusters of n rows can have, for priors that are no product
over clusters.

    log P(partition) = Σ_i λ_i m_i + w·φ(m) − log 𝒵

There are n!/∏ (i!)^{m_i} m_i! partitions with size counts m. Up to 60 rows all sets are summed
over: there are 966 467 of them, far fewer than partitions. Beyond, draws of a linear prior stand
for them, with weights.
"""

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln, logsumexp

from thali.priors.checked_features import given_by, weighed
from thali.priors.partition_sums import drawn_size_counts, expected_pairs, expected_sizes, sums_of

SizeFeatures = Callable[[np.ndarray], Any]

OWNER = "FlexiblePartition"
EVERY_SET = 60  # rows up to which all sets are summed over
AT_ONCE = 10_000  # sets whose counts are written out together
DRAWN = 100_000  # sets that are drawn where there are more
LEAST = 50.0  # draws that weighted ones must be worth
EQUAL = 0.25  # of all draws, of all laws alike: some with any number of clusters
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
                found.append(given_by(OWNER, function, m))
        try:
            return np.stack(found)
        except ValueError as error:
            raise ValueError(f"{OWNER}: features must give as many numbers for any m.") from error


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


def drawn_size_sets(
    rng: np.random.Generator, laws: list[np.ndarray], shares: np.ndarray, count: int
) -> SizeSets:
    """Draws of linear priors with these potentials; they stand for all partitions by weights.

    Of each law its share of the draws, and a part of all in equal numbers. Each draw is weighed
    against all laws together.
    """
    n = len(laws[0])
    many = (count * ((1.0 - EQUAL) * shares + EQUAL / len(laws))).astype(int) + 1
    parts = []
    for own, most in zip(laws, many, strict=True):
        for begin in range(0, most, AT_ONCE):
            drawn = drawn_size_counts(rng, own, min(AT_ONCE, most - begin))
            parts.append(sparse.csr_array(drawn))
    counts = sparse.csr_array(sparse.vstack(parts))
    logs = [
        np.log(most) + counts @ own - sums_of(own.tobytes())[n]
        for own, most in zip(laws, many, strict=True)
    ]
    return SizeSets(counts, -logsumexp(np.array(logs), axis=0), False)


def shares_of_laws(laws: list[np.ndarray], sets: SizeSets, logs: np.ndarray) -> np.ndarray:
    """How much of the weight of draws is where each law has its own."""
    own = np.array([sets.counts @ law - sums_of(law.tobytes())[len(law)] for law in laws])
    own -= logsumexp(own, axis=0)
    return np.asarray(np.exp(own) @ np.exp(logs - logsumexp(logs)))


def tilted(potentials: np.ndarray) -> list[np.ndarray]:
    """The potentials, and λ_i + a for numbers a by which the number of clusters goes from the
    fewest to the most, in steps of two of its standard deviations, so that none is left out."""
    found = [potentials]
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
    """Sets of sizes, the log probability of each, and log 𝒵: all sets, or many draws.

    These are of the linear part of the prior, and of it with other numbers of clusters; where few
    of them count, a warning says so.
    """
    own, n = np.array(potentials), len(potentials)
    if n <= EVERY_SET:
        sets, phi = all_size_sets(n), all_features(function, n)
    else:
        rng, laws = np.random.default_rng(0), tilted(own)
        shares = np.full(len(laws), 1.0 / len(laws))
        for count in (DRAWN // 10, DRAWN):  # first to see where the weight is
            sets = drawn_size_sets(rng, laws, shares, count)
            phi = sets.features(function)
            logs = sets.log_weights(own, weighed(OWNER, phi, np.array(weights)))
            if logs.max() > -np.inf:
                shares = shares_of_laws(laws, sets, logs)
    logs = sets.log_weights(own, weighed(OWNER, phi, np.array(weights)))
    total = float(logsumexp(logs))
    if total == -np.inf:
        raise ValueError(
            f"{OWNER}: no partition of {n} rows has any probability: potentials and features "
            "exclude them all."
        )
    shares = np.exp(logs - total)
    worth = 1.0 / float(np.square(shares).sum())
    if not sets.exact and worth < LEAST:
        warnings.warn(
            f"{OWNER}: what the features favour is far from what the potentials alone do, so that "
            f"of {DRAWN:,} draws only some {worth:.0f} count: what is said of {n} rows is rough. "
            "Put more of it into the potentials.",
            RuntimeWarning,
            stacklevel=2,
        )
    return sets, logs - total, total
