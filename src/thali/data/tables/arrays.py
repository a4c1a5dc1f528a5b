"""NPY and NPZ: a matrix saved by NumPy, or a sparse one by SciPy, read without pickle."""

from __future__ import annotations

import difflib
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from thali.data.checks import by_rows
from thali.data.tables.table import Table, brief, choose_columns

__all__ = ["read_npy", "read_npz"]

T = TypeVar("T")
Head = tuple[tuple[int, ...], np.dtype[Any]]
WHOLE = "matrix"  # the name of a sparse matrix that is a file of its own
PARTS = ("data", "indices", "indptr", "shape")
SAVED = {*PARTS, "format", "_is_array", "row", "col", "offsets"}  # names of scipy.sparse.save_npz
# what NumPy and zipfile raise when the bytes are not what they should be
DAMAGE = (ValueError, EOFError, TypeError, SyntaxError, NotImplementedError, RuntimeError, KeyError)


def _from_array(
    file: Path, where: str, array: NDArray[Any], columns: Sequence[str] | None
) -> Table:
    """Check that an array is a table of real numbers, and keep the chosen columns."""
    if array.dtype.kind not in "biuf":
        kind = {"c": "complex numbers", "U": "text", "S": "text", "M": "dates"}.get(
            array.dtype.kind, f"entries of type {array.dtype}"
        )
        raise ValueError(f"{where} holds {kind}; save it as real numbers.")
    if array.ndim != 2:
        rest = int(np.prod(array.shape[1:])) if array.ndim > 2 else 1
        shape = f"({array.shape[0]}, {rest})" if array.ndim else "(rows, columns)"
        raise ValueError(
            f"{where} has {array.ndim} dimension{'s' * (array.ndim != 1)} {array.shape}; "
            f"a table has rows and columns: reshape it to {shape}."
        )
    if columns is not None:
        array = array[:, choose_columns(file, None, array.shape[1], columns, 0)]
    return Table(np.ascontiguousarray(array, dtype=np.float64), None, None)


