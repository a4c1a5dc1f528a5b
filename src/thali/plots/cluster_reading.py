"""What pictures of clusters read from a fitted model: sizes over draws, orders of rows, a plane."""

from typing import NamedTuple, cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from thali.data.missing import observed_means
from thali.estimators.latent_partition import LatentPartition
from thali.likelihoods.category_clusters import CategoryClusters
from thali.likelihoods.clusters import ClusterLikelihood, ProfileWords
from thali.priors.linear_partition import LinearPartition
from thali.priors.partition import PartitionPrior
from thali.priors.pitman_yor import DirichletProcess
from thali.structures.base import evenly_spaced

MOST_DRAWS = 200  # looked at, evenly spaced
INTERVAL = (0.05, 0.95)


def drawn_labels(model: LatentPartition) -> np.ndarray:
    """The labels of at most 200 draws of equal weight, (draws, N and rows to come)."""
    fit = model.fit_
    return np.stack([draw.latent for draw in fit.pick(fit.representatives(MOST_DRAWS))])


class SizeSpread(NamedTuple):
    """Of each cluster of ``labels_``: its rows, and how large their clusters are in the draws.

    In a draw each row of the cluster is in a cluster of some size. Over all draws and all rows of
    the cluster these sizes have a median, and 90% of them lie from ``low`` to ``high``.
    """

    rows: np.ndarray
    low: np.ndarray
    median: np.ndarray
    high: np.ndarray


def size_spread(model: LatentPartition) -> SizeSpread:
    """The spread of the sizes of clusters over draws."""
    labels, n = model.labels_, len(model.labels_)
    drawn = drawn_labels(model)[:, :n]
    sizes = np.stack([np.bincount(own)[own] for own in drawn]).astype(np.int32)
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels))
    each = np.split(sizes[:, order], ends[:-1], axis=1)
    found = np.array([np.quantile(own, [INTERVAL[0], 0.5, INTERVAL[1]]) for own in each])
    return SizeSpread(np.bincount(labels), *found.T)


class Together(NamedTuple):
    """Rows in an order in which those that are often together touch, and how often they are."""

    rows: np.ndarray
    shares: np.ndarray  # (rows, rows)


