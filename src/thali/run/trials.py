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
SHARE = 0.1  # of the entries, hidden at a time
ENOUGH = 300  # hidden entries, after which no more are hidden,
TIMES = 4  # nor after so many times
SWEEPS = 150
DRAWS = 50  # that are averaged
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


def can_be_tried(columns: Columns, codes: np.ndarray) -> bool:
    """Whether a short run on a part of the rows would tell."""
    return FEWEST_ROWS <= len(codes) and looked_at(columns, codes) >= min(len(codes), ENOUGH_ROWS)


def looked_at(columns: Columns, codes: np.ndarray) -> int:
    """How many rows a trial looks at."""
    return min(len(codes), MOST_ROWS, ENTRIES // sum(map(latents_of, columns)))


def compared(
    columns: Columns,
    codes: np.ndarray,
    prior: Prior,
    pair: tuple[TableLikelihood, TableLikelihood],
    engine: str | AnyEngine = "auto",
    progress: bool | str = False,
) -> Trial:
    """The trial of these two on a table of ``codes``, (N, D)."""
    rng, rows = np.random.default_rng(0), looked_at(columns, codes)
    if len(codes) > rows:
        codes = codes[np.sort(rng.permutation(len(codes))[:rows])]
    times = list(parts(rng, ~np.isnan(codes)))
    gains: list[np.ndarray] = []
    seconds = 0.0
    with Progress(progress) as bar, watching(bar.compiling):
        for hidden in times:
            logs: list[np.ndarray] = []
            for one in pair:
                bar.count("trying two likelihoods", 2 * len(gains) + len(logs), 2 * len(times))
                told, took = log_densities(columns, codes, hidden, Model(prior, one), engine)
                logs.append(told)
                seconds += took
            gains.append(difference(*logs))
    found = np.concatenate(gains)
    error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.inf
    return Trial(float(found.mean()), float(error), len(found), len(codes), seconds)


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


def log_densities(
    columns: Columns, codes: np.ndarray, hidden: np.ndarray, model: Model, engine: str | AnyEngine
) -> tuple[np.ndarray, float]:
    """Of each hidden entry, the logarithm of its mean density over the draws of a short run, and
    the seconds that this took."""
    left = np.where(hidden, np.nan, codes)
    likelihood = cast(TableLikelihood, model.likelihood).with_layout(columns, left)
    layout, model = likelihood.known, Model(model.prior, likelihood)
    engine = choose_engine(engine, model, missing=True)
    short = engine.replace(sweeps=SWEEPS, chains=1, init=likelihood.starts[0])
    data = Data.checked(layout.expand(left))
    fit = run(0, model.resolve(data), short, data, progress=False)
    if fit.stopped == "interrupted":
        raise KeyboardInterrupt
    rows, at = np.nonzero(hidden)
    leveled, values = np.isin(at, layout.leveled), codes[hidden]
    latent = layout.first[at] + np.where(leveled, values, 0.0).astype(np.int64)
    values = np.where(leveled, 1.0, values)
    logs = [of_draw(fit, draw, (rows, latent), values) for draw in feature_draws(fit, DRAWS)]
    return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)), fit.seconds


def of_draw(
    fit: Fit, draw: Draw, where: tuple[np.ndarray, np.ndarray], values: np.ndarray
) -> np.ndarray:
    likelihood = cast(Masked, fit.model.likelihood_at(draw.hyper))
    entries = likelihood.entries(draw.Z, {"A": draw.A, **draw.parameters}, where)
    return np.asarray(entries.log_density(values))
