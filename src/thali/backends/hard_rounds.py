r"""Rows of 0 and 1, piece by piece: in turn, or side by side in rounds.

In turn, each row knows what those before it took: the counts m_k follow. Side by side, pieces keep
to the counts that their round began with; a piece's new rows are then taken, one piece after the
other, if the bound does not fall, and left as they were if it would. Which pieces make a round does
not depend on the number of workers, so neither does the result.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from thali.backends.rows import Rows
from thali.structures.statistics import Statistics

ROUND = 8  # pieces at work on the same counts, whatever the number of workers


Job = TypeVar("Job")
Result = TypeVar("Result")


class Mapped(Protocol):
    """``map``, in order, by workers."""

    def __call__(self, work: Callable[[Job], Result], jobs: Iterable[Job], /) -> Iterable[Result]:
        """What the work makes of each job."""


class Crew(NamedTuple):
    """Who does the work on a piece of the rows.

    ``improve(rng, piece, m, follow)`` improves its rows, in turn with the counts m where they are
    to follow, and returns what the likelihood's part of the bound gained and their statistics;
    ``tally(piece)`` returns the statistics alone; ``mapped`` is ``map``, in order, by workers.
    """

    improve: Callable[[np.random.Generator, slice, np.ndarray, bool], tuple[float, Statistics]]
    tally: Callable[[slice], Statistics]
    mapped: Mapped


def in_turn(
    rng: np.random.Generator, rows: Rows, pieces: Sequence[slice], crew: Crew
) -> Statistics:
    """Every piece in turn, and the statistics of all."""
    m = rows.nu.sum(axis=0, dtype=float).astype(np.int64)
    return reduce(add, (crew.improve(rng, piece, m, True)[1] for piece in pieces))


def in_rounds(
    rng: np.random.Generator,
    rows: Rows,
    pieces: Sequence[slice],
    level: Callable[[np.ndarray], float],
    crew: Crew,
) -> Statistics:
    """Rounds of pieces on fixed counts; one whose rows would lower the bound is put back."""
    found = []
    counts = rows.nu.sum(axis=0, dtype=float)

    def work(job: tuple[slice, int, np.ndarray]) -> tuple[float, np.ndarray, Statistics]:
        piece, seed, m = job
        before = rows.nu[piece].copy()
        gained, after = crew.improve(np.random.default_rng(seed), piece, m, False)
        return gained, before, after

    for first in range(0, len(pieces), ROUND):
        together = pieces[first : first + ROUND]
        m = counts.astype(np.int64)
        jobs = [(piece, int(rng.integers(2**62)), m) for piece in together]
        for piece, (gained, before, after) in zip(together, crew.mapped(work, jobs), strict=True):
            then = counts + after.counts - before.sum(axis=0, dtype=float)
            gained += level(then) - level(counts)
            if gained < 0.0:
                rows.nu[piece] = before
                after = crew.tally(piece)
            else:
                counts = then
            found.append(after)
    return reduce(add, found)
