r"""Rows of 0 and 1 on the device: rounds of pieces on the counts that the round began with.

The rounds are those of ``hard_rounds.py``: a piece's new rows are taken, one piece after the other,
if the bound does not fall, and put back if it would. All rows of a round are worked on at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from thali.backends.base import HardGlobals
from thali.backends.device import Kind, cupy, kernel, launch
from thali.backends.device_steps import scores
from thali.backends.hard_rounds import ROUND
from thali.backends.rows import BLOCK, pieces_of

SOLVERS = ("best", "local_search", "double_greedy")  # those that the device has, by number
THREADS = 128  # as in gpu_hard.cu
TOGETHER = ROUND * BLOCK  # rows of a round
SAME, LEAST = 1e-11, 1e-12  # as in kernels/row_solvers


@dataclass(frozen=True)
class HardSent:
    """What all rows are given, on the device but for the prior; and the bound's part of counts."""

    phi: Any
    pairs: Any
    total: Any
    half: Any
    by_count: Any
    precision: float
    solver: int
    log_odds: np.ndarray
    own: np.ndarray
    level: Callable[[np.ndarray], float]

    @classmethod
    def of(cls, given: HardGlobals, kind: Kind) -> Self:
        precision, Q = 1.0 / given.sigma_x**2, given.features.gram[0]
        pairs = precision * Q
        np.fill_diagonal(pairs, 0.0)
        arrays = (
            given.features.phi,
            pairs,
            pairs.sum(axis=1),
            0.5 * precision * np.diagonal(Q),
            np.append(given.in_use, 0.0),  # one more is read, and not used
        )
        sent = [cupy().asarray(np.ascontiguousarray(each, kind.dtype)) for each in arrays]
        phi, pairs, total, half, by_count = sent
        return cls(
            phi, pairs, total, half, by_count, precision, given.solver,
            given.log_odds, given.own, given.level,
        )  # fmt: skip

    def prior(self, counts: np.ndarray, kind: Kind) -> tuple[Any, Any]:
        """Of rows without a feature and with it, (2, K): what having it is worth, and whether no
        other row has it."""
        others = counts.astype(np.int64) - np.array([[0], [1]])
        own = others <= 0
        odds = self.log_odds[np.clip(others, 0, len(self.log_odds) - 1)]
        worth = np.where(own, self.own, odds).astype(kind.dtype)
        return cupy().asarray(worth), cupy().asarray(own.astype(np.int8))


def improve(kind: Kind, X: Any, W: Any, given: HardSent, counts: np.ndarray) -> np.ndarray:
    """Improve these rows in place; the counts of all rows after it."""
    B = scores(kind, X, given.phi)
    for together in pieces_of(len(X), TOGETHER):
        counts = one_round(kind, B[:, together], W[:, together], given, counts)
    return counts


def one_round(kind: Kind, B: Any, W: Any, given: HardSent, counts: np.ndarray) -> np.ndarray:
    """Improve rows on these counts, and put back pieces that would lower the bound."""
    k, n = W.shape
    pieces, blocks = list(pieces_of(n, BLOCK)), -(-n // THREADS)
    before = W.copy()
    found = cupy().empty(blocks + 6 * len(pieces) * k)
    sums = found[blocks:].reshape(len(pieces), 2, 3, k)
    solve(kind, B, W, given, counts, found[:blocks])
    tallies = kernel("tallies", kind.real)
    for i, piece in enumerate(pieces):
        for rows, out in ((before[:, piece], sums[i, 0]), (W[:, piece], sums[i, 1])):
            step = rows.strides[0] // rows.itemsize
            launch(tallies, (k, 1), 256, rows, step, piece.stop - piece.start, out)
    here = found.get()
    gains = here[:blocks]
    changes = here[blocks:].reshape(len(pieces), 2, 3, k)[:, :, 0]
    for piece, (was, now) in zip(pieces, changes, strict=True):
        then = counts + now - was
        gained = gains[piece.start // THREADS : -(-piece.stop // THREADS)].sum()
        if gained + given.level(then) - given.level(counts) < 0.0:
            W[:, piece] = before[:, piece]
        else:
            counts = then
    return counts


def solve(kind: Kind, B: Any, W: Any, given: HardSent, counts: np.ndarray, gained: Any) -> None:
    """The best set of features for each row, as far as the solver can tell."""
    (k, n), real = W.shape, np.dtype(kind.dtype).type
    prior, own = given.prior(counts, kind)
    numbers, marks = cupy().empty(4 * n * k, kind.dtype), cupy().empty(3 * n * k, np.uint8)
    launch(
        kernel("solve_rows", kind.real), (len(gained),), THREADS,
        B, B.strides[0] // B.itemsize, W, W.strides[0] // W.itemsize,
        given.pairs, given.total, given.half, prior, own, given.by_count,
        real(given.precision), real(SAME), real(LEAST), n, np.int32(k), np.int32(k),
        np.int32(given.solver), numbers, marks, gained,
    )  # fmt: skip
