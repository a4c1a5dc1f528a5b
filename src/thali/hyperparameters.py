r"""Laws of hyperparameters, and the steps that sample a positive scale or a probability.

A hyperparameter is a number (fixed) or a law (inferred):

    α   ~ Gamma(shape, rate)             α | Z ~ Gamma(shape + K₊, rate + H_N) for the IBP
    σ²  ~ InverseGamma(shape, scale)     a law of the *variance*; the parameter is σ
    p   ~ Beta(a, b)                     a law of a probability

``slice_step`` (Neal 2003, on log σ), ``slice_step_of_probability`` (on log p/(1−p)) and
``metropolis_step`` (Anand 2015, section 2.2.3) leave a given density invariant; all are told the
log density of the parameter itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from math import exp, inf, lgamma, log, log1p
from typing import Any

import numpy as np

from thali.registry import HYPERPRIORS
from thali.settings import Settings, check_settings, positive_number, setting

SMALLEST = 1e-300  # where a draw from a very flat law underflows
LARGEST = 1.0 - 2.0**-53  # the largest probability below one


@HYPERPRIORS.register("gamma")
@dataclass(frozen=True)
class Gamma(Settings):
    """A gamma law of a positive parameter.

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

    shape: float = setting(1.0, help="Shape of the law")
    rate: float = setting(1.0, help="Rate of the law, one over its scale")

    def __post_init__(self) -> None:
        check_settings(self)

    def center(self) -> float:
        """A value in the middle of the law: its mean."""
        return self.shape / self.rate

    def sample(self, rng: np.random.Generator) -> float:
        return max(float(rng.gamma(self.shape, 1.0 / self.rate)), SMALLEST)

    def log_density(self, value: float) -> float:
        """Log density of the parameter at ``value``."""
        if value <= 0.0:
            return -inf
        return (
            self.shape * log(self.rate)
            - lgamma(self.shape)
            + (self.shape - 1.0) * log(value)
            - self.rate * value
        )


@HYPERPRIORS.register("inverse_gamma")
@dataclass(frozen=True)
class InverseGamma(Settings):
    """An inverse-gamma law of a variance σ², for the scale σ that it governs.

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

    shape: float = setting(1.0, help="Shape of the law")
    scale: float = setting(1.0, help="Scale of the law, in the unit of the variance")

    def __post_init__(self) -> None:
        check_settings(self)

    def center(self) -> float:
        """A scale σ in the middle of the law: √(scale / shape)."""
        return float(np.sqrt(self.scale / self.shape))

    def sample(self, rng: np.random.Generator) -> float:
        return float(np.sqrt(self.scale / max(rng.gamma(self.shape), SMALLEST)))

    def log_density(self, value: float) -> float:
        """Log density of σ (not of σ²: the factor 2σ of the change of variable is in it)."""
        if value <= 0.0:
            return -inf
        return (
            log(2.0)
            + self.shape * log(self.scale)
            - lgamma(self.shape)
            - (2.0 * self.shape + 1.0) * log(value)
            - self.scale / (value * value)
        )


@HYPERPRIORS.register("beta")
@dataclass(frozen=True)
class Beta(Settings):
    """A beta law of a probability, a parameter between 0 and 1.

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

    def __post_init__(self) -> None:
        check_settings(self)

    def center(self) -> float:
        """A value in the middle of the law: its mean."""
        return min(max(self.a / (self.a + self.b), SMALLEST), LARGEST)

    def sample(self, rng: np.random.Generator) -> float:
        return min(max(float(rng.beta(self.a, self.b)), SMALLEST), LARGEST)

    def log_density(self, value: float) -> float:
        """Log density of the parameter at ``value``."""
        if not 0.0 < value < 1.0:
            return -inf
        return (
            lgamma(self.a + self.b)
            - lgamma(self.a)
            - lgamma(self.b)
            + (self.a - 1.0) * log(value)
            + (self.b - 1.0) * log1p(-value)
        )


Hyperprior = Gamma | InverseGamma | Beta


Value = Any  # of a hyperparameter: a number, or an array that is replaced, never written to
Values = MutableMapping[str, Any]


