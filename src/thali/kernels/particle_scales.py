r"""The scales of many particles: log P(X | Z, σ_x, σ_a) of each, and a slice step on log σ.

Both read a particle's C = ZᵀZ and T = ZᵀX only, through the eigenvalues of C (``evidence``), so
that a value of σ costs O(K). A changed σ changes r, and M and G are made afresh.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.evidence import log_evidence, spectrum
from thali.kernels.maintained_rows import Rows, refresh

FIXED, GAMMA, INVERSE_GAMMA = 0, 1, 2
NARROWEST = 1e-15  # of a slice, where the value stays as it is


class ScalePrior(NamedTuple):
    """The prior of a scale as numbers: which family, its shape, and its rate or scale."""

    family: int
    shape: float
    other: float


class Seen(NamedTuple):
    """The rows seen so far: their number, their sum of squares, and D of the data."""

    n: int
    squares: float
    dimensions: float


class Floor(NamedTuple):
    """σ_x is at least ``share`` of ``scale`` and of σ_a: its prior is cut off there."""

    share: float
    scale: float


@kernel
def log_evidences(particles, seen, sigma_x, sigma_a, out, first, last):
    """Fill log P(X | Z, σ_x, σ_a) of each particle."""
    for p in range(first, last):
        k = particles.k[p]
        d, t = spectrum(particles.C[p, :k, :k].copy(), particles.T[p, :k])
        out[p] = log_evidence(d, t, seen.squares, seen.n, seen.dimensions, sigma_x[p], sigma_a[p])


@helper
def log_prior(prior, value):
    """Log density of a scale at ``value``; an inverse gamma is that of its square."""
    if prior.family == GAMMA:
        constant = prior.shape * np.log(prior.other) - lgamma(prior.shape)
        return constant + (prior.shape - 1.0) * np.log(value) - prior.other * value
    constant = np.log(2.0) + prior.shape * np.log(prior.other) - lgamma(prior.shape)
    return constant - (2.0 * prior.shape + 1.0) * np.log(value) - prior.other / (value * value)


@helper
def log_target(at, which, prior, floor, d, t, seen, sigma_x, sigma_a):
    """Log density of log σ at ``at`` given the rest: prior, evidence, and the Jacobian e^at."""
    if not -300.0 < at < 300.0:
        return -np.inf
    value = np.exp(at)
    if which == 0:
        sigma_x = value
    else:
        sigma_a = value
    if sigma_x < floor.share * max(floor.scale, sigma_a):
        return -np.inf
    evidence = log_evidence(d, t, seen.squares, seen.n, seen.dimensions, sigma_x, sigma_a)
    value = log_prior(prior, value) + evidence + at
    return -np.inf if np.isnan(value) else value


@helper
def slice_scale(rng, which, prior, floor, d, t, seen, sigma_x, sigma_a, width):
    """One slice step (Neal 2003) on the logarithm of σ_x (0) or σ_a (1); returns the new value."""
    old = sigma_x if which == 0 else sigma_a
    at = np.log(old)
    level = log_target(at, which, prior, floor, d, t, seen, sigma_x, sigma_a)
    level += np.log(1.0 - rng.random())
    left = at - width * rng.random()
    right = left + width
    while log_target(left, which, prior, floor, d, t, seen, sigma_x, sigma_a) > level:
        left -= width
    while log_target(right, which, prior, floor, d, t, seen, sigma_x, sigma_a) > level:
        right += width
    while right - left > NARROWEST * (1.0 + abs(at)):
        proposal = left + (right - left) * rng.random()
        if log_target(proposal, which, prior, floor, d, t, seen, sigma_x, sigma_a) >= level:
            return np.exp(proposal)
        if proposal < at:
            left = proposal
        else:
            right = proposal
    return old


@kernel
def move_scales(rng, particles, seen, prior_x, prior_a, floor, sigma_x, sigma_a, first, last):
    """Update σ_x and σ_a of each particle where they have priors; M and G follow."""
    no_bits = np.zeros((0, 0), np.uint8)  # of a particle Z is not asked for
    for p in range(first, last):
        k, C, T = particles.k[p], particles.C[p], particles.T[p]
        d, t = spectrum(C[:k, :k].copy(), T[:k])
        # the standard deviations of log σ when K stays: 1/√(2nD) and 1/√(2KD)
        if prior_x.family != FIXED:
            width = min(1.0, 3.0 / np.sqrt(2.0 * seen.n * seen.dimensions))
            sigma_x[p] = slice_scale(
                rng, 0, prior_x, floor, d, t, seen, sigma_x[p], sigma_a[p], width
            )
        if prior_a.family != FIXED:
            width = min(1.0, 3.0 / np.sqrt(2.0 * (k + 1) * seen.dimensions))
            sigma_a[p] = slice_scale(
                rng, 1, prior_a, floor, d, t, seen, sigma_x[p], sigma_a[p], width
            )
        rows = Rows(no_bits, particles.m[p], C, T, particles.M[p], particles.G[p])
        refresh(rows, k, (sigma_x[p] / sigma_a[p]) ** 2)
        particles.lost[p] = 0.0
