r"""Steps that leave a density of one hyperparameter invariant.

``slice_step`` (Neal 2003, on log σ), ``slice_step_of_probability`` (on log p/(1−p)) and
``metropolis_step`` (Anand 2015, section 2.2.3); all are told the log density of the parameter
itself.
"""

from collections.abc import Callable
from math import exp, inf, log, log1p

import numpy as np

Density = Callable[[float], float]


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
