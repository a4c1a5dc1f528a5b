r"""The Dirichlet process and the Pitman–Yor process, as priors over partitions.

    P(partition) = ∏_{k=1}^{K−1} (α + k d) / ∏_{i=1}^{N−1} (α + i) · ∏_k Γ(n_k − d)/Γ(1 − d)

d is the discount; d = 0 is the Dirichlet process, where the first product is α^{K−1}. A row joins
a cluster of j others with weight j − d, and opens one beside K others with α + K d.
"""

from dataclasses import dataclass
from math import log
from typing import Self

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import (
    SMALLEST,
    Beta,
    Gamma,
    Hyperprior,
    Value,
    Values,
    as_number,
    check_hyperparameter,
    draw_numbers,
    first_numbers,
    slice_step_of_probability,
)
from thali.priors.buffet import LARGEST_MASS, resample_by_slice
from thali.priors.partition import BreaksSticks, ConsistentPartition
from thali.registry import PRIORS
from thali.settings import Settings, hyperparameter, hyperparameters_of, whole_number
from thali.structures.partitions import PartitionCounts, PartitionTables

LARGE = 1e5  # a mass beyond which a quotient of gammas loses digits, and a product is summed


class Restaurant(Settings, ConsistentPartition, BreaksSticks):
    """What both have in common; the Dirichlet process has no discount."""

    alpha: float | Hyperprior

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, Value]:
        return first_numbers(self)

    def tables(self, n: int) -> PartitionTables:
        alpha, discount = self._numbers()
        j, k = np.arange(n, dtype=float), np.arange(n + 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            join = np.log(j - discount)
            opening = np.log(alpha + k * discount)
        join[:1] = -np.inf
        if n:
            opening[0] = 0.0  # the first row opens the first cluster, whatever the mass
        return PartitionTables(join, opening)

    def mass_and_discount(self, hyper: Values) -> tuple[Value, Value]:
        return hyper["alpha"], hyper.get("discount", 0.0)

    def sticks(self, k: int) -> np.ndarray:
        """v_j ~ Beta(1 − d, α + j d)."""
        alpha, discount = self._numbers()
        return np.column_stack([np.full(k, 1.0 - discount), alpha + discount * np.arange(1, k + 1)])

    def log_prob_counts(self, counts: PartitionCounts) -> float:
        alpha, discount = self._numbers()
        k, n, sizes = len(counts.sizes), counts.n, counts.sizes
        opened = np.log(alpha + discount * np.arange(1, k)).sum()
        rows = gammaln(alpha + n) - gammaln(alpha + 1.0)
        if alpha > LARGE:
            rows = np.log(alpha + np.arange(1.0, n)).sum()
        return float(opened - rows + gammaln(sizes - discount).sum() - k * gammaln(1.0 - discount))

    def expected_size_counts(self, n: int) -> np.ndarray:
        """E[m_i] = C(n, i) Γ(i − d)/Γ(1 − d) · (α + d)_{n−i}/(α + 1)_{n−1} for i ≤ n.

        The rising factorial (α + d)_{n−i} has n − i terms: what rows outside of a cluster of i do.
        """
        alpha, d = self._numbers()
        i = np.arange(1, n + 1.0)
        choose = gammaln(n + 1.0) - gammaln(i + 1.0) - gammaln(n - i + 1.0)
        steps = np.cumsum(np.log(alpha + d + np.arange(n - 1.0)))
        outside = np.append(0.0, steps)[::-1]
        whole = np.log(alpha + np.arange(1.0, n)).sum()
        return np.asarray(np.exp(choose + gammaln(i - d) - gammaln(1.0 - d) + outside - whole))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Row by row: with an earlier row, each equally likely, or in a new cluster."""
        n = whole_number(f"{type(self).__name__}.sample", "n", n, 1)
        drawn = dict(zip(hyperparameters_of(self), draw_numbers(rng, self), strict=True))
        alpha, discount = self.at(**drawn)._numbers()
        return draw_partition(rng, n, alpha, discount)

    def resample(self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts) -> None:
        if isinstance(self.alpha, Hyperprior):
            self._resample_mass(rng, hyper, counts)

    def _resample_mass(
        self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts
    ) -> None:
        """By a slice step on log α."""
        resample_by_slice(rng, self, "alpha", hyper, counts)

    def _numbers(self) -> tuple[float, float]:
        return as_number(type(self).__name__, "alpha", self.alpha), 0.0


@PRIORS.register("dirichlet_process")
@dataclass(frozen=True)
class DirichletProcess(Restaurant):
    """The Dirichlet process: about α log n clusters, many of them tiny.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass: n rows have about alpha log(1 + n/alpha) clusters. A number is fixed; a
        hyperprior means that alpha is inferred.

    Examples
    --------
    >>> import numpy as np
    >>> prior = DirichletProcess(alpha=1.0)
    >>> round(prior.log_prob(np.array([0, 0, 1])), 4)  # 1/2 · 1/3
    -1.7918
    >>> prior.expected_size_counts(3).round(4).tolist()
    [1.0, 0.5, 0.3333]
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many clusters to expect"
    )

    def __post_init__(self) -> None:
        check_hyperparameter(type(self).__name__, "alpha", self.alpha, most=LARGEST_MASS)

    def _resample_mass(
        self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts
    ) -> None:
        """Escobar and West (1995): given an auxiliary Beta(α + 1, n) variable, a gamma."""
        if not isinstance(self.alpha, Gamma):
            super()._resample_mass(rng, hyper, counts)
            return
        k, n, a = len(counts.sizes), counts.n, self.alpha.shape
        eta = max(rng.beta(hyper["alpha"] + 1.0, n), SMALLEST)
        rate = self.alpha.rate - log(eta)
        odds = (a + k - 1.0) / (n * rate)
        shape = a + k if rng.random() * (1.0 + odds) < odds else a + k - 1.0
        hyper["alpha"] = max(float(rng.gamma(shape, 1.0 / rate)), SMALLEST)


