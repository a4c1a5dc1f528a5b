"""Rows of numbers that lie elsewhere: a shape, a way to read some of them, and one pass over all.

A source can be sent to another process, where it is opened anew. What it reads is float64 in C
order, in the units of the fit: less ``mean``, over ``scale``, column by column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from thali.data import matrix
from thali.data.elsewhere.survey import Survey
from thali.machine import physical_memory
from thali.settings import shown

Found = TypeVar("Found")
Rows = slice | np.ndarray  # which rows: a piece, or places in rising order
LEAST_LEFT = 0.5  # of this machine's memory: what is loaded takes no more


class Source(ABC):
    """N×D numbers to be read by rows."""

    name: str  # what messages call it
    shape: tuple[int, int]
    labels: list[str] | None = None  # names of columns, where they have any
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    dtype: ClassVar[np.dtype] = np.dtype(np.float64)
    ndim: ClassVar[int] = 2

    @abstractmethod
    def stored(self, rows: Rows) -> np.ndarray:
        """Rows as they are stored."""

    @property
    def told(self) -> Any:
        """What ``X_`` is: rows in their own units."""
        return self.put_into(np.zeros(1), np.ones(1))

    @property
    def address(self) -> str:
        """The path where it can be opened again, or a refusal."""
        raise ValueError(
            f"A model of {self.name} cannot be saved: its file names the one that X is in, and X "
            "is in none. Write X to a .npy, .zarr or .parquet file and fit to the path of that."
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, rows: Rows) -> np.ndarray:
        return self.in_units(as_numbers(self.stored(rows), self.name))

    def in_units(self, X: np.ndarray) -> np.ndarray:
        """Rows in the units of the fit."""
        X = X if self.mean is None else X - self.mean
        return X if self.scale is None else X / self.scale

    def put_into(self, mean: np.ndarray, scale: np.ndarray) -> Self:
        """The same rows in units."""
        found = object.__new__(type(self))  # not as it is sent to other processes
        found.__dict__ |= {k: v for k, v in self.__dict__.items() if k != "survey"}
        found.mean = mean if mean.any() else None
        found.scale = scale if (scale != 1.0).any() else None
        return found

    def each(self, work: Callable[[np.ndarray], Found]) -> Iterator[Found]:
        """What the work makes of each block, one after the other."""
        return (work(self[rows]) for rows in matrix.blocks(self))  # type: ignore[arg-type]

    @cached_property
    def survey(self) -> Survey:
        """What one pass tells, with a refusal of what cannot be used."""
        found: Survey = reduce(add, self.each(Survey.of))
        if found.n != self.shape[0]:
            raise ValueError(
                f"{self.name} has {found.n:,} rows, where {self.shape[0]:,} were announced."
            )
        found.refuse()
        return found

    def load(self, why: str) -> np.ndarray:
        """All of it in memory, if it fits there beside what a fit needs; ``why`` ends a refusal."""
        needed, available = 8 * self.size, physical_memory()
        if needed > LEAST_LEFT * available:
            raise ValueError(
                f"{self.name} has {self.shape[0]:,} rows and {self.shape[1]:,} columns: as numbers "
                f"in memory {needed / 2**30:,.1f} GB, of {available / 2**30:,.1f} GB here. {why}"
            )
        X = np.empty(self.shape)
        for rows in matrix.blocks(X):
            X[rows] = self[rows]
        return X


def as_numbers(X: Any, name: str) -> np.ndarray:
    """Rows as float64 in C order; None, pandas' NA and masked entries are NaN."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data.astype(np.float64))
    for dtype in getattr(X, "dtypes", ()):  # of a data frame
        refuse_no_numbers(dtype, name)
    if hasattr(X, "to_numpy"):
        try:
            return np.ascontiguousarray(X.to_numpy(np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            X = X.to_numpy(object)
    X = np.asarray(X)
    refuse_no_numbers(X.dtype, name)
    try:
        return np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        wrong = next((v for v in X.ravel() if not _is_number(v)), "something")
        raise ValueError(
            f"{name} has {shown(wrong)} where a number should be; drop or encode such columns "
            "first."
        ) from None


def refuse_no_numbers(dtype: Any, name: str) -> None:
    """Refuse text, dates, records and complex numbers by their type."""
    kind = getattr(dtype, "kind", "f")
    if kind in "biufO":
        return
    what = {"c": "complex numbers", "U": "text", "S": "text", "T": "text"}.get(kind, str(dtype))
    raise ValueError(f"{name} holds {what}, not real numbers; drop or encode such columns first.")


def refuse_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse what has no rows and columns, or none of them."""
    if len(shape) != 2:
        raise ValueError(
            f"{name} must be a table of 2 dimensions (rows x columns), not {len(shape)}."
        )
    if 0 in shape:
        raise ValueError(
            f"{name} is empty: {shape[0]} rows and {shape[1]} columns, where at least 1 of each is "
            "needed."
        )


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value is None
    return True
