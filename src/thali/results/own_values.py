r"""Entries of a table with columns of different kinds, in the columns' own codes, over draws.

Of a column and an entry of it, p_r = mean over draws of P(x = r | draw), and

                           mean                                    median
    real, positive, censored   E[x], the mean over draws of means      half of the mass is below
    count                      E[x], to the nearest whole number       the same
    ordinal                    E[place], to the nearest place          the same
    binary, categorical        the r with the largest p_r              the same r

Nothing is drawn: the same fit gives the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thali.data import Data
from thali.likelihoods.latent_columns import LEVELED, UNIT, Layout, kind_of
from thali.likelihoods.latent_entries import LatentEntries
from thali.likelihoods.table import TableLikelihood
from thali.results.fit import Fit
from thali.results.imputation import Strategy, missing_entries_of

BLOCK = 50_000  # entries of all draws that are looked at at a time


@dataclass(frozen=True)
class OwnValues:
    """Entries (draws, entries) of a table, at these rows and latents, row after row."""

    layout: Layout
    given: LatentEntries
    rows: np.ndarray

    @classmethod
    def missing(cls, fit: Fit, new: Data | None = None) -> OwnValues:
        """Those that are missing in the data of a fit, or in new rows."""
        given, data = missing_entries_of(fit, new).given, fit.data if new is None else new
        assert isinstance(given, LatentEntries)
        return cls(layout_of(fit), given.within_range(), data.where_missing[0])

    @classmethod
    def whole(cls, entries: LatentEntries) -> OwnValues:
        """All of whole rows, given one draw: v is (n, L)."""
        n, wide = entries.v.shape
        where = np.repeat(np.arange(n), wide), np.tile(np.arange(wide), n)
        return cls(entries.layout, LatentEntries.stack([entries.at(where)]), where[0])

    def rows_of(self, d: int) -> np.ndarray:
        """The rows that have an entry of column d here, in order."""
        return np.asarray(self.rows[self.given.latent == self.layout.first[d]])

    def has_levels(self, d: int) -> bool:
        """Whether the values of a column are levels."""
        return kind_of(self.layout.columns[d]) in UNIT

    def probabilities(self, d: int) -> np.ndarray:
        """p_r of the entries of a column with levels, (entries, levels)."""
        column, first = self.layout.columns[d], int(self.layout.first[d])
        levels = range(max(1, len(column.levels)))
        if kind_of(column) == LEVELED:
            found = [self._by_block(first + r, lambda own: own.chance.mean(axis=0)) for r in levels]
        else:
            found = [self._by_block(first, probability_of(r)) for r in levels]
        p = np.stack(found, axis=1)
        return np.asarray(p / p.sum(axis=1, keepdims=True))  # one, where there is but one level

    def codes(self, d: int, strategy: Strategy = "mean") -> np.ndarray:
        """The mean or median of each entry of a column; without order the most probable level."""
        if self.has_levels(d) and strategy == "mean":
            return self._likely(d, self.probabilities(d))
        if strategy == "median":
            return self.quantile(d, 0.5)
        mean = self._by_block(int(self.layout.first[d]), lambda own: own.mean.mean(axis=0))
        return np.asarray(np.rint(mean)) if self.layout.columns[d].kind == "count" else mean

    def std(self, d: int, strategy: Strategy = "mean") -> np.ndarray:
        """The standard deviation of numbers; of levels 1 − p_r of the one that ``codes`` says."""
        if self.has_levels(d):
            p = self.probabilities(d)
            told = self._likely(d, p) if strategy == "mean" else self.codes(d, strategy)
            return np.asarray(1.0 - p[np.arange(len(p)), told.astype(int)])
        return self._by_block(
            int(self.layout.first[d]),
            lambda own: np.sqrt(own.variance.mean(axis=0) + own.mean.var(axis=0)),
        )

    def _likely(self, d: int, p: np.ndarray) -> np.ndarray:
        """The level nearest to the mean of places, or the most probable where there is no order."""
        if self.layout.columns[d].kind == "ordinal":
            return np.asarray(np.rint(p @ np.arange(p.shape[1])))
        return np.asarray(p.argmax(axis=1), float)

    def quantile(self, d: int, p: float) -> np.ndarray:
        """Where the mixture over draws has p of its mass; levels without order are as expected."""
        if kind_of(self.layout.columns[d]) == LEVELED:
            return self._likely(d, self.probabilities(d))
        found = self._by_block(int(self.layout.first[d]), lambda own: own.mixed_quantile(p))
        levels = self.layout.columns[d].levels
        return np.minimum(found, max(0, len(levels) - 1)) if self.has_levels(d) else found

    def _by_block(self, j: int, told: Callable[[LatentEntries], np.ndarray]) -> np.ndarray:
        """What is told of the entries of one latent, some at a time, since there may be many."""
        at = np.flatnonzero(self.given.latent == j)
        step = max(1, BLOCK // max(1, len(self.given.v)))
        parts = [told(some(self.given, at[i : i + step])) for i in range(0, len(at), step)]
        return np.concatenate([np.zeros(0), *parts])


def some(entries: LatentEntries, at: np.ndarray) -> LatentEntries:
    """Those at these places of the last axis."""
    parts = {name: getattr(entries, name)[..., at] for name in ("latent", "v", "sd", "chance")}
    return replace(entries, **parts)


def probability_of(level: int) -> Callable[[LatentEntries], np.ndarray]:
    """The mean over draws of P(x = level) of binary and ordinal entries."""

    def told(own: LatentEntries) -> np.ndarray:
        return np.asarray(np.exp(own.log_density(np.full(own.v.shape, float(level)))).mean(axis=0))

    return told


def layout_of(fit: Fit) -> Layout:
    """Where the columns of a fitted table have their latents."""
    likelihood = fit.model.likelihood
    assert isinstance(likelihood, TableLikelihood)
    return likelihood.known


def observed_codes(layout: Layout, X: np.ndarray) -> np.ndarray:
    """Codes of a table, (N, D), of data with a column for each latent, (N, L)."""
    codes = np.empty((len(X), len(layout.columns)))
    for d in range(len(layout.columns)):
        if d in layout.leveled:
            level = layout.levels(X, d)
            codes[:, d] = np.where(level < 0, np.nan, level)
        else:
            codes[:, d] = X[:, layout.first[d]]
    return codes


def expected_codes(likelihood: TableLikelihood, Z: np.ndarray, A: np.ndarray) -> np.ndarray:
    """The codes expected of rows with features Z, (n, D), hyperparameters being numbers."""
    whole = OwnValues.whole(likelihood.entries_at(likelihood.latent_mean(Z, A)))
    columns: Sequence[np.ndarray] = [whole.codes(d) for d in range(len(likelihood.known.columns))]
    return np.stack(columns, axis=1)
