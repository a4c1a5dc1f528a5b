"""CSV and TSV: lines → cells → numbers, with the names in the first row and the first column.

Python's csv module splits the lines: the parser of pandas fills a short line up without a word, and
a half-written file must not pass. ``float`` reads the numbers: older versions of pandas round them.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sheet", "numbers", "read_text", "refusal", "row_names_from", "written_otherwise"]

Row = Sequence[str] | NDArray[Any]
Floats = NDArray[np.float64]


class Sheet(NamedTuple):
    """All that a file holds, before columns are chosen."""

    values: Floats  # N×D; NaN where a cell is missing, or no number
    names: list[str] | None  # of the D columns
    row_names: list[str] | None
    skip: int  # 1 if the first column holds the row names
    notes: list[str]
    faults: dict[int, str]  # column → why it is no column of numbers


def read_text(
    file: Path, delimiter: str, columns: Sequence[str] | None, header: bool | None
) -> Sheet:
    """Read a file; ``header`` says whether its first row names the columns, None to find out."""
    text, notes = _decode(file), []
    delimiter = _delimiter(text) if delimiter == "," else delimiter
    lines, rows = _split(file, text, delimiter)
    if delimiter == ";" and _decimal_commas(rows):
        rows = [[_with_point(cell) for cell in row] for row in rows]
        notes.append("decimal commas read as points")
    if _has_short_header(rows, header):
        rows[0], header = ["", *rows[0]], True
    _refuse_ragged(file, lines, rows)
    cells = np.array(rows, dtype=object)
    if cells.shape[1] > 1 and (cells[:, -1] == "").all():  # a delimiter ends each line
        cells = cells[:, :-1]
    values, texts = np.empty(cells.shape), np.empty(cells.shape, dtype=bool)
    values[0], texts[0] = numbers(cells[0])
    for j, column in enumerate(cells[1:].T):
        values[1:, j], texts[1:, j] = numbers(column)
    if header is None:
        header, note = _find_header(cells, values, texts[0])
        notes += [note] * bool(note)
    names = None
    if header:
        names = [name or f"column_{j}" * (j > 1) for j, name in enumerate(cells[0], 1)]
        lines, cells, values, texts = lines[1:], cells[1:], values[1:], texts[1:]
    if not len(cells):
        raise ValueError(f"{file} holds a header and no rows; write the data again.")
    skip = int(_names_rows(cells, names, columns))
    if skip and cells.shape[1] == 1:
        raise ValueError(f"{file} holds one column, of text; a table needs numbers.")
    notes += [row_names_from(names[0] if names else "")] * skip
    faults = {}
    for j in np.flatnonzero(texts.any(axis=0)):
        i, name = texts[:, j].argmax(), repr(names[j]) if names else j + 1
        faults[j] = refusal(f"{file}, line {lines[i]}, column {name}", cells[i, j])
    return Sheet(values, names, list(cells[:, 0]) if skip else None, skip, notes, faults)


def row_names_from(column: str) -> str:
    """The note about the column that was taken for the names of the rows."""
    return f"row names from column {column!r}" if column else "row names from the first column"


# -------------------------------------------------------------------------------- bytes into cells

MAGIC = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "a gzip archive",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def _decode(file: Path) -> str:
    """Return the text of a file, or say what the bytes are instead."""
    content, kind = file.read_bytes(), file.suffix[1:].upper()
    for magic, other in MAGIC.items():
        if content.startswith(magic):
            raise ValueError(f"{file} is {other}, not a {kind} file in UTF-8; save it as one.")
    at = content.find(b"\0")
    if at >= 0:
        line = content.count(b"\n", 0, at) + 1
        raise ValueError(
            f"{file} is not a text file (a NUL byte in line {line}); save the table again as {kind}."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file} is not in UTF-8 (byte 0x{content[error.start]:02x} in line {line}); "
            "save it again with that encoding."
        ) from None


def _delimiter(text: str) -> str:
    """The delimiter of a .csv: in much of Europe it is a semicolon, and some are tabbed."""
    lines = [line for line in text[:100_000].splitlines() if line.strip()][:2] or [""]
    if lines[0].count(";") == lines[-1].count(";") > 0:
        return ";"
    return "\t" if "\t" in lines[0] and "," not in lines[0] else ","


def _split(file: Path, text: str, delimiter: str) -> tuple[list[int], list[list[str]]]:
    """Split text into rows of stripped cells, blank lines left out, with their line numbers."""
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)
    lines, rows = [], []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if len(cells) > 1 or any(cells):
                lines.append(reader.line_num)
                rows.append(cells)
    except csv.Error as error:
        why = "a quote is never closed" if "end of data" in str(error) else str(error)
        raise ValueError(
            f"{file}, line {reader.line_num}: {why}; the file may be half-written, "
            "so write it again or correct that line."
        ) from None
    if not rows:
        raise ValueError(f"{file} holds only blank lines; write the data again.")
    return lines, rows


def _has_short_header(rows: Sequence[Row], header: bool | None) -> bool:
    """Whether the header names every column but that of the row names, as R's write.table does."""
    may_be = mostly_text(rows[0]) if header is None else header
    return may_be and set(map(len, rows[1:])) == {len(rows[0]) + 1}


