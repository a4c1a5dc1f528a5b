"""The most probable class [Z] of tiny data, and what a search should say of its candidates.

    log P(X, [Z]) = none + choices(K) + Σ_k λ_{m_k} − Σ_h log K_h!
                    + Σ_d log N(x_d; 0, σ_x²I + σ_a²ZZᵀ)

``most_probable`` goes through all classes, one column more at a time. A class is left with all that
contain it only where that is safe: no density is above ``highest_density``, which any covariance
σ_x²I + (positive) could reach, and one more column of history h adds at most λ_h − log(K_h + 1)
(and log of the free dishes) to the prior. So no number of columns is too large to be looked at.

Nothing here imports the library.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import comb, exp, lgamma, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from oracles.features import histories

Floats = NDArray[np.float64]


# ---- priors -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Prior:
    """ "ibp", "two_parameter_ibp" or "beta_bernoulli", by integrals over a dish's frequency."""

    kind: str
    alpha: float
    beta: float = 1.0
    n_components: int = 0

    @property
    def finite(self) -> bool:
        return self.kind == "beta_bernoulli"

    def potential(self, m: NDArray | float, n: int) -> Floats:
        """λ_m: log of α ∫ π^{m−1}(1−π)^{N−m} dπ or, in a finite prior, of a column with one
        history of m takers against an empty one."""
        if self.finite:
            a = self.alpha / self.n_components
            return betaln(m + a, n - m + 1.0) - betaln(a, n + 1.0)
        return np.log(self.alpha * self.beta) + betaln(m, n - m + self.beta)

    def none(self, n: int) -> float:
        """log P of no dish at all."""
        if self.finite:
            a = self.alpha / self.n_components
            return self.n_components * float(betaln(a, n + 1.0) - betaln(a, 1.0))
        return -self.alpha * sum(self.beta / (self.beta + i) for i in range(n))

    def choices(self, k: int) -> float:
        """log of the ways to pick k columns one after the other, where they are counted."""
        if not self.finite:
            return 0.0
        if k > self.n_components:
            return -np.inf
        return sum(log(self.n_components - i) for i in range(k))

    def taken(self, m: float, n: int) -> float:
        """The probability that row n takes a dish which m of the n − 1 before it have."""
        if self.finite:
            a = self.alpha / self.n_components
            return (m + a) / (n + a)
        return m / (self.beta + n - 1.0)

    def log_prob(self, Z: NDArray) -> float:
        """log P([Z])."""
        n, k = Z.shape
        sums = Z.sum(axis=0)
        assert (sums > 0).all()
        return (
            self.none(n)
            + self.choices(k)
            + float(self.potential(sums, n).sum() if k else 0.0)
            - sum(lgamma(c + 1.0) for c in times(Z))
        )


def times(Z: NDArray) -> list[int]:
    """How often each distinct column occurs."""
    return list(Counter(map(tuple, np.asarray(Z, int).T.tolist())).values())


def columns_and_times(Z: NDArray) -> list[tuple[tuple[int, ...], int]]:
    """Each distinct column, and how often it occurs."""
    return list(Counter(map(tuple, np.asarray(Z, int).T.tolist())).items())


# ---- likelihood -------------------------------------------------------------------------------
def log_marginal(X: NDArray, Z: NDArray, sigma_x: float, sigma_a: float) -> float:
    """log P(X | Z) of the columns of X, by their covariance."""
    Z = np.asarray(Z, float)
    return float(log_densities(X, (Z @ Z.T)[None], sigma_x, sigma_a)[0])


def log_densities(X: NDArray, G: Floats, sigma_x: float, sigma_a: float) -> Floats:
    """log N(X; 0, σ_x²I + σ_a²G) for many G = ZZᵀ; where entries are missing, of each column's
    observed rows."""
    n, d = X.shape
    if np.isnan(X).any():
        total = np.zeros(len(G))
        for x in X.T:
            seen = np.flatnonzero(~np.isnan(x))
            part = G[:, seen[:, None], seen]
            total += log_densities(x[seen, None], part, sigma_x, sigma_a)
        return total
    covariance = sigma_x**2 * np.eye(n) + sigma_a**2 * G
    _, log_determinant = np.linalg.slogdet(covariance)
    solved = np.linalg.solve(covariance, np.broadcast_to(X, (len(G), n, d)))
    fit = np.einsum("gnd,nd->g", solved, X)
    return -0.5 * (n * d * np.log(2 * np.pi) + d * log_determinant + fit)


