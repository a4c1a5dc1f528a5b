r"""The Indian buffet process (Griffiths and Ghahramani 2005).

    log P([Z]) = K₊ log α − Σ_h log K_h! − α H_N + Σ_k [log (N−m_k)! + log (m_k−1)! − log N!]

Row n has feature k with probability m_{−n,k}/N and Poisson(α/N) new ones, given all others.
α ~ Gamma(a, b) is conjugate: α | Z ~ Gamma(a + K₊, b + H_N).
"""

from dataclasses import dataclass
from math import lgamma, log

from scipy.special import gammaln

from thali.hyperparameters import Gamma, Hyperprior, as_number
from thali.priors.base import Truncates
from thali.priors.buffet import Buffet, harmonic, log_orders
from thali.priors.frequencies import Frequencies
from thali.priors.stick_frequencies import Sticks, TaylorSticks
from thali.priors.truncation import least_truncation, truncation_bound, truncation_error
from thali.registry import PRIORS
from thali.settings import hyperparameter
from thali.structures.features import FeatureCounts


@PRIORS.register("ibp")
@dataclass(frozen=True)
class IBP(Buffet, Truncates):
    """The Indian buffet process: any number of features, most of them rare.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass. A row has alpha features on average, and n rows have alpha (1 + 1/2 + … + 1/n).
        A number is fixed; a hyperprior means that alpha is inferred.

    Examples
    --------
    >>> import numpy as np
    >>> Z = IBP(alpha=2.0).sample(np.random.default_rng(0), 5)
    >>> Z.shape[0]
    5
    >>> round(IBP(alpha=2.0).log_prob(np.ones((1, 1))), 4)  # Poisson(2) at 1
    -1.3069
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many features to expect"
    )

    mass_law = Buffet.mass_law  # that of these tables and of this log P, not of a subclass's

    def truncation(self, n: int, error: float) -> int:
        """The smallest K for which ``tight_truncation_bound`` promises at most ``error``."""
        return least_truncation(n, self._mass(), error)

    def truncation_bound(self, n: int, k: int) -> float:
        """A bound of the probability that n rows have a feature beyond the k most frequent: eq. 6
        of Doshi-Velez and others (2009).

        >>> round(IBP(alpha=5.0).truncation_bound(30, 60), 4)
        0.0027
        """
        return truncation_bound(n, self._mass(), k)

    def truncation_error(self, n: int, k: int) -> float:
        """That probability itself, by quadrature.

        >>> round(IBP(alpha=5.0).truncation_error(30, 20), 2)
        0.84
        """
        return truncation_error(n, self._mass(), k)

    def frequencies(self, k: int, alpha: float, bound: str) -> Frequencies:
        return (TaylorSticks if bound == "taylor" else Sticks).prior(alpha, k)

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        alpha = self._mass()
        n, m = counts.n, counts.column_sums
        return float(
            len(m) * (log(alpha) - lgamma(n + 1.0))
            - log_orders(counts)
            - alpha * harmonic(n, 1.0)
            + (gammaln(n - m + 1.0) + gammaln(m)).sum()
        )

    def _mass(self) -> float:
        return as_number(type(self).__name__, "alpha", self.alpha)
