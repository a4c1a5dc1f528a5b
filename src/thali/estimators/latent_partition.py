"""The door for people who cluster: ``LatentPartition``, a scikit-learn clusterer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import pandas as pd
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from thali.data import Data, Table
from thali.engines.base import AnyEngine
from thali.engines.clusters.gibbs import with_future
from thali.estimators import validation
from thali.estimators.base import LatentModel
from thali.likelihoods.base import Likelihood
from thali.likelihoods.clusters import ClusterLikelihood, ConjugateClusters
from thali.priors.base import Prior
from thali.registry import ESTIMATORS
from thali.results import cluster_answer
from thali.results.cluster_answer import ClusterDraw, NewRows
from thali.results.fit import Fit, VariationalFit
from thali.settings import positive_number, shown, whole_number
from thali.structures.labels import canonical_labels
from thali.structures.partition_estimate import CredibleBall, credible_ball
from thali.structures.partitions import PARTITIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 20  # rows below which an answer of many clusters is no cause for a word
MOST_PAIRS = 10_000  # rows up to which the matrix of all pairs is made


def warn_of_rows_alone(labels: np.ndarray) -> None:
    """Say so where the answer is that rows have nothing in common."""
    n, k = len(labels), int(labels.max()) + 1
    if n >= FEW and k > n / 2:
        warnings.warn(
            f"{k} clusters were found in {n} rows: most rows are alone, and nothing that groups of "
            "them share. There may be no clusters in these data, or too many columns for so few "
            "rows; use fewer columns, likelihood='normal_gamma', or a fixed alpha and kappa.",
            RuntimeWarning,
            stacklevel=3,
        )


@ESTIMATORS.register("LatentPartition")
class LatentPartition(ClusterMixin, LatentModel):  # type: ignore[misc]
    """Put every row in one of an unknown number of clusters, and tell how sure that is.

    Parameters
    ----------
    prior : "dirichlet_process", "pitman_yor", or a prior such as
        ``thali.DirichletProcess(alpha=1.0)`` or ``thali.FlexiblePartition(potentials)``
    likelihood : "normal_wishart" (clusters of any shape), "normal_gamma" (columns independent),
        "beta_bernoulli_items" (0 and 1), "categorical", "dirichlet_multinomial" (counts), or a
        likelihood such as ``thali.NormalWishart(scale=0.5)``
    engine : "auto", "collapsed_gibbs", "particle_filter", "variational" (fast, for many rows), or
        an engine such as ``thali.CollapsedGibbs(sweeps=500)``
    random_state : int, RandomState or None
    progress : "auto" (on a terminal or in a notebook), True or False

    Attributes
    ----------
    labels_ : (N,) int, the point estimate: the partition of least expected variation of
        information, or of ``Variational`` the most probable cluster of each row; the largest
        cluster is 0
    n_clusters_ : how many clusters it has
    membership_ : (N,), of each row the mean share of its cluster that it is with in the draws: near
        one where it is clear where the row belongs; of ``Variational`` the probability of its
        cluster
    elbo_, variational_params_ : the lower bound of log p(X) and the parameters of q;
        ``Variational`` only
    expected_loss_ : the mean variation of information between ``labels_`` and a draw, in nats
    co_clustering_ : (N, N), the share of draws in which two rows are together
    cluster_profiles_ : a data frame with what each cluster is like, a row for each
    log_joint_ : log P(partition) + log p(X | partition) of ``labels_``, at the posterior means of
        the hyperparameters
    posterior_ : ArviZ inference data of the label-free scalars
    best_ : the draw with the highest log joint
    fit_ : the result itself

    Examples
    --------
    >>> import numpy as np, thali
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 10, axis=0)
    >>> engine = thali.CollapsedGibbs(sweeps=60, chains=2)
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> model.n_clusters_, np.bincount(model.labels_).tolist()
    (3, [10, 10, 10])
    """

    structure = PARTITIONS
    center = False  # clusters have means of their own

    def __init__(
        self,
        prior: Prior | str = "dirichlet_process",
        likelihood: Likelihood | str = "normal_wishart",
        engine: AnyEngine | str = "auto",
        *,
        random_state: validation.Seed = None,
        progress: bool | str = "auto",
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.engine = engine
        self.random_state = random_state
        self.progress = progress

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        n_future: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        time_budget: float | None = None,
    ) -> Self:
        """Fit to X (rows are observations). ``y`` is ignored.

        ``n_future`` is how many rows are to come: a prior that is not consistent, such as
        ``FlexiblePartition``, is then one of N + n_future rows, and ``predict`` and ``score`` of
        new rows have an answer. NaN, None, pandas' NA and masked entries are missing. X is never
        changed. ``checkpoint``, ``resume`` and ``time_budget`` are as for ``LatentFeatures``.
        """
        self._future = whole_number("fit", "n_future", n_future, 0, 10**7)
        super().fit(X, y, checkpoint=checkpoint, resume=resume, time_budget=time_budget)
        warn_of_rows_alone(self.labels_)
        return self

    def _show(self, fit: Fit) -> Self:
        """Everything the fit says, as attributes."""
        super()._show(fit)
        estimate, picked = cluster_answer.answer(fit)
        order = np.argsort(-np.bincount(estimate.latent), kind="stable")
        self.labels_ = np.argsort(order)[estimate.latent]
        self._draws_of_estimate = [canonical_labels(draw.latent[: fit.data.n]) for draw in picked]
        self.membership_, self.expected_loss_ = estimate.probabilities, estimate.loss
        self.n_clusters_ = self.n_components_ = int(self.labels_.max()) + 1
        hyper, total = fit.mean_hyper(), len(picked[0].latent)
        # rows to come, as the prior would continue the answer; their clusters are the last
        rng = np.random.default_rng(fit.seed)
        self._whole = with_future(rng, fit.model, hyper, self.labels_, total)
        self._completed = cluster_answer.completed(fit, self.labels_, hyper)
        at = fit.model.at(hyper)
        likelihood = cast(ConjugateClusters, at.likelihood)
        log_likelihood = likelihood.log_marginal(self._completed, self.labels_)
        self.log_joint_ = at.prior.log_prob(self._whole) + log_likelihood
        return self

    # draws

    def draws(self, max_draws: int | None = None) -> Iterator[ClusterDraw]:
        """Every kept draw, or at most ``max_draws`` evenly spaced ones; weights sum to one."""
        check_is_fitted(self)
        return cluster_answer.cluster_draws(self.fit_, max_draws)

    @cached_property
    def best_(self) -> ClusterDraw:
        """The kept draw with the highest log joint."""
        check_is_fitted(self)
        index = self.fit_.best()
        recorded = self.fit_.pick([index])[0]
        return cluster_answer.as_draw(self.fit_, recorded, self.fit_.weights()[index])

    @cached_property
    def co_clustering_(self) -> np.ndarray:
        """The share of draws in which two rows are together, (N, N)."""
        check_is_fitted(self)
        n = self.fit_.data.n
        if n > MOST_PAIRS:
            raise ValueError(
                f"co_clustering_ of {n} rows has {n * n:,} entries; ask for some of the rows: "
                "co_clustering(rows)."
            )
        return self.co_clustering(np.arange(n))

    def co_clustering(self, rows: np.ndarray) -> np.ndarray:
        """The share of draws in which two of these rows are together.

        ``rows`` are positions, or a truth value for every row.
        """
        check_is_fitted(self)
        n, which = self.fit_.data.n, np.asarray(rows)
        if which.dtype == bool and which.shape == (n,):
            which = np.flatnonzero(which)
        whole = which.ndim == 1 and which.dtype.kind in "iu" and len(which) > 0
        if not whole or which.min() < 0 or which.max() >= n:
            raise ValueError(
                f"co_clustering: rows must be positions from 0 to {n - 1}, or a truth value for "
                f"each of the {n} rows, not {shown(rows)}."
            )
        return cluster_answer.co_clustering(self.fit_, which)

    def credible_ball(self, level: float = 0.95) -> CredibleBall:
        """The partitions around ``labels_`` that hold this share of the posterior."""
        check_is_fitted(self)
        level = positive_number("credible_ball", "level", level)
        return credible_ball(self._draws_of_estimate, self.labels_, level)

    @cached_property
    def cluster_profiles_(self) -> pd.DataFrame:
        """What each cluster is like, at the posterior means of the hyperparameters."""
        check_is_fitted(self)
        fit = self.fit_
        likelihood = cast(ClusterLikelihood, fit.model.likelihood_at(fit.mean_hyper()))
        given = getattr(self, "feature_names_in_", None)
        names = [f"x{d}" for d in range(fit.data.d)] if given is None else list(given)
        found = likelihood.profiles(self._completed, self.labels_, names)
        found.index.name = "cluster"
        return found

    # new data

    def _checked(self, X: Table) -> Data:
        """New rows, if they are such as the model knows."""
        check_is_fitted(self)
        new = Data.checked(validation.centered(self, X))
        self.fit_.model.likelihood.check_data(new)
        return new

    def _new_rows(self, X: Table) -> NewRows:
        new, fit = self._checked(X), self.fit_
        if isinstance(fit, VariationalFit):
            rows = cluster_answer.new_rows_under_q(fit, new)
        else:
            rows = cluster_answer.new_rows(
                fit.model, fit.mean_hyper(), self._completed, self._whole, new
            )
        own, others = np.split(rows.in_cluster, [self.n_clusters_], axis=1)
        return NewRows(own, np.logaddexp.reduce(np.column_stack([others, rows.alone]), axis=1))

    def predict(self, X: Table) -> np.ndarray:
        """The most probable cluster of each row of X, each taken as a new one beside ``labels_``.

        It is one of the clusters found; ``novelty`` tells how probable none of them is.
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: Table) -> np.ndarray:
        """The probability of each cluster for rows of X taken as new ones, (n, K).

        Given that they belong to one of the clusters found: rows sum to one.
        """
        logs = self._new_rows(X).in_cluster
        return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]))

    def novelty(self, X: Table) -> np.ndarray:
        """The probability that a row of X, taken as a new one, belongs to none of the clusters."""
        rows = self._new_rows(X)
        return np.asarray(np.exp(rows.alone - rows.log_density()))

    def score(self, X: Table, y: object = None) -> float:
        """Mean log predictive density of the rows of X, averaged over draws (log-mean-exp).

        Of ``Variational`` it is that under q: a mixture of the clusters' predictive densities.
        """
        return float(self.score_samples(X).mean())

    def score_samples(self, X: Table) -> np.ndarray:
        """The log predictive density of each row of X, averaged over draws."""
        new = self._checked(X)
        return cluster_answer.mean_log_densities(self.fit_, new)

    # pictures

    def plot(self) -> Figure:
        """One figure with the most useful pictures."""
        from thali import plots

        return plots.clusters_overview(self)
