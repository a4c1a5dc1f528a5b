"""Priors of how many rows share a feature: do they bring fewer features of one row alone?

One tenth of the entries is hidden, each prior is fitted to the rest with default settings, and told
are, as means over draws: features, features that one row alone has, the log density of a hidden
entry, and how that differs from the Indian buffet process's (± twice the standard error over
splits). On the 6×6 images, and on real tables where THALI_DATA names a folder that has them.

Also: what a sweep costs with potentials at the buffet process's values, beside its own.

    python benchmarks/flexible_features.py [--splits 3] [--only images] [--cost]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import real_data
from tables import markdown

import thali
from thali.data import Data
from thali.evaluation import holdout
from thali.model import Model
from thali.starts import Start

PRIORS = {
    "IBP": thali.IBP(),
    "SmoothIBP(power=0)": thali.SmoothIBP(power=0.0),
    "SmoothIBP()": thali.SmoothIBP(),
    "LearnedIBP()": thali.LearnedIBP(),
}
SETS = ("images", "votes", "animals")


def table_of(name: str) -> np.ndarray | None:
    if name == "images":
        return thali.datasets.images(n=100, random_state=0).X
    try:
        return np.asarray(real_data.load(name), float)
    except real_data.Skipped as reason:
        print(reason)
        return None


def told(X: np.ndarray, prior: object, split: int) -> tuple[float, float, float, float]:
    """Features, those of one row, log density of a hidden entry, and seconds."""
    test = holdout(X, 0.1, "entries", random_state=split)
    began = time.perf_counter()
    model = thali.LatentFeatures(prior=prior, random_state=split, progress=False).fit(test.X)
    taken = time.perf_counter() - began
    sums = [draw.Z.sum(axis=0) for draw in model.draws(200)]
    found = np.mean([[len(m), (m == 1).sum()] for m in sums], axis=0)
    return float(found[0]), float(found[1]), test.log_predictive(model), taken


def quality(names: list[str], splits: int) -> None:
    rows = []
    for name in names:
        if (X := table_of(name)) is None:
            continue
        base = None
        for label, prior in PRIORS.items():
            found = np.array([told(X, prior, split) for split in range(splits)])
            base = found if base is None else base
            apart = found[:, 2] - base[:, 2]
            error = 2.0 * apart.std(ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
            mean = found.mean(axis=0)
            row = [name, label, f"{mean[0]:.1f}", f"{mean[1]:.2f}", f"{mean[2]:.4f}"]
            rows.append([*row, f"{apart.mean():+.4f} ± {error:.4f}", f"{mean[3]:.1f}"])
            print(*rows[-1], flush=True)
    heads = ["data", "prior", "features", "of one row", "log density", "less IBP's", "s"]
    print("\n" + markdown(heads, rows))


def cost(n: int = 500, d: int = 500, k: int = 20, calls: int = 15) -> None:
    """Sweeps in turns, the median of their ratio."""
    rng = np.random.default_rng(0)
    Z = rng.random((n, k)) < 0.3
    X = Z @ rng.normal(size=(k, d)) + 0.5 * rng.normal(size=(n, d))
    data, engine = Data.of(X), thali.CollapsedGibbs(moves=0)
    made = thali.FlexibleIBP.from_expectations(m=2.0 / np.arange(1, n + 1), n_rows=n)
    states = []
    for prior in (thali.IBP(alpha=2.0), made):
        model = Model(prior, thali.LinearGaussian(0.5, 1.0))
        start = Start("given", Z, model.start(data))
        states.append((model, engine.begin(np.random.default_rng(0), model, data, start)))
    times = np.zeros((calls + 2, 2))
    for i in range(calls + 2):
        for j, (model, state) in enumerate(states):
            began = time.perf_counter()
            drawn = engine.several(np.random.default_rng(i), model, data, state, 4, keep=False)
            times[i, j] = (time.perf_counter() - began) / len(drawn)
    own, other = np.median(times[2:], axis=0)
    ratio = np.median(times[2:, 1] / times[2:, 0])
    print(f"a sweep at {n}×{d}, K = {k}: IBP {1e3 * own:.2f} ms, FlexibleIBP {1e3 * other:.2f} ms")
    print(f"median ratio of neighbouring calls: {ratio:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Priors of how many rows share a feature.")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--cost", action="store_true", help="the cost of a sweep alone")
    given = parser.parse_args()
    if not given.cost:
        quality(given.only, given.splits)
    cost()
