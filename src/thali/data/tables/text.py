"""CSV and TSV: lines → cells → numbers, with the names in the first row and the first column.

Python's csv module splits the lines: the parser of pandas fills a short line up without a word, and
a half-written file must not pass. ``float`` reads the numbers: older versions of pandas round them.
"""

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = Sequence[str]
Floats = NDArray[np.float64]


class Sheet(NamedTuple):
    """All that a file holds, before columns are chosen."""

    columns: Sequence[Row | Floats]  # cells as they are written, or numbers
    names: list[str] | None  # of the columns
    row_label: Callable[[int], str]  # what a person calls a row
    notes: list[str]
    row_names: list[str] | None = None  # if they are no column
    typed: bool = False  # whether a column of cells is one of text, whatever is written there


def read_text(file: Path, delimiter: str, header: bool | None) -> Sheet:
    """Read a file; ``header`` says whether its first row names the columns, None to find out."""
    text, notes = _decode(file), []
    delimiter = _delimiter(text) if delimiter == "," else delimiter
    lines, rows = _split(file, text, delimiter)
    if delimiter == ";" and _decimal_commas(rows):
        rows = [[_with_point(cell) for cell in row] for row in rows]
        notes.append("decimal commas read as points")
    widths = set(map(len, rows[1:]))
    if widths == {len(rows[0]) + 1} and (_mostly_text(rows[0]) if header is None else header):
        rows[0], header = ["", *rows[0]], True  # R does not name the column of the row names
    _refuse_ragged(file, lines, rows)
    if len(rows[0]) > 1 and not any(row[-1] for row in rows):  # a delimiter ends each line
        rows = [row[:-1] for row in rows]
    if header is None:
        header, note = _find_header(rows[: SAMPLE + 1])
        notes += [note] * bool(note)
    names = None
    if header:
        names = [name or f"column_{j}" * (j > 1) for j, name in enumerate(rows[0], 1)]
        lines, rows = lines[1:], rows[1:]
    if not rows:
        raise ValueError(f"{file} holds a header and no rows; write the data again.")
    return Sheet(list(zip(*rows, strict=True)), names, lambda i: f"line {lines[i]}", notes)


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
    at, found = content.find(b"\0"), "a text file (a NUL byte"
    if at < 0:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            at, found = error.start, f"in UTF-8 (byte 0x{content[error.start]:02x}"
    line = content.count(b"\n", 0, at) + 1
    raise ValueError(f"{file} is not {found} in line {line}); save it again as {kind} in UTF-8.")


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


def _refuse_ragged(file: Path, lines: list[int], rows: Sequence[Row]) -> None:
    width = Counter(map(len, rows)).most_common(1)[0][0]
    for i in (i for i, row in enumerate(rows) if len(row) != width):
        found = f"{len(rows[i])} field" + "s" * (len(rows[i]) != 1)
        said = f"{found} where the other lines have {width}; correct that line."
        if i == len(rows) - 1 and len(rows[i]) < width:
            said = (
                f"the last line has {found} where the others have {width}, so the file looks "
                "half-written; write it again or delete that line."
            )
        raise ValueError(f"{file}, line {lines[i]}: {said}")


# ------------------------------------------------------------------------------ cells into numbers

MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "?")
WORDS = {**dict.fromkeys(MISSING, np.nan), "true": 1.0, "false": 0.0}
DRESS = str.maketrans("\u2212", "-", "$€£¥%'’ \u00a0\u202f")  # what people write about a number
DECIMAL_COMMA = re.compile(r"[-+\u2212]?\d*,\d+([eE][-+\u2212]?\d+)?")
THOUSANDS = re.compile(r"[-+\u2212]?[1-9]\d{0,2}(,\d{2,3})*,\d{3}(\.\d*)?")
DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ][\d:.+Z-]+)?")


