"""One cell of text: a number, a missing entry, a number in another dress, or a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "decimal_commas",
    "is_text",
    "mostly_text",
    "number",
    "numbers",
    "with_point",
    "written_otherwise",
]

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "?"})
TRUTH = {"true": 1.0, "false": 0.0}
DRESS = str.maketrans("", "", "$€£¥%'’ \u00a0\u202f")  # what people write about a number
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{2,3})*,\d{3}(\.\d*)?")
THOUSANDS_BY_POINT = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+,\d+")


def number(cell: str) -> float | None:
    """Return a cell as a number, NaN if it is missing, None if it is text."""
    low = cell.lower()
    if low in MISSING:
        return np.nan
    if low in TRUTH:
        return TRUTH[low]
    if "_" in cell:  # Python reads 1_000; data files do not mean it
        return None
    try:
        return float(_plain_minus(cell))
    except ValueError:
        return None


def is_text(cell: str) -> bool:
    return number(cell) is None


def there(cells: Iterable[str]) -> list[str]:
    """The cells that are not missing."""
    return [cell for cell in cells if cell.lower() not in MISSING]


def mostly_text(cells: Sequence[str]) -> bool:
    """Whether at least half of the cells that are there are no numbers."""
    filled = there(cells)
    return bool(filled) and 2 * sum(map(is_text, filled)) >= len(filled)


def written_otherwise(cells: Sequence[str]) -> bool:
    """Whether a column that is mostly text is mostly numbers in another dress, such as $0.88."""
    filled = there(cells)
    return mostly_text(filled) and 2 * sum(plain(cell) is not None for cell in filled) > len(filled)


def plain(cell: str) -> str | None:
    """The number that a cell means, written plainly; None if it means none.

    >>> [plain(cell) for cell in ("$0.88", "10 %", "1,234", "2,5", "1.234,5", "0x10", "1a")]
    ['0.88', '10', '1234', '2.5', '1234.5', '16', None]
    """
    bare = _plain_minus(cell).translate(DRESS)
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", bare):
        return str(int(bare, 16))
    if THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    elif THOUSANDS_BY_POINT.fullmatch(bare):
        bare = bare.replace(".", "").replace(",", ".")
    elif DECIMAL_COMMA.fullmatch(bare):
        bare = bare.replace(",", ".")
    has_digit = any(character.isdecimal() for character in bare)
    return bare if has_digit and not is_text(bare) else None


def decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether every comma in a number of these rows parts its decimals, beyond doubt.

    A point in another number, or commas that could all part thousands, leave a doubt.
    """
    cells = [cell for row in rows for cell in row]
    if any("." in cell and not is_text(cell) for cell in cells):
        return False
    commas = [_plain_minus(c) for c in cells if "," in c and plain(c) is not None]
    if not all(DECIMAL_COMMA.fullmatch(cell) for cell in commas):
        return False
    return not all(THOUSANDS.fullmatch(cell) for cell in commas)


def with_point(cell: str) -> str:
    """A number with a decimal comma, written with a point; any other cell as it is."""
    return cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(_plain_minus(cell)) else cell


def numbers(cells: Sequence[str], column: str, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return a column of cells as floats; text is refused with its place."""
    if "_" not in "".join(cells):
        try:
            return np.array(list(map(float, cells)))
        except ValueError:
            pass
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        value = number(cell)
        if value is None:
            shown = cell if len(cell) <= 40 else cell[:40] + "…"
            raise ValueError(f"{place(i)}, {column}: {shown!r} is not a number; {_advice(cell)}.")
        values[i] = value
    return values


def _advice(cell: str) -> str:
    """What to do with a cell that is not a number."""
    meant = plain(cell)
    if meant is None:
        return "correct it, or choose columns of numbers with --columns"
    bare = _plain_minus(cell)
    if not DECIMAL_COMMA.fullmatch(bare):
        return f"write it plainly ({meant}), or choose other columns with --columns"
    if THOUSANDS.fullmatch(bare):
        return f"write it without the comma ({meant}) or with a point ({bare.replace(',', '.')})"
    return f"write it with a point ({meant})"


def _plain_minus(cell: str) -> str:
    """A cell with the minus sign of typesetters, U+2212, as a hyphen."""
    return cell.replace("\u2212", "-")
