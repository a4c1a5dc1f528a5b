"""What a sweep of collapsed Gibbs sampling costs.

1. The textbook's sampler (an inverse and a determinant for every bit) against ours, 100×36, from
   the planted Z, all hyperparameters inferred by both.
2. Cost per sweep against N from 10³ to 10⁵ (D = 36, ten planted features), and the slope of
   log seconds on log N. The algorithm is O(N(K² + KD)), so the slope should be 1.
3. 500×500 with 20 planted features.
4. How far 3 is from the floor. A row needs at least one product T x_n, K·D multiply-adds, and
   about 8 K² more (M y; M and G each changed by rank one twice; M z, G z). X is read once a sweep.
   The floor is the larger of  2 N (K D + 8 K²) / (rate of BLAS's matrix-vector product here)
   and  8 N D / (rate at which memory is read here).

Ours is timed at what `fit` repeats: several sweeps in a call, each with α, σ_x, σ_a, the log joint
and a copy of Z to keep. One chain; compilation excluded; moves on whole columns, which the textbook
has not, are timed apart ("with moves", as many attempts a sweep as is the default). Nothing is
asserted: machines differ, ratios less so.

    python benchmarks/collapsed_gibbs.py [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from tables import markdown
from textbook import textbook_gibbs
from threadpoolctl import threadpool_limits

import thali
from thali import datasets
from thali.data import Data
from thali.model import Model
from thali.starts import given_start

STRETCH = 16  # sweeps timed together: moves are made for eight of them at once


class Timing(NamedTuple):
    """Seconds for one sweep, the median over sweeps or over stretches of them, and the mean K."""

    seconds: float
    n_components: float


def time_sweeps(sweep: Callable[[], int], warm_up: int, sweeps: int) -> Timing:
    """Call `sweep`, which returns K, and time each call after the warm-up."""
    for _ in range(warm_up):
        sweep()
    seconds, features = [], []
    for _ in range(sweeps):
        began = time.perf_counter()
        features.append(sweep())
        seconds.append(time.perf_counter() - began)
    return Timing(float(np.median(seconds)), float(np.mean(features)))


def stretches(dataset: datasets.Dataset, moves: int = 0) -> Iterator[Timing]:
    """Stretches of sixteen of the engine's sweeps from the planted Z, without end; the first, in
    which all is compiled and warmed up, is left out. No moves on columns unless asked."""
    data = Data.of(dataset.X)
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    engine = thali.CollapsedGibbs(chains=1, moves=moves)
    rng = np.random.default_rng(0)
    state = engine.begin(rng, model, data, given_start(dataset.Z, model, data))
    for stretch in count():
        features = []
        began, left = time.perf_counter(), STRETCH
        while left:
            drawn = engine.several(rng, model, data, state, left)
            left -= len(drawn)
            features += [each.info.n_components for each in drawn]
        if stretch:
            yield Timing((time.perf_counter() - began) / STRETCH, float(np.mean(features)))


def ours(dataset: datasets.Dataset, sweeps: int, moves: int = 0) -> Timing:
    """Until so many sweeps are made: the median over stretches, moves and all."""
    made = list(islice(stretches(dataset, moves), max(1, sweeps // STRETCH)))
    seconds, features = zip(*made, strict=True)
    return Timing(float(np.median(seconds)), float(np.mean(features)))


def textbook(dataset: datasets.Dataset, sweeps: int) -> Timing:
    """The textbook's sampler from the planted Z."""
    walk = textbook_gibbs(
        np.random.default_rng(0),
        dataset.X,
        dataset.Z,
        sigma_x=dataset.sigma_x,
        sigma_a=dataset.sigma_a,
    )
    return time_sweeps(lambda: next(walk).n_components, 1, sweeps)


def against_textbook(quick: bool) -> None:
    data = datasets.images()
    slow = textbook(data, 5 if quick else 30)
    fast = ours(data, 300 if quick else 2000)
    moving = ours(data, 300 if quick else 2000, thali.CollapsedGibbs().moves)
    rows = [
        [name, f"{1e3 * t.seconds:.3f}", f"{t.n_components:.1f}", f"{slow.seconds / t.seconds:.0f}"]
        for name, t in (("textbook", slow), ("thali", fast), ("thali, with moves", moving))
    ]
    print("\n## 100×36, four features\n")
    print(markdown(["sampler", "ms a sweep", "mean K", "times faster"], rows), flush=True)


