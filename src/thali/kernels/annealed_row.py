r"""The density of a row of numbers given features A that it has or has not, by annealed particles.

    p(x) = Σ_z P(z) N(y; z A, 1),   log N = −½ (yᵀy − 2 z·r + z G zᵀ) + const,   r = A y, G = A Aᵀ

in units of the noise. Particles z are drawn from the prior; with β rising from 0 to 1 along a
ladder that does not look at them they are weighted by N^{β' − β}, drawn anew by weight where few
carry it, and moved by steps that leave P(z) N^β invariant: each bit given the others, and swaps of
a feature that is on for one that is off. The product of the mean weights has expectation p(x)
whatever the number of particles (Del Moral, Doucet and Jasra 2006). All entries have their say at
once, at first a small one, so that particles need not guess from a few which features there are.
"""

import math

import numpy as np

from thali.kernels.bit_prior import accepts
from thali.kernels.compiling import helper, kernel
from thali.kernels.row_filter import FEW, drawn_anew, effective, log_mean

PASSES = 2  # over the bits, at each β


@kernel
def anneal_row(rng, r, G, square, odds, ladder, particles):
    """An estimate of log E[N^{β}] at the last β, less the constant of N, and the bits of a particle
    drawn by its weight."""
    k = r.shape[0]
    Z, H = np.zeros((particles, k), np.uint8), np.empty((particles, k))
    logs, fits, parents = np.zeros(particles), np.empty(particles), np.empty(particles, np.int64)
    for p in range(particles):
        for i in range(k):
            Z[p, i] = 1 if accepts(rng, odds[i]) else 0
        fits[p] = -0.5 * square
        for i in range(k):
            H[p, i] = r[i]
            for h in range(k):
                if Z[p, h]:
                    H[p, i] -= G[i, h]
            if Z[p, i]:
                fits[p] += 0.5 * (r[i] + H[p, i])
    total, before = 0.0, 0.0
    for beta in ladder:
        for p in range(particles):
            logs[p] += (beta - before) * fits[p]
        before = beta
        average = log_mean(logs)
        if effective(logs, average) < FEW * particles:
            drawn_anew(rng, logs, average, parents)
            Z, H, fits = Z[parents], H[parents], fits[parents]
            total += average
            logs[:] = 0.0
        for p in range(particles):
            for _ in range(PASSES):
                fits[p] += turn(rng, beta, G, odds, Z[p], H[p])
                fits[p] += swap(rng, beta, G, odds, Z[p], H[p])
    average = log_mean(logs)
    drawn_anew(rng, logs, average, parents)
    return total + average, Z[parents[int(rng.random() * particles)]]


@helper
def flip(G, z, h, i):
    """Turn bit i, and keep h = r − G z."""
    sign = -1.0 if z[i] else 1.0
    z[i] = 1 - z[i]
    for j in range(h.shape[0]):
        h[j] -= sign * G[i, j]


@helper
def turn(rng, beta, G, odds, z, h):
    """Each bit given the others; by how much log N rises."""
    rise = 0.0
    for i in range(z.shape[0]):
        sign = -1.0 if z[i] else 1.0
        gain = sign * h[i] - 0.5 * G[i, i]
        if accepts(rng, beta * gain + sign * odds[i]):
            flip(G, z, h, i)
            rise += gain
    return rise


@helper
def swap(rng, beta, G, odds, z, h):
    """As many pairs as there are features, drawn: one that is on goes, one that is off comes."""
    k, rise = z.shape[0], 0.0
    for _ in range(k):
        i, j = int(rng.random() * k), int(rng.random() * k)
        if not z[i] or z[j]:
            continue
        gain = h[j] - h[i] - 0.5 * (G[i, i] + G[j, j]) + G[i, j]
        if math.log(1.0 - rng.random()) < beta * gain + odds[j] - odds[i]:
            flip(G, z, h, i)
            flip(G, z, h, j)
            rise += gain
    return rise
