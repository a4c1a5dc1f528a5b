r"""The distribution q of features with an exponential prior, a_kd ~ Exponential(λ), λ = √2/σ_a.

σ_a is the root mean square of an entry, as of half-normal ones. With pull = λσ_x² the best q given
the others is

    a_kd ~ TN((T_kd − Σ_{j≠k} C_kj E[a_jd] − pull) / C_kk,  σ_x²/C_kk)

and the prior itself where no row has the feature. An exponential distribution is what TN(−λw², w²)
tends to as w grows. With w = ``WIDE``/λ their densities at a differ by a factor of 1 − (λa)²/2·10¹⁴
or so, which is the last digit: this w stands for the prior, so that C_kk may be as small as it
likes. What the bound has of q is by the exponential density itself,

    E[log p(A)] + H[q] = Σ_kd log λ − λE[a_kd] + H[q(a_kd)].
"""

from dataclasses import dataclass

import numpy as np

from thali.likelihoods.feature_posteriors import NonnegativeFeatures

ROOT_2 = float(np.sqrt(2.0))
WIDE = 1e7


def rate_of(sigma_a: float) -> float:
    """The rate λ of an exponential distribution with E[a²] = 2/λ² = σ_a².

    >>> round(rate_of(2.0), 4)
    0.7071
    """
    return ROOT_2 / sigma_a


@dataclass(frozen=True)
class ExponentialFeatures(NonnegativeFeatures):
    """Entries that are independent under q, and exponential under the prior."""

    @staticmethod
    def prior_law(sigma_a: float) -> tuple[float, float]:
        rate = rate_of(sigma_a)
        return WIDE / rate, rate

    def of_scale(self) -> tuple[float, float]:
        return 0.0, ROOT_2 * float(self.phi.sum())

    def gains(self, sigma_a: float) -> np.ndarray:
        rate = rate_of(sigma_a)
        return np.asarray((np.log(rate) - rate * self.phi + self.entropy).sum(axis=1))
