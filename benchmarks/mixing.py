"""Do chains reach the planted truth, with and without moves on whole columns?

Planted data: log P(X, [Z]) of the best draw's Z against the planted Z's, both at the planted
hyperparameters; shortfall = (truth − found) / |truth|. A negative shortfall is better than truth.

    planted_b    1000×100, K = 4    z ~ Bernoulli(0.5), Gaussian features, σ_x = 0.1
    planted_c    500×100            Z ~ IBP(3), σ_x = 0.5
    mixed        400×200, K = 15    frequencies spread over 0.02 … 0.6, Gaussian features, σ_x = 0.8
    crowded      2000×60, K = 30    the same in fewer dimensions than twice K, σ_x = 0.7

The first is begun at a draw from the prior and annealed, or not; the others at the default start.
Sweeps under annealing count, so that each chain of the first makes `--sweeps` in all.

    python benchmarks/mixing.py [--quick] [--seeds 5] [--sweeps 500] [--only crowded]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from quality import draw_c, percent
from tables import markdown

import thali
from thali import datasets

ALLOWED = 0.1  # per cent below the truth
ANNEALED = 0.3  # share of the sweeps under falling noise, where there are any


def spread(n: int, d: int, k: int, sigma_x: float, seed: int) -> datasets.Dataset:
    """K Gaussian features whose frequencies are spread evenly, on a log scale, over 0.02 … 0.6."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, k)) < np.geomspace(0.02, 0.6, k)
    A = rng.normal(size=(k, d))
    X = Z @ A + sigma_x * rng.normal(size=(n, d))
    return datasets.Dataset(X, Z, A, sigma_x, None, f"spread {n}x{d}, K={k}")


class Case(NamedTuple):
    """A planted problem, the mass of its prior (None: K / H_N), and how chains begin."""

    make: Callable[[int], datasets.Dataset]
    alpha: float | None
    inits: tuple[str, ...]
    anneal: tuple[float, ...]


CASES = {
    "planted_b": Case(
        lambda seed: datasets.planted(random_state=seed), None, ("prior",), (0.0, ANNEALED)
    ),
    "planted_c": Case(draw_c, 3.0, ("race",), (0.0,)),
    "mixed": Case(lambda seed: spread(400, 200, 15, 0.8, seed), None, ("race",), (0.0,)),
    "crowded": Case(lambda seed: spread(2000, 60, 30, 0.7, seed), None, ("race",), (0.0,)),
}


class Result(NamedTuple):
    shortfall: float
    n_components: int
    seconds: float


def run(case: Case, seed: int, settings: dict[str, Any]) -> tuple[int, Result]:
    """Fit one data set; the planted number of features, and the best draw against the truth."""
    data = case.make(seed)
    n, k = data.Z.shape
    alpha = case.alpha or k / np.sum(1.0 / np.arange(1, n + 1))
    prior, likelihood = thali.IBP(alpha=alpha), thali.LinearGaussian(data.sigma_x, 1.0)

    def log_joint(Z: np.ndarray) -> float:
        return prior.log_prob(Z) + likelihood.log_marginal(data.X, Z)

    began = time.perf_counter()
    engine = thali.CollapsedGibbs(**settings)
    model = thali.LatentFeatures(engine=engine, random_state=seed, progress=False).fit(data.X)
    seconds = time.perf_counter() - began
    Z = model.best_.Z
    shortfall = percent(log_joint(data.Z), log_joint(Z))
    return int(data.Z.any(axis=0).sum()), Result(shortfall, int(Z.any(axis=0).sum()), seconds)


def row(name: str, what: str, planted: list[int], results: list[Result]) -> list[str]:
    short = [result.shortfall for result in results]
    return [
        name,
        what,
        f"{sum(s <= ALLOWED for s in short)}/{len(short)}",
        f"{np.median(short):+.4f}",
        f"{max(short):+.4f}",
        " ".join(map(str, planted)),
        " ".join(str(result.n_components) for result in results),
        f"{np.median([result.seconds for result in results]):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed and 60 sweeps: a smoke run")
    parser.add_argument("--seeds", type=int, help="how many seeds (5)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--sweeps", type=int, help="sweeps of each chain (500)")
    parser.add_argument("--moves", type=int, nargs="+", help="attempts a sweep (0 and the default)")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    sweeps = options.sweeps or (60 if options.quick else 500)
    count = options.seeds or (1 if options.quick else 5)
    seeds = range(options.first, options.first + count)
    rows = []
    for name in options.only:
        case = CASES[name]
        for init in case.inits:
            for share in case.anneal:
                for moves in options.moves or (0, thali.CollapsedGibbs().moves):
                    anneal = int(share * sweeps)
                    settings = {"init": init, "moves": moves, "anneal": anneal}
                    planted, results = [], []
                    for seed in seeds:
                        k, result = run(case, seed, {**settings, "sweeps": sweeps - anneal})
                        planted.append(k)
                        results.append(result)
                        print(name, settings, seed, k, result, file=sys.stderr, flush=True)
                    what = f"{init}{', annealed' if anneal else ''}, moves {moves}"
                    rows.append(row(name, what, planted, results))
    headers = ["data", "chains", f"≤ {ALLOWED}%", "median %", "worst %", "K planted", "K", "s"]
    print(markdown(headers, rows))


if __name__ == "__main__":
    main()
