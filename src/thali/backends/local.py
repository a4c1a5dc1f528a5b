r"""The first backend: NumPy's products and compiled kernels, on threads of this machine.

Given the features' q and frequencies the rows are independent. A piece of a block costs the two
products X_b E[A]ᵀ and E[W_b]ᵀ X_b, and O(K²) a row; nothing of size N×D is made.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from thali.backends.base import PASSES, Globals, HardGlobals, Moments
from thali.backends.block import Block
from thali.backends.far import AnyBlock, block_of
from thali.backends.hard_rounds import Crew, Mapped, in_rounds, in_turn
from thali.backends.rows import BLOCK, Rows, pieces_of
from thali.data import Data
from thali.structures.statistics import Statistics

MASKED_BLOCK = 256  # where entries are missing: pieces without gaps cost no more than elsewhere
GAPS = 4e6  # numbers in the table of a piece's own matrices, where entries are missing
SMALL = 1e-3  # the largest change in a pass after which a row is left


@dataclass(frozen=True)
class Local:
    """``threads`` that share the pieces of a block, each of at most ``most`` rows.

    The result does not depend on the number of threads.
    """

    threads: int = 1
    most: int = BLOCK

    def hold(self, data: Data, rows: Rows, dtype: str) -> tuple[AnyBlock, Rows]:
        return block_of(data, dtype), rows

    def local_step(
        self, block: AnyBlock, rows: Rows, given: Globals, passes: int = PASSES
    ) -> Statistics:
        return self._total(block, rows, lambda part, own: soft_rows(part, own, given, passes))

    def hard_step(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: HardGlobals
    ) -> Statistics:
        def improve(
            rng: np.random.Generator, piece: slice, m: np.ndarray, follow: bool
        ) -> tuple[float, Statistics]:
            return hard_rows(rng, block.part(piece), rows.part(piece), given, m, follow)

        def tally(piece: slice) -> Statistics:
            return as_they_are(block.part(piece), rows.part(piece))

        pieces = self.pieces(block, rows.k)
        with self._mapped(pieces) as mapped:
            crew = Crew(improve, tally, mapped)
            if given.side_by_side and len(pieces) > 1:
                return in_rounds(rng, rows, pieces, given.level, crew)
            return in_turn(rng, rows, pieces, crew)

    def tally(self, block: AnyBlock, rows: Rows) -> Statistics:
        return self._total(block, rows, as_they_are)

    def residual_scores(
        self, block: AnyBlock, rows: Rows, phi: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        scores, back = np.zeros((block.n, *v.shape[1:])), np.zeros((block.d, *v.shape[1:]))

        def work(piece: slice) -> np.ndarray:
            found = block.part(piece).residual(rows.part(piece).weights(), phi, v)
            scores[piece] = found[0]
            return found[1]

        pieces = list(pieces_of(block.n, self.most))
        with self._mapped(pieces) as mapped:
            for more in mapped(work, pieces):
                back += more
        return scores, back

    def row_bounds(self, block: AnyBlock, rows: Rows, given: Globals, none: float) -> np.ndarray:
        def work(piece: slice) -> np.ndarray:
            return bounds(block.part(piece), rows.part(piece), given, none)

        pieces = self.pieces(block, rows.k, masked=self.most)
        with self._mapped(pieces) as mapped:
            return np.concatenate(list(mapped(work, pieces)))

    def draw_rows(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: Globals
    ) -> tuple[np.ndarray, np.ndarray | None]:
        from thali.kernels.expected_rows import draw_amounts

        bits = rng.random(rows.nu.shape) < rows.nu
        if rows.slab is None:
            return np.packbits(bits, axis=0), None
        S = np.zeros(bits.shape)
        precision, laplace = 1.0 / given.sigma_x**2, rows.slab == "laplace"
        for piece in self.pieces(block, rows.k):
            part, W = block.part(piece), rows.part(piece).weights()
            R, Q = left_over(part, part.gone, W, given.features)
            draw_amounts(rng, R, Q, precision, laplace, W, bits[piece], S[piece])
        return np.packbits(bits, axis=0), S

    def _total(
        self, block: AnyBlock, rows: Rows, work: Callable[[Block, Rows], Statistics]
    ) -> Statistics:
        """The sum over pieces of what is done with each."""

        def of_piece(piece: slice) -> Statistics:
            return work(block.part(piece), rows.part(piece))

        pieces = self.pieces(block, rows.k)
        with self._mapped(pieces) as mapped:
            return reduce(add, mapped(of_piece, pieces))

    def pieces(self, block: AnyBlock, k: int, masked: int = MASKED_BLOCK) -> list[slice]:
        """How many rows to look at at once: fewer where each has a matrix of its own."""
        size = self.most
        if block.masked:
            size = int(np.clip(GAPS / max(k * k, 1), 1, min(size, masked)))
        return list(pieces_of(block.n, size))

    @contextmanager
    def _mapped(self, pieces: list[slice]) -> Iterator[Mapped]:
        """``map``, in order, by the threads; a single piece needs none."""
        if self.threads == 1 or len(pieces) == 1:
            yield map
            return
        with ThreadPoolExecutor(self.threads) as pool:
            yield pool.map


def soft_rows(block: Block, rows: Rows, given: Globals, passes: int) -> Statistics:
    """Update the rows of one piece in place, and their statistics."""
    from thali.kernels import expected_rows as kernel

    gone = block.gone
    R, Q = left_over(block, gone, rows.weights(), given.features)
    gain = np.zeros(rows.k)
    precision = 1.0 / given.sigma_x**2
    if rows.slab is None:
        kernel.expect_bits(R, Q, given.odds, precision, rows.nu, passes, SMALL, gain)
    else:
        first, second, cost = rows.amounts
        kernel.expect_amounts(
            R, Q, given.odds, precision, rows.slab == "laplace",
            rows.nu, first, second, cost, passes, SMALL, gain,
        )  # fmt: skip
    return statistics(block, rows, gone, gain)


def hard_rows(
    rng: np.random.Generator,
    block: Block,
    rows: Rows,
    given: HardGlobals,
    m: np.ndarray,
    follow: bool,
) -> tuple[float, Statistics]:
    """Improve the rows of one piece in place given the counts m of all rows, which change along if
    they are to ``follow``; what the likelihood's part of the bound gained, and statistics."""
    from thali.kernels.hard_rows import RowPrior, solve_rows

    gone = block.gone
    B, Q = block.scores(given.features.phi), own_grams(gone, given.features)
    prior = RowPrior(given.log_odds, given.own, given.in_use)
    precision = 1.0 / given.sigma_x**2
    gained = solve_rows(rng, B, Q, precision, prior, given.solver, m, rows.nu, follow)
    return float(gained), statistics(block, rows, gone, np.zeros(rows.k))


