"""What a fit in partitions says of clusters: the answer, draws, co-clustering, and new rows.

The answer of a variational fit is the most probable cluster of each row under q, and new rows have
the density  Σ_k E[π_k] ∫ p(x | θ) q(θ_k) dθ,  with a cluster of their own at what is left of the
weight; other fits average over their draws.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from thali.data import Data
from thali.hyperparameters import Value, Values
from thali.likelihoods.clusters import ConjugateClusters, DrawsGaps, ExpectedClusters
from thali.model import Model
from thali.priors.partition import PartitionPrior, PredictsLabel
from thali.results.fit import Fit, VariationalFit
from thali.results.trace import Recorded
from thali.settings import whole_number
from thali.structures.base import PointEstimate
from thali.structures.labels import canonical_labels
from thali.structures.partition_losses import distance
from thali.structures.partitions import PARTITIONS

DRAWS = 100  # draws that densities of new rows are averaged over
FEWER = 20  # the same where gaps must be filled for each of them,
PASSES = 30  # by so many passes
COMPARED = 20  # draws of q that its most probable labels are compared with
TOGETHER = 2**13  # new rows at once


def answer(fit: Fit) -> tuple[PointEstimate[np.ndarray], list[Recorded]]:
    """The point estimate of the rows that were fitted, and the draws beside it."""
    if not isinstance(fit, VariationalFit):
        most = PARTITIONS.draws_to_use(fit.data.n, int(fit.kept()["n_components"].max()))
        picked = fit.pick(fit.representatives(most))
        own = [canonical_labels(draw.latent[: fit.data.n]) for draw in picked]
        log_joints = np.array([draw.scalars["log_joint"] for draw in picked])
        estimate = PARTITIONS.point_estimate(own, log_joints)
        prior = cast(PredictsLabel, fit.model.prior_at(fit.mean_hyper()))
        if prior.forbids(len(picked[0].latent)):  # an estimate that the prior allows: a draw
            losses = [np.mean([distance("vi", one, other) for other in own]) for one in own]
            best = int(np.argmin(losses))
            estimate = PointEstimate(own[best], estimate.probabilities, float(losses[best]))
        return estimate, picked
    picked = fit.pick(fit.representatives(COMPARED))
    labels = canonical_labels(fit.params["labels"])
    loss = float(np.mean([distance("vi", labels, draw.latent) for draw in picked]))
    return PointEstimate(labels, fit.params["membership"].astype(float), loss), picked


class ClusterDraw(NamedTuple):
    """One draw of the posterior."""

    labels: np.ndarray
    n_clusters: int
    log_joint: float
    hyper: dict[str, Value]
    weight: float  # all weights sum to one; draws of a chain have equal ones


def cluster_draws(fit: Fit, max_draws: int | None = None) -> Iterator[ClusterDraw]:
    """Every kept draw, or at most ``max_draws`` that stand for all with equal weight."""
    count = len(fit)
    most = count if max_draws is None else whole_number("draws", "max_draws", max_draws, 0)
    if most >= count:
        weights = fit.weights()
        return (as_draw(fit, each, weights[i]) for i, each in enumerate(fit.draws()))
    picked = fit.pick(fit.representatives(most))
    return (as_draw(fit, each, 1.0 / len(picked)) for each in picked)


def as_draw(fit: Fit, recorded: Recorded, weight: float) -> ClusterDraw:
    """A recorded draw, of the rows that were fitted."""
    labels, scalars, _ = recorded
    own = canonical_labels(labels[: fit.data.n])
    hyper = fit.hyper_of(scalars)
    log_joint = scalars.get("log_joint", np.nan)
    return ClusterDraw(own, int(own.max()) + 1, log_joint, hyper, float(weight))


def co_clustering(fit: Fit, rows: np.ndarray) -> np.ndarray:
    """The share of draws in which two of these rows are together, by weight, (n, n)."""
    together = np.zeros((len(rows), len(rows)))
    for draw, weight in zip(fit.draws(), fit.weights(), strict=True):
        own = canonical_labels(draw.latent[rows])
        ones = (own[:, None] == np.arange(own.max() + 1)).astype(np.float32)
        together += weight * (ones @ ones.T)
    return together


class NewRows(NamedTuple):
    """Of each new row: log prior weight + log density in each cluster, and in one of its own."""

    in_cluster: np.ndarray  # (n, K)
    alone: np.ndarray  # (n,)

    def log_density(self) -> np.ndarray:
        """log p(x), weights summing to one."""
        return np.asarray(np.logaddexp(np.logaddexp.reduce(self.in_cluster, axis=1), self.alone))


def new_rows(model: Model, hyper: Values, data: Data, labels: np.ndarray, new: Data) -> NewRows:
    """New rows, each by itself, beside those that were fitted; labels may have rows to come.

    One of the rows to come is taken to be the new one, so that a prior that is not consistent is
    asked of no more rows than it was told of.
    """
    prior = cast(PredictsLabel, model.prior_at(hyper))
    likelihood = cast(ConjugateClusters, model.likelihood_at(hyper))
    n, total = data.n, max(len(labels), data.n + 1)
    if len(labels) == n:
        refuse_inconsistent(prior)
    # the last of rows to come is the new row; clusters keep their order
    known = np.unique(labels[: total - 1], return_inverse=True)[1].astype(np.int64)
    sizes = np.bincount(known)
    k, tables = len(sizes), prior.tables_beside(total, sizes)
    logs = np.append(tables.join[sizes], tables.open[k])
    logs -= np.logaddexp.reduce(logs)
    densities = np.zeros((new.n, k + 1))
    if new.observed is None or not isinstance(likelihood, DrawsGaps):
        log_densities(likelihood, data, known, new, densities)
    else:
        for rows, columns in new.alike():  # what is missing is left out of the model
            if columns.any():
                own = np.zeros((len(rows), k + 1))
                part = Data(np.ascontiguousarray(data.X[:, columns]))
                seen = Data(np.ascontiguousarray(new.X[np.ix_(rows, np.flatnonzero(columns))]))
                log_densities(likelihood.restricted(columns), part, known, seen, own)
                densities[rows] = own
    return NewRows(densities[:, :k] + logs[:k], densities[:, k] + logs[k])


def log_densities(
    likelihood: ConjugateClusters, data: Data, labels: np.ndarray, new: Data, out: np.ndarray
) -> None:
    """log p(x | a cluster) of new rows, (n, K + 1), the last one having no rows."""
    from thali.kernels.cluster_rows import Slots, fill, log_rows

    k = out.shape[1] - 1
    groups = likelihood.groups(stacked(data, new), k + 1)
    order, none = np.arange(k + 1), np.zeros(k + 1, np.int64)
    slots = Slots(labels, none, none.copy(), order, order.copy())
    fill(groups, slots, data.n)
    log_rows(groups, slots, k + 1, data.n, out)


def new_rows_under_q(fit: VariationalFit, new: Data) -> NewRows:
    """New rows given q alone: clusters in the order of the labels, then those that have none."""
    params, hyper = fit.params, fit.mean_hyper()
    family = cast(ExpectedClusters, fit.model.likelihood).family(fit.data)
    at = fit.model.likelihood_values(hyper)
    with np.errstate(divide="ignore"):
        logs = np.log(params["weights_of_clusters"])
    S = np.vstack([params["sums"], np.zeros_like(params["sums"][:1])])
    found = np.empty((new.n, len(S)))
    for first in range(0, new.n, TOGETHER):
        rows = slice(first, first + TOGETHER)
        found[rows] = (family.log_predictive(S, at, new.rows(rows)) + logs[:, None]).T
    return NewRows(found[:, :-1], found[:, -1])


def refuse_inconsistent(prior: PartitionPrior) -> None:
    """Refuse to continue a prior that has no say about more rows than there were."""
    if not prior.consistent:
        raise ValueError(
            f"{type(prior).__name__} is not consistent: what it says of n rows does not follow "
            "from what it says of n + 1, so that it has no word for rows that it was not told of. "
            "Fit with n_future=1 or more, and rows to come are taken into account."
        )


def stacked(data: Data, new: Data) -> Data:
    """The rows of both."""
    if data.observed is None and new.observed is None:
        return Data(np.vstack([data.X, new.X]))
    return Data(np.vstack([data.X, new.X]), np.vstack([data.seen, new.seen]))


def mean_log_densities(fit: Fit, new: Data) -> np.ndarray:
    """log p(x) of each new row, averaged over draws, or under q."""
    if isinstance(fit, VariationalFit):
        return new_rows_under_q(fit, new).log_density()
    found: list[np.ndarray] = []
    many = FEWER if fit.data.observed is not None else DRAWS
    for draw in fit.pick(fit.representatives(many)):
        hyper: Any = fit.hyper_of(draw.scalars)
        data = completed(fit, draw.latent, hyper)
        rows = new_rows(fit.model, hyper, data, draw.latent, new)
        found.append(rows.log_density())
    return np.asarray(np.logaddexp.reduce(found, axis=0) - np.log(len(found)))


def completed(fit: Fit, labels: np.ndarray, hyper: Values) -> Data:
    """The data of a fit; where the likelihood cannot leave gaps out, with entries drawn into them.

    Given labels and hyperparameters, by a few passes that are the same at every call.
    """
    data, likelihood = fit.data, fit.model.likelihood_at(hyper)
    if data.observed is None or not isinstance(likelihood, DrawsGaps):
        return data
    from thali.kernels.cluster_rows import Slots, fill

    rng = np.random.default_rng(np.random.SeedSequence((fit.seed, data.missing)))
    at, own = likelihood.guess(data), canonical_labels(labels[: data.n])
    room = int(own.max()) + 1
    for _ in range(PASSES):
        order, none = np.arange(room), np.zeros(room, np.int64)
        slots = Slots(own, none, none.copy(), order, order.copy())
        groups = likelihood.groups(at, room)
        fill(groups, slots, data.n)
        at = Data(likelihood.redraw(rng, groups, slots, at, data.observed))
    return at
