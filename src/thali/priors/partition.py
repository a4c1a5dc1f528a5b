r"""What a prior over partitions can do.

Every exchangeable one here has the form

    log P(partition) = Σ_i λ_i m_i + g(K) + const,        m_i clusters of size i, K of them in all,

so that given all others a row joins a cluster of j of them with weight e^{λ_{j+1} − λ_j} and opens
one beside K others with e^{λ_1 + g(K+1) − g(K)} (λ_0 = 0). The row itself is taken out first: eq. 6
of Welling and others (2012), as printed, is not the same for staying.
"""

from abc import abstractmethod

import numpy as np

from thali.hyperparameters import Value, Values
from thali.priors.base import Prior
from thali.structures.partitions import PARTITIONS, PartitionTables


class PartitionPrior(Prior):
    """A distribution of partitions of n rows."""

    structure = PARTITIONS
    consistent: bool  # whether the first rows of a larger draw are a smaller draw

    @abstractmethod
    def expected_size_counts(self, n: int) -> np.ndarray:
        """E[m_i], how many clusters of i rows to expect among n, i = 1 … n."""

    def expected_components(self, n: int) -> float:
        """E[K] among n rows."""
        return float(self.expected_size_counts(n).sum())


class BreaksSticks(PartitionPrior):
    """Clusters have weights π_k = v_k ∏_{j<k} (1 − v_j) with independent v_k ~ Beta (variational).

    Its inferred hyperparameters are ``alpha`` and, if there is one, ``discount``.
    """

    @abstractmethod
    def sticks(self, k: int) -> np.ndarray:
        """The parameters of v_1 … v_k, (k, 2); hyperparameters are numbers."""


class PredictsLabel(PartitionPrior):
    """Gives the distribution of one row's cluster given all others (Gibbs samplers need it)."""

    linear: bool = True  # whether the tables are the same whatever the other clusters are

    def forbids(self, n: int) -> bool:
        """Whether some sizes of clusters of n rows have no probability: single rows cannot go
        everywhere then."""
        return False

    @abstractmethod
    def tables(self, n: int) -> PartitionTables:
        """The log weights of joining and opening, for a row among n."""

    def linear_part(self) -> "PredictsLabel":
        """Itself where it is linear, else one near to it that is: what moves are proposed by."""
        return self

    def tables_beside(self, n: int, sizes: np.ndarray) -> PartitionTables:
        """The same for a row beside clusters of these sizes, which may have a say in it."""
        return self.tables(n)


class ConsistentPartition(PredictsLabel):
    """The first rows of a larger draw are a smaller draw: rows may come one by one (filters need
    it).

    After n rows, the next one joins a cluster of j of them with probability (j − d)/(n + α), and
    opens one beside K others with probability (α + K d)/(n + α); the first opens the first.
    """

    consistent = True

    @abstractmethod
    def mass_and_discount(self, hyper: Values) -> tuple[Value, Value]:
        """α and d; where hyperparameters are arrays, of each of their entries."""
