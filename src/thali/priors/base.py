"""What a feature prior can do, as small abstract classes without code.

An engine names the capabilities it needs; a prior declares those it has by inheriting them.
Every exchangeable feature prior here has the form

    log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} − Σ_h log K_h! + const,

so a Gibbs kernel needs only the differences λ_{m+1} − λ_m, the weight e^{λ_1} of a new feature and,
where row sums F_n count at all, θ. A prior with θ is not ``Sequential`` and has no frequencies.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from thali.hyperparameters import Hyperprior, Value, Values
from thali.priors.forms import checked_form, log_in_form
from thali.priors.frequencies import Frequencies
from thali.settings import hyperparameters_of
from thali.structures.base import AnyStructure
from thali.structures.features import (
    FEATURES,
    FeatureCounts,
    FeatureTables,
    MassLaw,
    NextRow,
    most_of,
)


class Prior(ABC):
    """A distribution of values of a latent structure, up to the order of their components."""

    structure: ClassVar[AnyStructure]

    @abstractmethod
    def at(self, **numbers: Value) -> Self:
        """The same prior with hyperparameters fixed at numbers."""

    @abstractmethod
    def start(self) -> dict[str, Value]:
        """A number for every hyperparameter: the fixed one, or the center of its hyperprior."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Any:
        """Draw a value of n rows, canonical, hyperparameters drawn from their hyperpriors first."""

    @abstractmethod
    def log_prob_counts(self, counts: Any) -> float:
        """The log probability of a value from its ``structure.counts``."""

    def log_prob(self, latent: Any) -> float:
        """The log probability of a value."""
        return self.log_prob_counts(self.structure.counts(latent))

    def most_components(self, n: int) -> int:
        """How many components a value of n rows can have; −1 where there is no limit."""
        return -1

    @property
    def normalized(self) -> bool:
        """Whether ``log_prob`` lacks no constant."""
        return True

    @abstractmethod
    def resample(self, rng: np.random.Generator, hyper: Values, counts: Any) -> None:
        """Update the prior's inferred hyperparameters in ``hyper`` given a value, in place."""


class FeaturePrior(Prior):
    """A distribution of binary matrices, left-ordered: log P([Z]) from m_k, K_h and F_n."""

    structure = FEATURES
    only_drawn: ClassVar[bool] = False  # whether it has numbers that can be drawn, not maximized

    def log_prob(self, latent: Any, form: str = "left-ordered") -> float:
        """The log probability of a binary matrix, empty columns aside.

        ``form`` says of what it is the probability, that is, which matrices count as one:
        "left-ordered", all with these columns, in any order; "shifted", those with these columns in
        this order; "first-appearance", those with the columns of each row that is their first in
        this order, as customers of the buffet open dishes. All that the library compares or reports
        is left-ordered.

        >>> from thali import IBP
        >>> prior, Z = IBP(alpha=2.0), [[1, 0], [0, 1]]
        >>> forms = "left-ordered", "shifted", "first-appearance"
        >>> [round(prior.log_prob(Z, form), 4) for form in forms]
        [-3.0, -3.6931, -3.0]
        """
        form = checked_form(type(self).__name__, form)
        return log_in_form(latent, form, self.log_prob_counts(self.structure.counts(latent)))

    def sample_with_hyper(self, rng: np.random.Generator, n: int) -> tuple[Any, dict[str, Value]]:
        """A draw as ``sample`` makes it, and the hyperparameters that it was drawn with.

        Those without a hyperprior that are inferred all the same are drawn by ``resample`` given
        the rest, which must be exact for them.
        """
        values = {name: getattr(self, name) for name in hyperparameters_of(self)}
        drawn = {k: v.sample(rng) for k, v in values.items() if isinstance(v, Hyperprior)}
        fixed = self.at(**drawn)
        latent, hyper = fixed.sample(rng, n), fixed.start()
        fixed.resample(rng, hyper, self.structure.counts(latent))
        return latent, hyper


