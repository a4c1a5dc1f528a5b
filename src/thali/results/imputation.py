r"""The distribution of each missing entry given what was observed: a mixture over the draws.

Where A is integrated out an entry is x_nd ~ N(z_n E[a_d], σ_x²(1 + z_n M_d z_nᵀ)) given a draw's Z
and scales; where parameters are kept it is that given Z and the parameters. Of the mixture

    E = mean of means,  Var = mean of variances + variance of means,

and quantiles are those of the mixture too. Nothing is drawn: the same fit gives the same numbers.
But for the bits of rows with gaps where the fit is a distribution q that takes them for independent
(``bits_of_gaps``): these are drawn given the rest, by the same random numbers at every call.

A new row has no Z in the draws. Given each draw's parameters one is drawn for it, with amounts
where there are any, given what the row shows (``filtered_rows``), by the same random numbers at
every call.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Literal, TypeAlias, cast

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Masked, MaskedCollapsed
from thali.likelihoods.entries import EntryDistribution
from thali.likelihoods.gibbs_updates import GibbsUpdates
from thali.priors.base import PredictsRow
from thali.results import bits_of_gaps, filtered_rows
from thali.results.feature_draws import feature_draw
from thali.results.fit import Fit, VariationalFit
from thali.results.prediction import tables_of_new
from thali.results.trace import Recorded
from thali.settings import shown
from thali.structures.base import evenly_spaced

Strategy: TypeAlias = Literal["mean", "median"]

DRAWS = 400  # evenly spaced draws that are averaged
NEW_DRAWS = 100  # the same of new rows, what they have being drawn with each


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


def missing_entries_of(fit: Fit, new: Data | None = None) -> MissingEntries:
    """The distribution of the missing entries, in the order of ``data.where_missing``: of the data
    of the fit, or of new rows."""
    if new is not None:
        return of_new_rows(fit, new)
    data = fit.data
    found: list[EntryDistribution] = []
    for Z, scalars, kept in picked(fit):
        likelihood = fit.model.likelihood_at(fit.hyper_of(scalars))
        if kept:
            axes = cast(GibbsUpdates, likelihood).axes
            parameters = {name: np.moveaxis(kept[name], 0, axes[name]) for name in kept}
            entries = cast(Masked, likelihood).entries(Z, parameters, data.where_missing)
        else:
            entries = cast(MaskedCollapsed, likelihood).missing_entries(data, Z)
        found.append(entries)
    return MissingEntries(type(found[0]).stack(found))


def picked(fit: Fit) -> Iterator[Recorded]:
    """Draws that tell of the missing entries; of a q whose rows can be summed over given its
    features, with the bits of rows with gaps drawn so."""
    draws = list(fit.pick(evenly_spaced(len(fit), DRAWS)))
    here = isinstance(fit, VariationalFit) and not fit.data.far and fit.data.observed is not None
    rows = int((~fit.data.seen.all(axis=1)).sum()) if here else 0
    most = max((draw.latent.shape[1] for draw in draws), default=0) if rows else 0
    count = bits_of_gaps.draws_for(fit, rows, most) if most else 0
    if not count:
        yield from draws
        return
    shown = bits_of_gaps.Shown.of(fit.data)
    u = bits_of_gaps.places(fit.seed, count, rows)
    for i, at in enumerate(evenly_spaced(len(draws), count)):
        Z, scalars, kept = draws[at]
        hyper = fit.hyper_of(scalars)
        odds = cast(PredictsRow, fit.model.prior_at(hyper)).tables(fit.data.n).log_odds
        sigma = float(fit.model.likelihood_values(hyper)["sigma_x"])
        bits = bits_of_gaps.drawn(shown, Z, kept["A"], odds, sigma, u[i])
        yield draws[at]._replace(latent=bits)


def of_new_rows(fit: Fit, new: Data) -> MissingEntries:
    """Of rows that the model was not fitted to, given what they show: for each draw one value of
    what a row has, or several where there are few draws."""
    found: list[EntryDistribution] = []
    indices = fit.representatives(NEW_DRAWS)
    times = -(-NEW_DRAWS // len(indices))
    weights = fit.weights()
    for index, recorded in zip(indices, fit.pick(indices), strict=True):
        draw = feature_draw(fit, int(index), recorded, weights[index])
        fixed = fit.model.at(draw.hyper)
        likelihood = cast(Masked, fixed.likelihood)
        odds = tables_of_new(fixed, fit.data.n).log_odds[draw.Z.sum(axis=0)]
        given = {"A": draw.A} | draw.parameters
        for _ in range(times):
            seed = len(found)
            rows = filtered_rows.rows_given_features(fit.model, draw.hyper, given, odds, new, seed)
            own = {"S": rows.amounts} if "S" in draw.parameters else {}
            found.append(likelihood.entries(rows.bits, given | own, new.where_missing))
    return MissingEntries(type(found[0]).stack(found))
