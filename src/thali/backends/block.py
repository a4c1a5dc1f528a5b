r"""Rows of X, wherever they are, and the products that are asked of them.

    scores     X E[A]ᵀ         (n, K)
    cross      E[W]ᵀ X         (K, D)
    residual   E v and EᵀE v   of E = X − E[W]E[A]

X may be an array, a memory map that is only read, or a sparse matrix, of which these products cost
O(K) for an entry that it has. No kernel is given X: kernels see products, which are new arrays, so
that they are compiled once whatever X is.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.sparse import is_sparse


class Block(NamedTuple):
    """Rows of X with zeros where ``mask`` is False, and Σ x² of each row.

    A sparse X has no mask.

    >>> block = Block.of(Data.of([[1.0, 2.0], [3.0, None]]), "float64")
    >>> block.part(slice(1, 2)).squares.tolist(), block.cross(np.ones((2, 1))).tolist()
    ([9.0], [[4.0, 2.0]])
    """

    X: np.ndarray | csr_array
    mask: np.ndarray | None
    squares: np.ndarray

    @classmethod
    def of(cls, data: Data, dtype: str) -> Self:
        """All rows of the data; X itself, not a copy, if it is complete and of this type."""
        X = data.X if data.observed is None else np.where(data.observed, data.X, 0.0)
        X = X.astype(dtype_here(dtype), copy=False)
        squares = data.squares if data.sparse else np.einsum("nd,nd->n", X, X, dtype=float)
        return cls(X, data.observed, squares)

    @property
    def n(self) -> int:
        return len(self.squares)

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def size(self) -> int:
        """N·D, whatever is missing."""
        return self.n * self.d

    @property
    def masked(self) -> bool:
        """Whether entries may be missing."""
        return self.mask is not None

    @property
    def gone(self) -> np.ndarray | None:
        """1 where an entry is missing, else 0; None where none is."""
        if self.mask is None or self.mask.all():
            return None
        return (~self.mask).astype(self.X.dtype)

    def part(self, rows: slice) -> Self:
        """Some of the rows."""
        mask = None if self.mask is None else self.mask[rows]
        return type(self)(self.X[rows], mask, self.squares[rows])

    def scores(self, phi: np.ndarray) -> np.ndarray:
        """X E[A]ᵀ."""
        along = phi.T.astype(self.X.dtype, copy=False)
        if is_sparse(self.X):
            along = np.ascontiguousarray(along)  # a sparse X reads it row by row
        return np.asarray(self.X @ along).astype(float, copy=False)

    def cross(self, W: np.ndarray) -> np.ndarray:
        """E[W]ᵀ X."""
        product = W.T.astype(self.X.dtype, copy=False) @ self.X
        return np.asarray(product.astype(float, order="C", copy=False))

    def residual(
        self, W: np.ndarray, phi: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ev and EᵀEv of E = X − E[W]E[A], which is not made where X is sparse."""
        if is_sparse(self.X):
            scores = self.X @ v - W @ (phi @ v)
            return scores, self.X.T @ scores - phi.T @ (W.T @ scores)
        E = self.X - W @ phi
        if self.mask is not None:
            E *= self.mask
        scores = E @ v
        return scores, E.T @ scores


def dtype_here(dtype: str) -> str:
    """The precision that NumPy has for one that may be of GPUs alone.

    >>> dtype_here("tf32"), dtype_here("float64")
    ('float32', 'float64')
    """
    return "float32" if dtype == "tf32" else dtype
