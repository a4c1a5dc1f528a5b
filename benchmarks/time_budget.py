"""How long a fit with a time budget takes on data whose fit would take minutes.

Every engine first fits a few rows, so that nothing is left to compile, and then 20000 rows of 500
columns with 20 planted features and two seconds. What is shown is all the time that `fit` takes,
what it found in it, and the log joint above that of the planted features (at the same
hyperparameters).

    python benchmarks/time_budget.py [--seconds 2] [--only collapsed_gibbs variational]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from tables import markdown

import thali
from thali.registry import ENGINES

ROWS, COLUMNS, FEATURES, SHARE, NOISE = 20000, 500, 20, 0.2, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits within a time budget, on tall data.")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    Z = rng.random((ROWS, FEATURES)) < SHARE
    X = Z @ rng.normal(size=(FEATURES, COLUMNS)) + NOISE * rng.normal(size=(ROWS, COLUMNS))
    rows = []
    for name in chosen.only:
        thali.LatentFeatures(engine=name, random_state=0, progress=False).fit(X[:60])
        model = thali.LatentFeatures(engine=name, random_state=0, progress=False)
        began = time.perf_counter()
        model.fit(X, time_budget=chosen.seconds)
        took = time.perf_counter() - began
        planted = model.fit_.model.at(model.fit_.mean_hyper()).log_joint(X, Z)
        above = model.log_joint_ - planted
        rows.append(
            [f"`{name}`", f"{took:.2f}", model.n_components_, f"{above:,.1f}", model.stopped_]
        )
    headers = ["engine", "seconds", "features", "log joint above the planted", "ended"]
    print(markdown(headers, rows))


if __name__ == "__main__":
    main()
