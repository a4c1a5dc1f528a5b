"""Read a data file as a table whose columns keep what they hold: numbers, truth values, text.

What is read of a .csv is what is written there: a column is of numbers if all its cells are, of
truth values if all are true or false, else of text. The first row names the columns, unless a cell
of it is a number. What is missing is None or NaN.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from . import DELIMITERS, _choose_columns, check_file, read_table
from .text import MISSING, _labels_rows, are_dates, means_numbers, numbers, read_text, refusal

TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Frame:
    """A data frame, and what was decided in reading it."""

    X: pd.DataFrame
    notes: tuple[str, ...] = ()


def read_frame(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    declared: Container[str] = (),
) -> Frame:
    """Read a .csv, .tsv, .parquet, .npy or .npz file.

    Text that is dates is refused, but in columns whose kind was ``declared``.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "plates.csv"
    >>> _ = file.write_text("day,rice,spoons,dish\\nMon,1.5,2,dal\\nTue,,3,roti\\nWed,2,2,dal\\n")
    >>> read_frame(file).X
         rice  spoons  dish
    Mon   1.5       2   dal
    Tue   NaN       3  roti
    Wed   2.0       2   dal
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix in DELIMITERS:
        check_file(file)
        return _of_text(file, columns, header, declared)
    if header is not None:
        raise ValueError(f"{file}: only a .csv or .tsv file can be said to have a header, or none.")
    if suffix == ".parquet":
        check_file(file)
        return _of_parquet(file, columns)
    table = read_table(path, columns=columns)
    if not isinstance(table.values, np.ndarray):
        raise ValueError(
            f"{path} is a sparse matrix, whose columns are all numbers; make it dense."
        )
    return Frame(pd.DataFrame(table.values), table.notes)


def _of_text(
    file: Path, columns: Sequence[str] | None, header: bool | None, declared: Container[str]
) -> Frame:
    if header is None:
        first = [column[0] for column in read_text(file, DELIMITERS[file.suffix.lower()], False)[0]]
        values, texts = numbers(first)
        header = bool((texts | np.isnan(values)).all())
    sheet = read_text(file, DELIMITERS[file.suffix.lower()], header)
    names, notes = sheet.names, list(sheet.notes)
    own = [_values(column) for column in sheet.columns]
    skip = _names_rows(own[0], names[0] if names else None, len(own), columns)
    rows = None
    if skip:
        rows = pd.Index([str(cell) for cell in sheet.columns[0]])
        label = repr(names[0]) if names and names[0] else "1"
        notes.append(f"row names from column {label} (--columns chooses others)")
    chosen = _choose_columns(file, names, len(own), columns, int(skip))
    X = pd.DataFrame({j: own[c] for j, c in enumerate(chosen)})
    X.columns = pd.Index([names[c] if names else f"column_{c + 1}" for c in chosen])
    for j, name in enumerate(X.columns):
        if name not in declared and are_dates(X.iloc[:, j].dropna()):
            raise ValueError(
                f"{file}: column {name!r} holds dates or times; write them as numbers, such as "
                "days since the first, or choose other columns with --columns."
            )
        if name not in declared and (i := _no_number(sheet.columns[chosen[j]])) is not None:
            where = f"{file}, {sheet.row_label(i)}, column {name!r}"
            said = refusal(where, str(sheet.columns[chosen[j]][i])).removesuffix(".")
            raise ValueError(f"{said}, or declare the column with --types if it is text.")
    return Frame(X if rows is None else X.set_axis(rows), tuple(notes))


def _names_rows(
    first: pd.Series, label: str | None, width: int, columns: Sequence[str] | None
) -> bool:
    """Whether the first column names the rows: no two of them alike, none missing, and text, or
    under a name that says so."""
    if width < 2 or (columns is not None and label in columns):
        return False
    different = bool(first.notna().all()) and first.is_unique
    text = not pd.api.types.is_numeric_dtype(first) and len(first) > 2
    return different and (text or (label is not None and _labels_rows(label)))


def _no_number(cells: Sequence[str] | np.ndarray) -> int | None:
    """The first cell that is text in a column that is meant to be of numbers, if there is one."""
    if isinstance(cells, np.ndarray) or not (texts := numbers(cells)[1]).any():
        return None
    return int(texts.argmax()) if means_numbers(cells) else None


def _values(cells: Sequence[str] | np.ndarray) -> pd.Series:
    """A column in the type of what is written in it."""
    texts = [str(cell) for cell in cells]
    missing = np.array([cell.lower() in MISSING for cell in texts])
    there = {cell.lower() for cell, gone in zip(texts, missing, strict=True) if not gone}
    if there and there <= set(TRUTH):
        found = [None if gone else TRUTH[c.lower()] for c, gone in zip(texts, missing, strict=True)]
        return pd.Series(found, dtype="boolean" if missing.any() else bool)
    values, words = numbers(texts)
    if words.any():
        return pd.Series([None if gone else c for c, gone in zip(texts, missing, strict=True)])
    whole = bool(there) and all(cell.lstrip("+-\u2212").isdecimal() for cell in there)
    if whole and np.nanmax(np.abs(values)) < 2.0**53:
        return pd.Series(values).astype("Int64" if missing.any() else "int64")
    return pd.Series(values)


def _of_parquet(file: Path, columns: Sequence[str] | None) -> Frame:
    try:
        X = pd.read_parquet(file)
    except ImportError:
        raise ValueError(
            f"{file}: reading Parquet needs pyarrow; install it with: pip install 'thali[parquet]'"
        ) from None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{file} is not a Parquet file, or a half-written one ({error}); write it again."
        ) from None
    chosen = _choose_columns(file, list(map(str, X.columns)), X.shape[1], columns)
    return Frame(X.iloc[:, chosen])
