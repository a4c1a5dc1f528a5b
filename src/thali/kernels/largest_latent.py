r"""Exact draws of several latents y ~ N(v, 1) of which one, r, is known to be the largest.

y_r = v_r + e has the density φ(e) e^{g(e)}, g(e) = Σ_j log Φ(v_r − v_j + e), up to a constant. As g
is concave, its tangent at t puts the normal N(g'(t), 1) above it, close where g'(t) = t; draws from
that are taken with probability e^{g(e) − g(t) − g'(t)(e − t)}. The others lie below y_r.
"""

import math

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.latent_columns import between, log_below
from thali.kernels.truncated_normal import hazard

NEAR = 0.05  # to where the tangent is best: whichever it is, draws are exact, and soon made
TRIES = 1000  # after which the mode is taken, as digits are lost 10⁷ and more from the others


@helper
def draw_levels(rng, v, r, y):
    """Latents y ~ N(v, 1) of which r is the largest."""
    low, high = 0.0, 1.0
    while slope(v, r, high) > high:
        low, high = high, 2.0 * high
    while high - low > NEAR * max(1.0, 1e-14 * high):
        t = 0.5 * (low + high)
        if slope(v, r, t) > t:
            low = t
        else:
            high = t
    t = 0.5 * (low + high)
    steep, top = slope(v, r, t), log_others_below(v, r, t)
    e = t
    for _ in range(TRIES):
        drawn = steep + rng.standard_normal()
        if math.log(1.0 - rng.random()) < log_others_below(v, r, drawn) - top - steep * (drawn - t):
            e = drawn
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