@PRIORS.register("pitman_yor")
@dataclass(frozen=True)
class PitmanYor(Restaurant):
    """The Pitman–Yor process: the number of clusters grows like n to the power of the discount.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        The mass. A number above −discount is fixed; a hyperprior means that it is inferred.
    discount : float or hyperprior, default Beta(1, 1)
        Between 0, the Dirichlet process, and 1: the larger, the more clusters of one row.

    Examples
    --------
    >>> import numpy as np
    >>> round(PitmanYor(alpha=1.0, discount=0.5).log_prob(np.array([0, 0, 1])), 4)  # ¼ · ½
    -2.0794
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many clusters to expect"
    )
    discount: float | Hyperprior = hyperparameter(
        Beta(1.0, 1.0), symbol="d", words="how many of them are tiny"
    )

    def __post_init__(self) -> None:
        owner, alpha, discount = type(self).__name__, self.alpha, self.discount
        if isinstance(discount, Hyperprior) or discount != 0.0:  # which is fine too
            check_hyperparameter(owner, "discount", discount, probability=True)
        if isinstance(alpha, Hyperprior) or alpha != alpha or not -1.0 < alpha <= 0.0:
            check_hyperparameter(owner, "alpha", alpha, most=LARGEST_MASS)
        elif isinstance(self.discount, Hyperprior) or alpha <= -self.discount:
            raise ValueError(
                f"PitmanYor: alpha={alpha!r} must be above minus the discount, which must then be "
                f"a number; it is {self.discount!r}."
            )

    def resample(self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts) -> None:
        super().resample(rng, hyper, counts)
        hyperprior = self.discount
        if isinstance(hyperprior, Hyperprior):

            def log_density(value: float) -> float:
                at = self.at(alpha=hyper["alpha"], discount=value)
                return hyperprior.log_density(value) + at.log_prob_counts(counts)

            hyper["discount"] = slice_step_of_probability(
                rng, hyper["discount"], log_density, width=1.0
            )

    def _numbers(self) -> tuple[float, float]:
        """α may be a number below zero, and d zero, where they are fixed."""
        owner = type(self).__name__
        for name, given in (("alpha", self.alpha), ("discount", self.discount)):
            if isinstance(given, Hyperprior):
                as_number(owner, name, given)  # says that it must be fixed first
        return float(self.alpha), float(self.discount)  # type: ignore[arg-type]


def draw_partition(rng: np.random.Generator, n: int, alpha: float, discount: float) -> np.ndarray:
    """Labels of n rows, canonical.

    Where α ≥ 0 a row points at i + α places, i of them earlier rows: at one of a cluster of j it
    joins that, but for a share d/j of times, in which it opens one, as it does at the others.
    """
    labels, sizes = np.zeros(n, np.int64), [1] if n else []
    uniform = rng.random((n, 2))
    for i in range(1, n):
        if alpha >= 0.0:
            at = uniform[i, 0] * (i + alpha)
            k = int(labels[int(at)]) if at < i else len(sizes)
            if k < len(sizes) and uniform[i, 1] * sizes[k] < discount:
                k = len(sizes)
        else:
            ends = np.cumsum(np.append(np.array(sizes) - discount, alpha + len(sizes) * discount))
            k = int(np.searchsorted(ends, uniform[i, 0] * ends[-1], side="right"))
        if k == len(sizes):
            sizes.append(0)
        sizes[k] += 1
        labels[i] = k
    return labels
