r"""The local step where q(Z) is a point: every row at its best, given the others' counts.

A row's objective is submodular, and the solvers' guarantees hold, if no two features have
Σ_d E[a_kd a_ld] < 0 over the columns that the row shows; for features of any sign that may be so or
not, and the solvers are then good tries without a promise.

Rows follow one another, each knowing what those before it took. Side by side, blocks of rows keep
to the counts that a round of blocks began with; a block's new rows are then taken, one block after
the other, if the bound does not fall, and left as they were if it would.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from thali.backends.rows import (
    BLOCK,
    GAPS,
    MASKED_BLOCK,
    Observed,
    Rows,
    blocks_of,
    scores,
    statistics,
)
from thali.engines.ascent.counts import Counts
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.structures.features import FeatureTables
from thali.structures.statistics import Statistics

SOLVERS = ("best", "local_search", "double_greedy", "randomized_double_greedy", "exact")
SHARES = {"local_search": 1 / 3, "double_greedy": 1 / 3, "randomized_double_greedy": 1 / 2}
ROUND = 8  # blocks at work on the same counts, whatever the number of threads


class Knowns(NamedTuple):
    """What the rows are given: features, tables of the prior, and how to solve a row."""

    law: FeaturePosterior
    gains: np.ndarray  # what each feature's law costs
    prior: Counts
    tables: FeatureTables
    sigma_x: float
    solver: str


def guarantee(law: FeaturePosterior, masked: bool, solver: str) -> float:
    """The share of the best that a row is sure to reach, counted from the worst.

    That of the randomized solver is an average. Refused where rows may not be submodular, but for
    "exact", which does not need it.
    """
    if solver == "exact":
        return 1.0
    pairs = law.grams() if masked else law.gram()[None]
    k = pairs.shape[1]
    worst = np.where(np.eye(k, dtype=bool), np.inf, pairs.min(axis=0, initial=np.inf))
    if k > 1 and worst.min() < 0.0:
        i, j = divmod(int(worst.argmin()), k)
        raise ValueError(
            f"Features {i} and {j} have a negative product ({worst.min():.3g}): rows are not "
            "submodular, and the solvers' guarantees do not hold. They do for "
            "NonnegativeLinearGaussian; solver='exact' needs none."
        )
    return SHARES.get(solver, 1 / 3)


def improve_rows(
    rng: np.random.Generator, data: Observed, rows: Rows, knowns: Knowns, threads: int, solve: bool
) -> Statistics:
    """Improve all rows in place, or leave them as they are, and return their statistics.

    Side by side on so many threads; one after the other if ``threads`` is 0.
    """
    counts = rows.nu.sum(axis=0, dtype=float)
    phi = knowns.law.phi
    Q = np.ascontiguousarray(knowns.law.gram())[None]
    outer, size = None, BLOCK
    if data.mask is not None:
        k, d = phi.shape
        outer = np.ascontiguousarray(knowns.law.grams().reshape(d, k * k))
        size = int(np.clip(GAPS / max(k * k, 1), 1, MASKED_BLOCK))

    def prepared(block: slice) -> tuple[Any, np.ndarray | None, np.ndarray, np.ndarray]:
        x, mask, _ = data.part(block)
        gone = None if mask is None or mask.all() else (~mask).astype(x.dtype)
        own = Q if gone is None else Q - (gone @ outer).reshape(len(x), len(phi), len(phi))
        return x, gone, scores(x, phi), own

    def tell(block: slice, x: Any, gone: np.ndarray | None) -> Statistics:
        return statistics(
            x, gone, float(data.squares[block].sum()), rows, block, np.zeros(len(phi))
        )

    def one(block: slice) -> Statistics:
        x, gone, B, own = prepared(block)
        if solve:
            m = counts.astype(np.int64)
            _sweep(rng, B, own, knowns, m, rows.nu[block], follow=True)
            counts[:] = m
        return tell(block, x, gone)

    blocks = list(blocks_of(rows.n, size))
    if threads == 0 or rows.n <= size or not solve:
        return reduce(add, map(one, blocks))
    return reduce(add, _side_by_side(rng, rows, knowns, counts, blocks, threads, prepared, tell))


def _side_by_side(
    rng: np.random.Generator,
    rows: Rows,
    knowns: Knowns,
    counts: np.ndarray,
    blocks: list[slice],
    threads: int,
    prepared: Callable[..., tuple],
    tell: Callable[..., Statistics],
) -> list[Statistics]:
    """Rounds of blocks on fixed counts; a block whose rows would lower the bound is put back."""
    found = []

    def work(job: tuple[slice, int, np.ndarray]) -> tuple[float, np.ndarray, Statistics]:
        block, seed, m = job
        x, gone, B, own = prepared(block)
        before = rows.nu[block].copy()
        gained = _sweep(
            np.random.default_rng(seed), B, own, knowns, m, rows.nu[block], follow=False
        )
        return gained, before, tell(block, x, gone)

    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(blocks), ROUND):
            together = blocks[first : first + ROUND]
            m = counts.astype(np.int64)
            jobs = [(block, int(rng.integers(2**62)), m) for block in together]
            for block, (gained, before, after) in zip(together, pool.map(work, jobs), strict=True):
                then = counts + after.counts - before.sum(axis=0, dtype=float)
                gained += level(knowns, then, rows.n) - level(knowns, counts, rows.n)
                if gained < 0.0:
                    rows.nu[block] = before
                    x, gone, *_ = prepared(block)
                    after = tell(block, x, gone)
                else:
                    counts[:] = then
                found.append(after)
    return found


def level(knowns: Knowns, counts: np.ndarray, n: int) -> float:
    """What the bound has of the counts alone: the prior, and the laws of features in use."""
    return knowns.prior.gain(counts, n, 0.0) + float(knowns.gains[counts > 0.5].sum())


def _sweep(
    rng: np.random.Generator,
    B: np.ndarray,
    Q: np.ndarray,
    knowns: Knowns,
    m: np.ndarray,
    Z: np.ndarray,
    follow: bool,
) -> float:
    from thali.kernels.hard_rows import RowPrior, solve_rows

    tables = knowns.tables
    prior = RowPrior(
        tables.log_odds,
        tables.new_log_weight + knowns.gains,
        knowns.prior.crowd(Z.shape[1], tables.capacity),
    )
    precision = 1.0 / knowns.sigma_x**2
    at = SOLVERS.index(knowns.solver)
    return float(
        solve_rows(rng, B.astype(float, copy=False), Q, precision, prior, at, m, Z, follow)
    )