class Scope(MutableMapping[str, Any]):
    """One part's hyperparameters, by its own names, in a table that holds those of all parts.

    >>> table = {"prior.alpha": 1.0, "likelihood.alpha": 2.0, "beta": 3.0}
    >>> mine = Scope(table, {"alpha": "likelihood.alpha", "beta": "beta"})
    >>> mine["alpha"] = 5.0
    >>> dict(mine), table["likelihood.alpha"]
    ({'alpha': 5.0, 'beta': 3.0}, 5.0)
    """

    def __init__(self, table: Values, labels: Mapping[str, str]) -> None:
        self.table, self.labels = table, labels

    def __getitem__(self, name: str) -> Any:
        return self.table[self.labels[name]]

    def __setitem__(self, name: str, value: Any) -> None:
        self.table[self.labels[name]] = value

    def __delitem__(self, name: str) -> None:
        del self.table[self.labels[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)


def as_scalars(hyper: Mapping[str, Any]) -> dict[str, float]:
    """Hyperparameters as single numbers, an array's entries one by one.

    >>> as_scalars({"alpha": 1.0, "scales": np.array([2.0, 3.0])})
    {'alpha': 1.0, 'scales[0]': 2.0, 'scales[1]': 3.0}
    """
    found: dict[str, float] = {}
    for name, value in hyper.items():
        if np.ndim(value) == 0:
            found[name] = value
        else:
            found |= {f"{name}[{i}]": x for i, x in enumerate(np.ravel(value).tolist())}
    return found


def from_scalars(scalars: Mapping[str, float]) -> dict[str, Any]:
    """The hyperparameters that ``as_scalars`` took apart; arrays have one dimension.

    >>> from_scalars({"alpha": 1.0, "scales[0]": 2.0, "scales[1]": 3.0})
    {'alpha': 1.0, 'scales': array([2., 3.])}
    """
    found: dict[str, Any] = {}
    for label, value in scalars.items():
        name, bracket, _ = label.partition("[")
        if bracket:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return {k: np.array(v, float) if isinstance(v, list) else v for k, v in found.items()}


def check_hyperparameter(owner: str, name: str, value: Any) -> None:
    """Refuse anything but a positive number or a law of one."""
    if isinstance(value, Beta):
        raise TypeError(
            f"{owner}: {name}={value} is a law of a probability; use a law of a positive number, "
            "such as thali.Gamma(1, 1)."
        )
    if isinstance(value, Hyperprior):
        return
    if isinstance(value, (str, bool)) or value is None:
        raise TypeError(
            f"{owner}: {name} must be a positive number (fixed) or a law such as "
            f"thali.Gamma(1, 1) (inferred), not {value!r}."
        )
    positive_number(owner, name, value)


def check_probability(owner: str, name: str, value: Any) -> None:
    """Refuse anything but a number between 0 and 1 or a beta law."""
    if isinstance(value, Beta):
        return
    if isinstance(value, (str, bool, Hyperprior)) or value is None or np.ndim(value):
        raise TypeError(
            f"{owner}: {name} must be a number between 0 and 1 (fixed) or a law such as "
            f"thali.Beta(1, 1) (inferred), not {value!r}."
        )
    if not positive_number(owner, name, value) < 1.0:
        raise ValueError(f"{owner}: {name} must lie between 0 and 1, not {value!r}.")


def as_number(owner: str, name: str, value: Any) -> float:
    """Return a fixed hyperparameter, or say how to fix it."""
    if isinstance(value, Hyperprior):
        raise ValueError(
            f"{owner}: {name} is {value}, a law; this needs a number. "
            f"Fix it first with .at({name}=...)."
        )
    return positive_number(owner, name, value)


def slice_step(
    rng: np.random.Generator,
    value: float,
    log_density: Callable[[float], float],
    width: float,
) -> float:
    """One slice-sampling update of a positive ``value``, on its logarithm.

    ``width`` is the first guess of the slice's width on the log scale; it steps out and shrinks,
    so any width is valid and only the cost depends on it.
    """

    def target(u: float) -> float:  # density of u = log value: the Jacobian is e^u
        return log_density(exp(u)) + u if -700.0 < u < 700.0 else -inf

    moved = _slice(rng, log(value), target, width)
    return value if moved is None else exp(moved)


def slice_step_of_probability(
    rng: np.random.Generator,
    value: float,
    log_density: Callable[[float], float],
    width: float,
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


def _slice(
    rng: np.random.Generator, at: float, target: Callable[[float], float], width: float
) -> float | None:
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
    rng: np.random.Generator,
    value: float,
    log_density: Callable[[float], float],
    width: float,
) -> float:
    """One Metropolis update by a uniform ±``width`` step, rejected at or below zero."""
    proposal = value + width * (2.0 * rng.random() - 1.0)
    if proposal <= 0.0:
        return value
    if log(1.0 - rng.random()) < log_density(proposal) - log_density(value):
        return proposal
    return value
