"""What a likelihood can do, as small abstract classes without code.

An engine names the capabilities it needs; a likelihood declares those it has by inheriting them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from thali.data import Data


class FeatureLikelihood(ABC):
    """A law of the data given a binary feature matrix."""

    structure = "features"

    @abstractmethod
    def at(self, **numbers: float) -> Self:
        """The same likelihood with hyperparameters fixed at numbers."""

    @abstractmethod
    def resolve(self, data: Data) -> Self:
        """The same likelihood with every "auto" replaced by a law scaled to the data."""

    @abstractmethod
    def start(self, data: Data) -> dict[str, float]:
        """A number for every hyperparameter: the fixed one, or a guess from the data."""


class Collapsed(FeatureLikelihood):
    """The parameters can be integrated out: log P(X | Z)."""

    @abstractmethod
    def log_marginal(self, X: Any, Z: Any) -> float:
        """log P(X | Z), parameters integrated out."""


class Conditional(FeatureLikelihood):
    """The parameters A can be kept: log P(X | Z, A), and draws of A and X."""

    @abstractmethod
    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        """Draw A from its prior."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, Z: Any, A: Any) -> np.ndarray:
        """Draw X given Z and A."""

    @abstractmethod
    def log_likelihood(self, X: Any, Z: Any, A: Any) -> float:
        """log P(X | Z, A)."""

    @abstractmethod
    def features(self, X: Any, Z: Any) -> np.ndarray:
        """E[A | X, Z]."""

    @abstractmethod
    def draw_features(self, rng: np.random.Generator, X: Any, Z: Any) -> np.ndarray:
        """Draw A given X and Z."""


class Masked(FeatureLikelihood):
    """Entries of X may be missing: NaN in X, to every method, is an entry that was not observed."""

    @abstractmethod
    def missing_entries(self, X: Any, Z: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each missing entry given Z and what was observed, row by row."""


class RowUpdates(FeatureLikelihood):
    """A row can be removed, scored and added by rank-one changes (collapsed Gibbs, search)."""

    @abstractmethod
    def rows(self, X: Any, Z: Any) -> Any:
        """The predictive form, ready for rows to leave and return."""


class GaussianRows(RowUpdates):
    """Rows of the form x | z ~ N(zμ, σ_x²(1 + z S zᵀ)I) with S = (ZᵀZ + rI)⁻¹, μ = S ZᵀX.

    It has scales ``sigma_x`` and ``sigma_a``; the compiled collapsed sweep is written for it.
    """
