"""What a sweep over the rows of a partition costs.

1. A plain sampler in NumPy (below: one row at a time, all clusters at once) against ours, on 10⁵
   rows in the plane in about twenty clusters, Gaussian columns with means and variances integrated
   out, numbers for hyperparameters.
2. How far ours is from the floor. For each row and cluster there are 6 D + 4 multiply-adds, one
   logarithm and one exponential; a row that comes or goes has D more of each. The floor is their
   number times what one takes in a loop of compiled code here (Numba calls the C library for
   logarithms; NumPy's own, several at once, are shown beside it).
3. Cost against N, from 10³ to 10⁵ rows, and the slope of log seconds on log N, which should be 1.

Nothing is asserted: machines differ, ratios less so.

    python benchmarks/clusters.py [--quick]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numba import njit
from scipy.special import gammaln
from tables import markdown

import thali
from thali.data import Data
from thali.engines.clusters import gibbs
from thali.model import Model

KAPPA, SCALE = 0.05, 0.1


def planted(n: int, k: int = 20, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows in k clusters of standard deviation one, some of which touch, and their labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(k, size=n)
    return rng.normal(size=(n, d)) + rng.uniform(-12.0, 12.0, size=(k, d))[labels], labels


class Plain:
    """Neal's algorithm 3 as one would first write it with NumPy."""

    def __init__(self, X: np.ndarray, labels: np.ndarray, likelihood: thali.NormalGamma) -> None:
        d = X.shape[1]
        self.X, self.labels, self.alpha = X - likelihood.center(d), labels.copy(), 1.0
        self.a, self.b, self.kappa = likelihood.shape, likelihood.rates(d, SCALE), KAPPA
        k = labels.max() + 1
        self.n = np.bincount(labels).astype(float)
        self.sums = np.stack([self.X[labels == j].sum(axis=0) for j in range(k)])
        self.squares = np.stack([(self.X[labels == j] ** 2).sum(axis=0) for j in range(k)])

    def log_densities(self, x: np.ndarray, n, sums, squares) -> np.ndarray:
        """log p(x | cluster) of every cluster."""
        kappa, a = (self.kappa + n)[:, None], (self.a + 0.5 * n)[:, None]
        mean = sums / kappa
        b = self.b + 0.5 * (squares - sums * mean)
        wide = 2.0 * b * (kappa + 1.0) / kappa
        each = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(np.pi * wide)
        each = each - (a + 0.5) * np.log1p((x - mean) ** 2 / wide)
        return each.sum(axis=1)

    def rows(self, rng: np.random.Generator, which: range) -> None:
        """Take each of these rows out and draw where it goes."""
        nothing = np.zeros((1, self.X.shape[1]))
        for i in which:
            x, k = self.X[i], self.labels[i]
            self.n[k] -= 1
            self.sums[k] -= x
            self.squares[k] -= x * x
            old = np.log(np.maximum(self.n, 1e-300)) + self.log_densities(
                x, self.n, self.sums, self.squares
            )
            new = np.log(self.alpha) + self.log_densities(x, np.zeros(1), nothing, nothing)
            logs = np.append(old, new)
            p = np.exp(logs - logs.max())
            k = int(rng.choice(len(p), p=p / p.sum()))
            if k == len(self.n):
                self.n = np.append(self.n, 0.0)
                self.sums = np.vstack([self.sums, nothing])
                self.squares = np.vstack([self.squares, nothing])
            self.labels[i] = k
            self.n[k] += 1
            self.sums[k] += x
            self.squares[k] += x * x


def seconds_of_plain(X: np.ndarray, labels: np.ndarray, likelihood, rows: int) -> float:
    """Of a sweep, from some of its rows."""
    plain, rng = Plain(X, labels, likelihood), np.random.default_rng(0)
    plain.rows(rng, range(50))
    began = time.perf_counter()
    plain.rows(rng, range(50, 50 + rows))
    return (time.perf_counter() - began) / rows * len(X)


