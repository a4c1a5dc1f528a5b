"""Maximization-expectation: what an iteration costs, how good its rows and its answers are.

1. An iteration at 10⁵×1000 with 50 features beside the two products it cannot do without, X E[A]ᵀ
   and ZᵀX, on one thread each; the memory it adds; how the cost grows with N, D and K.
2. An iteration at 500×500 with 20 features beside the same written in NumPy, row by row.
3. Rows made from the model, D = 50, σ_x = 1: how often each solver finds the best of all sets, or
   comes within 95% of the way from the worst to it (figure 1 of Reed and Ghahramani 2013).
4. 500×500 with 20 planted features (z ~ Bernoulli(0.4), binary features of density 0.3, unit
   noise), told only truncation = 40: the log joint of its Z against the planted one's, both at the
   planted hyperparameters, for five seeds.
5. 20,015 pictures × 1,386 tags, sparse, from the folder that THALI_DATA names: the features found,
   the bound, the time, and the most memory a fit adds beside that of the dense matrix.
6. 10⁵×1000 with 50 planted features (as in 4) from random starts, Z by the toss of coins, beside
   ``BayesianNMF`` with 50 factors and at most 50 iterations: time, memory (above what the process
   had when the fit began, and of the whole process), and the log likelihood of what is held out. Of
   200 more rows every column is hidden or shown by the toss of a coin; a method's ``transform``
   infers a row from what it shows, and a hidden entry has the density N(x; w a_d, σ²) with the
   method's own row w (bits, or weights), ``components_`` and ``sigma_x_``. The planted row of the
   table is scored with the planted rows, features and noise.

    python benchmarks/maximization_expectation.py [--quick]
        [--only speed numpy rows quality sparse large]
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from typing import Any

import numpy as np
from measuring import (
    growth,
    peak_growth,
    planted_truth,
    resident,
    resident_now,
    shortfall,
    smallest,
)
from real_data import Skipped, load
from scipy.special import gammaln
from scipy.stats import truncnorm
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.engines.ascent.point_state import SOLVERS
from thali.engines.ascent.state import State, iterate
from thali.evaluation import BayesianNMF
from thali.kernels.row_solvers import combined, row
from thali.model import Model
from thali.starts import Start

HELD_OUT = 200  # rows
Case = tuple[np.ndarray, np.ndarray]


def problem(n: int, d: int, k: int, seed: int = 0) -> Case:
    """X with binary features of density 0.3 and unit noise, and the planted Z."""
    return planted(n, d, k, seed)[:2]


def planted(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, the planted Z and its features; X block by block."""
    rng = np.random.default_rng(seed)
    A = (rng.random((k, d)) < 0.3).astype(float)
    Z = rng.random((n, k)) < 0.4
    X = np.empty((n, d))
    for first in range(0, n, 1000):
        block = slice(first, first + 1000)
        X[block] = Z[block] @ A
        X[block] += rng.standard_normal(X[block].shape)
    return X, Z, A


def begun(data: Data, Z: np.ndarray, solver: str = "best") -> State:
    """The state that belongs to Z with one bit in twenty wrong."""
    rng = np.random.default_rng(1)
    model = Model(thali.IBP(alpha=2.0), thali.NonnegativeLinearGaussian(1.0, 0.55))
    engine = thali.MaximizationExpectation(solver=solver, truncation=Z.shape[1])
    start = Start("near", Z ^ (rng.random(Z.shape) < 0.05), model.start(data))
    return engine.begin(rng, model, data, start)


