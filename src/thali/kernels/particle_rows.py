r"""One row of a particle filter for the linear-Gaussian model, A integrated out.

A particle carries, for the K features of the rows it has seen,

    m = Zᵀ1,   C = ZᵀZ,   T = ZᵀX,   M = (C + rI)⁻¹,   G = μμᵀ with μ = M T,

and the next row is  x | z, j ~ N(zμ, σ_x²(V + j/r) I),  V = 1 + z M zᵀ,  j the new features
(Wood and Griffiths 2007, with the predictive form in place of a new inverse). A row costs K·D for
b = μ x, K² for the rank-one change, and O(1) a bit.

    "prior"        z, j from the prior;  weight  N(x; zμ, σ_x²(V + j/r) I)
    "conditional"  z by one scan: bit k from P(z_k | the bits before it, those after it
                   as they are at a mode of the row, x);  j from P(j | z, x);
                   weight  P(z)/q(z) · Σ_j P(j) N(x; zμ, σ_x²(V + j/r) I)

The scan is any proposal whose probability q(z) is known, so its approximations (later bits held,
one new feature at most while old ones are weighed) cost weight and not correctness. No bit is
proposed with a probability below ``LEAST``.

All randomness comes in as uniform numbers, K + 1 a particle, so that a particle's draw depends
neither on its neighbors nor on threads. Nothing is shared between particles.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.gaussian_row import gaussian_row_at, log_row_density
from thali.kernels.leaving_rows import RISKY
from thali.kernels.maintained_rows import (
    Rows,
    dot,
    dot_bits,
    dot_rows,
    rank_one,
    refresh,
    times_bits,
)
from thali.kernels.new_features import MOST_NEW, NewFeatures, invert, log_step, sum_up

LEAST = 1e-4  # of the probability with which a bit is proposed
WIDEST = float(np.log(1.0 / LEAST - 1.0))
TIE = 1e-9  # gains closer than this are equal columns, of which the first is taken
LOST_DIGITS = 3e4  # Σ V² of rows that came, before M and G are made afresh
NEGLIGIBLE = -36.0  # log of a share that rounding loses


class Particles(NamedTuple):
    """The maintained arrays of P particles; what lies beyond a particle's K is spare room."""

    k: np.ndarray  # (P,) int64
    m: np.ndarray  # (P, cap)
    C: np.ndarray  # (P, cap, cap)
    T: np.ndarray  # (P, cap, D')
    M: np.ndarray  # (P, cap, cap)
    G: np.ndarray  # (P, cap, cap)
    lost: np.ndarray  # (P,) Σ V² since M and G were made afresh


class RowNumbers(NamedTuple):
    """What each particle says of the next row: the numbers of its prior and of its likelihood."""

    offset: np.ndarray  # (P,) odds of an old feature are (m + offset)/(rest − m)
    rest: np.ndarray  # (P,)
    new_log_weight: np.ndarray  # (P,)
    sigma_x: np.ndarray  # (P,)
    sigma_a: np.ndarray  # (P,)
    capacity: int
    dimensions: float  # D of the data, which may exceed the stored D'


class Proposals(NamedTuple):
    """What the particles propose for a row: bits of old features, new features, and b = μ x."""

    z: np.ndarray  # (P, cap) uint8
    new: np.ndarray  # (P,) int64
    b: np.ndarray  # (P, cap)
    log_weight: np.ndarray  # (P,)


class RowScales(NamedTuple):
    """The numbers of one particle's likelihood, as densities use them."""

    r: float
    half_d: float
    precision: float  # 1/2σ_x²
    new: NewFeatures


@kernel
def propose(particles, numbers, x, x2, uniforms, informed, proposals, first, last):
    """Fill the proposals of particles ``first`` to ``last`` for the row x, with their weights."""
    cap = particles.m.shape[1]
    work = np.zeros((3, cap))
    for p in range(first, last):
        k = particles.k[p]
        M, G, b = particles.M[p], particles.G[p], proposals.b[p]
        dot_rows(particles.T[p], x, k, work[0])
        for i in range(k):
            b[i] = dot(M[i], work[0], k)
        row = scales_of(numbers, p, k, numbers.dimensions)
        m, z, u = particles.m[p], proposals.z[p], uniforms[p]
        z[k:] = 0
        offset, rest = numbers.offset[p], numbers.rest[p]
        if informed:
            new, weight = from_conditional(m, M, G, b, x2, k, offset, rest, row, u, z, work)
        else:
            new, weight = from_prior(m, M, G, b, x2, k, offset, rest, row, u, z, work)
        proposals.new[p] = new
        weight += row.half_d * np.log(row.precision / np.pi)
        # beyond MOST_NEW the scales cannot be meant, and arrays would not fit
        proposals.log_weight[p] = -np.inf if new > MOST_NEW else weight