def seconds_of_ours(
    X: np.ndarray, labels: np.ndarray, likelihood: object, sweeps: int
) -> tuple[float, float]:
    """Of a sweep, the median, and the mean number of clusters."""
    data, rng = Data.of(X), np.random.default_rng(0)
    model = Model(thali.DirichletProcess(1.0), likelihood).resolve(data)
    state = gibbs.state_of(model, data, labels, model.start(data))
    tables, taken, clusters = model.prior.tables(data.n), [], []
    for made in range(sweeps + 2):
        began = time.perf_counter()
        gibbs.sweep_rows(rng, model, state, tables)
        if made > 1:  # compiled, and settled
            taken.append(time.perf_counter() - began)
            clusters.append(state.n_components)
    return float(np.median(taken)), float(np.mean(clusters))


@njit(fastmath=False)
def _sum_of_logs(x):
    total = 0.0
    for i in range(len(x)):
        total += np.log(x[i])
    return total


@njit(fastmath=False)
def _sum_of_exps(x):
    total = 0.0
    for i in range(len(x)):
        total += np.exp(-x[i])
    return total


@njit(fastmath=True)
def _multiply_adds(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


def nanoseconds(call, size: int) -> float:
    """Of one of ``size`` operations that a call does: the shortest of many."""
    call()
    best = np.inf
    for _ in range(30):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return 1e9 * best / size


def costs() -> dict[str, float]:
    """Nanoseconds of a logarithm, an exponential and a multiply-add here."""
    x = np.random.default_rng(0).uniform(1.0, 30.0, 4000)
    return {
        "log": nanoseconds(lambda: _sum_of_logs(x), len(x)),
        "exp": nanoseconds(lambda: _sum_of_exps(x), len(x)),
        "multiply-add": nanoseconds(lambda: _multiply_adds(x, x), len(x)),
        "log, by NumPy": nanoseconds(lambda: np.log(x), len(x)),
        "exp, by NumPy": nanoseconds(lambda: np.exp(-x), len(x)),
    }


def main(quick: bool) -> None:
    n = 20_000 if quick else 100_000
    X, labels = planted(n)
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    likelihood = thali.NormalGamma(kappa=KAPPA, scale=SCALE).resolve(Data.of(X))
    ours, k = seconds_of_ours(X, labels, likelihood, 5 if quick else 15)
    plain = seconds_of_plain(X, labels, likelihood, 500 if quick else 3000)
    wishart = thali.NormalWishart(kappa=KAPPA, scale=SCALE)
    full, full_k = seconds_of_ours(X, labels, wishart, 5 if quick else 15)
    print(f"\n## {n} × 2 rows, a sweep\n")
    rows = [
        ["plain NumPy, columns independent", f"{1e3 * plain:.0f}", "", "1"],
        ["thali, columns independent", f"{1e3 * ours:.1f}", f"{k:.1f}", f"{plain / ours:.0f}"],
        ["thali, full covariances", f"{1e3 * full:.1f}", f"{full_k:.1f}", f"{plain / full:.0f}"],
    ]
    print(markdown(["sampler", "ms", "mean K", "times faster"], rows))
    each, d = costs(), X.shape[1]
    pairs, moved = n * (k + 1.0), 2.0 * n
    adds = (6.0 * d + 4.0) * (pairs + moved)
    floors = {
        kind: 1e-9 * (pairs * (each[log] + each[exp]) + moved * d * each[log])
        + 1e-9 * adds * each["multiply-add"]
        for kind, log, exp in (
            ("compiled code", "log", "exp"),
            ("NumPy", "log, by NumPy", "exp, by NumPy"),
        )
    }
    print("\n## The floor\n")
    print(markdown(["operation", "ns"], [[name, f"{ns:.2f}"] for name, ns in each.items()]))
    for kind, floor in floors.items():
        print(f"\nfloor with logarithms of {kind}: {1e3 * floor:.1f} ms; ours {ours / floor:.2f}×")
    print("\n## Cost against N\n")
    sizes = [1000, 3162, 10_000, 31_623] + ([] if quick else [100_000])
    taken = []
    for size in sizes:
        X, labels = planted(size)
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        taken.append(seconds_of_ours(X, labels, thali.NormalGamma(KAPPA, SCALE), 15)[0])
    print(markdown(["N", "ms"], [[s, f"{1e3 * t:.2f}"] for s, t in zip(sizes, taken, strict=True)]))
    slope = np.polyfit(np.log(sizes), np.log(taken), 1)[0]
    print(f"\nseconds ∝ N^{slope:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a sweep over a partition costs.")
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke run")
    main(parser.parse_args().quick)