def together(model: LatentPartition, most: int) -> Together:
    """At most ``most`` rows, evenly chosen along the clusters: by cluster, then hierarchically."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    by_cluster = np.argsort(model.labels_, kind="stable")
    rows = by_cluster[evenly_spaced(len(by_cluster), most)]
    shares = model.co_clustering(rows)
    order = []
    for k in np.unique(model.labels_[rows]):
        own = np.flatnonzero(model.labels_[rows] == k)
        if len(own) > 2:
            apart = squareform(1.0 - shares[np.ix_(own, own)], checks=False)
            own = own[leaves_list(linkage(np.maximum(apart, 0.0), "average"))]
        order.append(own)
    found = np.concatenate(order)
    return Together(rows[found], shares[np.ix_(found, found)])


class ProfileTable(NamedTuple):
    """What clusters are like, columns by how much clusters differ in them."""

    names: list[str]
    values: np.ndarray  # as ``cluster_profiles_`` has them, (K, columns)
    shown: np.ndarray  # by which they are colored
    columns: np.ndarray  # their places in ``cluster_profiles_``


def profile_table(model: LatentPartition) -> ProfileTable:
    """``cluster_profiles_``, the column in which clusters differ most first.

    A number that has units is colored by its distance from the column's mean, in the column's
    standard deviations.
    """
    profiles = model.cluster_profiles_
    values = profiles.to_numpy(float)
    shown = values
    if profile_words(model).has_units:
        unit = np.maximum(np.nanmax(np.abs(model.X_), axis=0, initial=0.0), 1e-300)  # no overflow
        scaled = model.X_ / unit
        center, spread = observed_means(scaled), np.sqrt(_variances(scaled))
        shown = (values / unit - center) / np.where(spread > 0, spread, 1.0)
    shares = np.bincount(model.labels_) / len(model.labels_)
    differ = shares @ np.square(shown - shares @ shown)
    order = np.argsort(-differ.round(12), kind="stable")
    names = [str(profiles.columns[j]) for j in order]
    return ProfileTable(names, values[:, order], shown[:, order], order)


def _variances(X: np.ndarray) -> np.ndarray:
    """The variance of each column, of what is observed; 0 of one with nothing."""
    seen = np.isfinite(X)
    away = np.where(seen, X - observed_means(X), 0.0)
    return np.asarray(np.square(away).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


def profile_words(model: LatentPartition) -> ProfileWords:
    """What the numbers of a profile are."""
    return cast(ClusterLikelihood, model.likelihood_).profile_words


def as_numbers(model: LatentPartition) -> np.ndarray:
    """All rows on one scale: columns in their standard deviations, categories as 0 and 1."""
    likelihood, data = model.likelihood_, model.fit_.data
    if isinstance(likelihood, CategoryClusters):
        codes = likelihood.codes_of(data)
        levels = [np.arange(len(own)) for own in likelihood.levels_of(data)]
        ones = [codes[:, d, None] == own for d, own in enumerate(levels)]
        found = np.hstack(ones).astype(float)
        return np.asarray(found - found.mean(axis=0))
    X = data.filled.X
    X = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    away, spread = X - X.mean(axis=0), np.sqrt(_variances(X))
    return np.asarray(away / np.where(spread > 1e-12, spread, 1.0))


class Plane(NamedTuple):
    """Rows as points, and what the two axes are."""

    rows: np.ndarray
    points: np.ndarray  # (rows, 2)
    axes: tuple[str, str]
    principal: bool  # whether the axes are principal components


def plane(model: LatentPartition, most: int, names: list[str]) -> Plane:
    """The two columns, one column beside the cluster, or the first two principal components."""
    from sklearn.decomposition import PCA

    rows = evenly_spaced(len(model.labels_), most)
    X = model.fit_.data.filled.X
    if X.shape[1] == 2:
        return Plane(rows, X[rows], (names[0], names[1]), False)
    if X.shape[1] == 1 or len(rows) < 2:
        points = np.column_stack([X[rows, 0], model.labels_[rows]])
        return Plane(rows, points, (names[0], "cluster"), False)
    found = PCA(2, random_state=0)
    with np.errstate(invalid="ignore"):  # rows may be all the same
        points = found.fit_transform(as_numbers(model)[rows])
    shares = np.nan_to_num(found.explained_variance_ratio_)
    axes = [f"principal component {i + 1}, {share:.0%}" for i, share in enumerate(shares)]
    return Plane(rows, points, (axes[0], axes[1]), True)


def typical_rows(model: LatentPartition, most: int) -> list[np.ndarray]:
    """Of each cluster the rows that are surest to be in it, and of those the nearest to its mean.

    Chances are compared in whole percent: the draws tell no finer differences.
    """
    numbers, found = as_numbers(model), []
    for k in range(model.n_clusters_):
        own = np.flatnonzero(model.labels_ == k)
        away = np.square(numbers[own] - numbers[own].mean(axis=0)).sum(axis=1)
        order = np.lexsort((own, away, -model.membership_[own].round(2)))
        found.append(own[order[:most]])
    return found


class SizeCounts(NamedTuple):
    """E[m_i], how many clusters have i rows, i = 1 … n, before and after the data were seen."""

    prior: np.ndarray  # at the posterior means of the hyperparameters
    posterior: np.ndarray


def size_counts(model: LatentPartition) -> SizeCounts:
    """Of all rows, those to come too, since the prior is one of all of them."""
    drawn = drawn_labels(model)
    n = drawn.shape[1]
    counts = sum(np.bincount(np.bincount(own), minlength=n + 1)[1:] for own in drawn)
    return SizeCounts(_prior_at(model).expected_size_counts(n), np.asarray(counts) / len(drawn))


def _prior_at(model: LatentPartition) -> PartitionPrior:
    fit = model.fit_
    return cast(PartitionPrior, fit.model.prior_at(fit.mean_hyper()))


class Potentials(NamedTuple):
    """λ_i − log (i−1)! of a prior, and log α: the same of a Dirichlet process with its E[K].

    λ_i + c·i is the same prior for any c; here it is the one for which both priors have the same
    normalizer, so that log P/P_DP of a partition is the sum of differences over its clusters.
    """

    own: np.ndarray
    mass: float  # α of the Dirichlet process
    expected: float  # E[K] of both


def potentials(model: LatentPartition) -> Potentials | None:
    """The potentials of a flexible prior; None of another, and where they do not tell all."""
    prior = _prior_at(model)
    if not isinstance(prior, LinearPartition) or not prior.linear:
        return None
    n = drawn_labels(model).shape[1]
    expected = prior.expected_components(n)

    def excess(log_mass: float) -> float:
        process = DirichletProcess(alpha=float(np.exp(log_mass)))
        return process.expected_components(n) - expected

    low, high = np.log(1e-9), np.log(1e9)  # one cluster, and clusters of one row
    if excess(low) >= 0.0 or excess(high) <= 0.0:
        mass = float(np.exp(low if excess(low) >= 0.0 else high))
    else:
        mass = float(np.exp(brentq(excess, low, high)))
    total = gammaln(mass + n) - gammaln(mass)
    c = (total - prior.log_sums(n)[n]) / n
    i = np.arange(1, n + 1.0)
    return Potentials(prior.potentials_for(n) + c * i - gammaln(i), mass, expected)
