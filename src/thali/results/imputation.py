r"""The distribution of each missing entry given what was observed: a mixture over the draws.

Where A is integrated out an entry is x_nd ~ N(z_n E[a_d], σ_x²(1 + z_n M_d z_nᵀ)) given a draw's Z
and scales; where parameters are kept it is that given Z and the parameters. Of the mixture

    E = mean of means,  Var = mean of variances + variance of means,

and quantiles are those of the mixture too. Nothing is drawn: the same fit gives the same numbers.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Literal, TypeAlias, cast

import numpy as np

from thali.likelihoods.base import Masked, MaskedCollapsed
from thali.likelihoods.entries import EntryDistribution
from thali.likelihoods.gibbs_updates import GibbsUpdates
from thali.results.fit import Fit
from thali.settings import shown
from thali.structures.base import evenly_spaced

Strategy: TypeAlias = Literal["mean", "median"]

DRAWS = 400  # evenly spaced draws that are averaged


@dataclass(frozen=True)
class MissingEntries:
    """The distribution of each missing entry given each draw, (draws, entries)."""

    given: EntryDistribution

    def mean(self) -> np.ndarray:
        """The posterior mean of each entry."""
        return np.asarray(self.given.mean.mean(axis=0))

    def value(self, strategy: Strategy) -> np.ndarray:
        """The posterior mean or median of each entry."""
        return self.mean() if strategy == "mean" else self.given.mixed_quantile(0.5)

    def std(self) -> np.ndarray:
        """The posterior standard deviation of each entry, noise included."""
        return np.asarray(np.sqrt(self.given.variance.mean(axis=0) + self.given.mean.var(axis=0)))

    def interval(self, mass: float) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds ``mass`` of each entry's distribution."""
        low, high = tails(mass)
        return self.given.mixed_quantile(low), self.given.mixed_quantile(high)


def tails(mass: float) -> tuple[float, float]:
    """The probabilities below the ends of the central interval that holds ``mass``.

    >>> tails(0.5)
    (0.25, 0.75)
    """
    number = isinstance(mass, Real) and not isinstance(mass, bool)
    if not number or not 0.0 < mass < 1.0:
        raise ValueError(
            f"interval must be a share between 0 and 1, such as 0.9; not {shown(mass)}."
        )
    tail = 0.5 * (1.0 - mass)
    return tail, 1.0 - tail


def missing_entries_of(fit: Fit, most: int = DRAWS) -> MissingEntries:
    """The distribution of the missing entries, in the order of ``data.where_missing``."""
    data = fit.data
    found: list[EntryDistribution] = []
    for Z, scalars, kept in fit.pick(evenly_spaced(len(fit), most)):
        likelihood = fit.model.likelihood_at(fit.hyper_of(scalars))
        if kept:
            axes = cast(GibbsUpdates, likelihood).axes
            parameters = {name: np.moveaxis(kept[name], 0, axes[name]) for name in kept}
            entries = cast(Masked, likelihood).entries(Z, parameters, data.where_missing)
        else:
            entries = cast(MaskedCollapsed, likelihood).missing_entries(data, Z)
        found.append(entries)
    return MissingEntries(type(found[0]).stack(found))