def own_grams(gone: np.ndarray | None, features: Moments) -> np.ndarray:
    """E[AAᵀ] over the columns that a row shows: one for all rows, or one for each with gaps."""
    if gone is None:
        return features.gram
    k = len(features.phi)
    return np.asarray(features.gram - (gone @ features.grams).reshape(len(gone), k, k))


def left_over(
    block: Block, gone: np.ndarray | None, W: np.ndarray, features: Moments
) -> tuple[np.ndarray, np.ndarray]:
    """R = X E[A]ᵀ − E[W] Q of a piece, and its Q."""
    from thali.kernels.expected_rows import residuals

    B, Q = block.scores(features.phi), own_grams(gone, features)
    if gone is None:
        return B - W @ Q[0], Q
    R = np.empty_like(B)
    residuals(B, W, Q, R)
    return R, Q


def as_they_are(block: Block, rows: Rows) -> Statistics:
    """The statistics of one piece, but for the gain of q itself."""
    return statistics(block, rows, block.gone, np.zeros(rows.k))


def statistics(block: Block, rows: Rows, gone: np.ndarray | None, gain: np.ndarray) -> Statistics:
    """The sums of one piece of the rows, whose missing entries are ``gone``."""
    from thali.kernels.expected_rows import outer_sums

    W, second = rows.weights(), rows.seconds()
    C = W.T @ W
    np.fill_diagonal(C, second.sum(axis=0))
    T = block.cross(W)
    entries = float(block.size)
    if gone is not None:
        k = rows.k
        table = outer_sums(W, second, np.empty((len(W), k * k)))
        C = C[None] - (gone.T @ table).reshape(block.d, k, k)
        entries -= float(gone.sum())
    counts = rows.nu.sum(axis=0, dtype=float)
    return Statistics(float(len(W)), counts, C, T, float(block.squares.sum()), entries, gain)


def bounds(block: Block, rows: Rows, given: Globals, none: float) -> np.ndarray:
    """Each row's own part of the bound, for one piece."""
    W, second, nu = rows.weights(), rows.seconds(), rows.nu
    features, k = given.features, rows.k
    if block.mask is None:
        Q = features.gram[0]
        quadratic = np.einsum("nk,nk->n", W @ Q, W) + (second - W**2) @ np.diagonal(Q)
        entries = np.full(len(W), float(block.d))
    else:
        Qs = (block.mask.astype(float) @ features.grams).reshape(len(W), k, k)
        diagonal = np.diagonal(Qs, axis1=1, axis2=2)
        quadratic = np.einsum("nkl,nk,nl->n", Qs, W, W) + ((second - W**2) * diagonal).sum(1)
        entries = block.mask.sum(axis=1).astype(float)
    cross = np.einsum("nk,nk->n", block.X @ features.phi.T, W)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(nu > 0.0, nu * np.log(nu), 0.0)
        entropy -= np.where(nu < 1.0, (1.0 - nu) * np.log1p(-nu), 0.0)
    own = (entropy + nu * given.odds).sum(axis=1) + none
    if rows.slab is not None:
        own -= (nu * rows.amounts[2]).sum(axis=1)
    fit = block.squares - 2.0 * cross + quadratic
    scale = 2.0 * np.pi * given.sigma_x**2
    return np.asarray(own - 0.5 * entries * np.log(scale) - 0.5 * fit / given.sigma_x**2)
