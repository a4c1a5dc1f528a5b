r"""Sparse X, whose absent entries are zeros: what is computed of it without making it dense.

    products      X Bᵀ, ZᵀX                    O(nnz K)
    residual      ‖X − WA‖² = Σx² − 2 tr(Aᵀ WᵀX) + tr(WᵀW AAᵀ)
    least squares A = (ZᵀZ)⁺ ZᵀX
    spectrum      of the centered X, from XᵀX − N x̄x̄ᵀ (or the N×N one) where it is small, and by
                  random projections where not: X − 1x̄ᵀ is never made

``X`` is a ``scipy.sparse.csr_array`` of float64 throughout (``thali.data.checks.as_sparse``).
"""

import numpy as np
from scipy import linalg
from scipy.sparse import coo_array, csr_array, issparse

from thali.machine import physical_memory

BLOCK = 2048  # rows of Z that are made real numbers at a time
PIECE = 2**20  # entries that are squared at a time
GRAM = 2048  # rows or columns up to which the spectrum is exact: a matrix of 32 MB
LEADING = 110  # singular values found beyond that, and the width of random projections
POWER = 4  # rounds of power iteration
RANK = 1e-12  # of the largest eigenvalue: less is none


def is_sparse(X: object) -> bool:
    """Whether X is a sparse matrix, array or data frame.

    >>> import scipy.sparse
    >>> is_sparse(scipy.sparse.eye_array(3)), is_sparse(np.eye(3))
    (True, False)
    """
    # pandas lets a frame have ``sparse`` if all its columns are, so also if it has none
    return bool(issparse(X) or (len(getattr(X, "columns", ())) and hasattr(X, "sparse")))


def row_squares(X: csr_array) -> np.ndarray:
    """‖x_n‖² of each row."""
    return np.asarray(X.multiply(X).sum(axis=1), float).ravel()


def sum_of_squares(X: np.ndarray | csr_array) -> float:
    """Σx², of a sparse or a dense matrix, of which no second one is made."""
    array = np.asarray(X.data if issparse(X) else X)
    return _squares(array.ravel()) if array.flags.c_contiguous else float(np.square(array).sum())


def _squares(x: np.ndarray) -> float:
    """Σx² by halves, cut where NumPy's own pairwise sum of all squares would cut: the same bits."""
    half = len(x) // 2
    half -= half % 8
    if len(x) <= PIECE:
        return float(np.square(x).sum())
    return _squares(x[:half]) + _squares(x[half:])


def means(X: csr_array) -> np.ndarray:
    """The mean of each column."""
    return np.asarray(X.sum(axis=0) / X.shape[0], float).ravel()


def deviations(X: csr_array) -> np.ndarray:
    """The standard deviation of each column."""
    squares = np.asarray(X.multiply(X).sum(axis=0), float).ravel() / X.shape[0]
    return np.asarray(np.sqrt(np.maximum(squares - means(X) ** 2, 0.0)))


def rows(X: np.ndarray | csr_array, which: np.ndarray) -> np.ndarray:
    """A few rows as they would be in a dense matrix; X may be one."""
    if not issparse(X):
        return np.asarray(X[which], dtype=float)
    return _as_table(X[which].tocoo())


# products with a matrix of few columns


def gram(Z: np.ndarray) -> np.ndarray:
    """ZᵀZ, by blocks: Z may be bits, and as real numbers eight times as large."""
    found = np.zeros((Z.shape[1], Z.shape[1]))
    for first in range(0, len(Z), BLOCK):
        part = Z[first : first + BLOCK].astype(float)
        found += part.T @ part
    return found


def cross(Z: np.ndarray, X: csr_array) -> np.ndarray:
    """ZᵀX, by blocks.

    >>> from scipy.sparse import csr_array
    >>> cross(np.array([[True], [False]]), csr_array([[0.0, 3.0], [1.0, 0.0]]))
    array([[0., 3.]])
    """
    found = np.zeros((X.shape[1], Z.shape[1]))
    for first in range(0, len(Z), BLOCK):
        block = slice(first, first + BLOCK)
        found += X[block].T @ Z[block].astype(float)
    return np.ascontiguousarray(found.T)


def least_squares(Z: np.ndarray, X: csr_array) -> np.ndarray:
    """The A of least length that minimizes ‖X − ZA‖²."""
    return np.asarray(linalg.pinvh(gram(Z), rtol=RANK) @ cross(Z, X))