@helper
def scales_of(numbers, p, k, entries):
    """Those of particle p, which has k features, for a row that shows so many entries."""
    sigma_x = numbers.sigma_x[p]
    free = -1 if numbers.capacity < 0 else numbers.capacity - k
    return RowScales(
        (sigma_x / numbers.sigma_a[p]) ** 2,
        0.5 * entries,
        0.5 / (sigma_x * sigma_x),
        NewFeatures(numbers.new_log_weight[p], free, 0, MOST_NEW),
    )


@helper
def without_bits(m, k, offset, rest, odds, z):
    """Set all bits to 0 and fill the log odds of each; returns the log of the prior of that."""
    log_prior = 0.0
    for i in range(k):
        z[i] = 0
        odds[i] = np.log((m[i] + offset) / (rest - m[i]))
        log_prior += np.log((rest - m[i]) / (rest + offset))
    return log_prior


@helper
def propose_bit(u, log_ratio, odds):
    """A bit by its log odds given the row, and log P(z) − log q(z) less its log P(0)."""
    if not abs(log_ratio) < WIDEST:
        log_ratio = -WIDEST if log_ratio < 0.0 else WIDEST
    if u * (1.0 + np.exp(-log_ratio)) < 1.0:
        return True, odds + np.log1p(np.exp(-log_ratio))
    return False, np.log1p(np.exp(log_ratio))


@helper
def from_prior(m, M, G, b, x2, k, offset, rest, row, u, z, work):
    """Bits and new features from the prior; returns their number and the log density of x."""
    for i in range(k):
        z[i] = u[i] * (rest + offset) < m[i] + offset
    new = prior_new_features(u[k], row)
    s, h = work[0], work[1]
    times_bits(M, z, k, s)
    times_bits(G, z, k, h)
    rho = max(x2 - 2.0 * dot_bits(z, b, k) + dot_bits(z, h, k), 0.0)
    V = 1.0 + dot_bits(z, s, k) + new / row.r
    return new, log_row_density(rho, V, row.half_d, row.precision)


@helper
def from_conditional(m, M, G, b, x2, k, offset, rest, row, u, z, work):
    """Bits by a scan from a mode, new features exactly; their number and the log weight."""
    s, h, odds = work[0], work[1], work[2]
    log_prior_ratio = without_bits(m, k, offset, rest, odds, z)  # log P(z) − log q(z)
    s[:k] = h[:k] = 0.0
    find_mode(M, G, b, k, odds, row.precision, z, s, h)
    q = dot_bits(z, s, k)
    c = dot_bits(z, b, k)
    g = dot_bits(z, h, k)
    here = log_with_or_without_new(x2 - 2.0 * c + g, 1.0 + q, row)
    for i in range(k):
        sign = -1.0 if z[i] else 1.0
        q_other = q + 2.0 * sign * s[i] + M[i, i]
        c_other = c + sign * b[i]
        g_other = g + 2.0 * sign * h[i] + G[i, i]
        other = log_with_or_without_new(x2 - 2.0 * c_other + g_other, 1.0 + q_other, row)
        log_ratio = sign * (other - here) + odds[i]
        taken, gained = propose_bit(u[i], log_ratio, odds[i])
        log_prior_ratio += gained
        if taken != (z[i] == 1):
            z[i] = taken
            for j in range(k):
                s[j] += sign * M[i, j]
                h[j] += sign * G[i, j]
            q, c, g, here = q_other, c_other, g_other, other
    rho = max(x2 - 2.0 * c + g, 0.0)
    new, log_mass = conditional_new_features(u[k], rho, 1.0 + q, row)
    return new, log_prior_ratio + log_mass


@helper
def find_mode(M, G, b, k, odds, precision, z, s, h):
    """Flip the best bit until none pays, the variance of the features left out of account."""
    for _ in range(2 * k):
        best = 0.0
        which = -1
        for i in range(k):
            sign = -1.0 if z[i] else 1.0
            gain = sign * (odds[i] + 2.0 * precision * (b[i] - h[i])) - precision * G[i, i]
            if gain > best + TIE:
                best = gain
                which = i
        if which < 0:
            break
        sign = -1.0 if z[which] else 1.0
        z[which] = 1 - z[which]
        for j in range(k):
            s[j] += sign * M[which, j]
            h[j] += sign * G[which, j]


@helper
def log_with_or_without_new(rho, V, row):
    """log [N(x | z, 0) + w N(x | z, 1)]: at most one new feature, enough to propose old ones."""
    rho = max(rho, 0.0)
    none = log_row_density(rho, V, row.half_d, row.precision)
    if row.new.free == 0:
        return none
    one = log_step(row.new, None, 0)
    one += log_row_density(rho, V + 1.0 / row.r, row.half_d, row.precision)
    return log_of_both(none, one)


@helper
def log_of_both(none, one):
    """log (e^none + e^one)."""
    if one < none + NEGLIGIBLE:
        return none
    if none < one + NEGLIGIBLE:
        return one
    return max(none, one) + np.log1p(np.exp(-abs(none - one)))


