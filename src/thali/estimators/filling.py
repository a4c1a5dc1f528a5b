"""What a fit puts where entries of its data are missing, in the units that the data came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import pandas as pd

from thali.data import Data, Table
from thali.data.matrix import named
from thali.estimators import streaming, tables, validation
from thali.estimators.tables import Filled
from thali.results import imputation, level_chances
from thali.results.findings import warn_of_interval
from thali.results.imputation import Strategy
from thali.results.level_chances import LevelChances
from thali.settings import shown

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures


def imputed(
    model: LatentFeatures,
    X: Table | None,
    return_std: bool,
    interval: float | None,
    strategy: Any,
) -> Filled | tuple[Filled, ...]:
    """The training data with its missing entries filled in, or new rows; see
    ``LatentFeatures.impute``."""
    if not isinstance(strategy, str) or strategy not in get_args(Strategy):
        raise ValueError(f"impute: strategy must be 'mean' or 'median', not {shown(strategy)}.")
    if return_std and interval is not None:
        raise ValueError("impute: ask for return_std=True or for an interval, not for both.")
    if interval is not None:
        imputation.tails(interval)  # refuses what is no share before anything is worked out
    strategy, new = cast(Strategy, strategy), new_data(model, X, "impute")
    if tables.layout_of(model) is not None:
        index = model._index if X is None else index_of(X)
        return tables.imputed(model, return_std, interval, strategy, new, index)
    entries = imputation.missing_entries_of(model.fit_, new)
    missing = (model.fit_.data if new is None else new).where_missing
    center, scale = model.mean_[missing[1]], model._scale[missing[1]]
    whole = model.X_ if X is None else validation.validated(model, X, reset=False)

    def filled(values: np.ndarray) -> Filled:
        table = whole.copy()
        table[missing] = values * scale + center
        return as_given(model, table, X)

    best = filled(entries.value(strategy))
    if return_std:
        std = np.zeros(whole.shape)
        std[missing] = entries.std() * scale
        warn_of_interval(model.fit_)
        return best, as_given(model, std, X)
    if interval is not None:
        ends = entries.interval(interval)
        warn_of_interval(model.fit_)
        return best, *(filled(values) for values in ends)
    return best


def chances(model: LatentFeatures, X: Table | None) -> LevelChances:
    """How probable each level of each missing entry is; see ``LatentFeatures.impute_proba``."""
    labels, new = tables.labels_of(model), new_data(model, X, "impute_proba")
    index = None if X is None else index_of(X)
    if tables.layout_of(model) is not None:
        return level_chances.of_table(model.fit_, labels, model._index if X is None else index, new)
    units_of = model.mean_, model._scale
    names = model.row_names_ if X is None else index
    return level_chances.of_bits(model.fit_, model.X_, *units_of, labels, names, new)


def new_data(model: LatentFeatures, X: Table | None, what: str) -> Data | None:
    """New rows as the fit takes them, None where none were given."""
    if model.fit_.data.sparse:
        raise ValueError(
            f"{what}: the model was fitted to a sparse matrix, which has no missing entries: "
            "what it leaves out are zeros."
        )
    if X is None:
        return None
    if streaming.by_bound(model.fit_):
        raise ValueError(
            f"{what}: after partial_fit there are no draws to fill new rows by; fit to all data at "
            "once."
        )
    new = Data.checked(validation.centered(model, X))
    if new.sparse:
        raise ValueError(f"{what}: a sparse matrix has no missing entries; give a dense one.")
    model.fit_.model.likelihood.check_data(new)
    return new


def index_of(X: Table) -> pd.Index | None:
    """The names of rows of a data frame."""
    return X.index if isinstance(X, pd.DataFrame) else None


def as_given(model: LatentFeatures, values: np.ndarray, X: Table | None) -> Filled:
    """A matrix like the training data, with its names if it had any, or like new rows X."""
    if X is None:
        return named(values, model.row_names_, getattr(model, "feature_names_in_", None))
    return named(values, X.index, X.columns) if isinstance(X, pd.DataFrame) else values
