"""Hyperparameters as they are given: a number, which is fixed, or a hyperprior; or a refusal."""

from math import inf, isfinite

import numpy as np

from thali.hyperparameters.hyperpriors import Hyperprior
from thali.settings import LARGEST as LARGEST_NUMBER
from thali.settings import Settings, hyperparameters_of, positive_number, shown

KINDS = (  # of hyperparameters: any other, and a probability
    ("a positive number", "thali.Gamma(1, 1)"),
    ("a number between 0 and 1", "thali.Beta(1, 1)"),
)


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


def check_real(
    owner: str, name: str, value: object, above: float = -inf, below: float = inf
) -> None:
    """Refuse what is no finite number within bounds, of a hyperparameter that may be negative."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise TypeError(f"{owner}: {name} must be a number, not {shown(value)}.")
    if not (isfinite(float(value)) and above < float(value) < below):
        least = f" above {above:g}" if above > -inf else ""
        most = f" below {below:g}" if below < inf else ""
        where = f"{least}{' and' if least and most else ''}{most}"
        raise ValueError(f"{owner}: {name} must be a finite number{where}, not {shown(value)}.")


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