def _refuse_ragged(file: Path, lines: list[int], rows: Sequence[Row]) -> None:
    width = Counter(map(len, rows)).most_common(1)[0][0]
    for i, row in enumerate(rows):
        found = f"{len(row)} field" + "s" * (len(row) != 1)
        if len(row) < width and i == len(rows) - 1:
            raise ValueError(
                f"{file}, line {lines[i]}: the last line has {found} where the others have "
                f"{width}, so the file looks half-written; write it again or delete that line."
            )
        if len(row) != width:
            raise ValueError(
                f"{file}, line {lines[i]}: {found} where the other lines have {width}; "
                "correct that line."
            )


# ------------------------------------------------------------------------------ cells into numbers

MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "?")
WORDS = {**dict.fromkeys(MISSING, np.nan), "true": 1.0, "false": 0.0}
DRESS = str.maketrans("\u2212", "-", "$€£¥%'’ \u00a0\u202f")  # what people write about a number
DECIMAL_COMMA = re.compile(r"[-+\u2212]?\d*,\d+([eE][-+\u2212]?\d+)?")
THOUSANDS = re.compile(r"[-+\u2212]?[1-9]\d{0,2}(,\d{2,3})*,\d{3}(\.\d*)?")


def numbers(cells: Row) -> tuple[Floats, NDArray[np.bool_]]:
    """The numbers of some cells, NaN for the missing and for text, and which ones are text."""
    if "_" not in "".join(cells):
        with suppress(ValueError):
            return np.array(list(map(float, cells))), np.zeros(len(cells), dtype=bool)
    found = np.array([_number(cell) for cell in cells], dtype=object)
    return found.astype(np.float64), found == None  # noqa: E711  entry by entry


def _number(cell: str) -> float | None:
    """A cell as a number, NaN if it is missing, None if it is text."""
    known = WORDS.get(cell.lower())
    if known is not None or "_" in cell:  # Python reads 1_000; data files do not mean it
        return known
    with suppress(ValueError):
        return float(cell.replace("\u2212", "-"))  # the minus sign of typesetters
    return None


def mostly_text(cells: Row) -> bool:
    """Whether at least half of the cells that are there are no numbers."""
    values, texts = numbers(cells)
    return 0 < np.count_nonzero(texts | ~np.isnan(values)) <= 2 * np.count_nonzero(texts)


def written_otherwise(cells: Row) -> bool:
    """Whether a column that is mostly text is mostly numbers in another dress, such as $0.88."""
    there = [cell for cell in cells if cell.lower() not in MISSING]
    return mostly_text(cells) and 2 * sum(_plain(cell) != "" for cell in there) > len(there)


def _plain(cell: str) -> str:
    """The number that a cell means, written plainly; nothing if it means none.

    >>> [_plain(cell) for cell in ("$0.88", "10 %", "1,234", "2,5", "0x10", "1a")]
    ['0.88', '10', '1234', '2.5', '16', '']
    """
    bare = cell.translate(DRESS)
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", bare):
        return str(int(bare, 16))
    if THOUSANDS.fullmatch(bare) or DECIMAL_COMMA.fullmatch(bare):
        bare = bare.replace(",", "" if THOUSANDS.fullmatch(bare) else ".")
    return bare if re.search(r"\d", bare) and _number(bare) is not None else ""


def _decimal_commas(rows: Sequence[Row]) -> bool:
    """Whether every comma in a number of these rows parts its decimals, beyond doubt.

    A point in another number, or commas that could all part thousands, leave a doubt.
    """
    commas = [cell for row in rows for cell in row if "," in cell and _plain(cell)]
    points = (cell for row in rows for cell in row if "." in cell)
    return (
        all(map(DECIMAL_COMMA.fullmatch, commas))
        and not all(map(THOUSANDS.fullmatch, commas))
        and all(_number(cell) is None for cell in points)
    )


def _with_point(cell: str) -> str:
    """A number with a decimal comma, written with a point; any other cell as it is."""
    return cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell


def refusal(place: str, cell: str) -> str:
    """The sentence about a cell that is not a number, with what to do."""
    meant, advice = _plain(cell), "correct it, or choose columns of numbers with --columns"
    if meant and not DECIMAL_COMMA.fullmatch(cell):
        advice = f"write it plainly ({meant}), or choose other columns with --columns"
    elif meant and THOUSANDS.fullmatch(cell):
        advice = f"write it without the comma ({meant}) or with a point ({_with_point(cell)})"
    elif meant:
        advice = f"write it with a point ({meant})"
    shown = cell if len(cell) <= 40 else cell[:40] + "…"
    return f"{place}: {shown!r} is not a number; {advice}."


# ----------------------------------------------------------------------------------- names or data

