r"""The two-parameter Indian buffet process: α features a row, β decides how they are shared.

    log P([Z]) = K₊ log αβ − Σ_h log K_h! − α Σ_i β/(β+i−1) + Σ_k log Γ(m_k)Γ(N−m_k+β)/Γ(N+β)

Row n has feature k with probability m_{−n,k}/(β+N−1) and Poisson(αβ/(β+N−1)) new ones.
β = 1 is the one-parameter process; a large β shares features less.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import Gamma, Hyperprior, Value, Values
from thali.priors.buffet import Buffet, harmonic, resample_by_slice
from thali.registry import PRIORS
from thali.settings import hyperparameter
from thali.structures.features import FeatureCounts


@PRIORS.register("two_parameter_ibp")
@dataclass(frozen=True)
class TwoParameterIBP(Buffet):
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

    mass_law = Buffet.mass_law  # that of these tables and of this log P, not of a subclass's

    def _beta(self, hyper: Mapping[str, Value]) -> Value:
        return hyper["beta"]

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        alpha, beta = self._alpha_beta()
        n, m = counts.n, counts.column_sums
        return float(
            len(m) * np.log(alpha * beta)
            - gammaln(counts.multiplicities + 1.0).sum()
            - alpha * harmonic(n, beta)
            + (gammaln(m) + gammaln(n - m + beta)).sum()
            - len(m) * gammaln(n + beta)
        )

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        super().resample(rng, hyper, counts)
        resample_by_slice(rng, self, "beta", hyper, counts)
