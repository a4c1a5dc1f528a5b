"""P(x | Z) of one column of a table with two rows, by integrals that know nothing of samplers.

Latents of a column are y = b + σ(Z a + e), so that those of two rows are two normals; an entry
says in which interval its own is, or which of several pairs of latents is the largest in its row.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import norm

NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)
MANY = np.polynomial.legendre.leggauss(200)


def covariance(Z, sigma_a, tau):
    """Of the latents of a column in units of its noise; τ is the scale of an inferred bias."""
    Z = np.asarray(Z, float)
    return sigma_a**2 * Z @ Z.T + np.eye(len(Z)) + tau**2


def inside(mean, C, low, high):
    """P(low < y < high), or the density of an entry whose bounds are equal, of two normals."""
    s = np.sqrt(C[0, 0])
    slope, left = C[0, 1] / C[0, 0], np.sqrt(C[1, 1] - C[0, 1] ** 2 / C[0, 0])
    if low[0] == high[0]:
        y, weight = np.array([low[0]]), np.array([norm.pdf(low[0], mean[0], s)])
    else:
        a, b = ndtr((low[0] - mean[0]) / s), ndtr((high[0] - mean[0]) / s)
        y = mean[0] + s * ndtri(a + (b - a) * 0.5 * (NODES + 1.0))
        weight = 0.5 * (b - a) * WEIGHTS
    m = mean[1] + slope * (y - mean[0])
    if low[1] == high[1]:
        return float(weight @ norm.pdf(low[1], m, left))
    return float(weight @ (ndtr((high[1] - m) / left) - ndtr((low[1] - m) / left)))


def both_below(t, mean, C):
    """P(y_1 < t_1, y_2 < t_2) at many points t, (2, points)."""
    s, slope = np.sqrt(C[0, 0]), C[0, 1] / C[0, 0]
    left = np.sqrt(C[1, 1] - C[0, 1] ** 2 / C[0, 0])
    top = ndtr((t[0] - mean[0]) / s)
    y = mean[0] + s * ndtri(top[:, None] * 0.5 * (NODES + 1.0))
    m = mean[1] + slope * (y - mean[0])
    return 0.5 * top * (ndtr((t[1][:, None] - m) / left) @ WEIGHTS)


def largest(biases, C, levels):
    """P(latent ``levels[n]`` is the largest of row n, in both rows), of one pair for each level."""
    r, s = levels
    s1, s2 = np.sqrt(C[0, 0]), np.sqrt(C[1, 1])
    u = 0.5 * (NODES + 1.0)
    one, two = np.meshgrid(biases[r] + s1 * ndtri(u), biases[s] + s2 * ndtri(u), indexing="ij")
    t, weight = np.array([one.ravel(), two.ravel()]), np.outer(WEIGHTS, WEIGHTS).ravel() / 4.0
    if r == s:
        flat = norm.pdf(t[0], biases[r], s1) * norm.pdf(t[1], biases[s], s2)
        inverse = np.linalg.inv(C)
        d = t - biases[r]
        joint = np.exp(-0.5 * np.einsum("ip,ij,jp->p", d, inverse, d))
        found = joint / (2.0 * np.pi * np.sqrt(np.linalg.det(C))) / flat
    else:  # the other row's latent of the same level is below that row's largest
        to_two = (t[1] - biases[r] - C[0, 1] / C[0, 0] * (t[0] - biases[r])) / np.sqrt(
            C[1, 1] - C[0, 1] ** 2 / C[0, 0]
        )
        to_one = (t[0] - biases[s] - C[0, 1] / C[1, 1] * (t[1] - biases[s])) / np.sqrt(
            C[0, 0] - C[0, 1] ** 2 / C[1, 1]
        )
        found = ndtr(to_two) * ndtr(to_one)
    for j in range(len(biases)):
        if j not in (r, s):
            found = found * both_below(t, np.full(2, biases[j]), C)
    return float(weight @ found)


def largest_of_row(biases, variance, level):
    """The same of one row, by the law of its largest latent."""
    sd, others = np.sqrt(variance), np.delete(biases, level)
    y = biases[level] + sd * ndtri(0.5 * (MANY[0] + 1.0))
    return float(0.5 * MANY[1] @ ndtr((y[:, None] - others) / sd).prod(axis=1))


# ---- the best q of latents, and the lower bound that has it --------------------------------------


def moments_between(center, sd, low, high):
    """E[y], Var[y] and H[q] of N(center, sd²) between bounds, or a number where they are one."""
    if low == high:
        return low, 0.0, 0.0
    a = max(low, min(center, high) - 14.0 * sd)
    b = min(high, max(center, low) + 14.0 * sd)
    if low > center:
        b = min(b, low + 40.0 * sd / (1.0 + (low - center) / sd))
    if high < center:
        a = max(a, high - 40.0 * sd / (1.0 + (center - high) / sd))
    y, w = a + 0.5 * (b - a) * (MANY[0] + 1.0), 0.5 * (b - a) * MANY[1]
    logs = norm.logpdf(y, center, sd)
    total = logs.max() + np.log(w @ np.exp(logs - logs.max()))
    q = w * np.exp(logs - total)
    mean = float(q @ y)
    return mean, float(q @ (y - mean) ** 2), float(-q @ (logs - total))


def moments_of_levels(center, level):
    """E[y], and H[q] − ½ Σ Var[y], of N(center, I) of which latent ``level`` is the largest."""
    u = np.arange(min(center) - 12.0, max(center) + 12.0, 0.02)  # the largest latent, a fine grid
    others = np.delete(np.arange(len(center)), level)
    below = u[:, None] - center[others]
    logs = norm.logpdf(u, center[level]) + norm.logcdf(below).sum(axis=1)
    total = logs.max() + np.log(np.exp(logs - logs.max()).sum() * (u[1] - u[0]))
    q = np.exp(logs - total) * (u[1] - u[0])
    mean, square = np.empty(len(center)), np.empty(len(center))
    mean[level], square[level] = q @ u, q @ (u - center[level]) ** 2
    hazard = np.exp(norm.logpdf(below) - norm.logcdf(below))  # of each given the largest
    mean[others] = center[others] - q @ hazard
    square[others] = q @ (1.0 - below * hazard)
    entropy = total + 0.5 * len(center) * np.log(2.0 * np.pi) + 0.5 * square.sum()
    variance = square - (mean - center) ** 2
    return mean, float(entropy - 0.5 * variance.sum())
