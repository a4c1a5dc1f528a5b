r"""The posterior of a new row's bits, and its predictive density, where training data have gaps.

Column d has its own S_d = (Z_oᵀZ_o + rI)⁻¹, shared by the columns g that miss the same rows, so

    p(x) = Σ_z P(z) Σ_j P(j) ∏_g ∏_{d∈g} N(x_d; zμ_d, σ_x²(1 + z S_g zᵀ + j/r))

over the columns that were observed in the new row. As in ``row_posterior`` a mode is found by
single flips, and the 2^w rows over the w = min(K, 10) least certain features are summed in
Gray-code order: exact for K ≤ 10, a lower bound beyond. A candidate costs O(D).
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.new_features import factor_of, log_sum
from thali.kernels.row_posterior import ENUMERATED, count_in, sum_up_bits

NEGLIGIBLE = 50.0  # nats below the best so far, where 2^10 terms together are below rounding


class Walk(NamedTuple):
    """A row of bits and what follows from it: e = x − zμ, s = M z, and three numbers of each group:
    ρ, V, and how many entries the row shows."""

    z: np.ndarray  # (K,)
    e: np.ndarray  # (D,)
    groups: np.ndarray  # (3, P)
    s: np.ndarray  # (P, K)


class GroupedRow(NamedTuple):
    """The factor of new features where each group of columns has its V; the groups go beside it."""

    r: float
    precision: float  # 1/2σ_x²
    fall: float  # 0: the bound of the density does not fall with j


@kernel
def log_density(groups, extra, precision, at_peak):
    """Σ_g log N of the groups at V + extra; ``at_peak``, at the best V from there on."""
    total = 0.0
    for g in range(groups.shape[1]):
        rho, dims = groups[0, g], groups[2, g]
        if dims > 0.0:
            v = groups[1, g] + extra
            if at_peak:
                v = max(v, 2.0 * precision * rho / dims)
            total -= 0.5 * dims * np.log(v) + precision * rho / v
    return total


def density_with(factor, entries, j):
    """Σ_g log N of the groups with j new features."""
    return log_density(entries, j / factor.r, factor.precision, False)


def highest_with(factor, entries, j):
    """The largest of it over j and more new features, or a little more."""
    return log_density(entries, j / factor.r, factor.precision, True)


factor_of(GroupedRow, density_with, highest_with)


@helper
def log_mass(groups, r, new, scales, floor):
    """log Σ_j w_j ∏ N over the numbers j of the row's own features; −inf if surely below floor."""
    row = GroupedRow(r, 0.5 / (scales.sigma_x * scales.sigma_x), 0.0)
    weight = np.exp(new.log_weight)
    all_weights = weight if new.free < 0 else new.free * np.log1p(weight)
    if log_density(groups, 0.0, row.precision, True) + all_weights < floor:
        return -np.inf
    return log_sum(new, None, row, groups)


@helper
def try_flip(walk, i, mu, M, group, groups):
    """Fill ρ and V of each group as they were if bit i were flipped."""
    sign = -1.0 if walk.z[i] else 1.0
    for g in range(groups.shape[1]):
        groups[0, g] = 0.0
        groups[1, g] = walk.groups[1, g] + 2.0 * sign * walk.s[g, i] + M[g, i, i]
    for c in range(len(group)):
        if group[c] >= 0:
            left = walk.e[c] - sign * mu[i, c]
            groups[0, group[c]] += left * left
    return sign


@helper
def do_flip(walk, i, mu, M, group):
    """Flip bit i."""
    sign = try_flip(walk, i, mu, M, group, walk.groups)
    for c in range(len(group)):
        walk.e[c] -= sign * mu[i, c]
    for g in range(len(walk.s)):
        for j in range(len(walk.z)):
            walk.s[g, j] += sign * M[g, i, j]
    walk.z[i] = not walk.z[i]


@helper
def set_out(x, k, group, dims):
    """The walk at z = 0."""
    e = np.zeros(len(x))
    groups = np.zeros((3, len(dims)))
    groups[1] = 1.0
    groups[2] = dims
    for c in range(len(x)):
        if group[c] >= 0:
            e[c] = x[c]
            groups[0, group[c]] += x[c] * x[c]
    return Walk(np.zeros(k, np.bool_), e, groups, np.zeros((len(dims), k)))


@helper
def find_mode(walk, mu, M, group, odds, r, new, scales):
    """Flip the best bit until none pays; returns the log weight there."""
    k = len(walk.z)
    groups = walk.groups.copy()
    o = 0.0
    for i in range(k):
        if walk.z[i]:
            o += odds[i]
    at = o + log_mass(walk.groups, r, new, scales, -np.inf)
    for _ in range(4 * k + 4):
        best = at + 1e-10
        which = -1
        for i in range(k):
            sign = try_flip(walk, i, mu, M, group, groups)
            value = o + sign * odds[i]
            value += log_mass(groups, r, new, scales, best - value)
            if value > best:
                best = value
                which = i
        if which < 0:
            break
        o += -odds[which] if walk.z[which] else odds[which]
        do_flip(walk, which, mu, M, group)
        at = best
    return at


@helper
def one_row(x, mu, M, group, dims, odds, r, new, scales, marginal):
    """Fill ``marginal`` with P(z_k = 1 | x) and return log Σ of the weights."""
    k = len(odds)
    walk = set_out(x, k, group, dims)
    top = find_mode(walk, mu, M, group, odds, r, new, scales)
    # a second try from the bits that their own projection suggests
    other = set_out(x, k, group, dims)
    for i in range(k):
        along = 0.0
        size = 0.0
        for c in range(len(group)):
            if group[c] >= 0:
                along += x[c] * mu[i, c]
                size += mu[i, c] * mu[i, c]
        if along > 0.5 * size:
            do_flip(other, i, mu, M, group)
    at = find_mode(other, mu, M, group, odds, r, new, scales)
    if at > top:
        top = at
        walk = other
    groups = walk.groups.copy()
    doubt = np.zeros(k)
    o = 0.0
    for i in range(k):
        sign = try_flip(walk, i, mu, M, group, groups)
        doubt[i] = top - sign * odds[i] - log_mass(groups, r, new, scales, -np.inf)
        marginal[i] = 0.0
        if walk.z[i]:
            o += odds[i]
            marginal[i] = 1.0
    doubt -= o  # now what a flip loses of the log weight at the mode
    free_bits = np.argsort(doubt)[: min(k, ENUMERATED)]
    total = 1.0  # Σ e^{weight − top}
    for code in range(1, 1 << len(free_bits)):
        low = 0
        while not (code >> low) & 1:
            low += 1
        i = free_bits[low]
        o += -odds[i] if walk.z[i] else odds[i]
        do_flip(walk, i, mu, M, group)
        value = o + log_mass(walk.groups, r, new, scales, top - NEGLIGIBLE - o)
        top, total = count_in(value, top, total, walk.z, marginal)
    return sum_up_bits(walk.z, doubt, len(free_bits), marginal, top, total)


@kernel
def masked_row_posteriors(X, mask, mu, M, of_column, odds, r, new, scales, marginals, logs):
    """Fill P(z_nk = 1 | x_n) and log Σ_z,j weights for every row; rows are independent."""
    d = X.shape[1]
    group = np.zeros(d, np.int64)
    dims = np.zeros(M.shape[0])
    for n in range(X.shape[0]):
        dims[:] = 0.0
        for c in range(d):
            group[c] = of_column[c] if mask[n, c] else -1
            if mask[n, c]:
                dims[of_column[c]] += 1.0
        logs[n] = one_row(X[n], mu, M, group, dims, odds, r, new, scales, marginals[n])
