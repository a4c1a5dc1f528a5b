r"""Blocks of rows on whatever scheduler of Dask is active: threads, processes, or a cluster.

    rows of a chunk → task → its new rows, and statistics → a sum in a tree → the sum of all

A task is a function of a chunk of X, of what all rows are given, and of the chunk's own q, which it
leaves as it was: one that a worker took with it when it died is made again, with the same result.
The tree is that of the chunks, pairs of neighbors again and again, so that sums have the same bits
whatever the number of workers.

X stays where it is: chunks of Dask's collections are computed on workers, files are read by them,
and an array in memory is sent once. q lives here, N×K numbers; a chunk's own part goes with its
task and comes back with the result, 16·N·K bytes an iteration (2·N for hard assignments). What all
rows are given goes to each worker once an iteration.
"""

import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thali.backends.base import PASSES, Globals, HardGlobals
from thali.backends.block import Block
from thali.backends.far import AnyBlock, FarBlock, block_of, near
from thali.backends.hard_rounds import Crew, in_rounds, in_turn
from thali.backends.local import Local, hard_rows
from thali.backends.rows import BLOCK, Rows, pieces_of
from thali.data import Data
from thali.data.elsewhere.collections import DaskRows, Parcel, Reading
from thali.structures.statistics import Statistics

CHUNK = 2**22  # entries of a chunk of X, where X has no chunks of its own
LARGE_GRAPHS = "distributed.admin.large-graph-warning-threshold"
Work = Callable[..., tuple[Any, Any]]  # of a block, what all are given, and what a chunk is: what
# adds up over chunks, and what is of the chunk's own rows


class Chunks(NamedTuple):
    """The rows of each chunk, and what a task is given to read them."""

    rows: list[slice]
    nodes: list[Any]
    parts: list[slice] | None = None  # which of the rows that each node has

    def within(self, i: int) -> slice | None:
        """Which rows of its node a chunk is; None of all."""
        return None if self.parts is None else self.parts[i]


class Held:
    """Chunks of an array in memory, sent to workers once; they go when no backend holds them."""

    def __init__(self, block: Block) -> None:
        import dask

        self.X = weakref.ref(block.X)
        rows = list(pieces_of(block.n, height_of(block)))
        parts = [dask.delayed(Parcel(block.part(piece)), pure=False) for piece in rows]
        with _QUIET:
            self.chunks = Chunks(rows, list(dask.persist(*parts)))


_HELD: "weakref.WeakValueDictionary[int, Held]" = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