@helper
def log_no_new_feature(row):
    """log P(j = 0): −w for a Poisson number, −free·log(1 + w) for a binomial one."""
    weight = np.exp(row.new.log_weight)
    return -weight if row.new.free < 0 else -row.new.free * np.log1p(weight)


@helper
def prior_new_features(u, row):
    """The number of new features from the prior by inversion; at most MOST_NEW + 1."""
    log_p = log_no_new_feature(row)
    below = np.exp(log_p)
    j = 0
    while u >= below and j <= MOST_NEW and j != row.new.free:
        log_p += log_step(row.new, None, j)
        below += np.exp(log_p)
        j += 1
    return j


@helper
def conditional_new_features(u, rho, V, row):
    """j from P(j) N(x; zμ, σ_x²(V + j/r) I), and the log of its sum over all j."""
    factor = gaussian_row_at(rho, V, row.r, row.half_d, row.precision)
    top, total, largest = sum_up(row.new, None, factor, None, np.inf)
    new = invert(u, top, total, largest, row.new, None, factor, None)
    return new, log_no_new_feature(row) + top + np.log(total)


@kernel
def extend(particles, numbers, x, x2, proposals, first, last):
    """Let the proposed rows join; returns the largest relative error that refreshing found."""
    cap = particles.m.shape[1]
    s = np.zeros(cap)
    h = np.zeros(cap)
    drift = 0.0
    for p in range(first, last):
        k, new = particles.k[p], proposals.new[p]
        if proposals.log_weight[p] == -np.inf:
            continue  # it will not survive
        M, G, z, b = particles.M[p], particles.G[p], proposals.z[p], proposals.b[p]
        r = (numbers.sigma_x[p] / numbers.sigma_a[p]) ** 2
        times_bits(M, z, k, s)
        times_bits(G, z, k, h)
        V_old = 1.0 + dot_bits(z, s, k)
        V = V_old + new / r
        rho = max(x2 - 2.0 * dot_bits(z, b, k) + dot_bits(z, h, k), 0.0)
        for i in range(k):
            h[i] = b[i] - h[i]
        rank_one(M, G, s, h, -1.0 / V, 1.0 / V, rho / (V * V), k)
        open_features(M, G, s, h, V_old, rho, r, k, new)
        count(particles, p, x, z, k, new)
        k += new
        particles.k[p] = k
        particles.lost[p] += V_old * V_old
        if particles.lost[p] > LOST_DIGITS or not V_old < RISKY:
            rows = Rows(proposals.z, particles.m[p], particles.C[p], particles.T[p], M, G)
            error = refresh(rows, k, r)
            if V_old < RISKY:  # a riskier change is mended at once, before it is ever used
                drift = max(drift, error)
            particles.lost[p] = 0.0
    return drift


@helper
def open_features(M, G, s, h, V_old, rho, r, k, new):
    """M and G of features that the row opens: the rank-one change of M_kk = 1/r, without its loss.

    With V = V_old + j/r:  M_kl = (δ_kl − 1/(rV))/r,  M_ki = −s_i/rV,  G_kl = ρ/(rV)²,
    G_ki = (h_i + ρ s_i/V)/rV.
    """
    V = V_old + new / r
    rV = r * V_old + new
    for a in range(k, k + new):
        for i in range(k):
            M[a, i] = M[i, a] = -s[i] / rV
            G[a, i] = G[i, a] = (h[i] + rho * s[i] / V) / rV
        for c in range(k, k + new):
            M[a, c] = -1.0 / (r * rV)
            G[a, c] = rho / (rV * rV)
        M[a, a] = (r * V_old + new - 1.0) / (r * rV)


@helper
def count(particles, p, x, z, k, new):
    """Add the row to m, C and T, the new features last; ``z`` gets their bits too."""
    m, C, T = particles.m[p], particles.C[p], particles.T[p]
    for a in range(k, k + new):
        m[a] = 0.0
        z[a] = 1
        for i in range(k + new):
            C[a, i] = C[i, a] = 0.0
        for c in range(x.shape[0]):
            T[a, c] = 0.0
    k += new
    for a in range(k):
        if z[a]:
            m[a] += 1.0
            row, t = C[a], T[a]
            for i in range(k):
                row[i] += z[i]
            for c in range(x.shape[0]):
                t[c] += x[c]


@kernel
def copy_particles(particles, sources, targets):
    """Copy particles over others: O(K² + KD) each."""
    for c in range(len(sources)):
        a, b = sources[c], targets[c]
        k = particles.k[a]
        particles.k[b] = k
        particles.lost[b] = particles.lost[a]
        for i in range(k):
            particles.m[b, i] = particles.m[a, i]
            for j in range(k):
                particles.C[b, i, j] = particles.C[a, i, j]
                particles.M[b, i, j] = particles.M[a, i, j]
                particles.G[b, i, j] = particles.G[a, i, j]
            for d in range(particles.T.shape[2]):
                particles.T[b, i, d] = particles.T[a, i, d]
