r"""The prior's part of one bit's log odds, in the two ways that an uncollapsed sweep needs.

By counts: log P(z=1) − log P(z=0) = λ_{m+1} − λ_m + θ_{F+1} − θ_F, where m ≥ 1 other rows have the
feature and the row has F others. A feature that no other row has is the row's own and not for this
step (NaN). The part of λ depends on the column and that of θ on the row: ``prior_log_odds`` has the
first, ``row_potentials.row_step`` the second, which only a prior with θ needs.

By frequencies (the slice step): log π − log(1−π) for every feature; and since the slice level s is
uniform on (0, π*), π* the smallest frequency in use (or 1), a bit that decides whether its feature
is in use at all is weighted by 1/π* besides.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper


class BitPrior(NamedTuple):
    """``pi`` is empty where bits follow the counts."""

    log_odds: np.ndarray  # (N,)
    m: np.ndarray  # (K,) int64, rows that have each feature, changed as bits change
    pi: np.ndarray  # (K,) or (0,)
    theta: np.ndarray | None = None  # θ_0, θ_1, …; None where θ = 0


@helper
def prior_log_odds(prior, k, z):
    """log P(z_k=1) − log P(z_k=0) given the other rows, but for θ; NaN for a row's own feature."""
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
def accepts(rng, log_ratio):
    """True with probability 1 / (1 + e^{−log_ratio}); no number is drawn where rounding decides."""
    if log_ratio > 37.0:
        return True
    if log_ratio < -37.0:
        return False
    return rng.random() * (1.0 + np.exp(-log_ratio)) < 1.0
