"""Blocks of rows that come by turns, such as from a database, and how many rows there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from thali.data.elsewhere.files import Mapped, Scratch
from thali.data.elsewhere.source import as_numbers
from thali.data.sparse import is_sparse
from thali.settings import shown, whole_number


class RowBlocks:
    """X as blocks of rows, one after the other.

    Parameters
    ----------
    blocks : iterable of arrays or data frames, each of shape (some rows, D)
        A generator will do: each block is looked at once, and copied to a scratch file.
    n_rows : int
        How many rows there are in all.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> rows = RowBlocks((X[i : i + 20] for i in range(0, 60, 20)), n_rows=60)
    >>> engine = thali.Variational(truncation=8)
    >>> thali.LatentFeatures(engine=engine, random_state=0).fit(rows).Z_.shape[0]
    60
    """

    def __init__(self, blocks: Iterable[Any], n_rows: int) -> None:
        if isinstance(blocks, str | bytes) or not isinstance(blocks, Iterable):
            raise TypeError(
                f"RowBlocks: blocks={shown(blocks)} is no iterable of blocks of rows, such as a "
                "list or a generator of arrays."
            )
        self.blocks = blocks
        self.n_rows = whole_number("RowBlocks", "n_rows", n_rows, 1)
        self._copy: Mapped | None = None

    def source(self) -> Mapped:
        """All rows in a scratch file, which is written at the first call."""
        if self._copy is None:
            self._copy = self._copied()
        return self._copy

    def _copied(self) -> Mapped:
        scratch: Scratch | None = None
        columns: list[str] | None = None
        for i, block in enumerate(self.blocks):
            part = checked(block, i)
            if scratch is None:
                scratch = Scratch((self.n_rows, part.shape[1]), "X")
                columns = names_of(block)
            elif part.shape[1] != scratch.shape[1]:
                raise ValueError(
                    f"Block {i} of X has {part.shape[1]} columns where block 0 has "
                    f"{scratch.shape[1]}."
                )
            if scratch.rows + len(part) > self.n_rows:
                raise ValueError(
                    f"X has more rows than the n_rows={self.n_rows:,} that RowBlocks announced: "
                    f"{scratch.rows + len(part):,} by the end of block {i}."
                )
            scratch.write(part)
        if scratch is None:
            raise ValueError("X has no blocks: the iterable given to RowBlocks is empty.")
        if scratch.rows < self.n_rows:
            raise ValueError(
                f"X has {scratch.rows:,} rows, fewer than the n_rows={self.n_rows:,} that "
                "RowBlocks announced."
            )
        found = scratch.done()
        found.labels = columns
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.blocks)


def checked(block: Any, i: int) -> np.ndarray:
    """A block as numbers, if it has rows and columns."""
    if is_sparse(block):
        raise TypeError(
            f"Block {i} of X is a sparse matrix; stack the blocks with scipy.sparse.vstack, and "
            "fit to what that gives."
        )
    name = f"Block {i} of X"
    part = as_numbers(block if hasattr(block, "dtypes") else np.asanyarray(block), name)
    if part.ndim != 2:
        raise ValueError(f"{name} must have rows and columns, not {part.ndim} dimensions.")
    if 0 in part.shape:
        raise ValueError(f"{name} is empty: {part.shape[0]} rows and {part.shape[1]} columns.")
    return part


def names_of(block: Any) -> list[str] | None:
    """The names of a data frame's columns, if they are text."""
    names = list(getattr(block, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None
