"""Read a data file as a matrix: path → (X, names of its columns, names of its rows).

X is N×D, float64, C-ordered; a missing entry is NaN. What cannot be read stops here, in one
sentence: what, where, what to do.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.sparse import is_sparse

from .arrays import read_npy, read_npz, read_parquet
from .text import Sheet, read_text

__all__ = ["Table", "check_file", "read_table"]

DELIMITERS = {".csv": ",", ".tsv": "\t"}


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


def read_table(
    path: str | os.PathLike[str],
    *,
    transpose: bool = False,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
) -> Table:
    """Read a .csv, .tsv, .npy, .npz or .parquet file.

    Parameters
    ----------
    path : path
        The file. An array inside an .npz is named as ``file.npz:name``. A sparse matrix is one
        saved by ``scipy.sparse.save_npz``, or the arrays name_data, name_indices, name_indptr and
        name_shape; its values stay sparse.
    transpose : bool
        Exchange rows and columns after reading.
    columns : sequence of str, optional
        Columns of the file to keep, by name, or by number from 1 when the file names none.
    header : bool, optional
        Whether the first row of a .csv or .tsv names the columns; found out if not given.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "plates.csv"
    >>> _ = file.write_text("plate,rice,dal\\nMonday,1,0.5\\nTuesday,,2\\n")
    >>> table = read_table(file)
    >>> table.column_names, table.row_names
    (['rice', 'dal'], ['Monday', 'Tuesday'])
    >>> table.values
    array([[1. , 0.5],
           [nan, 2. ]])
    """
    name, file, member = os.fspath(path), Path(path), None
    if ".npz:" in name and not file.exists():
        name, member = name.rsplit(":", 1)
        file = Path(name)
    check_file(file)
    sheet = _read(file, member, columns, header)
    chosen = _choose_columns(file, sheet, columns)
    for fault in (sheet.faults[c] for c in chosen if c in sheet.faults):
        raise ValueError(fault)
    values, rows = sheet.values[:, chosen], sheet.row_names
    names = [sheet.names[c] for c in chosen] if sheet.names is not None else None
    if 0 in values.shape:
        n, d = values.shape
        raise ValueError(f"{file} holds no data: {n} rows and {d} columns of numbers.")
    if transpose:
        _refuse_repeats(file, rows or (), "row name", " (transposing makes it a column name.)")
        values, names, rows = values.T, rows, names
    if is_sparse(values):
        values, sparse = values.tocsr(), (f"sparse, {values.nnz:,} entries",)
        return Table(values, names, rows, sparse)
    return Table(np.ascontiguousarray(values), names, rows, tuple(sheet.notes))


def _read(
    file: Path, member: str | None, columns: Sequence[str] | None, header: bool | None
) -> Sheet:
    suffix = file.suffix.lower()
    if suffix in DELIMITERS:
        return read_text(file, DELIMITERS[suffix], columns, header)
    if suffix not in (".npy", ".npz", ".parquet"):
        raise ValueError(
            f"{file} ends in {suffix or 'nothing'!r}; thali reads .csv, .tsv, .npy, .npz and "
            ".parquet: convert or rename the file."
        )
    if header is not None:
        raise ValueError(f"{file}: only a .csv or .tsv file can be said to have a header, or none.")
    if suffix == ".parquet":
        return read_parquet(file, columns)
    values = read_npy(file) if suffix == ".npy" else read_npz(file, member)
    return Sheet(values, None, None, 0, [], {})


def check_file(file: Path, what: str = "a data file") -> None:
    """Refuse a file that cannot be opened, or is empty."""
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; give {what}.")
    if not file.exists():
        others = os.listdir(file.parent) if file.parent.is_dir() else []
        near = difflib.get_close_matches(file.name, others, n=1)
        hint = f"did you mean {file.parent / near[0]}?" if near else "check the path."
        raise FileNotFoundError(f"there is no file {file}; {hint}")
    try:
        with file.open("rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        raise type(error)(
            f"{file} cannot be read ({error.strerror}); check who may read it."
        ) from None
    if empty:
        raise ValueError(f"{file} is empty (0 bytes); write it again.")


def _choose_columns(file: Path, sheet: Sheet, columns: Sequence[str] | None) -> list[int]:
    """The positions of the wanted columns, or of all but the row names."""
    width = sheet.values.shape[1]
    if columns is None:
        _refuse_repeats(file, (sheet.names or [])[sheet.skip :])
        return list(range(sheet.skip, width))
    if len(columns) == 0:
        raise ValueError("no columns are chosen; name at least one.")
    _refuse_repeats("the choice of columns", columns)
    names = sheet.names if sheet.names is not None else [str(j + 1) for j in range(width)]
    for name in columns:
        if name not in names and sheet.names is None:
            hint = f": it has no header, so its columns are numbered 1 to {width}."
            raise ValueError(f"{file} has no column {name!r}{hint}")
        if name not in names:
            raise ValueError(f"{file} has no column {name!r}; {_nearest(name, names)}")
    _refuse_repeats(file, [name for name in names if name in columns])
    return [names.index(name) for name in columns]


def _nearest(name: str, names: Sequence[str]) -> str:
    lower = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), lower, n=3)
    if near:
        return f"did you mean {' or '.join(repr(lower[other]) for other in near)}?"
    return f"it has {', '.join(map(repr, names[:10]))}{', …' * (len(names) > 10)}."


def _refuse_repeats(
    where: object, names: Sequence[str], what: str = "column name", why: str = ""
) -> None:
    name, count = next(iter(Counter(names).most_common(1)), ("", 1))
    if count > 1:
        at = [i for i, other in enumerate(names, 1) if other == name]
        raise ValueError(
            f"{where}: the {what} {name!r} appears {count} times (at {at[0]} and {at[1]}); "
            f"give every one its own name.{why}"
        )