def numbers(cells: Row | Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The numbers of some cells, NaN for the missing and for text, and which ones are text."""
    if isinstance(cells, np.ndarray):
        return cells, np.zeros(len(cells), dtype=bool)
    if "_" not in "".join(cells):
        with suppress(ValueError):
            return np.array(list(map(float, cells))), np.zeros(len(cells), dtype=bool)
    found = [_number(cell) for cell in cells]
    return np.array(found, dtype=np.float64), np.array([value is None for value in found])


def _number(cell: str) -> float | None:
    """A cell as a number, NaN if it is missing, None if it is text."""
    known = WORDS.get(cell.lower())
    if known is not None or "_" in cell:  # Python reads 1_000; data files do not mean it
        return known
    with suppress(ValueError):
        return float(cell.replace("\u2212", "-"))  # the minus sign of typesetters
    return None


def _mostly_text(cells: Row) -> bool:
    """Whether at least half of the cells that are there are no numbers."""
    values, texts = numbers(cells)
    return 0 < int((texts | ~np.isnan(values)).sum()) <= 2 * int(texts.sum())


def _written_otherwise(cells: Row) -> bool:
    """Whether a column that is mostly text is mostly numbers in another dress, such as $0.88."""
    there = [cell for cell in cells if cell.lower() not in MISSING]
    return _mostly_text(cells) and 2 * sum(plain_number(cell) != "" for cell in there) > len(there)


def means_numbers(cells: Row) -> bool:
    """Whether at least half of the cells that are there are numbers, in whatever dress.

    >>> [means_numbers(cells) for cells in (["1", "2", "", "five"], ["$1", "€2"], ["S", "2X"])]
    [True, True, False]
    """
    there = [cell for cell in cells if cell.lower() not in MISSING]
    return len(there) <= 2 * sum(
        _number(cell) is not None or plain_number(cell) != "" for cell in there
    )


def are_dates(cells: Iterable[object]) -> bool:
    """Whether all that is there is text such as 2026-11-18, 18.11.2026 or 2026-11-18 19:30.

    >>> are_dates(["2026-11-18", "1/2/2026"]), are_dates(["2026-11-18", "later"]), are_dates([])
    (True, False, False)
    """
    own = list(cells)
    return bool(own) and all(isinstance(cell, str) and DATE.fullmatch(cell) for cell in own)


def plain_number(cell: str) -> str:
    """The number that a cell means, written plainly; nothing if it means none.

    >>> [plain_number(cell) for cell in ("$0.88", "10 %", "1,234", "2,5", "0x10", "1a")]
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
    commas = [cell for row in rows for cell in row if "," in cell and plain_number(cell)]
    points = (cell for row in rows for cell in row if "." in cell)
    return (
        all(map(DECIMAL_COMMA.fullmatch, commas))
        and not all(map(THOUSANDS.fullmatch, commas))
        and all(_number(cell) is None for cell in points)
    )


def _with_point(cell: str) -> str:
    """A number with a decimal comma, written with a point; any other cell as it is."""
    return cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell


def refusal(where: str, cell: str) -> str:
    """The sentence about a cell that is not a number, with what to do."""
    meant, advice = plain_number(cell), "correct it, or choose columns of numbers with --columns"
    if meant and not DECIMAL_COMMA.fullmatch(cell):
        advice = f"write it plainly ({meant}), or choose other columns with --columns"
    elif meant and THOUSANDS.fullmatch(cell):
        advice = f"write it without the comma ({meant}) or with a point ({_with_point(cell)})"
    elif meant:
        advice = f"write it with a point ({meant})"
    shown = cell if len(cell) <= 40 else cell[:40] + "…"
    return f"{where}: {shown!r} is not a number; {advice}."


# ----------------------------------------------------------------------------------- names or data

# a first column with one of these names holds row names even when they are whole numbers
LABELS = frozenset({"", "index", "name", "names", "row", "rowname", "row_name", "rownames"})
IDENTIFIER = re.compile(r"(.*[ _.-])?[iI][dD]|.*[a-z]I[dD]", re.DOTALL)  # user_id, userId
SAMPLE = 1000  # rows looked at to see what the first one is
FAR = 10.0  # numbers so many widths of the data away from them are far
AS_NAMES = "first row read as names of columns (--no-header reads it as data)"
AS_DATA = "first row read as data (--header reads it as names of columns)"


def names_rows(sheet: Sheet, wanted: Row | None) -> bool:
    """Whether the first column names the rows."""
    column, label = sheet.columns[0], sheet.names[0] if sheet.names else "1"
    if isinstance(column, np.ndarray) or label in (wanted or ()):
        return False
    labels = sheet.names is not None and _labels_rows(label)
    if sheet.typed or _mostly_text(column):
        return wanted is not None or labels or not _written_otherwise(column)
    whole = all(map(str.isdecimal, column)) and len(set(column)) == len(column)
    return labels and len(sheet.columns) > 1 and (label == "" or whole)


def _labels_rows(label: str) -> bool:
    """Whether a column of this name holds the names of rows: no name, a known one, or an id."""
    return label.lower() in LABELS or IDENTIFIER.fullmatch(label) is not None


def _find_header(rows: Sequence[Row]) -> tuple[bool, str]:
    """Whether the first row names columns, and a note where that is a guess.

    It does when it differs in kind from the rows below it.
    """
    first, below = rows[0], list(zip(*rows[1:], strict=True))
    values, texts = numbers(first)
    if not below:
        return bool(texts.all()), ""
    if not texts[1:].any():
        return _numbers_are_names(rows, start=int(texts[0] or first[0] == ""))
    if not _mostly_text(first) or not all(map(str.isdecimal, np.array(first)[~np.isnan(values)])):
        return False, ""  # 0.5 is no name
    return _labels_rows(first[0]) or any(map(_differs, first, below)), ""


def _differs(cell: str, below: Row) -> bool:
    """Whether a cell is a word above a column of numbers, however these are written."""
    if _number(cell) is not None:
        return False
    return not _mostly_text(below) or (not plain_number(cell) and _written_otherwise(below))


def _numbers_are_names(rows: Sequence[Row], start: int) -> tuple[bool, str]:
    """Whether numbers, such as years, after ``start`` words or empty cells are names of columns."""
    label, labels, first = rows[0][0], [row[0] for row in rows[1:]], rows[0][start:]
    counted, whole = _counts_up(first), all(map(str.isdecimal, first))
    if start and label and (not first or _labels_rows(label)):
        return True, ""
    if start and counted and _counts_up(labels):  # pandas' own numbers on both sides
        return True, ""
    values = np.array([numbers(row[start:])[0] for row in rows])
    values[np.isinf(values)] = np.nan
    increases, evenly, outside, far = _compare(values)
    evenly = evenly and len(first) > (2 if counted else 3)
    if start:
        apart = _mostly_text(labels) and label not in labels
        sure = evenly or (apart and label == "" and len(set(first)) == len(first))
        odd = outside or len(labels) > 2
    else:
        apart = whole and len(labels) > 1
        sure = counted and label == "0" and len(first) > 3
        odd = outside or (evenly and len(first) > 3)
    # whole numbers over rows with a fraction each
    odd = odd and whole and len(first) > 2 and bool((values[1:] % 1.0 > 0.0).any(axis=1).all())
    if sure or (apart and increases and (far or odd)):
        return True, AS_NAMES
    return False, AS_DATA if (whole and far) or (start and apart and increases) else ""


def _compare(values: Floats) -> tuple[bool, bool, bool, bool]:
    """How the numbers of the first row differ from those below.

    Whether they increase; do so in even steps, as most rows below do not; are outside the range of
    each column; and are many widths of all the data away from them.
    """
    heads, below = values[0], values[1:]
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(values)
        close = np.isclose(steps, steps[:, :1], rtol=1e-6, atol=0.0) & (steps > 0)
        even = np.all(close, axis=1)
        low, high = np.fmin.reduce(below), np.fmax.reduce(below)
        least, most = np.fmin.reduce(low), np.fmax.reduce(high)
        gaps = np.maximum(least - heads, heads - most)
        return (
            len(heads) > 1 and bool((steps[0] > 0).all()),
            bool(even[0]) and 2 * int(even[1:].sum()) < len(below),
            bool(((heads < low) | (heads > high)).all()),
            bool((gaps > FAR * max(most - least, 1.0)).all()),
        )


def _counts_up(cells: Row) -> bool:
    """Whether the cells are consecutive whole numbers, as columns without names are written."""
    return all(map(str.isdecimal, cells)) and all(
        int(b) == int(a) + 1 for a, b in itertools.pairwise(cells)
    )
