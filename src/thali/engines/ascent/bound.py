r"""The lower bound of log P(X) from the laws of rows, features and frequencies.

    log P(X) ≥ E[log P(X | Z, A)] + E[log P(Z, v)] + E[log p(A)] + E[log p(S | Z)] + H[q]
             = −½M log 2πσ_x² − E‖X − WA‖²/2σ_x²     M entries observed
               + gain of the features + gain of the frequencies + gain of the rows

All of it comes from the statistics. Hyperparameters that have laws are numbers that maximize the
bound and the log density of their law together, of σ for scales; that density is then a part of
what is reported, a bound of log P(X, hyperparameters).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from thali.hyperparameters import Gamma, Hyperprior, InverseGamma
from thali.likelihoods.feature_posteriors import FeaturePosterior, expected_squares
from thali.priors.frequencies import Frequencies
from thali.structures.statistics import Statistics

SEARCH = 10.0  # how far from the present value, on the log scale, a maximum is looked for


def lower_bound(
    found: Statistics,
    law: FeaturePosterior,
    frequencies: Frequencies,
    hyper: dict[str, float],
    laws: dict[str, Hyperprior],
) -> float:
    """The bound, with the log densities of the hyperparameters that have ``laws``."""
    sigma_x = hyper["sigma_x"]
    fit = -0.5 * found.entries * np.log(2.0 * np.pi * sigma_x**2)
    fit -= 0.5 * expected_squares(found, law) / sigma_x**2
    prior = frequencies.gain(found.counts, found.n, hyper["alpha"])
    value = fit + law.gain(hyper["sigma_a"]) + prior + float(found.gain.sum())
    return float(value + sum(each.log_density(hyper[name]) for name, each in laws.items()))


def best_scale(law: Hyperprior, squares: float, size: float, now: float) -> float:
    """The σ that maximizes log p(σ) − size log σ − squares/2σ².

    >>> round(best_scale(InverseGamma(1.0, 2.0), squares=10.0, size=4.0, now=1.0), 6)  # √(14/7)
    1.414214
    """
    if isinstance(law, InverseGamma):
        return float(np.sqrt((squares + 2.0 * law.scale) / (size + 2.0 * law.shape + 1.0)))
    return best_positive(
        lambda s: law.log_density(s) - size * np.log(s) - 0.5 * squares / s**2, now
    )


def best_mass(law: Hyperprior, frequencies: Frequencies, now: float) -> float:
    """The α that maximizes log p(α) and the frequencies' part of the bound together."""
    if isinstance(law, Gamma):
        slope = frequencies.slope_of_mass()
        return (law.shape + frequencies.k - 1.0) / (law.rate - slope)
    return best_positive(lambda a: law.log_density(a) + frequencies.gain_of_mass(a), now)


def best_positive(target: Any, now: float) -> float:
    """The maximum of a function of a positive number that has one, never worse than ``now``."""
    center = float(np.log(now))
    found = minimize_scalar(
        lambda u: -target(float(np.exp(u))),
        bounds=(center - SEARCH, center + SEARCH),
        method="bounded",
        options={"xatol": 1e-10},
    )
    best = float(np.exp(found.x))
    return best if target(best) > target(now) else now
