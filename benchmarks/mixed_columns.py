"""What a sweep over a table with columns of any kind costs, and what gaps cost.

A sweep of `CollapsedGibbs` and of `UncollapsedGibbs` over the counties, a table of 3,141 rows with
numbers, counts and a category of 51 levels, is timed with a sweep over complete Gaussian data with
as many columns as the table has latents, each sweep begun from the Z and the numbers that a chain
of the table came to: draws of latents and of their bounds, and the log joint, are the difference.
Then sweeps over drawn data with one entry in ten hidden are timed with sweeps over all of it, and
those of the linear-Gaussian model at other sizes, and with other shares hidden. All are timed in
turns, processor time of one thread, the least of each.

    THALI_DATA=… python benchmarks/mixed_columns.py [--quick] [--only counties gaps sizes]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import pandas as pd
import real_data
from hidden_sets import make
from tables import markdown
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.model import Model
from thali.starts import Start

HIDDEN = 0.1
SIZES = (  # rows, columns, features, and the share of entries hidden
    (200, 20, 4, 0.1),
    (200, 20, 4, 0.3),
    (100, 36, 4, 0.2),
    (1000, 50, 10, 0.1),
    (1000, 50, 10, 0.3),
    (2000, 50, 10, 0.1),
    (2000, 50, 10, 0.3),
    (500, 100, 10, 0.1),
    (500, 500, 20, 0.2),
    (200, 1000, 10, 0.2),
)
LINEAR = (
    (thali.LinearGaussian(), thali.CollapsedGibbs(moves=0)),
    (thali.LinearGaussian(), thali.UncollapsedGibbs()),
)
OTHERS = (
    (thali.SparseFactor(), thali.UncollapsedGibbs()),
    (thali.MixedColumns(), thali.CollapsedGibbs(moves=0)),
    (thali.MixedFactors(), thali.UncollapsedGibbs()),
)
SETTLING = 60  # sweeps after which a table's Z is one that it may have


class Chain:
    """A chain that is stepped and timed."""

    def __init__(
        self, likelihood: Any, engine: Any, data: Data, Z: np.ndarray, hyper: Any = None
    ) -> None:
        self.rng = np.random.default_rng(0)
        self.model = Model(thali.IBP(), likelihood).resolve(data)
        self.engine, self.data = engine, data
        self.start = Start("given", Z, dict(hyper or self.model.start(data)))
        self.seconds: list[float] = []

    def step(self) -> None:
        """A sweep from the start: however many features it would come to, it is one of these."""
        self.state = self.engine.begin(self.rng, self.model, self.data, self.start)
        began = time.thread_time()
        self.engine.step(self.rng, self.model, self.data, self.state)
        self.seconds.append(time.thread_time() - began)

    def steps(self, count: int) -> None:
        """Sweeps one after the other."""
        self.state = self.engine.begin(self.rng, self.model, self.data, self.start)
        for _ in range(count):
            self.engine.step(self.rng, self.model, self.data, self.state)

    @property
    def least(self) -> float:
        return min(self.seconds[2:])


def in_turns(chains: list[Chain], steps: int) -> None:
    for _ in range(steps):
        for chain in chains:
            chain.step()


def first_guess(data: Data, k: int) -> np.ndarray:
    return np.random.default_rng(1).random((data.n, k)) < 0.3


def coded(frame: pd.DataFrame, likelihood: Any) -> tuple[Any, Data]:
    """The likelihood of a table, and its data."""
    columns = likelihood.columns_of(frame)
    codes = columns.encode(frame)
    likelihood = likelihood.with_layout(columns, codes)
    return likelihood, Data.checked(likelihood.known.expand(codes))


def row(what: str, first: Chain, second: Chain) -> list[str]:
    times = [f"{1e3 * chain.least:.1f} ms" for chain in (first, second)]
    ks = f"{first.state.latent.shape[1]}, {second.state.latent.shape[1]}"
    return [what, ks, *times, f"{first.least / second.least:.2f}"]


def counties(steps: int, k: int) -> list[list[str]]:
    """Sweeps over the table, and over Gaussian data of the same size."""
    frame, found = make("counties").frame, []
    for kind, engine in (
        (thali.MixedColumns, thali.CollapsedGibbs(moves=0)),
        (thali.MixedFactors, thali.UncollapsedGibbs()),
    ):
        likelihood, data = coded(frame, kind())
        rng, settled = (
            np.random.default_rng(1),
            Chain(likelihood, engine, data, first_guess(data, k)),
        )
        settled.steps(SETTLING)
        Z, at = settled.state.latent.astype(bool), settled.state
        hyper, k = getattr(at, "all_hyper", at.hyper), Z.shape[1]
        W = Z * rng.standard_normal(Z.shape) if kind is thali.MixedFactors else Z
        X = W @ rng.standard_normal((k, data.d)) + rng.standard_normal((data.n, data.d))
        plain: Any = thali.SparseFactor()
        if kind is thali.MixedColumns:
            plain = thali.LinearGaussian(sigma_x=1.0, sigma_a=1.0)
        pair = Chain(likelihood, engine, data, Z, hyper), Chain(plain, engine, Data.of(X), Z)
        in_turns(list(pair), steps)
        name = f"{kind.__name__} on counties, {type(plain).__name__} on {data.n} × {data.d}"
        found.append(row(name, *pair))
    return found


def gaps(
    steps: int, n: int, d: int, k: int, hidden: float = HIDDEN, parts: Any = (*LINEAR, *OTHERS)
) -> list[list[str]]:
    """Sweeps over data with gaps, and over all of it."""
    rng, found = np.random.default_rng(0), []
    Z = rng.random((n, k)) < 0.3
    X = Z @ rng.standard_normal((k, d)) + 0.3 * rng.standard_normal((n, d))
    holes = np.where(rng.random(X.shape) < hidden, np.nan, X)
    for likelihood, engine in parts:
        chains = []
        for each in (holes, X):
            own, data = likelihood, Data.of(each)
            if hasattr(likelihood, "with_layout"):
                own, data = coded(pd.DataFrame(each), likelihood)
            chains.append(Chain(own, engine, data, Z))
        in_turns(chains, steps)
        name = f"{type(likelihood).__name__}, {type(engine).__name__}, {n} × {d}, {hidden:.0%}"
        found.append(row(name, *chains))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parts = ["counties", "gaps", "sizes"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    steps, size = (6, (200, 20, 4)) if options.quick else (40, (1000, 50, 10))
    heads = ["sweep", "features at the end", "one", "other", "one / other"]
    with threadpool_limits(1):
        try:
            if "counties" in options.only:
                print(markdown(heads, counties(steps, 10)), end="\n\n", flush=True)
        except real_data.Skipped as reason:
            print(reason, file=sys.stderr)
        heads[2:4] = "with gaps", "complete"
        if "gaps" in options.only:
            print(markdown(heads, gaps(steps, *size)), end="\n\n", flush=True)
        if "sizes" in options.only:
            sizes = SIZES[:2] if options.quick else SIZES
            print(markdown(heads, [each for at in sizes for each in gaps(steps, *at, LINEAR)]))


if __name__ == "__main__":
    main()
