"""The data matrix, validated once: every bad input stops here, with words.

Also the exact reduction for D > N: the linear-Gaussian marginal depends on X only through XXᵀ, so
X may be replaced by the N×N factor R̃ = Rᵀ of the QR decomposition Xᵀ = QR, as R̃R̃ᵀ = XXᵀ. It does
not commute with missing entries: data that have any offer ``mask``, ``patterns`` and ``filled``.
A sparse X stays sparse (``sparse.py``), and has neither missing entries nor that reduction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from thali.data import sparse
from thali.data.missing import Patterns, first_guess, patterns

BLOCK = 2**20  # entries looked at together
LARGEST = 1e100  # squares of larger values overflow when summed


@dataclass(frozen=True)
class Data:
    """A validated N×D matrix of float64 in C order, never changed after it is made.

    ``mask`` is True where an entry was observed, and X is NaN where not; None when X is complete.
    X may be a ``csr_array``, for engines that declare ``sparse``.
    """

    X: Any
    mask: np.ndarray | None = None

    @classmethod
    def validate(cls, X: Any) -> Data:
        """Check shape, type, finiteness and size; NaN, None and masked entries are missing.

        >>> Data.validate([[1, 2], [3, 4]]).X.dtype
        dtype('float64')
        >>> Data.validate([[1, 2], [3, None]]).mask.tolist()
        [[True, True], [True, False]]
        """
        if sparse.is_sparse(X):
            return cls(as_sparse(X))
        array = as_matrix(X)
        if not any(np.isnan(array[block]).any() for block in blocks(array)):
            return cls(array)
        missing = np.isnan(array)
        if missing.all():
            raise ValueError(
                f"X has no observed entry: all {array.size} are missing; give at least one number."
            )
        return cls(array, np.ascontiguousarray(~missing))

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return sparse.is_sparse(self.X)

    @cached_property
    def reduced(self) -> Any:
        """X itself, or for D > N, where X is dense, the N×N matrix with the same XXᵀ."""
        if self.mask is not None:
            raise ValueError("Data with missing entries have no reduced form; use data.filled.")
        if self.d <= self.n or self.sparse:
            return self.X
        return np.ascontiguousarray(np.asarray(np.linalg.qr(self.X.T, mode="r")).T)

    @cached_property
    def squares(self) -> np.ndarray:
        """‖x_n‖² of each row."""
        if self.sparse:
            return sparse.row_squares(self.X)
        return np.einsum("nd,nd->n", self.reduced, self.reduced)

    @cached_property
    def binary(self) -> np.ndarray:
        """X as uint8, missing entries as 0, where all that was observed is 0 or 1; else a refusal
        that names the first offender."""
        wrong = (self.X != 0.0) & (self.X != 1.0) & ~np.isnan(self.X)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"X has {self.X[i, j]:g} at row {i}, column {j}, where this likelihood needs 0 or "
                "1; code the data as 0 and 1 (and leave center=False), or use another likelihood."
            )
        return (self.X == 1.0).astype(np.uint8)

    @cached_property
    def singular_values(self) -> np.ndarray:
        """Singular values of the centered data, largest first, from the smaller Gram matrix."""
        if self.sparse:
            return sparse.singular_values(self.X)
        X, mean = self.reduced, self.reduced.mean(axis=0)  # no wider than long
        gram = np.zeros((len(mean), len(mean)))
        for block in blocks(X):
            centered = X[block] - mean
            gram += centered.T @ centered
        return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))

    @cached_property
    def mean_square(self) -> float:
        """The mean square of the observed entries: the data's scale, squared."""
        if self.sparse:
            return sparse.sum_of_squares(self.X) / (self.n * self.d)
        X = self.X if self.mask is None else self.X[self.mask][:, None]
        return sum(float(np.square(X[block]).sum()) for block in blocks(X)) / X.size

    # missing entries

    @property
    def missing(self) -> int:
        """How many entries are missing."""
        return 0 if self.mask is None else int(self.mask.size - self.mask.sum())

    @cached_property
    def filled(self) -> Data:
        """These data, or complete ones with a first guess in place of what is missing."""
        return self if self.mask is None else Data(first_guess(self.X, self.mask))

    @cached_property
    def patterns(self) -> Patterns:
        """Columns by the rows that they miss."""
        return patterns(np.ones(self.X.shape, bool) if self.mask is None else self.mask)