def _array_header(stream: Any) -> Head:
    """Read shape and dtype of an .npy stream without its data."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0
    if version > (1, 0):
        read = np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype


def _refuse_pickle(where: str, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise ValueError(
            f"{where} holds Python objects, which thali does not unpickle; save plain numbers "
            "(array.astype(float))."
        )


def read_npy(file: Path, columns: Sequence[str] | None) -> Table:
    try:
        with file.open("rb") as stream:
            shape, dtype = _array_header(stream)
            there = file.stat().st_size - stream.tell()
    except DAMAGE as error:
        raise ValueError(
            f"{file} is not a NumPy file, or a damaged one ({brief(error)}); save it again with "
            "numpy.save."
        ) from None
    _refuse_pickle(str(file), dtype)
    promised = dtype.itemsize * int(np.prod(shape, dtype=object))
    if there < promised:
        raise ValueError(
            f"{file} is half-written: it holds {there:,} of the {promised:,} bytes that its "
            "header promises; save it again."
        )
    return _from_array(file, str(file), np.load(file, allow_pickle=False), columns)


def read_npz(file: Path, member: str | None, columns: Sequence[str] | None) -> Table:
    heads = _unzip(file, _heads)
    prefixes = _sparse_prefixes(heads)
    if member is None and len(prefixes) == 1 and _alone(heads, *prefixes.values()):
        member = next(iter(prefixes))
    if member in prefixes:
        return _read_sparse(file, heads, prefixes[member], columns)
    name = _pick(file, heads, member, prefixes)
    _refuse_pickle(f"{file}:{name}", heads[name][1])

    def read(archive: zipfile.ZipFile) -> NDArray[Any]:
        with archive.open(f"{name}.npy") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    return _from_array(file, f"{file}:{name}", _unzip(file, read), columns)


def _sparse_prefixes(heads: dict[str, Head]) -> dict[str, str]:
    """What the names of a sparse matrix's parts begin with, by the name of the matrix.

    ``scipy.sparse.save_npz`` has the parts of one matrix, under their own names; beside other
    arrays X_data, X_indices, X_indptr and X_shape are those of X, row by row.
    """
    if "format" in heads and {"data", "shape"} <= set(heads):
        return {WHOLE: ""}
    starts = [name.removesuffix("indptr") for name in heads if name.endswith("indptr")]
    whole = [p for p in starts if {p + part for part in PARTS} <= set(heads)]
    return {p.rstrip("_") or WHOLE: p for p in whole}


def _alone(heads: dict[str, Head], prefix: str) -> bool:
    """Whether nothing is there but one sparse matrix, in whatever format."""
    return set(heads) <= ({prefix + part for part in PARTS} if prefix else SAVED)


def _read_sparse(
    file: Path, heads: dict[str, Head], prefix: str, columns: Sequence[str] | None
) -> Table:
    """The sparse matrix, by rows; no entry that it leaves out is made."""
    for part in heads:
        if part.startswith(prefix):
            _refuse_pickle(f"{file}:{part}", heads[part][1])
    try:
        if "format" in heads:
            matrix = scipy.sparse.load_npz(file)
        else:
            with np.load(file, allow_pickle=False) as archive:
                *parts, shape = (archive[prefix + part] for part in PARTS)
            matrix = scipy.sparse.csr_array(tuple(parts), shape=tuple(int(i) for i in shape))
        if hasattr(matrix, "indptr"):
            matrix.check_format(full_check=True)
    except (zipfile.BadZipFile, zlib.error, IndexError, *DAMAGE) as error:
        raise ValueError(
            f"{file} holds a sparse matrix whose parts do not fit together ({brief(error)}); save "
            "it again with scipy.sparse.save_npz."
        ) from None
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{file} holds entries of type {matrix.dtype}; save it as real numbers.")
    matrix = by_rows(matrix)
    if columns is not None:
        matrix = matrix[:, choose_columns(file, None, matrix.shape[1], columns, 0)]
    return Table(matrix, None, None, (f"sparse, {matrix.nnz:,} entries",))


def _heads(archive: zipfile.ZipFile) -> dict[str, Head]:
    """Shape and dtype of every array in an archive."""
    heads = {}
    for name in archive.namelist():
        if name.endswith(".npy"):
            with archive.open(name) as stream:
                heads[name.removesuffix(".npy")] = _array_header(stream)
    return heads


def _unzip(file: Path, read: Callable[[zipfile.ZipFile], T]) -> T:
    """Read something from an archive; every way in which it can be broken gives one sentence."""
    try:
        with zipfile.ZipFile(file) as archive:
            return read(archive)
    except (zipfile.BadZipFile, zlib.error, *DAMAGE) as error:
        raise ValueError(
            f"{file} is not an .npz file, or a half-written one ({brief(error)}); save it again "
            "with numpy.savez."
        ) from None


def _pick(file: Path, heads: dict[str, Head], member: str | None, prefixes: dict[str, str]) -> str:
    """Return the name of the array that is meant: the one asked for, or the only matrix."""
    if member in heads:
        return member
    if prefixes and member is None:
        raise ValueError(
            f"{file} holds a sparse matrix and other arrays; choose one as {file}:NAME. "
            f"Sparse: {', '.join(prefixes)}."
        )
    listed = ", ".join(f"{name} {shape}" for name, (shape, _) in heads.items()) or "none"
    if member is not None:
        near = difflib.get_close_matches(member, list(heads), n=1)
        hint = f"did you mean {file}:{near[0]}?" if near else f"its arrays: {listed}."
        raise ValueError(f"{file} has no array {member!r}; {hint}")
    matrices = [
        name for name, (shape, dtype) in heads.items() if len(shape) == 2 and dtype.kind in "biuf"
    ]
    if len(heads) == 1 or len(matrices) == 1:
        return (matrices or list(heads))[0]
    count = f"{len(matrices)} matrices" if matrices else "no matrix"
    raise ValueError(f"{file} holds {count}; choose an array as {file}:NAME. Its arrays: {listed}.")
