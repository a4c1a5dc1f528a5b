r"""Clusters of Gaussian rows with a mean and a covariance of their own, both integrated out.

    x_n | cluster ~ N(μ, Σ),    μ | Σ ~ N(0, Σ/κ₀),    Σ ~ inverse Wishart(ν₀, Ψ₀)

(x measured from the prior's mean). With n rows and their sum S, κ = κ₀ + n, m = S/κ, ν = ν₀ + n and
Ψ = Ψ₀ + Σ xxᵀ − κ m mᵀ, the next row is a multivariate Student's t:

    log p(x) = log Γ((ν+1)/2) − log Γ((ν+1−D)/2) − (D/2) log(π (κ+1)/κ) − ½ log|Ψ|
               − ((ν+1)/2) log(1 + κ/(κ+1) (x − m)ᵀ Ψ⁻¹ (x − m)).

A row that comes adds κ/(κ+1) (x − m)(x − m)ᵀ to Ψ, one that goes takes it away: changes of rank one
of its Cholesky factor L, O(D²). What rounding does to L is mended when all is made afresh.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.groups import groups_of

LEAST = 1e-12  # of a pivot's square: what a downdate must leave of it


class NormalWishartGroups(NamedTuple):
    """Rows Y, the prior, and by slot: the sum of rows and L, Ψ = LLᵀ."""

    Y: np.ndarray  # (n, D)
    kappa: float
    degrees: float  # ν₀
    factor: np.ndarray  # (D, D) L of Ψ₀
    sums: np.ndarray  # (slots, D)
    L: np.ndarray  # (slots, D, D)
    log_det: np.ndarray  # (slots,) ½ log|Ψ|
    constant: np.ndarray  # (slots,) log density at the mean
    work: np.ndarray  # (slots, D)


@helper(borrows=True)
def change(L, v, sign):
    """L of LLᵀ ± vvᵀ in place (v is overwritten); returns ½ log of its determinant."""
    half = 0.0
    for d in range(len(v)):
        pivot = L[d, d]
        square = pivot * pivot + sign * v[d] * v[d]
        r = np.sqrt(max(square, LEAST * pivot * pivot))
        c, s = r / pivot, v[d] / pivot
        L[d, d] = r
        half += np.log(r)
        for e in range(d + 1, len(v)):
            L[e, d] = (L[e, d] + sign * s * v[e]) / c
            v[e] = c * v[e] - s * L[e, d]
    return half


@helper(borrows=True)
def add(groups, k, i, size):
    """Row i enters slot k."""
    kappa = groups.kappa + (size - 1.0)
    v, sums = groups.work[k], groups.sums[k]
    scale = np.sqrt(kappa / (kappa + 1.0))
    for d in range(len(v)):
        v[d] = scale * (groups.Y[i, d] - sums[d] / kappa)
        sums[d] += groups.Y[i, d]
    groups.log_det[k] = change(groups.L[k], v, 1.0)
    renew(groups, k, size)


@helper(borrows=True)
def remove(groups, k, i, size):
    """Row i leaves slot k; one without rows is exactly empty."""
    if size == 0:
        clear(groups, k)
        return
    kappa = groups.kappa + size
    v, sums = groups.work[k], groups.sums[k]
    scale = np.sqrt(kappa / (kappa + 1.0))
    for d in range(len(v)):
        sums[d] -= groups.Y[i, d]
        v[d] = scale * (groups.Y[i, d] - sums[d] / kappa)
    groups.log_det[k] = change(groups.L[k], v, -1.0)
    renew(groups, k, size)


@helper(borrows=True)
def clear(groups, k):
    """Slot k has no rows."""
    half = 0.0
    for d in range(groups.factor.shape[0]):
        groups.sums[k, d] = 0.0
        half += np.log(groups.factor[d, d])
        for e in range(groups.factor.shape[0]):
            groups.L[k, d, e] = groups.factor[d, e]
    groups.log_det[k] = half
    renew(groups, k, 0)


@helper(borrows=True)
def renew(groups, k, size):
    """The log density of the next row at the mean."""
    dimensions, kappa = groups.factor.shape[0], groups.kappa + size
    after = 0.5 * (groups.degrees + size + 1.0)
    steps = lgamma(after) - lgamma(after - 0.5 * dimensions)
    wide = 0.5 * dimensions * np.log(np.pi * (kappa + 1.0) / kappa)
    groups.constant[k] = steps - wide - groups.log_det[k]


@helper(borrows=True)
def log_predictives(groups, which, sizes, count, i, out, nothing):
    """log p(x_i | the rows of a slot), of each slot."""
    Y, sums, L, v, constant = groups.Y, groups.sums, groups.L, groups.work, groups.constant
    dimensions, top = groups.factor.shape[0], -np.inf
    for j in range(count):
        k = which[j]
        size = sizes[k]
        kappa = groups.kappa + size
        length = 0.0
        for d in range(dimensions):  # v = L⁻¹(x − m)
            total = Y[i, d] - sums[k, d] / kappa
            for e in range(d):
                total -= L[k, d, e] * v[k, e]
            v[k, d] = total / L[k, d, d]
            length += v[k, d] * v[k, d]
        power = 0.5 * (groups.degrees + size + 1.0)
        most = out[j] + constant[k]
        away = kappa / (kappa + 1.0) * length
        # log(1 + a) ≥ a/(1 + a): where that is enough, no logarithm is needed
        if power * away > (most - top + nothing) * (1.0 + away):
            out[j] = -np.inf
            continue
        out[j] = most - power * np.log(1.0 + away)
        top = max(top, out[j])


@helper(borrows=True)
def log_marginal(groups, k, size):
    """log p(the rows of slot k)."""
    dimensions = groups.factor.shape[0]
    before = 0.0
    for d in range(dimensions):
        before += np.log(groups.factor[d, d])
    found = -0.5 * size * dimensions * np.log(np.pi)
    for d in range(dimensions):
        found += lgamma(0.5 * (groups.degrees + size - d)) - lgamma(0.5 * (groups.degrees - d))
    found += groups.degrees * before - (groups.degrees + size) * groups.log_det[k]
    return found + 0.5 * dimensions * (np.log(groups.kappa) - np.log(groups.kappa + size))


groups_of(
    NormalWishartGroups,
    add=add,
    remove=remove,
    log_predictives=log_predictives,
    log_marginal=log_marginal,
    clear=clear,
    laws=("kappa", "degrees", "factor"),
)


@kernel
def redraw(rng, groups, slots, observed):
    """Draw every missing entry given its row's others and the other rows of its cluster.

    Given these a row is a multivariate t, of ν + 1 − D degrees of freedom, which is a normal with
    covariance Ψ (κ+1)/κ / w, w ~ chi-squared; a part of it given the rest is a t with as many more
    degrees as the rest has entries.
    """
    rows, dimensions = observed.shape
    for i in range(rows):
        missing = 0
        for d in range(dimensions):
            missing += not observed[i, d]
        if missing == 0:
            continue
        slot = slots.labels[i]
        size = slots.seen[slot] - 1
        remove(groups, slot, i, size)
        kappa = groups.kappa + size
        order = np.empty(dimensions, np.int64)  # what was seen first
        at, last = 0, dimensions - missing
        for d in range(dimensions):
            if observed[i, d]:
                order[at] = d
                at += 1
            else:
                order[last] = d
                last += 1
        seen = dimensions - missing
        Psi = np.zeros((dimensions, dimensions))
        for a in range(dimensions):
            for b in range(a + 1):
                total = 0.0
                for e in range(min(order[a], order[b]) + 1):
                    total += groups.L[slot, order[a], e] * groups.L[slot, order[b], e]
                Psi[a, b] = Psi[b, a] = total * (kappa + 1.0) / kappa
        L = np.linalg.cholesky(Psi)
        v = np.zeros(dimensions)  # L⁻¹(x − m), of what was seen
        length = 0.0
        for a in range(seen):
            d = order[a]
            total = groups.Y[i, d] - groups.sums[slot, d] / kappa
            for e in range(a):
                total -= L[a, e] * v[e]
            v[a] = total / L[a, a]
            length += v[a] * v[a]
        degrees = groups.degrees + size + 1.0 - dimensions
        wide = np.sqrt((1.0 + length) / rng.chisquare(degrees + seen))
        for a in range(seen, dimensions):
            v[a] = wide * rng.standard_normal()
        for a in range(seen, dimensions):
            d = order[a]
            total = groups.sums[slot, d] / kappa
            for e in range(a + 1):
                total += L[a, e] * v[e]
            groups.Y[i, d] = total
        add(groups, slot, i, size + 1)
