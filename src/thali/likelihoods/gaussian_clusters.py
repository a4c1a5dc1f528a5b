"""What clusters of Gaussian rows have in common: where they are, and how large.

A cluster's mean lies around the mean of all rows; ``spread`` is the standard deviation of each
column, in units of which ``scale`` says how wide a cluster is, so that nothing depends on the units
of a column. Both are taken from the data unless they are given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from thali.data import Data
from thali.data.missing import observed_means
from thali.hyperparameters import (
    Above,
    Gamma,
    Hyperprior,
    InverseGamma,
    Value,
    Values,
    as_number,
    check_hyperparameter,
)
from thali.likelihoods.clusters import ConjugateClusters, sums_by_label
from thali.settings import Settings, hyperparameters_of

if TYPE_CHECKING:
    from thali.kernels.cluster_scales import Law, Nearness, Widths

AUTO = "auto"
LARGEST = 1e9  # of kappa and of scale, in units of the data's spread: more can only be a mistake
# Of variances, so that a width of zero, to which rows that are equal pull, has no density at all.
SCALE = InverseGamma(1.0, 0.03)
# Wide: where there is one cluster its mean is that of the data, and only a large kappa says so;
# otherwise every row is a cluster of its own, whose means explain all there is.
KAPPA = Gamma(0.25, 0.025)
FIRST_KAPPA = 0.1  # where an inferred one begins
Column = str | float | Sequence[float]  # a number for each column, the same for all, or "auto"


class Checked(tuple[float, ...]):
    """Numbers of columns that were looked at already: every sweep makes parts anew."""


@lru_cache(maxsize=64)
def as_column(given: tuple[float, ...], d: int) -> np.ndarray:
    """A number for each of d columns; not to be written to."""
    found = np.broadcast_to(np.array(given, float), (d,)).copy()
    found.flags.writeable = False
    return found


def law_of(hyperprior: Hyperprior) -> tuple[float, float, float] | None:
    """What compiled code needs to know of it; of one above a bound, what it says above that."""
    return (hyperprior.excess if isinstance(hyperprior, Above) else hyperprior).powers()


def part_of(data: Data, columns: np.ndarray) -> Data:
    """Some of the columns."""
    seen = None if data.observed is None else np.ascontiguousarray(data.observed[:, columns])
    return Data(np.ascontiguousarray(data.X[:, columns]), seen, data.future)


class Sums(NamedTuple):
    """Of each cluster: rows (by column, where some may be missing), mean, and scatter around it,
    as a sum of squares by column or as a matrix."""

    sizes: np.ndarray
    means: np.ndarray  # (K, D), from ``center`` on
    scatter: np.ndarray  # (K, D) or (K, D, D)


class GaussianClusters(Settings, ConjugateClusters):
    """Clusters with a mean and a width of their own."""

    kappa: float | Hyperprior
    scale: float | Hyperprior
    mean: Column
    spread: Column

    def _check(self) -> None:
        """Refuse what is neither a number nor a hyperprior, and columns that are no numbers."""
        owner = type(self).__name__
        for name in ("kappa", "scale"):
            check_hyperparameter(owner, name, getattr(self, name), most=LARGEST)
        for name in ("mean", "spread"):
            given = getattr(self, name)
            if (isinstance(given, str) and given == AUTO) or type(given) is Checked:
                continue
            try:
                numbers = np.atleast_1d(np.asarray(given, float))
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"{owner}: {name} must be 'auto' or a number for each column, not {given!r}."
                ) from error
            wrong = numbers.ndim != 1 or not np.isfinite(numbers).all()
            if wrong or (name == "spread" and ((numbers < 0.0).any() or not numbers.any())):
                kind = "positive, or 0 for one without a say" if name == "spread" else "finite"
                raise ValueError(
                    f"{owner}: {name} must be 'auto' or a number for each column, {kind}."
                )
            object.__setattr__(self, name, Checked(numbers.tolist()))

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def resolve(self, data: Data) -> Self:
        """The same with means and spreads of the columns.

        A constant column has spread 0, and no say: rows that are equal in it, as all are, would
        pull the width of clusters to zero. Where all columns are constant they have spread 1.
        """
        found: dict[str, Any] = {}
        means = observed_means(data.X)
        if self.mean == AUTO:
            found["mean"] = tuple(means.tolist())
        if self.spread == AUTO:
            away = np.where(data.seen, data.zeroed - means, 0.0)
            seen = data.seen.sum(axis=0)
            std = np.sqrt(np.square(away).sum(axis=0) / np.maximum(seen, 1))
            tiny = std <= 1e-12 * np.maximum(np.abs(means), 1e-300)
            found["spread"] = Checked(np.where(tiny, float(tiny.all()), std).tolist())
        resolved = self.replace(**found) if found else self
        for name in ("mean", "spread"):
            given = getattr(resolved, name)
            if len(given) not in (1, data.d):
                raise ValueError(
                    f"{type(self).__name__}: {name} has {len(given)} numbers, but X has "
                    f"{data.d} columns."
                )
        return resolved

    def start(self, data: Data) -> dict[str, Value]:
        """As others have it, but for kappa: the center of a wide hyperprior is far from most."""
        first = {"kappa": FIRST_KAPPA} if isinstance(self.kappa, Hyperprior) else {}
        return super().start(data) | first

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
        return as_column(given, d)

    def varying(self, data: Data) -> tuple[Self, Data]:
        """This likelihood and the data without the columns that have no say."""
        columns = self.widths(data.d) > 0.0
        if columns.all():
            return self, data
        own = {name: Checked(self._column(name, data.d)[columns]) for name in ("mean", "spread")}
        return self.replace(**own), part_of(data, columns)

    def number(self, name: str) -> float:
        """A hyperparameter that is fixed."""
        return as_number(type(self).__name__, name, getattr(self, name))

    # hyperparameters

    @abstractmethod
    def sums_of(self, data: Data, labels: np.ndarray) -> Sums:
        """What of each cluster the hyperparameters depend on."""

    @abstractmethod
    def width_terms(self, sums: Sums, kappa: float) -> Widths:
        """The terms of log p(X | partition) as a function of ``scale``."""

    @abstractmethod
    def nearness_terms(self, sums: Sums, scale: float) -> Nearness:
        """The terms of log p(X | partition) as a function of ``kappa``."""

    def resample(
        self, rng: np.random.Generator, hyper: Values, data: Data, labels: np.ndarray
    ) -> None:
        """By slice steps in compiled code, where the hyperpriors have a form that it knows."""
        own, data = self.varying(data)
        own._resample(rng, hyper, data, labels)

    def _resample(
        self, rng: np.random.Generator, hyper: Values, data: Data, labels: np.ndarray
    ) -> None:
        from thali.kernels.cluster_scales import Law, draw_nearness, draw_width

        given = {name: getattr(self, name) for name in hyperparameters_of(self)}
        laws = {k: law_of(v) for k, v in given.items() if isinstance(v, Hyperprior)}
        if None in laws.values():
            super().resample(rng, hyper, data, labels)
        elif laws:
            sums = self.sums_of(data, labels)
            at = self.at(**{name: hyper[name] for name in given})
            if (law := laws.get("scale")) is not None:
                terms = at.width_terms(sums, hyper["kappa"])
                hyper["scale"] = float(draw_width(rng, hyper["scale"], terms, Law(*law)))
            if (law := laws.get("kappa")) is not None:
                near = at.nearness_terms(sums, hyper["scale"])
                hyper["kappa"] = float(draw_nearness(rng, hyper["kappa"], near, Law(*law)))
            if (law := laws.get("degrees")) is not None:
                self.resample_degrees(rng, hyper, sums, Law(*law))

    def resample_degrees(
        self, rng: np.random.Generator, hyper: Values, sums: Sums, law: Law
    ) -> None:
        """A step of how alike clusters are, where that is inferred."""

    def profiles(self, data: Data, labels: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
        """The expected mean of each cluster."""
        center, kappa = self.center(data.d), self.number("kappa")
        away = np.where(data.seen, data.zeroed - center, 0.0)
        seen = sums_by_label(data.seen.astype(float), labels)
        means = center + sums_by_label(away, labels) / (kappa + seen)
        return pd.DataFrame(means, columns=list(names))
