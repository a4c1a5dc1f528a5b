"""Data that are read by blocks: what is known of all rows, and a sample of them in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from thali.data.elsewhere.source import Rows, Source
from thali.data.matrix import Data


class Gaps:
    """Which entries were observed, block by block, as ``Data.observed`` is of a matrix."""

    def __init__(self, source: Source) -> None:
        self.source, self.shape, self.size = source, source.shape, source.size

    def __getitem__(self, rows: Rows) -> np.ndarray:
        return np.asarray(~np.isnan(self.source[rows]))


@dataclass(frozen=True)
class FarData(Data):
    """Data of a source: X is read by rows, and so is ``observed``.

    >>> from thali.data.elsewhere import RowBlocks
    >>> data = FarData.of_source(RowBlocks([[[1.0, 2.0]], [[3.0, np.nan]]], n_rows=2).source())
    >>> data.n, data.missing, data.total_square, data.X[:1].tolist()
    (2, 1, 14.0, [[1.0, 2.0]])
    """

    X: Any
    observed: Any = None

    @classmethod
    def of_source(cls, source: Source) -> FarData:
        """Checked in one pass."""
        return cls(source, Gaps(source) if source.survey.missing else None)

    @property
    def far(self) -> bool:
        return True

    @cached_property
    def mean_square(self) -> float:
        survey = self.X.survey
        return float(survey.squares / (self.X.size - survey.missing))

    @cached_property
    def total_square(self) -> float:
        return float(self.X.survey.squares)

    @property
    def missing(self) -> int:
        return int(self.X.survey.missing)

    # what would need all of X at once

    @property
    def reduced(self) -> NoReturn:
        self._refuse()

    squares = singular_values = binary = centered_gram = reduced
    zeroed = filled = patterns = seen = where_missing = reduced

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"This needs all of X in memory, but the model was fitted to {self.X.name}, which is "
            "read by blocks of rows; fit to an array, if it fits in memory."
        )
