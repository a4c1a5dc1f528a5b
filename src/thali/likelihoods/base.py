"""What a likelihood can do, as small abstract classes with next to no code.

An engine names the capabilities it needs; a likelihood declares those it has by inheriting them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from thali.data import Augmented, Data, Table
from thali.hyperparameters import Hyperprior, Value, Values
from thali.likelihoods.entries import EntryDistribution
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.structures.base import Structure
from thali.structures.features import FEATURES

if TYPE_CHECKING:
    from thali.likelihoods.linear_gaussian import PredictiveRows

Parameters = dict[str, np.ndarray]
Scale = float | Hyperprior | str  # a number, a hyperprior of it, or "auto"


class Words(NamedTuple):
    """What the report says of a likelihood: what a component is, and how components make a row."""

    feature: str
    model: str


class Likelihood(ABC):
    """A distribution of the data given a value of a latent structure.

    ``starts`` names the starts that suit it, in the order in which they enter a race. Where "race"
    is not among them, as when log joints of different values do not compare, an engine left to race
    begins from the first. ``words`` are what the report says of it.
    """

    structure: ClassVar[Structure[Any]]
    starts: ClassVar[tuple[str, ...]]
    words: ClassVar[Words]
    spectrum: ClassVar[bool] = True  # whether its starts look at the data's singular values
    any_units: ClassVar[bool] = True  # whether data may be in others: not 0 and 1, or counts

    def check_data(self, data: Data) -> None:  # noqa: B027 most take any numbers
        """Refuse data that the likelihood gives no probability to."""

    def specialized(self) -> Likelihood:
        """What a model takes in its place: another, where one of its settings makes it another."""
        return self

    @abstractmethod
    def at(self, **numbers: Value) -> Self:
        """The same likelihood with hyperparameters fixed at numbers."""

    @abstractmethod
    def resolve(self, data: Data) -> Self:
        """The same likelihood with every "auto" replaced by a hyperprior scaled to the data."""

    @abstractmethod
    def start(self, data: Data) -> dict[str, Value]:
        """A number for every hyperparameter: the fixed one, or a guess from the data."""

    def work(self, data: Data, n_components: int) -> float:
        """About how many multiply-adds a sweep of a sampler over all rows takes."""
        return float(data.n * n_components * data.d)

    def guess(self, data: Data) -> Data:
        """Complete data for starts to look at, a first guess in place of what is missing."""
        return data.filled

    def augments(self, data: Data) -> bool:
        """Whether a sampler of these data needs ``augment`` at all."""
        return False

    def augment(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray, parameters: Parameters
    ) -> Data:
        """Complete data, drawn given Z, the parameters and ``data.given``; these where none are
        needed. ``data`` may be what it returned last.

        A sampler calls it once a step, between steps on Z given what was observed and steps on the
        parameters given the data that come back: that leaves the posterior given what was observed
        invariant. A likelihood with missing entries draws them here (``Masked``). One whose entries
        are not Gaussian may draw latent Gaussians here, of observed entries too, as ``Augmented``
        data: then kernels and updates of Gaussian data run unchanged on their X, and densities are
        told of ``given``.
        """
        return data


class TakesMissing(Likelihood):
    """Entries of X may be missing."""


class FeatureLikelihood(Likelihood):
    """A distribution of the data given a binary feature matrix."""

    structure = FEATURES
    starts: ClassVar[tuple[str, ...]] = ("race", "ica", "columns", "empty", "prior")
    words: ClassVar[Words] = Words(
        "Each feature is a pattern that some of the rows have, most frequent first.",
        "A row of the data X is made by the features A that it has (Z says which: 1 or 0).",
    )

    def of_columns(self, which: np.ndarray, hyper: Values) -> tuple[Self, Values]:
        """The same, and its hyperparameters, for these columns of the data alone (D,) bool."""
        return self, hyper

    def work(self, data: Data, n_components: int) -> float:
        k, width = n_components, min(data.n, data.d) if data.observed is None else data.d
        return data.n * (k * width + 8.0 * k * k) + 2.0 * k * k * data.missing


class Collapsed(FeatureLikelihood):
    """The parameters can be integrated out: log P(X | Z), and drawn exactly given X and Z.

    X is ``Data``, which engines give, or whatever ``Data.of`` makes them from.
    """

    @abstractmethod
    def log_marginal(self, X: Table, Z: ArrayLike) -> float:
        """log P(X | Z), parameters integrated out."""

    @abstractmethod
    def features(self, X: Table, Z: ArrayLike) -> np.ndarray:
        """E[A | X, Z]."""

    @abstractmethod
    def draw_features(self, rng: np.random.Generator, X: Table, Z: ArrayLike) -> np.ndarray:
        """Draw A given X and Z."""

    def draw_features_and_evidence(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """A draw of A for ``augment`` to draw entries by, and log P(what was given | Z).

        Given the data as they were augmented last, unless A can be drawn given less.
        """
        return self.draw_features(rng, data, Z), self.log_marginal(data.given, Z)


class Conditional(FeatureLikelihood):
    """The parameters A can be kept: log P(X | Z, A), and draws of A and X."""

    @abstractmethod
    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        """Draw A from its prior."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """Draw X given Z and A."""

    @abstractmethod
    def log_likelihood(self, X: Table, Z: ArrayLike, A: ArrayLike) -> float:
        """log P(X | Z, A) of the observed entries; X is ``Data``, or what ``Data.of`` takes."""

    def mean(self, Z: ArrayLike, A: ArrayLike) -> np.ndarray:
        """E[X | Z, A]: Z A, unless the likelihood says otherwise."""
        return np.asarray(Z, float) @ np.asarray(A, float)


class Masked(FeatureLikelihood, TakesMissing):
    """Entries of X may be missing: every method takes ``Data`` with gaps, and counts what was
    observed.

    ``sums_amounts`` says that ``log_rows`` is known: that a row has no amounts of its own, or that
    they can be integrated out.
    """

    sums_amounts: ClassVar[bool] = True

    @abstractmethod
    def entries(
        self, Z: ArrayLike, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> EntryDistribution:
        """The distribution of the entries at (rows, columns), given Z and the parameters."""

    def log_rows(self, data: Data, bits: np.ndarray, parameters: Parameters) -> np.ndarray:
        """log P(x | z, parameters) of new rows (n, D) under each row z of bits (B, K): (n, B)."""
        where = (np.arange(len(bits))[:, None], np.arange(data.d))
        logs = self.entries(bits, parameters, where).log_density(data.zeroed[:, None])
        if data.observed is not None:
            logs = np.where(data.observed[:, None], logs, 0.0)
        return np.asarray(logs.sum(axis=2))

    def augments(self, data: Data) -> bool:
        """Where entries are missing."""
        return data.observed is not None

    def augment(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray, parameters: Parameters
    ) -> Data:
        """The data with every missing entry drawn given Z and the parameters."""
        data = data.given
        if not self.augments(data):
            return data
        X = data.X.copy()
        X[data.where_missing] = self.entries(Z, parameters, data.where_missing).draw(rng)
        return Augmented(X, source=data)


class MaskedCollapsed(Masked, Collapsed):
    """The parameters can be integrated out also where entries of X are missing."""

    @abstractmethod
    def missing_entries(self, X: Table, Z: ArrayLike) -> EntryDistribution:
        """The distribution of each missing entry given Z and what was observed, row by row."""


class TakesSparse(Likelihood):
    """X may be a sparse matrix, to every method that an engine with ``sparse`` asks for, and is
    never made dense: of X features need products with matrices of few columns, and sums of
    squares."""


class Scaled(FeatureLikelihood):
    """Gaussian noise of scale ``sigma_x``, and features of scale ``sigma_a``."""

    @property
    @abstractmethod
    def sigma_x(self) -> Scale:
        """The size of the noise."""

    @property
    @abstractmethod
    def sigma_a(self) -> Scale:
        """The size of the features."""


class GaussianRows(Scaled):
    """Rows of the form x | z ~ N(zμ, σ_x²(1 + z M zᵀ)I) with M = (ZᵀZ + rI)⁻¹, μ = M ZᵀX.

    The compiled collapsed sweep is written for it.
    """

    @abstractmethod
    def rows(self, X: Table, Z: ArrayLike) -> PredictiveRows:
        """The predictive form of complete data."""


class Expected(FeatureLikelihood):
    """X = W A + E with Gaussian noise, W = Z or Z ⊙ S: expectations under independent distributions
    of rows and features are known (variational).

    Of a ``Scaled`` likelihood the noise has size ``sigma_x``; that of the latents of a table is
    one.
    """

    @property
    @abstractmethod
    def amounts(self) -> str | None:
        """The distribution of amounts S, "laplace" or "gaussian"; None where W = Z."""

    @abstractmethod
    def feature_posterior(self, k: int, d: int, sigma_a: float, joint: bool) -> FeaturePosterior:
        """The prior of A, to begin from; ``joint`` over features where it can be so."""


class ExpectedBits(Expected):
    """A row has a feature or not: W = Z (maximization-expectation)."""

    @property
    def amounts(self) -> str | None:
        return None
