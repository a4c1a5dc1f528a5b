"""Clusters as one would first write them: densities by scipy, a row at a time, all partitions."""

from __future__ import annotations

import numpy as np
from scipy import stats

from thali.structures.labels import all_partitions


def normal_gamma_predictive(x, rows, kappa, shape, rate):
    """log p(x | rows) of columns with their own mean (around zero) and variance."""
    n = len(rows)
    k = kappa + n
    mean = rows.sum(axis=0) / k
    a = shape + n / 2
    centered = ((rows - rows.mean(axis=0)) ** 2).sum(axis=0) if n else 0.0
    shift = kappa * n * rows.mean(axis=0) ** 2 / k if n else 0.0
    b = rate + 0.5 * (centered + shift)
    scale = np.sqrt(b * (k + 1) / (a * k))
    return stats.t.logpdf(x, 2 * a, mean, scale).sum()


def normal_wishart_predictive(x, rows, kappa, degrees, scale):
    """log p(x | rows) of rows with their own mean (around zero) and covariance."""
    n, dimensions = len(rows), len(x)
    k, nu = kappa + n, degrees + n
    mean = rows.sum(axis=0) / k
    psi = scale + rows.T @ rows - k * np.outer(mean, mean)
    df = nu - dimensions + 1
    return stats.multivariate_t.logpdf(x, mean, psi * (k + 1) / (k * df), df)


def categories_predictive(x, rows, weights):
    """log P(x | rows) of columns of codes, −1 where missing; ``weights`` a list a column."""
    found = 0.0
    for d, own in enumerate(weights):
        if x[d] >= 0:
            seen = rows[:, d][rows[:, d] >= 0]
            found += np.log((own[x[d]] + (seen == x[d]).sum()) / (sum(own) + len(seen)))
    return found


def multinomial_predictive(x, rows, weight):
    """log P(x | rows) of counts, given the sum of x."""
    return stats.dirichlet_multinomial.logpmf(x, weight + rows.sum(axis=0), x.sum())


def log_marginal(X, predictive):
    """log p of rows, one after the other."""
    return sum(predictive(X[i], X[:i]) for i in range(len(X)))


def log_likelihood(X, labels, predictive):
    """log p(X | partition)."""
    return sum(log_marginal(X[labels == k], predictive) for k in np.unique(labels))


def posterior(X, log_prior, predictive):
    """All partitions of the rows, and their probabilities."""
    found = [np.array(labels) for labels in all_partitions(len(X))]
    logs = np.array([log_prior(c) + log_likelihood(X, c, predictive) for c in found])
    weights = np.exp(logs - logs.max())
    return found, weights / weights.sum()
