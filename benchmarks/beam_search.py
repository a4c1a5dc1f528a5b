"""Search for the most probable Z: what it costs, how that grows, and how good its answers are.

1. 500×500 with 20 planted features (z ~ Bernoulli(0.4), binary features of density 0.3, unit
   noise), hyperparameters fixed at the planted ones: the search alone and with its default settings
   beside the best draw of 200 sweeps of collapsed Gibbs from three starts.
2. How the time of a row grows with the rows before it, with K (a beam within the row) and with D.
3. All 2^K rows that may follow a candidate: ours in Gray-code order beside each scored from
   scratch, the determinant and the inverse of the whole matrix for every row, as the paper does.
4. Log joints of heuristics × orders of the rows, and what is left to the planted Z.

Processor time of one thread where the work is in one thread (2 and 3), else seconds.

    python benchmarks/beam_search.py [--quick] [--only speed growth row quality]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from measuring import planted_truth, smallest
from scipy.special import gammaln
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.engines.search.candidates import Candidate, Problem
from thali.engines.search.heuristics import heuristic
from thali.model import Model
from thali.results.fit import Draws

ALONE: dict[str, Any] = {"init": "empty", "order": "given", "n_init": 1, "polish": False}


def fit(X: np.ndarray, at: Model, engine: Any) -> tuple[float, Any]:
    """Seconds of a fit at fixed hyperparameters, and the model."""
    model = thali.LatentFeatures(at.prior, at.likelihood, engine, random_state=0, progress=False)
    began = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - began, model


def problem_of(X: np.ndarray, at: Model) -> Problem:
    data = Data.of(X)
    rows, scales = np.ascontiguousarray(data.reduced), at.likelihood
    return Problem(rows, data.squares, data.d, at.prior, scales.sigma_x, scales.sigma_a)


def speed(quick: bool) -> None:
    data, at = planted_truth(0)
    X, Z = (data.X[:100], data.Z[:100]) if quick else (data.X, data.Z)
    sweeps = 20 if quick else 200
    engines = {
        "search alone, width 10": thali.BeamSearch(10, **ALONE),
        "search alone, width 1": thali.BeamSearch(1, **ALONE),
        "search, default but from nothing": thali.BeamSearch(init="empty"),
        "search, default settings": thali.BeamSearch(),
    }
    for start in ("prior", "empty", "race"):
        sampler = thali.CollapsedGibbs(sweeps=sweeps, init=start)
        engines[f"collapsed Gibbs, {sweeps} sweeps, {start}"] = sampler
    rows = []
    for name, engine in engines.items():
        short = engine.replace(sweeps=2) if "Gibbs" in name else engine
        fit(X[:20], at, short)  # compiles, or loads
        seconds, model = fit(X, at, engine)
        history = model.history_  # of a sampler, the best draw
        best = int(history["log_joint"].argmax())
        draw = history["n_components"].flat[best], history["log_joint"].flat[best]
        answer = model.n_components_, at.log_joint(X, model.Z_)
        k, value = draw if isinstance(model.fit_, Draws) else answer
        rows.append([name, f"{seconds:.2f}", int(k), f"{value:.0f}"])
    rows.append(["the planted Z", "", Z.shape[1], f"{at.log_joint(X, Z):.0f}"])
    print(f"\n## {len(X)}×{X.shape[1]}, 20 planted features\n")
    print(markdown(["method", "s", "K", "log joint"], rows), flush=True)


# ---- growth -------------------------------------------------------------------------------------
def made(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray, Model]:
    """Unit noise, k features of density 0.3, each in two rows of five, the columns in use."""
    rng = np.random.default_rng(0)
    Z = rng.random((n, k)) < 0.4
    X = Z @ (rng.random((k, d)) < 0.3) + rng.standard_normal((n, d))
    return X, Z, Model(thali.IBP(2.0), thali.LinearGaussian(1.0, 0.55))


def per_row(n: int, d: int, k: int, seen: int, times: int) -> float:
    """Seconds of one expansion within the row, after ``seen`` rows of the planted Z.

    The arrays of the candidate are made anew from its parent's, and the prior's bound for rows of
    that length, which a search makes once a row.
    """
    X, Z, at = made(n, d, k)
    problem = problem_of(X, at)
    before = problem.restored(Z[: seen - 1], 0.0, 0.0)
    future = heuristic("inadmissible", problem, np.random.default_rng(0)).future(seen + 1)

    def expand() -> None:
        child = Candidate(before, Z[seen - 1].astype(np.uint8), 0, 0.0, 0.0)
        child.base = before.kept
        for answers in ("constant", "worth", "slack", "future"):
            getattr(problem.prior_bound, answers).cache_clear()
        problem.expand(child, future, expansion="within", width=10)

    expand()
    return smallest(expand, times)


def growth(quick: bool) -> None:
    times = 5 if quick else 30
    n, d, k = 2_000, 200, 20
    factors = (1, 2, 4) if quick else (1, 2, 4, 8)
    cases = {
        "rows before it, of 20,000": lambda f: per_row(20_000, d, k, 2_000 * f, times),
        "N, half of the rows seen": lambda f: per_row(n * f, d, k, n * f // 2, times),
        "K, a beam within the row": lambda f: per_row(n, d, k // 2 * f, n // 2, times),
        "D (up to N)": lambda f: per_row(n, d * f, k, n // 2, times),
    }
    rows = []
    with threadpool_limits(limits=1, user_api="blas"):
        for name, seconds in cases.items():
            took = [seconds(f) for f in factors]
            slope = np.polyfit(np.log(factors), np.log(took), 1)[0]
            rows.append([name, *(f"{1e6 * t:.0f}" for t in took), f"{slope:.2f}"])
    print(f"\n## A row: 2,000 rows, D = {d}, K = {k} but for what is doubled (K from {k // 2})\n")
    print(markdown(["doubling", "µs", *(f"×{f}" for f in factors[1:]), "exponent"], rows))


# ---- rows ---------------------------------------------------------------------------------------
def from_scratch(X: np.ndarray, Z: np.ndarray, at: Model) -> np.ndarray:
    """log P(X, Z) of Z followed by each of the 2^K rows, as the formula reads."""
    n, k = len(Z) + 1, Z.shape[1]
    d = X.shape[1]
    sigma_x, sigma_a = at.likelihood.sigma_x, at.likelihood.sigma_a
    alpha, values = float(at.prior.alpha), []
    for code in range(1 << k):
        W = np.vstack([Z, [(code >> i) & 1 for i in range(k)]]).astype(float)
        precision = W.T @ W + (sigma_x / sigma_a) ** 2 * np.eye(k)
        left = X[:n].T @ (np.eye(n) - W @ np.linalg.inv(precision) @ W.T) @ X[:n]
        fit = -0.5 * n * d * np.log(2 * np.pi) - (n - k) * d * np.log(sigma_x)
        fit += -k * d * np.log(sigma_a) - 0.5 * d * np.linalg.slogdet(precision)[1]
        m = W.sum(axis=0)
        prior = k * np.log(alpha) + (gammaln(n - m + 1) + gammaln(m) - gammaln(n + 1)).sum()
        values.append(fit - 0.5 * np.trace(left) / sigma_x**2 + prior)
    return np.array(values)


def row(quick: bool) -> None:
    rows = []
    for k in (4, 8) if quick else (4, 8, 12, 16):
        X, Z, at = made(200, 50, k)
        problem = problem_of(X, at)
        candidate = problem.restored(Z[:100], 0.0, 0.0)

        def every(candidate: Candidate = candidate, problem: Problem = problem) -> None:
            problem.expand(candidate, 0.0, expansion="all", width=10)

        every()
        ours = smallest(every, 3 if k > 12 else 20)
        shown = [f"{1e3 * ours:.3f}", f"{1e9 * ours / 2**k:.0f}"]
        if k <= 8:
            began = time.thread_time()
            from_scratch(X, Z[:100], at)
            plain = time.thread_time() - began
            shown += [f"{1e3 * plain:.0f}", f"{plain / ours:.0f}"]
        else:
            shown += ["", ""]
        rows.append([k, *shown])
    print("\n## All rows that may follow 100 of 50 columns\n")
    head = ["K", "ours, ms", "ns a row", "from scratch, ms", "times faster"]
    print(markdown(head, rows), flush=True)


# ---- answers ------------------------------------------------------------------------------------
def sets(quick: bool) -> dict[str, tuple[Any, Model]]:
    """Generated data with the model at the planted numbers (blocks: σ_a from the data)."""
    blocks = thali.datasets.blocks(random_state=0)
    images = thali.datasets.images(n=30 if quick else 100, random_state=0)
    parts = thali.IBP(2.0), thali.LinearGaussian(0.5, 1.0)
    drawn = thali.datasets.draw(*parts, n=30 if quick else 100, d=50, random_state=0)
    return {
        "blocks": (
            blocks,
            Model(thali.IBP(1.0), thali.LinearGaussian(0.1, float(blocks.X.std()))),
        ),
        "images": (images, Model(thali.IBP(1.0), thali.LinearGaussian(0.5, 0.5))),
        "drawn, α = 2": (drawn, Model(*parts)),
    }


def quality(quick: bool) -> None:
    rows = []
    heuristics = ("inadmissible", "trivial", "cluster", "admissible", "neighbor", "neighbors_or")
    orders = ("given", "random", "farthest_first")
    for name, (data, at) in sets(quick).items():
        truth = at.log_joint(data.X, data.Z[:, data.Z.any(axis=0)])
        for which in heuristics[:2] if quick else heuristics:
            cells = []
            for order in orders:
                engine = thali.BeamSearch(10, which, **{**ALONE, "order": order})
                seconds, model = fit(data.X, at, engine)
                above = at.log_joint(data.X, model.Z_) - truth
                cells.append(f"{above:+.0f} (K {model.n_components_}, {seconds:.1f} s)")
            rows.append([name, which, *cells])
        rows.append([name, "(planted)", f"{truth:.0f} (K {data.Z.any(axis=0).sum()})", "", ""])
    print("\n## Log joint above the planted Z's: the search alone, width 10, one order\n")
    print(markdown(["data", "heuristic", *orders], rows), flush=True)


PARTS = {"speed": speed, "growth": growth, "row": row, "quality": quality}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Search for the most probable Z.")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: a smoke run")
    parser.add_argument("--only", nargs="+", choices=list(PARTS))
    options = parser.parse_args()
    for name, part in PARTS.items():
        if not options.only or name in options.only:
            part(options.quick)
