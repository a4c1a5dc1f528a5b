"""The door for people: ``LatentFeatures``, a scikit-learn transformer around model, engine and run.

data = validated X;  model = prior × likelihood;  trace = run(engine);  results ← trace
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from thali.data.matrix import Data, observed_means, row_names
from thali.estimators import streaming
from thali.estimators.parameters import NestedParts
from thali.estimators.streaming import Streaming
from thali.estimators.validation import Accepting, checked_progress, seed_from, to_copy
from thali.model import Model
from thali.results import prediction as predictive
from thali.results.point_estimate import (
    PointEstimate,
    answer_at,
    draws_to_use,
    point_estimate,
    variational_answer,
)
from thali.results.posterior import Posterior
from thali.results.trace import Trace
from thali.run.checkpoints import seed_of
from thali.run.choices import check_engine, choose_engine
from thali.run.loop import run
from thali.settings import positive_number
from thali.structures.features import as_amounts, as_binary_matrix

if TYPE_CHECKING:
    from thali.report import Verdict

HIDDEN = ("bound", "stream")  # what a law keeps besides its parameters
LARGEST_DRIFT = 1e-6  # relative; a fit that saw more says so


class LatentFeatures(
    NestedParts,
    Accepting,
    Posterior,
    Streaming,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Find an unknown number of overlapping binary features in a data matrix.

    Parameters
    ----------
    prior : "ibp", "two_parameter_ibp", "beta_bernoulli", or a prior such as ``thali.IBP(alpha=2)``
    likelihood : "linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor", "noisy_or",
        or a likelihood such as ``thali.LinearGaussian(sigma_x=0.5)``
    engine : "auto", "collapsed_gibbs", "uncollapsed_gibbs", "particle_filter", "variational",
        "maximization_expectation", "beam_search", or an engine such as
        ``thali.CollapsedGibbs(sweeps=500)``
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
        and log P(X, components_, [Z_]) where A cannot be
    posterior_ : ArviZ inference data of the label-free scalars
    best_ : the draw with the highest log joint
    kind_ : what the result is, "draws", "weighted", "variational" or "point"
    weights_ : the weight of each of ``draws()``; they sum to one
    log_evidence_ : the estimate of log P(X); ``ParticleFilter`` only
    elbo_, variational_params_, elbos_ : the lower bound of log P(X), all parameters of q,
        and the bound with features' laws joint and factorized; ``Variational`` and
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

    def __init__(
        self,
        prior: Any = "ibp",
        likelihood: Any = "linear_gaussian",
        engine: Any = "auto",
        *,
        center: bool = False,
        random_state: Any = None,
        progress: bool | str = "auto",
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.engine = engine
        self.center = center
        self.random_state = random_state
        self.progress = progress

    # fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        time_budget: float | None = None,
    ) -> Self:
        """Fit to X (rows are observations). ``y`` is ignored.

        NaN, None, pandas' NA and masked entries are missing: only what was observed is fitted. A
        sparse matrix, array or data frame of SciPy or pandas is fitted as it is by engines with
        ``sparse = True``, and never made dense; entries that it leaves out are zeros. X is never
        changed. An array of float64 in C order that is not centerd and larger than 100 MB is kept
        as it is, not copied: if you change it afterwards, fit to ``X.copy()``.

        ``checkpoint`` names a file written every few seconds; ``resume=True`` goes on from it and
        ends with the same draws as a run never stopped, with its seed unless ``random_state`` is
        a number. Without ``resume``, a checkpoint that lies there is moved aside. ``time_budget``
        stops after so many seconds; Ctrl-C stops at once; both keep what was computed. A fit that
        fails leaves an earlier one as it was.
        """
        with self._undo_on_failure():
            return self._fit(X, checkpoint, resume, time_budget)

    def _fit(
        self,
        X: Any,
        checkpoint: str | os.PathLike[str] | None,
        resume: bool,
        time_budget: float | None,
    ) -> Self:
        if not isinstance(self.center, bool | np.bool_):
            raise TypeError(f"center must be True or False, not {self.center!r}.")
        progress = checked_progress(self.progress)
        if time_budget is not None:
            time_budget = positive_number("fit", "time_budget", time_budget)
        names = row_names(X)
        X = self._validated(X, reset=True, copy=bool(self.center) or to_copy(X))
        mean = observed_means(X) if self.center else np.zeros(X.shape[1])
        data = Data.of(np.subtract(X, mean, out=X) if self.center else X)
        parts = self._parts()
        engine = choose_engine(self.engine, parts)
        check_engine(engine, parts, data)
        model = parts.resolve(data)
        seed = self._seed(checkpoint if resume else None)
        trace = run(
            seed,
            model,
            engine,
            data,
            progress=progress,
            checkpoint=checkpoint,
            resume=resume,
            time_budget=time_budget,
        )
        if trace.drift > LARGEST_DRIFT:
            warnings.warn(
                f"Rounding errors grew to {trace.drift:.1e} of the maintained quantities before "
                "they were made afresh: the data are far from zero, or sigma_x is far below "
                "their scale. Center the data (center=True), or let the scales be inferred.",
                RuntimeWarning,
                stacklevel=3,
            )
        if "sweeps" in engine.get_params():
            engine = engine.replace(sweeps=trace.sweeps)
        self._forget()
        self.seed_, self.mean_, self.row_names_ = seed, mean, names
        return self._settle(data, model, engine, trace)

    @contextmanager
    def _undo_on_failure(self) -> Iterator[None]:
        """Undo every change to this estimator if what is done to it fails."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _seed(self, to_resume: str | os.PathLike[str] | None) -> int:
        """The given seed, or that of the run to be resumed, or a new one."""
        given = isinstance(self.random_state, int | np.integer)
        if to_resume is None or given or not Path(to_resume).is_file():
            return seed_from(self.random_state)
        return seed_of(to_resume)

    def _forget(self) -> None:
        """Take away what an earlier fit found; the columns' names and number are new already."""
        for name in [name for name in self.__dict__ if name.endswith("_")]:
            if name not in ("n_features_in_", "feature_names_in_"):
                del self.__dict__[name]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_n_features_out")

    def _settle(self, data: Data, model: Model, engine: Any, trace: Trace) -> Self:
        """Everything the trace says, as attributes."""
        self._data, self._model, self._trace = data, model, trace
        self.prior_, self.likelihood_ = model.prior, model.likelihood
        self.engine_ = engine
        self.X_ = data.X + self.mean_ if self.center else data.X
        if not data.sparse:
            self.X_ = self.X_.view()
            self.X_.flags.writeable = False  # it may be the array that was given
        self._hyper = {
            name: mean for name, mean in trace.means().items() if name in trace.names[2:]
        }
        estimate = self._answer(data, model, trace)
        self.Z_ = estimate.Z
        self.assignment_probabilities_ = estimate.probabilities
        self.n_components_ = estimate.Z.shape[1]
        for name, value in self._hyper.items():
            setattr(self, f"{name}_", value)
        self.components_ = self._parameters["A"]
        if "S" in self._parameters:
            self.amounts_ = self.Z_ * self._parameters["S"]
        self.history_ = trace.history()
        self.burn_in_ = min(trace.burn_in, self.history_["n_components"].shape[1])
        self.starts_, self.stopped_ = trace.starts, trace.stopped
        self.seconds_, self.drift_ = trace.seconds, trace.drift
        self.kind_, self.weights_ = trace.kind, trace.weights()
        if trace.kind == "weighted":
            self.log_evidence_ = trace.log_evidence
        if trace.kind == "variational":
            self.elbo_ = float(self.history_["elbo"][:, -1].max())
            self.variational_params_ = {
                k: v for k, v in trace.law.items() if k.split("_")[0] not in HIDDEN
            }
            self.n_rows_seen_ = int(trace.law.get("stream_seen", data.n))
            self.elbos_ = {
                k.removeprefix("bound_"): float(v)
                for k, v in trace.law.items()
                if k.startswith("bound_")
            }
        if trace.kind == "point":
            self.proven_optimal_, self.log_joint_upper_bound_ = (
                bool(trace.law["proven"]),
                float(trace.law["bound"]),
            )
            self.n_enqueued_ = int(trace.law["enqueued"])
            self.n_dequeued_ = int(trace.law["dequeued"])
        self._n_features_out = self.n_components_
        return self

    def _answer(self, data: Data, model: Model, trace: Trace) -> PointEstimate:
        """The point estimate, with its parameters and log joint noted."""
        if trace.kind == "variational":
            estimate, self._parameters, self.log_joint_ = variational_answer(
                model, data, trace.law, self._hyper
            )
            return estimate
        most = draws_to_use(data.n, int(trace.kept()["n_components"].max()))
        picked = trace.pick(trace.spread(most))
        estimate = point_estimate(
            [draw.Z for draw in picked],
            np.array([draw.scalars["log_joint"] for draw in picked]),
        )
        seed = np.random.SeedSequence((self.seed_, 0))
        self._parameters, self.log_joint_ = answer_at(
            model, data, estimate.Z, self._hyper, picked, seed, trace.kind == "point"
        )
        return estimate

    # new data

    def transform(self, X: Any) -> np.ndarray:
        """The features of each row, (n, K) of 0 and 1: those with probability above one half.

        Rows are taken as new ones, independent of each other, given Z_ and the training data.
        """
        return (self.predict_proba(X) > 0.5).astype(float)

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(row has feature k) for rows of X taken as new ones, (n, K), given what they show."""
        check_is_fitted(self)
        X = self._centerd(X)
        if self._is_stream():
            return streaming.probabilities(self._stream(), X, self.engine_.dtype)
        return predictive.probabilities(
            self._model, self._data, self.Z_, self._hyper, self._parameters, Data.checked(X)
        )

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Fit to X, then ``transform`` it."""
        return self.fit(X, y, **fit_params).transform(X)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """The data expected of assignments Z (n, K): Z @ components_ + mean_ for linear models.

        Where the likelihood has amounts (``amounts_``), Z is a matrix of amounts.
        """
        check_is_fitted(self)
        Z = as_amounts(Z) if hasattr(self, "amounts_") else as_binary_matrix(Z)
        if Z.shape[1] != self.n_components_:
            raise ValueError(
                f"Z has {Z.shape[1]} columns but the model {self.n_components_} features."
            )
        likelihood: Any = self._model.at(self._hyper).likelihood
        return likelihood.mean(Z, self.components_) + self.mean_

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X, averaged over draws (log-mean-exp).

        A row with missing entries counts with the density of those it has. Under
        ``LinearGaussian`` each row's sum over its bits is exact up to 10 features, beyond, the bits
        least in doubt count as independent; features that only the new row has are summed out.
        Under the other likelihoods the density is given the draw's features, without new ones, and
        exact up to 14; beyond, and for a ``SparseFactor`` with a Laplace slab, it is refused. After
        ``partial_fit`` it is a lower bound under the law of the features. Given a
        ``thali.evaluation.Holdout`` in place of X: its ``log_predictive`` of this model.
        """
        check_is_fitted(self)
        if hasattr(X, "log_predictive"):
            return X.log_predictive(self)
        X = self._centerd(X)
        if self._is_stream():
            return streaming.mean_bound(self._stream(), X, self.engine_.dtype)
        picked = self._trace.pick(self._trace.spread(predictive.SCORE_DRAWS))
        new, logs = Data.checked(X), []
        for Z, scalars, kept in picked:
            hyper = {name: scalars[name] for name in self._hyper}
            logs.append(predictive.log_densities(self._model, self._data, Z, hyper, kept, new))
        stacked = np.array(logs)
        return float((np.logaddexp.reduce(stacked, axis=0) - np.log(len(stacked))).mean())

    # convergence, pictures and files

    def convergence(self) -> Verdict:
        """Whether the chains came to agree, in plain words: ``level``, ``headline`` and ``advice``.

        >>> import thali
        >>> X = thali.datasets.images(n=30, random_state=0).X
        >>> engine = thali.CollapsedGibbs(sweeps=20, chains=1)
        >>> thali.LatentFeatures(engine=engine, random_state=0).fit(X).convergence().headline
        'One chain cannot vouch for itself.'
        """
        from thali.report import verdict

        check_is_fitted(self)
        return verdict(self)

    def plot(self, **options: Any) -> Any:
        """One figure with the most useful pictures; returns a matplotlib Figure."""
        from thali import plots

        check_is_fitted(self)
        return plots.overview(self, **options)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a self-contained HTML report and return its path."""
        from thali.report import write_report

        check_is_fitted(self)
        return write_report(self, path, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one file that ``thali.load`` opens: arrays and JSON, no pickle."""
        from thali.estimators.saving import save

        check_is_fitted(self)
        save(self, path)
