r"""Rows of 0 and 1 on the device: rounds of pieces on the counts that the round began with.

The rounds are those of ``hard_rounds.py``, and what is taken is decided there. All rows of a round
that are on the device are worked on at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from thali.backends.base import HardGlobals
from thali.backends.block import Block
from thali.backends.device import Kind, cupy, kernel, launch, sent
from thali.backends.device_steps import missed_grams, scores
from thali.backends.hard_rounds import GROUP, rounds_of, taken_of
from thali.backends.local import Local
from thali.backends.rows import BLOCK, pieces_of

SOLVERS = ("best", "local_search", "double_greedy")  # those that the device has, by number
THREADS = 128  # as in gpu_hard.cu
BITS = 64  # features that are the bits of one number there
SAME, LEAST = 1e-11, 1e-12  # as in kernels/row_solvers


@dataclass(frozen=True)
class HardSent:
    """What all rows are given, on the device but for the prior; and the bound's part of counts."""

    phi: Any
    grams: Any  # E[a_d a_dᵀ] of each column, (D, K²); of complete data None
    pairs: Any
    total: Any
    half: Any
    by_count: Any
    precision: float
    solver: int
    log_odds: np.ndarray
    own: np.ndarray
    level: Callable[[np.ndarray], float]
    here: np.ndarray  # what the device reads while it works

    @classmethod
    def of(cls, given: HardGlobals, kind: Kind) -> Self:
        precision, Q = 1.0 / given.sigma_x**2, given.features.gram[0]
        pairs = precision * Q
        np.fill_diagonal(pairs, 0.0)
        own = () if given.features.grams is None else (given.features.grams,)
        (phi, pairs, total, half, by_count, *grams), here = sent(
            kind.dtype,
            given.features.phi,
            pairs,
            pairs.sum(axis=1),
            0.5 * precision * np.diagonal(Q),
            np.append(given.in_use, 0.0),  # one more is read, and not used
            *own,
        )
        return cls(
            phi, grams[0] if own else None, pairs, total, half, by_count, precision, given.solver,
            given.log_odds, given.own, given.level, here,
        )  # fmt: skip

    def prior(self, counts: np.ndarray, kind: Kind) -> tuple[Any, Any, Any]:
        """Of rows without a feature and with it, (2, K): what having it is worth, and whether no
        other row has it; and whether that is so of any."""
        others = counts.astype(np.int64) - np.array([[0], [1]])
        own = others <= 0
        odds = self.log_odds[np.clip(others, 0, len(self.log_odds) - 1)]
        worth = np.where(own, self.own, odds).astype(kind.dtype)
        return cupy().asarray(worth), cupy().asarray(own.astype(np.int8)), np.int32(own.any())


class Rounds:
    """Rounds over all rows, of which some are on the device at a time: whole groups of pieces."""

    def __init__(self, kind: Kind, given: HardSent, counts: np.ndarray, n: int, size: int) -> None:
        self.kind, self.given, self.counts, self.size = kind, given, counts, size
        self._level = given.level(counts)
        self._ends = iter(together.stop * size for together in rounds_of(-(-n // size)))
        self._at = self._end = 0  # the next row, and the last of its round

    def improve(self, X: Any, gone: Any, W: Any) -> None:
        """Improve the next rows in place; the counts of all rows follow. ``gone`` is 1 where an
        entry is missing, or None."""
        own = None if gone is None else missed_grams(self.kind, gone, self.given.grams)
        B = scores(self.kind, X, self.given.phi)
        first = 0
        while first < len(X):
            if self._at == self._end:
                self._end = next(self._ends)
                self._prior = self.given.prior(self.counts, self.kind)
            last = min(len(X), first + self._end - self._at)
            missed = None if own is None else own[:, first:last]
            self._solve(B[:, first:last], missed, W[:, first:last])
            self._at, first = self._at + last - first, last

    def _solve(self, B: Any, own: Any, W: Any) -> None:
        """Improve rows on the counts of their round, and put back what would lower the bound."""
        (k, n), blocks = W.shape, -(-W.shape[1] // THREADS)
        pieces, parts = list(pieces_of(n, self.size)), self.size // THREADS
        room = cupy().zeros(8 * blocks + 4 * len(pieces) * k, np.uint8)
        before = solve(self.kind, B, own, W, self.given, self._prior, room, parts)
        here = room.get()
        gained = np.add.reduceat(here[: 8 * blocks].view(float), np.arange(0, blocks, parts))
        changes = here[8 * blocks :].view(np.int32).reshape(len(pieces), k)
        for first in range(0, len(pieces), GROUP):
            group = slice(first, first + GROUP)
            taken, self.counts, self._level = taken_of(
                gained[group], changes[group], self.counts, self._level, self.given.level
            )
            for piece, stays in zip(pieces[group], taken, strict=True):
                if not stays:
                    W[:, piece] = before[:, piece]


def solve(
    kind: Kind,
    B: Any,
    own: Any,
    W: Any,
    given: HardSent,
    prior: tuple[Any, Any, Any],
    room: Any,
    parts: int,
) -> Any:
    """The best set of features for each row, as far as the solver can tell; returns the rows as
    they were. Into ``room`` goes what the bound's part of each block of threads gained, and how
    many more rows of each piece, of so many parts, have each feature."""
    (k, n), real, masked = W.shape, np.dtype(kind.dtype).type, own is not None
    few, blocks = k <= BITS, -(-n // THREADS)
    numbers = cupy().empty((5 if masked else 4) * n * k, kind.dtype)
    marks = cupy().empty((1 if few else 3) * n * k, np.uint8)
    missed = (own, own.strides[0] // own.itemsize) if masked else (numbers, 0)  # is not read then
    launch(
        kernel("solve_rows", kind.real, few, masked), (blocks,), THREADS,
        B, B.strides[0] // B.itemsize, W, W.strides[0] // W.itemsize,
        given.pairs, given.total, given.half, *prior, given.by_count,
        real(given.precision), real(SAME), real(LEAST), n, np.int32(k),
        np.int32(given.solver), numbers, marks, room, room[8 * blocks :], np.int32(parts),
        *missed,
    )  # fmt: skip
    return marks[: n * k].reshape(k, n)


def piece_size(block: Block, k: int) -> int:
    """Rows of a piece: as many as in memory, in whole blocks of threads."""
    if not block.masked:
        return BLOCK
    size = int(Local().pieces(block, k)[0].stop)
    return size if size >= block.n else max(size // THREADS, 1) * THREADS
