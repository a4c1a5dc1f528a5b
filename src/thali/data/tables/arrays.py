"""NPY, NPZ and Parquet: numbers saved by NumPy, SciPy or pandas, read without pickle."""

import difflib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
import scipy.sparse
from pandas.api.types import infer_dtype, is_numeric_dtype

from thali.data.checks import by_rows, refuse_beyond_memory, refuse_scarce

from .text import Sheet

Head = tuple[tuple[int, ...], np.dtype]  # the shape of an array, and the type of its entries
REAL = "biuf"  # kinds of dtype of NumPy
PARTS = ("data", "indices", "indptr", "shape")
SAVED = {*PARTS, "format", "_is_array", "row", "col", "offsets"}  # names of scipy.sparse.save_npz


@contextmanager
def _or(complaint: str, remedy: str) -> Iterator[None]:
    """Say in one sentence that bytes are broken, whatever a library says of them."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # of many kinds, when the bytes are not what they should be
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"{complaint} ({why}); {remedy}.") from None


def read_npy(file: Path) -> np.ndarray:
    broken = _or(f"{file} is not a NumPy file, or a damaged one", "save it again with numpy.save")
    with broken, file.open("rb") as stream:
        shape, dtype = _head(stream)
        there = file.stat().st_size - stream.tell()
    _refuse_pickle(file, dtype)
    promised = dtype.itemsize * int(np.prod(shape, dtype=object))
    if there < promised:
        raise ValueError(
            f"{file} is half-written: it holds {there:,} of the {promised:,} bytes that its "
            "header promises; save it again."
        )
    return _table(file, np.load(file, allow_pickle=False))


def read_npz(file: Path, member: str | None) -> np.ndarray | scipy.sparse.csr_array:
    """The only matrix of an archive, or the one named; a sparse one stays sparse."""
    heads: dict[str, Head] = {}
    broken = f"{file} is not an .npz file, or a half-written one", "save it again with numpy.savez"
    with _or(*broken), zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as stream:
                    heads[name.removesuffix(".npy")] = _head(stream)
    name, prefix = _pick(file, heads, member)
    for part, (_, dtype) in heads.items():
        if part == name or (prefix is not None and part.startswith(prefix)):
            _refuse_pickle(f"{file}:{part}", dtype)
    if prefix is not None:
        return _sparse(file, "format" in heads, prefix)
    with _or(*broken), np.load(file, allow_pickle=False) as archive:
        array = archive[name]
    return _table(f"{file}:{name}", array)


def _head(stream: IO[bytes]) -> Head:
    """Read shape and dtype of an .npy stream without its data."""
    old = np.lib.format.read_magic(stream) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype


def _refuse_pickle(where: object, dtype: np.dtype) -> None:
    if dtype.hasobject:
        raise ValueError(
            f"{where} holds Python objects, which thali does not unpickle; save plain numbers "
            "(array.astype(float))."
        )


def _table(where: object, array: np.ndarray) -> np.ndarray:
    """Check that an array is a table of real numbers."""
    kind, shape = array.dtype.kind, array.shape
    if kind not in REAL:
        kinds = {"c": "complex numbers", "U": "text", "S": "text", "M": "dates"}
        what = kinds.get(kind, f"entries of type {array.dtype}")
        raise ValueError(f"{where} holds {what}; save it as real numbers.")
    if array.ndim != 2:
        better = (shape[0], int(np.prod(shape[1:]))) if shape else "(rows, columns)"
        raise ValueError(
            f"{where} has {array.ndim} dimension{'s' * (array.ndim != 1)} {shape}; "
            f"a table has rows and columns: reshape it to {better}."
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def _pick(file: Path, heads: dict[str, Head], member: str | None) -> tuple[str, str | None]:
    """The name of the array that is meant, and what its parts begin with if it is sparse.

    ``scipy.sparse.save_npz`` has the parts of one matrix, under their own names; beside other
    arrays X_data, X_indices, X_indptr and X_shape are those of X, row by row.
    """
    starts = [name.removesuffix("indptr") for name in heads if name.endswith("indptr")]
    starts = [start for start in starts if {start + part for part in PARTS} <= set(heads)]
    starts = [""] if {"format", "data", "shape"} <= set(heads) else starts
    sparse = {start.rstrip("_") or "matrix": start for start in starts}
    if member in sparse or member in heads:
        return member, sparse.get(member)
    listed = ", ".join(f"{name} {shape}" for name, (shape, _) in heads.items()) or "none"
    if member is not None:
        near = difflib.get_close_matches(member, heads, n=1)
        hint = f"did you mean {file}:{near[0]}?" if near else f"its arrays: {listed}."
        raise ValueError(f"{file} has no array {member!r}; {hint}")
    if sparse:
        name, start = next(iter(sparse.items()))
        if set(heads) <= ({start + part for part in PARTS} if start else SAVED):
            return name, start
        raise ValueError(
            f"{file} holds a sparse matrix and other arrays; choose one as {file}:NAME. "
            f"Sparse: {', '.join(sparse)}."
        )
    found = [
        name for name, (shape, dtype) in heads.items() if len(shape) == 2 and dtype.kind in REAL
    ]
    if len(found) == 1 or len(heads) == 1:
        return (found or list(heads))[0], None
    count = f"{len(found)} matrices" if found else "no matrix"
    raise ValueError(f"{file} holds {count}; choose an array as {file}:NAME. Its arrays: {listed}.")


def _sparse(file: Path, saved: bool, prefix: str) -> scipy.sparse.csr_array:
    """The sparse matrix, by rows; no entry that it leaves out is made."""
    complaint = f"{file} holds a sparse matrix whose parts do not fit together"
    remedy = "save it again with scipy.sparse.save_npz"
    with _or(complaint, remedy):
        if saved:
            matrix = scipy.sparse.load_npz(file)
        else:
            with np.load(file, allow_pickle=False) as archive:
                *parts, shape = (archive[prefix + part] for part in PARTS)
            matrix = scipy.sparse.csr_array(tuple(parts), shape=tuple(map(int, shape)))
    refuse_scarce(matrix)
    refuse_beyond_memory(matrix)
    with _or(complaint, remedy):
        if hasattr(matrix, "indptr"):
            matrix.check_format(full_check=True)
    if matrix.dtype.kind not in REAL:
        raise ValueError(f"{file} holds entries of type {matrix.dtype}; save it as real numbers.")
    return by_rows(matrix)


def read_parquet(file: Path) -> Sheet:
    """Columns of one type each; whatever is no number is written out."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            f"{file}: reading Parquet needs pyarrow; install it with: pip install 'thali[parquet]'"
        ) from None
    with _or(f"{file} is not a Parquet file, or a half-written one", "write it again"):
        frame = pyarrow.parquet.ParquetFile(file).read().to_pandas()
    columns: list[list[str] | np.ndarray] = []
    for column in (frame.iloc[:, j] for j in range(frame.shape[1])):
        if is_numeric_dtype(column) or infer_dtype(column) in ("boolean", "decimal", "empty"):
            columns.append(column.to_numpy(np.float64, na_value=np.nan))
        else:
            cells = column.astype(object).where(column.notna(), "")
            columns.append([str(cell).strip() for cell in cells])
    names, rows, notes = list(map(str, frame.columns)), None, []
    if frame.index.nlevels == 1 and not isinstance(frame.index, pd.RangeIndex):
        rows, name = list(map(str, frame.index)), frame.index.name
        notes = [f"row names from column {name!r}" if name else "row names from the index"]
    return Sheet(columns, names, lambda i: f"row {i + 1}", notes, rows, typed=True)
