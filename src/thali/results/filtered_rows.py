r"""New rows given features where no sum tells of them: densities, without bias, and draws.

Where a row has amounts of its own, or more features than bits can be summed over,

    p(x) = Σ_z P(z) ∫ p(s) p(x | z, s, parameters) ds

is estimated by particles, to which the row's entries come one after the other (``row_filter``):
weights by what each has of probability given those before it, and Gibbs steps given these. The
expectation of the estimate is p(x), so that of its logarithm is at most log p(x), and nearer to it
the more particles there are. A row's answer is the same in whatever company it comes: each is
estimated by itself, from the same random numbers. One of the particles, drawn by its weight, is a
draw of what the row has given what it shows, the nearer to an exact one the more there are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

import numpy as np
from scipy.special import logsumexp

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import Expected, Masked, Parameters, Scaled
from thali.likelihoods.column_noise import ColumnNoise
from thali.likelihoods.gibbs_updates import GibbsState, GibbsUpdates
from thali.likelihoods.latent_draws import Shown, edges_of
from thali.likelihoods.table import TableLikelihood
from thali.machine import cores
from thali.model import Model

PARTICLES = 32  # of a row, for each draw
EARLY = 6  # steps after every entry at first, and after a sixth of those that have come later on
FEW = 0.5  # share of the particles: drawn anew where the weight is that of fewer


class Found(NamedTuple):
    """Of each row, an estimate of log p(x), and what it may have: bits and amounts given x."""

    log_densities: np.ndarray  # (n,)
    bits: np.ndarray  # (n, K)
    amounts: np.ndarray  # (n, K), the bits themselves where there are none


def rows_given_features(
    model: Model,
    hyper: Values,
    parameters: Parameters,
    odds: np.ndarray,
    new: Data,
    seed: int = 0,
) -> Found:
    """Of new rows, given the parameters of features and the log odds of bits."""
    fixed = cast(Masked, model.likelihood_at(hyper))
    if isinstance(fixed, TableLikelihood):
        return by_kernel(of_table(fixed, new.X), parameters["A"], odds, fixed.amounts, seed)
    if isinstance(fixed, ColumnNoise) or (
        isinstance(fixed, Expected) and isinstance(fixed, Scaled)
    ):
        values = model.likelihood_values(hyper)
        noise = values["noise" if isinstance(fixed, ColumnNoise) else "sigma_x"]
        amounts = None if isinstance(fixed, ColumnNoise) else fixed.amounts
        rows, A = of_numbers(new.X, np.asarray(noise, float)), parameters["A"] / noise
        return by_kernel(rows, A, odds, amounts, seed)
    each = [by_copies(model, hyper, parameters, odds, x, seed) for x in new.X]
    bits = np.array([one[1] for one in each]).reshape(new.n, len(odds))
    return Found(np.array([one[0] for one in each]), bits, bits.astype(float))


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


def by_kernel(rows: Rows, A: np.ndarray, odds: np.ndarray, amounts: str | None, seed: int) -> Found:
    """Of each row, A in units of the noise."""
    from thali.kernels import row_filter as kernels

    slabs = {None: kernels.NO_AMOUNTS, "gaussian": kernels.GAUSSIAN, "laplace": kernels.LAPLACE}
    A, odds = np.ascontiguousarray(A, dtype=float), np.ascontiguousarray(odds, dtype=float)
    given = kernels.Given(A, rows.biases, odds, slabs[amounts])
    n = len(rows.low)
    logs, bits, s = np.empty(n), np.empty((n, len(odds)), np.uint8), np.empty((n, len(odds)))

    def fill(i: int) -> None:
        level = np.ascontiguousarray(rows.level[i])
        own = rows.items(i), rows.low[i], rows.high[i], rows.first, rows.end, level
        rng = np.random.default_rng(seed)
        logs[i], bits[i], s[i] = kernels.filter_row(rng, kernels.Row(*own), given, PARTICLES)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, range(n)))
    return Found(logs - rows.log_units, bits, s)


def by_copies(
    model: Model, hyper: Values, parameters: Parameters, odds: np.ndarray, x: np.ndarray, seed: int
) -> tuple[float, np.ndarray]:
    """log p(x) and bits of a row whose bits alone are its own, by steps on copies of it that differ
    in their bits."""
    from thali.kernels.bit_prior import BitPrior

    likelihood, own = cast(GibbsUpdates, model.likelihood), model.own_values("likelihood", hyper)
    rng, order = np.random.default_rng(seed), np.flatnonzero(~np.isnan(x))
    pi = 1.0 / (1.0 + np.exp(-odds))
    bits = (rng.random((PARTICLES, len(pi))) < pi).astype(np.uint8)
    in_use = np.full(len(pi), 2 * PARTICLES + 2, np.int64)  # whatever the copies do
    logs, total, at = np.zeros(PARTICLES), 0.0, 0

    def of_columns(columns: np.ndarray) -> tuple[GibbsUpdates, Values, Parameters]:
        which = np.isin(np.arange(len(x)), columns)
        shown = {name: np.ascontiguousarray(each[:, which]) for name, each in parameters.items()}
        return *likelihood.of_columns(which, own), shown

    while at < len(order):
        come = order[at : at + max(1, at // EARLY)]
        part, values, shown = of_columns(come)
        fixed = cast(Masked, part.at(**values))
        logs += fixed.log_rows(Data(x[None, come]), bits, shown)[0]
        at += len(come)
        average = float(logsumexp(logs) - np.log(PARTICLES))
        if average == -np.inf:
            return average, bits[0]
        weights = np.exp(logs - average) / PARTICLES
        if at == len(order):
            drawn = np.searchsorted(weights.cumsum(), rng.random())
            return total + average, bits[min(drawn, PARTICLES - 1)]
        if 1.0 / np.square(weights).sum() < FEW * PARTICLES:
            places = (rng.random() + np.arange(PARTICLES)) / PARTICLES
            bits = bits[np.minimum(np.searchsorted(weights.cumsum(), places), PARTICLES - 1)]
            total, logs = total + average, np.zeros(PARTICLES)
        part, values, shown = of_columns(order[:at])
        copies = Data(np.tile(x[order[:at]], (PARTICLES, 1)))
        state = GibbsState(copies, bits, shown, dict(values))
        part.update_bits(rng, state, BitPrior(np.zeros(0), in_use.copy(), pi))
        bits = state.bits
    return total, bits[0]
