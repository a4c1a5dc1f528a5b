"""This machine: its cores, its memory, and a refusal with words where an array would not fit."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def side_by_side(work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """``work`` of each item, in order, by threads that all who ask share: as many as cores.

    So chains that run at once and each cut their work in pieces do not crowd the cores. ``work``
    must not ask for more of them.

    >>> side_by_side(len, ["a", "bc"])
    [1, 2]
    """
    if len(items) < 2 or cores() == 1:
        return [work(item) for item in items]
    return list(_crew(os.getpid(), cores()).map(work, items))


@cache
def _crew(process: int, size: int) -> ThreadPoolExecutor:
    """The threads of a process: one that was forked has none of its parent's."""
    return ThreadPoolExecutor(size)


def physical_memory() -> int:
    """Bytes of memory of this machine (a guess of 8 GB where it cannot be asked)."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def refuse_beyond_memory(what: str, n: int, k: int, d: int) -> None:
    """Raise MemoryError where K features on N×D data need more than there is: NK + KD + 3K²."""
    needed = n * k * 9 + 8 * (k * d + 3 * k * k)
    available = physical_memory()
    if needed > available:
        raise MemoryError(
            f"{what} has {k:,} features, which need {needed / 2**30:,.0f} GB of memory, more than "
            f"the {available / 2**30:,.0f} GB here; use fewer."
        )
