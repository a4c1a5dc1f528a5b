r"""Which likelihood "auto" stands for: one that suits the columns, said in a sentence with why.

Tables whose columns are of several kinds, or have gaps, or units of their own, are taken by latent
Gaussians behind the columns. Rows then have features, or features in amounts: features where the
data fall in clumps. That is seen in the main directions of the latents, turned to where they are
least Gaussian: of one that takes two values the share of its variance between two clumps is near 1;
of a Gaussian it is 2/π = 0.64. Where they seem not to, and the table is narrow, both are tried on
entries that they are not shown (``trials``), and amounts are left where they clearly tell less.

Few rows do not tell the noise of each column: features would take its place, of which noise of 40
rows and 36 columns then has 80. Real columns in like units are then taken as they are, with one
noise for all; so is a table of one value a column.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import NamedTuple

import numpy as np

from thali.data import Data, Table
from thali.data.columns import Column, Columns
from thali.data.elsewhere import Source
from thali.data.sparse import is_sparse
from thali.engines.base import AnyEngine
from thali.engines.capabilities import missing_capabilities
from thali.engines.chain_settings import ChainSettings
from thali.likelihoods.base import Likelihood
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.mixed_columns import MixedColumns
from thali.likelihoods.mixed_factors import MixedFactors
from thali.model import Model
from thali.priors.base import Prior
from thali.registry import ENGINES
from thali.run.checkpoints import likelihood_of
from thali.run.choices import AUTO, auto_engine, is_auto, refuse_other
from thali.run.trials import compared
from thali.starts import ica
from thali.starts.sources import both, cube, independent_sources, split_in_two, square

CLUMPS, CLEAR = 0.75, 0.9  # shares from which on a direction may be, or is surely, of two clumps
ALIKE = 5.0  # columns whose standard deviations differ by less have one unit
FEWEST_ROWS = 50  # fewer do not tell the noise of each column,
ROWS_A_COLUMN = 2  # nor do fewer for each: features then take its place
LARGE = 100_000_000  # bytes
LOOKED_AT = 2000  # rows, at random
TIME_FOR_TRIALS = 60.0  # seconds of a time budget, from which on there is some for trials
NUMBERS = ("real", "positive", "count", "censored")
AUTOMATIC = ("linear_gaussian", "mixed", "mixed_factors")  # what "auto" chooses among


class Choice(NamedTuple):
    """A likelihood, and why."""

    likelihood: Likelihood
    why: str
    seconds: float = 0.0  # that trials took

    def sentence(self) -> str:
        return f"{type(self.likelihood).__name__}, since {self.why}."


def choose_likelihood(
    X: Table,
    prior: Prior,
    engine: str | AnyEngine,
    *,
    center: bool = False,
    scale: bool = False,
    types: object = AUTO,
    pieces: bool = False,
    time_budget: float | None = None,
    progress: bool | str = False,
    resumed: str | os.PathLike[str] | None = None,
) -> Choice:
    """The likelihood that suits the data, among those that the engine can run.

    ``types`` are those of columns, as of ``MixedColumns``. Data that come in ``pieces``, or are
    centered or scaled, are taken as numbers of one kind. Of data that "auto" would not sample in
    time only what an engine for large data can run is looked at. ``progress`` is of trials; how
    they ended is said by the checkpoint of a run that is ``resumed``.

    >>> import numpy as np, thali
    >>> X = np.random.default_rng(0).standard_normal((50, 1)) * [1.0, 20.0, 300.0]
    >>> print(choose_likelihood(X + [[0, 1, 0]], thali.IBP(), "auto").sentence())
    MixedFactors, since X has 3 real columns, and its rows do not fall in clumps.
    """
    if isinstance(X, Source):
        return Choice(LinearGaussian(), "X is read by blocks of rows, and not column by column")
    if is_sparse(X):
        return Choice(LinearGaussian(), "X is a sparse matrix, which it takes as it is")
    if center or scale:
        what = " and ".join(["centered"] * center + ["scaled"] * scale)
        return Choice(LinearGaussian(), f"columns are to be {what}, as numbers of one kind")
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and is_large(X):
        return Choice(LinearGaussian(), "X is large, and it takes it as it is, without a copy")
    if pieces:
        return Choice(LinearGaussian(), "pieces of data need columns of one kind")
    if is_auto(engine) and (large := engine_for(Model(prior, LinearGaussian()), X, time_budget)):
        engine = large
    factors, features = (can_run(engine, prior, kind()) for kind in (MixedFactors, MixedColumns))
    if not factors and not features:
        made = ENGINES.make(engine, besides=(AUTO,))
        return Choice(LinearGaussian(), f"{type(made).__name__} runs no likelihood of columns")
    columns = Columns.of(X, types, warn=False)  # the likelihood warns, if it looks at columns
    codes, said = columns.encode(X), f"X has {kinds_in_words(columns)}"
    if is_auto(types) and all(map(holds_numbers, columns)):
        if not (varying := varies(codes)).any():
            return Choice(LinearGaussian(), "no column of X has two different values")
        few = len(codes) < max(FEWEST_ROWS, ROWS_A_COLUMN * len(columns))
        if few and are_like(columns, codes, varying):
            why = f"{said} in like units, and {len(codes)} rows do not tell the noise of each"
            return Choice(LinearGaussian(), why)
    numbers = np.isin(columns.kinds, NUMBERS)
    many = 2 * numbers.sum() >= max(1, len(columns))  # too few of them do not tell of clumps
    clumped = many and in_clumps(columns, codes, numbers)
    if clumped:
        spread, gaps = np.nanstd(codes, axis=0), np.isnan(codes).any()
        alike = spread.min() > 0.0 and spread.max() < ALIKE * spread.min()
        if set(columns.kinds) == {"real"} and alike and not gaps and is_auto(types):
            return Choice(LinearGaussian(), f"{said} in like units, and its rows fall in clumps")
    if clumped:
        said += ", and its rows fall in clumps"
    if (clumped and features) or not factors:
        return Choice(MixedColumns(types=types), said)
    pair = MixedColumns(types=types), MixedFactors(types=types)
    earlier = likelihood_of(resumed, [type(one).__name__ for one in pair])
    spent = 0.0
    if features and earlier == "MixedColumns":
        return Choice(pair[0], f"{said}, and the run that is resumed has it")
    if features and earlier is None and may_try(engine, time_budget):
        trial = compared(columns, codes, prior, pair, engine, progress, time_budget)
        spent = trial.seconds
        if trial.clear:
            why = f"features without amounts told hidden entries better in {trial.said}"
            return Choice(pair[0], f"{said}, and {why}", spent)
    if many and not clumped:
        said += ", and its rows do not fall in clumps"
    return Choice(pair[1], said, spent)


def may_try(engine: str | AnyEngine, time_budget: float | None) -> bool:
    """Whether there is time for a trial: where nobody said how long chains are to be, or gave
    little time."""
    if not is_auto(engine):
        made = ENGINES.make(engine, besides=(AUTO,))
        if not isinstance(made, ChainSettings) or made.sweeps is not None:
            return False
    return time_budget is None or time_budget >= TIME_FOR_TRIALS


def is_large(X: np.ndarray) -> bool:
    """Whether an array is on disk, or too large to be coded column by column."""
    return isinstance(X, np.memmap) or X.nbytes > LARGE


def engine_for(model: Model, X: Table, time_budget: float | None) -> AnyEngine | None:
    """The engine that "auto" takes for data as large as X; None where it takes a sampler."""
    found = auto_engine(model, shape=shape_of(X), time_budget=time_budget).engine
    return found if type(found).auto_large else None


def shape_of(X: Table) -> tuple[int, int]:
    """How many rows and columns there are, of whatever may be a table."""
    shape = tuple(getattr(X, "shape", ())) or np.shape(np.asarray(X, dtype=object))
    return (shape[0], shape[1]) if len(shape) == 2 else (0, 0)


def can_run(engine: str | AnyEngine, prior: Prior, likelihood: Likelihood) -> bool:
    """Whether an engine runs it; "auto" finds one that does."""
    if is_auto(engine):
        return True
    made = ENGINES.make(engine, besides=(AUTO,))
    refuse_other(made)
    return not missing_capabilities(type(made), Model(prior, likelihood))


def holds_numbers(column: Column) -> bool:
    """Whether the values of a column are numbers or truth values, as a matrix has them."""
    return not column.dtype.endswith("category") and not any(
        isinstance(level, str) for level in column.levels
    )


def varies(codes: np.ndarray) -> np.ndarray:
    """Which columns have more than one value."""
    high = np.max(codes, axis=0, where=~np.isnan(codes), initial=-np.inf)
    low = np.min(codes, axis=0, where=~np.isnan(codes), initial=np.inf)
    return np.asarray(high > low)


def are_like(columns: Columns, codes: np.ndarray, which: np.ndarray) -> bool:
    """Whether these columns are real numbers in like units, no unit far from zero."""
    own = codes[:, which]
    spread, mean = np.nanstd(own, axis=0), np.nanmean(own, axis=0)
    real = all(c.kind == "real" for c, mine in zip(columns, which, strict=True) if mine)
    near = bool((np.abs(mean) < ALIKE * spread).all())
    return real and near and bool(0.0 < spread.min() and spread.max() < ALIKE * spread.min())


def kinds_in_words(columns: Columns) -> str:
    """How many columns there are of each kind.

    >>> kinds_in_words(Columns.of([[0.5, 1], [1.5, 0], [2.5, 1]]))
    '1 real column and 1 binary column'
    """
    counts = Counter(columns.kinds)
    parts = [f"{n} {kind} column{'s' * (n > 1)}" for kind, n in counts.most_common()]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def in_clumps(columns: Columns, codes: np.ndarray, which: np.ndarray) -> bool:
    """Whether at least two main directions of the latents of these columns, and half of them, are
    of two values, noise aside; or three surely are."""
    own = Columns(tuple(c for c, mine in zip(columns, which, strict=True) if mine))
    rng, some = np.random.default_rng(0), codes[:, which]
    if len(some) > LOOKED_AT:
        part = some[np.sort(rng.permutation(len(some))[:LOOKED_AT])]
        some = part if varies(part).all() else some
    likelihood = MixedColumns().with_layout(own, some)
    data = likelihood.guess(Data.checked(likelihood.known.expand(some)))
    rank = min(ica.signal_rank(data), ica.LARGEST_RANK, data.n // 4)
    if rank == 0:
        return False
    scores = ica.leading_scores(rng, data, rank)
    found = [independent_sources(rng, scores, contrast) for contrast in (square, cube, both)]
    shares = [split_in_two(sources)[1] for sources in found if sources is not None]
    best = max(shares, key=lambda own: own.mean(), default=np.zeros(1))
    most = (best > CLUMPS).sum() >= max(2, 0.5 * len(best))
    return bool(most or (best > CLEAR).sum() >= 3)
