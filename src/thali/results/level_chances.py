"""How probable each level of a missing entry is, column by column."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from thali.data import Data
from thali.results.fit import Fit
from thali.results.imputation import missing_entries_of
from thali.results.own_values import OwnValues

ROUNDING = 1e-9  # of columns that were centered or scaled, and back
NO_LEVELS = (
    "impute_proba: no column of the data is of 0 and 1. impute(interval=0.9) tells how sure "
    "numbers are; likelihood='mixed' takes columns with levels."
)


class LevelChances(dict[Hashable, np.ndarray]):
    """A mapping from columns with levels to the probabilities of their missing entries.

    Of a binary column P(second level), (missing,); of others (missing, levels).

    Attributes
    ----------
    rows : mapping from the same columns to the rows of their missing entries, counted from 0
    levels : mapping from the same columns to their levels, in the order of the probabilities
    """

    def __init__(self, names: Sequence[Any] | None = None) -> None:
        super().__init__()
        self.rows: dict[Hashable, np.ndarray] = {}
        self.levels: dict[Hashable, tuple[Any, ...]] = {}
        self._names = names

    def put(self, key: Hashable, rows: np.ndarray, levels: tuple[Any, ...], p: np.ndarray) -> None:
        """Add a column."""
        self[key], self.rows[key], self.levels[key] = p, rows, levels

    def table(self, column: Hashable) -> pd.DataFrame:
        """The probabilities of a column: a row for each missing entry, a column for each level.

        >>> chances = LevelChances(["Anu", "Ben"])
        >>> chances.put("dal", np.array([1]), ("no", "yes"), np.array([0.75]))
        >>> chances.table("dal")
                no   yes
        Ben   0.25  0.75
        """
        p, rows = self[column], self.rows[column]
        index = rows if self._names is None else pd.Index(self._names)[rows]
        both = np.stack([1.0 - p, p], axis=1)[:, : len(self.levels[column])] if p.ndim == 1 else p
        return pd.DataFrame(both, index=index, columns=list(self.levels[column]))


def of_table(
    fit: Fit, labels: Sequence[Hashable], names: Sequence[Any] | None, new: Data | None = None
) -> LevelChances:
    """Of a table with columns of different kinds, or of new rows of it."""
    missing, found = OwnValues.missing(fit, new), LevelChances(names)
    for d, column in enumerate(missing.layout.columns):
        if missing.has_levels(d):
            p = missing.probabilities(d)
            if len(column.levels) <= 2:  # the second may be one that no row has
                p = p[:, 1] if p.shape[1] == 2 else np.zeros(len(p))
            found.put(labels[d], missing.rows_of(d), column.levels, p)
    return found


def of_bits(
    fit: Fit,
    X: np.ndarray,
    center: np.ndarray,
    scale: np.ndarray,
    labels: Sequence[Hashable],
    names: Any,
    new: Data | None = None,
) -> LevelChances:
    """Of the columns of a table of numbers that are 0 and 1: P(1) is the entry's mean, which a
    Gaussian may have outside of 0 and 1, and is then moved there. X was fitted as
    (X − center)/scale, and is 0 and 1 but for the rounding of that."""
    rows, columns = (fit.data if new is None else new).where_missing
    mean = missing_entries_of(fit, new).mean() * scale[columns] + center[columns]
    found = LevelChances(names)
    for d, label in enumerate(labels):
        seen = X[~np.isnan(X[:, d]), d]
        if (np.minimum(np.abs(seen), np.abs(seen - 1.0)) < ROUNDING).all():
            own = columns == d
            found.put(label, rows[own], (0, 1), np.clip(mean[own], 0.0, 1.0))
    if not found:
        raise ValueError(NO_LEVELS)
    return found
