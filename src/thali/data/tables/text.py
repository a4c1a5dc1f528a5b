"""CSV and TSV: lines of text → numbers, with the names in the first row and the first column.

The standard library splits the lines, so that a bad cell can be named by line and column. What is a
number is decided in ``cells``, what are names in ``header``.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from thali.data.tables.cells import decimal_commas, mostly_text, numbers, with_point
from thali.data.tables.header import find_header, names_rows
from thali.data.tables.table import Table, choose_columns, row_names_from

__all__ = ["read_text"]

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


def read_text(
    file: Path, delimiter: str, columns: Sequence[str] | None, header: bool | None = None
) -> Table:
    """Read a file; ``header`` says whether its first row names the columns, None to find out."""
    text = _decode(file)
    if delimiter == ",":
        delimiter = _delimiter(text)
    lines, rows = _split(file, text, delimiter)
    if not rows:
        raise ValueError(f"{file} holds only blank lines; write the data again.")
    notes = []
    if delimiter == ";" and decimal_commas(rows):
        rows = [[with_point(cell) for cell in row] for row in rows]
        notes.append("decimal commas read as points")
    names, note = _take_header(file, lines, rows, header)
    notes.append(note)
    if not rows:
        raise ValueError(f"{file} holds a header and no rows; write the data again.")
    body = list(zip(*rows, strict=True))
    skip = int(names_rows(body, names, columns))
    if skip:
        notes.append(row_names_from(None if names is None else names[0]))
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
        tuple(filter(None, notes)),
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


def _take_header(
    file: Path, lines: list[int], rows: list[list[str]], header: bool | None
) -> tuple[list[str] | None, str]:
    """Check that rows are equally long, and remove the header from ``rows`` and ``lines``.

    Returns the names of the columns, and a note where the header was a guess.
    """
    widths = Counter(map(len, rows[1:])) or Counter([len(rows[0])])
    width = widths.most_common(1)[0][0]
    may_be_short = mostly_text(rows[0]) if header is None else header
    short = len(rows[0]) == width - 1 and len(widths) == 1 and may_be_short
    if short:  # R's write.table: the header names every column but that of the row names
        rows[0] = ["", *rows[0]]
    _refuse_ragged(file, lines, rows)
    if len(rows[0]) > 1 and all(row[-1] == "" for row in rows):  # a delimiter ends each line
        for row in rows:
            row.pop()
    note = ""
    if header is None:
        header, note = (True, "") if short else find_header(rows[0], rows[1:])
    if not header:
        return None, note
    del lines[0]
    names = rows.pop(0)
    unnamed = {j for j in range(1, len(names)) if names[j] == ""}
    return [f"column_{j + 1}" if j in unnamed else name for j, name in enumerate(names)], note


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
