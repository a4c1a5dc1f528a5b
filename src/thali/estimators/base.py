"""What every estimator shares, whatever its latent structure: parameters, fitting, files, reports.

data = validated X;  model = prior × likelihood;  fit = run(engine);  attributes ← fit
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from thali.data.matrix import Data, Table, row_names
from thali.data.missing import observed_means
from thali.engines.base import AnyEngine, takes_missing, takes_sparse
from thali.estimators import saving, validation
from thali.hyperparameters import Hyperprior
from thali.likelihoods.base import Likelihood, Scaled
from thali.model import Model
from thali.priors.base import Prior
from thali.registry import LIKELIHOODS, PRIORS, Registry
from thali.results.fit import Fit
from thali.run.choices import check_engine, choose_engine
from thali.run.loop import run
from thali.settings import Settings, positive_number, refuse_class
from thali.storage import Json
from thali.structures.base import Structure

if TYPE_CHECKING:
    from arviz import InferenceData
    from sklearn.utils import Tags

    from thali.report import Verdict

LARGEST_DRIFT = 1e-6  # relative; a fit that saw more says so
LOOKED_AT = 1000  # rows of a table, to see whether it is of 0 and 1
COPIED = 0.05  # of the data's standard deviation: noise below which 0 and 1 are copied


class LatentModel(BaseEstimator):  # type: ignore[misc]
    """Prior × likelihood, an engine, and what they find.

    A subclass names its ``structure``, has an ``__init__`` as scikit-learn wants it, and shows what
    is particular to the structure in ``_show``.
    """

    structure: ClassVar[Structure[Any]]
    _future = 0  # rows to come

    prior: Prior | str
    likelihood: Likelihood | str
    engine: AnyEngine | str
    center: bool
    random_state: validation.Seed
    progress: bool | str

    fit_: Fit
    mean_: np.ndarray
    seed_: int
    row_names_: list[str] | None
    n_features_in_: int

    # parameters

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Parameters by name; ``deep`` also lists those of prior, likelihood and engine."""
        found: dict[str, object] = super().get_params(deep=False)
        for owner in saving.PARTS if deep else ():
            with suppress(ValueError):  # an unknown name: fit will say so, get_params must not
                part = self._part(owner)
                if isinstance(part, Settings):
                    found |= {f"{owner}__{k}": value for k, value in part.get_params().items()}
        return found

    def set_params(self, **params: object) -> Self:
        """Set parameters; ``prior__alpha=2.0`` replaces the prior by one with that alpha."""
        changes: dict[str, dict[str, object]] = {}
        for key in [key for key in params if "__" in key]:
            owner, _, name = key.partition("__")
            if owner not in saving.PARTS:
                raise ValueError(
                    f"Invalid parameter {owner!r} for estimator {type(self).__name__}; nested "
                    "parameters belong to prior, likelihood or engine."
                )
            changes.setdefault(owner, {})[name] = params.pop(key)
        super().set_params(**params)
        for owner, settings in changes.items():
            part = self._part(owner)
            refuse_class(owner, part)
            setattr(self, owner, part.replace(**settings))
        return self

    def _part(self, name: str) -> Any:
        """The prior, likelihood or engine that a parameter stands for: a value, or its name."""
        if name != "engine":
            registry: Registry[Any] = PRIORS if name == "prior" else LIKELIHOODS
            return registry.make(getattr(self, name), structure=self.structure)
        model = None
        with suppress(ValueError, TypeError):  # no such parts: fit will say so
            model = self._model()
        return choose_engine(self.engine, model)

    def _model(self) -> Model:
        """Prior × likelihood, if they speak of what this estimator finds."""
        model = Model(self._part("prior"), self._part("likelihood"))
        if model.structure != self.structure:
            raise ValueError(
                f"{type(self).__name__} finds {self.structure.name}, but "
                f"{type(model.prior).__name__} is a prior on {model.structure.name}."
            )
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = False
        with suppress(TypeError, ValueError, AttributeError):  # no such parts: fit will say so
            model = self._model()
            for_gaps = choose_engine(self.engine, model, missing=True)
            for_sparse = choose_engine(self.engine, model, sparse=True)
            tags.input_tags.allow_nan = takes_missing(for_gaps, model)
            tags.input_tags.sparse = takes_sparse(for_sparse, model) and not self.center
        return tags

    # fitting

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        time_budget: float | None = None,
    ) -> Self:
        """Fit to X (rows are observations). ``y`` is ignored.

        NaN, None, pandas' NA and masked entries are missing: only what was observed is fitted. A
        sparse matrix, array or data frame of SciPy or pandas is fitted as it is by engines with
        ``sparse = True``, and never made dense; entries that it leaves out are zeros. X is never
        changed. An array of float64 in C order that is not centered and larger than 100 MB is kept
        as it is, not copied: if you change it afterwards, fit to ``X.copy()``. So is a memory map
        of any size that is only read (``np.load(path, mmap_mode="r")``) by engines with
        ``blocks = True``.

        ``checkpoint`` names a file written every few seconds; ``resume=True`` goes on from it and
        ends with the same draws as a run never stopped, with its seed unless ``random_state`` is
        a number. Without ``resume``, a checkpoint that lies there is moved aside. ``time_budget``
        stops after so many seconds; Ctrl-C stops at once; both keep what was computed. A fit that
        fails leaves an earlier one as it was.
        """
        with self._undo_on_failure():
            if not isinstance(self.center, bool | np.bool_):
                raise TypeError(f"center must be True or False, not {self.center!r}.")
            progress = validation.checked_progress(self.progress)
            if time_budget is not None:
                time_budget = positive_number("fit", "time_budget", time_budget)
            names = row_names(X)
            model = self._model()
            engine = choose_engine(self.engine, model)
            copy = bool(self.center) or validation.to_copy(X, engine)
            X = validation.validated(self, X, reset=True, copy=copy)
            mean = observed_means(X) if self.center else np.zeros(X.shape[1])
            data = Data.of(np.subtract(X, mean, out=X) if self.center else X)
            data = self._with_more(data)
            gaps = data.observed is not None
            engine = choose_engine(self.engine, model, sparse=data.sparse, missing=gaps)
            check_engine(engine, model, data)
            model = model.resolve(data)
            seed = validation.seed_from(self.random_state, checkpoint if resume else None)
            fit = run(
                seed,
                model,
                engine,
                data,
                progress=progress,
                checkpoint=checkpoint,
                resume=resume,
                time_budget=time_budget,
            )
            warn_of_drift(fit)
            self._forget()
            self.mean_, self.row_names_ = mean, names
            self._show(fit)
            warn_of_no_probability(self.log_joint_)
            warn_of_copies(fit)
            return self

    def _with_more(self, data: Data) -> Data:
        """The data, and what is known of them besides X: how many rows are to come."""
        return replace(data, future=self._future)

    def _more_to_save(self) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
        """What a file must hold besides: arrays, and JSON-able values."""
        return {}, {}

    def _take_more(
        self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any], data: Data
    ) -> Data:
        """Take back what ``_more_to_save`` gave; returns the data with what is known of them."""
        return data

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

    def _forget(self) -> None:
        """Take away what an earlier fit found; the columns' names and number are new already."""
        for name in [name for name in self.__dict__ if name.endswith("_")]:
            if name not in ("n_features_in_", "feature_names_in_"):
                del self.__dict__[name]

    def _show(self, fit: Fit) -> Self:
        """What every fit says, as attributes; a subclass adds what its structure has to say."""
        self.fit_, self.seed_ = fit, fit.seed
        self.prior_, self.likelihood_ = fit.model.prior, fit.model.likelihood
        self.engine_ = fit.engine
        self.X_ = fit.data.X + self.mean_ if self.center else fit.data.X
        if not fit.data.sparse:
            self.X_ = self.X_.view()
            self.X_.flags.writeable = False  # it may be the array that was given
        for name, value in fit.mean_hyper().items():
            setattr(self, f"{name.replace('.', '_')}_", value)
        self.history_ = fit.history()
        self.burn_in_ = min(fit.burn_in, self.history_["n_components"].shape[1])
        self.starts_, self.stopped_ = list(fit.starts), fit.stopped
        self.seconds_, self.drift_ = fit.seconds, fit.drift
        self.weights_ = fit.weights()
        for name, value in fit.attributes().items():
            setattr(self, name, value)
        return self

    # what the fit says

    @cached_property
    def posterior_(self) -> InferenceData:
        """ArviZ inference data of the label-free scalars, chain × draw.

        Only draws of chains have one; weighted draws are refused.
        """
        check_is_fitted(self)
        return self.fit_.to_arviz()

    @cached_property
    def diagnostics_(self) -> dict[str, dict[str, float]]:
        """R-hat and bulk effective sample size of each label-free scalar (NaN where undefined)."""
        check_is_fitted(self)
        return self.fit_.diagnostics()

    # convergence, pictures and files: doors to what lies above, opened only when called

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

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> Path:
        """Write a self-contained HTML report and return its path; rows as images of this shape."""
        from thali.report import write_report

        return write_report(self, path, title=title, image_shape=image_shape)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one file that ``thali.load`` opens: arrays and JSON, no pickle."""
        check_is_fitted(self)
        saving.save(self, path)


def warn_of_drift(fit: Fit) -> None:
    """Say so where rounding errors grew."""
    if fit.drift > LARGEST_DRIFT:
        warnings.warn(
            f"Rounding errors grew to {fit.drift:.1e} of the maintained quantities before "
            "they were made afresh: the data are far from zero, or sigma_x is far below "
            "their scale. Center the data (center=True), or let the scales be inferred.",
            RuntimeWarning,
            stacklevel=3,
        )


def warn_of_no_probability(log_joint: float) -> None:
    """Say so where chains ended with a value that the prior excludes."""
    if not log_joint > -np.inf:
        warnings.warn(
            "The answer has probability zero under the prior: chains that began with what it "
            "excludes did not leave that. Use more sweeps, or init='empty', or a prior that "
            "excludes less.",
            RuntimeWarning,
            stacklevel=3,
        )


def warn_of_copies(fit: Fit) -> None:
    """Say so where Gaussian noise went to nothing in a table of 0 and 1: features then copy it."""
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, Scaled) or fit.data.sparse:
        return
    if not isinstance(likelihood.sigma_x, Hyperprior):
        return
    sigma_x = float(fit.model.likelihood_values(dict(fit.mean_hyper()))["sigma_x"])
    some = slice(0, LOOKED_AT)  # a table may be large, or only read
    X = np.asarray(fit.data.X[some], float)
    X = X[np.isfinite(X)]
    if not len(X):
        return
    if sigma_x < COPIED * X.std() and bool(((X == 0.0) | (X == 1.0)).all()):
        warnings.warn(
            f"The noise was found to be {sigma_x:.2g} in a table of 0 and 1: the features copy the "
            "table, and predict little beyond it. Use likelihood='noisy_or'.",
            RuntimeWarning,
            stacklevel=3,
        )
