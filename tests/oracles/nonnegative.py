"""Exact posteriors of X = Z A + E with half-normal or exponential A on tiny data, by numerical
integration; σ_a is the root mean square of an entry under either law.

Equal columns of Z act through the sum of their features only, b_h = Σ_{k of history h} a_k, whose
density f_K (of K entries) comes from repeated convolution. For two rows, histories 01, 10, 11,

    P(x | Z) = ∫ f_{K11}(b) g_{K10}(x_1 − b) g_{K01}(x_2 − b) db
    g_K(y) = ∫ f_K(c) N(y; c, σ_x²) dc

in each column of X. For any N and at most two features another way, as an orthant probability:

    P(x | Z) = 2^K N(x; 0, σ_x²I + σ_a²ZZ') P(a ≥ 0 | x),   a | x the normal posterior without sign

or, of exponential entries, as an integral over a.

The mean of the noiseless data follows from the evidence (Tweedie):
E[(ZA)_nd | X] = x_nd + σ_x² ∂ log P(X)/∂x_nd.  Nothing here imports the library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import logsumexp

from oracles import features as oracles


def half_normal(a, sigma_a):
    return 2.0 * stats.norm.pdf(a, scale=sigma_a)


def exponential(a, sigma_a):
    return stats.expon.pdf(a, scale=sigma_a / np.sqrt(2.0))


class Sums:
    """f_K on Gauss–Legendre nodes of [0, length], for K = 1 … most."""

    def __init__(self, most, sigma_a, entry=half_normal, nodes=240):
        length = sigma_a * (most + 8.0 * np.sqrt(most))
        u, w = leggauss(nodes)
        self.b, self.w = 0.5 * length * (u + 1.0), 0.5 * length * w
        short, weights = leggauss(80)
        densities = [lambda a: entry(a, sigma_a)]
        for _ in range(most - 1):
            before = densities[-1]

            def convolved(b, before=before):
                b = np.asarray(b)[..., None]
                c = 0.5 * b * (short + 1.0)  # from 0 to b
                return 0.5 * b[..., 0] * (before(c) * entry(b - c, sigma_a) @ weights)

            densities.append(Chebyshev.interpolate(convolved, 160, [0.0, length]))
        self.f = [np.asarray(density(self.b)) for density in densities]


def log_likelihoods_of_two_rows(X, sigma_x, sigma_a, cap, entry=half_normal):
    """log P(X | Z) of every class with K ≤ cap, in the order of ``oracles.classes``."""
    sums = Sums(cap, sigma_a, entry)
    counts = oracles.classes(2, cap)
    assert oracles.histories(2).astype(int).tolist() == [[0, 1], [1, 0], [1, 1]]
    total = np.zeros(len(counts))
    for x in np.asarray(X).T:
        rows = []
        for n in range(2):  # g_K at x_n and at x_n − b, for every K
            y = np.append(x[n], x[n] - sums.b)
            kernel = stats.norm.pdf(y[:, None] - sums.b, scale=sigma_x) * sums.w
            g = [stats.norm.pdf(y, scale=sigma_x)] + [kernel @ f for f in sums.f]
            rows.append(g)
        for i, (second, first, both) in enumerate(counts):
            product = rows[0][first] * rows[1][second]
            value = product[0] if both == 0 else (sums.w * sums.f[both - 1]) @ product[1:]
            total[i] += np.log(value)
    return total


def log_likelihood_by_orthant(X, Z, sigma_x, sigma_a):
    """log P(X | Z) for at most two features."""
    Z = np.asarray(Z, float)
    k = Z.shape[1]
    value = oracles.log_marginal(X, Z, sigma_x, sigma_a) + k * np.log(2.0) * np.shape(X)[1]
    if k == 0:
        return value
    mean, covariance = oracles.posterior_of_features(np.asarray(X), Z, sigma_x, sigma_a)
    for a in mean.T:
        value += np.log(stats.multivariate_normal(-a, covariance).cdf(np.zeros(k)))
    return value


def log_likelihood_of_exponentials(X, Z, sigma_x, sigma_a, nodes=200):
    """log P(X | Z) for at most two features of any number of rows, on a grid of a."""
    X, Z = np.asarray(X, float), np.asarray(Z, float)
    if not Z.shape[1]:
        return float(stats.norm.logpdf(X, scale=sigma_x).sum())
    u, w = leggauss(nodes)
    total = 0.0
    for x in X.T:
        length = max(x.max(), 0.0) + 12.0 * sigma_x + 1e-3  # no entry is more, if a row has it
        length = np.where(Z.any(axis=0), length, 40.0 * sigma_a)
        axes = [0.5 * one * (u + 1.0) for one in length]
        a = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        weights = np.prod(
            np.stack(np.meshgrid(*(0.5 * one * w for one in length), indexing="ij")), 0
        )
        logs = stats.norm.logpdf(x, a @ Z.T, sigma_x).sum(axis=-1)
        logs = logs + np.log(exponential(a, sigma_a)).sum(axis=-1) + np.log(weights)
        total += logsumexp(logs)
    return float(total)


@dataclass(frozen=True)
class Exact:
    """The posterior given X and K ≤ cap."""

    k_probabilities: np.ndarray
    gram: np.ndarray  # E[ZZ']
    fitted: np.ndarray  # E[ZA]
    alpha: float
    log_evidence: float


def enumerate_posterior(prior, X, sigma_x, sigma_a, cap, entry=half_normal):
    """By the convolutions for two rows, else by orthants, for finite priors of two features."""
    X = np.asarray(X, float)
    counts = oracles.classes(len(X), cap)
    log_prior, alpha_of_class = prior.log_classes(counts, len(X))
    h = oracles.histories(len(X))

    def log_joint(X):
        if len(X) == 2:
            return log_prior + log_likelihoods_of_two_rows(X, sigma_x, sigma_a, cap, entry)
        one = log_likelihood_by_orthant if entry is half_normal else log_likelihood_of_exponentials
        matrices = [np.repeat(h, c, axis=0).T for c in counts]
        return log_prior + [one(X, Z, sigma_x, sigma_a) for Z in matrices]

    logs = log_joint(X)
    p = np.exp(logs - logsumexp(logs))
    step = 1e-3 * sigma_x
    fitted = X.copy()
    for place in np.ndindex(X.shape):
        up, down = X.copy(), X.copy()
        up[place] += step
        down[place] -= step
        slope = (logsumexp(log_joint(up)) - logsumexp(log_joint(down))) / (2.0 * step)
        fitted[place] += sigma_x**2 * slope
    return Exact(
        np.bincount(counts.sum(axis=1), p, minlength=cap + 1),
        np.einsum("c,ch,hi,hj->ij", p, counts, h, h),
        fitted,
        float(p @ alpha_of_class),
        float(logsumexp(logs)),
    )
