"""Dask's arrays and data frames as sources: each of their chunks of rows is a block.

Nothing of them is computed before it is asked for, and then on whatever scheduler is active. What
leaves a worker is what the work made of a chunk: sums, and the few rows that a start looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from thali.data.elsewhere.source import Rows, Source, as_numbers, refuse_no_numbers, refuse_shape

Found = TypeVar("Found")


class Reading(NamedTuple):
    """How a chunk becomes numbers in the units of the fit, where it lies."""

    name: str
    mean: np.ndarray | None
    scale: np.ndarray | None

    def __call__(self, chunk: Any) -> np.ndarray:
        X = as_numbers(chunk, self.name)
        X = X if self.mean is None else X - self.mean
        return X if self.scale is None else X / self.scale


class Parcel:
    """What Dask is to pass on as it is, without a look inside."""

    def __init__(self, content: Any) -> None:
        self.content = content


def kind_of(X: object) -> str | None:
    """ "array" or "frame", if X is a collection of Dask's; Dask is not imported for it."""
    if not type(X).__module__.startswith("dask") or not hasattr(X, "__dask_graph__"):
        return None
    if hasattr(X, "npartitions") and hasattr(X, "columns"):
        return "frame"
    return "array" if hasattr(X, "chunks") else "other"


class DaskRows(Source):
    """Rows of a collection: ``parts`` are its chunks, delayed, of ``heights`` rows each."""

    def __init__(self, X: Any) -> None:
        if kind_of(X) == "frame":
            self.name = "X, a Dask data frame,"
            parts, heights = self._of_frame(X)
        else:
            self.name = "X, a Dask array,"
            parts, heights = self._of_array(X)
        some = [i for i, height in enumerate(heights) if height > 0]
        self.parts = [parts[i] for i in some]
        self.heights = [heights[i] for i in some]
        self.shape = sum(heights), int(X.shape[1])
        refuse_shape(self.shape, self.name)

    def _of_array(self, X: Any) -> tuple[list[Any], list[int]]:
        refuse_no_numbers(X.dtype, self.name)
        if len(X.shape) != 2:
            refuse_shape(X.shape, self.name)
        if np.isnan(X.shape[1]):
            raise ValueError(
                f"{self.name} does not know its number of columns; call X.compute_chunk_sizes()."
            )
        whole = X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})
        parts = list(whole.to_delayed().ravel())
        heights = whole.chunks[0]
        if np.isnan(heights).any():
            heights = _lengths(parts)
        return parts, [int(height) for height in heights]

    def _of_frame(self, X: Any) -> tuple[list[Any], list[int]]:
        for column, dtype in X.dtypes.items():
            kind = getattr(dtype, "kind", "O")
            if kind not in "biuf":
                raise ValueError(
                    f"{self.name} has the column {column!r} of type {dtype}, not of numbers; drop "
                    "or encode it first."
                )
        names = list(X.columns)
        self.labels = names if all(isinstance(name, str) for name in names) else None
        parts = list(X.to_delayed())
        return parts, _lengths(parts)

    @property
    def reading(self) -> Reading:
        """What makes numbers of a chunk."""
        return Reading(self.name, self.mean, self.scale)

    def stored(self, rows: Rows) -> np.ndarray:
        """Some rows, cut out where they lie."""
        import dask

        ends = np.cumsum([0, *self.heights])
        where = np.arange(len(self))[rows]
        at = np.searchsorted(ends, where, side="right") - 1
        pick = dask.delayed(_picked, pure=False)
        wanted = [
            pick(self.parts[i], Parcel((self.name, where[at == i] - ends[i])))
            for i in np.unique(at)
        ]
        found = dask.compute(*wanted)
        none = np.empty((0, self.shape[1]))
        return np.concatenate(found) if found else none

    def each(self, work: Callable[[np.ndarray], Found]) -> Iterator[Found]:
        """What the work makes of each chunk, all at once."""
        import dask

        task = dask.delayed(_worked, pure=False)
        how = Parcel((self.reading, work))
        yield from dask.compute(*(task(part, how) for part in self.parts))


def _lengths(parts: list[Any]) -> list[int]:
    """How many rows each chunk has, which takes computing it."""
    import dask

    count = dask.delayed(len, pure=False)
    return list(dask.compute(*(count(part) for part in parts)))


def _picked(chunk: Any, how: Parcel) -> np.ndarray:
    """The rows of a chunk that are asked for."""
    name, rows = how.content
    found: np.ndarray = as_numbers(chunk, name)[rows]
    return found


def _worked(chunk: Any, how: Parcel) -> Any:
    """What the work makes of a chunk, where it lies."""
    reading, work = how.content
    return work(reading(chunk))
