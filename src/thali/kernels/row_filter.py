r"""The density of a row given features A, by particles: its entries come one after the other.

    p(x) = ∏_t p(x_t | x_1 … x_{t−1}),   x_t given bits z and amounts s independent of the others

A particle is (z, s), drawn from the prior to begin with. A few entries come at a time: particles
are weighted by the probability of these, the latents behind them integrated out, and where few of
them carry the weight they are drawn anew by it (systematically, Carpenter and others 1999). Then
each makes a step of Gibbs sampling given the entries that have come, as in ``table_rows``. The mean
of the weights, or the product of these means where particles were drawn anew, has expectation p(x)
(Del Moral 2004), whatever the number of particles; so the mean of its logarithm is at most log p.

mean = b + σ w A, latents within bounds, equal where one is known. All draws are exact: of the
largest of several latents, y = v_r + e has the density φ(e) e^{g(e)}, g(e) = Σ_j log Φ(v_r − v_j +
e). As g is concave, its tangent at t puts the normal N(g'(t), 1) above it, close where g'(t) = t.
"""

import math

import numpy as np

from thali.kernels.bit_prior import accepts
from thali.kernels.compiling import helper, kernel
from thali.kernels.latent_columns import (
    HALF_LOG_2PI,
    NODES,
    between,
    chance_of_level,
    log_below,
    log_mass,
)
from thali.kernels.sparse_factor import draw_slab, log_slab_ratio, move
from thali.kernels.truncated_normal import hazard

EARLY = 6  # entries come one by one at first, and a sixth of those that have come at a time later
FEW = 0.5  # share of the particles: drawn anew where the weight is that of fewer
NO_AMOUNTS, GAUSSIAN, LAPLACE = 0, 1, 2
LEAST = 1e-300  # probability of a level
HALVINGS = 12  # of where the tangent may be: whichever it is, draws are exact


@helper
def mean_at(s, A, noise, biases, j):
    effect = 0.0
    for i in range(s.shape[0]):
        effect += s[i] * A[i, j]
    return biases[j] + noise[j] * effect


@helper
def log_entry(item, low, high, first, end, level, A, noise, biases, s, mean, inside):
    """log P of one entry given the row's amounts: of latent ``item``, or of column −1 − ``item`` of
    those with levels."""
    if item >= 0:
        v, sd, a, b = mean_at(s, A, noise, biases, item), noise[item], low[item], high[item]
        if a == b:
            e = (a - v) / sd
            return -0.5 * e * e - math.log(sd) - HALF_LOG_2PI
        return log_mass((a - v) / sd, (b - v) / sd)
    c = -1 - item
    for j in range(first[c], end[c]):
        mean[j] = mean_at(s, A, noise, biases, j)
    chance = chance_of_level(mean[first[c] : end[c]], level[c], inside)
    return math.log(max(chance, LEAST))


@helper
def draw_levels(rng, v, r, y):
    """Latents y ~ N(v, 1) of which r is the largest."""
    low, high = 0.0, 1.0
    while slope(v, r, high) > high:
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        if slope(v, r, t) > t:
            low = t
        else:
            high = t
    t = 0.5 * (low + high)
    steep, top = slope(v, r, t), log_others_below(v, r, t)
    while True:
        e = steep + rng.standard_normal()
        if math.log(1.0 - rng.random()) < log_others_below(v, r, e) - top - steep * (e - t):
            break
    y[r] = v[r] + e
    for j in range(v.shape[0]):
        if j != r:
            y[j] = v[j] + between(rng, -np.inf, y[r] - v[j])


@helper
def log_others_below(v, r, e):
    """g(e): log P(all others are below v_r + e)."""
    total = 0.0
    for j in range(v.shape[0]):
        if j != r:
            total += log_below(v[r] - v[j] + e)
    return total


@helper
def slope(v, r, e):
    """g'(e)."""
    total = 0.0
    for j in range(v.shape[0]):
        if j != r:
            total += hazard(v[r] - v[j] + e)
    return total


@helper
def draw_latents(rng, items, low, high, first, end, level, A, noise, biases, s, mean, y):
    """The latents of these entries given the row's amounts."""
    for item in items:
        if item >= 0:
            a, b = low[item], high[item]
            if a == b:
                y[item] = a
            else:
                v, sd = mean_at(s, A, noise, biases, item), noise[item]
                y[item] = v + sd * between(rng, (a - v) / sd, (b - v) / sd)
        else:
            c = -1 - item
            for j in range(first[c], end[c]):
                mean[j] = mean_at(s, A, noise, biases, j)
            own = slice(first[c], end[c])
            draw_levels(rng, mean[own], level[c], y[own])