def against_rows(quick: bool) -> None:
    sizes = [1000, 3162, 10_000] if quick else [1000, 3162, 10_000, 31_623, 100_000]
    rows, seconds = [], []
    for n in sizes:
        data = datasets.planted(n=n, d=36, k=10, sigma_x=0.5)
        timing = ours(data, 16 if quick else max(16, 1_000_000 // n))
        seconds.append(timing.seconds)
        per_row = 1e6 * timing.seconds / n
        rows.append(
            [n, f"{1e3 * timing.seconds:.2f}", f"{per_row:.2f}", f"{timing.n_components:.1f}"]
        )
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print("\n## Cost against N, D = 36, ten features\n")
    print(markdown(["N", "ms a sweep", "µs a row", "mean K"], rows))
    print(f"\nseconds ∝ N^{slope:.3f}", flush=True)


def multiply_rate(k: int, d: int) -> float:
    """Floating-point operations a second of BLAS's matrix-vector product of K×D, one thread, in a
    hundredth of a second or so."""
    T, x, out, repeats = np.ones((k, d)), np.ones(d), np.empty(k), 4000
    with threadpool_limits(1):
        began = time.perf_counter()
        for _ in range(repeats):
            np.dot(T, x, out=out)
        return 2.0 * k * d * repeats / (time.perf_counter() - began)


def reading_rate() -> float:
    """Bytes a second that a sum over 256 MB reads from memory."""
    long = np.ones(32_000_000)
    rates = []
    for _ in range(5):
        began = time.perf_counter()
        long.sum()
        rates.append(long.nbytes / (time.perf_counter() - began))
    return max(rates)


def against_floor(quick: bool) -> None:
    """Sweeps and products in turn, so that both see the same moments of a busy machine."""
    data = datasets.noisy_nonnegative()
    (n, d), reading = data.X.shape, reading_rate()
    ratios, times, features, rates = [], [], [], []
    for timing in islice(stretches(data), 3 if quick else 60):
        k = timing.n_components
        operations = 2.0 * n * (k * d + 8.0 * k * k)
        rates.append(multiply_rate(round(k), d))
        ratios.append(timing.seconds / max(operations / rates[-1], 8.0 * n * d / reading))
        times.append(timing.seconds)
        features.append(k)
    moving = ours(data, 48 if quick else 320, thali.CollapsedGibbs().moves)
    k, rate = float(np.mean(features)), float(np.median(rates))
    work = n * (k * d + 8.0 * k * k)
    print("\n## 500×500, twenty features, and the floor\n")
    rows = [
        ["measured", f"{1e3 * np.median(times):.3f}", f"mean K {k:.1f}"],
        ["arithmetic", f"{2e3 * work / rate:.3f}",
         f"{work / 1e6:.2f} M multiply-adds at {rate / 1e9:.2f} Gflop/s (BLAS gemv)"],
        ["reading X", f"{8e3 * n * d / reading:.3f}",
         f"{8 * n * d / 1e6:.2f} MB at {reading / 1e9:.1f} GB/s"],
        ["measured with moves", f"{1e3 * moving.seconds:.3f}", f"mean K {moving.n_components:.1f}"],
        ["measured / floor", f"{np.median(ratios):.2f}",
         f"in turns; half of them between {np.quantile(ratios, 0.25):.2f} "
         f"and {np.quantile(ratios, 0.75):.2f}"],
    ]  # fmt: skip
    print(markdown(["", "ms a sweep", "by"], rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a sweep of collapsed Gibbs sampling costs.")
    parser.add_argument("--quick", action="store_true", help="fewer sweeps and rows: a smoke run")
    options = parser.parse_args()
    against_textbook(options.quick)
    against_rows(options.quick)
    against_floor(options.quick)
