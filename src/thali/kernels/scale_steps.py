r"""A slice step on log σ of each inferred scale, σ_x and then σ_a, features integrated out.

A scale's prior has the log density  power · log σ − inverse_square/σ² − linear · σ + const, which
is that of an inverse gamma of σ² and that of a gamma of σ alike. Each evaluation costs O(K) through
the eigenvalues of ZᵀZ (``evidence``).
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.evidence import log_evidence, spectrum

NARROWEST = 1e-15  # a slice below this share of where it is: rounding is all that is left of it
FARTHEST = 300.0  # |log σ| beyond which σ² is no number


class ScaleLaw(NamedTuple):
    """The prior of a scale; ``inferred`` is False where the scale is a number that stays."""

    power: float
    inverse_square: float
    linear: float
    inferred: bool


class ScaleLaws(NamedTuple):
    """Those of both, and where σ_x is cut off."""

    x: ScaleLaw
    a: ScaleLaw
    least: float  # σ_x is above so many times σ_a,
    lowest: float  # and above this; zeros where it is not cut off


class Seen(NamedTuple):
    """The rows: their number, their sum of squares, and D of the data."""

    n: int
    squares: float
    dimensions: float


STAYS = ScaleLaw(0.0, 0.0, 0.0, False)
BOTH_STAY = ScaleLaws(STAYS, STAYS, 0.0, 0.0)


@helper
def log_target(u, of_x, sigma_x, sigma_a, d, t, seen, laws):
    """The log density of u = log σ, of σ_x or of σ_a, given the other and Z."""
    if not -FARTHEST < u < FARTHEST:
        return -np.inf
    sigma = np.exp(u)
    if of_x:
        sigma_x = sigma
        own = laws.x
    else:
        sigma_a = sigma
        own = laws.a
    if sigma_x < max(laws.lowest, laws.least * sigma_a):
        return -np.inf
    prior = (own.power + 1.0) * u - own.inverse_square / (sigma * sigma) - own.linear * sigma
    value = prior + log_evidence(d, t, seen.squares, seen.n, seen.dimensions, sigma_x, sigma_a)
    return -np.inf if np.isnan(value) else value


@helper
def slice_scale(rng, of_x, sigma_x, sigma_a, d, t, seen, laws, width):
    """Neal's slice step (2003) on log σ: steps out by ``width``, then shrinks; returns σ."""
    sigma = sigma_x if of_x else sigma_a
    at = np.log(sigma)
    level = log_target(at, of_x, sigma_x, sigma_a, d, t, seen, laws)
    level += np.log(1.0 - rng.random())
    left = at - width * rng.random()
    right = left + width
    while log_target(left, of_x, sigma_x, sigma_a, d, t, seen, laws) > level:
        left -= width
    while log_target(right, of_x, sigma_x, sigma_a, d, t, seen, laws) > level:
        right += width
    while right - left >= NARROWEST * (1.0 + abs(at)):
        u = left + (right - left) * rng.random()
        if log_target(u, of_x, sigma_x, sigma_a, d, t, seen, laws) >= level:
            return np.exp(u)
        if u < at:
            left = u
        else:
            right = u
    return sigma


@helper
def draw_scales(rng, C, T, seen, sigma_x, sigma_a, laws, held):
    """σ_x, σ_a and log P(X | Z) at them, from C = ZᵀZ and T = ZᵀX (C is overwritten)."""
    d, t = spectrum(C, T)
    if not held:
        if laws.x.inferred:
            sigma_x = max(sigma_x, (1.0 + 1e-9) * max(laws.lowest, laws.least * sigma_a))
        # the standard deviations of log σ when K stays: 1/√(2ND) and 1/√(2KD)
        for of_x in (True, False):
            size = seen.n if of_x else d.shape[0] + 1
            if laws.x.inferred if of_x else laws.a.inferred:
                width = min(1.0, 3.0 / np.sqrt(2.0 * size * seen.dimensions))
                sigma = slice_scale(rng, of_x, sigma_x, sigma_a, d, t, seen, laws, width)
                if of_x:
                    sigma_x = sigma
                else:
                    sigma_a = sigma
    evidence = log_evidence(d, t, seen.squares, seen.n, seen.dimensions, sigma_x, sigma_a)
    return sigma_x, sigma_a, evidence
