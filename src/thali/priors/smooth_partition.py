r"""A flexible prior over partitions with three numbers (eq. 19 of Welling and others 2012).

    λ_i = a + b log Γ(i + c),   c > −1

a = log α, b = 1, c = 0 is the Dirichlet process. b below 1 makes large clusters rarer, above 1 more
frequent; c above 0 makes clusters of few rows rarer beside those of many. The normalizer is known,
so that all three are inferred exactly; each evaluation costs O(N²).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import (
    Gamma,
    Hyperprior,
    Normal,
    Value,
    Values,
    as_number,
    check_hyperparameter,
    check_real,
    draw_numbers,
    first_numbers,
    slice_step_of_real,
)
from thali.priors.buffet import resample_by_slice
from thali.priors.linear_partition import LinearPartition
from thali.registry import PRIORS
from thali.settings import hyperparameter, hyperparameters_of
from thali.structures.partitions import PartitionCounts


@PRIORS.register("smooth_partition")
@dataclass(frozen=True)
class SmoothPartition(LinearPartition):
    """A prior over partitions with potentials a + b log Γ(i + c) of a cluster of i rows.

    Parameters
    ----------
    a : float or Normal, default Normal(0, 2)
        The larger, the more clusters: the logarithm of a Dirichlet process's mass.
    b : float or hyperprior, default Gamma(4, 4)
        How much large clusters are favoured: 1 in a Dirichlet process.
    c : float above -1, or hyperprior, default Gamma(1, 1)
        The larger, the rarer tiny clusters are: 0 in a Dirichlet process.

    Examples
    --------
    >>> import numpy as np
    >>> prior = SmoothPartition(a=0.0, b=1.0, c=0.0)  # the Dirichlet process, α = 1
    >>> round(prior.log_prob(np.array([0, 0, 1])), 4)
    -1.7918
    """

    a: float | Hyperprior = hyperparameter(
        Normal(0.0, 2.0), symbol="a", words="how many clusters to expect"
    )
    b: float | Hyperprior = hyperparameter(
        Gamma(4.0, 4.0), symbol="b", words="how much large clusters are favoured"
    )
    c: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="c", words="how rare tiny clusters are"
    )

    def __post_init__(self) -> None:
        if isinstance(self.a, Hyperprior):
            if not self.a.real:
                raise TypeError(
                    f"SmoothPartition: a must be a number (fixed) or thali.Normal(0, 2) "
                    f"(inferred), not {self.a!r}."
                )
        else:
            check_real("SmoothPartition", "a", self.a)
        check_hyperparameter("SmoothPartition", "b", self.b, most=1e6)
        if isinstance(self.c, Hyperprior):
            check_hyperparameter("SmoothPartition", "c", self.c, most=1e6)
        else:
            check_real("SmoothPartition", "c", self.c, -1.0)

    def potentials_for(self, n: int) -> np.ndarray:
        numbers = []
        for name in hyperparameters_of(self):
            if isinstance(value := getattr(self, name), Hyperprior):
                as_number("SmoothPartition", name, value)  # says that it must be fixed first
            numbers.append(float(value))
        a, b, c = numbers
        return np.asarray(a + b * gammaln(np.arange(1.0, n + 1.0) + c))

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, Value]:
        return dict(first_numbers(self))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        drawn = dict(zip(hyperparameters_of(self), draw_numbers(rng, self), strict=True))
        return super(SmoothPartition, self.at(**drawn)).sample(rng, n)

    def resample(self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts) -> None:
        """By slice steps: on a itself, on log b and on log c."""
        hyperprior = self.a
        if isinstance(hyperprior, Hyperprior):

            def log_density(value: float) -> float:
                at = self.at(a=value, b=hyper["b"], c=hyper["c"])
                return hyperprior.log_density(value) + at.log_prob_counts(counts)

            hyper["a"] = slice_step_of_real(rng, hyper["a"], log_density, width=2.0)
        for name in ("b", "c"):
            resample_by_slice(rng, self, name, hyper, counts)
