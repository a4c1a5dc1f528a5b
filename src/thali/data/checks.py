"""What is accepted as X: a dense or sparse table of real numbers; each refusal is one sentence.

Only this file looks at what a user gave: what passes is float64 in C order, or a ``csr_array``.
"""

import os
from collections.abc import Sequence, Sized

import numpy as np
import pandas as pd
from scipy.sparse import coo_array, csr_array, sparray

from thali.data import sparse
from thali.machine import physical_memory
from thali.settings import shown

LARGEST = 1e100  # squares of larger values overflow when summed
VAST = 10**6  # rows and columns from which on a sparse matrix
SCARCE = 1000  # is refused if it has less than one entry for so many of them


def is_on_device(X: object) -> bool:
    """Whether X is an array of CuPy, in the memory of a GPU; CuPy is not imported for that.

    >>> is_on_device(np.eye(2))
    False
    """
    return type(X).__module__.partition(".")[0] == "cupy"


def as_matrix(X: object) -> np.ndarray:
    """X as float64 in C order, NaN where an entry is missing; each refusal is one sentence."""
    check_table(X)
    array = np.ascontiguousarray(unmasked(X), dtype=np.float64)
    refuse_empty(array.shape)
    refuse_nonfinite(array)
    return array


def refuse_empty(shape: tuple[int, ...]) -> None:
    """Refuse data without rows or without columns."""
    if 0 in shape:
        raise ValueError(
            f"X is empty: found array with {shape[0]} sample(s) and "
            f"{shape[1]} feature(s) while a minimum of 1 is required of each."
        )


def refuse_no_columns(X: object) -> None:
    """Refuse a data frame without columns."""
    if hasattr(X, "columns") and not len(X.columns):
        raise ValueError("X is empty: the data frame has no columns.")


def as_sparse(X: sparray) -> csr_array:
    """X as a ``csr_array`` of its own: float64, entries in order, none of them a zero or twice.

    >>> import scipy.sparse
    >>> as_sparse(scipy.sparse.coo_array(([1, 2], ([0, 0], [1, 1])), shape=(2, 2))).data
    array([3.])
    """
    X = coordinates(X) if hasattr(X, "columns") else X
    if X.ndim != 2:
        raise ValueError(f"X must be a table of 2 dimensions (rows x columns), not {X.ndim}.")
    refuse_complex(X.dtype)
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X is a sparse matrix of entries of type {X.dtype}, not numbers.")
    refuse_beyond_memory(X)
    if hasattr(X, "indptr"):
        X.check_format(full_check=True)  # of indices that point elsewhere
    array = by_rows(X)
    refuse_empty(array.shape)
    array.eliminate_zeros()
    missing = np.flatnonzero(np.isnan(array.data))
    if len(missing):
        i, j = entry_of(array, int(missing[0]))
        raise ValueError(
            f"X is sparse and has {len(missing)} entries NaN, the first at row {i}, column {j}. "
            "Missing entries need a dense matrix: X.toarray(), if it fits in memory."
        )
    refuse_nonfinite(array)
    return array


def refuse_scarce(X: sparray | pd.DataFrame) -> None:
    """Refuse a sparse matrix of very many rows or columns, nearly all of them empty, at once.

    >>> import scipy.sparse
    >>> refuse_scarce(scipy.sparse.coo_array((5, 10**9)))
    Traceback (most recent call last):
    ValueError: X has 5 rows and 1,000,000,000 columns, but only 0 entries are given: nearly all...
    """
    if not hasattr(X, "nnz") or X.ndim != 2:
        return
    (n, d), entries = X.shape, int(X.nnz)
    if n + d > VAST and entries * SCARCE < n + d:
        raise ValueError(
            f"X has {n:,} rows and {d:,} columns, but only {entries:,} entries are given: nearly "
            "all rows or columns are empty. Leave these out, or look at the shape of X."
        )


def refuse_beyond_memory(X: sparray) -> None:
    """Refuse a sparse matrix that is larger than memory even with a single feature, at once."""
    n, d = X.shape
    # entries with their places, twice; where rows begin, their squares and bits; means of columns
    needed = 32 * int(X.nnz) + 33 * n + 32 * d
    if needed > physical_memory():
        raise MemoryError(
            f"X has {n:,} rows, {d:,} columns and {X.nnz:,} entries: with a single feature they "
            f"need {needed / 2**30:,.0f} GB of memory, more than the "
            f"{physical_memory() / 2**30:,.0f} GB here. Use fewer rows or columns."
        )


def by_rows(X: sparray) -> csr_array:
    """A ``csr_array`` of float64 of its own, entries at one row and column summed.

    As real numbers, since SciPy sums in X's own type, in which small integers overflow; but truth
    values first, of which twice True is True.
    """
    if X.dtype.kind == "b":
        X = csr_array(X, copy=True)
        X.sum_duplicates()
    array = csr_array(X.astype(np.float64, copy=True))
    array.sum_duplicates()
    return array


def coordinates(frame: pd.DataFrame) -> coo_array:
    """A sparse data frame as a matrix, if what it leaves out are zeros."""
    if any(dtype.fill_value != 0 for dtype in frame.dtypes):
        raise ValueError(
            "X is a sparse data frame that leaves out something else than 0; make it dense first "
            "with X.sparse.to_dense() if it fits in memory."
        )
    return frame.sparse.to_coo()


