r"""Flexible priors over partitions that are a product over clusters (Welling and others 2012).

    log P(partition) = Σ_i λ_i m_i − log Z_N,           m_i clusters of i rows

The normalizer, draws and expectations are exact (``kernels/partition_sums``):

    E[m_i] = C(N, i) e^{λ_i} Z_{N−i} / Z_N,
    a draw: the first row's cluster has i rows with probability C(N−1, i−1) e^{λ_i} Z_{N−i}/Z_N.

λ_i + c·i is the same prior. These priors are not consistent: the first rows of a larger draw are no
draw of a smaller one, so that N, the number of rows, belongs to them.
"""

from collections.abc import Iterator

import numpy as np

from thali.priors.partition import PredictsLabel
from thali.priors.partition_sums import expected_pairs, expected_sizes, log_choose, sums_of
from thali.priors.size_sets import all_size_sets
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
        """Every set of cluster sizes, largest first, and its probability; up to 60 rows.

        There are n!/∏ (i!)^{m_i} m_i! partitions of each.
        """
        counts, shares = all_size_sets(n).counts, np.exp(self.log_signatures(n))
        for s, share in enumerate(shares):
            at = slice(*counts.indptr[s : s + 2])
            sizes = np.repeat(counts.indices[at] + 1, counts.data[at].astype(int))
            yield tuple(np.sort(sizes)[::-1].tolist()), float(share)

    def log_signatures(self, n: int) -> np.ndarray:
        """log P of every set of cluster sizes, in the order of ``size_sets.all_size_sets``."""
        own, total = self.potentials_for(n), self.log_sums(n)[n]
        return np.asarray(all_size_sets(n).log_weights(own, 0.0) - total)
