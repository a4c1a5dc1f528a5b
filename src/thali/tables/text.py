"""CSV and TSV: lines of text → numbers, with the names in the first row and the first column.

The standard library splits the lines, so that a bad cell can be named by line and column. The first
row is a header when it differs in kind from the rows below it; the first column names the rows when
it is text or has no name.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thali.tables.table import Table, choose_columns

__all__ = ["numbers", "read_text"]

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "?"})
TRUTH = {"true": 1.0, "false": 0.0}
# a first column with one of these names holds row names even when they are whole numbers
LABELS = frozenset({"id", "index", "name", "names", "row", "rowname", "row_name", "rownames"})
MAGIC = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "a NumPy file",
    b"PAR1": "a Parquet file",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF document",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def read_text(file: Path, delimiter: str, columns: Sequence[str] | None) -> Table:
    text = _decode(file)
    if delimiter == ",":
        delimiter = _delimiter(text)
    lines, rows = _split(file, text, delimiter)
    if not rows:
        raise ValueError(f"{file} holds only blank lines; write the data again.")
    names = _take_header(file, lines, rows)
    if not rows:
        raise ValueError(f"{file} holds a header and no rows; write the data again.")
    body = list(zip(*rows, strict=True))
    skip = int(_names_rows(body, names, columns))
    chosen = choose_columns(file, names, len(body), columns, skip)
    if not chosen:
        raise ValueError(f"{file} holds one column, of text; a table needs numbers.")
    values = np.empty((len(rows), len(chosen)))
    for j, c in enumerate(chosen):
        label = f"column {names[c]!r}" if names is not None else f"column {c + 1}"
        values[:, j] = numbers(body[c], label, lambda i: f"{file}, line {lines[i]}")
    return Table(
        values,
        None if names is None else [names[c] for c in chosen],
        list(body[0]) if skip else None,
    )


def _delimiter(text: str) -> str:
    """The delimiter of a .csv: in much of Europe it is a semicolon, and some are tabbed."""
    lines = [line for line in text[:100_000].splitlines() if line.strip()][:2] or [""]
    if lines[0].count(";") == lines[-1].count(";") > 0:
        return ";"
    return "\t" if "\t" in lines[0] and "," not in lines[0] else ","


def _decode(file: Path) -> str:
    """Return the text of a file, or say what the bytes are instead."""
    content = file.read_bytes()
    for magic, kind in MAGIC.items():
        if content.startswith(magic):
            raise ValueError(
                f"{file} is {kind}, not a {file.suffix[1:].upper()} file in UTF-8; save it as one."
            )
    at = content.find(b"\0")
    if at >= 0:
        line = content.count(b"\n", 0, at) + 1
        raise ValueError(
            f"{file} is not a text file (a NUL byte in line {line}); save the table again as "
            f"{file.suffix[1:].upper()}."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file} is not in UTF-8 (byte 0x{content[error.start]:02x} in line {line}); "
            "save it again with that encoding."
        ) from None


def _split(file: Path, text: str, delimiter: str) -> tuple[list[int], list[list[str]]]:
    """Split text into rows of stripped cells, blank lines left out, with their line numbers."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    lines, rows = [], []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if len(cells) > 1 or (cells and cells[0]):
                lines.append(reader.line_num)
                rows.append(cells)
    except csv.Error as error:
        why = "a quote is never closed" if "end of data" in str(error) else str(error)
        raise ValueError(
            f"{file}, line {reader.line_num}: {why}; the file may be half-written, "
            "so write it again or correct that line."
        ) from None
    return lines, rows


def _take_header(file: Path, lines: list[int], rows: list[list[str]]) -> list[str] | None:
    """Check that rows are equally long, and remove the header from ``rows`` and ``lines``."""
    widths = Counter(map(len, rows[1:])) or Counter([len(rows[0])])
    width = widths.most_common(1)[0][0]
    short = len(rows[0]) == width - 1 and len(widths) == 1 and _mostly_text(rows[0])
    if short:  # R's write.table: the header names every column but that of the row names
        rows[0] = ["", *rows[0]]
    _refuse_ragged(file, lines, rows)
    if len(rows[0]) > 1 and all(row[-1] == "" for row in rows):  # a delimiter ends each line
        for row in rows:
            row.pop()
    if not (short or _is_header(rows[0], rows[1:201])):
        return None
    del lines[0]
    names = rows.pop(0)
    unnamed = {j for j in range(1, len(names)) if names[j] == ""}
    return [f"column_{j + 1}" if j in unnamed else name for j, name in enumerate(names)]


