r"""Missing entries: which columns share a pattern of them, and a first guess.

With mask_nd = 1 where x_nd was observed, the columns of X are independent given Z and

    x_d | Z ~ N(0, σ_x² I + σ_a² Z_o Z_oᵀ),   o = the rows where column d was observed,

so all that differs from column to column is Z_oᵀZ_o, and columns with the same missing rows share
it. Given the parameters as well, missing entries are independent (``likelihoods/entries.py``).
"""

from typing import NamedTuple

import numpy as np

ROUNDS = 20  # of low-rank fits in a first guess
SHRINK = 1.5  # medians of the singular values, which is about the size of those of noise


class Patterns(NamedTuple):
    """Columns by the rows that they miss: pattern p misses ``rows[start[p]:start[p + 1]]``."""

    of_column: np.ndarray  # (D,) the pattern of each column
    start: np.ndarray  # (P + 1,)
    rows: np.ndarray  # the missing rows of all patterns, one pattern after the other


def patterns(mask: np.ndarray) -> Patterns:
    """The distinct columns of a mask (True = observed), as lists of missing rows.

    >>> found = patterns(np.array([[True, False, True], [True, True, True]]))
    >>> found.of_column.tolist(), found.start.tolist(), found.rows.tolist()
    ([0, 1, 0], [0, 0, 1], [0])
    """
    packed = np.ascontiguousarray(np.packbits(~mask, axis=0).T)
    distinct, first, of_column = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    lists = [np.flatnonzero(~mask[:, d]) for d in first]
    start = np.zeros(len(distinct) + 1, np.int64)
    np.cumsum([len(rows) for rows in lists], out=start[1:])
    return Patterns(
        of_column.ravel().astype(np.int64), start, np.concatenate(lists).astype(np.int64)
    )


def observed_means(X: np.ndarray) -> np.ndarray:
    """The mean of what was observed in each column, 0 where nothing was."""
    seen = ~np.isnan(X)
    return np.asarray(np.where(seen, X, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


def first_guess(X: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """X completed for a start to look at: a low-rank fit, and noise of the size of its residuals.

    Column means first, then again and again the fit with singular values shrunk by those of noise
    (Mazumder, Hastie and Tibshirani 2010). The noise is there so that scales read from the guess
    are those of the data; it is the same always.
    """
    fit = observed_means(X)
    if min(X.shape) > 2:
        for _ in range(ROUNDS):
            fit = _shrunk(np.where(mask, X, fit))
    noise = np.sqrt(np.mean(np.square((X - fit)[mask])))
    rng = np.random.default_rng(0)
    return np.ascontiguousarray(np.where(mask, X, fit + noise * rng.standard_normal(X.shape)))


def _shrunk(X: np.ndarray) -> np.ndarray:
    """X, centered, with its singular values lowered by ``SHRINK`` medians; by the smaller Gram."""
    center = X.mean(axis=0)
    centered = X - center
    tall = X.shape[0] >= X.shape[1]
    squares, V = np.linalg.eigh(centered.T @ centered if tall else centered @ centered.T)
    s = np.sqrt(np.maximum(squares, 0.0))
    keep = s > max(SHRINK * float(np.median(s)), 1e-6 * float(s[-1]))
    V, share = V[:, keep], 1.0 - SHRINK * np.median(s) / s[keep]
    fit = ((centered @ V) * share) @ V.T if tall else (V * share) @ (V.T @ centered)
    return np.asarray(center + fit)
