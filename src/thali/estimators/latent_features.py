"""The door for people: ``LatentFeatures``, a scikit-learn transformer that finds features."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thali.data import Table
from thali.data.column_values import numbers_of_text
from thali.engines.base import AbsorbsRows, AnyEngine
from thali.estimators import comparing, filling, new_rows, streaming, tables, units, validation
from thali.estimators.base import LatentModel
from thali.estimators.tables import Filled
from thali.likelihoods.base import Likelihood
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.model import Model
from thali.priors.base import Prior
from thali.registry import ESTIMATORS
from thali.results import effects
from thali.results.evidence import Evidence
from thali.results.feature_answer import answer
from thali.results.feature_draws import Draw, best_draw, feature_draws
from thali.results.findings import Finding, of_features
from thali.results.fit import Fit
from thali.results.imputation import Strategy
from thali.results.level_chances import LevelChances
from thali.run.choices import is_auto
from thali.run.likelihoods import choose_likelihood
from thali.settings import whole_number
from thali.structures.features import FEATURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thali.evaluation import Holdout


@ESTIMATORS.register("LatentFeatures")
class LatentFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):  # type: ignore[misc]
    """Find an unknown number of overlapping binary features in a data matrix.

    Parameters
    ----------
    prior : "ibp", "two_parameter_ibp", "truncated_ibp", "beta_bernoulli", "smooth_ibp",
        "learned_ibp", or a prior such as ``thali.IBP(alpha=2)`` or
        ``thali.FlexibleIBP.from_expectations(…)``
    likelihood : "linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor", "noisy_or",
        "poisson" for counts, "probit" for tables of yes and no, "mixed" or "mixed_factors" for
        tables with columns of different kinds, or a likelihood such as
        ``thali.LinearGaussian(sigma_x=0.5)``. "auto" looks at the columns: where rows fall in
        clumps "mixed" or "linear_gaussian", else "mixed_factors", or "mixed" if that tells hidden
        entries better in a short trial; ``choice_`` says which, and why
    engine : "auto", "collapsed_gibbs", "uncollapsed_gibbs", "metropolis", "particle_filter",
        "variational", "maximization_expectation", "beam_search", or an engine such as
        ``thali.CollapsedGibbs(sweeps=500)``. "auto" is the first that can run the model and takes
        the data: ``CollapsedGibbs``, ``UncollapsedGibbs`` where the features cannot be integrated
        out, ``Metropolis`` where the prior has features, ``MaximizationExpectation`` where X is
        sparse; ``engine_`` tells which
    center : subtract the column means first (the model has no intercept)
    scale : divide columns by their standard deviations first, those of what was observed, 1 where
        they are 0. What is told of X is in its own units (``components_``, ``impute``, ``score``);
        hyperparameters and all that speaks of P(X) as a whole are of the scaled data
    random_state : int, RandomState or None
    progress : "auto" (on a terminal or in a notebook), True or False

    Attributes
    ----------
    Z_ : (N, K) bool, the point estimate: least expected Hamming distance after matching columns;
        columns by falling mean frequency in the draws
    assignment_probabilities_ : (N, K), share of draws in which each row has each feature
    components_ : (K, D), the features in the units of X: E[A | X, Z_]; given ``amounts_`` where
        there are amounts; those found with Z_ by a ``BeamSearch`` that cannot integrate them out
    amounts_ : (N, K), the mean amounts Z_ ⊙ S, where the likelihood has them (``SparseFactor``)
    n_components_ : K of Z_
    mean_, scale_ : (D,), what was subtracted from columns, and what they were then divided by
    log_joint_ : left-ordered log P(X, [Z_]) of what was observed, at the posterior means of the
        hyperparameters; log P(X, amounts_, [Z_]) where there are amounts, with A integrated out,
        and log P(X, components_, [Z_]) where A cannot be. Where the prior weighs row sums or has
        features, it lacks the prior's normalizer, which is not known (``prior_.normalized``).
        X and A are the scaled ones here, with ``scale=True``
    posterior_ : ArviZ inference data of the label-free scalars
    best_ : the draw with the highest log joint
    findings_ : what makes the fit degenerate, or too short to rely on, if anything does
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
    _in_pieces = False  # while partial_fit takes in the first

    def __init__(
        self,
        prior: Prior | str = "ibp",
        likelihood: Likelihood | str = "auto",
        engine: AnyEngine | str = "auto",
        *,
        center: bool = False,
        scale: bool = False,
        random_state: validation.Seed = None,
        progress: bool | str = "auto",
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.engine = engine
        self.center = center
        self.scale = scale
        self.random_state = random_state
        self.progress = progress

    def _part(self, name: str) -> Any:
        """Also of "auto": a likelihood that stands for what the data will say."""
        if name == "likelihood" and is_auto(self.likelihood):
            return LinearGaussian()
        return super()._part(name)

    def _as_read(self, X: Table) -> Table:
        """Numbers written as text are numbers, where no likelihood says what columns are."""
        return numbers_of_text(X) if is_auto(self.likelihood) else X

    def _model_of(
        self, X: Table, time_budget: float | None, resumed: str | os.PathLike[str] | None = None
    ) -> tuple[Model, list[str], float]:
        """The model of these data, its likelihood chosen by them where that is "auto"."""
        model = self._model()
        if not is_auto(self.likelihood):
            return model, [], 0.0
        choice = choose_likelihood(
            X,
            model.prior,
            self.engine,
            center=bool(self.center),
            scale=bool(self.scale),
            pieces=self._in_pieces,
            time_budget=time_budget,
            progress=validation.checked_progress(self.progress),
            resumed=resumed,
        )
        return Model(model.prior, choice.likelihood), [choice.sentence()], choice.seconds

    def _show(self, fit: Fit) -> Self:
        """Everything the fit says, as attributes."""
        super()._show(fit)
        estimate, self._parameters, self.log_joint_ = answer(fit)
        self.Z_ = estimate.latent
        self.assignment_probabilities_ = estimate.probabilities
        self.n_components_ = self._n_features_out = self.structure.n_components(estimate.latent)
        self.scale_ = self._scale
        self.components_ = units.in_own(self._parameters["A"], self._scale)
        if "S" in self._parameters:
            self.amounts_ = self.Z_ * self._parameters["S"]
        return self

    def _findings(self) -> Iterator[Finding]:
        yield from of_features(self.fit_, self.Z_, self._parameters)
        yield from super()._findings()

    @available_if(streaming.can_stream)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Table, y: object = None, *, total_samples: int | None = None) -> Self:
        """Take in one piece of the data; the first is fitted by itself, and finds the features.

        A model that was fitted, or loaded, goes on from there. ``total_samples`` is how many rows
        there will be in all: pieces then count less the earlier they came (``forgetting`` and
        ``delay`` of the engine). Without it all rows count alike. Means and scales of columns stay
        those of the first piece. What is said of rows (``Z_``,
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
        streaming.refuse_tables(self._part("likelihood"))
        if not isinstance(getattr(self, "engine_", None), AbsorbsRows):
            self._in_pieces = True
            try:
                return self.fit(X)
            finally:
                self._in_pieces = False
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
        to count equally). A mean over the posterior is Σ weight · value. A is in the units of X,
        hyperparameters are as ``scale`` left the data.
        """
        check_is_fitted(self)
        return map(self._in_own_units, feature_draws(self.fit_, max_draws))

    @cached_property
    def best_(self) -> Draw:
        """The kept draw with the highest log joint."""
        check_is_fitted(self)
        return self._in_own_units(best_draw(self.fit_))

    def _in_own_units(self, draw: Draw) -> Draw:
        return draw._replace(A=units.in_own(draw.A, self._scale))

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
        draws of chains are used for it. It is of the data as they were fitted (centered and scaled,
        if they were), and hyperpriors that "auto" scaled to the data count as if they had been
        given. A number for ``random_state`` fixes the answer; without one it is fixed by that of
        the fit.

        >>> import thali
        >>> X = thali.datasets.images(n=6, random_state=0).X[:, :4]
        >>> engine = thali.CollapsedGibbs(sweeps=100, chains=1)
        >>> model = thali.LatentFeatures(
        ...     likelihood="linear_gaussian", engine=engine, random_state=0
        ... ).fit(X)
        >>> found = model.evidence(n_runs=8, steps=50)
        >>> found.runs.shape, bool(found.error < 1.0)
        ((8,), True)
        """
        check_is_fitted(self)
        return comparing.evidence(self, n_runs, steps, reverse_runs, random_state)

    @cached_property
    def _evidence_(self) -> Evidence:
        check_is_fitted(self)
        comparing.refuse_attribute(self.fit_)
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
        return new_rows.probabilities(self, X)

    def inverse_transform(self, Z: ArrayLike) -> Filled:
        """The data expected of assignments Z (n, K): Z @ components_ + mean_ for linear models.

        Where the likelihood has amounts (``amounts_``), Z is a matrix of amounts. Of a table with
        columns of different kinds (``MixedColumns``) it is a table in the columns' own types, with
        expected numbers, whole for counts, the expected ones of ordered levels, and the most
        probable ones of others.
        """
        check_is_fitted(self)
        Z = new_rows.checked(self, Z)
        if tables.layout_of(self) is not None:
            return tables.expected(self, Z, self.components_)
        return new_rows.expected(self, Z)

    def effects(self) -> pd.DataFrame:
        """What each feature does to each column, in the column's own values and in words.

        A row without features, which has the bias alone, is compared with one that has feature
        ``feature`` alone (counted from 1, as in pictures), at the posterior means: ``without`` and
        ``with`` are the numbers that are expected, or the probabilities of ``level``. ``effect`` is
        their difference; of a positive column the factor between them. A binary column is told by
        its second level, an ordinal one by its top level, a categorical one by all. Where there are
        amounts, the row has one unit of the feature.

        >>> import thali
        >>> X = thali.datasets.images(n=30, random_state=0).X
        >>> engine = thali.CollapsedGibbs(sweeps=20, chains=1)
        >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
        >>> list(model.effects().columns)
        ['feature', 'column', 'kind', 'level', 'without', 'with', 'effect', 'words']
        """
        check_is_fitted(self)
        likelihood = self.fit_.model.likelihood_at(self.fit_.mean_hyper())
        return effects.effects(likelihood, self.components_, tables.labels_of(self), self.mean_)

    def score(self, X: Table | Holdout, y: object = None) -> float:
        """Mean log predictive density of the rows of X, averaged over draws (log-mean-exp).

        It is of X in its own units, also with ``scale=True``. A row with missing entries counts
        with the density of those it has. Under ``LinearGaussian`` each row's sum over its bits is
        exact up to 10 features, beyond, the bits least in doubt count as independent; features that
        only the new row has are summed out. Under the other likelihoods the density is given the
        draw's features, without new ones, and exact up to 14; of numbers with more, and where rows
        have amounts without a closed form, it is an estimate by particles, without bias, and its
        logarithm on average a lower bound; of other data with more it is refused. After
        ``partial_fit`` it is a lower bound under q. Given a ``thali.evaluation.Holdout`` in place
        of X: its ``log_predictive`` of this model.
        """
        check_is_fitted(self)
        if hasattr(X, "log_predictive"):
            return float(X.log_predictive(self))
        return new_rows.mean_log_density(self, X)

    # missing entries

    def impute(
        self,
        X: Table | None = None,
        *,
        return_std: bool = False,
        interval: float | None = None,
        strategy: Strategy = "mean",
    ) -> Filled | tuple[Filled, ...]:
        """The training data, or new rows X, with each missing entry replaced by its posterior mean.

        So columns are predicted from others: new rows in which they are missing come back with them
        filled in, given draws of the features and what the rows show; each row by itself, and
        without features that it alone might have. They have the columns of the training data,
        and levels that it had.

        A missing entry is distributed as the mixture, over kept draws, of its distributions given
        a draw: with A integrated out given Z, the scales and the observed entries where that can
        be done, else given the draw's parameters. Nothing is drawn for it, so the answer is the
        same at every call. At most ``imputation.DRAWS`` evenly spaced draws.
        ``strategy="median"`` takes the posterior median, which is nearer to what is typical of
        numbers with a long tail; means have the smaller squared error.
        ``return_std=True`` gives (filled, std), with the standard deviation, 0 where an entry was
        observed; ``interval=0.9`` gives (filled, low, high), with the central quantiles. Of fewer
        than ten draws both come with a warning (``thali.TooFewDraws``). Data frames come back as
        data frames.

        A table with columns of different kinds (``MixedColumns``) comes back in its own types, and
        what was observed as it was. Means of numbers with a long tail take these no farther than
        what was observed. Missing counts are the posterior mean, rounded, and missing ordered
        levels the one nearest to the mean of their places, or the median one; others are the most
        probable. ``std`` of a level is 1 − its probability. ``low`` and ``high`` of an ordinal or
        binary column are levels; a categorical one has no order, and in both the most probable
        level.

        >>> import numpy as np, thali
        >>> X = thali.datasets.images(n=30, random_state=0).X
        >>> X[3, 4] = np.nan
        >>> engine = thali.CollapsedGibbs(sweeps=20, chains=1)
        >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
        >>> filled, low, high = model.impute(interval=0.9)
        >>> bool(low[3, 4] < filled[3, 4] < high[3, 4]), int(np.isnan(filled).sum())
        (True, 0)
        >>> new = X[5:7].copy()
        >>> new[:, :9] = np.nan
        >>> model.impute(new).shape
        (2, 36)
        """
        check_is_fitted(self)
        return filling.imputed(self, X, return_std, interval, strategy)

    def impute_proba(self, X: Table | None = None) -> LevelChances:
        """How probable each level of each missing entry is, averaged over draws: of the training
        data, or of new rows X.

        A mapping from columns with levels to arrays: P(second level) of the missing entries of a
        binary column, (missing,), in the order of rows; (missing, levels) of other columns; empty
        arrays for columns of which nothing is missing. Columns of numbers are not in it. Its
        ``rows`` and ``levels`` tell which rows and levels these are, and ``table(column)`` gives
        both in a data frame. Under likelihoods other than ``MixedColumns``, columns of 0 and 1 are
        in it, with P(1).

        >>> import numpy as np, thali
        >>> X = (thali.datasets.images(n=30, random_state=0).X > 0.5).astype(float)
        >>> X[3, 4] = np.nan
        >>> engine = thali.UncollapsedGibbs(sweeps=20, chains=1)
        >>> model = thali.LatentFeatures(likelihood="noisy_or", engine=engine, random_state=0)
        >>> chances = model.fit(X).impute_proba()
        >>> chances[4].shape, chances.rows[4], chances.levels[4], chances[5].shape
        ((1,), array([3]), (0, 1), (0,))
        """
        check_is_fitted(self)
        return filling.chances(self, X)

    # pictures

    def plot(self, *, image_shape: tuple[int, int] | None = None) -> Figure:
        """One figure with the most useful pictures; rows as images of this shape."""
        from thali import plots

        return plots.overview(self, image_shape=image_shape)
