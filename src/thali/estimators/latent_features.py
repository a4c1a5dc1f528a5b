"""The door for people: ``LatentFeatures``, a scikit-learn transformer that finds features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeAlias, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thali.data import Data, Table
from thali.data.matrix import named
from thali.engines.base import AbsorbsRows, AnyEngine
from thali.estimators import streaming, validation
from thali.estimators.base import LatentModel
from thali.likelihoods.base import Conditional, Likelihood
from thali.priors.base import Prior
from thali.registry import ESTIMATORS
from thali.results import imputation, prediction
from thali.results.evidence import Evidence
from thali.results.feature_answer import answer
from thali.results.feature_draws import Draw, best_draw, feature_draws
from thali.results.fit import Draws, Fit
from thali.run.evidence import evidence
from thali.run.evidence import refuse as refuse_evidence
from thali.settings import whole_number
from thali.structures.features import FEATURES, as_amounts, as_binary_matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thali.evaluation import Holdout

Filled: TypeAlias = np.ndarray | pd.DataFrame


@ESTIMATORS.register("LatentFeatures")
class LatentFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):  # type: ignore[misc]
    """Find an unknown number of overlapping binary features in a data matrix.

    Parameters
    ----------
    prior : "ibp", "two_parameter_ibp", "beta_bernoulli", "smooth_ibp", "learned_ibp", or a prior
        such as ``thali.IBP(alpha=2)`` or ``thali.FlexibleIBP.from_expectations(…)``
    likelihood : "linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor", "noisy_or",
        or a likelihood such as ``thali.LinearGaussian(sigma_x=0.5)``
    engine : "auto", "collapsed_gibbs", "uncollapsed_gibbs", "metropolis", "particle_filter",
        "variational", "maximization_expectation", "beam_search", or an engine such as
        ``thali.CollapsedGibbs(sweeps=500)``. "auto" is the first that can run the model and takes
        the data: ``CollapsedGibbs``, ``UncollapsedGibbs`` where the features cannot be integrated
        out, ``Metropolis`` where the prior has features, ``MaximizationExpectation`` where X is
        sparse; ``engine_`` tells which
    center : subtract the column means first (the model has no intercept)
    random_state : int, RandomState or None
    progress : "auto" (on a terminal or in a notebook), True or False

    Attributes
    ----------
    Z_ : (N, K) bool, the point estimate: least expected Hamming distance after matching columns;
        columns by falling mean frequency in the draws
    assignment_probabilities_ : (N, K), share of draws in which each row has each feature
    components_ : (K, D), the features: E[A | X, Z_]; given ``amounts_`` where there are amounts;
        those found with Z_ by a ``BeamSearch`` that cannot integrate them out
    amounts_ : (N, K), the mean amounts Z_ ⊙ S, where the likelihood has them (``SparseFactor``)
    n_components_ : K of Z_
    log_joint_ : left-ordered log P(X, [Z_]) of what was observed, at the posterior means of the
        hyperparameters; log P(X, amounts_, [Z_]) where there are amounts, with A integrated out,
        and log P(X, components_, [Z_]) where A cannot be. Where the prior weighs row sums or has
        features, it lacks the prior's normalizer, which is not known (``prior_.normalized``)
    posterior_ : ArviZ inference data of the label-free scalars
    best_ : the draw with the highest log joint
    fit_ : the result itself: ``Draws``, ``WeightedDraws``, ``VariationalFit`` or ``PointFit``
    weights_ : the weight of each of ``draws()``; they sum to one
    log_evidence_, log_evidence_error_ : an estimate of log P(X) and its standard error: that of
        ``evidence()``, computed when first asked for; of a ``ParticleFilter`` its own, without an
        error, and NaN where a stop left rows
    elbo_, variational_params_, elbos_ : the lower bound of log P(X), all parameters of q,
        and the bound with q(A) joint and factorized; ``Variational`` and
        ``MaximizationExpectation`` only
    proven_optimal_, log_joint_upper_bound_, n_enqueued_, n_dequeued_ : whether no Z has a
        higher log joint, a bound of the log joint of every Z (infinite where none is known), and
        the candidates that entered and left the queue; ``BeamSearch`` only

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=40, random_state=0).X
    >>> engine = thali.CollapsedGibbs(sweeps=40, chains=2)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> model.Z_.shape == (40, model.n_components_)
    True
    """

    structure = FEATURES

    def __init__(
        self,
        prior: Prior | str = "ibp",
        likelihood: Likelihood | str = "linear_gaussian",
        engine: AnyEngine | str = "auto",
        *,
        center: bool = False,
        random_state: validation.Seed = None,
        progress: bool | str = "auto",
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.engine = engine
        self.center = center
        self.random_state = random_state
        self.progress = progress

    def _show(self, fit: Fit) -> Self:
        """Everything the fit says, as attributes."""
        super()._show(fit)
        estimate, self._parameters, self.log_joint_ = answer(fit)
        self.Z_ = estimate.latent
        self.assignment_probabilities_ = estimate.probabilities
        self.n_components_ = self._n_features_out = self.structure.n_components(estimate.latent)
        self.components_ = self._parameters["A"]
        if "S" in self._parameters:
            self.amounts_ = self.Z_ * self._parameters["S"]
        return self

    @available_if(streaming.can_stream)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Table, y: object = None, *, total_samples: int | None = None) -> Self:
        """Take in one piece of the data; the first is fitted by itself, and finds the features.

        A model that was fitted, or loaded, goes on from there. ``total_samples`` is how many rows
        there will be in all: pieces then count less the earlier they came (``forgetting`` and
        ``delay`` of the engine). Without it all rows count alike. What is said of rows (``Z_``,
        ``draws()``) is of the last piece; features, frequencies and hyperparameters are of all.

        >>> import thali
        >>> X = thali.datasets.images(n=300, random_state=0).X
        >>> model = thali.LatentFeatures(engine=thali.Variational(truncation=8), random_state=0)
        >>> for piece in (X[:100], X[100:200], X[200:]):
        ...     model = model.partial_fit(piece)
        >>> model.components_.shape == (model.n_components_, 36), model.n_rows_seen_
        (True, 300)
        """
        if total_samples is not None:
            total_samples = whole_number("partial_fit", "total_samples", total_samples, 1)
        if not isinstance(getattr(self, "engine_", None), AbsorbsRows):
            return self.fit(X)
        with self._undo_on_failure():
            fit = streaming.absorbed(self.fit_, validation.centered(self, X), total_samples)
            mean = self.mean_
            self._forget()
            self.mean_, self.row_names_ = mean, None
            return self._show(fit)

    # draws

    def draws(self, max_draws: int | None = None) -> Iterator[Draw]:
        """Every kept draw, or at most ``max_draws`` evenly spaced ones; its features A are drawn
        given the rest, the same at every call.

        Each has a weight, and the weights sum to one: equal ones for a sampler's draws, the
        particles' own for a particle filter's (of which ``max_draws`` picks some by their weight,
        to count equally). A mean over the posterior is Σ weight · value.
        """
        check_is_fitted(self)
        return feature_draws(self.fit_, max_draws)

    @cached_property
    def best_(self) -> Draw:
        """The kept draw with the highest log joint."""
        check_is_fitted(self)
        return best_draw(self.fit_)

    # comparing models

    def evidence(
        self,
        *,
        n_runs: int = 16,
        steps: int | None = None,
        reverse_runs: int = 4,
        random_state: validation.Seed = None,
    ) -> Evidence:
        """Estimate log P(X), with Z, parameters and inferred hyperparameters integrated out.

        Annealed importance sampling: each of ``n_runs`` runs begins with a draw from the prior and
        lets the data in over so many ``steps``. ``estimate`` is the logarithm of the mean of their
        weights, with its standard ``error``. It is more likely below the truth than above, by far
        where features are hard to find: then a warning says so. ``reverse_runs`` runs lead from
        draws of the posterior back to the prior, and give ``upper``, likely above the truth; only
        draws of chains are used for it. It is of the data as they were fitted (centered, if they
        were), and hyperpriors that "auto" scaled to the data count as if they had been given. A
        number for ``random_state`` fixes the answer; without one it is fixed by that of the fit.

        >>> import thali
        >>> X = thali.datasets.images(n=6, random_state=0).X[:, :4]
        >>> engine = thali.CollapsedGibbs(sweeps=100, chains=1)
        >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
        >>> found = model.evidence(n_runs=8, steps=50)
        >>> found.runs.shape, bool(found.error < 1.0)
        ((8,), True)
        """
        check_is_fitted(self)
        n_runs = whole_number("evidence", "n_runs", n_runs, 1)
        reverse_runs = whole_number("evidence", "reverse_runs", reverse_runs, 0)
        if steps is not None:
            steps = whole_number("evidence", "steps", steps, 1)
        if streaming.is_stream(self.fit_):
            raise ValueError(
                "The evidence cannot be estimated: the model saw its data in pieces, and keeps the "
                "last one alone."
            )
        draws = list(self.draws(reverse_runs)) if isinstance(self.fit_, Draws) else []
        seed = self.seed_ if random_state is None else validation.seed_from(random_state)
        progress = validation.checked_progress(self.progress)
        return evidence(
            seed,
            self.fit_.model,
            self.fit_.data,
            draws,
            n_runs=n_runs,
            steps=steps,
            progress=progress,
        )

    @cached_property
    def _evidence_(self) -> Evidence:
        check_is_fitted(self)
        try:
            refuse_evidence(self.fit_.model, self.fit_.data)
        except ValueError as error:  # there is no such attribute, as hasattr should find
            raise AttributeError(str(error)) from error
        return self.evidence()

    @cached_property
    def log_evidence_(self) -> float:
        """log P(X), as ``evidence()`` estimates it."""
        return self._evidence_.estimate

    @cached_property
    def log_evidence_error_(self) -> float:
        """The standard error of ``log_evidence_``."""
        return self._evidence_.error

    # new data

    def transform(self, X: Table) -> np.ndarray:
        """The features of each row, (n, K) of 0 and 1: those with probability above one half.

        Rows are taken as new ones, independent of each other, given Z_ and the training data.
        """
        return (self.predict_proba(X) > 0.5).astype(float)

    def predict_proba(self, X: Table) -> np.ndarray:
        """P(row has feature k) for rows of X taken as new ones, (n, K), given what they show."""
        check_is_fitted(self)
        X, fit = validation.centered(self, X), self.fit_
        if streaming.is_stream(fit):
            return streaming.probabilities(fit, X)
        return prediction.probabilities(
            fit, self.Z_, fit.mean_hyper(), self._parameters, Data.checked(X)
        )

    def inverse_transform(self, Z: ArrayLike) -> np.ndarray:
        """The data expected of assignments Z (n, K): Z @ components_ + mean_ for linear models.

        Where the likelihood has amounts (``amounts_``), Z is a matrix of amounts.
        """
        check_is_fitted(self)
        Z = as_amounts(Z) if hasattr(self, "amounts_") else as_binary_matrix(Z)
        if Z.shape[1] != self.n_components_:
            raise ValueError(
                f"Z has {Z.shape[1]} columns but the model {self.n_components_} features."
            )
        likelihood = self.fit_.model.likelihood_at(self.fit_.mean_hyper())
        expected = cast(Conditional, likelihood).mean(Z, self.components_)
        return np.asarray(expected + self.mean_)

    def score(self, X: Table | Holdout, y: object = None) -> float:
        """Mean log predictive density of the rows of X, averaged over draws (log-mean-exp).

        A row with missing entries counts with the density of those it has. Under
        ``LinearGaussian`` each row's sum over its bits is exact up to 10 features, beyond, the bits
        least in doubt count as independent; features that only the new row has are summed out.
        Under the other likelihoods the density is given the draw's features, without new ones, and
        exact up to 14; beyond, and for a ``SparseFactor`` with a Laplace slab, it is refused. After
        ``partial_fit`` it is a lower bound under q. Given a
        ``thali.evaluation.Holdout`` in place of X: its ``log_predictive`` of this model.
        """
        check_is_fitted(self)
        if hasattr(X, "log_predictive"):
            return float(X.log_predictive(self))
        X = validation.centered(self, X)
        if streaming.is_stream(self.fit_):
            return streaming.mean_bound(self.fit_, X)
        return float(prediction.mean_log_densities(self.fit_, Data.checked(X)).mean())

    # missing entries

    def impute(
        self, *, return_std: bool = False, interval: float | None = None
    ) -> Filled | tuple[Filled, ...]:
        """The training data with each missing entry replaced by its posterior mean.

        A missing entry is distributed as the mixture, over kept draws, of its distributions given
        a draw: with A integrated out given Z, the scales and the observed entries where that can
        be done, else given the draw's parameters. Nothing is drawn for it, so the answer is the
        same at every call. At most ``imputation.DRAWS`` evenly spaced draws.
        ``return_std=True`` gives (filled, std), with the standard deviation, 0 where an entry was
        observed; ``interval=0.9`` gives (filled, low, high), with the central quantiles.
        Data frames come back as data frames.

        >>> import numpy as np, thali
        >>> X = thali.datasets.images(n=30, random_state=0).X
        >>> X[3, 4] = np.nan
        >>> engine = thali.CollapsedGibbs(sweeps=20, chains=1)
        >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
        >>> filled, low, high = model.impute(interval=0.9)
        >>> bool(low[3, 4] < filled[3, 4] < high[3, 4]), int(np.isnan(filled).sum())
        (True, 0)
        """
        check_is_fitted(self)
        if return_std and interval is not None:
            raise ValueError("impute: ask for return_std=True or for an interval, not for both.")
        if self.fit_.data.sparse:
            raise ValueError(
                "impute: the model was fitted to a sparse matrix, which has no missing entries: "
                "what it leaves out are zeros."
            )
        entries = imputation.missing_entries_of(self.fit_)
        missing = self.fit_.data.where_missing
        center = np.broadcast_to(self.mean_, self.X_.shape)[missing]

        def filled(values: np.ndarray) -> Filled:
            table = self.X_.copy()
            table[missing] = values + center
            return self._as_given(table)

        if return_std:
            std = np.zeros(self.X_.shape)
            std[missing] = entries.std()
            return filled(entries.mean()), self._as_given(std)
        if interval is not None:
            return tuple(filled(v) for v in (entries.mean(), *entries.interval(interval)))
        return filled(entries.mean())

    def _as_given(self, values: np.ndarray) -> Filled:
        """A table like the training data, with its names if it had any."""
        return named(values, self.row_names_, getattr(self, "feature_names_in_", None))

    # pictures

    def plot(self, *, image_shape: tuple[int, int] | None = None) -> Figure:
        """One figure with the most useful pictures; rows as images of this shape."""
        from thali import plots

        return plots.overview(self, image_shape=image_shape)
