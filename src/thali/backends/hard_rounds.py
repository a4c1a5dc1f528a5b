r"""Rows of 0 and 1, piece by piece: in turn, or side by side in rounds.

In turn, each row knows what those before it took: the counts m_k follow. Side by side, pieces keep
to the counts that their round began with. Their new rows are then taken, ``GROUP`` pieces at a
time, if the bound does not fall by it; otherwise one piece after the other, and those by which it
would fall are left as they were. Rounds grow, from one group to ``MOST``: the first pieces change
the counts the most. Which pieces make a round does not depend on the number of workers, so neither
does the result.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from thali.backends.rows import Rows
from thali.structures.statistics import Statistics

GROUP = 8  # pieces that are taken or left together, whatever the number of workers
MOST = 8  # groups at work on the same counts


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


def rounds_of(pieces: int) -> Iterator[range]:
    """The pieces of each round.

    >>> list(rounds_of(30))
    [range(0, 8), range(8, 24), range(24, 30)]
    """
    first, groups = 0, 1
    while first < pieces:
        last = min(first + groups * GROUP, pieces)
        yield range(first, last)
        first, groups = last, min(2 * groups, MOST)


def in_rounds(
    rng: np.random.Generator,
    rows: Rows,
    pieces: Sequence[slice],
    level: Callable[[np.ndarray], float],
    crew: Crew,
) -> Statistics:
    """Rounds of pieces on fixed counts; one whose rows would lower the bound is put back."""
    found: Statistics | None = None
    counts = rows.nu.sum(axis=0, dtype=float)
    now = level(counts)

    def work(job: tuple[slice, int, np.ndarray]) -> tuple[float, np.ndarray, Statistics]:
        piece, seed, m = job
        before = rows.nu[piece].astype(np.uint8)
        gained, after = crew.improve(np.random.default_rng(seed), piece, m, False)
        return gained, before, after

    for together in rounds_of(len(pieces)):
        m = counts.astype(np.int64)
        for first in range(together.start, together.stop, GROUP):
            group = pieces[first : min(first + GROUP, together.stop)]
            jobs = [(piece, int(rng.integers(2**62)), m) for piece in group]
            done = list(crew.mapped(work, jobs))
            gained = np.array([each for each, _, _ in done])
            changes = np.array(
                [after.counts - before.sum(axis=0, dtype=float) for _, before, after in done]
            )
            taken, counts, now = taken_of(gained, changes, counts, now, level)
            for piece, (_, before, after), stays in zip(group, done, taken, strict=True):
                if not stays:
                    rows.nu[piece] = before
                more = after if stays else crew.tally(piece)
                found = more if found is None else found + more
    assert found is not None
    return found


def taken_of(
    gained: np.ndarray,
    changes: np.ndarray,
    counts: np.ndarray,
    now: float,
    level: Callable[[np.ndarray], float],
) -> tuple[np.ndarray, np.ndarray, float]:
    """Which pieces of a group are taken, and counts and level with them: all of them, if the bound
    does not fall by it; else those by which it does not, one after the other."""
    whole = counts + changes.sum(axis=0)
    then = level(whole)
    taken = np.ones(len(gained), bool)
    if gained.sum() + then - now >= 0.0:
        return taken, whole, then
    for i, change in enumerate(changes):
        then = level(counts + change)
        taken[i] = gained[i] + then - now >= 0.0
        if taken[i]:
            counts, now = counts + change, then
    return taken, counts, now
