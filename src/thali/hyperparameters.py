r"""Hyperpriors, tables of hyperparameters, and steps that sample a positive scale or a probability.

A hyperparameter is a number (fixed) or a hyperprior (inferred):

    α   ~ Gamma(shape, rate)             α | Z ~ Gamma(shape + K₊, rate + H_N) for the IBP
    σ²  ~ InverseGamma(shape, scale)     of the *variance*; the parameter is σ
    p   ~ Beta(a, b)                     of a probability
    a   ~ Normal(mean, std)              of a number that may be negative

``slice_step`` (Neal 2003, on log σ), ``slice_step_of_probability`` (on log p/(1−p)) and
``metropolis_step`` (Anand 2015, section 2.2.3) leave a given density invariant; all are told the
log density of the parameter itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from math import exp, inf, lgamma, log, log1p, pi
from typing import Any, ClassVar

import numpy as np

from thali.registry import HYPERPRIORS
from thali.settings import LARGEST as LARGEST_NUMBER
from thali.settings import Settings, check_settings, hyperparameters_of, positive_number, setting

SMALLEST = 1e-300  # where a draw from a very flat distribution underflows
LARGEST = 1.0 - 2.0**-53  # the largest probability below one

Value = Any  # of a hyperparameter: a number, or an array that is replaced, never written to
Values = MutableMapping[str, Any]
Density = Callable[[float], float]
KINDS = (  # of hyperparameters: any other, and a probability
    ("a positive number", "thali.Gamma(1, 1)"),
    ("a number between 0 and 1", "thali.Beta(1, 1)"),
)


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


class Scope(MutableMapping[str, Value]):
    """One part's hyperparameters, by its own names, in a table that holds those of all parts.

    >>> table = {"prior.alpha": 1.0, "likelihood.alpha": 2.0, "beta": 3.0}
    >>> mine = Scope(table, {"alpha": "likelihood.alpha", "beta": "beta"})
    >>> mine["alpha"] = 5.0
    >>> dict(mine), table["likelihood.alpha"]
    ({'alpha': 5.0, 'beta': 3.0}, 5.0)
    """

    def __init__(self, table: Values, labels: Mapping[str, str]) -> None:
        self.table, self.labels = table, labels

    def __getitem__(self, name: str) -> Value:
        return self.table[self.labels[name]]

    def __setitem__(self, name: str, value: Value) -> None:
        self.table[self.labels[name]] = value

    def __delitem__(self, name: str) -> None:
        del self.table[self.labels[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)


def draw_scale(rng: np.random.Generator, shape: float, scale: float) -> float:
    """σ with σ² ~ InverseGamma(shape, scale)."""
    return float(np.sqrt(scale / max(rng.gamma(shape), SMALLEST)))


def draw_probability(rng: np.random.Generator, a: float, b: float) -> float:
    """A draw of Beta(a, b), neither 0 nor 1."""
    return min(max(float(rng.beta(a, b)), SMALLEST), LARGEST)


def as_scalars(hyper: Mapping[str, Value]) -> dict[str, float]:
    """Hyperparameters as single numbers, an array's entries one by one.

    >>> as_scalars({"alpha": 1.0, "scales": np.array([2.0, 3.0])})
    {'alpha': 1.0, 'scales[0]': 2.0, 'scales[1]': 3.0}
    """
    found: dict[str, float] = {}
    for name, value in hyper.items():
        if type(value) is float or np.ndim(value) == 0:
            found[name] = value
        else:
            found |= {f"{name}[{i}]": x for i, x in enumerate(np.ravel(value).tolist())}
    return found


def from_scalars(scalars: Mapping[str, float]) -> dict[str, Value]:
    """The hyperparameters that ``as_scalars`` took apart; arrays have one dimension.

    >>> from_scalars({"alpha": 1.0, "scales[0]": 2.0, "scales[1]": 3.0})
    {'alpha': 1.0, 'scales': array([2., 3.])}
    """
    found: dict[str, Value] = {}
    for label, value in scalars.items():
        name, bracket, _ = label.partition("[")
        if bracket:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return {k: np.array(v, float) if isinstance(v, list) else v for k, v in found.items()}


def check_hyperparameter(
    owner: str,
    name: str,
    value: object,
    probability: bool = False,
    most: float = LARGEST_NUMBER,
) -> None:
    """Refuse anything but a positive number (or a probability) or a hyperprior of one; and a number
    beyond ``most``, or a hyperprior whose center is."""
    if type(value) is float and 0.0 < value < (1.0 if probability else most):
        return  # the most common by far: every sweep makes parts anew
    what, such_as = KINDS[probability]
    other = ""
    if isinstance(value, Hyperprior):
        if value.probability == probability and not value.real:
            check_center(owner, name, value, most)
            return
        kind = "any number" if value.real else KINDS[value.probability][0]
        other = f", a hyperprior of {kind}"
    several = probability and np.asarray(value).ndim > 0
    if other or several or isinstance(value, str | bool) or value is None:
        raise TypeError(
            f"{owner}: {name} must be {what} (fixed) or a hyperprior such as {such_as} "
            f"(inferred), not {value!r}{other}."
        )
    if positive_number(owner, name, value, most) >= 1.0 and probability:
        raise ValueError(f"{owner}: {name} must lie between 0 and 1, not {value!r}.")


def check_center(owner: str, name: str, hyperprior: Hyperprior, most: float) -> None:
    """Refuse a hyperprior from whose center nothing can begin: it is none, or beyond ``most``."""
    center = hyperprior.center()
    if not 0.0 < center <= most:
        raise ValueError(
            f"{owner}: {name} is {hyperprior}, whose center is {center:g}; it must be positive and "
            f"at most {most:g}. Choose its parameters nearer to what {name} may be."
        )


def as_number(owner: str, name: str, value: object) -> float:
    """Return a fixed hyperparameter, or say how to fix it."""
    if type(value) is float and 0.0 < value < inf:
        return value
    if isinstance(value, Hyperprior):
        raise ValueError(
            f"{owner}: {name} is {value}, a hyperprior; this needs a number. "
            f"Fix it first with .at({name}=...)."
        )
    return positive_number(owner, name, value)


# all hyperparameters of a part together, where each is one number


def check_hyperparameters(part: Settings) -> None:
    """Refuse a part of which one is neither a positive number nor a hyperprior of one."""
    for name in hyperparameters_of(part):
        check_hyperparameter(type(part).__name__, name, getattr(part, name))


def first_numbers(part: Settings) -> dict[str, float]:
    """A number for each: the fixed one, or the center of its hyperprior."""
    values = {name: getattr(part, name) for name in hyperparameters_of(part)}
    return {k: v.center() if isinstance(v, Hyperprior) else float(v) for k, v in values.items()}


def draw_numbers(rng: np.random.Generator, part: Settings) -> list[float]:
    """A number for each, in order: the fixed one, or a draw from its hyperprior."""
    values = [getattr(part, name) for name in hyperparameters_of(part)]
    return [v.sample(rng) if isinstance(v, Hyperprior) else float(v) for v in values]


# steps


def slice_step(rng: np.random.Generator, value: float, log_density: Density, width: float) -> float:
    """One slice-sampling update of a positive ``value``, on its logarithm.

    ``width`` is the first guess of the slice's width on the log scale; it steps out and shrinks,
    so any width is valid and only the cost depends on it.
    """

    def target(u: float) -> float:  # density of u = log value: the Jacobian is e^u
        return log_density(exp(u)) + u if -700.0 < u < 700.0 else -inf

    moved = _slice(rng, log(value), target, width)
    return value if moved is None else exp(moved)


def slice_step_of_probability(
    rng: np.random.Generator, value: float, log_density: Density, width: float
) -> float:
    """One slice-sampling update of a ``value`` between 0 and 1, on u = log value/(1−value)."""

    def inverse(u: float) -> float:
        return 1.0 / (1.0 + exp(-u))

    def target(u: float) -> float:  # the Jacobian is value·(1−value); beyond 36 it rounds to one
        if not -700.0 < u < 36.0:
            return -inf
        v = inverse(u)
        return log_density(v) + log(v) + log1p(-v)

    moved = _slice(rng, log(value) - log1p(-value), target, width)
    return value if moved is None else inverse(moved)


def slice_step_of_real(
    rng: np.random.Generator, value: float, log_density: Density, width: float
) -> float:
    """One slice-sampling update of a ``value`` that may be negative."""
    moved = _slice(rng, value, log_density, width)
    return value if moved is None else moved


def _slice(rng: np.random.Generator, at: float, target: Density, width: float) -> float | None:
    """Neal's step on the real line, or None where the slice is narrower than rounding."""
    level = target(at) + log(1.0 - rng.random())
    left = at - width * rng.random()
    right = left + width
    while target(left) > level:
        left -= width
    while target(right) > level:
        right += width
    while True:
        proposal = left + (right - left) * rng.random()
        if target(proposal) >= level:
            return proposal
        if proposal < at:
            left = proposal
        else:
            right = proposal
        if right - left < 1e-15 * (1.0 + abs(at)):
            return None


def metropolis_step(
    rng: np.random.Generator, value: float, log_density: Density, width: float
) -> float:
    """One Metropolis update by a uniform ±``width`` step, rejected at or below zero."""
    proposal = value + width * (2.0 * rng.random() - 1.0)
    if proposal <= 0.0:
        return value
    if log(1.0 - rng.random()) < log_density(proposal) - log_density(value):
        return proposal
    return value
