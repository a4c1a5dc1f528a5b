"""Best-first search with a queue that may be bounded (Rai and Daumé III 2011, figure 1)."""

import heapq
from bisect import insort
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from thali.engines.search.candidates import Candidate, KeptT, SearchProblem
from thali.engines.search.memory import Meter

EVERY = 10  # features up to which every row is looked at, where that is left open
LARGEST = 20  # features beyond which they cannot be


class Heuristic:
    """What the rows to come may add to a score; ``admissible``: they can add no more."""

    admissible = False

    def future(self, rows: int) -> float | None:
        """Of every candidate of so many rows; None where each has its own."""
        return None

    def futures(self, candidates: Sequence[Candidate[Any]]) -> Sequence[float]:
        """Of each of the candidates that follow one and the same, where they differ."""
        return ()


class Queue(Generic[KeptT]):
    """Candidates, the best first out; of at most ``width``, the worst are dropped.

    ``lost`` is the highest score of all that were dropped or never let in.
    """

    def __init__(self, width: int | None) -> None:
        self.width = width
        self.items: list[tuple[float, int, Candidate[KeptT]]] = []
        self.enqueued = self.dequeued = 0
        self.lost = -np.inf

    def __len__(self) -> int:
        return len(self.items)

    def put(self, candidate: Candidate[KeptT]) -> None:
        """Let a candidate in; ties go to the one that came later, which is further on."""
        self.enqueued += 1
        if self.width is None:
            heapq.heappush(self.items, (-candidate.score, -self.enqueued, candidate))
            return
        insort(self.items, (-candidate.score, -self.enqueued, candidate))
        if len(self.items) > self.width:
            self.lost = max(self.lost, -self.items.pop()[0])

    def take(self) -> Candidate[KeptT]:
        """The best candidate."""
        self.dequeued += 1
        item = heapq.heappop(self.items) if self.width is None else self.items.pop(0)
        return item[2]

    def held(self) -> list[Candidate[KeptT]]:
        """All candidates in it."""
        return [item[2] for item in self.items]

    @property
    def best(self) -> float:
        """The highest score in the queue."""
        return -self.items[0][0] if self.items else -np.inf


class BestFirst(Generic[KeptT]):
    """One search: ``advance`` takes candidates from the queue until one of them is whole."""

    def __init__(
        self,
        problem: SearchProblem[KeptT],
        heuristic: Heuristic,
        *,
        width: int | None,
        expansion: str = "auto",
        most_new: int = -1,
        floor: float = -np.inf,
    ) -> None:
        self.problem, self.heuristic = problem, heuristic
        self.width, self.expansion, self.most_new, self.floor = width, expansion, most_new, floor
        self.queue: Queue[KeptT] = Queue(width)
        self.queue.put(problem.root())
        self.meter = Meter()
        self.answer: Candidate[KeptT] | None = None
        self.last = self.queue.items[0][2]  # taken from the queue

    def advance(self, most: int) -> bool:
        """Take up to ``most`` candidates; whether the search is over."""
        for _ in range(most):
            if self.answer is not None or not self.queue:
                break
            candidate = self.last = self.queue.take()
            if candidate.rows == self.problem.n:
                self.answer = candidate
                break
            self.expand(candidate)
        return self.answer is not None or not self.queue

    def expand(self, candidate: Candidate[KeptT]) -> None:
        """Let the best of a candidate's successors into the queue."""
        rows = candidate.rows + 1
        every = self.expansion == "all" or (self.expansion == "auto" and candidate.k <= EVERY)
        if every and candidate.k > LARGEST:
            raise ValueError(
                f"BeamSearch: expansion='all' looks at all 2^{candidate.k} rows that may follow a "
                f"candidate of {candidate.k} features, too many; use expansion='auto' or 'within'."
            )
        future = self.heuristic.future(rows)
        children, lost = self.problem.expand(
            candidate,
            future or 0.0,
            expansion="all" if every else "within",
            width=self.width,
            floor=-np.inf if future is None else self.floor,
            most_new=self.most_new,
        )
        self.meter.add(candidate, len(children), self.queue.held)
        self.queue.lost = max(self.queue.lost, lost)
        if future is None:
            for child, own in zip(children, self.heuristic.futures(children), strict=True):
                child.score += own
        for child in children:
            self.queue.put(child)

    def hurry(self) -> None:
        """Go on with the candidate that has the most rows alone, and no queue to speak of."""
        queue, furthest = self.queue, self.furthest
        if not queue or self.answer is not None:
            return
        self.queue = Queue(1)
        self.queue.enqueued, self.queue.dequeued = queue.enqueued, queue.dequeued
        others = (-item[0] for item in queue.items if item[2] is not furthest)
        self.queue.lost = max(queue.lost, *others, -np.inf)
        self.queue.items = [item for item in queue.items if item[2] is furthest]
        self.width, self.floor = 1, -np.inf

    @property
    def furthest(self) -> Candidate[KeptT]:
        """The candidate of the queue with the most rows, the best of these."""
        items = self.queue.items
        return max(items, key=lambda item: (item[2].rows, -item[0]))[2] if items else self.last

    @property
    def begun(self) -> bool:
        """Whether any row was looked at."""
        return any(item[2].rows > 0 for item in self.queue.items)

    @property
    def bound(self) -> float:
        """The highest score of all candidates that were not followed to their end."""
        return max(self.queue.best, self.queue.lost)

    # files

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The queue as arrays and plain values; each candidate by its rows."""
        held = [item[2] for item in sorted(self.queue.items, key=lambda item: item[1])]
        arrays = {f"queued{i}": np.packbits(c.matrix(), axis=0) for i, c in enumerate(held)}
        numbers = {name: getattr(self.queue, name) for name in ("enqueued", "dequeued", "lost")}
        return arrays, {
            **numbers,
            "candidates": [(c.rows, c.k, c.score, c.evidence) for c in held],
            "floor": self.floor,
        }

    def from_arrays(self, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> None:
        """Go on with the queue that ``to_arrays`` saved."""
        self.queue, self.floor = Queue(self.width), numbers["floor"]
        for i, (rows, k, score, evidence) in enumerate(reversed(numbers["candidates"])):
            packed = arrays[f"queued{len(numbers['candidates']) - 1 - i}"]
            Z = np.unpackbits(packed, axis=0, count=rows).astype(bool).reshape(rows, k)
            self.queue.put(self.problem.restored(Z, score, evidence))
        for name in ("enqueued", "dequeued", "lost"):
            setattr(self.queue, name, numbers[name])
        self.last = self.furthest


def search(
    problem: SearchProblem[KeptT],
    heuristic: Heuristic,
    *,
    width: int | None,
    expansion: str = "auto",
) -> BestFirst[KeptT]:
    """A whole search at once."""
    found = BestFirst(problem, heuristic, width=width, expansion=expansion)
    while not found.advance(1 << 20):
        pass
    return found
