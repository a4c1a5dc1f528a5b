"""Markdown tables, so that a benchmark's output can be pasted where people read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["markdown"]


def markdown(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned Markdown; the first column to the left, the others to the right.

    >>> print(markdown(["N", "ms"], [["10", 1.5], ["1000", 20]]))
    | N    |  ms |
    |:-----|----:|
    | 10   | 1.5 |
    | 1000 |  20 |
    """
    cells = [[str(c) for c in row] for row in rows]
    widths = [
        max(len(h), 3, *(len(r[i]) for r in cells)) if cells else max(len(h), 3)
        for i, h in enumerate(headers)
    ]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|:" + "-" * (widths[0] + 1) + "|"
    rule += "".join("-" * (width + 1) + ":|" for width in widths[1:])
    return "\n".join([line(list(headers)), rule, *(line(row) for row in cells)])
