"""This machine: its cores, its memory, and a refusal with words where an array would not fit."""

import os


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


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