def squared_residual(X: csr_array, W: np.ndarray, A: np.ndarray) -> float:
    """‖X − WA‖²; a difference, that rounding must not take below zero."""
    quadratic = float((gram(W) * (A @ A.T)).sum())
    return max(sum_of_squares(X) - 2.0 * float((A * cross(W, X)).sum()) + quadratic, 0.0)


def columns(X: csr_array, which: np.ndarray) -> np.ndarray:
    """A few columns as they would be in a dense matrix."""
    return _as_table(X[:, which].tocoo())


# the spectrum of the centered matrix


def singular_values(X: csr_array) -> np.ndarray:
    """Singular values of the centered X, largest first.

    Where both sides are long, those beyond the first hundred are told as all equal, with the sum of
    squares that is left to them.
    """
    if min(X.shape) <= GRAM:
        return np.sqrt(np.maximum(np.linalg.eigvalsh(_centered_gram(X))[::-1], 0.0))
    leading = _projected(np.random.default_rng(0), X)[1]
    rest = min(X.shape) - len(leading)
    centered = sum_of_squares(X) - X.shape[0] * float(np.square(means(X)).sum())
    left = max(centered - float(np.square(leading).sum()), 0.0)
    return np.append(leading, np.full(rest, min(np.sqrt(left / rest), leading[-1])))


def leading_scores(rng: np.random.Generator, X: csr_array, rank: int) -> np.ndarray:
    """The first left singular vectors of the centered X times their singular values, (N, rank)."""
    n, d = X.shape
    if min(n, d) > GRAM:
        U, s, Q = _projected(rng, X)
        return np.asarray(Q @ (U[:, :rank] * s[:rank]))
    side = min(n, d)
    values, vectors = linalg.eigh(_centered_gram(X), subset_by_index=[side - rank, side - 1])
    values, vectors = values[::-1], vectors[:, ::-1]
    if n < d:
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    return _times(X, means(X), vectors)


def main_length(X: csr_array) -> float:
    """The largest singular value of X itself, by power iteration."""
    v = np.random.default_rng(0).standard_normal(X.shape[1])
    length = 0.0
    for _ in range(10 * POWER):
        v = v / (np.linalg.norm(v) or 1.0)
        u = X @ v
        length = float(np.linalg.norm(u))
        v = X.T @ u
    return length


def _centered_gram(X: csr_array) -> np.ndarray:
    """XᵀX of the centered X, or XXᵀ where X has fewer rows than columns."""
    mean = means(X)
    if X.shape[1] <= X.shape[0]:
        found = _as_table((X.T @ X).tocoo())
        found -= X.shape[0] * np.outer(mean, mean)
        return found
    found, along = _as_table((X @ X.T).tocoo()), X @ mean
    found += float(mean @ mean) - along[:, None] - along
    return found


def _as_table(small: coo_array) -> np.ndarray:
    """A few rows or columns, or a small product, as an array."""
    found = np.zeros(small.shape)
    found[small.row, small.col] = small.data
    return found


def _times(X: csr_array, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    """(X − 1x̄ᵀ) V."""
    found = np.asarray(X @ np.ascontiguousarray(V))
    found -= mean @ V
    return found


def _back(X: csr_array, mean: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """(X − 1x̄ᵀ)ᵀ Q."""
    found = np.asarray(X.T @ np.ascontiguousarray(Q))
    found -= mean[:, None] * Q.sum(axis=0)
    return found


def _projected(rng: np.random.Generator, X: csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, s and Q with X − 1x̄ᵀ ≈ Q U diag(s) Vᵀ (Halko, Martinsson and Tropp 2011)."""
    needed = 16 * LEADING * (X.shape[0] + X.shape[1])  # two matrices of either length, at least
    if needed > physical_memory():
        raise MemoryError(
            f"X has {X.shape[0]:,} rows and {X.shape[1]:,} columns: to find where to begin takes "
            f"{needed / 2**30:,.0f} GB of memory, more than the "
            f"{physical_memory() / 2**30:,.0f} GB here. Use fewer, or give the engine an init."
        )
    mean = means(X)
    Q = np.linalg.qr(_times(X, mean, rng.standard_normal((X.shape[1], LEADING))))[0]
    for _ in range(POWER):
        back = np.linalg.qr(_back(X, mean, Q))[0]
        Q = np.linalg.qr(_times(X, mean, back))[0]
    U, s, _ = np.linalg.svd(_back(X, mean, Q).T, full_matrices=False)
    return U, s, Q
