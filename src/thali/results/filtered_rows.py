r"""New rows given features: what they may have, given what they show, and their densities.

Where a row has features or not, all 2^K rows of bits are summed over up to ``SUMMED`` features:
exact densities, and draws of the bits. Where it has amounts of its own that no sum takes in,

    p(x) = Σ_z P(z) ∫ p(s) p(x | z, s, parameters) ds

is estimated by particles, to which the row's entries come one after the other (``row_filter``):
weights by what each has of probability given those before it, and Gibbs steps given these. Numbers
with more features than can be summed over have particles that are annealed (``annealed_row``). The
expectation of an estimate is p(x), so that of its logarithm is at most log p(x), and nearer to it
the more particles there are; one of the particles, drawn by its weight, is a draw of what the row
has, the nearer to an exact one the more there are. Other likelihoods with more features are
refused. A row's answer is the same in whatever company it comes: each is estimated by itself, from
the same random numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

import numpy as np

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import Expected, Masked, Parameters, Scaled
from thali.likelihoods.column_noise import ColumnNoise
from thali.likelihoods.latent_draws import Shown, edges_of
from thali.likelihoods.table import TableLikelihood
from thali.machine import cores
from thali.model import Model
from thali.results import summed_bits

PARTICLES = 32  # of a row, for each of as many draws as are averaged
RISE = 1.25  # of β from one rung of a ladder to the next
TRIED = 200  # rows of bits from the prior, by which the first rung is chosen


class Found(NamedTuple):
    """Of each row log p(x), perhaps estimated, and what it may have: bits and amounts given x."""

    log_densities: np.ndarray  # (n,)
    bits: np.ndarray  # (n, K)
    amounts: np.ndarray  # (n, K), the bits themselves where there are none


def rows_given_features(
    model: Model,
    hyper: Values,
    parameters: Parameters,
    odds: np.ndarray,
    new: Data,
    seed: int | None = None,
    particles: int | None = None,
) -> Found:
    """Of new rows, given the parameters of features and the log odds of bits; by particles with
    random numbers of these features' own, if no seed is given."""
    fixed = cast(Masked, model.likelihood_at(hyper))
    A = np.asarray(parameters["A"])
    if seed is None:
        seed = zlib.crc32(np.ascontiguousarray(A).tobytes())
    plan = seed, particles or PARTICLES
    if summed_bits.can_sum(fixed, len(odds)) and not has_amounts(fixed):
        return by_sum(fixed, parameters, odds, new, seed)
    if isinstance(fixed, TableLikelihood) and fixed.amounts is not None:
        found = by_filter(of_table(fixed, new.X), A, odds, fixed.amounts, *plan)
    elif isinstance(fixed, ColumnNoise | Scaled):
        values = model.likelihood_values(hyper)
        noise = np.asarray(values["noise" if isinstance(fixed, ColumnNoise) else "sigma_x"], float)
        rows = of_numbers(new.X, noise)
        if has_amounts(fixed):
            slab = cast(str, cast(Expected, fixed).amounts)
            found = by_filter(rows, A / noise, odds, slab, *plan)
        else:
            found = by_annealing(rows, A / noise, odds, *plan)
    else:
        raise ValueError(
            f"New rows under {type(fixed).__name__} are a sum over all rows of bits, which is done "
            f"up to {summed_bits.SUMMED} features, and a draw has {len(odds)}; fit to the new rows "
            "together with the old ones, or hold out entries with thali.evaluation.holdout, fit to "
            "the rest, and use score(holdout)."
        )
    if np.isnan(found.log_densities).any():
        raise FloatingPointError(
            "The noise is so far below the features that densities of new rows lose all digits; "
            "give sigma_x a number nearer to the features' size."
        )
    return found


