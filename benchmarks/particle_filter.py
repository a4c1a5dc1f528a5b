"""What a particle filter costs: straightforward NumPy against ours, same proposals and weights.

1. 1000×100, ten planted features, 500 particles. NumPy runs with fewer particles (its cost is
   proportional to them, as it loops over them) and is extrapolated; ours runs in full.
2. The same with rows looked at again, as is the default, which NumPy does not do.
3. 50×100, five planted features, 5,000 particles: ours alone, with either proposal.
4. Images with four features, 100×36, two sets and five seeds each, 500 particles, with rows looked
   at again and without: features found, log evidence, and seconds of processors.

Hyperparameters are numbers, of images inferred. Compilation is excluded. Nothing is asserted:
machines differ.

    python benchmarks/particle_filter.py [--quick]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy_filter import Numbers, numpy_filter
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.model import Model
from thali.starts import empty_start

SIGMA_X, SIGMA_A, ALPHA = 0.5, 1.0, 1.5


def planted(rng: np.random.Generator, n: int, d: int, k: int) -> np.ndarray:
    Z = (rng.random((n, k)) < 0.3).astype(float)
    return Z @ (SIGMA_A * rng.standard_normal((k, d))) + SIGMA_X * rng.standard_normal((n, d))


def ours(
    X: np.ndarray, particles: int, proposal: str = "conditional", rejuvenate: int = 0
) -> tuple[float, float]:
    """Seconds of all steps, and the mean number of features at the end."""
    data = Data.of(X)
    model = Model(thali.IBP(ALPHA), thali.LinearGaussian(SIGMA_X, SIGMA_A)).resolve(data)
    engine = thali.ParticleFilter(particles, proposal, rejuvenate=rejuvenate)
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    with threadpool_limits(limits=1, user_api="blas"):  # as a fit has it
        state = engine.begin(rng, model, data, empty_start(rng, model, data))
        for _ in range(engine.steps(data)):
            engine.step(rng, model, data, state)
        population = engine.population(rng, model, data, state)
    seconds = time.perf_counter() - began
    return seconds, float(population.weights @ population.scalars[:, 0])


def straightforward(X: np.ndarray, particles: int) -> tuple[float, float]:
    """The same for the NumPy filter."""
    began = time.perf_counter()
    numbers = Numbers(ALPHA, SIGMA_X, SIGMA_A)
    found, weights, _ = numpy_filter(np.random.default_rng(0), X, particles, numbers)
    seconds = time.perf_counter() - began
    return seconds, float(weights @ [len(p.m) for p in found])


def of_images(seeds: int, particles: int, rejuvenate: int) -> list[str]:
    """Features found in each set of images, the spread of the log evidence, and seconds of each."""
    engine = thali.ParticleFilter(particles, rejuvenate=rejuvenate)
    found, spread, began = [], [], time.process_time()
    for which in range(2):
        X, evidence = thali.datasets.images(n=100, random_state=which).X, []
        for seed in range(seeds):
            model = thali.LatentFeatures(
                likelihood="linear_gaussian", engine=engine, random_state=seed, progress=False
            ).fit(X)
            found.append(str(model.n_components_))
            evidence.append(model.log_evidence_)
        spread.append(f"{min(evidence):.1f} to {max(evidence):.1f}")
    seconds = (time.process_time() - began) / len(found)
    return [str(rejuvenate), " ".join(found), "; ".join(spread), f"{seconds:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    n, particles, few, repeats = (60, 50, 4, 1) if quick else (1000, 500, 4, 3)
    X = planted(rng, n, 100, 10)
    ours(X[:20], 20, rejuvenate=1)  # compiles
    slow, slow_k = straightforward(X, few)
    fast, fast_k = min(ours(X, particles) for _ in range(repeats))
    again, again_k = min(ours(X, particles, rejuvenate=1) for _ in range(repeats))
    many = 200 if quick else 5000
    Y = planted(rng, 50, 100, 5)
    small, small_k = min(ours(Y, many) for _ in range(repeats))
    blind, blind_k = min(ours(Y, many, "prior") for _ in range(repeats))
    whole = slow * particles / few
    rows = [
        [f"NumPy, {n}×100, {few} particles", f"{slow:.2f}", f"{slow_k:.1f}", ""],
        [f"the same for {particles}, extrapolated", f"{whole:.1f}", "", "1"],
        [f"ours, {particles} particles", f"{fast:.2f}", f"{fast_k:.1f}", f"{whole / fast:.0f}"],
        ["the same, rows looked at again", f"{again:.2f}", f"{again_k:.1f}", ""],
        [f"ours, 50×100, five planted, {many} particles", f"{small:.2f}", f"{small_k:.1f}", ""],
        ["the same, proposed from the prior", f"{blind:.2f}", f"{blind_k:.1f}", ""],
    ]
    print(markdown(["what", "seconds", "features", "times faster"], rows))
    seeds, particles = (1, 50) if quick else (5, 500)
    images = [of_images(seeds, particles, rejuvenate) for rejuvenate in (0, 1)]
    print()
    print(markdown(["rejuvenate", "features", "log evidence", "processor seconds"], images))


if __name__ == "__main__":
    main()
