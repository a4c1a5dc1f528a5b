"""What pictures of sums of features read from a fitted model: over draws, and by its prior."""

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_features import LatentFeatures
from thali.priors.base import PredictsRow
from thali.priors.column_potentials import ColumnPotentials
from thali.priors.feature_sums import ExpectedSums, expected_sums, log_weights

MOST_DRAWS = 200  # looked at, evenly spaced
IMPOSSIBLE = -1e5  # a row potential below it stands for a number of features that no row has


def check_features(model: LatentFeatures, picture: str) -> None:
    """Refuse what is not fitted, and what did not find features."""
    check_is_fitted(model)
    if not isinstance(model, LatentFeatures):
        raise TypeError(
            f"{picture} is a picture of features: give a fitted LatentFeatures, not a "
            f"{type(model).__name__}."
        )


class DrawnSums(NamedTuple):
    """Posterior means: features that i = 1 … n rows have, rows that have j = 0, 1, … features."""

    columns: np.ndarray
    rows: np.ndarray


def drawn_sums(model: LatentFeatures) -> DrawnSums:
    """Over at most 200 draws of equal weight."""
    fit = model.fit_
    drawn = [draw.latent for draw in fit.pick(fit.representatives(MOST_DRAWS))]
    n = len(drawn[0])
    columns, rows = np.zeros(n + 1), np.zeros(1 + max(Z.shape[1] for Z in drawn))
    for Z in drawn:
        columns += np.bincount(Z.sum(axis=0), minlength=n + 1)
        rows += np.bincount(Z.sum(axis=1), minlength=len(rows))
    return DrawnSums(columns[1:] / len(drawn), np.trim_zeros(rows, "b") / len(drawn))


def prior_sums(model: LatentFeatures) -> ExpectedSums | None:
    """By the prior at the posterior means of its hyperparameters; None where nobody knows."""
    prior = model.fit_.model.prior_at(model.fit_.mean_hyper())
    return expected_sums(prior, model.fit_.data.n) if isinstance(prior, PredictsRow) else None


class FeaturePotentials(NamedTuple):
    """λ_i + log C(N, i) + log i of a prior, and log α: the same of the IBP with its E[K].

    Both have one normalizer, e^{E[K]}, so that but for row potentials log P/P_IBP of a matrix is
    the sum of differences over its features.
    """

    own: np.ndarray
    mass: float  # α of the Indian buffet process
    rows: np.ndarray | None  # θ_0, θ_1, …


def potentials(model: LatentFeatures) -> FeaturePotentials | None:
    """The potentials of a prior that is a table of them; None where they do not tell all."""
    prior, n = model.fit_.model.prior_at(model.fit_.mean_hyper()), model.fit_.data.n
    tables = prior.tables(n) if isinstance(prior, PredictsRow) else None
    if tables is None or tables.capacity != -1:
        return None
    logs, i = log_weights(tables), np.arange(1, n + 1)
    mass = float(np.exp(np.logaddexp.reduce(logs)) / (1.0 / i).sum())
    if not np.isfinite(mass):
        return None
    return FeaturePotentials(logs + np.log(i), mass, tables.row_potentials)


def is_flexible(model: LatentFeatures) -> bool:
    """Whether its prior was chosen for its potentials."""
    found = potentials(model)
    flexible = isinstance(model.prior_, ColumnPotentials)
    return found is not None and (flexible or found.rows is not None)
