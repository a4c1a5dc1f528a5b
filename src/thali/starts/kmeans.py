"""Starts of partitions: k-means++ with a number of clusters at random, and all rows together."""

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts.base import Start, start

SOME = 20_000  # rows that k-means looks at; the others go to the nearest center
MOST = 32  # clusters to begin with


@start("kmeans", entries=3)
def kmeans_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Two clusters or more, a few dozen at most: rows of clusters too many are merged later."""
    labels = means(rng, data, int(np.round(2.0 ** rng.uniform(1.0, np.log2(MOST)))))
    return Start("kmeans", model.structure.canonical(labels), model.start(data))


@start("fine_kmeans", entries=0)
def fine_kmeans_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """A few dozen clusters, for engines that merge those that are too many; it enters no race."""
    labels = means(rng, data, MOST)
    return Start("fine_kmeans", model.structure.canonical(labels), model.start(data))


def means(rng: np.random.Generator, data: Data, k: int) -> np.ndarray:
    """Labels by k-means, of no more clusters than rows allow.

    Columns are measured in their standard deviations.
    """
    from sklearn.cluster import KMeans

    away = data.X - data.X.mean(axis=0)
    wide = away.std(axis=0)
    Y = away / np.where(wide > 0.0, wide, 1.0)
    some = Y if data.n <= SOME else Y[rng.choice(data.n, SOME, replace=False)]
    different = len(np.unique(some[:5000], axis=0))
    most = max(1, min(MOST, different, data.n // 2))
    seed = int(rng.integers(2**31))
    found = KMeans(min(k, most), n_init=1, random_state=seed).fit(some)
    return np.asarray(found.predict(Y))


@start("one_cluster")
def one_cluster_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """All rows together: splits find the others."""
    return Start("one_cluster", model.structure.empty(data.n), model.start(data))
