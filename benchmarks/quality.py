"""How good are the answers, from each start, told nothing?

Planted data: log P(X, [Z]) of the best draw's Z against the planted Z's, both at the planted
hyperparameters; shortfall = (truth − found) / |truth|. A negative shortfall is better than truth.

    (a) 500×500, K = 20   z ~ Bernoulli(0.4), binary features of density 0.3, σ_x = 1
    (b) 1000×100, K = 4   z ~ Bernoulli(0.5), Gaussian features, σ_x = 0.1
    (c) 500×100           Z ~ IBP(3), σ_x = 0.5, σ_a = 1

Where Z is no draw from the buffet (a, b), α is K / H_N, the mass at which K features are expected;
where A is no Gaussian (a), σ_a is its root mean square.

Real data (from the folder in THALI_DATA): there is no truth, so starts are compared with one
another by the best draw's log joint at the fit's own hyperparameters, and `race` with the best of
the others.

    python benchmarks/quality.py [--quick] [--seeds 5] [--only planted_a sonar] [--starts race ica]

Every start gets the same sweeps and chains: those of the default settings (or of --sweeps). What
`race` spends before its chains begin is in its seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import real_data
from tables import markdown

import thali
from thali import datasets

STARTS = thali.LinearGaussian.starts


class Case(NamedTuple):
    """A planted problem: how to make it, its hyperparameters, and the shortfall allowed."""

    make: Callable[[int], datasets.Dataset]
    alpha: float | None  # None: K / H_N
    sigma_a: float | None  # None: the root mean square of A
    allowed: float  # per cent


def draw_c(seed: int) -> datasets.Dataset:
    model = thali.IBP(alpha=3.0), thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0)
    return datasets.draw(*model, n=500, d=100, random_state=seed)


CASES = {
    "planted_a": Case(lambda seed: datasets.noisy_nonnegative(random_state=seed), None, None, 0.1),
    "planted_b": Case(lambda seed: datasets.planted(random_state=seed), None, 1.0, 0.1),
    "planted_c": Case(draw_c, 3.0, 1.0, 0.5),
}


class Result(NamedTuple):
    """One fit: the log joint that counts, the features of the best draw, the time."""

    log_joint: float
    n_components: int
    seconds: float


class PlantedRun(NamedTuple):
    """One seed of a planted problem."""

    truth: float
    n_components: int
    results: dict[str, Result]


def fit(X: np.ndarray, start: str, seed: int, sweeps: int | None) -> thali.LatentFeatures:
    """A fit at default settings but for the start (and, when asked, the sweeps)."""
    engine = thali.CollapsedGibbs(init=start)
    if sweeps is not None:
        engine = thali.CollapsedGibbs(init=start, sweeps=sweeps)
    model = thali.LatentFeatures(engine=engine, random_state=seed, progress=False)
    return model.fit(X)


def say(text: str) -> None:
    """Progress to stderr, so that the tables can be redirected."""
    print(text, file=sys.stderr, flush=True)


def run_planted(name: str, seed: int, starts: list[str], sweeps: int | None) -> PlantedRun:
    """Fit one planted data set from every start."""
    case = CASES[name]
    data = case.make(seed)
    n, k = data.Z.shape
    harmonic = np.sum(1.0 / np.arange(1, n + 1))
    prior = thali.IBP(alpha=case.alpha or max(k, 1) / harmonic)
    likelihood = thali.LinearGaussian(sigma_x=data.sigma_x, sigma_a=case.sigma_a or data.sigma_a)

    def log_joint(Z: np.ndarray) -> float:
        return prior.log_prob(Z) + likelihood.log_marginal(data.X, Z)

    truth = log_joint(data.Z)
    results = {}
    for start in starts:
        began = time.perf_counter()
        Z = fit(data.X, start, seed, sweeps).best_.Z
        seconds = time.perf_counter() - began
        results[start] = Result(log_joint(Z), int(Z.any(axis=0).sum()), seconds)
        shortfall = percent(truth, results[start].log_joint)
        say(
            f"{name} seed {seed} {start}: {shortfall:+.4f}%, "
            f"K {results[start].n_components} (planted {k}), {seconds:.1f} s"
        )
    return PlantedRun(truth, k, results)


def percent(reference: float, value: float) -> float:
    """How far value falls short of the reference, in per cent of its size."""
    return 100.0 * (reference - value) / abs(reference)


def planted_rows(name: str, runs: list[PlantedRun]) -> Iterator[list[str]]:
    """One row of the table for each start."""
    allowed = CASES[name].allowed
    for start in runs[0].results:
        short = [percent(run.truth, run.results[start].log_joint) for run in runs]
        good = sum(s <= allowed for s in short)
        yield [
            name,
            start,
            f"{good}/{len(runs)} ≤ {allowed}%",
            f"{np.median(short):+.4f}",
            f"{max(short):+.4f}",
            " ".join(str(run.n_components) for run in runs),
            " ".join(str(run.results[start].n_components) for run in runs),
            f"{np.median([run.results[start].seconds for run in runs]):.1f}",
        ]


def run_real(name: str, seed: int, starts: list[str], sweeps: int | None) -> dict[str, Result]:
    """Fit one real data set from every start."""
    X = real_data.load(name)
    results = {}
    for start in starts:
        began = time.perf_counter()
        best = fit(X, start, seed, sweeps).best_
        seconds = time.perf_counter() - began
        results[start] = Result(best.log_joint, int(best.Z.any(axis=0).sum()), seconds)
        say(
            f"{name} seed {seed} {start}: {best.log_joint:.1f}, "
            f"K {results[start].n_components}, {seconds:.1f} s"
        )
    return results


def real_rows(name: str, runs: list[dict[str, Result]]) -> Iterator[list[str]]:
    """One row for each start: how far it is from the best single start, seed by seed."""
    singles = [
        max((r.log_joint for s, r in run.items() if s != "race"), default=np.nan) for run in runs
    ]
    for start in runs[0]:
        results = [run[start] for run in runs]
        short = [percent(b, r.log_joint) for b, r in zip(singles, results, strict=True)]
        yield [
            name,
            start,
            f"{np.median([r.log_joint for r in results]):.1f}",
            f"{np.median(short):+.3f}",
            f"{max(short):+.3f}",
            " ".join(str(r.n_components) for r in results),
            f"{np.median([r.seconds for r in results]):.1f}",
        ]


PLANTED_HEADERS = [
    "data",
    "start",
    "seeds that reach it",
    "median shortfall %",
    "worst %",
    "K planted",
    "K found",
    "s",
]
REAL_HEADERS = ["data", "start", "log joint", "below best single start %", "worst %", "K", "s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="100 sweeps and one seed: a smoke run")
    parser.add_argument("--seeds", type=int, help="seeds (default 5 planted, 2 real)")
    parser.add_argument("--sweeps", type=int, help="sweeps of each chain (default: the engine's)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*CASES, *real_data.NAMES],
        metavar="DATA",
        help="some of: " + " ".join([*CASES, *real_data.NAMES]),
    )
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    options = parser.parse_args()
    sweeps = options.sweeps or (100 if options.quick else None)
    names = options.only or [*CASES, *real_data.NAMES]

    def seeds(default: int) -> range:
        return range(options.seeds or (1 if options.quick else default))

    rows = [
        row
        for name in names
        if name in CASES
        for row in planted_rows(
            name, [run_planted(name, seed, options.starts, sweeps) for seed in seeds(5)]
        )
    ]
    if rows:
        print("\nPlanted data: log joint against the truth's, at the planted hyperparameters\n")
        print(markdown(PLANTED_HEADERS, rows), flush=True)
    rows, skipped = [], []
    for name in names:
        if name not in real_data.NAMES:
            continue
        try:
            runs = [run_real(name, seed, options.starts, sweeps) for seed in seeds(2)]
        except real_data.Skipped as reason:
            skipped.append(str(reason))
        else:
            rows.extend(real_rows(name, runs))
    if rows:
        print("\nReal data: best draw's log joint; shortfall against the best start but `race`\n")
        print(markdown(REAL_HEADERS, rows))
    if skipped:
        print("\n" + "\n".join(skipped))


if __name__ == "__main__":
    main()
