r"""New rows of a table whose columns have latents: the probabilities of their bits by Gibbs sweeps.

The features, noise, bias and cutpoints are held fixed. Where a row has a feature or not, a bit is
drawn given the others with the latents integrated out,

    log odds of z_k = log odds_k + Σ_l log p(x_l | z_k = 1, …) − log p(x_l | z_k = 0, …).

Where it has features in amounts, the latents Y of what was observed are drawn given bits and
amounts, and these given Y, as in the linear-Gaussian model.
Used where the sum over all rows of bits is too long, or where a row has amounts. A row's answer is
the same in whatever company it comes: all use the same random numbers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

import numpy as np

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.latent_draws import Shown, edges_of
from thali.likelihoods.mixed_factors import MixedFactors
from thali.likelihoods.table import TableLikelihood
from thali.machine import cores
from thali.model import Model

COPIES = 8  # of a row, sampled side by side
SWEEPS = 30  # of each copy that count, and half as many before them that do not
HEAT = 8.0  # by which densities are flattened at the first sweep, 1 at the first that counts
PLAN = COPIES, SWEEPS, 2 * SWEEPS  # more sweeps, as latents hold the bits where they are
BLOCK = 1e6  # latents of copies that are looked at at a time


def probabilities(
    model: Model, hyper: Values, parameters: Parameters, odds: np.ndarray, new: Data
) -> np.ndarray:
    """P(z_k = 1 | x) of new rows, (n, K)."""
    fixed = cast(TableLikelihood, model.likelihood_at(hyper))
    A = np.ascontiguousarray(parameters["A"])
    if isinstance(fixed, MixedFactors):
        return shares_with_amounts(fixed, new.X, A, odds)
    step = max(1, int(BLOCK / (COPIES * new.d)))
    parts = [shares(fixed, new.X[i : i + step], A, odds) for i in range(0, new.n, step)]
    return np.concatenate([np.zeros((0, len(odds))), *parts])


def shares(
    likelihood: TableLikelihood, X: np.ndarray, A: np.ndarray, odds: np.ndarray
) -> np.ndarray:
    """How often each bit of rows is on, bits being drawn one by one."""
    rng, (n, _), k = np.random.default_rng(0), X.shape, len(odds)
    pi = 1.0 / (1.0 + np.exp(-odds))
    bits = np.tile(rng.random((COPIES, k)) < pi, (n, 1, 1)).astype(float)  # (n, copies, K)
    seen, values = ~np.isnan(X)[:, None], np.nan_to_num(X)[:, None]

    def log_density(Z: np.ndarray) -> np.ndarray:
        entries = likelihood.entries_at(likelihood.latent_mean(Z, A))
        return np.asarray(np.where(seen, entries.log_density(values), 0.0).sum(axis=2))

    total = np.zeros((n, k))
    for i in range(SWEEPS + SWEEPS // 2):
        cool = HEAT ** -max(0.0, 1.0 - 2.0 * i / SWEEPS)  # at first copies go from mode to mode
        now = log_density(bits)
        for j in range(k):
            other = bits.copy()
            other[:, :, j] = 1.0 - bits[:, :, j]
            then = log_density(other)
            rise = np.where(other[:, :, j] > 0.5, odds[j], -odds[j]) + cool * (then - now)
            turn = np.log(rng.random(COPIES)) < -np.logaddexp(0.0, -rise)
            bits[:, :, j] = np.where(turn, other[:, :, j], bits[:, :, j])
            now = np.where(turn, then, now)
        if i >= SWEEPS // 2:
            total += bits.mean(axis=1)
    return total / SWEEPS


def shares_with_amounts(
    fixed: MixedFactors, X: np.ndarray, A: np.ndarray, odds: np.ndarray
) -> np.ndarray:
    """How often each bit of rows is on, where rows have amounts of their own."""
    shown = Shown.made(fixed.known, X)
    pi = np.asarray(1.0 / (1.0 + np.exp(-odds)))
    low, high = shown.low.copy(), shown.high.copy()
    for one in shown.ordered:
        edges, level = edges_of(fixed.fixed_cutpoints[one.own]), np.maximum(one.level, 0)
        seen = one.level >= 0
        low[:, one.latent] = np.where(seen, edges[level], -np.inf)
        high[:, one.latent] = np.where(seen, edges[level + 1], np.inf)
    row = partial(share_with_amounts, fixed, shown, low, high, ~np.isnan(X), A, pi)
    with ThreadPoolExecutor(cores()) as pool:
        return np.array(list(pool.map(row, range(len(X))))).reshape(len(X), len(pi))


def share_with_amounts(
    fixed: MixedFactors,
    shown: Shown,
    low: np.ndarray,
    high: np.ndarray,
    seen: np.ndarray,
    A: np.ndarray,
    pi: np.ndarray,
    n: int,
) -> np.ndarray:
    """The same of row n, given the bounds of its latents and which of them were seen."""
    from thali.kernels.bit_prior import BitPrior
    from thali.kernels.table_rows import shares_of_row

    mine = seen[n]
    if not mine.any():
        return pi
    place = np.cumsum(mine) - 1  # of each latent among those that were seen
    own = [column for column in shown.unordered if column.level[n] >= 0]
    first = np.array([place[column.first] for column in own], np.int64)
    width = np.array([column.end - column.first for column in own], np.int64)
    level = np.array([column.level[n] for column in own], np.int64)
    noise = np.broadcast_to(np.asarray(fixed.noise, float), mine.shape)
    biases = np.broadcast_to(np.asarray(fixed.biases, float), mine.shape)
    numbers = (np.ascontiguousarray(each[..., mine]) for each in (A, noise, biases))
    prior = BitPrior(np.zeros(0), np.full(len(pi), 2**40), pi)  # in use whatever it has
    return np.asarray(
        shares_of_row(
            *(np.random.default_rng(0), low[n][mine], high[n][mine], first, first + width, level),
            *(*numbers, prior, fixed.slab == "laplace", PLAN),
        )
    )