# a first column with one of these names holds row names even when they are whole numbers
LABELS = frozenset({"", "index", "name", "names", "row", "rowname", "row_name", "rownames"})
IDENTIFIER = re.compile(r"(.*[ _.-])?[iI][dD]|.*[a-z]I[dD]", re.DOTALL)  # user_id, userId
SAMPLE = 200  # rows looked at to see the kind of a column
FAR = 10.0  # numbers so many widths of the data away from them are far
AS_NAMES = "first row read as names of columns (--no-header reads it as data)"
AS_DATA = "first row read as data (--header reads it as names of columns)"


def _names_rows(cells: NDArray[Any], names: Row | None, columns: Row | None) -> bool:
    """Whether the first column names the rows."""
    column, label = cells[:, 0], names[0] if names else "1"
    if columns is not None and label in columns:
        return False
    labels = names is not None and _labels_rows(label)
    if mostly_text(column):
        return columns is not None or labels or not written_otherwise(column)
    whole = all(map(str.isdecimal, column)) and len(set(column)) == len(column)
    return labels and cells.shape[1] > 1 and (label == "" or whole)


def _labels_rows(label: str) -> bool:
    """Whether a column of this name holds the names of rows: no name, a known one, or an id."""
    return label.lower() in LABELS or IDENTIFIER.fullmatch(label) is not None


def _find_header(cells: NDArray[Any], values: Floats, texts: NDArray[np.bool_]) -> tuple[bool, str]:
    """Whether the first row names columns, and a note where that is a guess.

    It does when it differs in kind from the rows below it.
    """
    if len(cells) == 1:
        return bool(texts.all()), ""
    if texts[1:].any():
        return _words_are_names(cells[: SAMPLE + 1], values[0]), ""
    with np.errstate(over="ignore", invalid="ignore"):
        return _numbers_are_names(cells, np.where(np.isfinite(values), values, np.nan), texts[0])


def _words_are_names(cells: NDArray[Any], heads: Floats) -> bool:
    first, below = cells[0], cells[1:].T
    fractions = any(not cell.isdecimal() for cell in first[~np.isnan(heads)])  # 0.5 is no name
    return (
        not fractions
        and mostly_text(first)
        and (_labels_rows(first[0]) or any(map(_differs, first, below)))
    )


def _differs(cell: str, below: Row) -> bool:
    """Whether a cell is a word above a column of numbers, however these are written."""
    if _number(cell) is not None:
        return False
    return not mostly_text(below) or (not _plain(cell) and written_otherwise(below))


def _numbers_are_names(cells: NDArray[Any], values: Floats, is_word: bool) -> tuple[bool, str]:
    """Judge a first row of numbers, such as years, after a word or an empty cell or not."""
    start = int(is_word or cells[0, 0] == "")
    label, rows, first = cells[0, 0], cells[1:, 0], cells[0, start:]
    heads, below = values[0, start:], values[1:, start:]
    counted, whole = _counts_up(first), all(map(str.isdecimal, first))
    if start:
        if (label and not len(first)) or (label and _labels_rows(label)):
            return True, ""
        if counted and _counts_up(rows[:SAMPLE]):  # pandas' own numbers on both sides
            return True, ""
        apart = mostly_text(rows[:SAMPLE]) and label not in rows
        corner = label == "" and len(set(first)) == len(first)
        long = len(first) > (2 if counted else 3)
        sure = (apart and corner) or (long and _alone_climbs_evenly(heads, below[:SAMPLE]))
    else:
        apart = whole and len(rows) > 1
        sure = counted and first[0] == "0" and len(first) > 3
    increases = len(first) > 1 and bool((np.diff(heads) > 0).all())
    far = _is_far(heads, below)
    # whole numbers, above rows that each have a fraction
    unlike = whole and len(first) > 2 and bool((below[:SAMPLE] % 1.0 > 0.0).any(axis=1).all())
    if sure or (apart and increases and (far or unlike)):
        return True, AS_NAMES
    return False, AS_DATA if (whole and far) or (start and apart and increases) else ""


def _alone_climbs_evenly(heads: Floats, below: Floats) -> bool:
    """Whether numbers climb in even steps, as names do, and most rows below do not."""
    steps = np.diff(np.vstack([heads, below]))
    even = ((steps > 0) & np.isclose(steps, steps[:, :1], rtol=1e-6, atol=0.0)).all(axis=1)
    return bool(even[0]) and 2 * np.count_nonzero(even[1:]) < len(below)


def _is_far(heads: Floats, below: Floats) -> bool:
    """Whether every number is many widths of the data away from the data."""
    low, high = np.fmin.reduce(below, axis=None), np.fmax.reduce(below, axis=None)
    return bool((np.maximum(low - heads, heads - high) > FAR * np.maximum(high - low, 1.0)).all())


def _counts_up(cells: Row) -> bool:
    """Whether the cells are consecutive whole numbers, as columns without names are written."""
    return all(map(str.isdecimal, cells)) and all(
        int(b) == int(a) + 1 for a, b in itertools.pairwise(cells)
    )
