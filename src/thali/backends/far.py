"""Blocks of rows that lie elsewhere: a part of one is read when it is asked for, and not kept."""

from typing import NamedTuple, Protocol, cast

import numpy as np

from thali.backends.block import Block
from thali.data import Data
from thali.data.elsewhere import Source


class AnyBlock(Protocol):
    """What engines and backends ask of all rows; the products are asked of its parts."""

    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def masked(self) -> bool: ...
    def part(self, rows: slice) -> Block:
        """Some of the rows."""


class FarBlock(NamedTuple):
    """Rows of a source; ``masked`` tells whether entries may be missing.

    >>> from thali.data.elsewhere import FarData, RowBlocks
    >>> data = FarData.of_source(RowBlocks([[[1.0, 2.0], [3.0, np.nan]]], n_rows=2).source())
    >>> part = block_of(data, "float64").part(slice(1, 2))
    >>> part.X.tolist(), part.mask.tolist(), part.squares.tolist()
    ([[3.0, 0.0]], [[True, False]], [9.0])
    """

    source: Source
    masked: bool
    dtype: str

    @property
    def n(self) -> int:
        return self.source.shape[0]

    @property
    def d(self) -> int:
        return self.source.shape[1]

    @property
    def size(self) -> int:
        """N·D, whatever is missing."""
        return self.source.size

    def part(self, rows: slice) -> Block:
        """Some of the rows, in memory."""
        return near(self.source[rows], self.masked, self.dtype)


def near(X: np.ndarray, masked: bool, dtype: str) -> Block:
    """A block of rows that were read; of a ``masked`` whole even if this part has no gaps."""
    data = Data(X, ~np.isnan(X) if masked else None)
    return Block.of(data, dtype)


def block_of(data: Data, dtype: str) -> AnyBlock:
    """All rows of the data, in this precision."""
    if data.far:
        return FarBlock(cast(Source, data.X), data.observed is not None, dtype)
    return Block.of(data, dtype)
