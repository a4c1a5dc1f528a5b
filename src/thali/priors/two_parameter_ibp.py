r"""The two-parameter Indian buffet process: α features a row, β decides how they are shared.

    log P([Z]) = K₊ log αβ − Σ_h log K_h! − α Σ_i β/(β+i−1) + Σ_k log Γ(m_k)Γ(N−m_k+β)/Γ(N+β)

Row n has feature k with probability m_{−n,k}/(β+N−1) and Poisson(αβ/(β+N−1)) new ones.
β = 1 is the one-parameter process; a large β shares features less.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import Gamma, Hyperprior, Values, draw_numbers, fixed_numbers
from thali.priors.base import HasFrequencies, PredictsRow, Sequential
from thali.priors.buffet import (
    PositiveNumbers,
    draw_buffet,
    harmonic,
    resample_by_slice,
    resample_mass,
    unused_sticks,
)
from thali.registry import PRIORS
from thali.settings import hyperparameter, whole_number
from thali.structures.features import FeatureCounts, FeatureTables, NextRow


@PRIORS.register("two_parameter_ibp")
@dataclass(frozen=True)
class TwoParameterIBP(PositiveNumbers, PredictsRow, HasFrequencies, Sequential):
    """The Indian buffet process with a second parameter, which says how features are shared.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass. A row has alpha features on average. A number is fixed; a hyperprior means that
        alpha is inferred.
    beta : float or hyperprior, default 1.0
        How little features are shared. ``beta=1`` is ``IBP``; a larger one gives more features,
        each in fewer rows.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[1, 0], [1, 1]])
    >>> a = TwoParameterIBP(alpha=2.0, beta=1.0).log_prob(Z)
    >>> from thali import IBP
    >>> bool(np.isclose(a, IBP(alpha=2.0).log_prob(Z)))
    True
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many features to expect"
    )
    beta: float | Hyperprior = hyperparameter(
        1.0, symbol="β", words="how little features are shared"
    )

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        n = whole_number("TwoParameterIBP.sample", "n", n, 1)
        alpha, beta = draw_numbers(rng, self)
        return draw_buffet(rng, n, alpha, beta)

    def tables(self, n: int) -> FeatureTables:
        alpha, beta = fixed_numbers(self)
        m = np.arange(n, dtype=float)
        with np.errstate(divide="ignore"):
            log_odds = np.log(m) - np.log(beta + n - 1.0 - m)
        return FeatureTables(log_odds, float(np.log(alpha * beta / (beta + n - 1.0))), -1)

    def next_row(self, n: int, hyper: Values) -> NextRow:
        rest = hyper["beta"] + n - 1.0
        return NextRow(0.0, rest, np.log(hyper["alpha"] * hyper["beta"] / rest), -1)

    def used_frequencies(self, rng: np.random.Generator, n: int, m: np.ndarray) -> np.ndarray:
        return rng.beta(m, n - m + fixed_numbers(self)[1])

    def unused_frequencies(
        self, rng: np.random.Generator, n: int, used: int, above: float
    ) -> np.ndarray:
        alpha, beta = fixed_numbers(self)
        return unused_sticks(rng, n, alpha * beta, beta, above)

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        alpha, beta = fixed_numbers(self)
        n, m = counts.n, counts.column_sums
        return float(
            len(m) * np.log(alpha * beta)
            - gammaln(counts.multiplicities + 1.0).sum()
            - alpha * harmonic(n, beta)
            + (gammaln(m) + gammaln(n - m + beta)).sum()
            - len(m) * gammaln(n + beta)
        )

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        if isinstance(self.alpha, Hyperprior):
            k, rate = len(counts.column_sums), harmonic(counts.n, hyper["beta"])
            hyper["alpha"] = resample_mass(rng, self.alpha, hyper["alpha"], k, rate)
        resample_by_slice(rng, self, "beta", hyper, counts)
