r"""Expectations of latents between bounds: normals that are cut off, and levels one of which wins.

A latent e ~ N(0, 1) between a < b has, with Z = Φ(b) − Φ(a),

    E[e] = (φ(a) − φ(b))/Z,   Var[e] = 1 + (a φ(a) − b φ(b))/Z − E[e]².

Where a and b are close all of these cancel, and a quadrature (Gauss and Legendre) of φ between them
serves; else they are taken in the left tail, by the ratios φ/Φ, which lose no digits there.

Latents Y ~ N(m, I) of which y_c is the largest have, with δ_j = m_c − m_j,

    Z = ∫ φ(u) ∏_{j≠c} Φ(u + δ_j) du,   E[Y] = m + ∇ log Z,

a quadrature (Gauss and Hermite) about the maximum of the integrand, so that it is exact to nine
digits however rare the level is; the gradient is that of the same sum.

A law q(y) of latents has a gain H[q] and costs ½ Var; for levels, whose noise is one, the two come
as one: at the best law H[q] − ½ Var = log Z + ½ log 2π + ½ (E[y] − m)², for each latent.
"""

import math

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.truncated_normal import hazard, log_ndtr, mean, variance

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
ROOT_HALF = math.sqrt(0.5)
ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)
CLOSE, STEEP = 1.0, 4.0  # bounds this close, between which log φ changes by no more than that
BETWEEN, SHARES = np.polynomial.legendre.leggauss(12)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
LOG_WEIGHTS = np.log(WEIGHTS / WEIGHTS.sum()) + 0.5 * NODES * NODES
NEWTON = 12  # steps to the maximum, at most
NEAR = 0.03  # from it is near enough: it only says where to put the nodes
DEEP = -36.0  # x from which on Φ(x) is a number above 1e-290
SMALL = 1e-200


@helper
def cut(a, b):
    """log Z, mean and variance of a standard normal between a < b, either of which may be
    infinite."""
    if a == -np.inf:
        if b == np.inf:
            return 0.0, 0.0, 1.0
        return log_ndtr(b), b - mean(b, 1.0), variance(b, 1.0)
    if b == np.inf:
        return log_ndtr(-a), a + mean(-a, 1.0), variance(-a, 1.0)
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    if 2.0 * half <= CLOSE and 2.0 * half * abs(middle) <= STEEP:
        return cut_close(middle, half)
    sign = 1.0
    if middle > 0.0:
        a, b, sign = -b, -a, -1.0
    top = log_ndtr(b)
    beyond = math.exp(log_ndtr(a) - top)
    at_a, at_b = hazard(a) * beyond / (1.0 - beyond), hazard(b) / (1.0 - beyond)
    first = at_a - at_b
    spread = 1.0 + a * at_a - b * at_b - first * first
    return top + math.log1p(-beyond), sign * first, max(spread, 0.0)


@helper
def cut_close(middle, half):
    """The same between middle − half and middle + half."""
    total = first = spread = 0.0
    for q in range(BETWEEN.shape[0]):
        t = half * BETWEEN[q]
        p = SHARES[q] * math.exp(-t * (middle + 0.5 * t))
        total += p
        first += p * t
    first /= total
    for q in range(BETWEEN.shape[0]):
        t = half * BETWEEN[q]
        spread += SHARES[q] * math.exp(-t * (middle + 0.5 * t)) * (t - first) ** 2
    log_total = math.log(half * total) - 0.5 * middle * middle - HALF_LOG_2PI
    return log_total, middle + first, spread / total


@kernel
def expect_between(center, sd, low, high, Y, spread, entropy):
    """E[y] of every y ~ N(center, sd²) between its bounds, (N, L), into Y; Σ Var and Σ H of each
    column are added to. Equal bounds are a value, NaN ones leave an entry as it is."""
    for n in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            a, b, v, s = low[n, j], high[n, j], center[n, j], sd[j]
            if a == b:
                Y[n, j] = a
            elif a < b and (a > -np.inf or b < np.inf):
                log_total, first, variance_of = cut((a - v) / s, (b - v) / s)
                Y[n, j] = v + s * first
                spread[j] += s * s * variance_of
                square = first * first + variance_of
                entropy[j] += log_total + HALF_LOG_2PI + math.log(s) + 0.5 * square


