"""What two workers gain in a sweep of uncollapsed Gibbs sampling in blocks of rows.

10⁵×100 with 20 planted features. One chain makes its sweeps in turn with one worker and with two,
in pairs, A B then B A, on one BLAS thread, as chains run: each pair gives a ratio, and the median
and the quartiles of these are shown, with how far sweeps of rows one after the other are behind or
ahead. Where other programs have the cores, all ratios are too small.

    python benchmarks/row_blocks.py [--quick] [--blocks 8] [--pairs 40]
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali import datasets
from thali.data import Data
from thali.model import Model
from thali.starts import given_start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="10⁴ rows, few sweeps")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()
    n, d, k = 10_000 if options.quick else 100_000, 100, 20
    pairs = 5 if options.quick else options.pairs
    planted = datasets.planted(n=n, d=d, k=k, sigma_x=0.5, random_state=0)
    data = Data.of(planted.X)
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    rng = np.random.default_rng(0)
    engines = {
        "one after the other": (thali.UncollapsedGibbs(), 1),
        f"{options.blocks} blocks, 1 worker": (
            thali.UncollapsedGibbs(row_blocks=options.blocks),
            1,
        ),
        f"{options.blocks} blocks, 2 workers": (
            thali.UncollapsedGibbs(row_blocks=options.blocks),
            2,
        ),
    }
    states = {
        name: engine.begin(rng, model, data, given_start(planted.Z, model, data))
        for name, (engine, _) in engines.items()
    }

    def sweep(name: str) -> float:
        engine, workers = engines[name]
        with patch("thali.machine.cores", lambda: workers):
            began = time.perf_counter()
            engine.step(rng, model, data, states[name])
            return 1e3 * (time.perf_counter() - began)

    names = list(engines)
    times: dict[str, list[float]] = {name: [] for name in names}
    with threadpool_limits(limits=1, user_api="blas"):
        for name in names:
            sweep(name)
            sweep(name)
        for i in range(pairs):
            for name in names if i % 2 else names[::-1]:
                times[name].append(sweep(name))
    one = np.array(times[names[1]])
    rows = []
    for name in names:
        ms = np.array(times[name])
        low, middle, high = np.quantile(one / ms, [0.25, 0.5, 0.75])
        ratio = f"{middle:.2f} ({low:.2f}–{high:.2f})"
        rows.append([name, f"{np.median(ms):.0f}", f"{ms.min():.0f}", ratio])
    print(f"\n{n}×{d}, K {states[names[1]].n_components}, {pairs} pairs\n")
    head = ["rows", "ms, median", "ms, least", "speed, of 1 worker (quartiles)"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
