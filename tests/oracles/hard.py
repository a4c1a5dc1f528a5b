"""The bound of maximization-expectation and the objective of a row, the slow and obvious way.

    E[log P(X | Z, A)] + log P(Z) + Σ_{k in use} E[log p(a_k)] + H[q(a_k)]

Moments are integrated numerically (``variational.py``); every entry of X, every column of Z and
every set of features is looked at one by one. Nothing here imports the library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import comb, lgamma, log, pi

import numpy as np

from oracles.features import Floats
from oracles.variational import truncated


@dataclass(frozen=True)
class Point:
    """Z, the law of A (normal, or cut off below zero, each entry by itself), numbers and data."""

    X: Floats
    Z: Floats
    mu: Floats
    s: Floats
    nonnegative: bool
    exponential: bool  # the prior of features cut off below zero, √2/σ_a its rate
    prior: str
    alpha: float
    sigma_x: float
    sigma_a: float
    beta: float = 1.0
    n_components: int = 0

    def but(self, **changes) -> Point:
        return replace(self, **changes)


def moments(p: Point):
    """E[a], E[a²] and entropy of each entry."""
    if p.nonnegative:
        return truncated(p.mu, p.s)
    return p.mu, p.mu**2 + p.s**2, 0.5 * np.log(2.0 * np.pi * np.e * p.s**2)


def log_prior(p: Point, left_ordered: bool = False) -> float:
    """log P(Z), columns in one order out of all, or up to order."""
    Z = np.asarray(p.Z)
    n = len(Z)
    columns = [tuple(column) for column in Z.T if column.any()]
    k, total = len(columns), 0.0
    for column in columns:
        m = sum(column)
        if p.prior == "ibp":
            total += log(p.alpha) + lgamma(n - m + 1) + lgamma(m) - lgamma(n + 1)
        elif p.prior == "two_parameter_ibp":
            total += log(p.alpha * p.beta) + lgamma(m) + lgamma(n - m + p.beta)
            total -= lgamma(n + p.beta)
        else:
            total += log_finite(m, n, p.alpha / p.n_components)
    if p.prior == "beta_bernoulli":
        total += (p.n_components - k) * log_finite(0, n, p.alpha / p.n_components)
        total += log(comb(p.n_components, k))
    else:
        beta = p.beta if p.prior == "two_parameter_ibp" else 1.0
        total -= p.alpha * sum(beta / (beta + i) for i in range(n)) + lgamma(k + 1)
    if left_ordered:
        total += lgamma(k + 1) - sum(lgamma(columns.count(c) + 1) for c in set(columns))
    return total


def log_finite(m: int, n: int, a: float) -> float:
    """log of the integral of π^m (1 − π)^(n − m) under Beta(a, 1)."""
    return log(a) + lgamma(m + a) + lgamma(n - m + 1) - lgamma(n + 1 + a)


def bound(p: Point, left_ordered: bool = False) -> float:
    """The lower bound of log P(X)."""
    mean, second, entropy = moments(p)
    total = log_prior(p, left_ordered)
    for n, d in np.argwhere(~np.isnan(p.X)):
        on = np.flatnonzero(p.Z[n])
        error = (p.X[n, d] - mean[on, d].sum()) ** 2 + (second[on, d] - mean[on, d] ** 2).sum()
        total -= 0.5 * log(2.0 * pi * p.sigma_x**2) + 0.5 * error / p.sigma_x**2
    rate = 2.0**0.5 / p.sigma_a
    constant = (log(2.0) if p.nonnegative else 0.0) - 0.5 * log(2.0 * pi * p.sigma_a**2)
    for k in np.flatnonzero(p.Z.any(axis=0)):
        if p.exponential:
            total += (log(rate) - rate * mean[k] + entropy[k]).sum()
        else:
            total += (constant - 0.5 * second[k] / p.sigma_a**2 + entropy[k]).sum()
    return float(total)


# ---- the objective of a row ---------------------------------------------------------------------
def sets(k: int) -> Floats:
    """All 2^K rows."""
    return np.array(list(product((0, 1), repeat=k)), float)


def values(weights, pairs, own, by_count, others) -> Floats:
    """F of all rows, in the order of ``sets``."""
    S = sets(len(weights))
    j = (S @ own).astype(int)
    upper = np.triu(pairs, 1)
    return (
        S @ weights
        - np.einsum("sk,kl,sl->s", S, upper, S)
        + by_count[others + j]
        - by_count[others]
    )


def law_of_double_greedy(weights, pairs, own, by_count, others) -> Floats:
    """The chance of each row, in the order of ``sets``, by following both sides of every coin."""
    k = len(weights)
    F = values(weights, pairs, own, by_count, others)
    place = 2 ** np.arange(k - 1, -1, -1)
    chance = np.zeros(2**k)

    def go(i, low, high, p):
        if i == k:
            chance[int(low @ place)] += p
            return
        more, less = low.copy(), high.copy()
        more[i], less[i] = 1, 0
        up = max(F[int(more @ place)] - F[int(low @ place)], 0.0)
        down = max(F[int(less @ place)] - F[int(high @ place)], 0.0)
        share = 1.0 if up + down == 0.0 else up / (up + down)
        if share > 0.0:
            go(i + 1, more, high, p * share)
        if share < 1.0:
            go(i + 1, low, less, p * (1.0 - share))

    go(0, np.zeros(k, int), np.ones(k, int), 1.0)
    return chance
