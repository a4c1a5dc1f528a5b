r"""The Indian buffet process held to at most L features: its law given that K₊ ≤ L.

    P([Z]) = P_IBP([Z] | α) 1{K₊ ≤ L} / P(K₊ ≤ L | α),   K₊ ~ Poisson(α H_N) under the IBP,
    log P([Z]) = K₊ log α − Σ_h log K_h! + Σ_k log (N−m_k)!(m_k−1)!/N! − log Σ_{j≤L} (α H_N)^j / j!

(the e^{−α H_N} of both cancel). Given the other rows, bits are those of the IBP and new features
Poisson(α/N), none beyond L. The last term has α in it: leaving it out of α's update would be
another prior, in which α is likelier the less it asks for. Given K₊ the columns are as in the IBP:
independent, m rows with probability 1/(m H_N), whichever.

The samplers called "truncated" by Reed and Ghahramani (2013, section 6) are those of this prior. It
is not the prior of stick-breaking cut off at L sticks (Doshi-Velez and others 2009), in which the
number of features in use is not Poisson, nor the finite prior, whose features share α.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc, gammaln, logsumexp

from thali.hyperparameters import Gamma, Hyperprior, Values, as_number, draw_numbers
from thali.priors.base import HasUsedFrequencies, PredictsRow
from thali.priors.buffet import (
    PositiveNumbers,
    harmonic,
    log_orders,
    refuse_sample,
    resample_by_slice,
)
from thali.registry import PRIORS
from thali.settings import hyperparameter, setting, whole_number
from thali.structures.features import FeatureCounts, FeatureTables, held_to, left_order

MOST = 100_000  # features, of which a matrix could be held
LEAST = 1e-200  # a probability that still has all its digits
TERMS = 5000  # of the sum, beyond which they are below rounding for L ≤ MOST


@PRIORS.register("truncated_ibp")
@dataclass(frozen=True)
class TruncatedIBP(PositiveNumbers, PredictsRow, HasUsedFrequencies):
    """The Indian buffet process, given that there are at most ``max_features`` features.

    It is of so many rows as there are: further rows of a matrix with few features could bring more,
    so that the first n of n + 1 rows have another distribution than n rows, and new rows cannot be
    predicted.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass of the process that is held. A row has fewer than alpha features on average. A
        number is fixed; a hyperprior means that alpha is inferred.
    max_features : int, default 10
        The largest number of features. Fewer can be in use.

    Examples
    --------
    >>> import numpy as np
    >>> prior = TruncatedIBP(alpha=3.0, max_features=4)
    >>> prior.sample(np.random.default_rng(0), 50).shape
    (50, 4)
    >>> round(prior.log_prob(np.ones((1, 4))), 4)  # Poisson(3) at 4, given at most 4
    -1.5794
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many features to expect"
    )
    max_features: int = setting(10, help="Largest number of features", minimum=1, maximum=MOST)

    consistent = False  # fewer rows than n leave room for features that n have no room for

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """K₊ first; then each column by itself: how many rows, and which."""
        n = whole_number("TruncatedIBP.sample", "n", n, 1)
        (alpha,) = draw_numbers(rng, self)
        total = harmonic(n, 1.0)
        expected = min(float(self.max_features), alpha * total)
        refuse_sample("TruncatedIBP", {"alpha": alpha}, n, expected)
        k = int(rng.choice(self.max_features + 1, p=np.exp(self.log_numbers(alpha, n))))
        Z = np.zeros((n, k), bool)
        rows = np.arange(1, n + 1)
        for i, m in enumerate(rng.choice(rows, k, p=1.0 / rows / total)):
            Z[rng.choice(n, m, replace=False), i] = True
        return left_order(Z)

    def log_numbers(self, alpha: float, n: int) -> np.ndarray:
        """log P(K₊ = k) of n rows, k = 0 … max_features."""
        k, mean = np.arange(self.max_features + 1.0), alpha * harmonic(n, 1.0)
        return np.asarray(k * np.log(mean) - gammaln(k + 1.0) - log_sum(mean, self.max_features))

    def tables(self, n: int) -> FeatureTables:
        m = np.arange(n, dtype=float)
        with np.errstate(divide="ignore"):
            log_odds = np.log(m) - np.log(n - m)
        alpha = as_number("TruncatedIBP", "alpha", self.alpha)
        return FeatureTables(log_odds, float(np.log(alpha / n)), held_to(self.max_features))

    def used_frequencies(self, rng: np.random.Generator, n: int, m: np.ndarray) -> np.ndarray:
        return rng.beta(m, n - m + 1.0)

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        alpha = as_number("TruncatedIBP", "alpha", self.alpha)
        n, m = counts.n, counts.column_sums
        if len(m) > self.max_features:
            return -np.inf
        columns = (gammaln(n - m + 1.0) + gammaln(m) - gammaln(n + 1.0)).sum()
        total = log_sum(alpha * harmonic(n, 1.0), self.max_features)
        return float(len(m) * np.log(alpha) + columns - log_orders(counts) - total)

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        # P(α | Z) ∝ p(α) α^K / Σ_{j≤L} (α H_N)^j / j!, which is no gamma
        resample_by_slice(rng, self, "alpha", hyper, counts)


def log_sum(mean: float, most: int) -> float:
    """log Σ_{j≤L} μ^j / j!, which is μ + log P(a Poisson number of mean μ is at most L).

    >>> round(float(np.exp(log_sum(2.0, 2))), 6), round(log_sum(1e6, 1), 6)
    (5.0, 13.815512)
    """
    share = float(gammaincc(most + 1.0, mean))
    if share > LEAST:
        return mean + float(np.log(share))
    # μ is far above L then, so that terms fall quickly from the last one down
    j = np.arange(max(most - TERMS, 0), most + 1.0)
    return float(logsumexp(j * np.log(mean) - gammaln(j + 1.0)))