@kernel
def expect_ordinal(center, j, level, edges, Y, spread, entropy):
    """The same of latent j, with noise one, between the edges of each row's level; −1 is none."""
    for n in range(Y.shape[0]):
        r, v = level[n], center[n, j]
        if r >= 0:
            log_total, first, variance_of = cut(edges[r] - v, edges[r + 1] - v)
            Y[n, j] = v + first
            spread[j] += variance_of
            entropy[j] += log_total + HALF_LOG_2PI + 0.5 * (first * first + variance_of)


@helper
def rate(x):
    """φ(x)/Φ(x), without the terms of a fraction where Φ(x) is a number."""
    if x < DEEP:
        return hazard(x)
    return ROOT_2_OVER_PI * math.exp(-0.5 * x * x) / math.erfc(-x * ROOT_HALF)


@helper
def highest(delta, c):
    """Where −½u² + Σ_{j≠c} log Φ(u + δ_j) is highest, nearly, and the curvature there."""
    u, curvature = 0.0, 1.0
    for _ in range(NEWTON):
        slope, curvature = -u, 1.0
        for j in range(delta.shape[0]):
            if j != c:
                h = rate(u + delta[j])
                slope += h
                curvature += h * (h + u + delta[j])
        step = slope / curvature
        u += step
        if abs(step) < NEAR:
            break
    return u, curvature


@helper
def largest(delta, c, slopes):
    """log Z, and its derivative by each m_j, into ``slopes``; δ_j = m_c − m_j."""
    levels = delta.shape[0]
    u, curvature = highest(delta, c)
    scale = 1.0 / math.sqrt(curvature)
    logs, rates = np.empty(NODES.shape[0]), np.empty((NODES.shape[0], levels))
    for q in range(NODES.shape[0]):
        at = u + scale * NODES[q]
        log, product = LOG_WEIGHTS[q] - 0.5 * at * at, 1.0
        for j in range(levels):
            x = at + delta[j]
            if j == c:
                rates[q, j] = 0.0
            elif x > DEEP:
                twice = math.erfc(-x * ROOT_HALF)
                product *= 0.5 * twice
                rates[q, j] = ROOT_2_OVER_PI * math.exp(-0.5 * x * x) / twice
                if product < SMALL:
                    log += math.log(product)
                    product = 1.0
            else:
                log += log_ndtr(x)
                rates[q, j] = hazard(x)
        logs[q] = log + math.log(product)
    top, total = logs.max(), 0.0
    for j in range(levels):
        slopes[j] = 0.0
    for q in range(NODES.shape[0]):
        p = math.exp(logs[q] - top)
        total += p
        for j in range(levels):
            slopes[j] -= p * rates[q, j]
    for j in range(levels):
        slopes[j] /= total
    slopes[c] = -slopes.sum()  # that of level c itself is still 0
    return top + math.log(total * scale)


@kernel
def expect_levels(center, level, first, end, Y, entropy):
    """E[Y] of the latents of a column with levels, ``first`` to ``end``, of rows of N(center, I)
    whose ``level`` is the largest, −1 for one that is not known; entropies less half the variances
    are added to that of the first latent."""
    levels = end - first
    slopes, delta = np.empty(levels), np.empty(levels)
    for n in range(Y.shape[0]):
        c = level[n]
        if c < 0:
            continue
        for j in range(levels):
            delta[j] = center[n, first + c] - center[n, first + j]
        gain = largest(delta, c, slopes) + levels * HALF_LOG_2PI
        for j in range(levels):
            Y[n, first + j] = center[n, first + j] + slopes[j]
            gain += 0.5 * slopes[j] * slopes[j]
        entropy[first] += gain


@kernel
def edge_slopes(center, level, edges, slope, curve, beside):
    """Σ log P(level) of latents N(center, 1), (N,), by the edges between levels: the sum, and its
    first and second derivatives by each edge, and by each and the next, added to."""
    total = 0.0
    for n in range(center.shape[0]):
        r, v = level[n], center[n]
        if r < 0:
            continue
        a, b = edges[r] - v, edges[r + 1] - v
        log_total, _, _ = cut(a, b)
        total += log_total
        at_a = math.exp(-0.5 * a * a - HALF_LOG_2PI - log_total) if a > -np.inf else 0.0
        at_b = math.exp(-0.5 * b * b - HALF_LOG_2PI - log_total) if b < np.inf else 0.0
        if a > -np.inf:
            slope[r] -= at_a
            curve[r] += at_a * (a - at_a)
        if b < np.inf:
            slope[r + 1] += at_b
            curve[r + 1] -= at_b * (b + at_b)
        beside[r] += at_a * at_b
    return total
