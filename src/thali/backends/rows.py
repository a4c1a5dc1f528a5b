r"""The law q of the rows, block by block: a local step, and the statistics it leaves.

A row's law is ν_nk = q(z_nk = 1), and where rows have amounts the moments of q(s_nk | z_nk = 1).
Given the features' law and frequencies the rows are independent. A block costs the two products
X_b E[A]ᵀ and E[W_b]ᵀ X_b, and O(K²) a row; nothing of size N×D is made. Of a sparse X these are all
that is asked, at O(K) an entry that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np

from thali.data.sparse import is_sparse, size_of
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.priors.frequencies import Frequencies
from thali.structures.statistics import Statistics


class Observed(NamedTuple):
    """Data as the local step reads them: zeros where ``mask`` is False, and Σ x² of each row.

    X may be sparse; then there is no mask.
    """

    X: Any
    mask: np.ndarray | None
    squares: np.ndarray

    @property
    def n(self) -> int:
        return len(self.squares)

    def part(self, rows: np.ndarray | slice) -> Observed:
        """Some of the rows."""
        mask = None if self.mask is None else self.mask[rows]
        return Observed(self.X[rows], mask, self.squares[rows])


BLOCK = 2048  # rows
MASKED_BLOCK = 256  # where entries are missing: blocks without gaps cost no more than elsewhere
GAPS = 4e6  # numbers in the table of a block's own matrices, where entries are missing
PASSES = 4  # over a row's features, at most
SETTLED = 1e-3  # the largest change in a pass after which a row is left


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
    def point(self) -> bool:
        """Whether the law leaves nothing open: every ν is 0 or 1, and there are no amounts."""
        return self.slab is None and bool(((self.nu == 0.0) | (self.nu == 1.0)).all())

    def weights(self, block: slice = slice(None)) -> np.ndarray:
        """E[W]."""
        nu = self.nu[block].astype(float, copy=False)
        return nu if self.slab is None else nu * self.amounts[0][block]

    def seconds(self, block: slice = slice(None)) -> np.ndarray:
        """E[w²] of each entry."""
        nu = self.nu[block].astype(float, copy=False)
        return nu if self.slab is None else nu * self.amounts[1][block]

    def products(self) -> np.ndarray:
        """E[W]ᵀE[W]."""
        parts = (self.weights(block) for block in blocks_of(self.n, BLOCK))
        return np.asarray(sum((W.T @ W for W in parts), np.zeros((self.nu.shape[1],) * 2)))

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


def blocks_of(n: int, size: int) -> Iterator[slice]:
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def local_step(
    data: Observed,
    rows: Rows,
    law: FeaturePosterior,
    odds: np.ndarray,
    sigma_x: float,
    threads: int = 1,
    passes: int = PASSES,
) -> Statistics:
    """Update all rows in place given the features, and return their statistics.

    ``passes=0`` leaves the rows as they are.
    """
    Q, outer, size = _moments(data, law)

    def work(block: slice) -> Statistics:
        return _block(data, rows, law.phi, Q, outer, odds, sigma_x, passes, block)

    pieces = blocks_of(rows.n, size)
    if threads == 1:
        return reduce(add, map(work, pieces))
    with ThreadPoolExecutor(threads) as pool:
        return reduce(add, pool.map(work, pieces))


def _block(
    data: Observed,
    rows: Rows,
    phi: np.ndarray,
    Q: np.ndarray,
    outer: np.ndarray | None,
    odds: np.ndarray,
    sigma_x: float,
    passes: int,
    block: slice,
) -> Statistics:
    """The rows of one block, and their statistics."""
    from thali.kernels import expected_rows as kernel

    x, mask, squares = data.part(block)
    nu = rows.nu[block]
    gone = None if mask is None or mask.all() else (~mask).astype(x.dtype)
    R, Q = _residual(x, gone, rows.weights(block), phi, Q, outer)
    gain = np.zeros(len(phi))
    precision = 1.0 / sigma_x**2
    if rows.slab is None:
        kernel.expect_bits(R, Q, odds, precision, nu, passes, SETTLED, gain)
    else:
        first, second, cost = (each[block] for each in rows.amounts)
        laplace = rows.slab == "laplace"
        kernel.expect_amounts(
            R, Q, odds, precision, laplace, nu, first, second, cost, passes, SETTLED, gain
        )
    return statistics(x, gone, float(squares.sum()), rows, block, gain)


def _residual(
    x: Any,
    gone: np.ndarray | None,
    W: np.ndarray,
    phi: np.ndarray,
    Q: np.ndarray,
    outer: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """R = X E[A]ᵀ − E[W] Q of a block, and its Q: one for all rows, or one for each with gaps."""
    from thali.kernels.expected_rows import residuals

    B = scores(x, phi)
    if gone is None:
        return B - W @ Q[0], Q
    k = len(phi)
    Q = Q - (gone @ outer).reshape(len(x), k, k)
    R = np.empty_like(B)
    residuals(B, W, Q, R)
    return R, Q


def scores(x: Any, phi: np.ndarray) -> np.ndarray:
    """X E[A]ᵀ of a block; a sparse one reads E[A]ᵀ row by row."""
    along = phi.T.astype(x.dtype, copy=False)
    if is_sparse(x):
        along = np.ascontiguousarray(along)
    return np.asarray(x @ along).astype(float, copy=False)


def draw_rows(
    rng: np.random.Generator, data: Observed, rows: Rows, law: FeaturePosterior, sigma_x: float
) -> tuple[np.ndarray, np.ndarray | None]:
    """Bits drawn from q, and amounts, zero where a bit is off (None where rows have none)."""
    from thali.kernels.expected_rows import draw_amounts

    bits = rng.random(rows.nu.shape) < rows.nu
    if rows.slab is None:
        return bits, None
    S = np.zeros(bits.shape)
    Q, outer, size = _moments(data, law)
    for block in blocks_of(rows.n, size):
        x, mask, _ = data.part(block)
        gone = None if mask is None or mask.all() else (~mask).astype(x.dtype)
        W = rows.weights(block)
        R, own = _residual(x, gone, W, law.phi, Q, outer)
        draw_amounts(
            rng, R, own, 1.0 / sigma_x**2, rows.slab == "laplace", W, bits[block], S[block]
        )
    return bits, S


def _moments(data: Observed, law: FeaturePosterior) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Q for all rows, what a missing column takes from it, and how many rows to look at at once."""
    Q = np.ascontiguousarray(law.gram())[None]
    if data.mask is None:
        return Q, None, BLOCK
    k, d = law.phi.shape
    outer = np.ascontiguousarray(law.grams().reshape(d, k * k))
    return Q, outer, int(np.clip(GAPS / max(k * k, 1), 1, MASKED_BLOCK))


