"""What a likelihood can do, as small abstract classes with next to no code.

An engine names the capabilities it needs; a likelihood declares those it has by inheriting them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from thali.data import Augmented, Data, Table
from thali.hyperparameters import Hyperprior, Value, Values
from thali.likelihoods.entries import EntryDistribution
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.structures.base import Structure
from thali.structures.features import FEATURES, FeatureTables

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior
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


@dataclass
class GibbsState:
    """Where a chain that keeps its parameters is.

    ``data`` are complete: the data themselves, or ``Augmented`` ones where the likelihood draws
    entries; those given with gaps only where a density is asked of what was observed. ``bits`` is
    Z, (N, K) uint8 without empty columns, and ``hyper`` has a number for each hyperparameter.
    """

    data: Data
    bits: np.ndarray
    parameters: Parameters
    hyper: Values
    fresh: bool = False

    @property
    def observed(self) -> np.ndarray | None:
        """Where X was observed, (N, D), or has a latent of which something was; None where it was
        everywhere."""
        return self.data.given.observed

    @property
    def latent(self) -> np.ndarray:
        """The bits as they are recorded."""
        return self.bits.astype(bool)

    @property
    def n_components(self) -> int:
        return self.bits.shape[1]


class Turned(NamedTuple):
    """What a pass over the bits leaves for the step on own features, so as not to make it twice."""

    m: np.ndarray  # (K,) int64, rows that have each feature
    products: tuple[np.ndarray, ...] = ()  # of the data and the parameters


class GibbsUpdates(Conditional):
    """The parameters can be kept and updated by exact steps (uncollapsed Gibbs).

    ``axes`` names the parameters that are kept, each with its axis of features: 0, or 1 for those
    that have a row for each row of X, which ``update_bits`` updates along with the bits.
    Steps are asked of the likelihood as the user gave it (a number or a hyperprior each),
    change the state that they are given, and leave P(Z, parameters | X) invariant.
    ``initial_updates`` is how many updates of the parameters come before the first step, so that
    they belong to the Z that a chain begins with.
    """

    axes: ClassVar[dict[str, int]]
    initial_updates: ClassVar[int] = 1

    @abstractmethod
    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        """The parameters of k features, drawn from their prior."""

    @abstractmethod
    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        """One pass over all bits given the parameters; ``bits`` is the prior of each.

        Best given what was observed of each row alone (``state.observed``): what was drawn in its
        gaps was drawn given its bits, and holds them where they are. What it returns is handed to
        ``update_own``.
        """

    @abstractmethod
    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Draw anew the features that only one row has, and their parameters.

        Given the same entries as ``update_bits``. Missing entries are drawn after it, given these
        parameters too.
        """

    def update_matrix(
        self, rng: np.random.Generator, state: GibbsState, bits: BitPrior, tables: FeatureTables
    ) -> None:
        """Bits, then own features; a likelihood may do both in one call."""
        self.update_own(rng, state, tables, self.update_bits(rng, state, bits))

    @abstractmethod
    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """Draw scales (unless ``hold``) and parameters given Z.

        Returns what is added to log P([Z]) in the log joint: log P(X | Z) where the parameters can
        be integrated out, else ``log_density`` of the new ones.
        """

    @abstractmethod
    def log_density(self, state: GibbsState) -> float:
        """log P(X, parameters | Z); of the observed entries, where the state's data have gaps.

        Parameters that can be integrated out given the others are not among them.
        """

    def representative(self, state: GibbsState, draws: Iterable[Parameters]) -> Parameters:
        """Parameters that stand for draws of them given the state's Z: their means.

        Not where flipping signs, or the like, leaves the likelihood alone: then means are of no
        draw's like.
        """
        total: Parameters = {}
        count = 0
        for draw in draws:
            total = {name: total.get(name, 0.0) + value for name, value in draw.items()}
            count += 1
        return {name: value / count for name, value in total.items()}


class MovesSingly(GibbsUpdates):
    """It is known what one bit, and one feature that one row alone has, do to the density of a row
    (Metropolis)."""

    @abstractmethod
    def moving_rows(self, state: GibbsState, room: int) -> Any:
        """What ``kernels/single_moves`` changes along with Z, with room for so many features.

        A NamedTuple that the kernel has functions of; the fields that are called as the parameters
        in ``axes`` hold these.
        """


class EstimatesEvidence(FeatureLikelihood):
    """Of states with different Z it can be told which is better, where P(X | Z) is not known.

    A density of the parameters themselves cannot tell: it rises with their number and with the
    unit in which they are measured.
    """

    @abstractmethod
    def estimate_evidence(self, rng: np.random.Generator, state: GibbsState) -> float:
        """An estimate of log P(X | Z), the parameters being a draw given X and Z."""


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


class LatentGaussians(Masked, GibbsUpdates):
    """What is seen of X depends on latent Gaussians Z A + noise, one for each column of A.

    The state's data are ``Augmented`` by draws of them, ``whole``: steps on Z take these as data of
    the linear-Gaussian model with noise one, and integrate those out of which nothing was observed.
    A is kept with a draw, whether a step on Z integrates it out or not.
    """

    @abstractmethod
    def refreshed(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: Values,
        hold: bool = False,
        fresh: bool = False,
    ) -> tuple[Data, Parameters, float]:
        """New latents, new parameters, and log P(X, parameters | Z) given hyperparameters, which
        are drawn too, into ``hyper``; the noise stays where ``hold`` says so.

        Leaves the posterior given Z invariant.
        """


class LatentBits(LatentGaussians):
    """A row has a feature or not, so that A can be integrated out given the latents: ``refreshed``
    looks at no parameters."""


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


class SearchRows(FeatureLikelihood):
    """A search can build Z row by row (beam search): a promise that there are ``Collapsed`` and
    ``GaussianRows``, A being integrated out, or ``CountedFeatures``, A being at its best."""


class CountProbabilities(NamedTuple):
    """log P(x | c) by c and x (K + 1, 2), and log P(y) of an active and of an idle feature."""

    table: np.ndarray
    on: float
    off: float


class CountedFeatures(Conditional, SearchRows):
    """X and the one parameter "A" (K×D) are of 0 and 1, the entries of A independent and alike, and
    P(x_nd = 1 | z_n, a_d) depends on the number z_n·a_d alone, with which it rises.

    ``of_features`` names the hyperparameters of which data without features say nothing.
    """

    of_features: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def count_probabilities(self, most: int) -> CountProbabilities:
        """Of entries with up to ``most`` active features, hyperparameters being numbers."""


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
