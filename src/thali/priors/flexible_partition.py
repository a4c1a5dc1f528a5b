r"""Flexible priors over partitions (Welling and others 2012): any potential of a cluster's size.

    log P(partition) = Σ_i λ_i m_i − log Z_N,           m_i clusters of i rows

The normalizer, draws and expectations are exact (``kernels/partition_sums``):

    E[m_i] = C(N, i) e^{λ_i} Z_{N−i} / Z_N,
    a draw: the first row's cluster has i rows with probability C(N−1, i−1) e^{λ_i} Z_{N−i}/Z_N.

λ_i + c·i is the same prior. These priors are not consistent: the first rows of a larger draw are no
draw of a smaller one, so that N, the number of rows, belongs to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import Value, Values
from thali.priors.nonlinear_wishes import NonlinearWish, SizeFeatures, learn
from thali.priors.partition import PredictsLabel
from thali.priors.partition_sums import (
    drawn_size_counts,
    expected_pairs,
    expected_sizes,
    log_choose,
    sums_of,
)
from thali.priors.wished_sizes import Wish, potentials_of
from thali.registry import PRIORS
from thali.settings import Settings, setting, whole_number
from thali.structures.labels import canonical_labels
from thali.structures.partitions import PartitionCounts, PartitionTables

NEVER = -1e9  # a potential that stands for −inf
ENUMERATED = 30  # rows up to which all 5604 sets of sizes are summed over
WEIGHTED = 20_000  # draws by which expectations are estimated beyond
ACCEPTED = 50  # draws of a linear prior, of which a draw with features is the last accepted
NEARER = 3  # rounds in which that prior is found


class LinearPartition(Settings, PredictsLabel):
    """Potentials of sizes alone, whatever form they are given in."""

    consistent = False

    def potentials_for(self, n: int) -> np.ndarray:
        """λ_1 … λ_n."""
        raise NotImplementedError

    def forbids(self, n: int) -> bool:
        return bool(np.isneginf(self.potentials_for(n)).any())

    def log_sums(self, n: int) -> np.ndarray:
        """log Z_0 … log Z_n; n rows that no partition of the prior has are refused."""
        found = sums_of(self.potentials_for(n).tobytes())
        if not found[n] > -np.inf:
            raise ValueError(
                f"{type(self).__name__}: no partition of {n} rows has clusters of only the sizes "
                "whose potentials are above -inf."
            )
        return found

    def tables(self, n: int) -> PartitionTables:
        """Where no cluster may have i rows, −inf is a large number, so that i others, which are
        there while a row of a larger cluster is out, draw it back with as much weight."""
        own = np.maximum(np.concatenate([[0.0], self.potentials_for(n)]), NEVER)
        join = np.append(-np.inf, np.diff(own)[1:])
        return PartitionTables(join, np.full(n + 1, own[1]))

    def log_prob_counts(self, counts: PartitionCounts) -> float:
        own = self.potentials_for(counts.n)
        return float(own[counts.sizes - 1].sum() - self.log_sums(counts.n)[counts.n])

    def expected_size_counts(self, n: int) -> np.ndarray:
        return expected_sizes(self.potentials_for(n), self.log_sums(n))

    def expected_pairs(self, n: int) -> np.ndarray:
        """E[m_i m_j], (n, n)."""
        return expected_pairs(self.potentials_for(n), self.log_sums(n))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """The size of the first row's cluster, who else is in it, then the rest."""
        n = whole_number(f"{type(self).__name__}.sample", "n", n, 1)
        own, sums, labels = self.potentials_for(n), self.log_sums(n), np.zeros(n, np.int64)
        left, k = np.arange(n), 0
        while len(left):
            i = np.arange(1, len(left) + 1)
            logs = log_choose(len(left) - 1, i - 1) + own[: len(left)] + sums[len(left) - i]
            weights = np.exp(logs - logs.max())
            size = 1 + int(rng.choice(len(weights), p=weights / weights.sum()))
            others = 1 + rng.permutation(len(left) - 1)[: size - 1]
            labels[left[0]], labels[left[others]] = k, k
            left, k = np.delete(left, np.append(0, others)), k + 1
        return canonical_labels(labels)

    def signatures(self, n: int) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every set of cluster sizes, largest first, and its probability; for small n.

        There are n!/∏ (i!)^{m_i} m_i! partitions of each.
        """
        own, total = self.potentials_for(n), self.log_sums(n)[n]
        for sizes in integer_partitions(n):
            given = np.array(sizes)
            m = np.bincount(given)
            many = gammaln(n + 1.0) - gammaln(given + 1.0).sum() - gammaln(m + 1.0).sum()
            yield sizes, float(np.exp(many + own[given - 1].sum() - total))


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
        variance, the size of the largest cluster. The prior is then no longer a product over
        clusters, and rows are sampled one by one in Python: slow, for some hundreds of rows.
    weights : sequence of numbers
        w, one for each number of φ(m), which adds w·φ(m) to the log probability. The normalizer is
        a sum over all sets of sizes up to 30 rows, and not known beyond: ``log_prob`` and log
        joints then lack it.

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
        if not callable(self.features):
            raise TypeError(
                "FlexiblePartition: features must be a function of the size counts m, not "
                f"{self.features!r}."
            )
        weights = np.asarray(self.weights, float)
        one = np.zeros(len(self.potentials))
        one[-1] = 1.0
        found = np.atleast_1d(np.asarray(self.features(one), float))
        if weights.shape != found.shape or not np.isfinite(weights).all():
            raise ValueError(
                f"FlexiblePartition: features gives {len(found)} numbers, so that weights must be "
                f"as many finite ones, not {self.weights!r}."
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
        return float(np.dot(self.weights, np.atleast_1d(self.features(m))))

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
            join[size] = own[size + 1] - own[size] + self.extra(then)
        m[0] += 1.0
        opening[len(sizes)] = own[1] + self.extra(m)
        return PartitionTables(join, opening)

    def log_prob_counts(self, counts: PartitionCounts) -> float:
        found = super().log_prob_counts(counts)
        if self.linear:
            return found
        return found + self.extra(counts.size_counts.astype(float)) - self._log_mean(counts.n)

    def _log_mean(self, n: int) -> float:
        """log E[e^{w·φ(m)}] under the linear part, by which the normalizer grows; 0 where that is
        not known."""
        return log_mean_of_features(self, n) if n <= ENUMERATED else 0.0

    def signatures(self, n: int) -> Iterator[tuple[tuple[int, ...], float]]:
        if self.linear:
            yield from super().signatures(n)
            return
        known = self._log_mean(n) if n <= ENUMERATED else log_mean_of_features(self, n)
        for sizes, share in super().signatures(n):
            m = np.bincount(sizes, minlength=n + 1)[1:].astype(float)
            yield sizes, share * float(np.exp(self.extra(m) - known))

    def expected_size_counts(self, n: int) -> np.ndarray:
        """Exact where the prior is linear, and up to 30 rows; else a mean over weighted draws."""
        if self.linear:
            return super().expected_size_counts(n)
        if n <= ENUMERATED:
            found = np.zeros(n)
            for sizes, share in self.signatures(n):
                found += share * np.bincount(sizes, minlength=n + 1)[1:]
            return found
        near = FlexiblePartition(nearest_linear(self, n))
        drawn = drawn_size_counts(np.random.default_rng(0), near.potentials_for(n), WEIGHTED)
        shares = shares_of(self, near, drawn)
        return np.asarray(shares @ drawn)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Exact where the prior is linear; otherwise the last of many draws of a linear prior near
        to it, each accepted by what tells the two apart (a Metropolis chain: nearly exact)."""
        if self.linear:
            return super().sample(rng, n)
        near = FlexiblePartition(nearest_linear(self, n))

        def drawn() -> tuple[np.ndarray, float]:
            labels = near.sample(rng, n)
            m = self.structure.counts(labels).size_counts.astype(float)
            return labels, beyond(self, near, m)

        labels, now = drawn()
        for _ in range(ACCEPTED):
            other, then = drawn()
            if np.log(1.0 - rng.random()) < then - now:
                labels, now = other, then
        return labels

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
        nearest that one can. With ``features`` φ(m), E[φ(m)] = ``expected`` is wished for too; all
        are then met within the noise of many draws (``nonlinear_wishes``).

        >>> prior = FlexiblePartition.from_expectations([1.0, 0.5, 1 / 3])
        >>> prior.expected_size_counts(3).round(6).tolist()
        [1.0, 0.5, 0.333333]
        """
        potentials = potentials_of(Wish.of(counts), pull, smooth, alpha)
        if features is None:
            return cls(tuple(potentials.tolist()))
        rng = np.random.default_rng(seed)
        wish = NonlinearWish(Wish.of(counts).counts, features, expected)
        found, weights = learn(rng, wish, potentials)
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


@lru_cache(maxsize=64)
def log_mean_of_features(prior: FlexiblePartition, n: int) -> float:
    """log E[e^{w·φ(m)}] under the linear part of a prior, over all sets of sizes."""
    linear = FlexiblePartition(prior.potentials)
    logs, shares = [], []
    for sizes, share in linear.signatures(n):
        logs.append(prior.extra(np.bincount(sizes, minlength=n + 1)[1:].astype(float)))
        shares.append(share)
    top = max(logs)
    return float(top + np.log(np.dot(shares, np.exp(np.array(logs) - top))))


def beyond(prior: FlexiblePartition, near: FlexiblePartition, m: np.ndarray) -> float:
    """log P(m) of a prior less that of a linear one near to it, up to a constant."""
    own, other = prior.potentials_for(len(m)), near.potentials_for(len(m))
    some = m > 0.0
    return float(prior.extra(m) + (own[some] - other[some]) @ m[some])


def shares_of(prior: FlexiblePartition, near: FlexiblePartition, drawn: np.ndarray) -> np.ndarray:
    """Weights by which draws of a linear prior stand for those of another; they sum to one."""
    logs = np.array([beyond(prior, near, m) for m in drawn])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=64)
def nearest_linear(prior: FlexiblePartition, n: int) -> tuple[float, ...]:
    """Potentials that have in them what a cluster more of each size adds to w·φ on average."""
    rng, own = np.random.default_rng(0), prior.potentials_for(n)
    near = FlexiblePartition(tuple(own.tolist()))
    for _ in range(NEARER):
        drawn = drawn_size_counts(rng, near.potentials_for(n), 1000)
        mean = shares_of(prior, near, drawn) @ drawn
        here = prior.extra(mean)
        added = np.array([prior.extra(mean + one) - here for one in np.eye(n)])
        near = FlexiblePartition(tuple((own + added).tolist()))
    return near.potentials


def integer_partitions(n: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every way to write n as a sum, largest first.

    >>> list(integer_partitions(3))
    [(3,), (2, 1), (1, 1, 1)]
    """
    if n == 0:
        yield ()
        return
    for first in range(min(n, n if most is None else most), 0, -1):
        for rest in integer_partitions(n - first, first):
            yield (first, *rest)
