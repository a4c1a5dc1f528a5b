"""Read a data file as a matrix: path → (X, names of its columns, names of its rows).

X is N×D, float64, C-ordered; a missing entry is NaN. What cannot be read stops here, in one
sentence: what, where, what to do.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thali.data.sparse import is_sparse
from thali.data.tables.arrays import read_npy, read_npz
from thali.data.tables.arrow import read_parquet
from thali.data.tables.table import Table, refuse_repeats
from thali.data.tables.text import read_text

__all__ = ["Table", "check_file", "read_table"]


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
    suffix = file.suffix.lower()
    readers: dict[str, Callable[[], Table]] = {
        ".csv": lambda: read_text(file, ",", columns, header),
        ".tsv": lambda: read_text(file, "\t", columns, header),
        ".npy": lambda: read_npy(file, columns),
        ".npz": lambda: read_npz(file, member, columns),
        ".parquet": lambda: read_parquet(file, columns),
    }
    check_file(file)
    if suffix not in readers:
        raise ValueError(
            f"{file} ends in {suffix or 'nothing'!r}; thali reads .csv, .tsv, .npy, .npz and "
            ".parquet: convert or rename the file."
        )
    if header is not None and suffix not in {".csv", ".tsv"}:
        raise ValueError(f"{file}: only a .csv or .tsv file can be said to have a header, or none.")
    table = readers[suffix]()
    if 0 in table.values.shape:
        n, d = table.values.shape
        raise ValueError(f"{file} holds no data: {n} rows and {d} columns of numbers.")
    return _transposed(file, table) if transpose else table


def check_file(file: Path, what: str = "a data file") -> None:
    """Refuse a file that cannot be opened, or is empty."""
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; give {what}.")
    if not file.exists():
        folder = file.parent if file.parent.is_dir() else None
        near = difflib.get_close_matches(file.name, os.listdir(folder) if folder else [], n=1)
        hint = f"; did you mean {file.parent / near[0]}?" if near else "; check the path."
        raise FileNotFoundError(f"there is no file {file}{hint}")
    try:
        with file.open("rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        raise type(error)(
            f"{file} cannot be read ({error.strerror}); check who may read it."
        ) from None
    if empty:
        raise ValueError(f"{file} is empty (0 bytes); write it again.")


def _transposed(file: Path, table: Table) -> Table:
    if table.row_names is not None:
        try:
            refuse_repeats(file, table.row_names, "row name")
        except ValueError as error:
            raise ValueError(f"{error} (transposing turns row names into column names.)") from None
    values: Any = table.values.T
    values = values.tocsr() if is_sparse(values) else np.ascontiguousarray(values)
    return Table(values, table.row_names, table.column_names, table.notes)
