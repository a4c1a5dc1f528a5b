"""How much memory the candidates of a search take, and a refusal before there is no more.

The queue of a search without a limit grows exponentially. A candidate in it takes its row of bits
and some numbers; one that was followed also what scores are made from, for as long as any that
came from it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.machine import cores, physical_memory

if TYPE_CHECKING:
    from thali.engines.search.candidates import Candidate

CANDIDATE = 480  # bytes of one in a queue, but for its bits
ARRAY = 120  # bytes of an array, but for what is in it
NEARLY = 0.9  # of what there is room for: a queue that has grown so far is counted, and refused


class Meter:
    """Counts what comes in, and all that is held where that seems too much."""

    def __init__(self) -> None:
        self.bytes = 0

    def add(
        self,
        candidate: Candidate[Any],
        children: int,
        queue: Callable[[], Iterable[Candidate[Any]]],
    ) -> None:
        """A candidate was followed by so many; a refusal where there is no room for them."""
        own = children * (CANDIDATE + candidate.k)
        self.bytes += own + bytes_of(candidate.kept)
        if self.bytes > room():
            held = list(queue())
            self.bytes = bytes_held([candidate, *held]) + own
            if self.bytes > NEARLY * room():
                refuse(len(held) + children, self.bytes)


def room() -> int:
    """Half of the memory, shared by the searches that run at once."""
    return physical_memory() // (2 * cores())


def refuse_beyond_room(count: int, needed: int) -> None:
    """Refuse so many candidates that follow a single one, where they need too many bytes."""
    if needed > room():
        refuse(count, needed)


def refuse(count: int, needed: int) -> None:
    raise MemoryError(
        f"BeamSearch: the queue has {count:,} candidates, which need {needed / 2**30:,.2g} GB of "
        f"memory, more than the {room() / 2**30:,.2g} GB here for one search; give a smaller "
        "width, such as width=1000, or fewer rows: an unlimited queue is for few."
    )


def bytes_held(candidates: Iterable[Candidate[Any]]) -> int:
    """Of candidates, all that they came from, and what these keep."""
    total, seen = 0, set()
    for each in candidates:
        at: Candidate[Any] | None = each
        while at is not None and id(at) not in seen:
            seen.add(id(at))
            total += CANDIDATE + len(at.z) + bytes_of(at.kept)
            at = at.parent
    return total


def bytes_of(kept: Any) -> int:
    """Of arrays, in tuples of tuples."""
    if isinstance(kept, np.ndarray):
        return ARRAY + kept.nbytes
    return sum(map(bytes_of, kept)) if isinstance(kept, tuple) else 0