@dataclass
class Dask:
    """The same steps as those of ``Local``, chunk by chunk, by Dask."""

    held: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            import dask  # noqa: F401
        except ImportError:
            raise ModuleNotFoundError(
                "backend='dask' needs the package dask: pip install thali[dask]."
            ) from None

    def hold(self, data: Data, rows: Rows, dtype: str) -> tuple[AnyBlock, Rows]:
        """X stays where it is; an array in memory is sent by the first step."""
        return block_of(data, dtype), rows

    def local_step(
        self, block: AnyBlock, rows: Rows, given: Globals, passes: int = PASSES
    ) -> Statistics:
        chunks = self._chunks(block)
        own = [(rows.part(piece), passes) for piece in chunks.rows]
        found: Statistics
        found, new = mapped(soft, block, chunks, given, own)
        for piece, part in zip(chunks.rows, new, strict=True):
            put(rows, piece, part)
        return found

    def hard_step(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: HardGlobals
    ) -> Statistics:
        """In rounds, the pieces of one at a time; in turn, chunk after chunk."""
        import dask

        chunks = self._chunks(block)
        if given.side_by_side and len(Local().pieces(block, rows.k)) > 1:
            chunks = pieces_in(chunks, Local().pieces(block, rows.k)[0].stop)
        at = {piece.start: i for i, piece in enumerate(chunks.rows)}
        with _QUIET:  # sent once: it has a number for each count that there may be
            (sent,) = dask.persist(
                dask.delayed(Parcel(given._replace(level=_no_level)), pure=False)
            )
        ready: dict[int, tuple[Statistics, Solved]] = {}

        def solve(jobs: Sequence[tuple[slice, Any, np.ndarray]], follow: bool) -> None:
            own = [(rows.part(piece), seed, m, follow) for piece, seed, m in jobs]
            which = [at[piece.start] for piece, _, _ in jobs]
            found = together(hard, block, chunks, which, sent, own)
            ready.update(
                (piece.start, each) for (piece, _, _), each in zip(jobs, found, strict=True)
            )

        def improve(
            rng: np.random.Generator, piece: slice, m: np.ndarray, follow: bool
        ) -> tuple[float, Statistics]:
            if piece.start not in ready:
                solve([(piece, rng, m)], follow)
            found, solved = ready.pop(piece.start)
            rows.nu[piece], m[:] = solved.nu, solved.m
            rng.bit_generator.state = solved.rng
            return solved.gained, found

        def tally(piece: slice) -> Statistics:
            own = [(rows.part(piece),)]
            which = [at[piece.start]]
            found: Statistics = together(as_they_are, block, chunks, which, None, own)[0][0]
            return found

        def by_rounds(work: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
            jobs = list(jobs)
            solve(jobs, False)
            return map(work, jobs)

        if not given.side_by_side or len(chunks.rows) == 1:
            return in_turn(rng, rows, chunks.rows, Crew(improve, tally, map))
        crew = Crew(improve, tally, by_rounds)
        return in_rounds(rng, rows, chunks.rows, given.level, crew)

    def tally(self, block: AnyBlock, rows: Rows) -> Statistics:
        chunks = self._chunks(block)
        own = [(rows.part(piece),) for piece in chunks.rows]
        found: Statistics = mapped(as_they_are, block, chunks, None, own)[0]
        return found

    def residual_scores(
        self, block: AnyBlock, rows: Rows, phi: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        chunks = self._chunks(block)
        own = [(rows.part(piece),) for piece in chunks.rows]
        back, scores = mapped(residuals, block, chunks, (phi, v), own)
        return np.concatenate(scores), back

    def row_bounds(self, block: AnyBlock, rows: Rows, given: Globals, none: float) -> np.ndarray:
        chunks = self._chunks(block)
        own = [(rows.part(piece),) for piece in chunks.rows]
        return np.concatenate(mapped(bounds, block, chunks, (given, none), own)[1])

    def draw_rows(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: Globals
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Each chunk has random numbers of its own."""
        if rows.slab is None:
            return np.packbits(rng.random(rows.nu.shape) < rows.nu, axis=0), None
        chunks = self._chunks(block)
        seeds = rng.integers(2**62, size=len(chunks.rows))
        own = [(rows.part(p), int(seed)) for p, seed in zip(chunks.rows, seeds, strict=True)]
        drawn = mapped(draws, block, chunks, given, own)[1]
        bits, amounts = zip(*drawn, strict=True)
        unpacked = [
            np.unpackbits(part, axis=0, count=len(S)) for part, S in zip(bits, amounts, strict=True)
        ]
        return np.packbits(np.concatenate(unpacked), axis=0), np.concatenate(amounts)

    def _chunks(self, block: AnyBlock) -> Chunks:
        """The chunks of a block: its own, parts of a file, or parts of an array that are sent."""
        if isinstance(block, FarBlock):
            if isinstance(block.source, DaskRows):
                return Chunks(by_heights(block.source.heights), block.source.parts)
            rows = list(pieces_of(block.n, height_of(block)))
            return Chunks(rows, [Parcel((block, piece)) for piece in rows])
        assert isinstance(block, Block)
        with _LOCK:
            held = _HELD.get(id(block.X))
            if held is None or held.X() is not block.X:
                held = _HELD[id(block.X)] = Held(block)
            if held not in self.held:
                self.held = [*(h for h in self.held if h.X() is not None), held]
        return held.chunks


def height_of(block: AnyBlock) -> int:
    """Rows of a chunk: whole pieces of those that ``Local`` looks at together."""
    return BLOCK * max(1, CHUNK // (BLOCK * block.d))


def by_heights(heights: Sequence[int]) -> list[slice]:
    """Rows that follow one another, so many at a time."""
    ends = np.cumsum([0, *heights]).tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def pieces_in(chunks: Chunks, size: int) -> Chunks:
    """So many rows of each chunk at a time; of a file they are read by themselves."""
    rows, nodes, parts = [], [], []
    for chunk, node in zip(chunks.rows, chunks.nodes, strict=True):
        for part in pieces_of(chunk.stop - chunk.start, size):
            piece = slice(chunk.start + part.start, chunk.start + part.stop)
            of_file = isinstance(node, Parcel)
            rows.append(piece)
            nodes.append(Parcel((node.content[0], piece)) if of_file else node)
            parts.append(slice(None) if of_file else part)
    return Chunks(rows, nodes, parts)


def put(rows: Rows, piece: slice, new: Rows) -> None:
    """Take over what a task made of some rows."""
    rows.nu[piece] = new.nu
    for mine, theirs in zip(rows.amounts, new.amounts, strict=True):
        mine[piece] = theirs


# ---- tasks --------------------------------------------------------------------------------------


class _Quiet:
    """That q goes with the tasks is meant: a cluster need not warn of it meanwhile.

    Dask's settings are those of the process, and restarts work side by side.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, None

    def __enter__(self) -> None:
        import dask

        with self.lock:
            self.inside += 1
            known = "distributed" in sys.modules  # which else brings its settings with it later
            if known and self.before is None:
                self.before = dask.config.get(LARGE_GRAPHS, "10MB")
                dask.config.set({LARGE_GRAPHS: "1PiB"})

    def __exit__(self, *_: object) -> None:
        import dask

        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.before is not None:
                dask.config.set({LARGE_GRAPHS: self.before})
                self.before = None


_QUIET = _Quiet()


def mapped(
    work: Work, block: AnyBlock, chunks: Chunks, given: Any, own: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """The sum over chunks of what the work says of each, in a tree, and what it made of rows."""
    import dask

    task, how = dask.delayed(run, pure=False), opening(work, block)
    first, second = (dask.delayed(part, pure=False) for part in (of_sum, of_rows))
    plus = dask.delayed(add, pure=False)
    sent = dask.delayed(Parcel(given), pure=False)
    done = [
        task(how, node, sent, Parcel((None, *mine)))
        for node, mine in zip(chunks.nodes, own, strict=True)
    ]
    sums = [first(each) for each in done]
    while len(sums) > 1:
        pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
        sums = [plus(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    with _QUIET:
        total, *new = dask.compute(*sums, *(second(each) for each in done))
    return total, new


def together(
    work: Work,
    block: AnyBlock,
    chunks: Chunks,
    which: Sequence[int],
    given: Any,
    own: Sequence[Any],
) -> list[tuple[Any, Any]]:
    """What the work makes of some chunks; ``given`` has been sent before."""
    import dask

    sent = Parcel(None) if given is None else given
    task, how = dask.delayed(run, pure=False), opening(work, block)
    tasks = [
        task(how, chunks.nodes[i], sent, Parcel((chunks.within(i), *mine)))
        for i, mine in zip(which, own, strict=True)
    ]
    with _QUIET:
        return list(dask.compute(*tasks))


def opening(work: Work, block: AnyBlock) -> Parcel:
    """What a task does, and how it makes a block of a chunk of Dask's own."""
    reading = None
    if isinstance(block, FarBlock) and isinstance(block.source, DaskRows):
        reading = block.source.reading, block.masked, block.dtype
    return Parcel((work, reading, _this_process()))


def run(how: Parcel, node: Any, given: Parcel, own: Parcel) -> tuple[Any, Any]:
    """A task."""
    work, reading, caller = how.content
    if caller != _this_process():  # which keeps BLAS to one thread for itself
        _one_blas_thread()
    within, *rest = own.content
    block = block_in(node, reading)
    found: tuple[Any, Any] = work(
        block if within is None else block.part(within), given.content, *rest
    )
    return found


def block_in(node: Any, how: tuple[Reading, bool, str] | None) -> Block:
    """The block that a task was given, to read, or as Dask computed it."""
    if not isinstance(node, Parcel):
        assert how is not None
        reading, masked, dtype = how
        return near(reading(node), masked, dtype)
    if isinstance(node.content, Block):
        return node.content
    far, rows = node.content
    part: Block = far.part(rows)
    return part


def of_sum(found: tuple[Any, Any]) -> Any:
    """What adds up, of what a task returns."""
    return found[0]


def of_rows(found: tuple[Any, Any]) -> Any:
    """What is of the chunk's own rows."""
    return found[1]


def add(left: Any, right: Any) -> Any:
    """The sum of two chunks', of what adds up."""
    return None if left is None else left + right


def _this_process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@lru_cache(maxsize=1)
def _one_blas_thread() -> object:
    """A worker's products have the same bits whatever else it does: for as long as it lives."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")


# ---- what tasks do ------------------------------------------------------------------------------


def soft(block: Block, given: Globals, rows: Rows, passes: int) -> tuple[Statistics, Rows]:
    """A local step on rows of its own."""
    rows = rows.copied()
    return Local().local_step(block, rows, given, passes), rows


def as_they_are(block: Block, given: None, rows: Rows) -> tuple[Statistics, None]:
    return Local().tally(block, rows), None


def residuals(
    block: Block, given: tuple[np.ndarray, np.ndarray], rows: Rows
) -> tuple[np.ndarray, np.ndarray]:
    scores, back = Local().residual_scores(block, rows, *given)
    return back, scores


def bounds(block: Block, given: tuple[Globals, float], rows: Rows) -> tuple[None, np.ndarray]:
    return None, Local().row_bounds(block, rows, *given)


def draws(block: Block, given: Globals, rows: Rows, seed: int) -> tuple[None, Any]:
    return None, Local().draw_rows(np.random.default_rng(seed), block, rows, given)


class Solved(NamedTuple):
    """New rows of 0 and 1, the counts, where the random numbers are, and the bound's gain."""

    nu: np.ndarray
    m: np.ndarray
    rng: Any
    gained: float


def hard(
    block: Block, given: HardGlobals, rows: Rows, seed: Any, m: np.ndarray, follow: bool
) -> tuple[Statistics, Solved]:
    """The rows of a chunk, piece by piece; ``seed`` may be a generator to go on with."""
    rows, m, gained, found = rows.copied(), m.copy(), 0.0, []
    rng = np.random.default_rng(deepcopy(seed))  # a task made again must find what it found before
    for piece in Local().pieces(block, rows.k):
        more, own = hard_rows(rng, block.part(piece), rows.part(piece), given, m, follow)
        gained += more
        found.append(own)
    return reduce(add, found), Solved(rows.nu, m, rng.bit_generator.state, gained)


def _no_level(counts: np.ndarray) -> float:
    """In place of what is not sent."""
    raise AssertionError("tasks are not to look at the bound as a whole")
