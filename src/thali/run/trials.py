"""A trial of two likelihoods of a table: which tells entries better that it was not shown?

Both are run for a while, a share of the entries hidden, the same for both; of a small table more
than once, each time with others hidden. The density of each hidden entry is averaged over the
draws, and the logarithms are compared entry by entry. Nothing of it goes into the fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from thali.data import Data
from thali.data.columns import Columns
from thali.engines.base import AnyEngine
from thali.likelihoods.base import Masked
from thali.likelihoods.latent_columns import latents_of
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.priors.base import Prior
from thali.results.feature_draws import Draw, feature_draws
from thali.results.fit import Fit
from thali.run.choices import choose_engine
from thali.run.compiling import watching
from thali.run.loop import run
from thali.run.progress import Progress

FEWEST_ROWS = 50  # fewer tell too little,
MOST_ROWS = 500  # and more are not looked at,
ENTRIES = 8000  # nor more entries of their latents,
ENOUGH_ROWS = 200  # and no trial is made where these then are fewer rows
FEWEST_SEEN = 10  # entries of each column, without which no trial is made either
SHARE = 0.1  # of the entries, hidden at a time
ENOUGH = 300  # hidden entries, after which no more are hidden,
TIMES = 4  # nor after so many times
SWEEPS, CHAINS = 150, 2
DRAWS = 50  # that are averaged
PART, SHORTEST = 0.2, 0.1  # of a time budget, and seconds, that trials may take
MOST = 10.0  # nats, for which any one entry may count
CLEARLY = 2.0  # standard errors


class Trial(NamedTuple):
    """By how much the first tells a hidden entry better than the second, in nats, on average."""

    gain: float
    error: float  # its standard error
    hidden: int
    rows: int
    seconds: float  # that it took, compilation aside

    @property
    def clear(self) -> bool:
        """Whether the first is better by more than chance would have it."""
        return self.gain > CLEARLY * self.error

    @property
    def said(self) -> str:
        """How it went."""
        gain = f"by {self.gain:.2g} ± {self.error:.1g} nats each"
        return f"short runs ({self.hidden} entries of {self.rows} rows, {gain})"


NONE = Trial(0.0, np.inf, 0, 0, 0.0)  # of a table that would not tell


def compared(
    columns: Columns,
    codes: np.ndarray,
    prior: Prior,
    pair: tuple[TableLikelihood, TableLikelihood],
    engine: str | AnyEngine = "auto",
    progress: bool | str = False,
    time_budget: float | None = None,
) -> Trial:
    """The trial of these two on a table of ``codes``, (N, D); ``NONE`` where that would not tell,
    as where there are few rows, or many columns. It takes at most a part of the ``time_budget`` of
    all that is to be done, and tells nothing where that does not suffice."""
    rng, width = np.random.default_rng(0), sum(map(latents_of, columns))
    rows = min(len(codes), MOST_ROWS, ENTRIES // width)
    if len(codes) < FEWEST_ROWS or rows < min(len(codes), ENOUGH_ROWS):
        return NONE
    if rows < len(codes):
        codes = codes[np.sort(rng.permutation(len(codes))[:rows])]
    seen = ~np.isnan(codes)
    if seen.sum(axis=0).min() < FEWEST_SEEN:
        return NONE
    times = list(parts(rng, seen))
    most = np.inf if time_budget is None else PART * time_budget
    gains: list[np.ndarray] = []
    seconds = 0.0
    with Progress(progress) as bar, watching(bar.compiling):
        for hidden in times:
            logs: list[np.ndarray] = []
            for one in pair:
                bar.count("trying two likelihoods", 2 * len(gains) + len(logs), 2 * len(times))
                found = short_run(columns, codes, hidden, Model(prior, one), engine, most - seconds)
                seconds += found.fit.seconds
                if found.fit.stopped == "time budget":
                    return NONE._replace(seconds=seconds)
                logs.append(found.log_densities())
            gains.append(difference(*logs))
    all_gains = np.concatenate(gains)
    error = float(all_gains.std(ddof=1) / np.sqrt(len(all_gains)))
    return Trial(float(all_gains.mean()), error, len(all_gains), len(codes), seconds)


def left_of(time_budget: float | None, spent: float) -> float | None:
    """What trials left of a time budget: at least half, whatever they had to wait for.

    >>> left_of(60.0, 2.5), left_of(60.0, 100.0), left_of(None, 2.5)
    (57.5, 30.0, None)
    """
    return None if time_budget is None else max(time_budget - spent, 0.5 * time_budget)


def difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of logarithms, of which both may be −∞."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.clip(np.nan_to_num(first - second, nan=0.0), -MOST, MOST))


def parts(rng: np.random.Generator, seen: np.ndarray) -> Iterator[np.ndarray]:
    """Which entries are hidden each time, no entry twice, (N, D)."""
    order = rng.permutation(np.flatnonzero(seen))
    size = max(1, int(SHARE * len(order)))
    for time in range(min(TIMES, -(-ENOUGH // size), len(order) // size)):
        hidden = np.zeros(seen.shape, bool)
        hidden.flat[order[time * size : (time + 1) * size]] = True
        yield hidden


class ShortRun(NamedTuple):
    """A fit to what is left of a table, and what was hidden, levels as ones in own columns."""

    fit: Fit
    where: tuple[np.ndarray, np.ndarray]
    values: np.ndarray

    def log_densities(self) -> np.ndarray:
        """Of each hidden entry, the logarithm of its mean density over the draws."""
        logs = [self.of_draw(draw) for draw in feature_draws(self.fit, DRAWS)]
        return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))

    def of_draw(self, draw: Draw) -> np.ndarray:
        likelihood = cast(Masked, self.fit.model.likelihood_at(draw.hyper))
        entries = likelihood.entries(draw.Z, {"A": draw.A, **draw.parameters}, self.where)
        return np.asarray(entries.log_density(self.values))


def short_run(
    columns: Columns,
    codes: np.ndarray,
    hidden: np.ndarray,
    model: Model,
    engine: str | AnyEngine,
    seconds: float = np.inf,
) -> ShortRun:
    """A fit to the entries that are not ``hidden``, in at most so many seconds."""
    left = np.where(hidden, np.nan, codes)
    likelihood = cast(TableLikelihood, model.likelihood).with_layout(columns, left)
    layout, model = likelihood.known, Model(model.prior, likelihood)
    engine = choose_engine(engine, model, missing=True)
    short = engine.replace(sweeps=SWEEPS, burn_in=None, thin=1, chains=CHAINS)
    data = Data.checked(layout.expand(left))
    budget = max(seconds, SHORTEST) if np.isfinite(seconds) else None
    fit = run(0, model.resolve(data), short, data, progress=False, time_budget=budget)
    if fit.stopped == "interrupted":
        raise KeyboardInterrupt
    rows, at = np.nonzero(hidden)
    leveled, values = np.isin(at, layout.leveled), codes[hidden]
    latent = layout.first[at] + np.where(leveled, values, 0.0).astype(np.int64)
    return ShortRun(fit, (rows, latent), np.where(leveled, 1.0, values))
