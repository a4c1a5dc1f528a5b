"""The distribution of single counts: x ~ Poisson(mean)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import gammaln, pdtr, xlogy

from thali.likelihoods.entries import EntryDistribution


@dataclass(frozen=True)
class PoissonEntries(EntryDistribution):
    """x is a count with expectation ``mean``.

    >>> PoissonEntries(np.array([[0.0, 3.0], [0.0, 5.0]])).mixed_quantile(0.5).tolist()
    [0.0, 4.0]
    """

    mean: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return self.mean

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(self.mean).astype(float)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(xlogy(values, self.mean) - self.mean - gammaln(values + 1.0))

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        return cls(np.array([part.mean for part in parts]))

    def mixed_quantile(self, p: float) -> np.ndarray:
        """The least count at or below which there is p of the mass: by doubling, then halving."""

        def enough(count: np.ndarray) -> np.ndarray:
            return np.asarray(pdtr(count, self.mean).mean(axis=0) >= p)

        low = np.full(self.mean.shape[1:], -1.0)  # never enough
        high = np.maximum(np.ceil(self.mean.max(axis=0)), 1.0)
        while not (found := enough(high)).all():
            high = np.where(found, high, 2.0 * high)
        while (high - low > 1.0).any():
            middle = np.floor(0.5 * (low + high))
            found = enough(middle)
            low, high = np.where(found, low, middle), np.where(found, middle, high)
        return high
