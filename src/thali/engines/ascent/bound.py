r"""The lower bound of log P(X) from q(rows), q(features) and q(frequencies).

    log P(X) ≥ E[log P(X | Z, A)] + E[log P(Z, v)] + E[log p(A)] + E[log p(S | Z)] + H[q]
             = −½M log 2πσ_x² − E‖X − WA‖²/2σ_x²     M entries observed
               + gain of the features + gain of the frequencies + gain of the rows

All of it comes from the statistics. Hyperparameters that have hyperpriors are numbers that maximize
the bound and their log density together, of σ for scales; that density is then a part of what is
reported, a bound of log P(X, hyperparameters).
"""

from collections.abc import Callable

import numpy as np

from thali.engines.maximum import best_number
from thali.hyperparameters import Gamma, Hyperprior, InverseGamma
from thali.likelihoods.feature_posteriors import FeaturePosterior, expected_squares
from thali.priors.frequencies import Frequencies
from thali.structures.statistics import Statistics

SEARCH = 10.0  # how far from the present value, on the log scale, a maximum is looked for


def log_fit(found: Statistics, features: FeaturePosterior, sigma_x: float, sigma_a: float) -> float:
    """The bound but for the gains of frequencies and rows."""
    fit = -0.5 * found.entries * np.log(2.0 * np.pi * sigma_x**2)
    fit -= 0.5 * expected_squares(found, features) / sigma_x**2
    return float(fit + features.gain(sigma_a))


def best_scale(
    hyperprior: Hyperprior, squares: float, size: float, now: float, total: float = 0.0
) -> float:
    """The σ that maximizes log p(σ) − size log σ − squares/2σ² − total/σ.

    Under an inverse-gamma law of σ² it is the positive root of mσ² − total σ − v.

    >>> round(best_scale(InverseGamma(1.0, 2.0), squares=10.0, size=4.0, now=1.0), 6)  # √(14/7)
    1.414214
    """
    if isinstance(hyperprior, InverseGamma):
        v = float(squares + 2.0 * hyperprior.scale)
        m = float(size + 2.0 * hyperprior.shape + 1.0)
        if total == 0.0:
            return float(np.sqrt(v / m))
        return float((total + np.hypot(total, 2.0 * np.sqrt(m * v))) / (2.0 * m))

    def target(s: float) -> float:
        fit = size * np.log(s) + 0.5 * squares / s**2 + total / s
        return float(hyperprior.log_density(s) - fit)

    return best_positive(target, now)


def best_mass(hyperprior: Hyperprior, frequencies: Frequencies, now: float) -> float:
    """The α that maximizes log p(α) and the frequencies' part of the bound together."""
    if isinstance(hyperprior, Gamma):
        slope = frequencies.slope_of_mass()
        return (hyperprior.shape + frequencies.k - 1.0) / (hyperprior.rate - slope)
    return best_positive(lambda a: hyperprior.log_density(a) + frequencies.gain_of_mass(a), now)


def best_positive(target: Callable[[float], float], now: float) -> float:
    """The maximum of a function of a positive number that has one, never worse than ``now``."""
    return best_number(target, now, SEARCH, tolerance=1e-10)
