"""What clusters of Gaussian rows have in common: where they are, and how large.

A cluster's mean lies around the mean of all rows; ``spread`` is the standard deviation of each
column, in units of which ``scale`` says how wide a cluster is, so that nothing depends on the units
of a column. Both are taken from the data unless they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from thali.data import Data
from thali.data.missing import observed_means
from thali.hyperparameters import Hyperprior, Value, as_number, check_hyperparameter
from thali.likelihoods.clusters import ConjugateClusters, sums_by_label
from thali.settings import Settings, hyperparameters_of

AUTO = "auto"
Column = str | float | Sequence[float]  # a number for each column, the same for all, or "auto"


class GaussianClusters(Settings, ConjugateClusters):
    """Clusters with a mean and a width of their own."""

    kappa: float | Hyperprior
    scale: float | Hyperprior
    mean: Column
    spread: Column

    def _check(self) -> None:
        """Refuse what is neither a number nor a hyperprior, and columns that are no numbers."""
        owner = type(self).__name__
        for name in hyperparameters_of(self):
            check_hyperparameter(owner, name, getattr(self, name))
        for name in ("mean", "spread"):
            given = getattr(self, name)
            if isinstance(given, str) and given == AUTO:
                continue
            try:
                numbers = np.atleast_1d(np.asarray(given, float))
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"{owner}: {name} must be 'auto' or a number for each column, not {given!r}."
                ) from error
            wrong = numbers.ndim != 1 or not np.isfinite(numbers).all()
            if wrong or (name == "spread" and (numbers <= 0.0).any()):
                kind = "positive and finite" if name == "spread" else "finite"
                raise ValueError(
                    f"{owner}: {name} must be 'auto' or a number for each column, {kind}."
                )
            object.__setattr__(self, name, tuple(numbers.tolist()))

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def resolve(self, data: Data) -> Self:
        """The same with means and spreads of the columns; a constant column has spread 1."""
        found: dict[str, Any] = {}
        means = observed_means(data.X)
        if self.mean == AUTO:
            found["mean"] = tuple(means.tolist())
        if self.spread == AUTO:
            away = np.where(data.seen, data.zeroed - means, 0.0)
            seen = data.seen.sum(axis=0)
            std = np.sqrt(np.square(away).sum(axis=0) / np.maximum(seen, 1))
            tiny = std <= 1e-12 * np.maximum(np.abs(means), 1e-300)
            found["spread"] = tuple(np.where(tiny, 1.0, std).tolist())
        resolved = self.replace(**found) if found else self
        for name in ("mean", "spread"):
            given = getattr(resolved, name)
            if len(given) not in (1, data.d):
                raise ValueError(
                    f"{type(self).__name__}: {name} has {len(given)} numbers, but X has "
                    f"{data.d} columns."
                )
        return resolved

    def center(self, d: int) -> np.ndarray:
        """The mean around which clusters lie, (d,)."""
        return self._column("mean", d)

    def widths(self, d: int) -> np.ndarray:
        """The expected standard deviations within a cluster in units of ``scale``, (d,)."""
        return self._column("spread", d)

    def _column(self, name: str, d: int) -> np.ndarray:
        given = getattr(self, name)
        if isinstance(given, str):
            raise ValueError(
                f"{type(self).__name__}: {name} is {AUTO!r}; call .resolve(data) first."
            )
        return np.broadcast_to(np.array(given, float), (d,)).copy()

    def number(self, name: str) -> float:
        """A hyperparameter that is fixed."""
        return as_number(type(self).__name__, name, getattr(self, name))

    def profiles(self, data: Data, labels: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
        """The expected mean of each cluster."""
        center, kappa = self.center(data.d), self.number("kappa")
        away = np.where(data.seen, data.zeroed - center, 0.0)
        seen = sums_by_label(data.seen.astype(float), labels)
        means = center + sums_by_label(away, labels) / (kappa + seen)
        return pd.DataFrame(means, columns=list(names))
