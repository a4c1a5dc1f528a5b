r"""The prior of a Z that is a point: frequencies integrated out, all that counts is how many rows
have each feature.

Columns are told apart by their q(a), so what is maximized is the probability of Z up to shifts,
P([Z]) ∏_h K_h!/K₊!: one order of K₊ columns out of all (Reed and Ghahramani 2013, eq. 1). It keeps
the objective of a row submodular. q may as well give equal weight to the K₊!/∏_h K_h! matrices that
are Z in another order, the q(a) in that order too: nothing else of the bound changes, the entropy
adds their logarithm, and the sum has the left-ordered P([Z]). That is what is reported; it is never
lower.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln

from thali.engines.ascent.bound import best_positive
from thali.hyperparameters import Gamma, Hyperprior, Value
from thali.priors.base import PredictsRow
from thali.structures.features import FeatureCounts, counts_from_gram


@dataclass(frozen=True)
class Counts:
    """A prior with numbers for hyperparameters, and the most features ``k`` that there may be."""

    prior: PredictsRow
    k: int

    def at(self, hyper: Mapping[str, Value]) -> Self:
        """The same with other numbers, by the prior's own names."""
        return replace(self, prior=self.prior.at(**hyper))

    def gain(self, counts: np.ndarray, n: float, alpha: float) -> float:
        """The prior's part of the bound; α is that of the prior."""
        m = counts[counts > 0.5]
        return float(self.prior.log_prob_counts(FeatureCounts(int(n), m, np.array([len(m)]))))

    def log_orders(self, gram: np.ndarray, n: float) -> float:
        """What the left-ordered probability has more, given ZᵀZ without empty columns."""
        times = counts_from_gram(int(n), np.round(gram)).multiplicities
        return float(gammaln(len(gram) + 1.0) - gammaln(times + 1.0).sum())

    def by_number(self, k: int, capacity: int) -> np.ndarray:
        """The part that depends on the number of features alone, for 0 … k of them."""
        used = np.arange(k + 1.0)
        if capacity < 0:
            return np.asarray(-gammaln(used + 1.0))
        # of more than there are, none: the columns kept are never more
        return np.asarray(-gammaln(used + 1.0) - gammaln(np.maximum(capacity - used, 0.0) + 1.0))

    def best(
        self,
        hyperpriors: Mapping[str, Hyperprior],
        hyper: Mapping[str, Value],
        counts: np.ndarray,
        n: float,
    ) -> dict[str, Value]:
        """The prior's own hyperparameters at their best, one after the other.

        Without features the best α is none at all, from which none would be born: it stays.
        """
        found = dict(hyper)
        for name, hyperprior in hyperpriors.items() if len(counts) else ():
            mode = self._mode(name, hyperprior, found, counts, n)
            if mode > 0.0:
                found[name] = mode
                continue

            def target(value: float, name: str = name, of: Hyperprior = hyperprior) -> float:
                at = self.at({**found, name: value})
                return of.log_density(value) + at.gain(counts, n, value)

            found[name] = best_positive(target, found[name])
        return found

    def _mode(
        self,
        name: str,
        hyperprior: Hyperprior,
        hyper: Mapping[str, Value],
        counts: np.ndarray,
        n: float,
    ) -> float:
        """The best α where it is known at once: where given Z it has a gamma distribution."""
        if name != "alpha" or not isinstance(hyperprior, Gamma):
            return 0.0
        prior = self.prior.replace(alpha=hyperprior)  # type: ignore[attr-defined]
        law = prior.mass_law(int(n), dict(hyper))
        if law is None or law.shape == 0.0:
            return 0.0
        return float((law.shape + np.count_nonzero(counts > 0.5) - 1.0) / (law.rate + law.total))
