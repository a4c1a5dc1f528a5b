"""Rows that a model was not fitted to: their features, the data expected of features, densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from thali.data import Data, Table
from thali.estimators import streaming, units, validation
from thali.likelihoods.base import Conditional
from thali.results import prediction
from thali.structures.features import as_amounts, as_binary_matrix

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures


def probabilities(model: LatentFeatures, X: Table) -> np.ndarray:
    """P(row has feature k), (n, K)."""
    X, fit = validation.centered(model, X), model.fit_
    if streaming.by_bound(fit):
        return streaming.probabilities(fit, X)
    return prediction.probabilities(
        fit, model.Z_, fit.mean_hyper(), model._parameters, Data.checked(X)
    )


def mean_log_density(model: LatentFeatures, X: Table) -> float:
    """The mean over rows of log P(row), of X in its own units; see ``LatentFeatures.score``."""
    new = Data.checked(validation.centered(model, X))
    change = float(units.log_scales(model._scale, new).mean())
    if streaming.by_bound(model.fit_):
        return streaming.mean_bound(model.fit_, new.X) - change
    return float(prediction.mean_log_densities(model.fit_, new).mean()) - change


def checked(model: LatentFeatures, Z: ArrayLike) -> np.ndarray:
    """Assignments or amounts of the model's features."""
    Z = as_amounts(Z) if hasattr(model, "amounts_") else as_binary_matrix(Z)
    if Z.shape[1] != model.n_components_:
        raise ValueError(
            f"Z has {Z.shape[1]} columns but the model {model.n_components_} features."
        )
    return Z


def expected(model: LatentFeatures, Z: np.ndarray) -> np.ndarray:
    """E[X | Z] with the columns of ``X_``: one for each latent, where there are these."""
    likelihood = model.fit_.model.likelihood_at(model.fit_.mean_hyper())
    found = cast(Conditional, likelihood).mean(Z, model.components_)
    return np.asarray(found + model.mean_)
