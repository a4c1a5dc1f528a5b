"""What a likelihood can do, as small abstract classes with next to no code.

An engine names the capabilities it needs; a likelihood declares those it has by inheriting them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from thali.data import Data
from thali.likelihoods.entries import EntryLaw
from thali.structures import FeatureTables
from thali.variational.features import FeatureLaw


class FeatureLikelihood(ABC):
    """A law of the data given a binary feature matrix.

    ``starts`` names the starts that suit it. Where "race" is not among them, as when log joints of
    different Z do not compare, an engine left to race begins from the first.
    """

    structure = "features"
    starts: ClassVar[tuple[str, ...]] = ("race", "ica", "columns", "prior", "empty")

    def check_data(self, data: Data) -> None:  # noqa: B027 most take any numbers
        """Refuse data that the likelihood gives no probability to."""

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


@dataclass
class Place:
    """Where a chain that keeps its parameters is.

    ``data`` are complete: where entries of X are missing they hold draws of them, and ``mask`` is
    True at those that were observed (None where all were). ``bits`` is Z, (N, K) uint8 without
    empty columns, and ``hyper`` has a number for each hyperparameter.
    """

    data: Data
    bits: np.ndarray
    parameters: Parameters
    hyper: dict[str, float]
    mask: np.ndarray | None = None

    @property
    def Z(self) -> np.ndarray:
        """The bits as they are recorded."""
        return self.bits.astype(bool)

    @property
    def n_features(self) -> int:
        return self.bits.shape[1]


class GibbsUpdates(Conditional):
    """The parameters can be kept and updated by exact steps (uncollapsed Gibbs).

    ``axes`` names the parameters that are kept, each with its axis of features: 0, or 1 for those
    that have a row for each row of X, which ``update_bits`` updates along with the bits.
    Steps are asked of the likelihood as the user gave it (a hyperparameter is a number or a law),
    change the place that they are given, and leave P(Z, parameters | X) invariant. ``settling`` is
    how many updates of the parameters come before the first step, so that they belong to the Z that
    a chain begins with.
    """

    axes: ClassVar[dict[str, int]]
    settling: ClassVar[int] = 1

    @abstractmethod
    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: dict[str, float]
    ) -> Parameters:
        """The parameters of k features, drawn from their prior."""

    @abstractmethod
    def update_bits(self, rng: np.random.Generator, place: Place, bits: Any) -> Any:
        """One pass over all bits given the parameters; ``bits`` is a kernel BitPrior.

        Best given what was observed of each row alone (``place.mask``): what was drawn in its gaps
        was drawn given its bits, and holds them where they are. What it returns is handed to
        ``update_own``: products of the data worth making once.
        """

    @abstractmethod
    def update_own(
        self, rng: np.random.Generator, place: Place, tables: FeatureTables, work: Any
    ) -> None:
        """Draw anew the features that only one row has, and their parameters.

        Given the same entries as ``update_bits``. Missing entries are drawn after it, given these
        parameters too.
        """

    def update_matrix(
        self, rng: np.random.Generator, place: Place, bits: Any, tables: FeatureTables
    ) -> None:
        """Bits, then own features; a likelihood may do both in one call."""
        self.update_own(rng, place, tables, self.update_bits(rng, place, bits))

    @abstractmethod
    def update_parameters(self, rng: np.random.Generator, place: Place, hold: bool) -> float:
        """Draw scales (unless ``hold``) and parameters given Z.

        Returns what is added to log P([Z]) in the log joint: log P(X | Z) where the parameters can
        be integrated out, else ``log_density`` of the new ones.
        """

    @abstractmethod
    def log_density(self, place: Place) -> float:
        """log P(X, parameters | Z); of the observed entries, where others are NaN.

        Parameters that can be integrated out given the others are not among them.
        """

    def typical(self, place: Place, draws: Iterable[Parameters]) -> Parameters:
        """Parameters that stand for draws of them given the place's Z: their means.

        Not where flipping signs, or the like, leaves the likelihood alone: then means are of no
        draw's like.
        """
        total: Parameters = {}
        count = 0
        for draw in draws:
            total = {name: total.get(name, 0.0) + value for name, value in draw.items()}
            count += 1
        return {name: value / count for name, value in total.items()}


class JudgesMatrix(FeatureLikelihood):
    """Of places with different Z it can be told which is better, where P(X | Z) is not known.

    A density of the parameters themselves cannot tell: it rises with their number and with the
    unit in which they are measured.
    """

    @abstractmethod
    def judge(self, rng: np.random.Generator, place: Place) -> float:
        """An estimate of log P(X | Z), the parameters being a draw given X and Z."""


class Masked(FeatureLikelihood):
    """Entries of X may be missing: NaN in X, to every method, is an entry that was not observed.

    ``sums_amounts`` says that ``log_rows`` is known: that a row has no amounts of its own, or that
    they can be integrated out.
    """

    sums_amounts: ClassVar[bool] = True

    def guess(self, data: Data) -> Data:
        """Complete data for starts to look at, a first guess in place of what is missing."""
        return data.filled

    @abstractmethod
    def entries(self, Z: Any, parameters: Parameters, where: tuple[np.ndarray, ...]) -> EntryLaw:
        """The law of the entries at (rows, columns), given Z and the parameters."""

    def log_rows(self, X: np.ndarray, bits: np.ndarray, parameters: Parameters) -> np.ndarray:
        """log P(x | z, parameters) of new rows X (n, D) under each row z of bits (B, K): (n, B)."""
        where = (np.arange(len(bits))[:, None], np.arange(X.shape[1]))
        logs = self.entries(bits, parameters, where).log_density(np.nan_to_num(X)[:, None])
        return np.where(np.isnan(X)[:, None], 0.0, logs).sum(axis=2)

    def complete(
        self, rng: np.random.Generator, data: Data, Z: Any, parameters: Parameters
    ) -> Data:
        """The data with every missing entry drawn given Z and the parameters.

        Between steps on Z given the observed entries and steps on the parameters given the
        completed data, this leaves the posterior given the observed entries invariant.
        """
        if data.mask is None:
            return data
        where = np.nonzero(~data.mask)
        X = data.X.copy()
        X[where] = self.entries(Z, parameters, where).draw(rng)
        return Data(X)


class MaskedCollapsed(Masked, Collapsed):
    """The parameters can be integrated out also where entries of X are missing."""

    @abstractmethod
    def missing_entries(self, X: Any, Z: Any) -> EntryLaw:
        """The law of each missing entry given Z and what was observed, row by row."""


class TakesSparse(FeatureLikelihood):
    """X may be a sparse matrix, to every method that an engine with ``sparse`` asks for, and is
    never made dense: of X it needs products with matrices of few columns, and sums of squares."""


class RowUpdates(FeatureLikelihood):
    """A row can be removed, scored and added by rank-one changes (collapsed Gibbs, search)."""

    @abstractmethod
    def rows(self, X: Any, Z: Any) -> Any:
        """The predictive form, ready for rows to leave and return."""


class GaussianRows(RowUpdates):
    """Rows of the form x | z ~ N(zμ, σ_x²(1 + z S zᵀ)I) with S = (ZᵀZ + rI)⁻¹, μ = S ZᵀX.

    It has scales ``sigma_x`` and ``sigma_a``; the compiled collapsed sweep is written for it.
    """


class SearchRows(FeatureLikelihood):
    """A search can build Z row by row (beam search): a promise that there are ``Collapsed`` and
    ``GaussianRows``, A being integrated out, or ``CountedCauses``, A being at its best."""


class CountLaw(NamedTuple):
    """log P(x | c) by c and x (K + 1, 2), and log P(y) of an active and of an idle cause."""

    table: np.ndarray
    on: float
    off: float


class CountedCauses(Conditional, SearchRows):
    """X and the one parameter "A" (K×D) are of 0 and 1, the entries of A independent and alike, and
    P(x_nd = 1 | z_n, a_d) depends on the number z_n·a_d alone, with which it rises."""

    @abstractmethod
    def count_law(self, most: int) -> CountLaw:
        """The law of entries with up to ``most`` active causes, hyperparameters being numbers."""


class Expected(FeatureLikelihood):
    """X = W A + E with Gaussian noise, W = Z or Z ⊙ S: expectations under independent laws of rows
    and features are known (variational).

    It has scales ``sigma_x`` and ``sigma_a``.
    """

    @property
    @abstractmethod
    def amounts(self) -> str | None:
        """The law of amounts S, "laplace" or "gaussian"; None where W = Z."""

    @abstractmethod
    def feature_law(self, k: int, d: int, sigma_a: float, joint: bool) -> FeatureLaw:
        """The prior of A as a law to begin from; ``joint`` over features where it can be so."""


class ExpectedBits(Expected):
    """A row has a feature or not: W = Z (maximization-expectation)."""

    @property
    def amounts(self) -> str | None:
        return None
