"""Gibbs sampling of noisy-or models: its speed, its answers and its memory.

1. A sweep of `textbook_noisy_or.py` (the likelihood of a row for every bit) against ours, from the
   planted Z and Y, rates fixed. Ours is timed at the engine's step, which is what `fit` repeats.
2. Planted two-layer networks of 10 nodes, 4 causes and 200 trials (ε = 0.01, λ = 0.9, p = 0.1, as
   Wood and others 2006): entries of Z that differ from the truth after matching, for ten seeds,
   each with a network of its own; rates fixed at the planted ones, and inferred.
3. Autocorrelation of K along the chains, on the three settings of figure 5 of Welling and others
   (2012). A step here is a sweep over all of Z and Y; theirs is an update of one pair of entries.

    python benchmarks/noisy_or.py [--quick]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import textbook_noisy_or as textbook
from tables import markdown

import thali
from thali.data import Data
from thali.evaluation import autocorrelation, match_assignments
from thali.model import Model
from thali.starts import Start

RATES = {"epsilon": 0.01, "lam": 0.9, "p": 0.1}
LAGS = (1, 2, 5, 10, 20, 50, 100)


def network(
    seed: int, n: int, k: int, t: int, share: float = 0.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Z with distinct columns, none empty; Y; and X."""
    rng = np.random.default_rng(seed)
    while True:
        Z = rng.random((n, k)) < share
        if Z.any(axis=0).all() and len(np.unique(Z, axis=1).T) == k:
            break
    likelihood = thali.NoisyOr(**RATES)
    Y = likelihood.sample_features(rng, k, t)
    return Z, Y, likelihood.sample(rng, Z, Y)


def fastest(action, repeats: int) -> float:
    """The least seconds of several calls, which other programs on the machine disturb least."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def against_textbook(quick: bool) -> None:
    rows = []
    sizes = [(10, 4, 200), (50, 8, 300)] if quick else [(10, 4, 200), (50, 8, 300), (200, 10, 500)]
    for n, k, t in sizes:
        Z, Y, X = network(0, n, k, t, 0.5 if n == 10 else 0.2)
        data, rng = Data.of(X), np.random.default_rng(0)
        model = Model(thali.IBP(alpha=1.0), thali.NoisyOr(**RATES))
        engine = thali.UncollapsedGibbs(chains=1)
        state = engine.begin(rng, model, data, Start("planted", Z, model.start(data)))
        engine.step(rng, model, data, state)

        def step(data=data, model=model, engine=engine, rng=rng, state=state) -> None:
            engine.step(rng, model, data, state)

        whole_Z, whole_Y = Z.astype(int), Y.astype(int)

        def slow(rng=rng, X=X, Z=whole_Z, Y=whole_Y) -> None:
            textbook.sweep(rng, X, Z, Y, **RATES, alpha=1.0)

        ours = fastest(step, 100 if quick else 400)
        theirs = fastest(slow, 1 if quick else 3)
        rows.append(
            [
                f"{n}×{t}, K = {k}",
                f"{1e3 * theirs:.1f}",
                f"{1e3 * ours:.3f}",
                f"{theirs / ours:.0f}",
            ]
        )
    print("\n## A sweep\n")
    head = ["data", "textbook, ms", "thali, ms", "times faster"]
    print(markdown(head, rows), flush=True)


def planted_networks(quick: bool) -> None:
    rows = []
    for seed in range(2 if quick else 10):
        Z, _, X = network(seed, 10, 4, 200)
        row: list[object] = [seed]
        for likelihood in (thali.NoisyOr(**RATES), thali.NoisyOr()):
            model = thali.LatentFeatures(
                likelihood=likelihood,
                engine=thali.UncollapsedGibbs(sweeps=300),
                random_state=seed,
                progress=False,
            ).fit(X)
            row += [model.n_components_, match_assignments(Z, model.Z_).distance]
        rows.append(row)
    print("\n## Planted networks, 10 nodes, 4 causes, 200 trials\n")
    head = ["seed", "K, rates fixed", "entries wrong", "K, rates inferred", "entries wrong"]
    print(markdown(head, rows), flush=True)


def memory_of_k(quick: bool) -> None:
    """From the planted network, α fixed as in the figure; half of the sweeps are burn-in."""
    rows = []
    for n, k, alpha, t in ((10, 8, 2.0, 50), (5, 16, 3.0, 60), (15, 8, 3.0, 20)):
        Z, _, X = network(1, n, k, t)
        for way in ("integrated", "slice"):
            model = thali.LatentFeatures(
                thali.IBP(alpha=alpha),
                thali.NoisyOr(**RATES),
                thali.UncollapsedGibbs(
                    sweeps=1000 if quick else 4000, chains=2, init=Z, new_features=way
                ),
                random_state=0,
                progress=False,
            ).fit(X)
            K = model.history_["n_components"][:, model.burn_in_ :]
            rho = autocorrelation(K, max(LAGS))
            name = f"N = {n}, K = {k}, α = {alpha:g}, T = {t}, {way}"
            rows.append([name, f"{K.mean():.1f}", *(f"{rho[lag]:.2f}" for lag in LAGS)])
    print("\n## Autocorrelation of K\n")
    print(markdown(["setting", "mean K", *(f"lag {lag}" for lag in LAGS)], rows), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Gibbs sampling of noisy-or models.")
    parser.add_argument("--quick", action="store_true", help="fewer sweeps and seeds: a smoke run")
    parser.add_argument("--only", nargs="+", choices=["speed", "networks", "memory"])
    options = parser.parse_args()
    parts = {"speed": against_textbook, "networks": planted_networks, "memory": memory_of_k}
    for name, part in parts.items():
        if not options.only or name in options.only:
            part(options.quick)
