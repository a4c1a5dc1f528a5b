"""What a fit puts where entries of its data are missing, in the units that the data came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from thali.data.matrix import named
from thali.estimators import tables
from thali.estimators.tables import Filled
from thali.results import imputation, level_chances
from thali.results.findings import warn_of_interval
from thali.results.imputation import Strategy
from thali.results.level_chances import LevelChances
from thali.settings import shown

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures


def imputed(
    model: LatentFeatures, return_std: bool, interval: float | None, strategy: Any
) -> Filled | tuple[Filled, ...]:
    """The training data with its missing entries filled in; see ``LatentFeatures.impute``."""
    if not isinstance(strategy, str) or strategy not in get_args(Strategy):
        raise ValueError(f"impute: strategy must be 'mean' or 'median', not {shown(strategy)}.")
    if return_std and interval is not None:
        raise ValueError("impute: ask for return_std=True or for an interval, not for both.")
    if model.fit_.data.sparse:
        raise ValueError(
            "impute: the model was fitted to a sparse matrix, which has no missing entries: "
            "what it leaves out are zeros."
        )
    strategy = cast(Strategy, strategy)
    if tables.layout_of(model) is not None:
        return tables.imputed(model, return_std, interval, strategy)
    entries = imputation.missing_entries_of(model.fit_)
    missing = model.fit_.data.where_missing
    center, scale = model.mean_[missing[1]], model._scale[missing[1]]

    def filled(values: np.ndarray) -> Filled:
        table = model.X_.copy()
        table[missing] = values * scale + center
        return as_given(model, table)

    best = filled(entries.value(strategy))
    if return_std:
        std = np.zeros(model.X_.shape)
        std[missing] = entries.std() * scale
        warn_of_interval(model.fit_)
        return best, as_given(model, std)
    if interval is not None:
        ends = entries.interval(interval)
        warn_of_interval(model.fit_)
        return best, *(filled(values) for values in ends)
    return best


def chances(model: LatentFeatures) -> LevelChances:
    """How probable each level of each missing entry is; see ``LatentFeatures.impute_proba``."""
    labels = tables.labels_of(model)
    if tables.layout_of(model) is not None:
        return level_chances.of_table(model.fit_, labels, model._index)
    if model.fit_.data.sparse:
        raise ValueError("impute_proba: a sparse matrix has no missing entries.")
    units_of = model.mean_, model._scale
    return level_chances.of_bits(model.fit_, model.X_, *units_of, labels, model.row_names_)


def as_given(model: LatentFeatures, values: np.ndarray) -> Filled:
    """A matrix like the training data, with its names if it had any."""
    return named(values, model.row_names_, getattr(model, "feature_names_in_", None))
