"""Gibbs sampling of the noisy-or model as one would first write it, in NumPy.

The likelihood of a node's row is computed afresh, with and without the cause, for every bit z_ik,
and that of a column for every y_kt; then the number of causes that only one node has, their y
summed out. It shares no code with the library.
"""

from __future__ import annotations

import numpy as np

MOST_NEW = 10  # causes of a node's own that are considered, as such programs do


def log_likelihood(x: np.ndarray, counts: np.ndarray, epsilon: float, lam: float) -> float:
    """log P(x | counts of active causes), of a row or a column."""
    off = (1.0 - epsilon) * (1.0 - lam) ** counts
    return float(np.where(x == 1, np.log(1.0 - off), np.log(off)).sum())


def turn(rng: np.random.Generator, log_odds: float) -> int:
    """1 with the probability whose log odds these are."""
    return int(rng.random() < 1.0 / (1.0 + np.exp(-np.clip(log_odds, -700.0, 700.0))))


def sweep_bits(rng, X, Z, Y, epsilon, lam):
    """Every z_ik of causes that other nodes have too, under the IBP, in place."""
    n, k = Z.shape
    for i in range(n):
        for f in range(k):
            m = Z[:, f].sum() - Z[i, f]
            if m == 0:
                continue
            values = []
            for bit in (0, 1):
                Z[i, f] = bit
                values.append(log_likelihood(X[i], Z[i] @ Y, epsilon, lam))
            Z[i, f] = turn(rng, np.log(m / (n - m)) + values[1] - values[0])


def sweep_own(rng, X, Z, Y, epsilon, lam, p, alpha):
    """For each node, the causes that it alone has, drawn anew with y summed out; new Z and Y."""
    n = len(X)
    for i in range(n):
        single = (Z.sum(axis=0) == 1) & (Z[i] == 1)
        Z, Y = Z[:, ~single], Y[~single]
        counts = Z[i] @ Y
        j = np.arange(MOST_NEW + 1)
        log_w = j * np.log(alpha / n) - np.array([np.log(np.arange(1, a + 1)).sum() for a in j])
        for a in j:
            off = (1.0 - epsilon) * (1.0 - lam) ** counts * (1.0 - lam * p) ** a
            log_w[a] += np.where(X[i] == 1, np.log(1.0 - off), np.log(off)).sum()
        w = np.exp(log_w - log_w.max())
        new = int(rng.choice(j, p=w / w.sum()))
        for a in range(new):
            left = new - a - 1
            chances = []
            for y in (0, 1):
                off = (1.0 - epsilon) * (1.0 - lam) ** (counts + y) * (1.0 - lam * p) ** left
                chances.append(np.where(X[i] == 1, 1.0 - off, off) * (p if y else 1.0 - p))
            y_new = (rng.random(X.shape[1]) < chances[1] / (chances[0] + chances[1])).astype(int)
            counts = counts + y_new
            column = np.zeros((n, 1), int)
            column[i] = 1
            Z, Y = np.hstack([Z, column]), np.vstack([Y, y_new])
    return Z, Y


def sweep_causes(rng, X, Z, Y, epsilon, lam, p):
    """Every y_kt, in place."""
    k, t = Y.shape
    for f in range(k):
        for j in range(t):
            values = []
            for y in (0, 1):
                Y[f, j] = y
                values.append(log_likelihood(X[:, j], Z @ Y[:, j], epsilon, lam))
            Y[f, j] = turn(rng, np.log(p / (1.0 - p)) + values[1] - values[0])


def sweep(rng, X, Z, Y, epsilon, lam, p, alpha):
    """Bits, own causes, y's; columns in a random order; the new Z and Y."""
    order = rng.permutation(Z.shape[1])
    Z, Y = Z[:, order].copy(), Y[order].copy()
    sweep_bits(rng, X, Z, Y, epsilon, lam)
    Z, Y = sweep_own(rng, X, Z, Y, epsilon, lam, p, alpha)
    sweep_causes(rng, X, Z, Y, epsilon, lam, p)
    return Z, Y
