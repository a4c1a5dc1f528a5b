r"""The distribution q of the rows: what a local step changes.

A row's q is ν_nk = q(z_nk = 1), and where rows have amounts the moments of q(s_nk | z_nk = 1).
Rows are large, N×K, but know nothing of X.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np

BLOCK = 2048  # rows that are looked at together


@dataclass
class Rows:
    """ν (N, K); with amounts the moments of q(s | z = 1) and its divergence from the slab.

    Where ν is 0 or 1 it may be uint8, an eighth as large; what is read of it are real numbers.
    """

    nu: np.ndarray
    slab: str | None = None  # "laplace" or "gaussian"
    amounts: tuple[np.ndarray, ...] = field(default=())  # first, second, cost, each (N, K)

    @classmethod
    def of(cls, nu: np.ndarray, slab: str | None = None, S: np.ndarray | None = None) -> Self:
        """Rows with these probabilities; amounts as given, or as the slab has them."""
        nu = np.ascontiguousarray(nu, float)
        if slab is None:
            return cls(nu)
        first = np.zeros(nu.shape) if S is None else np.array(S, float)
        second = np.full(nu.shape, 2.0 if slab == "laplace" else 1.0) if S is None else first**2
        return cls(nu, slab, (first, second + (0.0 if S is None else 1e-4), np.zeros(nu.shape)))

    @classmethod
    def hard(cls, Z: np.ndarray) -> Self:
        """Rows that have a feature or not."""
        return cls(np.ascontiguousarray(Z, np.uint8))

    @property
    def n(self) -> int:
        return len(self.nu)

    @property
    def k(self) -> int:
        return int(self.nu.shape[1])

    @property
    def point(self) -> bool:
        """Whether q leaves nothing open: every ν is 0 or 1, and there are no amounts."""
        return self.slab is None and bool(((self.nu == 0.0) | (self.nu == 1.0)).all())

    @property
    def used(self) -> int:
        """How many features some row is likely to have."""
        return int((self.nu > 0.5).any(axis=0).sum())

    def part(self, rows: slice) -> Self:
        """Some of the rows, in place: what is changed in the part is changed here."""
        return type(self)(self.nu[rows], self.slab, tuple(each[rows] for each in self.amounts))

    def weights(self) -> np.ndarray:
        """E[W]."""
        nu = self.nu.astype(float, copy=False)
        return nu if self.slab is None else nu * self.amounts[0]

    def seconds(self) -> np.ndarray:
        """E[w²] of each entry."""
        nu = self.nu.astype(float, copy=False)
        return nu if self.slab is None else nu * self.amounts[1]

    def products(self) -> np.ndarray:
        """E[W]ᵀE[W]."""
        parts = (self.part(piece).weights() for piece in pieces_of(self.n, BLOCK))
        return np.asarray(sum((W.T @ W for W in parts), np.zeros((self.k, self.k))))

    def copied(self) -> Self:
        """Rows of their own."""
        return type(self)(self.nu.copy(), self.slab, tuple(each.copy() for each in self.amounts))

    def taken(self, order: np.ndarray) -> Self:
        """Some features, in this order."""
        return type(self)(
            np.ascontiguousarray(self.nu[:, order]),
            self.slab,
            tuple(np.ascontiguousarray(each[:, order]) for each in self.amounts),
        )

    def joined(self, a: int, b: int) -> Self:
        """Feature b put into a, which comes before it: a row has one as likely as either."""
        found = self.taken(np.delete(np.arange(self.k), b))
        found.nu[:, a] = np.maximum(self.nu[:, a], self.nu[:, b])
        return found

    def with_columns(self, columns: np.ndarray) -> Self:
        """More features, (N, more); for rows without amounts."""
        return type(self)(np.column_stack([self.nu, columns.astype(self.nu.dtype)]))

    def switched(self, c: int, switch: np.ndarray) -> Self:
        """Rows without feature c, and in those that had it others switched on (1) or off (−1); with
        amounts one takes over those of c, or their negatives."""
        found = self.copied()
        for k in np.flatnonzero(switch):
            nu, gone = found.nu[:, k].copy(), self.nu[:, c]
            found.nu[:, k] = nu + gone - nu * gone if switch[k] > 0 or self.slab else nu - nu * gone
            if self.slab is not None:
                first, second, cost = found.amounts
                more = np.nonzero(gone > nu)[0]  # q(s) of the likelier of the two
                first[more, k] = switch[k] * self.amounts[0][more, c]
                second[more, k], cost[more, k] = self.amounts[1][more, c], self.amounts[2][more, c]
        return found.taken(np.delete(np.arange(self.k), c))

    def with_column(self, column: np.ndarray, scores: np.ndarray) -> Self:
        """One more feature; amounts, where rows have any, in proportion to the scores."""
        if self.slab is None:
            return self.with_columns(column[:, None])
        nu = np.column_stack([self.nu, column.astype(self.nu.dtype)])
        size = float(np.sqrt(np.mean(scores[column] ** 2))) or 1.0
        first = scores / size
        new = first, first**2 + 1e-4, np.zeros(len(column))
        amounts = tuple(np.column_stack(pair) for pair in zip(self.amounts, new, strict=True))
        return type(self)(nu, self.slab, amounts)


def pieces_of(n: int, size: int) -> Iterator[slice]:
    """0 … n, so many at a time."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))
