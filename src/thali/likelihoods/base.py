"""What a likelihood can do, as small abstract classes with next to no code.

An engine names the capabilities it needs; a likelihood declares those it has by inheriting them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from thali.data import Data
from thali.structures import FeatureTables


class FeatureLikelihood(ABC):
    """A law of the data given a binary feature matrix.

    ``starts`` names the starts that suit it. Where "race" is not among them, as when log joints of
    different Z do not compare, an engine left to race begins from the first.
    """

    structure = "features"
    starts: ClassVar[tuple[str, ...]] = ("race", "ica", "columns", "prior", "empty")

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
    """The parameters can be integrated out: log P(X | Z), and drawn exactly given X and Z."""

    @abstractmethod
    def log_marginal(self, X: Any, Z: Any) -> float:
        """log P(X | Z), parameters integrated out."""

    @abstractmethod
    def features(self, X: Any, Z: Any) -> np.ndarray:
        """E[A | X, Z]."""

    @abstractmethod
    def draw_features(self, rng: np.random.Generator, X: Any, Z: Any) -> np.ndarray:
        """Draw A given X and Z."""


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

    def mean(self, Z: Any, A: Any) -> np.ndarray:
        """E[X | Z, A]: Z A, unless the likelihood says otherwise."""
        return np.asarray(Z, float) @ np.asarray(A, float)


Parameters = dict[str, np.ndarray]


class GibbsUpdates(Conditional):
    """The parameters can be kept and updated by exact steps (uncollapsed Gibbs).

    ``axes`` names the parameters that are kept, each with its axis of features: 0, or 1 for those
    that have a row for each row of X, which ``update_bits`` updates along with the bits.
    Steps are asked of the likelihood as the user gave it (a hyperparameter is a number or a law);
    ``hyper`` has a number for each. Z is (N, K) uint8 without empty columns, and every step leaves
    P(Z, parameters | X) invariant. ``settling`` is how many updates of the parameters come before
    the first step, so that they belong to the Z that a chain begins with.
    """

    axes: ClassVar[dict[str, int]]
    settling: ClassVar[int] = 1

    @abstractmethod
    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: dict[str, float]
    ) -> Parameters:
        """The parameters of k features, drawn from their prior."""

    @abstractmethod
    def update_bits(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
        bits: Any,
    ) -> Any:
        """One pass over all bits given the parameters, in place; ``bits`` is a kernel BitPrior.

        What it returns is handed to ``update_own``: products of the data worth making once.
        """

    @abstractmethod
    def update_own(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
        tables: FeatureTables,
        work: Any,
    ) -> tuple[np.ndarray, Parameters]:
        """Draw anew the dishes that only one row has; the new Z and its parameters."""

    @abstractmethod
    def update_parameters(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
        hold: bool,
    ) -> tuple[Parameters, float]:
        """Draw scales (in ``hyper``, unless ``hold``) and parameters given Z.

        Also returns what is added to log P([Z]) in the log joint: log P(X | Z) where the
        parameters can be integrated out, else ``log_density`` of the new ones.
        """

    @abstractmethod
    def log_density(
        self, data: Data, Z: np.ndarray, parameters: Parameters, hyper: dict[str, float]
    ) -> float:
        """log P(X, parameters | Z)."""


class JudgesMatrix(FeatureLikelihood):
    """Of places with different Z it can be told which is better, where P(X | Z) is not known.

    A density of the parameters themselves cannot tell: it rises with their number and with the
    unit in which they are measured.
    """

    @abstractmethod
    def judge(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
    ) -> float:
        """An estimate of log P(X | Z), the parameters being a draw given X and Z."""


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
