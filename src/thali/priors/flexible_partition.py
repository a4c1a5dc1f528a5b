r"""Flexible priors over partitions: any potential of a cluster's size, and more.

    log P(partition) = Σ_i λ_i m_i + w·φ(m) − log 𝒵,           m_i clusters of i rows

Without features φ of all size counts together it is a product over clusters (``linear_partition``).
With them, sums over all sets of sizes are exact up to 60 rows, and means over weighted draws of a
linear prior beyond (``size_sets``).
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from thali.hyperparameters import Value, Values
from thali.priors.checked_features import given_by, refuse_no_function, weighed
from thali.priors.linear_partition import NEVER, LinearPartition
from thali.priors.nonlinear_wishes import NonlinearWish, learn, one_cluster
from thali.priors.partition import PredictsLabel
from thali.priors.size_sets import OWNER, SizeFeatures, SizeSets, all_size_sets, weighted_sets
from thali.priors.wished_sizes import Penalty, Wish, potentials_of
from thali.registry import PRIORS
from thali.settings import setting, whole_number
from thali.structures.labels import canonical_labels
from thali.structures.partitions import PartitionCounts, PartitionTables


@PRIORS.register("flexible_partition")
@dataclass(frozen=True)
class FlexiblePartition(LinearPartition):
    """A prior over partitions with a potential for every size of a cluster.

    Parameters
    ----------
    potentials : sequence of N numbers
        λ_1 … λ_N for N rows: the larger λ_i, the more clusters of i rows. −inf means none.
    features : function, optional
        φ(m), any numbers that depend on the size counts m, (N,), m[i − 1] clusters of i rows: a
        variance, the size of the largest cluster; the same numbers whenever it is asked, finite
        or −inf, which excludes. The prior is then no longer a product over
        clusters, and rows are sampled one by one in Python: slow, for some hundreds of rows.
    weights : sequence of numbers
        w, one for each number of φ(m), which adds w·φ(m) to the log probability. The normalizer is
        a sum over all sets of sizes up to 60 rows (some seconds, once), and estimated by draws
        beyond.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import gammaln
    >>> sizes = np.arange(1, 4)
    >>> prior = FlexiblePartition(potentials=tuple(gammaln(sizes)))  # the Dirichlet process, α = 1
    >>> round(prior.log_prob(np.array([0, 0, 1])), 4)
    -1.7918
    """

    potentials: tuple[float, ...] = setting((), help="a number λ_i for each size i, in a file")
    features: SizeFeatures | None = None
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        try:
            given = np.asarray(self.potentials, float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"FlexiblePartition: potentials must be numbers λ_1, …, λ_N, not "
                f"{self.potentials!r}."
            ) from error
        if given.ndim != 1 or not len(given) or np.isnan(given).any() or (given == np.inf).any():
            raise ValueError(
                "FlexiblePartition: potentials must be one number λ_i for each size i = 1, …, N "
                "of a cluster, finite or -inf (no cluster of that size)."
            )
        object.__setattr__(self, "potentials", tuple(given.tolist()))
        self._check_features()
        self.log_sums(len(given))

    def _check_features(self) -> None:
        """Refuse features that are no function, or that give other than a number a weight."""
        if self.features is None:
            if len(self.weights):
                raise ValueError("FlexiblePartition: weights are those of features; give both.")
            return
        refuse_no_function(OWNER, self.features, "the size counts m")
        try:
            weights = np.atleast_1d(np.asarray(self.weights, float))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{OWNER}: weights must be numbers, not {self.weights!r}.") from error
        found = given_by(OWNER, self.features, one_cluster(len(self.potentials)))
        if weights.shape != found.shape or not np.isfinite(weights).all():
            raise ValueError(
                f"{OWNER}: features gives {len(found)} numbers, so that weights must be as many "
                f"finite ones, not {self.weights!r}."
            )
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """Whether the log probability is a sum over clusters."""
        return self.features is None

    def extra(self, m: np.ndarray) -> float:
        """w·φ(m)."""
        if self.features is None:
            return 0.0
        return float(weighed(OWNER, given_by(OWNER, self.features, m), np.array(self.weights)))

    def tables(self, n: int) -> PartitionTables:
        if not self.linear:
            raise ValueError(
                "FlexiblePartition with features has no tables: what a cluster is worth depends on "
                "the others. CollapsedGibbs asks for it row by row."
            )
        return super().tables(n)

    def linear_part(self) -> PredictsLabel:
        return self if self.linear else FlexiblePartition(self.potentials)

    def tables_beside(self, n: int, sizes: np.ndarray) -> PartitionTables:
        """Log probabilities, up to a constant, of all that one row more can lead to."""
        if self.linear:
            return self.tables(n)
        own = np.maximum(np.concatenate([[0.0], self.potentials_for(n)]), NEVER)
        m = np.bincount(sizes, minlength=n + 1)[1:].astype(float)
        join, opening = np.full(n, -np.inf), np.full(n + 1, -np.inf)
        for size in np.unique(sizes):
            then = m.copy()
            then[size - 1] -= 1.0
            then[size] += 1.0
            join[size] = own[size + 1] - own[size] + max(self.extra(then), NEVER)
        m[0] += 1.0
        opening[len(sizes)] = own[1] + max(self.extra(m), NEVER)
        return PartitionTables(join, opening)

    def log_prob_counts(self, counts: PartitionCounts) -> float:
        if self.linear:
            return super().log_prob_counts(counts)
        own = self.potentials_for(counts.n)[counts.sizes - 1].sum()
        extra = self.extra(counts.size_counts.astype(float))
        return float(own + extra - self._weighted(counts.n)[2])

    def _weighted(self, n: int) -> tuple[SizeSets, np.ndarray, float]:
        """Sets of cluster sizes, the log probability of each, and the log normalizer."""
        assert self.features is not None
        own = tuple(self.potentials_for(n).tolist())
        return weighted_sets(own, self.features, self.weights)

    def log_signatures(self, n: int) -> np.ndarray:
        if self.linear:
            return super().log_signatures(n)
        all_size_sets(n)  # refuses where there are too many
        return self._weighted(n)[1]

    def expected_size_counts(self, n: int) -> np.ndarray:
        """Exact where the prior is linear, and up to 60 rows; else a mean over weighted draws."""
        if self.linear:
            return super().expected_size_counts(n)
        sets, logs, _ = self._weighted(n)
        return np.asarray(np.exp(logs) @ sets.counts)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Exact where the prior is linear, and up to 60 rows; beyond, sizes are those of one of
        many weighted draws."""
        if self.linear:
            return super().sample(rng, n)
        n = whole_number("FlexiblePartition.sample", "n", n, 1)
        sets, logs, _ = self._weighted(n)
        ends = np.cumsum(np.exp(logs))
        at = min(int(np.searchsorted(ends, rng.random() * ends[-1], "right")), len(ends) - 1)
        m = sets.counts[[at]].toarray()[0].astype(int)
        labels = np.repeat(np.arange(m.sum()), np.repeat(np.arange(1, n + 1), m))
        return canonical_labels(rng.permutation(labels))

    @classmethod
    def from_expectations(
        cls,
        counts: Any,
        *,
        pull: float = 0.0,
        smooth: float = 0.0,
        alpha: float = 1.0,
        features: SizeFeatures | None = None,
        expected: Any = None,
        seed: int = 0,
    ) -> Self:
        """The prior of most entropy with E[m_i] = counts[i − 1] for N = len(counts) rows.

        ``pull`` and ``smooth`` weigh penalties, pull·Σ(λ_i − λ_i^DP)² towards the Dirichlet process
        of mass ``alpha`` and smooth·Σ(λ_i − λ_{i−1})² (eq. 4 of the paper); with them the
        expectations are met approximately. A wish that no prior can meet is refused, with the
        nearest that one can. With ``features`` φ(m), E[φ(m)] = ``expected`` is wished for too. Both
        are then met exactly up to 60 rows, and beyond within the noise of draws made with ``seed``;
        a warning tells where that may be more than 2% (``nonlinear_wishes``).

        >>> prior = FlexiblePartition.from_expectations([1.0, 0.5, 1 / 3])
        >>> prior.expected_size_counts(3).round(6).tolist()
        [1.0, 0.5, 0.333333]
        """
        own, penalty = Wish.of(counts), Penalty.of(pull, smooth, alpha)
        potentials = potentials_of(own, penalty)
        if features is None:
            if expected is not None:
                raise ValueError("expected is what is wished of features; give both.")
            return cls(tuple(potentials.tolist()))
        wish = NonlinearWish.of(own, features, expected, penalty)
        found, weights = learn(np.random.default_rng(seed), wish, potentials)
        return cls(tuple(found.tolist()), features, tuple(weights.tolist()))

    @classmethod
    def smooth_form(cls, a: Any, b: Any, c: Any) -> LinearPartition:
        """Potentials a + b log Γ(i + c), each a number or a hyperprior: a ``SmoothPartition``."""
        from thali.priors.smooth_partition import SmoothPartition

        return SmoothPartition(a, b, c)

    def potentials_for(self, n: int) -> np.ndarray:
        if n > len(self.potentials):
            raise ValueError(
                f"FlexiblePartition has potentials of sizes up to {len(self.potentials)}, and "
                f"{n} rows need {n} of them: the prior is not consistent, so that it cannot be "
                "continued to more rows."
            )
        return np.array(self.potentials[:n])

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def start(self) -> dict[str, Value]:
        return {}

    def resample(self, rng: np.random.Generator, hyper: Values, counts: PartitionCounts) -> None:
        """Potentials are numbers: nothing is inferred."""
