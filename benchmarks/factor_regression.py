"""Columns of new rows predicted from others, by factors, beside regressions.

Genes of E. coli by the times at which their expression was measured (Kao and others 2004): the
model is fitted to four fifths of the genes, and of the others the later times are predicted from
the earlier ones, each fifth once. The regressions are given the same genes; the ridge has its
penalty by cross-validation. Errors are in standard deviations of a column; intervals are of 90%.

    THALI_DATA=… python benchmarks/factor_regression.py [--predicted 6] [--quick]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import real_data
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold
from tables import markdown

import thali


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--predicted", type=int, default=6, help="the last columns, so many")
    parser.add_argument("--quick", action="store_true", help="one fifth, and a short chain")
    options = parser.parse_args()
    try:
        X = real_data.archive("ecoli_nca.npz")["expression"].astype(float)
    except real_data.Skipped as reason:
        print(reason)
        return
    scale, known = X.std(axis=0), X.shape[1] - options.predicted
    errors: dict[str, list[float]] = {}
    inside, seconds = [], []
    for train, test in list(KFold(5, shuffle=True, random_state=0).split(X))[
        : 1 if options.quick else 5
    ]:
        new = X[test].copy()
        new[:, known:] = np.nan
        began = time.perf_counter()
        engine = thali.UncollapsedGibbs(sweeps=50, chains=1) if options.quick else "auto"
        model = thali.LatentFeatures(engine=engine, random_state=0, progress=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", thali.DegenerateFit)
            filled, low, high = model.fit(X[train]).impute(new, interval=0.9)
        seconds.append(time.perf_counter() - began)
        inside.append(((low <= X[test]) & (X[test] <= high))[:, known:])
        said = {"thali": filled[:, known:]}
        said["column means"] = np.tile(X[train, known:].mean(axis=0), (len(test), 1))
        for name, method in (
            ("least squares", LinearRegression()),
            ("ridge", RidgeCV(np.logspace(-3, 3, 13))),
        ):
            said[name] = method.fit(X[train, :known], X[train, known:]).predict(X[test, :known])
        for name, guess in said.items():
            errors.setdefault(name, []).extend(((guess - X[test, known:]) / scale[known:]).ravel())
    rows = [[name, f"{np.sqrt(np.mean(np.square(e))):.3f}"] for name, e in errors.items()]
    print(type(model.likelihood_).__name__, f"with {model.n_components_} features in the last fit")
    print(markdown(["method", "RMSE"], rows))
    print(f"\ncoverage {np.concatenate(inside).mean():.3f}, {np.mean(seconds):.1f} s a fit")


if __name__ == "__main__":
    main()
