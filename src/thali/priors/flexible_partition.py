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
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import Value, Values
from thali.priors.partition import PredictsLabel
from thali.priors.partition_sums import expected_pairs, expected_sizes, log_choose, sums_of
from thali.priors.wished_sizes import Wish, potentials_of
from thali.registry import PRIORS
from thali.settings import Settings, whole_number
from thali.structures.labels import canonical_labels
from thali.structures.partitions import PartitionCounts, PartitionTables

NEVER = -1e9  # a potential that stands for −inf


class LinearPartition(Settings, PredictsLabel):
    """Potentials of sizes alone, whatever form they are given in."""

    consistent = False

    def potentials_for(self, n: int) -> np.ndarray:
        """λ_1 … λ_n."""
        raise NotImplementedError

    def log_sums(self, n: int) -> np.ndarray:
        """log Z_0 … log Z_n."""
        return sums_of(self.potentials_for(n).tobytes())

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

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import gammaln
    >>> sizes = np.arange(1, 4)
    >>> prior = FlexiblePartition(potentials=tuple(gammaln(sizes)))  # the Dirichlet process, α = 1
    >>> round(prior.log_prob(np.array([0, 0, 1])), 4)
    -1.7918
    """

    potentials: tuple[float, ...] = ()

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
        if not np.isfinite(self.log_sums(len(given))[-1]):
            raise ValueError(
                f"FlexiblePartition: no partition of {len(given)} rows has clusters of only the "
                "sizes whose potentials are above -inf."
            )

    @classmethod
    def from_expectations(
        cls, counts: Any, *, pull: float = 0.0, smooth: float = 0.0, alpha: float = 1.0
    ) -> Self:
        """The prior of most entropy with E[m_i] = counts[i − 1] for N = len(counts) rows.

        ``pull`` and ``smooth`` weigh penalties, pull·Σ(λ_i − λ_i^DP)² towards the Dirichlet process
        of mass ``alpha`` and smooth·Σ(λ_i − λ_{i−1})² (eq. 4 of the paper); with them the
        expectations are met approximately. A wish that no prior can meet is refused, with the
        nearest that one can.

        >>> prior = FlexiblePartition.from_expectations([1.0, 0.5, 1 / 3])
        >>> prior.expected_size_counts(3).round(6).tolist()
        [1.0, 0.5, 0.333333]
        """
        return cls(tuple(potentials_of(Wish.of(counts), pull, smooth, alpha).tolist()))

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
