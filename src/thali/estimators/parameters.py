"""Parameters of parts, for scikit-learn: ``prior__alpha`` reads and sets the prior's ``alpha``.

Prior, likelihood and engine are values that never change, or names of them; setting one of their
settings puts a new value in the place of the old.
"""

from __future__ import annotations

from typing import Any, Self

from thali.engines.base import takes_missing
from thali.model import Model
from thali.registry import LIKELIHOODS, PRIORS
from thali.run.choices import choose_engine
from thali.settings import Settings, refuse_class


class NestedParts:
    """For an estimator with parameters ``prior``, ``likelihood`` and ``engine``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep`` also lists those of prior, likelihood and engine."""
        params: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        if deep:
            for name in ("prior", "likelihood", "engine"):
                try:
                    part = self._part(name)
                except ValueError:  # an unknown name: fit will say so, get_params must not
                    continue
                if isinstance(part, Settings):
                    params |= {f"{name}__{k}": v for k, v in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``prior__alpha=2.0`` replaces the prior by one with that alpha."""
        plain = {key: value for key, value in params.items() if "__" not in key}
        super().set_params(**plain)  # type: ignore[misc]
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            if "__" in key:
                owner, _, name = key.partition("__")
                nested.setdefault(owner, {})[name] = value
        for owner, changes in nested.items():
            if owner not in ("prior", "likelihood", "engine"):
                raise ValueError(
                    f"Invalid parameter {owner!r} for estimator {type(self).__name__}; nested "
                    "parameters belong to prior, likelihood or engine."
                )
            part = self._part(owner)
            refuse_class(owner, part)
            setattr(self, owner, part.replace(**changes))
        return self

    def _part(self, name: str) -> Any:
        """The prior, likelihood or engine that a parameter stands for."""
        value = getattr(self, name)
        if name == "engine":
            try:
                model = Model(self._part("prior"), self._part("likelihood"))
            except (ValueError, TypeError):  # no such parts: fit will say so
                model = None
            return choose_engine(value, model)
        return (PRIORS if name == "prior" else LIKELIHOODS).make(value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        try:
            parts = Model(self._part("prior"), self._part("likelihood"))
            tags.input_tags.allow_nan = takes_missing(self._part("engine"), parts)
        except (ValueError, TypeError, AttributeError):  # no such parts: fit will say so
            tags.input_tags.allow_nan = False
        return tags
