r"""The finite Beta-Bernoulli prior: K features, π_k ~ Beta(α/K, 1), z_nk ~ Bernoulli(π_k).

    P(Z) = ∏_k (α/K) Γ(m_k + α/K) Γ(N − m_k + 1) / Γ(N + 1 + α/K)
    P([Z]) = K! / (K_0! ∏_h K_h!) · P(Z),   K_0 the empty columns

Only columns in use are stored: given the others, a row takes each of the unused ones with odds
(α/K)/N, so the number of new features is binomial, and the same kernel serves as for the IBP,
with room for K of them. As K → ∞ it becomes the IBP.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import Gamma, Hyperprior, Values, as_number, draw_numbers
from thali.priors.base import HasFrequencies, PredictsRow, Sequential, Truncates
from thali.priors.buffet import PositiveNumbers, draw_rows, refuse_sample, resample_by_slice
from thali.priors.frequencies import Frequencies
from thali.registry import PRIORS
from thali.settings import hyperparameter, setting, whole_number
from thali.structures.features import FeatureCounts, FeatureTables, NextRow


@PRIORS.register("beta_bernoulli")
@dataclass(frozen=True)
class BetaBernoulli(PositiveNumbers, PredictsRow, HasFrequencies, Sequential, Truncates):
    """A finite number of features, each with its own Beta(alpha / n_components, 1) frequency.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass. A row has alpha / (1 + alpha / n_components) features on average. A number is
        fixed; a hyperprior means that alpha is inferred.
    n_components : int, default 10
        The largest number of features. Fewer can be in use.

    Examples
    --------
    >>> import numpy as np
    >>> BetaBernoulli(alpha=3.0, n_components=4).sample(np.random.default_rng(0), 6).shape[1] <= 4
    True
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many features to expect"
    )
    n_components: int = setting(10, help="Largest number of features", minimum=1)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        n = whole_number("BetaBernoulli.sample", "n", n, 1)
        (alpha,) = draw_numbers(rng, self)
        expected = min(float(self.n_components), alpha * (1.0 + float(np.log(n))))  # at most
        refuse_sample("BetaBernoulli", {"alpha": alpha}, n, expected)
        # row by row over the features in use, so that a huge n_components costs nothing:
        # an old one has probability (m_k + a)/(i + a + 1), each unused one a/(i + a + 1)
        a = alpha / self.n_components
        return draw_rows(
            rng,
            n,
            lambda i, m: (m + a) / (i + a + 1.0),
            lambda i, k: rng.binomial(self.n_components - k, a / (i + a + 1.0)),
        )

    def truncation(self, n: int, error: float) -> int:
        return self.n_components  # there are no more

    def frequencies(self, k: int, alpha: float, bound: str) -> Frequencies:
        return Frequencies.prior(alpha, k)

    def tables(self, n: int) -> FeatureTables:
        a = as_number("BetaBernoulli", "alpha", self.alpha) / self.n_components
        m = np.arange(n, dtype=float)
        return FeatureTables(np.log(m + a) - np.log(n - m), float(np.log(a / n)), self.n_components)

    def next_row(self, n: int, hyper: Values) -> NextRow:
        a = hyper["alpha"] / self.n_components
        return NextRow(a, float(n), np.log(a / n), self.n_components)

    def used_frequencies(self, rng: np.random.Generator, n: int, m: np.ndarray) -> np.ndarray:
        a = as_number("BetaBernoulli", "alpha", self.alpha) / self.n_components
        return rng.beta(m + a, n - m + 1.0)

    def unused_frequencies(
        self, rng: np.random.Generator, n: int, used: int, above: float
    ) -> np.ndarray:
        a = as_number("BetaBernoulli", "alpha", self.alpha) / self.n_components
        pi = rng.beta(a, n + 1.0, self.n_components - used)
        return pi[pi > above]

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        k = self.n_components
        a = as_number("BetaBernoulli", "alpha", self.alpha) / k
        n, m = counts.n, counts.column_sums
        empty = k - len(m)
        if empty < 0:
            return -np.inf
        return float(
            gammaln(k + 1.0)
            - gammaln(empty + 1.0)
            - gammaln(counts.multiplicities + 1.0).sum()
            + k * (np.log(a) - gammaln(n + 1.0 + a))
            + (gammaln(m + a) + gammaln(n - m + 1.0)).sum()
            + empty * (gammaln(a) + gammaln(n + 1.0))
        )

    def resample(self, rng: np.random.Generator, hyper: Values, counts: FeatureCounts) -> None:
        resample_by_slice(rng, self, "alpha", hyper, counts)
