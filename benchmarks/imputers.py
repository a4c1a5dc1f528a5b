"""Ways to fill the holes of a table of numbers, to compare with: small, and free of the library.

Y is N×D, its columns standardized, NaN where an entry is not known; Ω are the entries that are.
Each function takes Y and a list of settings and gives one filled N×D matrix for each setting; of it
only the entries outside Ω are looked at.

    column_means        the mean of a column; of 0 and 1 the frequency
    nearest_rows        the mean of the k nearest rows, by scikit-learn's KNNImputer
    chained_ridge       each column regressed on the others in turn, by scikit-learn's
                        IterativeImputer with BayesianRidge
    soft_svd            argmin_M ½ Σ_Ω (y_nd − m_nd)² + λ ‖M‖_*: softImpute (Mazumder, Hastie and
                        Tibshirani 2010, algorithm 1), λ given as a share of the largest singular
                        value of Y with zeros in its holes
    factor_analysis     y_n = μ + W z_n + ε_n, z_n ~ N(0, I_K), ε_nd ~ N(0, ψ_d), by expectation
                        maximization over what is observed (Rubin and Thayer 1982; Ghahramani and
                        Jordan 1994); a hole is E[y_nd | y_n,Ω]
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import BayesianRidge

__all__ = [
    "METHODS",
    "Method",
    "chained_ridge",
    "column_means",
    "factor_analysis",
    "factor_steps",
    "nearest_rows",
    "soft_steps",
    "soft_svd",
]

WIDE = 64  # columns beyond which a regression takes NEAREST of them, and not all
NEAREST = 30
ROUNDS, ROUNDS_WIDE = 25, 10  # with columns taken at random, rounds never settle
STEPS = 300  # at most, of soft_svd and factor_analysis
TOLERANCE = 1e-4
LEAST_NOISE = 1e-3  # of ψ, where the variance of a column is 1


class Factors(NamedTuple):
    """One state of expectation maximization, and what it says of Y."""

    log_likelihood: float  # of the observed entries, at W and ψ as they were before the step
    filled: np.ndarray  # N×D, E[y_nd | y_n,Ω] at the same


def column_means(Y: np.ndarray, settings: Sequence[None]) -> list[np.ndarray]:
    means = np.nan_to_num(np.nanmean(Y, axis=0))
    return [np.broadcast_to(means, Y.shape) for _ in settings]


def nearest_rows(Y: np.ndarray, settings: Sequence[int]) -> list[np.ndarray]:
    """Settings are numbers of neighbours."""
    return [KNNImputer(n_neighbors=k, keep_empty_features=True).fit_transform(Y) for k in settings]


def chained_ridge(Y: np.ndarray, settings: Sequence[None]) -> list[np.ndarray]:
    wide = Y.shape[1] > WIDE
    imputer = IterativeImputer(
        BayesianRidge(),
        max_iter=ROUNDS_WIDE if wide else ROUNDS,
        n_nearest_features=NEAREST if wide else None,
        keep_empty_features=True,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = imputer.fit_transform(Y)
    return [filled for _ in settings]


# a low rank


def soft_svd(Y: np.ndarray, settings: Sequence[float]) -> list[np.ndarray]:
    """Settings are penalties, the largest first: each begins where the last one ended."""
    M, found = np.zeros(Y.shape), []
    for share in settings:
        M = deque(soft_steps(Y, share, M), maxlen=1)[0][0]  # of the last step
        found.append(M)
    return found


def soft_steps(
    Y: np.ndarray, share: float, M: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, float]]:
    """M and its objective after each step M ← S_λ(Y on Ω, M elsewhere), which never raises it."""
    seen = ~np.isnan(Y)
    holes_zero = np.where(seen, Y, 0.0)
    penalty = share * np.linalg.norm(holes_zero, 2)
    M = np.zeros(Y.shape) if M is None else M
    for _ in range(STEPS):
        new, norm = shrunk(np.where(seen, Y, M), penalty)
        moved = np.sum((new - M) ** 2) / max(np.sum(M**2), 1e-12)
        M = new
        yield M, float(0.5 * np.sum((holes_zero - M)[seen] ** 2) + penalty * norm)
        if moved < TOLERANCE**2:
            return


def shrunk(Y: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """S_λ(Y), singular values less λ where they are above it, and the sum of what is left.

    By the eigenvectors V of the smaller Gram matrix: S_λ(Y) = Y V diag((1 − λ/s)₊) Vᵀ.
    """
    if Y.shape[0] < Y.shape[1]:
        turned, norm = shrunk(Y.T, penalty)
        return turned.T, norm
    squares, V = np.linalg.eigh(Y.T @ Y)
    s = np.sqrt(np.maximum(squares, 0.0))
    kept = s > penalty
    V, s = V[:, kept], s[kept]
    return (Y @ V * (1.0 - penalty / s)) @ V.T, float((s - penalty).sum())


# factors


def factor_analysis(Y: np.ndarray, settings: Sequence[int]) -> list[np.ndarray]:
    """Settings are numbers of factors K."""
    found = []
    for k in settings:
        entries, last = np.count_nonzero(~np.isnan(Y)), -np.inf
        for state in factor_steps(Y, k):
            if state.log_likelihood - last < TOLERANCE * entries * 0.1:
                break
            last = state.log_likelihood
        found.append(state.filled)
    return found


def factor_steps(Y: np.ndarray, k: int) -> Iterator[Factors]:
    """Every step of expectation maximization, from the principal axes; the likelihood only rises.

    With w̃_d = (w_d, μ_d) and z̃ = (z, 1), all rows and all columns at once:

        V_n = (I + Σ_{d∈Ω_n} w_d w_dᵀ / ψ_d)⁻¹,  m_n = V_n Σ_{d∈Ω_n} w_d (y_nd − μ_d) / ψ_d
        w̃_d = (Σ_{n∈Ω_d} E[z̃_n z̃_nᵀ])⁻¹ Σ_{n∈Ω_d} y_nd E[z̃_n]
        ψ_d = mean over n∈Ω_d of E[(y_nd − w̃_dᵀ z̃_n)²]
    """
    seen = ~np.isnan(Y)
    there, Y = seen.astype(float), np.where(seen, Y, 0.0)
    (n, d), counts = Y.shape, np.maximum(there.sum(axis=0), 1.0)
    mu = Y.sum(axis=0) / counts
    _, s, axes = np.linalg.svd(there * (Y - mu), full_matrices=False)
    W = axes[:k].T * s[:k] / np.sqrt(n)
    psi = np.maximum((there * (Y - mu) ** 2).sum(axis=0) / counts - (W**2).sum(axis=1), 0.1)
    for _ in range(STEPS):
        away = there * (Y - mu)
        precision = np.eye(k) + (there / psi @ pairs(W)).reshape(n, k, k)
        V = np.linalg.inv(precision)
        b = away / psi @ W
        m = np.einsum("nkl,nl->nk", V, b)
        # log N(y_Ω; μ, WWᵀ + Ψ), by the determinant and inverse of V⁻¹
        spread = (there @ np.log(2.0 * np.pi * psi)).sum() + np.linalg.slogdet(precision)[1].sum()
        log_likelihood = -0.5 * (spread + (away**2 / psi).sum() - (b * m).sum())
        yield Factors(float(log_likelihood), mu + m @ W.T)
        mean = np.column_stack([m, np.ones(n)])
        second = pairs(mean).reshape(n, k + 1, k + 1)
        second[:, :k, :k] += V
        A = (there.T @ second.reshape(n, -1)).reshape(d, k + 1, k + 1)
        right = (there * Y).T @ mean
        # a column of which nothing is seen has no equations: 1e-9 makes its weights zero
        weights = np.linalg.solve(A + 1e-9 * np.eye(k + 1), right[:, :, None])[:, :, 0]
        left = (there * Y**2).sum(axis=0) - (weights * right).sum(axis=1)
        W, mu, psi = weights[:, :k], weights[:, k], np.maximum(left / counts, LEAST_NOISE)


def pairs(W: np.ndarray) -> np.ndarray:
    """w wᵀ of each row w, as a row."""
    return (W[:, :, None] * W[:, None, :]).reshape(len(W), -1)


class Method(NamedTuple):
    """A way to fill holes, and the settings among which it is tuned."""

    fill: Callable[[np.ndarray, Sequence], list[np.ndarray]]
    settings: Callable[[int], Sequence]  # of the number of columns


def factor_counts(columns: int) -> list[int]:
    return [k for k in (1, 2, 3, 5, 8, 12, 18, 26) if k == 1 or k <= columns // 2]


METHODS = {
    "means": Method(column_means, lambda columns: [None]),
    "k nearest": Method(nearest_rows, lambda columns: [3, 5, 10, 20, 40]),
    "chained ridge": Method(chained_ridge, lambda columns: [None]),
    "soft SVD": Method(soft_svd, lambda columns: list(np.geomspace(0.5, 0.005, 10))),
    "factors": Method(factor_analysis, factor_counts),
}
