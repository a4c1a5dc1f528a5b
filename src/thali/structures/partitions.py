r"""Partitions: every row belongs to one cluster, and clusters have no names.

A value is a vector of labels 0 … K − 1 in the order in which clusters first appear (canonical). All
that an exchangeable prior sees of it are the sizes of its clusters, or m_i, how many have size i.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from thali.structures.base import PointEstimate, Structure
from thali.structures.labels import canonical_labels
from thali.structures.partition_estimate import point_estimate, usual_number
from thali.structures.partition_losses import binder


class PartitionCounts(NamedTuple):
    """How many rows there are, and the size of each cluster."""

    n: int
    sizes: np.ndarray

    @property
    def size_counts(self) -> np.ndarray:
        """m_i: how many clusters have i rows, i = 1 … n."""
        return np.bincount(self.sizes, minlength=self.n + 1)[1:]


class PartitionTables(NamedTuple):
    """The distribution of one row given all others, as a Gibbs sampler reads it.

    ``join[j]`` is the log weight of joining a cluster of j other rows (j = 0 is not used), and
    ``open[k]`` that of opening one beside k clusters of others, up to a constant of all of them.
    """

    join: np.ndarray
    open: np.ndarray


class Partitions(Structure[np.ndarray]):
    """Labels of rows, up to the names of the labels."""

    name = "partitions"
    component = "cluster"
    answer = "labels_"

    def n_components(self, latent: np.ndarray) -> int:
        return int(latent.max()) + 1 if len(latent) else 0

    def empty(self, n: int) -> np.ndarray:
        """All rows in one cluster."""
        return np.zeros(n, np.int64)

    def canonical(self, latent: np.ndarray) -> np.ndarray:
        return canonical_labels(latent)

    def counts(self, latent: np.ndarray) -> PartitionCounts:
        return PartitionCounts(len(latent), np.bincount(latent))

    def check(self, owner: str, given: object, n: int | None = None) -> np.ndarray:
        labels = np.asarray(given)
        if labels.ndim != 1 or labels.dtype.kind not in "biufOUS":
            raise ValueError(
                f"{owner}: init must be one label for each row, a vector; it has shape "
                f"{labels.shape} and type {labels.dtype}."
            )
        if n is not None and len(labels) != n:
            raise ValueError(
                f"{owner}: init must be one label for each of the {n} rows of X, not {len(labels)}."
            )
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError(f"{owner}: init has labels that are not finite; give every row one.")
        return self.canonical(labels.astype(str) if labels.dtype.kind == "O" else labels)

    # many values

    def pack(self, latent: np.ndarray) -> np.ndarray:
        """In the smallest unsigned type that holds the labels."""
        return latent.astype(np.min_scalar_type(max(self.n_components(latent) - 1, 0)))

    def unpack(self, packed: np.ndarray, n: int) -> np.ndarray:
        return packed.astype(np.int64)

    def join(self, packed: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        if not packed:
            return {"labels": np.zeros((0, n), np.uint8)}
        return {"labels": np.stack([np.asarray(labels) for labels in packed])}

    def split(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return [self.pack(labels.astype(np.int64)) for labels in arrays["labels"]]

    def point_estimate(
        self, draws: Sequence[np.ndarray], log_joints: np.ndarray
    ) -> PointEstimate[np.ndarray]:
        """The partition of least expected variation of information, of as many clusters as draws
        have."""
        return point_estimate(draws, most=usual_number(draws))

    # a search among values

    def distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Pairs of rows that are together in one and apart in the other."""
        return binder(a, b)

    def changed(self, rng: np.random.Generator, latent: np.ndarray, capacity: int) -> np.ndarray:
        """Two clusters are merged, or one is split at random, or half of one joins another."""
        k, other = self.n_components(latent), latent.copy()
        kinds = [] if k < 2 else ["merge", "move"]
        if capacity < 0 or k < capacity:
            kinds.append("split")
        if not kinds or len(latent) < 2:
            return latent
        kind = kinds[rng.integers(len(kinds))]
        first = int(rng.integers(k))
        second = k if kind == "split" else int((first + rng.integers(1, k)) % k)
        members = np.flatnonzero(latent == first)
        if kind != "merge":
            members = members[rng.random(len(members)) < 0.5]
        other[members] = second
        return self.canonical(other)


PARTITIONS = Partitions()
