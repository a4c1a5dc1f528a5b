"""How probable the data of a fit are under its model, so that models can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali.estimators import streaming, validation
from thali.results.evidence import Evidence
from thali.results.feature_draws import feature_draws
from thali.results.fit import Draws, Fit
from thali.run import evidence as annealing
from thali.settings import whole_number

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures


def evidence(
    model: LatentFeatures,
    n_runs: int,
    steps: int | None,
    reverse_runs: int,
    random_state: validation.Seed,
) -> Evidence:
    """An estimate of log P(X); see ``LatentFeatures.evidence``."""
    n_runs = whole_number("evidence", "n_runs", n_runs, 1)
    reverse_runs = whole_number("evidence", "reverse_runs", reverse_runs, 0)
    if steps is not None:
        steps = whole_number("evidence", "steps", steps, 1)
    fit = model.fit_
    if streaming.is_stream(fit):
        raise ValueError(
            "The evidence cannot be estimated: the model saw its data in pieces, and keeps the "
            "last one alone."
        )
    if fit.data.far:
        raise ValueError("The evidence cannot be estimated of X that is read by blocks of rows.")
    return annealing.evidence(
        model.seed_ if random_state is None else validation.seed_from(random_state),
        fit.model,
        fit.data,
        list(feature_draws(fit, reverse_runs)) if isinstance(fit, Draws) else [],
        n_runs=n_runs,
        steps=steps,
        progress=validation.checked_progress(model.progress),
    )


def refuse_attribute(fit: Fit) -> None:
    """Where there is no evidence there is no such attribute, as ``hasattr`` should find."""
    try:
        annealing.refuse(fit.model, fit.data)
    except ValueError as error:
        raise AttributeError(str(error)) from error