def entry_of(X: np.ndarray | csr_array, at: int) -> tuple[int, int]:
    """The row and column of entry ``at``, counted through those that X holds."""
    if isinstance(X, np.ndarray):
        return divmod(at, int(X.shape[1]))
    return int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])


def unmasked(X: object) -> object:
    """X with NaN in place of masked entries and of the kinds of nothing that objects may be.

    A pandas frame stays one, with its names.
    """
    if isinstance(X, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(X), np.nan, np.asarray(X, dtype=np.float64))
    array = np.asarray(X)
    if array.dtype.kind != "O":
        return X
    numbers = np.where(pd.isna(array), np.nan, array).astype(np.float64)
    if isinstance(X, pd.DataFrame):
        return pd.DataFrame(numbers, index=X.index, columns=X.columns)
    return numbers


def refuse_complex(dtype: np.dtype) -> None:
    """Refuse complex numbers."""
    if dtype.kind == "c":
        raise ValueError("X holds complex numbers. Complex data not supported: split it in two.")


def check_table(X: object) -> None:
    """Refuse what is no dense table of numbers: each refusal one sentence, with row and column."""
    refuse_other_than_tables(X)
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError("X has a list inside a row where a number should be.") from None
    refuse_dimensions(X, array)
    refuse_complex(array.dtype)
    if array.dtype.kind in "mMV":
        raise TypeError(
            f"X holds {array.dtype} (dates or records), not numbers; encode them first."
        )
    if array.dtype.kind in "USO":
        refuse_text(array)


def refuse_other_than_tables(X: object) -> None:
    """Refuse sparse matrices, paths, columns of one name and rows of different lengths."""
    if sparse.is_sparse(X):
        raise TypeError(
            "X is a sparse matrix where a dense one is needed; "
            "make it dense first with X.toarray() if it fits in memory."
        )
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"X is a path ({X!s}), not a table; read it first with "
            "thali.data.tables.read_table(path).values, or use the command line, `thali --help`."
        )
    refuse_same_names(X)
    if isinstance(X, list | tuple):
        refuse_ragged(X)


def refuse_dimensions(X: object, array: np.ndarray) -> None:
    """Refuse X, which is ``array``, if it does not have rows and columns."""
    if array.ndim == 0:
        number = array.dtype.kind in "biufc"
        what = "None" if X is None else "a single number" if number else f"a {type(X).__name__}"
        hint = "; pandas.DataFrame(X) makes a table of columns" if isinstance(X, dict) else ""
        raise TypeError(f"X is {what}, not a table (rows x columns) of numbers{hint}.")
    if array.ndim != 2:
        advice = "X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row"
        if array.ndim > 2:
            advice = "X.reshape(len(X), -1) makes a row of each item"
        raise ValueError(
            f"X must be a table of 2 dimensions (rows x columns), not {array.ndim}. Reshape your "
            f"data: {advice}."
        )


def refuse_same_names(X: object) -> None:
    """Refuse a data frame in which two columns have one name."""
    names = [str(name) for name in getattr(X, "columns", [])]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has two columns named {twice!r}; give each column its own name.")


def refuse_ragged(rows: Sequence[object]) -> None:
    """Name the first row of a list of lists that is longer or shorter than the first."""
    lengths = [
        len(row) if isinstance(row, Sized) and np.asarray(row, dtype=object).ndim else None
        for row in rows
    ]
    for i, length in enumerate(lengths):
        if length != lengths[0]:
            raise ValueError(
                f"X is ragged: row {i} has {length or 1} entries where row 0 has {lengths[0] or 1}."
            )


def refuse_text(array: np.ndarray) -> None:
    """Name the first entry of an array of strings or objects that is not a number."""
    for (i, j), value in np.ndenumerate(array):
        try:
            float(value)
        except ValueError:
            raise ValueError(
                f"X has text where a number should be: {str(value)!r} at row {i}, column {j}. "
                "Drop or encode such columns first."
            ) from None
        except OverflowError:  # of an integer or a fraction
            raise ValueError(
                f"X has {shown(value)} at row {i}, column {j}, beyond the range of real numbers in "
                "64 bits; divide X by its scale first."
            ) from None
        except TypeError:
            if value is None or value is pd.NA:
                continue
            raise TypeError(
                f"X has a {type(value).__name__} at row {i}, column {j}: float() argument must be "
                "a string or a real number."
            ) from None


def refuse_squares(largest: float) -> None:
    """Refuse data whose largest value is too large or too small to square."""
    if largest > LARGEST:
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose squares overflow; divide X by its "
            "scale first."
        )
    if 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"X has no value larger than {largest:.3g}, and such squares vanish; divide X by "
            "its scale first."
        )


def refuse_nonfinite(X: np.ndarray | csr_array) -> None:
    """Count and locate infinities, and refuse values too large or too small to square."""
    array = X if isinstance(X, np.ndarray) else X.data
    # fmax and fmin pass over NaN, and make no copy of X
    high, low = (f.reduce(array, axis=None, initial=0.0) for f in (np.fmax, np.fmin))
    largest = float(max(high, -low))
    if np.isinf(largest):
        infinite = np.flatnonzero(np.isinf(array))
        i, j = entry_of(X, int(infinite[0]))
        raise ValueError(
            f"X contains infinity: {len(infinite)} entries, the first at row {i}, "
            f"column {j}. Replace or drop them first."
        )
    refuse_squares(largest)