def cost(n: int, d: int, k: int, times: int, solver: str = "best") -> tuple[float, ...]:
    """Seconds of an iteration and of the products, and bytes: of X, and added by the iteration."""
    X, Z = problem(n, d, k)
    data = Data.of(X)
    with threadpool_limits(limits=1, user_api="blas"):
        tracemalloc.start()
        state = begun(data, Z, solver)
        iterate(state, 1)  # compiles; and most bits come right
        added = float(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        seconds = smallest(lambda: iterate(state, 1), times)
        phi, nu = state.features.phi, state.rows.nu
        products = smallest(lambda: (X @ phi.T, nu.T @ X), times)
    return seconds, products, float(X.nbytes), added


def speed(quick: bool) -> None:
    n, d, k = (20_000, 500, 50) if quick else (100_000, 1000, 50)
    seconds, products, size, added = cost(n, d, k, 3)
    print(f"\n## An iteration, {n}×{d}, {k} features\n")
    rows = [["X E[A]ᵀ and ZᵀX", f"{products:.3f}", "1.00"]]
    rows.append(["an iteration, best", f"{seconds:.3f}", f"{seconds / products:.2f}"])
    for solver in SOLVERS[1:-1]:
        seconds, products, *_ = cost(n, d, k, 3, solver)
        rows.append([f"an iteration, {solver}", f"{seconds:.3f}", f"{seconds / products:.2f}"])
    print(markdown(["work", "s", "times the products"], rows))
    print(f"\nmemory: X and what the iterations added, over X: {(size + added) / size:.2f}")
    print("\n## How it grows\n")
    print(growth(lambda *shape: cost(*shape, 3)[0]), flush=True)


# ---- the same in NumPy --------------------------------------------------------------------------
def plain_iteration(X: np.ndarray, Z: np.ndarray, A: Case, alpha: float, sigma: Case) -> None:
    """Local search for every row, then every feature's truncated normal, as one first writes it."""
    n, k = Z.shape
    phi, second = A
    sigma_x, sigma_a = sigma
    for i in range(n):
        m = Z.sum(axis=0) - Z[i]
        with np.errstate(divide="ignore"):
            odds = np.where(m > 0, np.log(m) - np.log(n - m), np.log(alpha / n))
        own = m == 0

        def value(z: np.ndarray, i: int = i, odds: np.ndarray = odds, own: np.ndarray = own):
            mean = z @ phi
            fit = -0.5 * ((X[i] - mean) ** 2).sum() - 0.5 * (z @ (second - phi**2)).sum()
            return fit / sigma_x**2 + z @ odds - gammaln((~own).sum() + (z * own).sum() + 1.0)

        z = np.zeros(k)
        now, moved = value(z), True
        while moved:
            moved = False
            trials = np.tile(z, (k, 1))
            trials[np.arange(k), np.arange(k)] = 1.0 - z
            values = np.array([value(t) for t in trials])
            best = int(values.argmax())
            if values[best] > now + 1e-9:
                z, now, moved = trials[best], values[best], True
        if max(now, value(1.0 - z)) > value(Z[i]):
            Z[i] = z if now >= value(1.0 - z) else 1.0 - z
    r = (sigma_x / sigma_a) ** 2
    for j in range(k):
        rest = X - np.delete(Z, j, axis=1) @ np.delete(phi, j, axis=0)
        mu = Z[:, j] @ rest / (Z[:, j].sum() + r)
        s = sigma_x / np.sqrt(Z[:, j].sum() + r)
        phi[j] = truncnorm.mean(-mu / s, np.inf, mu, s)
        second[j] = truncnorm.var(-mu / s, np.inf, mu, s) + phi[j] ** 2


def numpy(quick: bool) -> None:
    n, d, k = (100, 100, 10) if quick else (500, 500, 20)
    X, Z = problem(n, d, k)
    state = begun(Data.of(X), Z, "local_search")
    start = state.rows.nu.copy()
    law = state.features
    A = law.phi.copy(), law.variance + law.phi**2
    began = time.thread_time()
    plain_iteration(X, start, A, 2.0, (1.0, 0.55))
    plain = time.thread_time() - began
    iterate(begun(Data.of(X), Z, "local_search"), 1)
    rows = [["NumPy", f"{1e3 * plain:.1f}", "1"]]
    for solver in ("local_search", "best"):
        took = []
        for _ in range(3):
            state = begun(Data.of(X), Z, solver)
            took.append(smallest(lambda state=state: iterate(state, 1), 1))
        rows.append([f"ours, {solver}", f"{1e3 * min(took):.2f}", f"{plain / min(took):.0f}"])
    print(f"\n## The first iteration, {n}×{d}, {k} features\n")
    print(markdown(["program", "ms", "times faster"], rows), flush=True)


# ---- rows ---------------------------------------------------------------------------------------
def rows_of_model(rng: np.random.Generator, n: int, d: int, k: int):
    """The objectives of n rows made from the model, the law of A at the planted one."""
    A = np.abs(rng.standard_normal((k, d)))
    Z = rng.random((n, k)) < 0.4
    X = Z @ A + rng.standard_normal((n, d))
    m = Z.sum(axis=0)
    pairs = A @ A.T
    own = np.diag(pairs) + d / (m + 1.0)  # E[a²]: variance about 1/(m + r)
    np.fill_diagonal(pairs, 0.0)
    by_count = -gammaln(np.arange(2 * k + 2.0))
    for x in X:
        weights = A @ x - 0.5 * own + np.log(m / (n - m))
        yield row.Row(weights, pairs, pairs.sum(axis=1), np.zeros(k, bool), by_count, k)


def end(rng: np.random.Generator, it: row.Row, solver: int) -> float:
    """F where a solver ends: "best" from a row at random, others as if there were none before."""
    k = len(it.weights)
    z, trial = rng.random(k) < 0.5, np.empty(k, bool)
    if solver != combined.BEST:
        z[:] = False
    room = [np.empty(k) for _ in range(3)]
    j = combined.solve(rng, it, solver, z, room[0], trial, *room[1:])
    return float(row.worth(it, z, room[0], j))


def rows(quick: bool) -> None:
    rng = np.random.default_rng(0)
    table = []
    for k in (4, 8) if quick else (2, 4, 6, 8, 10, 12):
        values, worst = [], []
        for _ in range(2 if quick else 10):
            for it in rows_of_model(rng, 200, 50, k):
                values.append([end(rng, it, solver) for solver in range(len(SOLVERS))])
                low = row.Row(-it.weights, -it.pairs, -it.total, it.own, -it.by_count, it.others)
                z, room = np.zeros(k, bool), [np.empty(k) for _ in range(3)]
                trial = np.empty(k, bool)
                combined.solve(rng, low, combined.EXACT, z, room[0], trial, *room[1:])
                worst.append(row.worth(it, z, room[0], row.begin(it, z, room[0])))
        F, least = np.array(values), np.array(worst)[:, None]
        share = (F - least) / (F[:, -1:] - least)
        table.append(
            [k]
            + [f"{100 * np.mean(share[:, s] > 1 - 1e-9):.1f}" for s in range(4)]
            + [f"{100 * np.mean(share[:, s] > 0.95):.2f}" for s in range(4)]
        )
    print("\n## Rows: % at the best of all sets, and % within 95% of the way from the worst\n")
    names = [name.replace("_", " ") for name in SOLVERS[:4]]
    print(markdown(["K", *names, *(f"95%: {name}" for name in names)], table), flush=True)
    if quick:
        return
    n, k = 1000, 50
    solvers = (0, 1, 2, 3, 0)
    F = np.array([[end(rng, it, s) for s in solvers] for it in rows_of_model(rng, n, 100, k)])
    best = F.max(axis=1, keepdims=True)
    shares = 100 * np.mean(best - F < 1e-9 * np.abs(best), axis=0)
    print("\n50 features, D = 100: % of rows where a solver ends as high as any of them, the first")
    print("and the last from rows at random\n")
    print(markdown([*names, "best, again"], [[f"{s:.1f}" for s in shares]]), flush=True)


# ---- answers ------------------------------------------------------------------------------------
def quality(quick: bool) -> None:
    table = []
    for seed in range(1 if quick else 5):
        data, at = planted_truth(seed)
        for likelihood in ("nonnegative_linear_gaussian", "linear_gaussian"):
            engine = thali.MaximizationExpectation(truncation=40)
            model = thali.LatentFeatures("ibp", likelihood, engine, random_state=seed)
            began = time.perf_counter()
            model.set_params(progress=False).fit(data.X)
            took = time.perf_counter() - began
            short = shortfall(data, at, model.Z_)
            k_found = model.n_components_
            table.append([seed, likelihood, k_found, f"{short:+.4f}", f"{took:.1f}"])
    print("\n## 500×500, 20 planted features, told truncation = 40\n")
    print(markdown(["seed", "likelihood", "K found", "shortfall %", "s"], table), flush=True)


# ---- sparse data --------------------------------------------------------------------------------
def sparse(quick: bool) -> None:
    try:
        X = load("tags")
    except Skipped as reason:
        print(f"\n{reason}")
        return
    truncation = 10 if quick else 50
    dense = 8e-6 * X.shape[0] * X.shape[1]
    table = []
    for likelihood in ("nonnegative_linear_gaussian", "linear_gaussian"):
        engine = thali.MaximizationExpectation(truncation=truncation)
        model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0, progress=False)
        model.fit(X[:500, :100])  # compiles, and imports what is needed
        began = time.perf_counter()
        with peak_growth() as grown:
            model.fit(X)
        took = time.perf_counter() - began
        numbers = f"{model.elbo_:,.0f}", f"{took:.0f}", f"{grown[0]:.0f}", f"{dense:.0f}"
        table.append([likelihood, model.n_components_, *numbers])
    n, d = X.shape
    print(f"\n## {n:,} × {d:,}, {X.nnz:,} entries, truncation = {truncation}\n")
    head = ["likelihood", "K found", "bound", "s", "MB added", "MB dense"]
    print(markdown(head, table), flush=True)