def highest_density(X: NDArray, sigma_x: float) -> float:
    """The largest log N(X; 0, C) of all C with no eigenvalue below σ_x²: C has the eigenvectors of
    XXᵀ/D and its eigenvalues, where they are above σ_x². With gaps, of each column by itself."""
    if np.isnan(X).any():
        return sum(highest_density(x[~np.isnan(x), None], sigma_x) for x in X.T)
    d = X.shape[1]
    s = np.maximum(np.linalg.eigvalsh(X @ X.T) / d, 0.0)
    v = np.maximum(s, sigma_x**2)
    return float(-0.5 * d * (np.log(2 * np.pi * v) + s / v).sum())


def log_joint(X: NDArray, Z: NDArray, prior: Prior, sigma_x: float, sigma_a: float) -> float:
    return prior.log_prob(Z) + log_marginal(X, Z, sigma_x, sigma_a)


# ---- the mode ---------------------------------------------------------------------------------
def most_probable(
    X: NDArray, prior: Prior, sigma_x: float, sigma_a: float
) -> tuple[float, NDArray[np.bool_]]:
    """The highest log P(X, [Z]) of all classes, and a matrix that has it."""
    n = len(X)
    h = histories(n)
    outer = np.einsum("hi,hj->hij", h, h).reshape(len(h), -1)
    weights = prior.potential(h.sum(axis=1), n)
    order = np.argsort(-weights, kind="stable")  # the likely ones first: the rest soon add nothing
    h, outer, weights = h[order], outer[order], weights[order]
    top = highest_density(X, sigma_x)
    counts, last = np.zeros((1, len(h)), int), np.zeros(1, int)
    prior_part, k = np.array([prior.none(n)]), 0
    best, which = -np.inf, counts[0]
    while len(counts):
        G = (counts @ outer).reshape(-1, n, n)
        joint = prior_part + log_densities(X, G, sigma_x, sigma_a)
        if joint.max() > best:
            best, which = float(joint.max()), counts[joint.argmax()]
        if prior.finite and k == prior.n_components:
            break
        # every class with one column more, columns in the order of histories
        rows = np.repeat(np.arange(len(counts)), len(h) - last)
        column = np.concatenate([np.arange(i, len(h)) for i in last])
        choice = log(prior.n_components - k) if prior.finite else 0.0
        prior_part = prior_part[rows] + weights[column] + choice
        prior_part -= np.log(counts[rows, column] + 1.0)
        counts, last, k = counts[rows], column, k + 1
        counts[np.arange(len(rows)), last] += 1
        free = prior.n_components - k if prior.finite else None
        able = prior_part + top + still_to_gain(counts, last, weights, free) > best
        counts, last, prior_part = counts[able], last[able], prior_part[able]
    return best, np.repeat(h, which, axis=0).T.astype(bool)


def still_to_gain(counts: NDArray, last: NDArray, weights: Floats, free: int | None) -> Floats:
    """The most that more columns of histories ``last`` and on may add to the log prior."""
    if free == 0:
        return np.zeros(len(counts))
    each = weights + (0.0 if free is None else log(free))
    most = np.maximum(np.floor(np.exp(each)), counts)  # beyond it, a column is a loss
    gain = (most - counts) * each - gammaln(most + 1.0) + gammaln(counts + 1.0)
    after = np.cumsum(gain[:, ::-1], axis=1)[:, ::-1]
    return after[np.arange(len(counts)), last]


# ---- candidates -------------------------------------------------------------------------------
def partitions(count: int, parts: int, largest: int | None = None):
    """All ways to write ``count`` as a sum of at most ``parts`` numbers, the largest first."""
    if count == 0:
        yield ()
        return
    for first in range(min(count, largest or count), 0, -1):
        if parts > 0:
            for rest in partitions(count - first, parts - 1, first):
                yield (first, *rest)


@cache
def fewest_ties(count: int, left: int) -> float:
    """The least Σ log c! of ``count`` equal columns, of all ways that ``left`` rows part them."""
    return min(sum(lgamma(c + 1.0) for c in way) for way in partitions(count, 2 ** min(left, 8)))


