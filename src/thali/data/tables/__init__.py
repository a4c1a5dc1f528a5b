"""Read a data file as a matrix: path → (X, names of its columns, names of its rows).

X is N×D, float64, C-ordered; a missing entry is NaN. What cannot be read stops here, in one
sentence: what, where, what to do.
"""

import difflib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from thali.data.sparse import is_sparse

from .arrays import read_npy, read_npz, read_parquet
from .text import Sheet, names_rows, numbers, read_text, refusal

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

    values: np.ndarray | csr_array
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
    suffix = file.suffix.lower()
    if suffix not in (*DELIMITERS, ".npy", ".npz", ".parquet"):
        raise ValueError(
            f"{file} ends in {suffix or 'nothing'!r}; thali reads .csv, .tsv, .npy, .npz and "
            ".parquet: convert or rename the file."
        )
    if header is not None and suffix not in DELIMITERS:
        raise ValueError(f"{file}: only a .csv or .tsv file can be said to have a header, or none.")
    if suffix in DELIMITERS:
        table = _from_sheet(file, read_text(file, DELIMITERS[suffix], header), columns)
    elif suffix == ".parquet":
        table = _from_sheet(file, read_parquet(file), columns)
    else:
        values: csr_array = read_npy(file) if suffix == ".npy" else read_npz(file, member)
        if columns is not None:
            values = values[:, _choose_columns(file, None, values.shape[1], columns)]
        notes = (f"sparse, {values.nnz:,} entries",) if is_sparse(values) else ()
        table = Table(values, None, None, notes)
    n, d = table.values.shape
    if n * d == 0:
        raise ValueError(f"{file} holds no data: {n} rows and {d} columns of numbers.")
    return _transposed(file, table) if transpose else table


def _from_sheet(file: Path, sheet: Sheet, columns: Sequence[str] | None) -> Table:
    """Turn the chosen columns into numbers, after the names of the rows are taken out."""
    rows, names, notes = sheet.row_names, sheet.names, sheet.notes
    skip = rows is None and len(sheet.columns) > 0 and names_rows(sheet, columns)
    if skip and len(sheet.columns) == 1:
        raise ValueError(f"{file} holds one column, of text; a table needs numbers.")
    if skip:
        rows = list(map(str, sheet.columns[0]))
        label = f"column {names[0]!r}" if names and names[0] else "the first column"
        notes = [*notes, f"row names from {label}"]
    chosen = _choose_columns(file, names, len(sheet.columns), columns, int(skip))
    values = np.empty((max(map(len, sheet.columns), default=0), len(chosen)))
    for j, c in enumerate(chosen):
        values[:, j], texts = numbers(sheet.columns[c])
        if texts.any():
            i, name = int(texts.argmax()), repr(names[c]) if names else c + 1
            where = f"{file}, {sheet.row_label(i)}, column {name}"
            raise ValueError(refusal(where, str(sheet.columns[c][i])))
    return Table(values, [names[c] for c in chosen] if names else None, rows, tuple(notes))


def _transposed(file: Path, table: Table) -> Table:
    why = " (transposing makes row names column names.)"
    _refuse_repeats(file, table.row_names or (), "row name", why)
    values = table.values.T
    values = np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values.tocsr()
    return Table(values, table.row_names, table.column_names, table.notes)


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


def _choose_columns(
    file: Path, names: list[str] | None, width: int, columns: Sequence[str] | None, skip: int = 0
) -> list[int]:
    """The positions of the wanted columns, or of all after those to skip."""
    if columns is None:
        _refuse_repeats(file, (names or [])[skip:])
        return list(range(skip, width))
    if len(columns) == 0:
        raise ValueError("no columns are chosen; name at least one.")
    _refuse_repeats("the choice of columns", columns)
    numbered = f"it has no header, so its columns are numbered 1 to {width}."
    known = names or [str(j + 1) for j in range(width)]
    for name in columns:
        if name not in known:
            hint = f"; {_nearest(name, names)}" if names else f": {numbered}"
            raise ValueError(f"{file} has no column {name!r}{hint}")
    _refuse_repeats(file, [name for name in known if name in columns])
    return [known.index(name) for name in columns]


def _nearest(name: str, names: Sequence[str]) -> str:
    lower = {other.lower(): repr(other) for other in names}
    near = [lower[other] for other in difflib.get_close_matches(name.lower(), lower, n=3)]
    listed = f"{', '.join(map(repr, names[:10]))}{', …' * (len(names) > 10)}"
    return f"did you mean {' or '.join(near)}?" if near else f"it has {listed}."


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