@helper
def turn(rng, r, G, odds, z, s, slab):
    """Each bit with its amount, given the others: r = A x − G s."""
    for i in range(z.shape[0]):
        p, q = G[i, i], r[i] + s[i] * G[i, i]
        amount = 0.0
        if slab == NO_AMOUNTS:
            on = accepts(rng, odds[i] + q - 0.5 * p)
            amount = 1.0 if on else 0.0
        else:
            on = accepts(rng, odds[i] + log_slab_ratio(p, q, slab == LAPLACE))
            if on:
                amount = draw_slab(rng, p, q, slab == LAPLACE)
        z[i] = 1 if on else 0
        move(r, G, s, i, amount)


@helper
def draw_prior(rng, odds, slab, z, s):
    for i in range(z.shape[0]):
        z[i] = 1 if accepts(rng, odds[i]) else 0
        s[i] = 0.0
        if z[i]:
            s[i] = 1.0 if slab == NO_AMOUNTS else draw_slab(rng, 0.0, 0.0, slab == LAPLACE)


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
def effective(logs, log_average):
    """How many particles carry the weight: (Σw)²/Σw²."""
    squares = 0.0
    for p in range(logs.shape[0]):
        squares += math.exp(2.0 * (logs[p] - log_average))
    return logs.shape[0] ** 2 / squares


@helper
def drawn_anew(rng, logs, log_average, parents):
    """How often each particle is taken is its weight, rounded down or up."""
    above, p = 0.0, -1
    at = rng.random()
    for i in range(parents.shape[0]):
        while above <= at + i and p < logs.shape[0] - 1:
            p += 1
            above += math.exp(logs[p] - log_average)
        parents[i] = p


@kernel
def log_density_of_row(
    rng, items, low, high, first, end, level, A, noise, biases, odds, slab, particles
):
    """An estimate of log p(x): see above.

    ``items`` are the entries in the order in which they come: the number of a latent, or −1 − c for
    column c of those with levels, whose latents lie from ``first`` to ``end`` and of which
    ``level`` is the largest. ``odds`` are the prior log odds of bits, ``slab`` what amounts are.
    """
    k, n_latents = A.shape
    Z, S = np.zeros((particles, k), np.uint8), np.zeros((particles, k))
    Z_next, S_next = Z.copy(), S.copy()
    logs, parents = np.zeros(particles), np.empty(particles, np.int64)
    G, r = np.zeros((k, k)), np.empty(k)
    mean, y, inside = np.empty(n_latents), np.empty(n_latents), np.empty(NODES)
    for p in range(particles):
        draw_prior(rng, odds, slab, Z[p], S[p])
    total, at = 0.0, 0
    while at < items.shape[0]:
        until = min(items.shape[0], at + max(1, at // EARLY))
        for p in range(particles):
            for item in items[at:until]:
                logs[p] += log_entry(
                    item, low, high, first, end, level, A, noise, biases, S[p], mean, inside
                )
        add_products(items[at:until], first, end, A, G)
        at = until
        average = log_mean(logs)
        if at == items.shape[0] or average == -np.inf:
            return total + average
        if effective(logs, average) < FEW * particles:
            drawn_anew(rng, logs, average, parents)
            for p in range(particles):
                Z_next[p], S_next[p] = Z[parents[p]], S[parents[p]]
            Z, Z_next = Z_next, Z
            S, S_next = S_next, S
            total += average
            logs[:] = 0.0
        for p in range(particles):
            draw_latents(
                rng, items[:at], low, high, first, end, level, A, noise, biases, S[p], mean, y
            )
            residual_products(items[:at], first, end, A, G, noise, biases, S[p], y, r)
            turn(rng, r, G, odds, Z[p], S[p], slab)
    return total


@helper
def add_products(items, first, end, A, G):
    """G = Σ a aᵀ over the latents of entries, more of which come."""
    for item in items:
        begin = item if item >= 0 else first[-1 - item]
        stop = item + 1 if item >= 0 else end[-1 - item]
        for j in range(begin, stop):
            for i in range(G.shape[0]):
                for h in range(G.shape[0]):
                    G[i, h] += A[i, j] * A[h, j]


@helper
def residual_products(items, first, end, A, G, noise, biases, s, y, r):
    """r = A (y − b)/σ − G s."""
    for i in range(r.shape[0]):
        r[i] = 0.0
        for h in range(r.shape[0]):
            r[i] -= G[i, h] * s[h]
    for item in items:
        begin = item if item >= 0 else first[-1 - item]
        stop = item + 1 if item >= 0 else end[-1 - item]
        for j in range(begin, stop):
            x = (y[j] - biases[j]) / noise[j]
            for i in range(r.shape[0]):
                r[i] += A[i, j] * x