def _refuse_ragged(file: Path, lines: list[int], rows: list[list[str]]) -> None:
    width = Counter(map(len, rows)).most_common(1)[0][0]
    for i, row in enumerate(rows):
        if len(row) == width:
            continue
        fields = f"{len(row)} field" + ("s" if len(row) != 1 else "")
        if i == len(rows) - 1 and len(row) < width:
            raise ValueError(
                f"{file}, line {lines[i]}: the last line has {fields} where the others have "
                f"{width}, so the file looks half-written; write it again or delete that line."
            )
        raise ValueError(
            f"{file}, line {lines[i]}: {fields} where the other lines have {width}; "
            "correct that line."
        )


def _is_header(first: list[str], body: list[list[str]]) -> bool:
    """Decide whether the first row names columns, by how it differs from the rows below it."""
    texts = [_is_text(cell) for cell in first]
    if not body:
        return all(texts)
    if not any(texts[1:]):  # numbers, or one word and numbers: names only if they count up
        tail = first[1:]
        if texts[0] or first[0] == "":
            labelled = texts[0] and (not tail or first[0].lower() in LABELS)
            numbered = len(tail) > 2 or _counts_up([row[0] for row in body])
            return labelled or (numbered and _counts_up(tail))
        return len(first) > 3 and first[0] == "0" and _counts_up(first)
    filled = [cell for cell in first if cell.lower() not in MISSING]
    if any(not _is_text(cell) and not cell.isdecimal() for cell in filled):
        return False  # 0.5 is no name
    below = list(zip(*body, strict=True))
    differs = any(text and not _mostly_text(below[j]) for j, text in enumerate(texts))
    return 2 * sum(texts) >= len(filled) and (differs or first[0].lower() in {"", *LABELS})


def _names_rows(
    body: list[tuple[str, ...]], names: list[str] | None, columns: Sequence[str] | None
) -> bool:
    """Decide whether the first column names the rows."""
    if columns is not None and (names[0] if names is not None else "1") in columns:
        return False
    if _mostly_text(body[0]):
        return True
    if names is None or len(body) == 1:
        return False
    if names[0] == "":
        return True
    distinct = len(set(body[0])) == len(body[0])
    return names[0].lower() in LABELS and distinct and all(cell.isdecimal() for cell in body[0])


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether the cells are consecutive whole numbers, as columns without names are written."""
    return all(c.isdecimal() for c in cells) and all(
        int(b) == int(a) + 1 for a, b in itertools.pairwise(cells)
    )


def _is_text(cell: str) -> bool:
    return _number(cell) is None


def _mostly_text(cells: Sequence[str]) -> bool:
    """Whether at least half of the cells that are there are no numbers."""
    there = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(there) and 2 * sum(map(_is_text, there)) >= len(there)


def _number(cell: str) -> float | None:
    """Return a cell as a number, NaN if it is missing, None if it is text."""
    low = cell.lower()
    if low in MISSING:
        return np.nan
    if low in TRUTH:
        return TRUTH[low]
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000; data files do not mean it
    except ValueError:
        return None


def numbers(cells: Sequence[str], column: str, place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return a column of cells as floats; text is refused with its place."""
    if "_" not in "".join(cells):
        try:
            return np.array(list(map(float, cells)))
        except ValueError:
            pass
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        number = _number(cell)
        if number is None:
            shown = cell if len(cell) <= 40 else cell[:40] + "…"
            plain = cell.replace(",", ".", 1) if cell.count(",") == 1 else ""
            advice = (
                f"write it with a point ({plain})"
                if plain and not _is_text(plain)
                else "correct it, or choose columns of numbers with --columns"
            )
            raise ValueError(f"{place(i)}, {column}: {shown!r} is not a number; {advice}.")
        values[i] = number
    return values
