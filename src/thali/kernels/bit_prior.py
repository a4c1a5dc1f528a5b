r"""The prior's part of one bit's log odds, in the two ways that an uncollapsed sweep needs.

By counts: log P(z=1) − log P(z=0) = λ_{m+1} − λ_m + θ_{F+1} − θ_F, where m ≥ 1 other rows have the
feature and the row has F others. A feature that no other row has is the row's own and not for this
step (NaN). The part of λ depends on the column and that of θ on the row: ``prior_log_odds`` has the
first, ``row_potentials.row_step`` the second, which only a prior with θ needs.

By frequencies (the slice step): log π − log(1−π) for every feature; and since the slice level s is
uniform on (0, π*), π* the smallest frequency in use (or 1), a bit that decides whether its feature
is in use at all is weighted by 1/π* besides.

By frequencies, with rows in an order (blocks of rows): log π − log(1−π), for the rows that come
after the first one in that order that has the feature. That row and those before it are held as
they are, so every feature stays in use whatever the others do, and no row asks for another.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel


class RowOrder(NamedTuple):
    """Where rows are in an order of all, and where in it each feature is first met."""

    place: np.ndarray  # (N,) int64
    first: np.ndarray  # (K,) int64


class BitPrior(NamedTuple):
    """``pi`` is empty where bits follow the counts, and where rows have an ``order``."""

    log_odds: np.ndarray  # (N,), by count; of each feature, (K,), where rows have an order
    m: np.ndarray  # (K,) int64, rows that have each feature, changed as bits change
    pi: np.ndarray  # (K,) or (0,)
    theta: np.ndarray | None = None  # θ_0, θ_1, …; None where θ = 0
    order: RowOrder | None = None


@helper
def prior_log_odds(prior, k, z):
    """log P(z_k=1) − log P(z_k=0) given the other rows, but for θ; NaN for a row's own feature."""
    if prior.order is not None:
        return prior.log_odds[k]
    others = prior.m[k] - z
    if prior.pi.shape[0] == 0:
        return prior.log_odds[others] if others > 0 else np.nan
    pi = prior.pi[k]
    value = np.log(pi) - np.log1p(-pi)
    if others == 0:
        smallest = 1.0
        for i in range(prior.m.shape[0]):
            if i != k and prior.m[i] > 0:
                smallest = min(smallest, prior.pi[i])
        value += np.log(smallest) - np.log(min(smallest, pi))
    return value


@helper
def is_held(order, n, k):
    """Whether row n keeps its bit of feature k, being no later than the first that has it."""
    if order is None:
        return False
    return order.place[n] <= order.first[k]


@kernel
def first_met(Z, place):
    """How many rows have each feature, and the earliest place of one, the largest int if none."""
    n_rows, k = Z.shape
    m = np.zeros(k, np.int64)
    first = np.full(k, np.iinfo(np.int64).max)
    for n in range(n_rows):
        for i in range(k):
            m[i] += Z[n, i]
            if Z[n, i] and place[n] < first[i]:
                first[i] = place[n]
    return m, first


@helper
def accepts(rng, log_ratio):
    """True with probability 1 / (1 + e^{−log_ratio}); no number is drawn where rounding decides."""
    if log_ratio > 37.0:
        return True
    if log_ratio < -37.0:
        return False
    return rng.random() * (1.0 + np.exp(-log_ratio)) < 1.0
