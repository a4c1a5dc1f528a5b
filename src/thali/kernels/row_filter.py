r"""The density of a row given features A, by particles: its entries come one after the other.

    p(x) = ∏_t p(x_t | x_1 … x_{t−1}),   y = s A + e,  e ~ N(0, 1),  s_k = 0 where z_k = 0

in units of the noise. A particle has bits z, the latents y of the entries that have come, and a
variance τ_k for each feature: amounts are s_k ~ N(0, τ_k), with τ = 1 of a Gaussian slab and τ of
an exponential distribution of mean 2 of a Laplace one (Andrews and Mallows 1974). With r = A y,
G = A Aᵀ over these entries and the features that are on, amounts are integrated out,

    s | z, τ, y ~ N(μ, S),   S = (G + diag(1/τ))⁻¹,   μ = S r,

so that the next entry is N(aμ, 1 + aSa): its density, or mass between its bounds, is the weight,
and μ and S follow in O(K²). Of a column with levels s is drawn, and the weight is the probability
of the level given s.

Where few particles carry the weight they are drawn anew by it (systematically, Carpenter and others
1999). Now and then each makes a step of Gibbs sampling given the entries that have come: s, and
latents and τ given s; then each bit, amounts integrated out. The product of the mean weights has
expectation p(x) (Del Moral 2004), whatever the number of particles; so the mean of its logarithm is
at most log p.
"""

import math
from typing import NamedTuple

import numpy as np

from thali.kernels.bit_prior import accepts
from thali.kernels.compiling import helper, kernel
from thali.kernels.largest_latent import draw_levels
from thali.kernels.latent_columns import (
    HALF_LOG_2PI,
    NODES,
    between,
    chance_of_level,
    log_mass,
)

EARLY = 6  # a step after every entry at first, and after a sixth of those that have come later on
FEW = 0.5  # share of the particles: drawn anew where the weight is that of fewer
GAUSSIAN, LAPLACE = 0, 1
LEAST = 1e-300  # probability of a level
TINY = 1e-12  # variance of an amount; 0 divides


class Row(NamedTuple):
    """What a row shows: bounds of latents in units of the noise, less the bias."""

    items: (
        np.ndarray
    )  # entries in their order: a latent, or −1 − c for column c of those with levels
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray  # of each column with levels, its first latent and where they end
    end: np.ndarray
    level: np.ndarray  # that a column has, the largest latent with its bias


class Given(NamedTuple):
    """What all rows are given; A is in units of the noise."""

    A: np.ndarray
    biases: np.ndarray  # of latents of levels
    odds: np.ndarray  # prior log odds of bits
    slab: int  # what amounts are


class Particle(NamedTuple):
    """z, τ, r, μ, S and y."""

    z: np.ndarray
    tau: np.ndarray
    r: np.ndarray
    mu: np.ndarray
    S: np.ndarray
    y: np.ndarray


