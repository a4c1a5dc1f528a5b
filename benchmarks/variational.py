"""Variational inference: what an iteration costs, how good its answers are, data in pieces.

1. An iteration at 10⁵×1000 with 50 features beside the two products it cannot do without, X E[A]ᵀ
   and νᵀX, on one thread each; the memory it adds; how the cost grows with N, D and K.
2. 500×500 with 20 planted features (z ~ Bernoulli(0.4), binary features of density 0.3, unit
   noise), told only truncation = 40: the log joint of its Z against the planted one's, both at the
   planted hyperparameters, for five seeds; and the held-out log likelihood (a third of the columns
   of the last half of the rows) beside that of the samplers, each given the same seconds.
3. `partial_fit` over a memory-mapped 10⁶×100 file: held-out score beside that of a fit to all that
   a fit can hold, and the memory of the process.
4. All faces (2414×1024, from the folder in THALI_DATA), 25 features: seconds to converge, beside
   the 19,061 s that Doshi-Velez and others (2009) report for 721 faces.

    python benchmarks/variational.py [--quick] [--only speed quality stream faces]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import real_data
from measuring import growth, planted_truth, resident, shortfall, smallest
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.engines.ascent.state import iterate
from thali.model import Model
from thali.starts import Start

PAPER_SECONDS = 19061.0


def problem(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, the planted A, and a Z with one bit in twenty wrong, made block by block."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((k, d))
    Z = rng.random((n, k)) < 0.3
    X = np.empty((n, d))
    for first in range(0, n, 10_000):
        block = slice(first, first + 10_000)
        X[block] = Z[block] @ A
        X[block] += rng.standard_normal(X[block].shape)
    return X, A, Z ^ (rng.random(Z.shape) < 0.05)


def cost(n: int, d: int, k: int, times: int) -> tuple[float, float, float, float]:
    """Seconds of an iteration and of the products, and bytes: of X, and added by the iteration."""
    X, _, Z = problem(n, d, k)
    data = Data.of(X)
    model = Model(thali.IBP(alpha=2.0), thali.LinearGaussian(sigma_x=1.0, sigma_a=1.0))
    engine = thali.Variational(truncation=k, n_init=2)
    before = resident()
    with threadpool_limits(limits=1, user_api="blas"):
        start = Start("near", Z, model.start(data))
        state = engine.begin(np.random.default_rng(0), model, data, start)
        iterate(state, 1)  # compiles; and most bits come right
        seconds = smallest(lambda: iterate(state, 1), times)
        phi, nu = state.features.phi, state.rows.nu
        added = resident() - before
        products = smallest(lambda: (X @ phi.T, nu.T @ X), times)
    return seconds, products, float(X.nbytes), added


def speed(quick: bool) -> None:
    n, d, k = (20_000, 500, 50) if quick else (100_000, 1000, 50)
    seconds, products, size, added = cost(n, d, k, 3)
    print(f"\n## An iteration, {n}×{d}, {k} features\n")
    arrays = 3.0 * n * k * 8.0
    rows = [
        ["X E[A]ᵀ and νᵀX", f"{products:.3f}", "1.00"],
        ["an iteration", f"{seconds:.3f}", f"{seconds / products:.2f}"],
    ]
    print(markdown(["work", "s", "times the products"], rows))
    share = (size + added) / (size + arrays)
    print(f"\nmemory: X and what the fit added, over X and three N×K arrays: {share:.2f}")
    print("\n## How it grows\n")
    print(growth(lambda *shape: cost(*shape, 3)[0]), flush=True)


def quality(quick: bool) -> None:
    rows, beside = [], []
    for seed in range(1 if quick else 5):
        data, at = planted_truth(seed)
        began = time.perf_counter()
        model = fitted(data.X, thali.Variational(truncation=40), seed)
        took = time.perf_counter() - began
        short = shortfall(data, at, model.Z_)
        rows.append([seed, model.n_components_, f"{short:+.4f}", f"{took:.1f}"])
        if seed < 2:
            beside += held_out(data.X, seed)
    print("\n## 500×500, 20 planted features, told truncation = 40\n")
    print(markdown(["seed", "K found", "shortfall %", "s"], rows))
    print("\n## Held out: a third of the columns of the last half of the rows\n")
    print(markdown(["seed", "engine", "log likelihood an entry", "K", "s"], beside), flush=True)


def held_out(X: np.ndarray, seed: int) -> list[list[object]]:
    """The held-out log likelihood of each engine, samplers stopped at the variational's time."""
    test = thali.evaluation.holdout(X, 1 / 3, "last_half", random_state=seed)
    began = time.perf_counter()
    model = fitted(test.X, thali.Variational(truncation=40), seed)
    budget = time.perf_counter() - began
    found: list[list[object]] = []

    def note(name: str, model: thali.LatentFeatures, seconds: float) -> None:
        value = f"{test.log_predictive(model):.4f}"
        found.append([seed, name, value, model.n_components_, f"{seconds:.1f}"])

    note("Variational", model, budget)
    for name, engine in (
        ("CollapsedGibbs", thali.CollapsedGibbs()),
        ("UncollapsedGibbs", thali.UncollapsedGibbs()),
    ):
        began = time.perf_counter()
        model = fitted(test.X, engine, seed, time_budget=budget)
        note(name, model, time.perf_counter() - began)
    return found


