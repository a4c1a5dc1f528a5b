r"""One row of a particle filter for the linear-Gaussian model, where entries of X are missing.

Columns are independent given Z, and those of a group g miss the same rows, so that they share
M_g = (Z_oᵀZ_o + rI)⁻¹ of the rows o observed there. In place of one M and one G of
``particle_rows`` a particle carries, for each group,

    C_g = Z_oᵀZ_o,   M_g = (C_g + rI)⁻¹,   G_g = μ_gμ_gᵀ with μ_g = M_g T_g,

and of the next row what was observed has the exact density

    ∏_g N(x_g; zμ_g, σ_x²(V_g + j/r) I),   V_g = 1 + z M_g zᵀ,   over the groups that it shows.

Groups that it does not show learn nothing: features that it opens have M_kk = 1/r and μ = 0 there.
The proposals are those of ``particle_rows`` and weighted as there. With S groups shown and J in all
a row costs K·D for T x, S·K² for the rank-one changes and sums of G, and O(S) a bit, against K·D,
K² and O(1) without gaps; a particle is of KD + (3J + 1)K² numbers.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.leaving_rows import RISKY
from thali.kernels.maintained_rows import Rows, dot, dot_bits, rank_one, refresh, times_bits
from thali.kernels.masked_row_posterior import GroupedRow, log_density
from thali.kernels.new_features import MOST_NEW, invert, log_step, sum_up
from thali.kernels.particle_rows import (
    LOST_DIGITS,
    count,
    find_mode,
    log_no_new_feature,
    log_of_both,
    open_features,
    prior_new_features,
    propose_bit,
    scales_of,
    without_bits,
)


class MaskedParticles(NamedTuple):
    """The maintained arrays of P particles, of J groups of columns each."""

    k: np.ndarray  # (P,) int64
    m: np.ndarray  # (P, cap)
    C: np.ndarray  # (P, cap, cap) of all rows, for the prior
    T: np.ndarray  # (P, cap, D) ZᵀX, missing entries counting as 0
    C_g: np.ndarray  # (P, J, cap, cap)
    M: np.ndarray  # (P, J, cap, cap)
    G: np.ndarray  # (P, J, cap, cap)
    lost: np.ndarray  # (P, J) Σ V² since M and G were made afresh


class MaskedRow(NamedTuple):
    """A row of X, its columns group after group."""

    x: np.ndarray  # (D,) 0 where missing
    x2: np.ndarray  # (J,) ‖x‖² of each group
    shown: np.ndarray  # (S,) int64, the groups that were observed
    start: np.ndarray  # (J + 1,) int64, where the columns of each group begin


class Work(NamedTuple):
    """Room for what is made of a row: of each group that it shows, and of all of them."""

    b: np.ndarray  # (S, cap) μ_g x_g
    s: np.ndarray  # (S, cap) M_g z
    h: np.ndarray  # (S, cap) G_g z
    groups: np.ndarray  # (3, S) ρ, V, and the number of columns
    other: np.ndarray  # (3, S) the same with one bit changed
    sum_b: np.ndarray  # (cap,)
    sum_G: np.ndarray  # (cap, cap)
    spare: np.ndarray  # (3, cap)


@helper
def room_for(row, cap):
    """The room, with the numbers of columns in place."""
    size = len(row.shown)
    work = Work(
        np.zeros((size, cap)),
        np.zeros((size, cap)),
        np.zeros((size, cap)),
        np.zeros((3, size)),
        np.zeros((3, size)),
        np.zeros(cap),
        np.zeros((cap, cap)),
        np.zeros((3, cap)),
    )
    for a in range(size):
        g = row.shown[a]
        work.groups[2, a] = work.other[2, a] = row.start[g + 1] - row.start[g]
    return work


@helper
def project(T, M, row, k, work):
    """b_g = M_g T_g x_g of each group that the row shows."""
    t = work.spare[0]
    for a in range(len(row.shown)):
        g = row.shown[a]
        for i in range(k):
            t[i] = 0.0
            for c in range(row.start[g], row.start[g + 1]):
                t[i] += T[i, c] * row.x[c]
        for i in range(k):
            work.b[a, i] = dot(M[g, i], t, k)


@helper
def look(M, G, row, k, z, work):
    """M_g z, G_g z, ρ and V of each group that the row shows."""
    for a in range(len(row.shown)):
        g = row.shown[a]
        times_bits(M[g], z, k, work.s[a])
        times_bits(G[g], z, k, work.h[a])
        rho = row.x2[g] - 2.0 * dot_bits(z, work.b[a], k) + dot_bits(z, work.h[a], k)
        work.groups[0, a] = max(rho, 0.0)
        work.groups[1, a] = 1.0 + dot_bits(z, work.s[a], k)


@kernel
def propose(particles, numbers, row, uniforms, informed, proposals, first, last):
    """Fill the proposals of particles ``first`` to ``last`` for the row, with their weights."""
    work = room_for(row, particles.m.shape[1])
    entries = 0.0
    for a in range(len(row.shown)):
        entries += work.groups[2, a]
    for p in range(first, last):
        k = particles.k[p]
        M, G = particles.M[p], particles.G[p]
        project(particles.T[p], M, row, k, work)
        scales = scales_of(numbers, p, k, entries)
        m, z, u = particles.m[p], proposals.z[p], uniforms[p]
        z[k:] = 0
        offset, rest = numbers.offset[p], numbers.rest[p]
        if informed:
            new, weight = from_conditional(m, M, G, row, k, offset, rest, scales, u, z, work)
        else:
            new, weight = from_prior(m, M, G, row, k, offset, rest, scales, u, z, work)
        proposals.new[p] = new
        weight += scales.half_d * np.log(scales.precision / np.pi)
        proposals.log_weight[p] = -np.inf if new > MOST_NEW else weight


@helper
def from_prior(m, M, G, row, k, offset, rest, scales, u, z, work):
    """Bits and new features from the prior; their number and the log density of the row."""
    for i in range(k):
        z[i] = u[i] * (rest + offset) < m[i] + offset
    new = prior_new_features(u[k], scales)
    look(M, G, row, k, z, work)
    return new, log_density(work.groups, new / scales.r, scales.precision, False)


@helper
def from_conditional(m, M, G, row, k, offset, rest, scales, u, z, work):
    """Bits by a scan from a mode, new features exactly; their number and the log weight."""
    odds, groups, other = work.spare[0], work.groups, work.other
    shown, s, h, b = row.shown, work.s, work.h, work.b
    log_prior_ratio = without_bits(m, k, offset, rest, odds, z)  # log P(z) − log q(z)
    start_from_mode(G, row, k, scales, z, work)
    look(M, G, row, k, z, work)
    here = log_with_or_without_new(groups, scales)
    for i in range(k):
        sign = -1.0 if z[i] else 1.0
        for a in range(len(shown)):
            g = shown[a]
            rho = groups[0, a] + 2.0 * sign * (h[a, i] - b[a, i]) + G[g, i, i]
            other[0, a] = max(rho, 0.0)
            other[1, a] = groups[1, a] + 2.0 * sign * s[a, i] + M[g, i, i]
        there = log_with_or_without_new(other, scales)
        log_ratio = sign * (there - here) + odds[i]
        taken, gained = propose_bit(u[i], log_ratio, odds[i])
        log_prior_ratio += gained
        if taken != (z[i] == 1):
            z[i] = taken
            here = there
            for a in range(len(shown)):
                g = shown[a]
                groups[0, a], groups[1, a] = other[0, a], other[1, a]
                for j in range(k):
                    s[a, j] += sign * M[g, i, j]
                    h[a, j] += sign * G[g, i, j]
    new, log_mass = conditional_new_features(u[k], groups, scales)
    return new, log_prior_ratio + log_mass


@helper
def start_from_mode(G, row, k, scales, z, work):
    """z at a mode of the row, V left out of account: all groups are then one, of Σ b and Σ G."""
    for i in range(k):
        work.sum_b[i] = work.spare[1, i] = work.spare[2, i] = 0.0
        for j in range(k):
            work.sum_G[i, j] = 0.0
    for a in range(len(row.shown)):
        g = row.shown[a]
        for i in range(k):
            work.sum_b[i] += work.b[a, i]
            for j in range(k):
                work.sum_G[i, j] += G[g, i, j]
    odds, s, h = work.spare[0], work.spare[1], work.spare[2]
    find_mode(work.sum_G, work.sum_G, work.sum_b, k, odds, scales.precision, z, s, h)


@helper
def log_with_or_without_new(groups, scales):
    """log [p(x | z, 0) + w p(x | z, 1)]: at most one new feature, enough to propose old ones."""
    none = log_density(groups, 0.0, scales.precision, False)
    if scales.new.free == 0:
        return none
    one = log_step(scales.new, None, 0)
    one += log_density(groups, 1.0 / scales.r, scales.precision, False)
    return log_of_both(none, one)


@helper
def conditional_new_features(u, groups, scales):
    """j from P(j) ∏_g N(x_g; zμ_g, σ_x²(V_g + j/r) I), and the log of its sum over all j."""
    factor = GroupedRow(scales.r, scales.precision, 0.0)
    top, total, largest = sum_up(scales.new, None, factor, groups, np.inf)
    new = invert(u, top, total, largest, scales.new, None, factor, groups)
    return new, log_no_new_feature(scales) + top + np.log(total)


@kernel
def extend(particles, numbers, row, proposals, first, last):
    """Let the proposed rows join; returns the largest relative error that refreshing found."""
    work = room_for(row, particles.m.shape[1])
    drift = 0.0
    for p in range(first, last):
        if proposals.log_weight[p] == -np.inf:
            continue  # it will not survive
        k, new, z = particles.k[p], proposals.new[p], proposals.z[p]
        M, G = particles.M[p], particles.G[p]
        r = (numbers.sigma_x[p] / numbers.sigma_a[p]) ** 2
        project(particles.T[p], M, row, k, work)
        look(M, G, row, k, z, work)
        open_unseen(particles, p, r, k, new)
        for a in range(len(row.shown)):
            g = row.shown[a]
            s, h = work.s[a], work.h[a]
            rho, V_old = work.groups[0, a], work.groups[1, a]
            V = V_old + new / r
            for i in range(k):
                h[i] = work.b[a, i] - h[i]
            rank_one(M[g], G[g], s, h, -1.0 / V, 1.0 / V, rho / (V * V), k)
            open_features(M[g], G[g], s, h, V_old, rho, r, k, new)
        count(particles, p, row.x, z, k, new)
        k += new
        particles.k[p] = k
        for a in range(len(row.shown)):
            g, V_old = row.shown[a], work.groups[1, a]
            C = particles.C_g[p, g]
            for i in range(k):
                if z[i]:
                    for j in range(k):
                        C[i, j] += z[j]
            particles.lost[p, g] += V_old * V_old
            if particles.lost[p, g] > LOST_DIGITS or not V_old < RISKY:
                error = refresh(rows_of_group(particles, p, g, row.start, proposals.z), k, r)
                if V_old < RISKY:  # a riskier change is mended at once, before it is ever used
                    drift = max(drift, error)
                particles.lost[p, g] = 0.0
    return drift


@helper
def rows_of_group(particles, p, g, start, bits):
    """The arrays of one group as ``refresh`` takes them."""
    T = particles.T[p][:, start[g] : start[g + 1]]
    C, M, G = particles.C_g[p, g], particles.M[p, g], particles.G[p, g]
    return Rows(bits, particles.m[p], C, T, M, G)


@helper
def open_unseen(particles, p, r, k, new):
    """Features of which no group has seen anything yet."""
    for g in range(particles.M.shape[1]):
        C, M, G = particles.C_g[p, g], particles.M[p, g], particles.G[p, g]
        for a in range(k, k + new):
            for i in range(k + new):
                C[a, i] = C[i, a] = 0.0
                M[a, i] = M[i, a] = 0.0
                G[a, i] = G[i, a] = 0.0
        for a in range(k, k + new):
            M[a, a] = 1.0 / r


@kernel
def copy_particles(particles, sources, targets):
    """Copy particles over others: O(J K² + KD) each."""
    for c in range(len(sources)):
        a, b = sources[c], targets[c]
        k = particles.k[a]
        particles.k[b] = k
        particles.m[b, :k] = particles.m[a, :k]
        particles.C[b, :k, :k] = particles.C[a, :k, :k]
        particles.T[b, :k] = particles.T[a, :k]
        particles.lost[b] = particles.lost[a]
        particles.C_g[b, :, :k, :k] = particles.C_g[a, :, :k, :k]
        particles.M[b, :, :k, :k] = particles.M[a, :, :k, :k]
        particles.G[b, :, :k, :k] = particles.G[a, :, :k, :k]
