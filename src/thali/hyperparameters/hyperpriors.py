r"""Distributions of hyperparameters.

α   ~ Gamma(shape, rate)             α | Z ~ Gamma(shape + K₊, rate + H_N) for the IBP
σ²  ~ InverseGamma(shape, scale)     of the *variance*; the parameter is σ
p   ~ Beta(a, b)                     of a probability
a   ~ Normal(mean, std)              of a number that may be negative
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, lgamma, log, log1p, pi
from typing import ClassVar

import numpy as np

from thali.registry import HYPERPRIORS
from thali.settings import LARGEST as LARGEST_NUMBER
from thali.settings import Settings, check_settings, setting

SMALLEST = 1e-300  # where a draw from a very flat distribution underflows
LARGEST = 1.0 - 2.0**-53  # the largest probability below one


class Hyperprior(Settings, ABC):
    """A distribution of a hyperparameter: a positive number, a ``probability``, any ``real``."""

    probability: ClassVar[bool] = False
    real: ClassVar[bool] = False  # whether the parameter may be negative

    def __post_init__(self) -> None:
        check_settings(self)

    @abstractmethod
    def center(self) -> float:
        """A value in the middle of the distribution."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> float:
        """Draw a value."""

    @abstractmethod
    def log_density(self, value: float) -> float:
        """Log density of the parameter at ``value``."""

    def log_density_of_log(self, value: float) -> float:
        """Log density of the parameter's logarithm; of p/(1−p)'s for a probability, and of a real
        parameter itself: on these scales it may be anywhere."""
        if self.real:
            return self.log_density(value)
        odds = log1p(-value) if self.probability else 0.0
        return self.log_density(value) + log(value) + odds

    def powers(self) -> tuple[float, float, float] | None:
        """p, a and b where the log density is  p log v − a/v² − b v + const: compiled code can then
        sample the parameter itself. None where it is not of that form."""
        return None


@HYPERPRIORS.register("gamma")
@dataclass(frozen=True)
class Gamma(Hyperprior):
    """A gamma distribution of a positive parameter.

    Parameters
    ----------
    shape : float, default 1.0
        The shape; the mean is shape / rate.
    rate : float, default 1.0
        The rate: one over the scale.

    Examples
    --------
    >>> round(Gamma(2.0, 4.0).center(), 3)
    0.5
    """

    shape: float = setting(1.0, help="Shape of the distribution")
    rate: float = setting(1.0, help="Rate of the distribution, one over its scale")

    def center(self) -> float:
        """The mean."""
        return self.shape / self.rate

    def sample(self, rng: np.random.Generator) -> float:
        return max(float(rng.gamma(self.shape, 1.0 / self.rate)), SMALLEST)

    def log_density(self, value: float) -> float:
        a, b = self.shape, self.rate
        if value <= 0.0:
            return -inf
        return a * log(b) - lgamma(a) + (a - 1.0) * log(value) - b * value

    def powers(self) -> tuple[float, float, float]:
        return self.shape - 1.0, 0.0, self.rate


@HYPERPRIORS.register("inverse_gamma")
@dataclass(frozen=True)
class InverseGamma(Hyperprior):
    """An inverse-gamma distribution of a variance σ², for the scale σ that it governs.

    Parameters
    ----------
    shape : float, default 1.0
        The shape; a large one holds σ² near scale / shape.
    scale : float, default 1.0
        The scale, in the unit of σ².

    Examples
    --------
    >>> import numpy as np
    >>> sigma = InverseGamma(3.0, 2.0).sample(np.random.default_rng(0))
    >>> bool(sigma > 0)
    True
    """

    shape: float = setting(1.0, help="Shape of the distribution")
    scale: float = setting(1.0, help="Scale of the distribution, in the unit of the variance")

    def center(self) -> float:
        """√(scale / shape)."""
        return float(np.sqrt(self.scale / self.shape))

    def sample(self, rng: np.random.Generator) -> float:
        return draw_scale(rng, self.shape, self.scale)

    def log_density(self, value: float) -> float:
        """Log density of σ (not of σ²: the factor 2σ of the change of variable is in it)."""
        a, b = self.shape, self.scale
        square = value * value
        if value <= 0.0 or square == 0.0:
            return -inf
        known = log(2.0) + a * log(b) - lgamma(a)
        return known - (2.0 * a + 1.0) * log(value) - b / square

    def powers(self) -> tuple[float, float, float]:
        return -2.0 * self.shape - 1.0, self.scale, 0.0


@HYPERPRIORS.register("beta")
@dataclass(frozen=True)
class Beta(Hyperprior):
    """A beta distribution of a probability, a parameter between 0 and 1.

    Parameters
    ----------
    a : float, default 1.0
        The weight of values near one; the mean is a / (a + b).
    b : float, default 1.0
        The weight of values near zero.

    Examples
    --------
    >>> Beta(1.0, 4.0).center()
    0.2
    """

    a: float = setting(1.0, help="Weight of values near one")
    b: float = setting(1.0, help="Weight of values near zero")

    probability: ClassVar[bool] = True

    def center(self) -> float:
        """The mean."""
        return min(max(self.a / (self.a + self.b), SMALLEST), LARGEST)

    def sample(self, rng: np.random.Generator) -> float:
        return draw_probability(rng, self.a, self.b)

    def log_density(self, value: float) -> float:
        a, b = self.a, self.b
        if not 0.0 < value < 1.0:
            return -inf
        known = lgamma(a + b) - lgamma(a) - lgamma(b)
        return known + (a - 1.0) * log(value) + (b - 1.0) * log1p(-value)


@HYPERPRIORS.register("normal")
@dataclass(frozen=True)
class Normal(Hyperprior):
    """A normal distribution of a parameter that may be negative.

    Parameters
    ----------
    mean : float, default 0.0
        The middle.
    std : float, default 1.0
        The standard deviation.

    Examples
    --------
    >>> Normal(1.0, 2.0).center()
    1.0
    """

    mean: float = setting(0.0, help="Middle of the distribution", minimum=-LARGEST_NUMBER)
    std: float = setting(1.0, help="Standard deviation of the distribution")

    real: ClassVar[bool] = True

    def center(self) -> float:
        """The mean."""
        return float(self.mean)

    def sample(self, rng: np.random.Generator) -> float:
        return float(rng.normal(self.mean, self.std))

    def log_density(self, value: float) -> float:
        away = (value - self.mean) / self.std
        return -0.5 * away * away - log(self.std) - 0.5 * log(2.0 * pi)


@HYPERPRIORS.register("above")
@dataclass(frozen=True)
class Above(Hyperprior):
    """A hyperprior of what a parameter is above a bound.

    >>> Above(Gamma(1.0, 0.1), 3.0).center()
    13.0
    """

    excess: Hyperprior
    bound: float

    def center(self) -> float:
        return self.bound + self.excess.center()

    def sample(self, rng: np.random.Generator) -> float:
        return self.bound + self.excess.sample(rng)

    def log_density(self, value: float) -> float:
        return self.excess.log_density(value - self.bound)

    def log_density_of_log(self, value: float) -> float:
        return self.excess.log_density_of_log(value - self.bound)


def draw_scale(rng: np.random.Generator, shape: float, scale: float) -> float:
    """σ with σ² ~ InverseGamma(shape, scale)."""
    return float(np.sqrt(scale / max(rng.gamma(shape), SMALLEST)))


def draw_probability(rng: np.random.Generator, a: float, b: float) -> float:
    """A draw of Beta(a, b), neither 0 nor 1."""
    return min(max(float(rng.beta(a, b)), SMALLEST), LARGEST)
