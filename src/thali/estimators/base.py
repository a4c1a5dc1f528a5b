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
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from thali.data.checks import is_on_device
from thali.data.elsewhere import FarData, Source, opened
from thali.data.matrix import Data, Table, row_names
from thali.data.sparse import is_sparse
from thali.engines.base import AnyEngine
from thali.engines.capabilities import takes_missing, takes_sparse
from thali.estimators import saving, tables, units, validation
from thali.likelihoods.base import Likelihood
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.priors.base import Prior
from thali.registry import LIKELIHOODS, PRIORS, Registry
from thali.results import discrete
from thali.results.findings import Finding, of_run, warn_of
from thali.results.fit import Fit
from thali.run.choices import AUTO, auto_engine, check_engine, choose_engine, is_auto
from thali.run.loop import run
from thali.run.trials import left_of
from thali.settings import Settings, positive_number, refuse_class
from thali.storage import Json
from thali.structures.base import Structure

if TYPE_CHECKING:
    from arviz import InferenceData
    from sklearn.utils import Tags

    from thali.report import Verdict

LARGEST_DRIFT = 1e-6  # relative; a fit that saw more says so


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
    scale: bool = False
    random_state: validation.Seed
    progress: bool | str

    fit_: Fit
    mean_: np.ndarray
    seed_: int
    row_names_: list[str] | None
    n_features_in_: int
    _scale: np.ndarray  # of each column: one, where nothing is scaled
    _index: Any = None  # of a data frame with columns of different kinds
    _choice: str = ""
    _told: tuple[str, ...] = ()  # what was chosen for it before, in sentences
    _named = True  # whether a likelihood that it has was named by a person
    _hint: str = ""

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

    def _model_of(
        self, X: Table, time_budget: float | None, resumed: str | os.PathLike[str] | None = None
    ) -> tuple[Model, list[str], float]:
        """The model of these data, in sentences what of it they chose, and the seconds of trials
        that this took; of a run that is ``resumed`` from a checkpoint, its model."""
        return self._model(), [], 0.0

    def _as_read(self, X: Table) -> Table:
        """X as it is to be looked at by what chooses the model."""
        return X

    @property
    def choice_(self) -> str:
        """What "auto" chose, likelihood and engine, and why: a sentence of each.

        >>> import thali
        >>> X = thali.datasets.images(n=60, random_state=0).X
        >>> print(thali.LatentFeatures(random_state=0).fit(X, time_budget=5).choice_)
        LinearGaussian, since ...
        """
        check_is_fitted(self)
        return self._choice

    @property
    def hint_(self) -> str:
        """What suits the columns better, in a sentence, where they hold 0 and 1 or whole numbers
        and Gaussian noise was asked for by name; else "". ``fit`` warns of it
        (``thali.DiscreteData``)."""
        check_is_fitted(self)
        return self._hint

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
        changed. An array of float64 in C order that is neither centered nor scaled, and larger than
        100 MB, is kept as it is, not copied: if you change it afterwards, fit to ``X.copy()``.

        X may also lie elsewhere: a memory map that is only read (``np.load(path, mmap_mode="r")``),
        the path of a .npy, .zarr or .parquet file, a collection of Dask's, or ``thali.RowBlocks``.
        Engines with ``blocks = True`` read it by blocks of rows; others load it, if it fits.

        ``checkpoint`` names a file written every few seconds; ``resume=True`` goes on from it and
        ends with the same draws as a run never stopped, with its seed unless ``random_state`` is
        a number. Without ``resume``, a checkpoint that lies there is moved aside. ``time_budget``
        stops after so many seconds; Ctrl-C stops at once; both keep what was computed. A fit that
        fails leaves an earlier one as it was.
        """
        with self._undo_on_failure():
            progress = validation.checked_progress(self.progress)
            if time_budget is not None:
                time_budget = positive_number("fit", "time_budget", time_budget)
            given, X = X, validation.off_device(X)
            names, X = row_names(X), opened(X)
            X = X if isinstance(X, Source) else self._as_read(X)
            model, said, spent = self._model_of(X, time_budget, checkpoint if resume else None)
            units.check(self, model.likelihood)
            engine = self._engine_of(X, model, time_budget)
            if isinstance(X, Source):
                X = validation.by_blocks(validation.validated_far(self, X), engine, model)
            copy = units.changed(self) or validation.to_copy(X, engine)
            if isinstance(model.likelihood, TableLikelihood):
                model, data = tables.encoded(self, X, model, engine)
                X = data.X
            elif not isinstance(X, Source):
                X = validation.validated(self, X, reset=True, copy=copy)
            named = self._named and not is_auto(self.likelihood)
            hint = discrete.hint(model.likelihood, Data(X)) if named else ""
            mean, scale = units.found(self, X)
            X = units.put_into(X, mean, scale)
            data = data_of(X)
            if is_on_device(given):  # in the units of the fit there, too
                data = data.beside(units.on_device(given, mean, scale))
            data = self._with_more(data)
            gaps = data.observed is not None
            engine = choose_engine(self.engine, model)
            if is_auto(self.engine):
                choice = auto_engine(model, data.sparse, gaps, (data.n, data.d), time_budget)
                engine, said = choice.engine, [*said, choice.sentence()]
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
                time_budget=left_of(time_budget, spent),
            )
            warn_of_drift(fit)
            self._forget()
            self.mean_, self._scale, self.row_names_ = mean, scale, names
            self._choice, self._hint = " ".join([*self._told, *said]), hint
            self._show(fit)
            warn_of_no_probability(self.log_joint_)
            warn_of(self.findings_, stacklevel=2)
            discrete.warn_of_hint(self._hint, stacklevel=2)
            return self

    def _engine_of(self, X: Table | Source, model: Model, time_budget: float | None) -> AnyEngine:
        """The engine, before it is known whether entries are missing."""
        if not (is_auto(self.engine) and isinstance(X, Source)):
            return choose_engine(self.engine, model)
        missing, shape = X.survey.missing > 0, X.shape
        return choose_engine(AUTO, model, missing=missing, shape=shape, time_budget=time_budget)

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
        self.X_ = units.undone(fit.data.X, self.mean_, self._scale)
        if isinstance(self.X_, np.ndarray):
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

    @cached_property
    def findings_(self) -> tuple[Finding, ...]:
        """What makes the fit degenerate, or too short to rely on; empty where nothing does.

        Examples
        --------
        >>> import numpy as np, thali
        >>> X = thali.datasets.images(n=30, random_state=0).X
        >>> engine = thali.CollapsedGibbs(sweeps=10, chains=2)
        >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
        >>> [finding.kind.__name__ for finding in model.findings_]
        ['TooFewDraws']
        """
        check_is_fitted(self)
        return tuple(self._findings())

    def _findings(self) -> Iterator[Finding]:
        """What is to be said of the run; a subclass adds what may ail its answer."""
        return of_run(self.fit_)

    # convergence, pictures and files: doors to what lies above, opened only when called

    def convergence(self) -> Verdict:
        """Whether the chains came to agree, in plain words: ``level``, ``headline`` and ``advice``.

        ``findings`` are those of ``findings_``, and told by ``advice`` too: where there are any,
        the level is never "good".

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


def data_of(X: np.ndarray | csr_array | Source) -> Data:
    """Of X that has been checked, and is not copied once more."""
    if isinstance(X, Source):
        return FarData.of_source(X)
    return Data.checked(X) if is_sparse(X) else Data.of(X)


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