@kernel
def filter_row(rng, row, given, particles):
    """An estimate of log p(x), and bits and amounts that the row may have given x: those of one
    particle, drawn by its weight and moved once more."""
    A, slab, items = given.A, given.slab, row.items
    k, n_latents = A.shape
    Z, T = np.zeros((particles, k), np.uint8), np.ones((particles, k))
    R, Mu, S = np.zeros((particles, k)), np.zeros((particles, k)), np.zeros((particles, k, k))
    Y, logs = np.zeros((particles, n_latents)), np.zeros(particles)
    parents, G = np.empty(particles, np.int64), np.zeros((k, k))
    for p in range(particles):
        for i in range(k):
            T[p, i] = 2.0 * rng.standard_exponential() if slab == LAPLACE else 1.0
            Z[p, i] = 1 if accepts(rng, given.odds[i]) else 0
            S[p, i, i] = T[p, i] if Z[p, i] else 0.0
    work, s, mean, inside = np.empty((k, k)), np.empty(k), np.empty(n_latents), np.empty(NODES)
    total, wait = 0.0, 0
    for t in range(items.shape[0]):
        begin, stop = latents_of(row, items[t])
        for p in range(particles):
            one = Particle(Z[p], T[p], R[p], Mu[p], S[p], Y[p])
            if items[t] >= 0:
                logs[p] += take_number(rng, row.low[begin], row.high[begin], A, begin, one)
            else:
                draw_amounts(rng, one, work, s)
                level = row.level[-1 - items[t]]
                logs[p] += take_level(rng, begin, stop, level, given, s, mean, inside, one)
            for j in range(begin, stop):
                for i in range(k):
                    R[p, i] += A[i, j] * Y[p, j]
        add_products(A, begin, stop, G)
        average = log_mean(logs)
        if average == -np.inf:
            return average, Z[0], Mu[0]
        if effective(logs, average) < FEW * particles:
            drawn_anew(rng, logs, average, parents)
            Z, T, R, Mu, S, Y = (
                Z[parents],
                T[parents],
                R[parents],
                Mu[parents],
                S[parents],
                Y[parents],
            )
            total += average
            logs[:] = 0.0
        wait -= 1
        if wait <= 0 and t < items.shape[0] - 1:
            wait = max(1, (t + 1) // EARLY)
            for p in range(particles):
                one = Particle(Z[p], T[p], R[p], Mu[p], S[p], Y[p])
                step(rng, row, t + 1, given, G, one, work, s, mean)
    average = log_mean(logs)
    drawn_anew(rng, logs, average, parents)
    p = parents[int(rng.random() * particles)]
    one = Particle(Z[p], T[p], R[p], Mu[p], S[p], Y[p])
    step(rng, row, items.shape[0], given, G, one, work, s, mean)
    draw_amounts(rng, one, work, s)
    return total + average, one.z, s


@helper
def latents_of(row, item):
    """From where to where the latents of an entry are."""
    if item >= 0:
        return item, item + 1
    return row.first[-1 - item], row.end[-1 - item]


# entries that come


@helper
def predicted(A, j, mu, S):
    """Mean and variance of latent j: aμ and 1 + aSa."""
    mean, variance = 0.0, 1.0
    for i in range(mu.shape[0]):
        mean += A[i, j] * mu[i]
        v = 0.0
        for h in range(mu.shape[0]):
            v += S[i, h] * A[h, j]
        variance += A[i, j] * v
    return mean, max(variance, 1.0)  # rounding aside it is no less


@helper
def learn(A, j, y, mu, S):
    """μ and S given that latent j is y."""
    k = mu.shape[0]
    v = np.zeros(k)
    mean, variance = 0.0, 1.0
    for i in range(k):
        for h in range(k):
            v[i] += S[i, h] * A[h, j]
        mean += A[i, j] * mu[i]
        variance += A[i, j] * v[i]
    variance = max(variance, 1.0)
    for i in range(k):
        mu[i] += v[i] * (y - mean) / variance
        for h in range(k):
            S[i, h] -= v[i] * v[h] / variance


@helper
def take_number(rng, a, b, A, j, one):
    """log P of what is known of latent j, a draw of it; μ and S follow."""
    mean, variance = predicted(A, j, one.mu, one.S)
    sd = math.sqrt(variance)
    if a == b:
        one.y[j] = a
        e = (a - mean) / sd
        found = -0.5 * e * e - math.log(sd) - HALF_LOG_2PI
    else:
        low, high = (a - mean) / sd, (b - mean) / sd
        found = log_mass(low, high)
        if found == -np.inf:
            return found
        one.y[j] = mean + sd * between(rng, low, high)
    learn(A, j, one.y[j], one.mu, one.S)
    return found


@helper
def take_level(rng, begin, stop, r, given, s, mean, inside, one):
    """log P of the level given s, and a draw of its column's latents; μ and S follow."""
    means_of_levels(begin, stop, given, s, mean)
    chance = chance_of_level(mean[begin:stop], r, inside)
    draw_levels(rng, mean[begin:stop], r, one.y[begin:stop])
    for j in range(begin, stop):
        one.y[j] -= given.biases[j]
        learn(given.A, j, one.y[j], one.mu, one.S)
    return math.log(max(chance, LEAST))


@helper
def means_of_levels(begin, stop, given, s, mean):
    for j in range(begin, stop):
        mean[j] = given.biases[j]
        for i in range(s.shape[0]):
            mean[j] += s[i] * given.A[i, j]


@helper
def add_products(A, begin, stop, G):
    """G = Σ a aᵀ over the latents of entries, more of which come."""
    for j in range(begin, stop):
        for i in range(G.shape[0]):
            for h in range(G.shape[0]):
                G[i, h] += A[i, j] * A[h, j]


# weights


@helper
def log_mean(logs):
    top = logs.max()
    if top == -np.inf:
        return top
    total = 0.0
    for p in range(logs.shape[0]):
        total += math.exp(logs[p] - top)
    return top + math.log(total / logs.shape[0])


@helper
def effective(logs, average):
    """How many particles carry the weight: (Σw)²/Σw²."""
    squares = 0.0
    for p in range(logs.shape[0]):
        squares += math.exp(2.0 * (logs[p] - average))
    return logs.shape[0] ** 2 / squares


@helper
def drawn_anew(rng, logs, average, parents):
    """How often each particle is taken is its weight, rounded down or up."""
    above, p = 0.0, -1
    at = rng.random()
    for i in range(parents.shape[0]):
        while above <= at + i and p < logs.shape[0] - 1:
            p += 1
            above += math.exp(logs[p] - average)
        parents[i] = p


# steps of Gibbs sampling


@helper
def step(rng, row, come, given, G, one, work, s, mean):
    """Given the first entries, as many as have come: latents and τ given s, then bits."""
    draw_amounts(rng, one, work, s)
    redraw_latents(rng, row, come, given, s, mean, one)
    if given.slab == LAPLACE:
        redraw_variances(rng, one.z, s, one.tau)
    given_amounts(one.z, one.tau, one.r, G, s, one.mu, one.S)
    turn_bits(rng, given.odds, one.tau, one.r, G, one.z, s, one.mu, one.S)


@helper
def draw_amounts(rng, one, L, s):
    """s ~ N(μ, S) of the features that are on, by S = LLᵀ."""
    z, S, k = one.z, one.S, one.z.shape[0]
    for i in range(k):
        s[i] = one.mu[i]
    for i in range(k):
        if not z[i]:
            continue
        noise = rng.standard_normal()
        for h in range(i, k):  # column i of L
            if not z[h]:
                continue
            left = S[h, i]
            for g in range(i):
                if z[g]:
                    left -= L[h, g] * L[i, g]
            if h == i:
                L[i, i] = math.sqrt(max(left, TINY * max(S[i, i], TINY)))
            else:
                L[h, i] = left / L[i, i]
            s[h] += L[h, i] * noise


@helper
def redraw_latents(rng, row, come, given, s, mean, one):
    """Latents that are not known given s, and r = A y."""
    A, y, changed = given.A, one.y, False
    for item in row.items[:come]:
        begin, stop = latents_of(row, item)
        if item < 0:
            means_of_levels(begin, stop, given, s, mean)
            draw_levels(rng, mean[begin:stop], row.level[-1 - item], y[begin:stop])
            for j in range(begin, stop):
                y[j] -= given.biases[j]
        elif row.low[item] < row.high[item]:
            v = 0.0
            for i in range(s.shape[0]):
                v += s[i] * A[i, item]
            y[item] = v + between(rng, row.low[item] - v, row.high[item] - v)
        else:
            continue
        changed = True
    if not changed:
        return
    one.r[:] = 0.0
    for item in row.items[:come]:
        begin, stop = latents_of(row, item)
        for j in range(begin, stop):
            for i in range(s.shape[0]):
                one.r[i] += A[i, j] * y[j]


@helper
def redraw_variances(rng, z, s, tau):
    """τ given s: 1/τ is inverse Gaussian with mean 1/|s| and shape 1; of features that are off from
    the prior."""
    for i in range(z.shape[0]):
        if not z[i]:
            tau[i] = 2.0 * rng.standard_exponential()
            continue
        size = max(abs(s[i]), TINY)
        # Michael, Schucany and Haas (1976), of the mean 1/size: by the smaller root, which is
        # 1/(size · above), or the other
        a = 0.5 * rng.standard_normal() ** 2 / size
        above = 1.0 + a + math.sqrt(a * a + 2.0 * a)
        smaller = rng.random() * (1.0 + above) <= above
        tau[i] = max(size * above if smaller else size / above, TINY)


@helper
def switch_on(i, tau, r, G, z, v, mu, S, d):
    """Feature i joins those that are on, with v = S g_i and d = 1/τ + g_ii − g_i S g_i."""
    k = z.shape[0]
    e = r[i]
    for h in range(k):
        e -= G[i, h] * mu[h]
    for h in range(k):
        for g in range(k):
            S[h, g] += v[h] * v[g] / d
    for h in range(k):
        mu[h] -= v[h] * e / d
        S[h, i] = S[i, h] = -v[h] / d
    mu[i], S[i, i] = e / d, 1.0 / d
    z[i] = 1


@helper
def solve_feature(i, tau, G, S, v):
    """v = S g_i, and d = 1/τ + g_ii − g_i v."""
    d = 1.0 / tau[i] + G[i, i]
    for h in range(v.shape[0]):
        v[h] = 0.0
        for g in range(v.shape[0]):
            v[h] += S[h, g] * G[g, i]
        d -= G[i, h] * v[h]
    return max(d, 1.0 / tau[i])  # rounding aside it is no less


@helper
def switch_off(i, own, z, mu, S):
    """Feature i leaves those that are on; ``own`` is S_ii."""
    k, m = z.shape[0], mu[i]
    for h in range(k):
        if h != i:
            share = S[h, i] / own
            mu[h] -= share * m
            for g in range(k):
                if g != i:
                    S[h, g] -= share * S[i, g]
    for h in range(k):
        S[h, i] = S[i, h] = 0.0
    mu[i], z[i] = 0.0, 0


@helper
def given_amounts(z, tau, r, G, v, mu, S):
    """μ and S from scratch."""
    mu[:] = 0.0
    S[:] = 0.0
    for i in range(z.shape[0]):
        if z[i]:
            d = solve_feature(i, tau, G, S, v)
            switch_on(i, tau, r, G, z, v, mu, S, d)


@helper
def turn_bits(rng, odds, tau, r, G, z, v, mu, S):
    """Each bit given the others, all amounts integrated out; ``v`` is room to work in."""
    for i in range(z.shape[0]):
        if z[i]:
            own = min(max(S[i, i], TINY * tau[i]), tau[i])  # where it is, rounding aside
            ratio = 0.5 * mu[i] * mu[i] / own - 0.5 * math.log(tau[i] / own)
            if not accepts(rng, odds[i] + ratio):
                switch_off(i, own, z, mu, S)
        else:
            d = solve_feature(i, tau, G, S, v)
            e = r[i]
            for h in range(z.shape[0]):
                e -= G[i, h] * mu[h]
            ratio = 0.5 * e * e / d - 0.5 * math.log(tau[i] * d)
            if accepts(rng, odds[i] + ratio):
                switch_on(i, tau, r, G, z, v, mu, S, d)
