"""What a likelihood of clusters can do: rows of one cluster share parameters, and only they do.

    p(X | partition) = ∏_k ∫ ∏_{n in k} p(x_n | θ) p(θ) dθ

A conjugate one keeps statistics of each cluster, to which rows are added and from which they are
removed one by one (``kernels/groups.py``); one compiled sampler serves all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from thali.data import Data, Table
from thali.hyperparameters import Hyperprior, Value, Values, slice_step
from thali.likelihoods.base import Likelihood, TakesMissing, Words
from thali.likelihoods.cluster_families import Family
from thali.settings import hyperparameters_of
from thali.structures.partitions import PARTITIONS

Groups = Any  # a named tuple of arrays, registered with ``groups_of``


class ProfileWords(NamedTuple):
    """What pictures say of ``profiles``: what a number is, and whether columns have units.

    Numbers with units are shown by how far they are from the mean of their column, in its standard
    deviations; probabilities and shares as they are.
    """

    number: str
    has_units: bool


class ClusterLikelihood(Likelihood):
    """A distribution of the data given a partition of their rows."""

    structure = PARTITIONS
    starts: ClassVar[tuple[str, ...]] = ("race", "kmeans", "one_cluster", "prior", "fine_kmeans")
    words: ClassVar[Words] = Words(
        "Each cluster is a group of rows that are alike, largest first.",
        "A row of the data X belongs to one cluster, and is drawn from its distribution.",
    )
    profile_words: ClassVar[ProfileWords] = ProfileWords("mean", True)

    @abstractmethod
    def profiles(self, data: Data, labels: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
        """What each cluster is like, a row for each: expectations given its rows.

        Hyperparameters are numbers; ``names`` are those of the columns of X.
        """


class ConjugateClusters(ClusterLikelihood):
    """The clusters' parameters can be integrated out, and rows come and go one by one."""

    @abstractmethod
    def groups(self, data: Data, room: int) -> Groups:
        """Room for the statistics of so many clusters of the rows of ``data``; not filled yet.

        Hyperparameters are numbers.
        """

    @abstractmethod
    def log_marginal_of(self, data: Data, labels: np.ndarray) -> Callable[[Values], float]:
        """log p(X | partition) as a function of the hyperparameters, all sums made before."""

    def log_marginal(self, X: Table, labels: ArrayLike) -> float:
        """log p(X | partition), the clusters' parameters integrated out."""
        data = Data.of(X)
        at = {name: getattr(self, name) for name in hyperparameters_of(self)}
        return self.log_marginal_of(data, PARTITIONS.check("log_marginal", labels, data.n))(at)

    def resample(
        self, rng: np.random.Generator, hyper: Values, data: Data, labels: np.ndarray
    ) -> None:
        """Update the inferred hyperparameters in ``hyper`` given a partition, by slice steps."""
        inferred = [k for k in hyperparameters_of(self) if isinstance(getattr(self, k), Hyperprior)]
        if not inferred:
            return
        log_marginal = self.log_marginal_of(data, labels)
        values = {name: hyper[name] for name in hyperparameters_of(self)}
        for name in inferred:
            prior = getattr(self, name)

            def log_density(value: float, name: str = name, prior: Hyperprior = prior) -> float:
                known = prior.log_density(value)
                if known == -np.inf:  # where a likelihood may have no answer
                    return known
                return known + log_marginal(values | {name: value})

            values[name] = hyper[name] = slice_step(rng, hyper[name], log_density, 1.0)

    def start(self, data: Data) -> dict[str, Value]:
        values = {name: getattr(self, name) for name in hyperparameters_of(self)}
        return {k: v.center() if isinstance(v, Hyperprior) else float(v) for k, v in values.items()}


class ExpectedClusters(ConjugateClusters):
    """Is an exponential family: of weighted rows sums suffice (variational inference needs it)."""

    @abstractmethod
    def family(self, data: Data) -> Family:
        """What rows enter by, and what follows from sums of it; hyperparameters are left open."""


class IntegratesGaps(ConjugateClusters, TakesMissing):
    """Entries may be missing: columns are independent, and what is missing is no factor."""


class DrawsGaps(ConjugateClusters, TakesMissing):
    """Entries may be missing, and are drawn given all others: log densities are of rows completed.

    ``groups`` is given complete data, of which ``redraw`` changes the missing entries.
    """

    @abstractmethod
    def restricted(self, columns: np.ndarray) -> Self:
        """The likelihood of some of the columns alone, (D,) of truth values."""

    @abstractmethod
    def redraw(
        self,
        rng: np.random.Generator,
        groups: Groups,
        slots: Any,
        data: Data,
        observed: np.ndarray,
    ) -> np.ndarray:
        """Draw every missing entry given the rest, row by row, in ``groups``; returns all of X."""


def sums_by_label(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The sum of the rows of each label 0 … K − 1, none of them without rows, (K, …).

    >>> sums_by_label(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 0])).ravel().tolist()
    [5.0, 2.0]
    """
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    return np.asarray(np.add.reduceat(values[order], first, axis=0))
