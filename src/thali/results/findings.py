r"""What makes a fit degenerate, or too short to rely on: findings, with numbers and a way out.

R-hat asks whether chains agree; here it is asked whether what they agree on says anything. With
X ≈ Z A, s the standard deviation within columns and m_k the rows that have feature k:

    NoiseCollapsed        σ_x ≪ s, and columns hold few different values: features copy the table
    SingleColumnFeatures  max_d a²_kd > 0.9 Σ_d a²_kd for most k: no feature tells of two columns
    TooManyFeatures       more features than columns, or nearly as many as rows
    TiledFactor           Z A has far fewer directions than features: steps along a factor
    TooFewDraws           fewer draws than a probability or an interval can be read from
    BurnInCutShort        a run was stopped in its burn-in, whose draws it then has to show

Of a table with columns of several kinds, X are the latents behind it and A is taken in units of
their spread, not of their noise; the latents of a column's levels count as the one column they are.

Nothing here takes longer than a pass over Z, and of X only some rows are looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thali.data import Data
from thali.hyperparameters import Hyperprior
from thali.likelihoods.base import Parameters, Scaled
from thali.likelihoods.table import TableLikelihood
from thali.results.fit import Draws, Fit, WeightedDraws
from thali.structures.base import evenly_spaced

# Of fewer rows nothing is said: draws of the prior may have a feature for each of them.
FEWEST_ROWS = 20

# Noise below this share of the columns' standard deviation is none. Of data made with noise that is
# rounded to few values, the rounding alone leaves more: 0.3 of a step, of a spread of three steps.
NO_NOISE = 0.05
FEW_VALUES = (
    10  # different values of a column up to which it is discrete: yes and no, marks of 1-10
)
ROWS_A_VALUE = 5  # and rows for each of them: any column of few rows has few values
COPIES = 0.8  # features, as a share of columns or rows: fewer sum a table up, and do not copy it
LOOKED_AT, ENTRIES = (
    1000,
    10**6,
)  # rows of X, and entries in all: a table may be large, or only read

OF_ONE_COLUMN = 0.9  # of a feature's squared weight: the other columns are noise of that feature
# Of features drawn from a Gaussian in four columns, 6% are of one column by chance; in three every
# seventh is. And where A is sparse, two or three of a few features may well be of one.
FEWEST_SINGLE, FEWEST_COLUMNS = 4, 4

# Sums of a few more features than columns can be told apart, and of made data they are found: 7 in
# 6 columns, 8 of 9. Where there were 7 in 5 columns or 10 in 6, chains had 11 and 28 of them.
A_COLUMN = 1.5  # features for each column, from which on they are too many;
MANY_COLUMNS = 10  # where there are so many, one more than columns is
ROWS_EACH = 0.8  # features a row, from which on rows are coded one by one
# In amounts, of tables whose fits guess hidden entries as well as any imputer a row had 2.6 of 4.5
# features in 4 columns (Fisher's irises) and 3.5 of 11 in 6; of measurements of the air it had 5.1
# of 17 in 6. Where rows have two factors and noise with long tails, draws had 13 in 6 columns.
A_ROW = 0.75  # features of a row, for each column, if there are more of them than columns;
AMOUNTS_A_COLUMN = 2.0  # and features for each column: so many do not sum it up
SOME_DRAWS = 10  # looked at

EXPLAINED = 0.95  # of the variance of Z A, by as few directions as that takes
# Features for each direction. Of made data with binary features there are one or two, three or more
# where all entries of A are positive; of made factors fits had 5 to 12, of Fisher's irises 6.
STEPS_A_DIRECTION = 4
COLUMNS_A_DIRECTION = 3  # and columns: few columns have few directions, whatever is in them
FEWEST_STEPS = 5  # features: fewer are as easily what they seem
# Of the range of the scores along the first direction, what the K widest gaps take: nearly all
# where rows stand in clumps. Of 200 draws of a Gaussian six take a sixth, of irises a third.
CLUMPED = 0.5
A_CLUMP = 20  # rows for each gap: many gaps between few rows take half of any range
TRIMMED = 0.05  # of the scores at either end, where gaps are wide in any case

FEW_DRAWS = 20  # a probability is then known to a tenth or so at best (√(¼/20))
FEW_FOR_INTERVAL = 10  # the 5% and 95% quantiles of fewer are the extremes of what was seen


class DegenerateFit(UserWarning):
    """A fit says less than it seems to; subclasses say why, and ``findings_`` lists them."""

    headline = "The fit is degenerate."


class NoiseCollapsed(DegenerateFit):
    """The noise was found to be nothing in a table of few different values: features copy it."""

    headline = "The noise collapsed."


class SingleColumnFeatures(DegenerateFit):
    """Most features are single columns of the data."""

    headline = "Most features are single columns."


class TooManyFeatures(DegenerateFit):
    """There are more features than columns, or nearly as many as rows."""

    headline = "There are too many features."


class TiledFactor(DegenerateFit):
    """Many features are steps along few continuous factors."""

    headline = "Features tile a continuous factor."


class TooFewDraws(DegenerateFit):
    """There are too few draws for what they were asked."""

    headline = "There are too few draws."


class BurnInCutShort(DegenerateFit):
    """A time budget or Ctrl-C ended the run in its burn-in."""

    headline = "The run was stopped in its burn-in."


@dataclass(frozen=True)
class Finding:
    """What was found (``kind``, a class of warnings), the numbers seen, and what to do about it."""

    kind: type[DegenerateFit]
    seen: str
    advice: str
    expected: bool = False  # what the settings ask for: told where one looks, and not as a warning

    @property
    def of_answer(self) -> bool:
        """Whether it is the answer that is degenerate, not the run that is short."""
        return not issubclass(self.kind, TooFewDraws | BurnInCutShort)

    def __str__(self) -> str:
        return f"{self.seen} {self.advice}"


def warn_of(findings: Sequence[Finding], stacklevel: int = 2) -> None:
    """One warning for each finding that the settings did not ask for."""
    for finding in findings:
        if not finding.expected:
            warnings.warn(str(finding), finding.kind, stacklevel=stacklevel + 1)


# ---- of any run ---------------------------------------------------------------------------------


def of_run(fit: Fit) -> Iterator[Finding]:
    """What is to be said of a run, whatever it looks for."""
    if isinstance(fit, Draws) and fit.stopped != "finished":
        inside = [c for c in fit.chains if c.kept_at and c.kept_at[0] < fit.engine.burned]
        if inside:
            most = max(len(chain.scalars) for chain in inside)
            why = "its time budget" if fit.stopped == "time budget" else "an interrupt"
            yield Finding(
                BurnInCutShort,
                f"The run was stopped by {why} in its burn-in, after {most:,} of "
                f"{fit.engine.burned:,} {fit.engine.unit}s: its draws still depend on where chains "
                "began.",
                "Allow more time, go on with resume=True, or ask for fewer sweeps.",
            )
    if isinstance(fit, Draws | WeightedDraws) and len(fit) < FEW_DRAWS:
        yield Finding(
            TooFewDraws,
            f"All probabilities rest on {len(fit)} draw{'s' if len(fit) != 1 else ''}, fewer than "
            f"{FEW_DRAWS}.",
            "Run longer, or keep more of it.",
            expected=isinstance(fit, WeightedDraws) or fit.stopped == "finished",
        )


def warn_of_interval(fit: Fit, stacklevel: int = 2) -> None:
    """Say so where the spread of so few draws is asked for that it tells next to nothing."""
    if len(fit) < FEW_FOR_INTERVAL:
        rest = "draw: it knows" if len(fit) == 1 else "draws: they know"
        warnings.warn(
            f"The spread of missing entries rests on {len(fit)} {rest} little of how sure Z is, "
            "and intervals are too narrow. Draw more of the posterior.",
            TooFewDraws,
            stacklevel=stacklevel + 1,
        )


# ---- of features --------------------------------------------------------------------------------


def of_features(fit: Fit, Z: np.ndarray, parameters: Parameters) -> Iterator[Finding]:
    """What is to be said of Z (N×K) and features A (K×D) as the answer to X."""
    A, n = parameters["A"], int((fit.extra or {}).get("stream_seen", fit.data.n))
    if not len(A) or n < FEWEST_ROWS:
        return
    A, first = _in_columns(fit, A)
    copied = list(_noise(fit, len(A)))
    yield from copied
    yield from _single_columns(A, first)
    amounts = "S" in parameters
    beyond = list(_too_many_amounts(fit, A, len(first))) if amounts else []
    yield from beyond or _too_many(fit, n, A, amounts)
    linear = isinstance(fit.model.likelihood, Scaled | TableLikelihood) and not amounts  # X ≈ Z A
    if linear and not copied:  # few values are no continuous factor
        yield from _tiles(fit, Z, A)


def _in_columns(fit: Fit, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A in units of columns, where it is in units of their noise: one column that is nearly free of
    it would outweigh all others; and where in A each column of the table begins."""
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, TableLikelihood):
        return A, np.arange(A.shape[1])
    noise = fit.model.likelihood_values(dict(fit.mean_hyper()))["noise"]
    return A * np.asarray(noise, float), likelihood.known.first[:-1]