def best_worth(prior: Prior, m: int, left: int, n: int, bound: str) -> float:
    """The most that a dish with m takers among the first n − left rows is taken to be worth."""
    if bound == "convex":
        return max(float(prior.potential(m + s, n)) for s in range(left + 1))
    if left == 0:
        return float(prior.potential(m, n))
    seen = n - left
    take, skip = prior.taken(m + left - 1, n), 1.0 - prior.taken(m, n)
    never = sum(log(1.0 - prior.taken(0, i)) for i in range(seen + 1, n + 1))
    return float(prior.potential(m, seen)) + left * log(max(take, skip)) - never


def best_future(prior: Prior, left: int, n: int, free: int | None) -> float:
    """The most that dishes of ``left`` rows may add to the log prior, history by history."""
    if free == 0:
        return 0.0
    total = 0.0
    for m in range(1, left + 1):
        each = float(prior.potential(m, n)) + (0.0 if free is None else log(free))
        most = 400 if free is None else free
        total += comb(left, m) * max(c * each - lgamma(c + 1.0) for c in range(most + 1))
    return total


def bound_of_prior(Z: NDArray, n: int, prior: Prior, bound: str) -> float:
    """The most that the prior of n rows is taken to be, given the first ones."""
    if bound == "so_far":
        return prior.log_prob(Z)
    rows, k = Z.shape
    left = n - rows
    worth = sum(best_worth(prior, int(m), left, n, bound) for m in Z.sum(axis=0))
    tied = 0.0
    for column, c in columns_and_times(Z):
        loss = fewest_ties(c, left)
        if bound == "convex" and c > 1:  # no way to end them has more than all ways together
            m = int(sum(column))
            ways = [comb(left, s) * exp(prior.potential(m + s, n)) for s in range(left + 1)]
            most = c * log(sum(ways)) - lgamma(c + 1.0)
            loss = max(loss, c * best_worth(prior, m, left, n, bound) - most)
        tied += loss
    free = prior.n_components - k if prior.finite else None
    return prior.none(n) + prior.choices(k) + worth - tied + best_future(prior, left, n, free)


def guess_of_rows(X: NDArray, heuristic: str, sigma_x: float, sigma_a: float) -> float:
    """What rows to come are taken to add to the log likelihood."""
    if heuristic == "trivial":
        return 0.0
    if heuristic == "admissible":
        return -0.5 * X.size * log(2 * np.pi * sigma_x**2)
    own = np.ones((1, 1))
    return sum(log_marginal(x[None], own, sigma_x, sigma_a) for x in X)


def score(
    X: NDArray,
    Z: NDArray,
    prior: Prior,
    sigma_x: float,
    sigma_a: float,
    bound: str = "convex",
    heuristic: str = "admissible",
) -> float:
    """The score of the candidate Z of the first rows of X."""
    seen = len(Z)
    return (
        log_marginal(X[:seen], Z, sigma_x, sigma_a)
        + bound_of_prior(Z, len(X), prior, bound)
        + guess_of_rows(X[seen:], heuristic, sigma_x, sigma_a)
    )


def next_rows(Z: NDArray, most_new: int):
    """Every Z with one row more, but one of those that differ in the order of columns alone."""
    rows, k = Z.shape
    seen = set()
    for bits in product((0, 1), repeat=k):
        for new in range(most_new + 1):
            longer = np.zeros((rows + 1, k + new), int)
            longer[:rows, :k] = Z
            longer[rows] = [*bits, *[1] * new]
            key = class_key(longer)
            if key not in seen:
                seen.add(key)
                yield longer


def class_key(Z: NDArray) -> tuple:
    """The same for matrices that differ in the order of columns alone."""
    return (len(Z), tuple(sorted(map(tuple, np.asarray(Z, int).T.tolist()))))


# ---- greedy -----------------------------------------------------------------------------------
def greedy(X: NDArray, prior: Prior, sigma_x: float, sigma_a: float, most_new: int) -> NDArray:
    """Each row in turn as is best for the rows up to it."""
    Z = np.zeros((0, 0), int)
    for n in range(1, len(X) + 1):
        Z = max(
            next_rows(Z, most_new),
            key=lambda longer: (
                log_joint(X[:n], longer, prior, sigma_x, sigma_a)
                if not prior.finite or longer.shape[1] <= prior.n_components
                else -np.inf
            ),
        )
    return Z
