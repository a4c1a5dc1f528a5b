"""Parameters of parts, for scikit-learn: ``prior__alpha`` reads and sets the prior's ``alpha``.

Prior, likelihood and engine are values that never change, or names of them; setting one of their
settings puts a new value where the old one was.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from thali.model import Model
from thali.registry import LIKELIHOODS, PRIORS
from thali.run.choices import choose_engine
from thali.settings import Settings, refuse_class

if TYPE_CHECKING:
    from thali.estimators.base import LatentModel

PARTS = ("prior", "likelihood", "engine")


def model_of(estimator: LatentModel) -> Model:
    """Prior and likelihood as they are given, or named."""
    return Model(PRIORS.make(estimator.prior), LIKELIHOODS.make(estimator.likelihood))


def part(estimator: LatentModel, name: str) -> object:
    """The prior, likelihood or engine that a parameter stands for."""
    if name != "engine":
        return (PRIORS if name == "prior" else LIKELIHOODS).make(getattr(estimator, name))
    model = None
    with suppress(ValueError, TypeError):  # no such parts: fit will say so
        model = model_of(estimator)
    return choose_engine(estimator.engine, model)


def of_parts(estimator: LatentModel) -> dict[str, object]:
    """The settings of all parts, as ``prior__alpha``."""
    found: dict[str, object] = {}
    for name in PARTS:
        with suppress(ValueError):  # an unknown name: fit will say so, get_params must not
            own = part(estimator, name)
            if isinstance(own, Settings):
                found |= {f"{name}__{key}": value for key, value in own.get_params().items()}
    return found


def set_on_parts(estimator: LatentModel, nested: dict[str, object]) -> None:
    """Put parts with some of their settings changed where the old ones were."""
    changes: dict[str, dict[str, object]] = {}
    for key, value in nested.items():
        owner, _, name = key.partition("__")
        if owner not in PARTS:
            raise ValueError(
                f"Invalid parameter {owner!r} for estimator {type(estimator).__name__}; nested "
                "parameters belong to prior, likelihood or engine."
            )
        changes.setdefault(owner, {})[name] = value
    for owner, settings in changes.items():
        own = part(estimator, owner)
        refuse_class(owner, own)
        setattr(estimator, owner, own.replace(**settings))  # type: ignore[attr-defined]
