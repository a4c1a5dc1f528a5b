r"""The law of each missing entry given what was observed: a mixture of normals over the draws.

Given a draw's Z and scales, with A integrated out, x_nd ~ N(z_n E[a_d], σ_x²(1 + z_n M_d z_nᵀ)), so

    E = mean of means,  Var = mean of variances + variance of means,

and quantiles are where the mean of the normal distribution functions takes a value. Nothing is
drawn: the same fit gives the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from thali.data import Data
from thali.model import Model
from thali.point_estimate import spaced
from thali.trace import Trace

DRAWS = 400  # evenly spaced draws that are averaged
HALVINGS = 60  # of the bracket around a quantile: to the last digit


class MissingLaw(NamedTuple):
    """Means and variances of each missing entry given each draw, (draws, entries)."""

    means: np.ndarray
    variances: np.ndarray

    def mean(self) -> np.ndarray:
        """The posterior mean of each entry."""
        return self.means.mean(axis=0)

    def std(self) -> np.ndarray:
        """The posterior standard deviation of each entry, noise included."""
        return np.sqrt(self.variances.mean(axis=0) + self.means.var(axis=0))

    def quantile(self, p: float) -> np.ndarray:
        """Where the posterior distribution function of each entry is p, by halving."""
        sd = np.sqrt(self.variances)
        ends = self.means + ndtri(p) * sd  # each draw's own quantile: the mixture's lies between
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            below = ndtr((middle - self.means) / sd).mean(axis=0) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def interval(self, mass: float) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds ``mass`` of each entry's law."""
        if isinstance(mass, bool) or not 0.0 < mass < 1.0:
            raise ValueError(f"interval must be a share between 0 and 1, such as 0.9; not {mass}.")
        return self.quantile(0.5 - 0.5 * mass), self.quantile(0.5 + 0.5 * mass)


def law_of_missing(
    model: Model, data: Data, trace: Trace, hyper: dict[str, float], most: int = DRAWS
) -> MissingLaw:
    """The law of the missing entries of ``data``, in the order of ``np.nonzero(~data.mask)``.

    ``hyper`` names the hyperparameters among the trace's scalars.
    """
    means, variances = [], []
    for Z, scalars, _ in trace.pick(spaced(len(trace), most)):
        likelihood = model.at({name: scalars[name] for name in hyper}).likelihood
        mean, variance = likelihood.missing_entries(data.X, Z)  # type: ignore[attr-defined]
        means.append(mean)
        variances.append(variance)
    return MissingLaw(np.array(means), np.array(variances))