def fitted(X: np.ndarray, engine: object, seed: int, **options: float) -> thali.LatentFeatures:
    model = thali.LatentFeatures(engine=engine, random_state=seed, progress=False)
    return model.fit(X, **options)


def stream(quick: bool) -> None:
    n, d, k, piece = (100_000 if quick else 1_000_000), 100, 10, 20_000
    rng = np.random.default_rng(0)
    A, pi = rng.standard_normal((k, d)), np.linspace(0.5, 0.02, k)

    def make(rows: int, source: np.random.Generator) -> np.ndarray:
        return (source.random((rows, k)) < pi) @ A + 0.5 * source.standard_normal((rows, d))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        with path.open("wb") as file:  # a map that is written to would count as memory
            head = {"descr": "<f8", "fortran_order": False, "shape": (n, d)}
            np.lib.format.write_array_header_1_0(file, head)
            for _ in range(0, n, piece):
                file.write(make(piece, rng).tobytes())
        test = make(2000, np.random.default_rng(1))
        engine = thali.Variational(truncation=30, n_init=1)
        model = thali.LatentFeatures(engine=engine, random_state=0, progress=False)
        began = time.perf_counter()
        for first in range(0, n, piece):
            part = np.load(path, mmap_mode="r")[first : first + piece]
            model.partial_fit(np.array(part), total_samples=n)
            del part  # a map that stays open counts as memory
        took, memory = time.perf_counter() - began, resident()
        pieces = model.score(test)
        print(f"\nin pieces: {pieces:.4f}, {took:.0f} s, {memory / 1e9:.2f} GB", flush=True)
        alone = engine.replace(init="ica")  # a race among starts of a million rows takes long
        whole = thali.LatentFeatures(engine=alone, random_state=0, progress=False)
        began = time.perf_counter()
        whole.partial_fit(np.load(path))  # one piece, fitted as a whole
        rows = [
            [
                "in pieces",
                f"{pieces:.4f}",
                model.n_components_,
                f"{took:.1f}",
                f"{memory / 1e9:.2f}",
            ],
            [
                "as a whole",
                f"{score_of_fit(whole, test):.4f}",
                whole.n_components_,
                f"{time.perf_counter() - began:.1f}",
                f"{resident() / 1e9:.2f}",
            ],
        ]
    print(f"\n## {n}×{d}, {k} planted features, pieces of {piece} rows\n")
    print(markdown(["fit", "score of new rows", "K", "s", "most memory, GB"], rows), flush=True)


def score_of_fit(model: thali.LatentFeatures, test: np.ndarray) -> float:
    """The bound of new rows' density that a stream's ``score`` is, of a fit."""
    from thali.estimators.streaming import mean_bound

    return mean_bound(model.fit_, test)


def faces(quick: bool) -> None:
    try:
        X = real_data.load("all_faces")
    except real_data.Skipped as reason:
        print(f"\n{reason}")
        return
    X = X - X.mean(axis=0)
    began = time.perf_counter()
    model = fitted(X[:200] if quick else X, thali.Variational(truncation=25), 0)
    took = time.perf_counter() - began
    print(f"\n## Faces, {len(model.Z_)}×1024, truncation 25\n")
    rows = [
        [f"{took:.1f}", f"{PAPER_SECONDS / took:.0f}", model.n_components_, f"{model.elbo_:.0f}"]
    ]
    head = ["s", "times faster than 19,061 s (721 faces)", "K", "bound"]
    print(markdown(head, rows), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Variational inference.")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: a smoke run")
    parser.add_argument("--only", nargs="+", choices=["speed", "quality", "stream", "faces"])
    options = parser.parse_args()
    parts = {"speed": speed, "quality": quality, "stream": stream, "faces": faces}
    for name, part in parts.items():
        if not options.only or name in options.only:
            part(options.quick)
