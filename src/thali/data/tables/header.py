"""What the first row and the first column of a text file are: names, or data.

The first row is a header when it differs in kind from the rows below it. Numbers can be names too,
such as years; then the row is judged by its numbers, and a note says how it was read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thali.data.tables.cells import is_text, mostly_text, number, there, written_otherwise

__all__ = ["find_header", "names_rows"]

# a first column with one of these names holds row names even when they are whole numbers
LABELS = frozenset({"index", "name", "names", "row", "rowname", "row_name", "rownames"})
IDENTIFIER = re.compile(r"(.*[ _.-])?[iI][dD]|.*[a-z]I[dD]", re.DOTALL)  # user_id, userId
SAMPLE = 200  # rows looked at to see the kind of a column
FAR = 10.0  # numbers so many widths of the data away from them are far
AS_NAMES = "first row read as names of columns (--no-header reads it as data)"
AS_DATA = "first row read as data (--header reads it as names of columns)"

Row = Sequence[str]


def find_header(first: Row, body: Sequence[Row]) -> tuple[bool, str]:
    """Whether the first row names columns, and a note where that is a guess."""
    texts = [is_text(cell) for cell in first]
    if not body:
        return all(texts), ""
    if any(texts[1:]):
        return _words_are_names(first, body[:SAMPLE]), ""
    if texts[0] or first[0] == "":
        return _numbers_after_label(first, body)
    return _bare_numbers(first, body)


def names_rows(body: Sequence[Row], names: Row | None, columns: Row | None) -> bool:
    """Decide whether the first of these columns names the rows."""
    label = names[0] if names is not None else None
    if columns is not None and (label if label is not None else "1") in columns:
        return False
    if mostly_text(body[0]):
        if columns is not None or (label is not None and _labels_rows(label)):
            return True
        return not written_otherwise(body[0])
    if label is None or len(body) == 1:
        return False
    if label == "":
        return True
    distinct = len(set(body[0])) == len(body[0])
    return _labels_rows(label) and distinct and all(cell.isdecimal() for cell in body[0])


def _labels_rows(label: str) -> bool:
    """Whether a column of this name holds the names of rows: no name, a known one, or an id."""
    return label == "" or label.lower() in LABELS or IDENTIFIER.fullmatch(label) is not None


# ---------------------------------------------------------------------------------- words as names


def _words_are_names(first: Row, body: Sequence[Row]) -> bool:
    filled = there(first)
    if any(not is_text(cell) and not cell.isdecimal() for cell in filled):
        return False  # 0.5 is no name
    below = zip(*body, strict=True)
    differs = any(_differs(cell, column) for cell, column in zip(first, below, strict=True))
    return 2 * sum(map(is_text, first)) >= len(filled) and (differs or _labels_rows(first[0]))


def _differs(cell: str, below: Row) -> bool:
    """Whether a cell is a word above a column of numbers, however these are written."""
    if not is_text(cell):
        return False
    return not mostly_text(below) or (written_otherwise(below) and not written_otherwise([cell]))


# -------------------------------------------------------------------------------- numbers as names


def _numbers_after_label(first: Row, body: Sequence[Row]) -> tuple[bool, str]:
    """Judge a row of one word, or an empty cell, and numbers."""
    label, tail = first[0], first[1:]
    if label and (not tail or _labels_rows(label)):
        return True, ""
    rows = [row[0] for row in body]
    if _counts_up(tail) and _counts_up(rows[:SAMPLE]):  # pandas' own numbers on both sides
        return True, ""
    below = [row[1:] for row in body]
    named = mostly_text(rows[:SAMPLE]) and label not in rows
    corner = label == "" and len(set(tail)) == len(tail)
    if named and (corner or _evenly_named(tail, below, 4) or _stands_out(tail, below)):
        return True, AS_NAMES
    if named and _alone_whole(tail, below):
        return True, AS_NAMES
    if _counts_up(tail) and _evenly_named(tail, below, 3):
        return True, AS_NAMES
    return False, AS_DATA if named and len(tail) > 1 and _increases(_floats(tail)) else ""


def _bare_numbers(first: Row, body: Sequence[Row]) -> tuple[bool, str]:
    """Judge a row of numbers only."""
    if not all(cell.isdecimal() for cell in first):
        return False, ""
    if len(first) > 3 and first[0] == "0" and _counts_up(first):
        return True, AS_NAMES
    if len(body) == 1:
        return False, ""
    if _evenly_named(first, body, 4) and _mostly_fractions(body):
        return True, AS_NAMES
    if _stands_out(first, body):
        return True, AS_NAMES
    return False, AS_DATA if _is_far(first, body) else ""


def _stands_out(names: Row, body: Sequence[Row]) -> bool:
    """Whether increasing numbers are too unlike those below, column by column, to be data."""
    if len(names) < 2 or not _increases(_floats(names)):
        return False
    whole = len(names) > 2 and all(name.isdecimal() for name in names)
    if not (whole and _mostly_fractions(body)) and not _is_far(names, body):
        return False
    low, high = _ranges(_matrix(body))
    heads = _floats(names)
    return bool(((heads < low) | (heads > high)).all())


def _alone_whole(names: Row, body: Sequence[Row]) -> bool:
    """Whether three or more whole numbers increase, above rows of fractions."""
    if len(names) < 3 or not all(name.isdecimal() for name in names):
        return False
    rows = _matrix(body[:SAMPLE])
    whole = (np.isnan(rows) | (rows % 1.0 == 0.0)).all(axis=1)
    return len(rows) > 2 and _increases(_floats(names)) and not whole.any()


def _evenly_named(names: Row, body: Sequence[Row], at_least: int) -> bool:
    """Whether numbers climb in even steps, as names do, and most rows below do not."""
    if len(names) < at_least or not _climbs_evenly(names):
        return False
    sample = body[:SAMPLE]
    return 2 * sum(map(_climbs_evenly, sample)) < len(sample)


def _climbs_evenly(cells: Row) -> bool:
    values = _floats(cells)
    if not _increases(values):
        return False
    with np.errstate(over="ignore"):
        steps = np.diff(values)
    return bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0.0))


def _is_far(names: Row, body: Sequence[Row]) -> bool:
    """Whether every number is many widths of the data away from the data."""
    if len(body) > SAMPLE and not _is_far(names, body[:SAMPLE]):
        return False
    heads, values = _floats(names), _matrix(body)
    seen = values[~np.isnan(values)]
    if not seen.size:
        return False
    low, high = seen.min(), seen.max()
    with np.errstate(over="ignore"):
        return bool((np.maximum(low - heads, heads - high) > FAR * max(high - low, 1.0)).all())


def _mostly_fractions(body: Sequence[Row]) -> bool:
    """Whether at least half of the numbers in the first rows are not whole."""
    values = _matrix(body[:SAMPLE])
    seen = values[~np.isnan(values)]
    return bool(seen.size and 2 * np.count_nonzero(seen % 1.0) >= seen.size)


def _ranges(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and largest number of each column; of a column without any, all numbers."""
    gaps = np.isnan(values)
    low = np.where(gaps, np.inf, values).min(axis=0)
    high = np.where(gaps, -np.inf, values).max(axis=0)
    empty = gaps.all(axis=0)
    return np.where(empty, -np.inf, low), np.where(empty, np.inf, high)


def _matrix(body: Sequence[Row]) -> NDArray[np.float64]:
    """The finite numbers of some rows, NaN for anything else."""
    values = np.array([_floats(row) for row in body])
    return np.where(np.isfinite(values), values, np.nan)


def _floats(cells: Row) -> NDArray[np.float64]:
    found = (number(cell) for cell in cells)
    return np.array([np.nan if value is None else value for value in found])


def _increases(values: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(values).all() and (values[1:] > values[:-1]).all())


def _counts_up(cells: Row) -> bool:
    """Whether the cells are consecutive whole numbers, as columns without names are written."""
    return all(c.isdecimal() for c in cells) and all(
        int(b) == int(a) + 1 for a, b in itertools.pairwise(cells)
    )