def statistics(
    x: Any,
    gone: np.ndarray | None,
    squares: float,
    rows: Rows,
    block: slice,
    gain: np.ndarray,
) -> Statistics:
    """The sums of one block of rows, x with zeros where entries are gone."""
    from thali.kernels.expected_rows import outer_sums

    W, second = rows.weights(block), rows.seconds(block)
    C = W.T @ W
    np.fill_diagonal(C, second.sum(axis=0))
    T = (W.T.astype(x.dtype, copy=False) @ x).astype(float, order="C", copy=False)
    entries = float(size_of(x))
    if gone is not None:
        k = W.shape[1]
        table = outer_sums(W, second, np.empty((len(W), k * k)))
        C = C[None] - (gone.T @ table).reshape(x.shape[1], k, k)
        entries -= float(gone.sum())
    counts = rows.nu[block].sum(axis=0, dtype=float)
    return Statistics(float(len(W)), counts, C, T, squares, entries, gain)


def tally(data: Observed, rows: Rows) -> Statistics:
    """The statistics of rows as they are, but for the gain of their laws."""
    k = rows.nu.shape[1]
    size = BLOCK if data.mask is None else int(np.clip(GAPS / max(k * k, 1), 1, MASKED_BLOCK))

    def of(block: slice) -> Statistics:
        x, mask, squares = data.part(block)
        gone = None if mask is None or mask.all() else (~mask).astype(x.dtype)
        return statistics(x, gone, float(squares.sum()), rows, block, np.zeros(k))

    return reduce(add, map(of, blocks_of(rows.n, size)))


def row_bounds(
    data: Observed, rows: Rows, law: FeaturePosterior, frequencies: Frequencies, sigma_x: float
) -> np.ndarray:
    """Each row's own part of the bound, (N,): a lower bound of log p(x) given the other laws."""
    k = rows.nu.shape[1]
    on, off = frequencies.log_on(), frequencies.log_off()
    odds, none = (on - off)[:k], off.sum()
    found = np.empty(rows.n)
    size = BLOCK if data.mask is None else int(np.clip(GAPS / max(k * k, 1), 1, BLOCK))
    for block in blocks_of(rows.n, size):
        x, mask, squares = data.part(block)
        W, second = rows.weights(block), rows.seconds(block)
        if mask is None:
            Q = law.gram()
            quadratic = np.einsum("nk,nk->n", W @ Q, W) + (second - W**2) @ np.diagonal(Q)
            entries = np.full(len(W), float(x.shape[1]))
        else:
            outer = law.grams().reshape(x.shape[1], k * k)
            Qs = (mask.astype(float) @ outer).reshape(len(x), k, k)
            diagonal = np.diagonal(Qs, axis1=1, axis2=2)
            quadratic = np.einsum("nkl,nk,nl->n", Qs, W, W) + ((second - W**2) * diagonal).sum(1)
            entries = mask.sum(axis=1).astype(float)
        cross = np.einsum("nk,nk->n", x @ law.phi.T, W)
        nu = rows.nu[block]
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.where(nu > 0.0, nu * np.log(nu), 0.0)
            entropy -= np.where(nu < 1.0, (1.0 - nu) * np.log1p(-nu), 0.0)
        own = (entropy + nu * odds).sum(axis=1) + none
        if rows.slab is not None:
            own -= (nu * rows.amounts[2][block]).sum(axis=1)
        fit = squares - 2.0 * cross + quadratic
        found[block] = (
            own - 0.5 * entries * np.log(2.0 * np.pi * sigma_x**2) - 0.5 * fit / sigma_x**2
        )
    return found