class PredictsRow(FeaturePrior):
    """Gives the distribution of one row given all others, as tables (Gibbs samplers need it)."""

    consistent: ClassVar[bool] = True  # whether the first rows of a larger draw are a smaller draw

    @property
    def rows_described(self) -> int | None:
        """Of how many rows alone it tells; None where of any number."""
        return None

    @abstractmethod
    def tables(self, n: int) -> FeatureTables:
        """Log odds by count, the weight of new features and θ, for a row among n."""

    @property
    def linear(self) -> bool:
        """Whether the tables say all: log P([Z]) has no part but sums over columns and rows."""
        return True

    def beyond_tables(self, n: int, column_sums: np.ndarray, row_sums: np.ndarray) -> float:
        """What log P([Z]) has besides."""
        return 0.0

    def most_components(self, n: int) -> int:
        return most_of(self.tables(n).capacity)

    def mass_law(self, n: int, hyper: Values) -> MassLaw | None:
        """How its hyperparameters change between sweeps; None where only ``resample`` can tell.

        The one that changes is called alpha.
        """
        if any(isinstance(getattr(self, name), Hyperprior) for name in hyperparameters_of(self)):
            return None
        rows = np.zeros(n, np.int64)
        empty = FeatureCounts(n, rows[:0], rows[:0], rows)
        theta = self.tables(n).row_potentials
        none = 0.0 if theta is None else n * float(theta[0])
        return MassLaw(1.0, 0.0, 0.0, 0.0, 0.0, self.log_prob_counts(empty) - none)


class HasUsedFrequencies(FeaturePrior):
    """Each feature in use has a frequency π that can be drawn.

    Given the matrix they are independent, and given them the bits of features that stay in use
    are (blocks of rows, in uncollapsed Gibbs, need that).
    """

    @abstractmethod
    def used_frequencies(self, rng: np.random.Generator, n: int, m: np.ndarray) -> np.ndarray:
        """Draw π_k given that m_k ≥ 1 of n rows have feature k."""


class HasFrequencies(HasUsedFrequencies):
    """Unused features have frequencies too, and bits given all of these are free.

    Given the matrix, frequencies of unused features are independent of all the rest (the slice step
    of uncollapsed Gibbs needs them).
    """

    @abstractmethod
    def unused_frequencies(
        self, rng: np.random.Generator, n: int, used: int, above: float
    ) -> np.ndarray:
        """Draw the frequencies larger than ``above`` of all features that none of n rows has."""


class Sequential(FeaturePrior):
    """Consistent in n: the first rows of a larger draw are a smaller draw (filters, search)."""

    @abstractmethod
    def next_row(self, n: int, hyper: Values) -> NextRow:
        """The distribution of row n (from 1) given those before; ``hyper``: numbers or arrays."""


class Truncates(FeaturePrior):
    """Has a finite number of features, or sticks that can be cut off (variational)."""

    @abstractmethod
    def truncation(self, n: int, error: float) -> int:
        """How many features to keep so that n rows need more with probability at most ``error``."""

    @abstractmethod
    def frequencies(self, k: int, alpha: float, bound: str) -> Frequencies:
        """The prior of k frequencies; ``bound`` is "multinomial" or "taylor"."""


def weighs_rows(prior: Prior) -> bool:
    """Whether a prior weighs the number of features of a row; θ that is no table is refused.

    >>> from thali import IBP
    >>> weighs_rows(IBP())
    False
    """
    if not isinstance(prior, PredictsRow):
        return False
    theta = prior.at(**prior.start()).tables(prior.rows_described or 2).row_potentials
    if theta is None:
        return False
    table = isinstance(theta, np.ndarray) and theta.ndim == 1 and theta.dtype == float
    if not table or not len(theta) or not np.isfinite(theta).all():
        raise ValueError(
            f"{type(prior).__name__}: row potentials must be an array of finite numbers θ_0, θ_1, "
            f"…, not {theta!r}; -1e6 stands for a number of features that no row has."
        )
    return True
