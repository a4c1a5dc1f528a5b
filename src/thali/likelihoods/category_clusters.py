"""What clusters of columns with a few values have in common: counts of values by cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import pandas as pd
from scipy.special import gammaln

from thali.data import Data
from thali.hyperparameters import Value, Values, as_number, check_hyperparameters
from thali.likelihoods.cluster_families import Family
from thali.likelihoods.clusters import (
    ExpectedClusters,
    Groups,
    IntegratesGaps,
    ProfileWords,
    sums_by_label,
)
from thali.settings import Settings, hyperparameters_of

Levels = tuple[tuple[float, ...], ...]  # the values of each column


class CategoryClusters(Settings, IntegratesGaps, ExpectedClusters):
    """P(x_nd = v | cluster) = θ_dv with θ_d ~ Dirichlet(``weights``), integrated out."""

    profile_words = ProfileWords("probability of the value", False)

    def __post_init__(self) -> None:
        check_hyperparameters(self)

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def levels_of(self, data: Data) -> Levels:
        """The values of each column; data that have others are refused."""
        raise NotImplementedError

    def weights_of(self, hyper: Values, levels: Levels) -> np.ndarray:
        """The weight of every value, column after column."""
        raise NotImplementedError

    def codes_of(self, data: Data) -> np.ndarray:
        """The place of each entry among the values of its column, −1 where it is missing."""
        raise NotImplementedError

    def numbers(self) -> dict[str, float]:
        """The hyperparameters, all of them fixed."""
        owner = type(self).__name__
        return {k: as_number(owner, k, getattr(self, k)) for k in hyperparameters_of(self)}

    def groups(self, data: Data, room: int) -> Groups:
        from thali.kernels.categories import CategoryGroups

        levels = self.levels_of(data)
        first = np.concatenate([[0], np.cumsum([len(own) for own in levels])]).astype(np.int64)
        weights = self.weights_of(self.numbers(), levels)
        totals = np.add.reduceat(weights, first[:-1])
        made = [np.zeros((room, len(weights))), np.zeros((room, data.d))]
        return CategoryGroups(self.codes_of(data), first, weights, totals, *made)

    def family(self, data: Data) -> Family:
        from thali.likelihoods.dirichlet_families import Categories

        return Categories(self, data)

    def counts(self, data: Data, labels: np.ndarray) -> list[np.ndarray]:
        """How often each cluster has each value, (K, values) of each column."""
        codes = self.codes_of(data)
        return [
            sums_by_label((codes[:, d, None] == np.arange(len(own))).astype(float), labels)
            for d, own in enumerate(self.levels_of(data))
        ]

    def log_marginal_of(self, data: Data, labels: np.ndarray) -> Callable[[Values], float]:
        levels, counts = self.levels_of(data), np.hstack(self.counts(data, labels))
        first = np.concatenate([[0], np.cumsum([len(own) for own in levels])])[:-1].astype(int)
        seen = np.add.reduceat(counts, first, axis=1)

        def log_marginal(hyper: Values) -> float:
            weights = self.weights_of(hyper, levels)
            totals = np.add.reduceat(weights, first)
            found = (gammaln(weights + counts) - gammaln(weights)).sum()
            return float(found + (gammaln(totals) - gammaln(totals + seen)).sum())

        return log_marginal

    def chances(self, data: Data, labels: np.ndarray) -> list[np.ndarray]:
        """The expected probability of each value in each cluster, (K, values) of each column."""
        levels = self.levels_of(data)
        flat, found, at = self.weights_of(self.numbers(), levels), [], 0
        for counts in self.counts(data, labels):
            own = counts + flat[at : at + counts.shape[1]]
            found.append(own / own.sum(axis=1, keepdims=True))
            at += counts.shape[1]
        return found

    def profiles(self, data: Data, labels: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
        """The probability of each value in each cluster."""
        columns = {
            f"{name}={value:g}": chances[:, v]
            for name, own, chances in zip(
                names, self.levels_of(data), self.chances(data, labels), strict=True
            )
            for v, value in enumerate(own)
        }
        return pd.DataFrame(columns)