# ---- large data ---------------------------------------------------------------------------------
def heldout(model: Any, shown: np.ndarray, truth: np.ndarray) -> float:
    """Mean log density of the entries of ``truth`` that are NaN in ``shown``, rows inferred."""
    return mean_log_normal(model.transform(shown) @ model.components_, model.sigma_x_, shown, truth)


def mean_log_normal(mean: np.ndarray, sigma: float, shown: np.ndarray, truth: np.ndarray) -> float:
    left = (truth - mean)[np.isnan(shown)] / sigma
    return float(-0.5 * np.mean(np.square(left)) - 0.5 * np.log(2.0 * np.pi * sigma**2))


def large(quick: bool) -> None:
    n, d, k = (5000, 300, 20) if quick else (100_000, 1000, 50)
    X, Z, A = planted(n + HELD_OUT, d, k)
    train, truth = X[:n], X[n:]
    shown = np.where(np.random.default_rng(2).random(truth.shape) < 0.5, np.nan, truth)
    most = k + k // 5

    def ours(init: Any, seed: int) -> thali.LatentFeatures:
        engine = thali.MaximizationExpectation(truncation=most, init=init, n_init=1)
        likelihood = "nonnegative_linear_gaussian"
        return thali.LatentFeatures("ibp", likelihood, engine, random_state=seed, progress=False)

    def coins(rows: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).random((rows, most)) < 0.5

    ours(coins(500, 0), 0).fit(train[:500, :50])  # compiles
    table = []

    def measure(name: str, model: Any) -> None:
        began, work, before = time.perf_counter(), time.process_time(), resident_now()
        model.fit(train)
        took = [time.perf_counter() - began, time.process_time() - work]
        peak = resident()
        with threadpool_limits(limits=1, user_api="blas"):  # rows are small
            score = heldout(model, shown, truth)
        steps = model.n_iter_ if name == "BayesianNMF" else model.history_["elbo"].shape[1]
        size = float(train.nbytes)
        found = [name, len(model.components_), steps, *(f"{t:.0f}" for t in took), f"{score:.4f}"]
        table.append([*found, f"{(peak - before) / size:.2f}", f"{peak / size:.2f}"])
        print(*table[-1], file=sys.stderr, flush=True)  # a run stopped early has told something

    for seed in range(1 if quick else 2):
        measure(f"coins, seed {seed}", ours(coins(n, seed), seed))
    measure("BayesianNMF", BayesianNMF(k, max_iter=50, random_state=0))  # seconds each
    if quick:
        measure("ica", ours("ica", 0))
    score = mean_log_normal(Z[n:] @ A, 1.0, shown, truth)
    table.append(["planted", k, "", "", "", f"{score:.4f}", "", ""])
    print(f"\n## {n}×{d}, {k} planted features, told truncation = {most}\n")
    names = ["start", "features", "iterations", "s", "s of processors", "held-out log likelihood"]
    print(markdown([*names, "peak added, over X", "peak of the process"], table), flush=True)


PARTS = {
    "speed": speed,
    "numpy": numpy,
    "rows": rows,
    "quality": quality,
    "sparse": sparse,
    "large": large,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Maximization-expectation.")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: a smoke run")
    parser.add_argument("--only", nargs="+", choices=list(PARTS))
    options = parser.parse_args()
    for name, part in PARTS.items():
        if not options.only or name in options.only:
            part(options.quick)
