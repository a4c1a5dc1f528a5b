"""The distribution of single entries of X, independent of each other: what fills in gaps.

Each has a mean and a variance for every entry, draws, densities, and quantiles of mixtures of
itself over draws of the posterior.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

HALVINGS = 60  # of the bracket around a quantile: to the last digit


class EntryDistribution(ABC):
    """Entries with means ``mean`` and variances ``variance``, (entries,) or (draws, entries)."""

    mean: np.ndarray

    @property
    @abstractmethod
    def variance(self) -> np.ndarray:
        """The variance of each entry."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """One value of each entry."""

    @abstractmethod
    def log_density(self, values: np.ndarray) -> np.ndarray:
        """The log density, or log probability, of a value of each entry."""

    @classmethod
    @abstractmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        """Those of the same entries given different draws, as one of shape (draws, entries)."""

    @abstractmethod
    def mixed_quantile(self, p: float) -> np.ndarray:
        """Where the mixture over draws (the first axis, with equal weights) has p of its mass."""


@dataclass(frozen=True)
class NormalEntries(EntryDistribution):
    """x ~ N(mean, sd²)."""

    mean: np.ndarray
    sd: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return np.square(self.sd)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(self.mean + self.sd * rng.standard_normal(self.mean.shape))

    def log_density(self, values: np.ndarray) -> np.ndarray:
        deviation = (values - self.mean) / self.sd
        return np.asarray(-0.5 * np.square(deviation) - np.log(self.sd) - 0.5 * np.log(2.0 * np.pi))

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        return cls(np.array([part.mean for part in parts]), np.array([part.sd for part in parts]))

    def mixed_quantile(self, p: float) -> np.ndarray:
        """By halving: it lies between the smallest and the largest of the draws' own."""
        ends = self.mean + ndtri(p) * self.sd
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            below = ndtr((middle - self.mean) / self.sd).mean(axis=0) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))


@dataclass(frozen=True)
class BinaryEntries(EntryDistribution):
    """x is 1 with probability ``mean``, else 0."""

    mean: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return self.mean * (1.0 - self.mean)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(self.mean.shape) < self.mean).astype(float)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(values > 0.5, np.log(self.mean), np.log1p(-self.mean))

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        return cls(np.array([part.mean for part in parts]))

    def mixed_quantile(self, p: float) -> np.ndarray:
        """0 where at least p of the mass is there, else 1."""
        return (1.0 - self.mean.mean(axis=0) < p).astype(float)
