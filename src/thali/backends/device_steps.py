r"""The local step on rows that are on the device: sweeps over each of them, then sums over all.

Products are in the precision asked for, over ``TERMS`` rows at a time, and these sums are added in
double: so that they lose no digits however many rows there are.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from thali.backends.base import Globals
from thali.backends.block import Block
from thali.backends.device import (
    ALIGNED,
    SHARED,
    SHARES,
    THREADS,
    TILE,
    Kind,
    Matrix,
    cupy,
    kernel,
    launch,
    multiply,
    on_device,
    sent,
)
from thali.backends.local import SMALL
from thali.structures.statistics import Statistics

TERMS = 2048  # rows that are added up in the precision of the products
PARTS = 2**26  # numbers in the sums of ``TERMS`` rows each, at most


@dataclass(frozen=True)
class Sent:
    """What all rows are given, on the device; Q with zeros behind each row."""

    phi: Any
    Q: Any
    grams: Any  # E[a_d a_dᵀ] of each column, (D, K²); of complete data None
    odds: Any
    precision: float
    here: np.ndarray  # what the device reads while it works

    @classmethod
    def of(cls, given: Globals, kind: Kind) -> Self:
        k = len(given.odds)
        Q = np.zeros((k, -(-k // TILE) * TILE))
        Q[:, :k] = given.features.gram[0]
        own = () if given.features.grams is None else (given.features.grams,)
        (phi, Q, odds, *grams), here = sent(kind.dtype, given.features.phi, Q, given.odds, *own)
        return cls(phi, Q, grams[0] if own else None, odds, 1.0 / given.sigma_x**2, here)


def sweep(kind: Kind, X: Any, gone: Any, W: Any, given: Sent, passes: int) -> None:
    """Sweeps over ν of these rows, in place; ``gone`` is 1 where an entry is missing, or None."""
    (k, n), step = W.shape, W.strides[0] // W.itemsize
    B = scores(kind, X, given.phi)
    numbers = W.dtype.type(given.precision), W.dtype.type(SMALL), n
    counts = np.int32(k), np.int32(given.Q.shape[1]), np.int32(passes)
    if gone is not None:
        own = missed_grams(kind, gone, given.grams)
        launch(
            kernel("expect_own_bits", kind.real), (-(-n // THREADS),), THREADS,
            B, B.shape[1], W, step, given.Q, own, own.shape[1], given.odds, *numbers, *counts,
        )  # fmt: skip
        return
    threads = THREADS
    while threads > ALIGNED and threads * k * W.itemsize > SHARED:
        threads //= 2
    shared = threads * k * W.itemsize
    wide = shared > SHARED
    if wide:
        threads, shared = THREADS, 0
    launch(
        kernel("expect_bits", kind.real, not wide), (-(-n // threads),), threads,
        B, B.shape[1], W, step, given.Q, given.odds, *numbers, *counts, shared=shared,
    )  # fmt: skip


def scores(kind: Kind, X: Any, phi: Any) -> Any:
    """B = X E[A]ᵀ of some rows, (K, at least so many)."""
    (n, d), k = X.shape, len(phi)
    B = cupy().empty((k, -(-n // ALIGNED) * ALIGNED), kind.dtype)
    along = Matrix(phi, d)
    multiply(kind, (n, k, d), Matrix(X, d, turned=True), along, Matrix(B, B.shape[1]))
    return B


def missed_grams(kind: Kind, gone: Any, grams: Any) -> Any:
    """What the columns that each row misses have of Σ_d E[a_d a_dᵀ], (K², at least so many)."""
    (n, d), size = gone.shape, grams.shape[1]
    found = cupy().empty((size, -(-n // ALIGNED) * ALIGNED), kind.dtype)
    along = Matrix(grams, size, turned=True)
    multiply(kind, (n, size, d), Matrix(gone, d, turned=True), along, Matrix(found, found.shape[1]))
    return found


class Sums:
    """Sums over rows, in double, one after the other: counts, gain, likely (K each), C and T; and,
    where entries are missing, how many, and what each column misses of C, (K², D)."""

    def __init__(self, kind: Kind, k: int, d: int, masked: bool = False) -> None:
        self.kind, self.k, self.d, self.masked = kind, k, d, masked
        self.total = cupy().zeros(3 * k + k * k + k * d + masked * (1 + k * k * d))

    def add(self, X: Any, gone: Any, W: Any) -> None:
        """Add those of some rows; ``gone`` is 1 where an entry is missing, or None."""
        if gone is not None:
            self._missed(gone, W)
        n, k, step = len(X), self.k, W.strides[0] // W.itemsize
        shares = cupy().empty((SHARES, 3 * k))
        tallies = kernel("tallies", self.kind.real)
        launch(tallies, (k, SHARES), 256, W, step, n, shares)
        self._fold(shares, 0)
        whole = n // TERMS
        group = max(PARTS // (k * max(self.d, k)), 1)
        for first in range(0, whole, group):
            self._products(X, W, first, min(group, whole - first), TERMS)
        if n % TERMS:
            self._products(X[whole * TERMS :], W[:, whole * TERMS :], 0, 1, n % TERMS)

    def _missed(self, gone: Any, W: Any) -> None:
        """Add up the missing entries, and goneᵀ E[zzᵀ] of all rows, ``TERMS`` at a time."""
        k, d, at = self.k, self.d, 3 * self.k + self.k * self.k + self.k * self.d
        self.total[at] += gone.sum(dtype=float)
        for first in range(0, len(gone), TERMS):
            rows = slice(first, min(first + TERMS, len(gone)))
            part, n = W[:, rows], rows.stop - first
            table = cupy().empty((k * k, n), self.kind.dtype)
            launch(
                kernel("outer_products", self.kind.real), (-(-n // 256), k), 256,
                part, W.strides[0] // W.itemsize, table, n, n, np.int32(k),
            )  # fmt: skip
            found = cupy().empty((1, k * k, d), self.kind.dtype)
            shape, by_row = (d, k * k, n), Matrix(gone[rows], d)
            multiply(self.kind, shape, by_row, Matrix(table, n), Matrix(found, d))
            self._fold(found, at + 1)

    def _products(self, X: Any, W: Any, first: int, batch: int, terms: int) -> None:
        """C and T of a batch of rows, so many ``terms`` in each."""
        k, d, step = self.k, self.d, W.strides[0] // W.itemsize
        w, x = Matrix(W, step, next=terms), Matrix(X, d, next=terms * d)
        C = cupy().empty((batch, k, k), self.kind.dtype)
        turned = w._replace(turned=True)
        multiply(self.kind, (k, k, terms), turned, w, Matrix(C, k, next=k * k), batch, first)
        T = cupy().empty((batch, k, d), self.kind.dtype)
        multiply(self.kind, (d, k, terms), x, w, Matrix(T, d, next=k * d), batch, first)
        self._fold(C, 3 * k)
        self._fold(T, 3 * k + k * k)

    def _fold(self, parts: Any, at: int) -> None:
        """Add parts to the totals from number ``at`` on."""
        name = "fold_double" if parts.dtype == np.float64 else "fold"
        many, size = len(parts), parts[0].size
        run = kernel(name, self.kind.real)
        launch(run, (-(-size // 256),), 256, parts, many, size, self.total[at:])

    def statistics(self, block: Block) -> tuple[Statistics, np.ndarray]:
        """The sums as they are known elsewhere, and how many rows are likely to have a feature."""
        from cupyx import empty_pinned

        here, k = empty_pinned(self.total.shape), self.k
        self.total.get(out=here, blocking=False)
        squares = float(block.squares.sum())  # while the device is at work
        cupy().cuda.get_current_stream().synchronize()
        sizes = np.cumsum([k, k, k, k * k, k * self.d])
        counts, gain, likely, C, T, missed = np.split(here, sizes)
        C, entries = C.reshape(k, k), float(block.size)
        np.fill_diagonal(C, counts)
        if self.masked:
            C = C[None] - missed[1:].reshape(k * k, self.d).T.reshape(self.d, k, k)
            entries -= float(missed[0])
        T = T.reshape(k, self.d)
        return Statistics(float(block.n), counts, C, T, squares, entries, gain), likely


def row_squares(X: Any) -> np.ndarray:
    """Σx² of each row, in double."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("nd,nd->n", X, X, dtype=float))
    parts = [cupy().square(part.astype(float)).sum(axis=1) for part, _ in on_device(X, TERMS * 8)]
    return np.asarray(cupy().concatenate(parts).get(), float)
