"""Tables whose columns are of different kinds, as a model of them takes and gives them back.

The estimator has the table's own columns; the fit has a column for each latent
(``likelihoods/latent_columns.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from thali.data import Data, Table
from thali.data.column_values import numbers_of_text
from thali.data.sparse import is_sparse
from thali.engines.base import AnyEngine
from thali.engines.capabilities import check_sparse
from thali.likelihoods.base import Likelihood
from thali.likelihoods.latent_columns import Layout
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.results.findings import warn_of_interval
from thali.results.imputation import Strategy, tails
from thali.results.own_values import OwnValues, expected_codes, observed_codes
from thali.run.choices import engines
from thali.storage import Json

if TYPE_CHECKING:
    from thali.estimators.base import LatentModel

Filled: TypeAlias = np.ndarray | pd.DataFrame


def encoded(
    estimator: LatentModel, X: Table, model: Model, engine: AnyEngine
) -> tuple[Model, Data]:
    """The model of this table's columns, and its rows as data of it."""
    likelihood = model.likelihood
    assert isinstance(likelihood, TableLikelihood)
    if estimator.center:
        raise ValueError("center=True is for numbers alone; a table of columns has its own bias.")
    if estimator.scale:
        raise ValueError("scale=True is for numbers alone; a table has units of its own.")
    if is_sparse(X):
        check_sparse(engine, model, X, engines())
    columns = likelihood.columns_of(X)
    codes = columns.encode(X)
    validate_data(estimator, as_table(X), reset=True, skip_check_array=True)
    likelihood = likelihood.with_layout(columns, codes)
    estimator._index = X.index if isinstance(X, pd.DataFrame) else None
    return Model(model.prior, likelihood), Data.checked(likelihood.known.expand(codes))


def new_rows(estimator: LatentModel, X: Table) -> np.ndarray:
    """New rows of the table that was fitted, with a column for each latent."""
    if is_sparse(X):
        check_sparse(estimator.engine_, estimator.fit_.model, X, engines())
    validate_data(estimator, as_table(X), reset=False, skip_check_array=True)
    layout = layout_of(estimator)
    assert layout is not None
    if not any(isinstance(level, str) for column in layout.table for level in column.levels):
        X = numbers_of_text(X)
    return np.asarray(layout.expand(layout.table.encode(X, new=True)))


def as_table(X: Any) -> Any:
    """Something with a shape, for scikit-learn to read the number of columns from."""
    return X if hasattr(X, "shape") else np.asarray(X, dtype=object)


# what comes after the fit


def layout_of(estimator: LatentModel) -> Layout | None:
    """Where the columns of a fitted table have their latents; None of a table of numbers."""
    likelihood = estimator.fit_.model.likelihood
    return likelihood.known if isinstance(likelihood, TableLikelihood) else None


def labels_of(estimator: LatentModel) -> list[Hashable]:
    """What the columns of the fitted table are called: names of a data frame, or numbers."""
    layout = layout_of(estimator)
    if layout is not None:
        own = layout.table.labels
        return list(range(len(layout.columns)) if own is None else own)
    return list(getattr(estimator, "feature_names_in_", range(estimator.n_features_in_)))


def told(likelihood: Likelihood) -> Likelihood:
    """A likelihood as people are told of it: without its columns, which are told by themselves."""
    return (
        likelihood.replace(layout=None) if isinstance(likelihood, TableLikelihood) else likelihood
    )


def n_missing(estimator: LatentModel) -> int:
    """How many entries of the table are missing: one of a column with levels has many latents."""
    layout, data = layout_of(estimator), estimator.fit_.data
    if layout is None or data.observed is None:
        return int(data.missing)
    return int((~data.observed[:, layout.first[:-1]]).sum())


def as_given(estimator: LatentModel, values: Filled, index: pd.Index | None) -> Filled:
    """A table with the names of columns that the fitted one had, and those of rows."""
    labels = layout_of(estimator).table.labels  # type: ignore[union-attr]
    if labels is None:
        return values
    frame = values if isinstance(values, pd.DataFrame) else pd.DataFrame(values)
    frame.columns = pd.Index(list(labels))
    if index is not None and len(index) == len(frame):
        frame.index = index
    return frame


def imputed(
    estimator: LatentModel,
    return_std: bool,
    interval: float | None,
    strategy: Strategy,
    new: Data | None,
    index: pd.Index | None,
) -> Filled | tuple[Filled, ...]:
    """The table with its missing entries filled in, in its own types, or ``new`` rows of it; see
    ``impute``."""
    layout = layout_of(estimator)
    assert layout is not None
    missing = OwnValues.missing(estimator.fit_, new)
    seen = observed_codes(layout, (estimator.fit_.data if new is None else new).X)
    columns = range(len(layout.columns))

    def filled(told: Any) -> Filled:
        codes = seen.copy()
        for d in columns:
            codes[missing.rows_of(d), d] = told(d)
        return as_given(estimator, layout.table.decode(codes), index)

    def best(d: int) -> np.ndarray:
        return missing.codes(d, strategy)

    if return_std or interval is not None:
        warn_of_interval(estimator.fit_)
    if return_std:
        std = np.zeros(seen.shape)
        for d in columns:
            std[missing.rows_of(d), d] = missing.std(d, strategy)
        return filled(best), as_given(estimator, std, index)
    if interval is None:
        return filled(best)
    ends = tails(interval)
    return filled(best), *(filled(lambda d, p=p: missing.quantile(d, p)) for p in ends)


def expected(estimator: LatentModel, Z: np.ndarray, A: np.ndarray) -> Filled:
    """The table that is expected of rows with these features, in its own types."""
    fit = estimator.fit_
    likelihood = fit.model.likelihood_at(fit.mean_hyper())
    assert isinstance(likelihood, TableLikelihood)
    return likelihood.known.table.decode(expected_codes(likelihood, Z, A))


# names of rows in files


def index_to_json(index: pd.Index | None) -> Json:
    """The rows' names, where they are whole numbers; text is written as ``row_names``."""
    if index is None or isinstance(index, pd.MultiIndex) or index.dtype.kind not in "iu":
        return None
    return {"values": index.tolist(), "name": None if index.name is None else str(index.name)}


def index_from_json(written: Mapping[str, Any] | None, rows: list[str] | None) -> pd.Index | None:
    """What ``index_to_json`` wrote, or the names as text."""
    if written is None:
        return None if rows is None else pd.Index(rows)
    return pd.Index([int(value) for value in written["values"]], name=written["name"])
