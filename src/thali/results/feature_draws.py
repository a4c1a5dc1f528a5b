"""The draws of a fit in features, one by one, each with its features A and its weight."""

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from thali.hyperparameters import Value
from thali.likelihoods.base import Collapsed
from thali.results.fit import Fit
from thali.results.trace import Recorded
from thali.settings import whole_number


class Draw(NamedTuple):
    """One draw of the posterior. A is as kept, or drawn given the rest where it was integrated out.

    A model without the scales σ_x or σ_a has NaN there; ``hyper`` has all hyperparameters by name,
    and ``parameters`` those that are kept besides A.
    """

    Z: np.ndarray
    A: np.ndarray
    alpha: float
    sigma_x: float
    sigma_a: float
    log_joint: float
    hyper: dict[str, Value]
    parameters: dict[str, np.ndarray]
    weight: float  # all weights sum to one; draws of a chain have equal ones


def feature_draws(fit: Fit, max_draws: int | None = None) -> Iterator[Draw]:
    """Every kept draw, or at most ``max_draws`` that stand for all with equal weight."""
    count = len(fit)
    most = count if max_draws is None else whole_number("draws", "max_draws", max_draws, 0)
    if most >= count:
        weights = fit.weights()
        return (feature_draw(fit, i, each, weights[i]) for i, each in enumerate(fit.draws()))
    times = np.bincount(fit.representatives(most), minlength=count)
    return (
        feature_draw(fit, i, each, 1.0 / most)
        for i, each in enumerate(fit.draws())
        for _ in range(times[i])
    )


def best_draw(fit: Fit) -> Draw:
    """The kept draw with the highest log joint."""
    index = fit.best()
    return feature_draw(fit, index, fit.pick([index])[0], fit.weights()[index])


def feature_draw(fit: Fit, index: int, recorded: Recorded, weight: float) -> Draw:
    """A recorded draw with its features; drawn ones are the same at every call."""
    Z, scalars, kept = recorded
    hyper = fit.hyper_of(scalars)
    if not kept:
        rng = np.random.default_rng(np.random.SeedSequence((fit.seed, index)))
        likelihood = cast(Collapsed, fit.model.likelihood_at(hyper))
        kept = {"A": likelihood.draw_features(rng, fit.data, Z)}
    kept = {name: np.array(value) for name, value in kept.items()}  # the fit's own stay as they are
    alpha, sigma_x, sigma_a = (hyper.get(name, np.nan) for name in ("alpha", "sigma_x", "sigma_a"))
    axes = getattr(fit.model.likelihood, "axes", {})
    others = {k: np.moveaxis(v, 0, axes[k]) for k, v in kept.items() if k != "A"}
    log_joint = scalars.get("log_joint", np.nan)
    return Draw(Z, kept["A"], alpha, sigma_x, sigma_a, log_joint, hyper, others, float(weight))