def blocks(X: np.ndarray) -> Iterator[slice]:
    """A few rows at a time, so that what is computed of X needs no second X."""
    rows = max(1, BLOCK // X.shape[1])
    return (slice(first, first + rows) for first in range(0, len(X), rows))


def as_matrix(X: Any) -> np.ndarray:
    """X as float64 in C order, NaN where an entry is missing; each refusal is one sentence."""
    check_table(X)
    array = np.ascontiguousarray(unmasked(X), dtype=np.float64)
    refuse_empty(array.shape)
    refuse_nonfinite(array, lambda at: np.unravel_index(at, array.shape))
    return array


def refuse_empty(shape: tuple[int, int]) -> None:
    """Refuse data without rows or without columns."""
    if 0 in shape:
        raise ValueError(
            f"X is empty: found array with {shape[0]} sample(s) and "
            f"{shape[1]} feature(s) while a minimum of 1 is required of each."
        )


def as_sparse(X: Any) -> Any:
    """X as a ``csr_array`` of its own: float64, entries in order, none of them a zero or twice.

    >>> import scipy.sparse
    >>> as_sparse(scipy.sparse.coo_array(([1, 2], ([0, 0], [1, 1])), shape=(2, 2))).data
    array([3.])
    """
    X = coordinates(X) if hasattr(X, "columns") else X
    if X.ndim != 2:
        raise ValueError(f"X must be a table of 2 dimensions (rows x columns), not {X.ndim}.")
    if X.dtype.kind == "c":
        raise ValueError("X holds complex numbers. Complex data not supported: split it in two.")
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X is a sparse matrix of entries of type {X.dtype}, not numbers.")
    if hasattr(X, "indptr"):
        X.check_format(full_check=True)  # of indices that point elsewhere
    array = by_rows(X)
    refuse_empty(array.shape)
    array.eliminate_zeros()
    refuse_missing(array)
    refuse_nonfinite(array.data, lambda at: place_of(array, at))
    return array


def by_rows(X: Any) -> Any:
    """A ``csr_array`` of float64 of its own, entries of one place summed.

    As real numbers, since SciPy sums in X's own type, in which small integers overflow; but truth
    values first, of which twice True is True.
    """
    if X.dtype.kind == "b":
        X = csr_array(X, copy=True)
        X.sum_duplicates()
    array = csr_array(X.astype(np.float64, copy=True))
    array.sum_duplicates()
    return array


def coordinates(frame: Any) -> Any:
    """A sparse data frame as a matrix, if what it leaves out are zeros."""
    if any(dtype.fill_value != 0 for dtype in frame.dtypes):
        raise ValueError(
            "X is a sparse data frame that leaves out something else than 0; make it dense first "
            "with X.sparse.to_dense() if it fits in memory."
        )
    return frame.sparse.to_coo()


def refuse_missing(X: Any) -> None:
    """Refuse NaN among the entries of a sparse matrix: what it leaves out are zeros."""
    missing = np.flatnonzero(np.isnan(X.data))
    if len(missing):
        i, j = place_of(X, int(missing[0]))
        raise ValueError(
            f"X is sparse and has {len(missing)} entries NaN, the first at row {i}, column {j}. "
            "Missing entries need a dense matrix: X.toarray(), if it fits in memory."
        )


def place_of(X: Any, at: int) -> tuple[int, int]:
    """The row and column of entry ``at`` of a ``csr_array``."""
    return int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])


def unmasked(X: Any) -> Any:
    """X with NaN in place of masked entries and of the kinds of nothing that objects may be.

    A pandas frame stays one, with its names.
    """
    if isinstance(X, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(X), np.nan, np.asarray(X, dtype=np.float64))
    array = np.asarray(X)
    if array.dtype.kind != "O":
        return X
    nothing = np.vectorize(is_nothing, otypes=[bool])(array)
    numbers = np.where(nothing, np.nan, array).astype(np.float64)
    if hasattr(X, "columns") and hasattr(X, "index"):
        return type(X)(numbers, index=X.index, columns=X.columns)
    return numbers


def is_nothing(value: Any) -> bool:
    """Whether an object stands for a missing number: None, or pandas' NA."""
    return value is None or type(value).__name__ == "NAType"


def check_table(X: Any) -> None:
    """Refuse what is no dense table of numbers: each refusal one sentence, with the place."""
    if sparse.is_sparse(X):
        raise TypeError(
            "X is a sparse matrix where a dense one is needed; "
            "make it dense first with X.toarray() if it fits in memory."
        )
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"X is a path ({X!s}), not a table; read it first with "
            "thali.data.tables.read_table(path).values, or use the command `thali fit`."
        )
    refuse_same_names(X)
    if isinstance(X, list | tuple):
        refuse_ragged(X)
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError("X has a list inside a row where a number should be.") from None
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
    if array.dtype.kind == "c":
        raise ValueError("X holds complex numbers. Complex data not supported: split it in two.")
    if array.dtype.kind in "mMV":
        raise TypeError(
            f"X holds {array.dtype} (dates or records), not numbers; encode them first."
        )
    if array.dtype.kind in "USO":
        refuse_text(array)


def refuse_same_names(X: Any) -> None:
    """Refuse a data frame in which two columns have one name."""
    names = [str(name) for name in getattr(X, "columns", [])]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has two columns named {twice!r}; give each column its own name.")


def refuse_ragged(rows: Any) -> None:
    """Name the first row of a list of lists that is longer or shorter than the first."""
    lengths = [len(row) if hasattr(row, "__len__") and np.ndim(row) else None for row in rows]
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
        except TypeError:
            if is_nothing(value):
                continue
            raise TypeError(
                f"X has a {type(value).__name__} at row {i}, column {j}: float() argument must be "
                "a string or a real number."
            ) from None


def refuse_nonfinite(array: np.ndarray, place: Callable[[int], Any]) -> None:
    """Count and locate infinities, and refuse values too large or too small to square.

    ``place`` tells the row and column of an entry, counted through the array.
    """
    # fmax and fmin pass over NaN, and make no copy of X
    high, low = (f.reduce(array, axis=None, initial=0.0) for f in (np.fmax, np.fmin))
    largest = float(max(high, -low))
    if np.isinf(largest):
        flat = array.ravel()
        parts = (np.isinf(flat[at : at + BLOCK]) for at in range(0, flat.size, BLOCK))
        infinite = np.concatenate([BLOCK * i + np.flatnonzero(p) for i, p in enumerate(parts)])
        i, j = place(int(infinite[0]))
        raise ValueError(
            f"X contains infinity: {len(infinite)} entries, the first at row {i}, "
            f"column {j}. Replace or drop them first."
        )
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


def observed_means(X: np.ndarray) -> np.ndarray:
    """The mean of what was observed in each column, 0 where nothing was."""
    seen = ~np.isnan(X)
    return np.where(seen, X, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)


def row_names(X: Any) -> list[str] | None:
    """The index of a data frame as text, unless it is just 0, 1, 2, …"""
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    return [str(name) for name in index]
