"""Parameters of parts, for scikit-learn: ``prior__alpha`` reads and sets the prior's ``alpha``.

Prior, likelihood and engine are values that never change, or names of them; setting one of their
settings puts a new value in the place of the old.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from thali.model import Model
from thali.registry import LIKELIHOODS, PRIORS
from thali.run.choices import choose_engine
from thali.settings import Settings, refuse_class

PARTS = ("prior", "likelihood", "engine")


def model_of(estimator: Any) -> Model:
    """Prior and likelihood as they are given, or named."""
    return Model(part(estimator, "prior"), part(estimator, "likelihood"))


def part(estimator: Any, name: str) -> Any:
    """The prior, likelihood or engine that a parameter stands for."""
    value = getattr(estimator, name)
    if name != "engine":
        return (PRIORS if name == "prior" else LIKELIHOODS).make(value)
    model = None
    with suppress(ValueError, TypeError):  # no such parts: fit will say so
        model = model_of(estimator)
    return choose_engine(value, model)


def nested(estimator: Any, params: dict[str, Any], deep: bool) -> dict[str, Any]:
    """Parameters, and with ``deep`` those of the parts."""
    for name in PARTS if deep else ():
        try:
            found = part(estimator, name)
        except ValueError:  # an unknown name: fit will say so, get_params must not
            continue
        if isinstance(found, Settings):
            params |= {f"{name}__{k}": v for k, v in found.get_params().items()}
    return params


def parted(
    estimator: Any, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Plain parameters, and those of each part."""
    changes: dict[str, dict[str, Any]] = {}
    for key, value in params.items():
        owner, mark, name = key.partition("__")
        if mark and owner not in PARTS:
            raise ValueError(
                f"Invalid parameter {owner!r} for estimator {type(estimator).__name__}; nested "
                "parameters belong to prior, likelihood or engine."
            )
        if mark:
            changes.setdefault(owner, {})[name] = value
    return {k: v for k, v in params.items() if "__" not in k}, changes


def changed(estimator: Any, owner: str, settings: dict[str, Any]) -> Any:
    """A part with some of its settings changed."""
    found = part(estimator, owner)
    refuse_class(owner, found)
    return found.replace(**settings)