def particles_for(draws: int, wished: int) -> int:
    """How many particles a row has for each draw, where there may be fewer than were wished.

    >>> particles_for(50, 50), particles_for(1, 50)
    (32, 1600)
    """
    return PARTICLES * -(-wished // max(1, draws))


def has_amounts(fixed: Masked) -> bool:
    """Whether a row has its features in amounts of its own."""
    return isinstance(fixed, Expected) and fixed.amounts is not None


def by_sum(fixed: Masked, parameters: Parameters, odds: np.ndarray, new: Data, seed: int) -> Found:
    """Exactly, and each row's bits drawn by the same uniform number."""
    logs, drawn = np.empty(new.n), np.empty((new.n, len(odds)), np.uint8)
    u = np.random.default_rng(seed).random()
    for part, bits, joint in summed_bits.joints(fixed, parameters, odds, new):
        logs[part] = np.logaddexp.reduce(joint, axis=1)
        below = np.cumsum(np.exp(joint - logs[part, None]), axis=1)
        drawn[part] = bits[np.minimum((below < u).sum(axis=1), len(bits) - 1)]
    return Found(logs, drawn, drawn.astype(float))


class Rows(NamedTuple):
    """What rows show of the latents behind their columns, (n, L), in units of the noise and less
    the bias."""

    low: np.ndarray  # bounds, equal where a latent is known; NaN for latents of levels
    high: np.ndarray
    seen: np.ndarray  # (n, L)
    first: np.ndarray  # of each column with levels, its first latent and where they end
    end: np.ndarray
    level: np.ndarray  # (n, columns with levels), −1 where it was not observed
    biases: np.ndarray  # (L,)
    log_units: np.ndarray  # (n,), Σ log dx/dy

    def items(self, n: int) -> np.ndarray:
        """The entries that row n has: latents, and −1 − c for column c of those with levels."""
        alone = self.seen[n].copy()
        for first, end in zip(self.first, self.end, strict=True):
            alone[first:end] = False
        leveled = np.flatnonzero(self.level[n] >= 0)
        place = np.concatenate([np.flatnonzero(alone), self.first[leveled]])
        which = np.concatenate([np.flatnonzero(alone), -1 - leveled])
        return np.asarray(which[np.argsort(place, kind="stable")], np.int64)


def of_numbers(X: np.ndarray, noise: np.ndarray) -> Rows:
    """Numbers that are their own latents."""
    Y, none = np.ascontiguousarray(X, dtype=float) / noise, np.zeros(0, np.int64)
    seen, level = ~np.isnan(Y), np.zeros((len(Y), 0), np.int64)
    log_units = seen @ np.broadcast_to(np.log(noise), Y.shape[1])
    return Rows(Y, Y, seen, none, none, level, np.zeros(Y.shape[1]), log_units)


def of_table(fixed: TableLikelihood, X: np.ndarray) -> Rows:
    """Columns of a table, whose ordered levels are bounds too."""
    layout = fixed.known
    shown = Shown.made(layout, X)
    low, high = shown.low.copy(), shown.high.copy()
    for one in shown.ordered:
        edges, level = edges_of(fixed.fixed_cutpoints[one.own]), np.maximum(one.level, 0)
        here = one.level >= 0
        low[:, one.latent] = np.where(here, edges[level], np.nan)
        high[:, one.latent] = np.where(here, edges[level + 1], np.nan)
    first = np.array([column.first for column in shown.unordered], np.int64)
    end = np.array([column.end for column in shown.unordered], np.int64)
    level = np.array([column.level for column in shown.unordered], np.int64)
    level = np.ascontiguousarray(level.reshape(len(first), len(X)).T)
    noise = np.broadcast_to(np.asarray(fixed.noise, float), X.shape[1])
    biases = np.broadcast_to(np.asarray(fixed.biases, float), X.shape[1]).copy()
    known = shown.low == shown.high
    log_units = known @ np.log(noise)
    log_units += [layout.log_units(X[n : n + 1], known[n : n + 1]) for n in range(len(X))]
    low, high = (low - biases) / noise, (high - biases) / noise
    return Rows(low, high, ~np.isnan(X), first, end, level, biases, log_units)


def by_filter(
    rows: Rows, A: np.ndarray, odds: np.ndarray, amounts: str, seed: int, particles: int
) -> Found:
    """Of each row with amounts, A in units of the noise."""
    from thali.kernels import row_filter as kernels

    slab = {"gaussian": kernels.GAUSSIAN, "laplace": kernels.LAPLACE}[amounts]
    A, odds = np.ascontiguousarray(A, dtype=float), np.ascontiguousarray(odds, dtype=float)
    given = kernels.Given(A, rows.biases, odds, slab)
    n = len(rows.low)
    logs, bits, s = np.empty(n), np.zeros((n, len(odds)), np.uint8), np.zeros((n, len(odds)))

    def fill(i: int) -> None:
        level = np.ascontiguousarray(rows.level[i])
        own = rows.items(i), rows.low[i], rows.high[i], rows.first, rows.end, level
        rng = np.random.default_rng(seed)
        try:
            logs[i], bits[i], s[i] = kernels.filter_row(rng, kernels.Row(*own), given, particles)
        except ZeroDivisionError:
            logs[i] = np.nan

    in_threads(fill, n)
    return Found(logs - rows.log_units, bits, s)


def by_annealing(rows: Rows, A: np.ndarray, odds: np.ndarray, seed: int, particles: int) -> Found:
    """Of each row of numbers, A in units of the noise."""
    from thali.kernels.annealed_row import anneal_row

    A, odds = np.ascontiguousarray(A, dtype=float), np.ascontiguousarray(odds, dtype=float)
    n = len(rows.low)
    logs, bits = np.empty(n), np.empty((n, len(odds)), np.uint8)

    def fill(i: int) -> None:
        seen, rng = rows.seen[i], np.random.default_rng(seed)
        own, y = A[:, seen], rows.low[i, seen]
        Z = (rng.random((TRIED, len(odds))) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
        spread = (0.5 * np.square(y - Z @ own).sum(axis=1)).std()
        rungs = int(np.ceil(np.log(max(spread, 1.0)) / np.log(RISE)))
        ladder = RISE ** np.arange(-rungs, 1.0)
        r, G = np.ascontiguousarray(own @ y), np.ascontiguousarray(own @ own.T)
        logs[i], bits[i] = anneal_row(rng, r, G, float(y @ y), odds, ladder, particles)

    in_threads(fill, n)
    constant = 0.5 * np.log(2.0 * np.pi) * rows.seen.sum(axis=1)
    return Found(logs - constant - rows.log_units, bits, bits.astype(float))


def in_threads(fill: Callable[[int], None], n: int) -> None:
    """Rows side by side: kernels release the interpreter's lock."""
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, range(n)))
