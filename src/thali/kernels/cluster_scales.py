r"""Slice steps on log s, how wide Gaussian clusters are, log κ, how near to each other, and log e.

Given the partition both have log densities that are sums over a few terms j, one for each cluster
or each of its columns or directions, up to a constant:

    of s:   2A log s − Σ_j p_j log(s² + λ_j)
    of κ:   Σ_j w_j log(κ/(κ + n_j)) − p_j log(1 + q_j κ n_j/(κ + n_j))

So has e = ν − D − 1, how alike covariances are: Ψ₀ is e s² times a matrix in units of which what
the rows of cluster k add to it has eigenvalues λ_kd, and

    of e:   Σ_k log Γ_D((ν + n_k)/2) − log Γ_D(ν/2)
            + Σ_kd ½ν log(e s²) − ½(ν + n_k) log(e s² + λ_kd)

with log Γ_D(x) = Σ_{d<D} log Γ(x − d/2) + const. Their hyperpriors are
power · log v − inverse_square/v² − linear · v.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel

WIDTH = 1.0  # of the first slice, on the log scale
NARROWEST = 1e-15  # a slice below this share of where it is: rounding is all that is left of it
FARTHEST = 300.0  # |log v| beyond which v² is no number


class Law(NamedTuple):
    """A hyperprior."""

    power: float
    inverse_square: float
    linear: float


class Widths(NamedTuple):
    """The terms of s."""

    whole: float  # A
    powers: np.ndarray
    values: np.ndarray  # λ


class Nearness(NamedTuple):
    """The terms of κ."""

    sizes: np.ndarray
    weights: np.ndarray
    powers: np.ndarray
    values: np.ndarray  # q


class Likeness(NamedTuple):
    """The terms of e."""

    square: float  # s²
    sizes: np.ndarray
    values: np.ndarray  # (K, D) λ


@helper(borrows=True)
def log_prior(u, law):
    """Of u = log v, the Jacobian included."""
    v = np.exp(u)
    return (law.power + 1.0) * u - law.inverse_square / (v * v) - law.linear * v


@helper(borrows=True)
def of_widths(u, terms, law):
    """The log density of u = log s."""
    if not -FARTHEST < u < FARTHEST:
        return -np.inf
    square = np.exp(2.0 * u)
    total = log_prior(u, law) + 2.0 * terms.whole * u
    for j in range(len(terms.powers)):
        total -= terms.powers[j] * np.log(square + terms.values[j])
    return total


@helper(borrows=True)
def of_nearness(u, terms, law):
    """The log density of u = log κ."""
    if not -FARTHEST < u < FARTHEST:
        return -np.inf
    kappa = np.exp(u)
    total = log_prior(u, law)
    for j in range(len(terms.powers)):
        share = kappa / (kappa + terms.sizes[j])
        total += terms.weights[j] * np.log(share)
        total -= terms.powers[j] * np.log(1.0 + terms.values[j] * share * terms.sizes[j])
    return total


@helper(borrows=True)
def of_likeness(u, terms, law):
    """The log density of u = log e."""
    if not -FARTHEST < u < FARTHEST:
        return -np.inf
    excess = np.exp(u)
    clusters, dimensions = terms.values.shape
    degrees, square = excess + dimensions + 1.0, excess * terms.square
    total = log_prior(u, law)
    for d in range(dimensions):
        before = 0.5 * degrees * np.log(square) - lgamma(0.5 * (degrees - d))
        for k in range(clusters):
            after = degrees + terms.sizes[k]
            total += before + lgamma(0.5 * (after - d))
            total -= 0.5 * after * np.log(square + terms.values[k, d])
    return total


def slice_with(target):
    """Neal's slice step on u = log v for one of these densities, as a kernel."""

    @kernel
    def step(rng, value, terms, law):
        """The next value."""
        at = np.log(value)
        level = target(at, terms, law) + np.log(1.0 - rng.random())
        left = at - WIDTH * rng.random()
        right = left + WIDTH
        while target(left, terms, law) > level:
            left -= WIDTH
        while target(right, terms, law) > level:
            right += WIDTH
        while right - left >= NARROWEST * (1.0 + abs(at)):
            u = left + (right - left) * rng.random()
            if target(u, terms, law) >= level:
                return np.exp(u)
            if u < at:
                left = u
            else:
                right = u
        return value

    return step


draw_width = slice_with(of_widths)  # type: ignore[no-untyped-call]
draw_nearness = slice_with(of_nearness)  # type: ignore[no-untyped-call]
draw_likeness = slice_with(of_likeness)  # type: ignore[no-untyped-call]