def _some_rows(data: Data) -> np.ndarray:
    """Which rows of X are looked at."""
    most = LOOKED_AT if data.sparse else max(1, min(LOOKED_AT, ENTRIES // data.d))
    return evenly_spaced(data.n, most)


def some_columns(data: Data) -> Iterator[np.ndarray]:
    """What was observed of some columns in some rows; a sparse X is not made dense."""
    X, which = data.X[_some_rows(data)], evenly_spaced(data.d, LOOKED_AT)
    if not data.sparse:
        yield from (x[np.isfinite(x)] for x in np.asarray(X[:, which], float).T)
        return
    X = X.tocsc()
    for j in which:
        own = X.data[X.indptr[j] : X.indptr[j + 1]]
        yield np.concatenate([own, np.zeros(X.shape[0] - len(own))])


def _noise(fit: Fit, k: int) -> Iterator[Finding]:
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, Scaled) or not isinstance(likelihood.sigma_x, Hyperprior):
        return  # there is no noise, or it is as the user wants it
    sigma_x = float(fit.model.likelihood_values(dict(fit.mean_hyper()))["sigma_x"])
    columns = [x for x in some_columns(fit.data) if len(x)]
    spread = float(np.sqrt(np.mean([x.var() for x in columns]))) if columns else 0.0
    if not sigma_x < NO_NOISE * spread or k < COPIES * min(fit.data.n, fit.data.d):
        return
    values = [len(np.unique(x)) for x in columns]
    few = [v for v, x in zip(values, columns, strict=True) if is_few(v, len(x))]
    if 2 * len(few) < len(values):
        return
    suits = (
        "likelihood='noisy_or' is made for tables of yes and no."
        if max(values) <= 2
        else "likelihood='mixed' is for tables whose columns are of several types, "
        "likelihood='noisy_or' for columns of yes and no."
    )
    yield Finding(
        NoiseCollapsed,
        f"The noise sigma_x was found to be {sigma_x:.2g}, {sigma_x / spread:.1%} of the standard "
        f"deviation of the data, and {len(few)} of {len(values)} columns have at most {max(few)} "
        f"different values: {k} features copy the table, and predict little beyond it.",
        f"Gaussian noise does not suit such columns: {suits}",
    )


def is_few(values: int, rows: int) -> bool:
    """Whether a column of so many rows has so few different values that it is discrete."""
    return values <= max(2, min(FEW_VALUES, rows // ROWS_A_VALUE)) and rows >= 2 * ROWS_A_VALUE


def _single_columns(A: np.ndarray, first: np.ndarray) -> Iterator[Finding]:
    squares = np.add.reduceat(np.square(A), first, axis=1)
    k, d = squares.shape
    single = int((squares.max(axis=1) > OF_ONE_COLUMN * squares.sum(axis=1)).sum())
    if d >= FEWEST_COLUMNS and single >= FEWEST_SINGLE and 2 * single > k:
        yield Finding(
            SingleColumnFeatures,
            f"{single} of {k} features are single columns: more than {OF_ONE_COLUMN:.0%} of their "
            f"squared weight is in one of {d}, so that they do not tell which columns go together.",
            "The columns may be of different scales (scale=True) or have little in common, "
            "or another likelihood may suit them better.",
        )


def _too_many(fit: Fit, n: int, A: np.ndarray, amounts: bool) -> Iterator[Finding]:
    k, d = A.shape
    many = k >= A_COLUMN * d or d >= MANY_COLUMNS
    by_column = many and k > d >= FEWEST_COLUMNS and not amounts  # of amounts see below
    if not by_column and k < ROWS_EACH * n:
        return
    what = f"{d} columns" if by_column else f"{n} rows"
    why = (
        "the features code the table and do not sum it up"
        if by_column
        else "rows are coded one by one, and share little"
    )
    other = "" if amounts else f" ('{_of_amounts(fit)}' has amounts)"
    noise = isinstance(fit.model.likelihood, Scaled)
    yield Finding(
        TooManyFeatures,
        f"{k} features were found in {what}: {why}.",
        "The columns may vary continuously, or not add up: try another likelihood"
        + other
        + (", or fix sigma_x at the size of the noise." if noise else "."),
    )


def _too_many_amounts(fit: Fit, A: np.ndarray, d: int) -> Iterator[Finding]:
    """Of draws too, since those that differ on their features have an answer of few.

    A few more features than columns sum a table up all the same where a row has few of them. Of
    the latents of a column's levels the largest counts, so that one direction tells nothing.
    """
    likelihood, directions = fit.model.likelihood, A.shape[1]
    if isinstance(likelihood, TableLikelihood):
        directions -= len(likelihood.known.leveled)
    k, of_a_row = _in_draws(fit)
    if k <= directions or d < FEWEST_COLUMNS:
        return
    if of_a_row < A_ROW * directions and k < AMOUNTS_A_COLUMN * directions:
        return
    table = isinstance(likelihood, TableLikelihood)
    kinds = "declare them another kind (types=), or " if table else ""
    yield Finding(
        TooManyFeatures,
        f"{k:.0f} features were found in {d} columns, in amounts, {of_a_row:.1f} of them in a row: "
        f"amounts of {directions} reach any row, and so these code the table and do not sum it up.",
        "Features that few rows have may stand for columns with long tails or few values: "
        f"{kinds}allow fewer features, as by prior=thali.BetaBernoulli(n_components=3).",
    )


def _in_draws(fit: Fit) -> tuple[float, float]:
    """How many features draws have, and a row has of them."""
    draws = fit.pick(fit.representatives(SOME_DRAWS))
    told = [(draw.latent.shape[1], draw.latent.sum(axis=1).mean()) for draw in draws]
    k, of_a_row = np.mean(told, axis=0)
    return float(k), float(of_a_row)


def _tiles(fit: Fit, Z: np.ndarray, A: np.ndarray) -> Iterator[Finding]:
    k, d = A.shape
    if d < FEWEST_COLUMNS or k < FEWEST_STEPS:
        return
    directions, first = _directions(Z, A)
    if not 0 < directions <= min(d / COLUMNS_A_DIRECTION, k / STEPS_A_DIRECTION):
        return
    if _in_clumps(_scores(fit, first), k):
        return
    along = "one direction" if directions == 1 else f"{directions} directions"
    yield Finding(
        TiledFactor,
        f"{k} features lie along {along} of {d}: so much is needed for {EXPLAINED:.0%} of the "
        "variance of Z A. They are steps along what varies continuously, not things that a row "
        "has or has not.",
        f"likelihood='{_of_amounts(fit)}' has an amount of each feature for each row; or use "
        "factor analysis, and look for features in what it leaves.",
    )


def _of_amounts(fit: Fit) -> str:
    """The likelihood with amounts for what this one takes."""
    table = isinstance(fit.model.likelihood, TableLikelihood)
    return "mixed_factors" if table else "sparse_factor"


def _directions(Z: np.ndarray, A: np.ndarray) -> tuple[int, np.ndarray]:
    """How many principal directions explain most of the variance of the rows of Z A, 0 where there
    is none; and the first, as a row (D,)."""
    W = np.subtract(Z, Z.mean(axis=0), dtype=float)
    Q, R = np.linalg.qr(A.T)  # A = Rᵀ Qᵀ: of the rows of Z A, all lie in the columns of Q
    variances, axes = np.linalg.eigh(R @ (W.T @ W) @ R.T)
    variances = np.maximum(variances[::-1], 0.0)
    total = float(variances.sum())
    if not total > 0.0:
        return 0, np.zeros(A.shape[1])
    short = int((np.cumsum(variances) < EXPLAINED * total).sum())
    return short + 1, Q @ axes[:, -1]


def _scores(fit: Fit, direction: np.ndarray) -> np.ndarray:
    """Where some rows of X are along a direction; a missing entry counts as its column's mean, or
    is guessed, where X are latents."""
    data, likelihood = fit.data, fit.model.likelihood
    X = data.X[_some_rows(data)]
    if isinstance(likelihood, TableLikelihood):
        return np.asarray(likelihood.guess(Data.checked(X)).X @ direction)
    if data.sparse:
        return np.asarray(X @ direction)
    observed = np.isfinite(X)
    means = np.where(observed, X, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    return np.asarray(np.where(observed, X - means, 0.0) @ direction)


def _in_clumps(scores: np.ndarray, k: int) -> bool:
    """Whether scores stand in clumps, with at most k gaps between them.

    >>> _in_clumps(np.repeat([0.0, 1.0, 5.0], 20), 2), _in_clumps(np.linspace(0.0, 1.0, 60), 2)
    (True, False)
    """
    cut = int(TRIMMED * len(scores))
    gaps = np.sort(np.diff(np.sort(scores)[cut : len(scores) - cut]))
    widest = gaps[-max(1, min(k, len(scores) // A_CLUMP)) :]
    return not float(widest.sum()) < CLUMPED * float(gaps.sum())
