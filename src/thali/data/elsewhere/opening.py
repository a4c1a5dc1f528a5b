"""What names rows that lie elsewhere: paths, memory maps, Dask's collections, blocks by turns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from thali.data import matrix
from thali.data.elsewhere.blocks import RowBlocks
from thali.data.elsewhere.collections import DaskRows, kind_of
from thali.data.elsewhere.files import Mapped, Zarr, copied, where_in_file
from thali.data.elsewhere.parquet import from_parquet
from thali.data.elsewhere.source import Source, as_numbers

READS = {".npy": Mapped.of_file, ".zarr": Zarr.of_path, ".parquet": from_parquet}
LARGE = 1e8  # bytes of a memory map that could be written to, below which it is copied


def opened(X: Any) -> Any:
    """A source, if X names rows that lie elsewhere; X itself if it is in memory.

    >>> opened([[1.0]])
    [[1.0]]
    >>> opened("nowhere.npy")
    Traceback (most recent call last):
    FileNotFoundError: X is the path nowhere.npy, where there is nothing.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, RowBlocks):
        return X.source()
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "biuf":
        if X.flags.writeable and X.nbytes <= LARGE:
            return X
        if where_in_file(X) is None:  # some columns, or every other row
            return copied((X[rows] for rows in matrix.blocks(X)), X.shape, "X")
        return Mapped(X, "X")
    if isinstance(X, str | os.PathLike):
        return of_path(Path(X))
    if type(X).__module__.startswith("zarr") and hasattr(X, "chunks"):
        return Zarr(X, "X")
    if hasattr(X, "__next__"):
        raise TypeError(
            "X is an iterator; say how many rows it has in all: thali.RowBlocks(blocks, n_rows=…)."
        )
    kind = kind_of(X)
    if kind == "other":
        raise TypeError(
            f"X is a {type(X).__name__} of Dask; make it a dask.array or a dask.dataframe first."
        )
    return X if kind is None else DaskRows(X)


def of_path(path: Path) -> Source:
    """The source in a file or folder, by the end of its name."""
    read = READS.get(".zarr" if _inside_zarr(path) else path.suffix.lower())
    if read is None:
        raise TypeError(
            f"X is a path ({path}), not a table; read it first with "
            "thali.data.tables.read_table(path).values, or use the command line, `thali --help`. "
            f"Paths that end in {', '.join(READS)} are read by blocks of rows."
        )
    if not path.exists() and not _inside_zarr(path):
        raise FileNotFoundError(f"X is the path {path}, where there is nothing.")
    return read(path)


def _inside_zarr(path: Path) -> bool:
    """Whether it is an array within a Zarr group."""
    return any(parent.suffix.lower() == ".zarr" and parent.exists() for parent in path.parents)


def here(source: Source) -> Source:
    """The same rows to be read in this process: what Dask would compute at every pass is computed
    once, chunk by chunk, into a scratch file."""
    if not isinstance(source, DaskRows):
        return source
    heights = np.cumsum([0, *source.heights])
    size = max(1, matrix.BLOCK // source.shape[1])

    def blocks() -> Any:
        for part, first, last in zip(source.parts, heights, heights[1:], strict=False):
            chunk = as_numbers(part.compute(), source.name)
            if len(chunk) != last - first:
                raise ValueError(
                    f"{source.name} has a chunk of {len(chunk)} rows, where {last - first} were "
                    "announced."
                )
            yield from (chunk[i : i + size] for i in range(0, len(chunk), size))

    found = copied(blocks(), source.shape, source.name)
    found.labels = source.labels
    return found
