"""A table: an N×D matrix with the names found beside it, and the choice of its columns."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "brief", "choose_columns", "refuse_repeats", "row_names_from"]


@dataclass(frozen=True)
class Table:
    """A data matrix with the names found beside it.

    Attributes
    ----------
    values : float64 array of shape (N, D), C-ordered, or a scipy.sparse.csr_array
        The numbers; NaN where an entry is missing.
    column_names : list of str or None
        Names from the header, if there is one.
    row_names : list of str or None
        Names from the first column or index, if there are any; they may repeat.
    notes : tuple of str
        What was decided in reading, where a file could be read otherwise.
    """

    values: NDArray[np.float64] | Any
    column_names: list[str] | None
    row_names: list[str] | None
    notes: tuple[str, ...] = ()


def row_names_from(column: str | None) -> str:
    """The note about the column that was taken for the names of the rows."""
    return f"row names from column {column!r}" if column else "row names from the first column"


def refuse_repeats(file: Path, names: Sequence[str], what: str = "column name") -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        at = [i for i, name in enumerate(names, 1) if name == repeated[0]]
        more = f" and {len(repeated) - 1} more names repeat" if len(repeated) > 1 else ""
        raise ValueError(
            f"{file}: the {what} {repeated[0]!r} appears {len(at)} times (at {at[0]} and {at[1]})"
            f"{more}; give every one its own name."
        )


def choose_columns(
    file: Path, names: Sequence[str] | None, width: int, columns: Sequence[str] | None, skip: int
) -> list[int]:
    """Return the positions of the wanted columns; position 0 is left out when ``skip`` is 1."""
    if columns is None:
        if names is not None:
            refuse_repeats(file, names[skip:])
        return list(range(skip, width))
    if len(columns) == 0:
        raise ValueError("no columns are chosen; name at least one.")
    refuse_repeats(Path("the choice of columns"), columns)
    available = list(names) if names is not None else [str(j) for j in range(1, width + 1)]
    chosen = []
    for name in columns:
        if name not in available:
            raise ValueError(_unknown_column(file, name, available, named=names is not None))
        if available.count(name) > 1:
            refuse_repeats(file, [other for other in available if other == name])
        chosen.append(available.index(name))
    return chosen


def _unknown_column(file: Path, name: str, available: list[str], *, named: bool) -> str:
    if not named:
        return (
            f"{file} has no column {name!r}: it has no header, so its columns are numbered "
            f"1 to {len(available)}."
        )
    by_lower = {other.lower(): other for other in available}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=3)
    if near:
        hint = " or ".join(repr(by_lower[other]) for other in near)
        return f"{file} has no column {name!r}; did you mean {hint}?"
    listed = ", ".join(map(repr, available[:10])) + (", …" if len(available) > 10 else "")
    return f"{file} has no column {name!r}; it has {listed}."


def brief(error: Exception) -> str:
    """The first sentence of somebody else's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
