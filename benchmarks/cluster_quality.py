"""How good are clusterings by default settings, beside those of scikit-learn?

Of every data set (``cluster_sets.py``) two thirds of the rows are fitted, and four things told: the
mean log density of the rows held out, the adjusted Rand index of the labels of the rows fitted
against the known classes, the number of clusters, and seconds of processors (thali's chains run on
several; one thread of BLAS for all).

    thali            LatentPartition(random_state=seed), with the likelihood of 0 and 1 or of counts
                     where the data are such
    variational      BayesianGaussianMixture(20 components), full covariances
    BIC              GaussianMixture, full covariances, 1 … 20 components by the criterion of Bayes
    HDBSCAN          has no density; rows that it calls noise are a cluster of their own for the
                     index, and not counted

Where one class is all there is, the index is 1 for one cluster and 0 for more. Rows of 0 and 1 and
of counts have probabilities and no densities, so that those of others are not compared.

    python benchmarks/cluster_quality.py [--quick] [--seeds 3] [--only iris] [--methods thali BIC]

A win or a loss in density is a mean difference, over the rows held out of all seeds, of more than
twice its standard error from the better of the others; in the index, of more than 0.02.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from cluster_sets import NAMES, Task, make
from sklearn.cluster import HDBSCAN
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from tables import markdown
from threadpoolctl import threadpool_limits

import thali

MOST = 20  # components of scikit-learn's mixtures
CLEAR = 0.02  # a difference of two indices that counts
SMOKE = ("iris", "unequal", "binary", "counts")


class Result(NamedTuple):
    """What one method says of one data set."""

    densities: np.ndarray | None  # of the rows held out
    index: float
    clusters: int
    seconds: float


def fit_thali(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels of the rows fitted, and the log densities of those held out."""
    model = thali.LatentPartition(likelihood=task.likelihood, random_state=seed, progress=False)
    model.fit(task.X)
    return model.labels_, model.score_samples(task.new)


def fit_variational(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    model = BayesianGaussianMixture(n_components=MOST, random_state=seed).fit(task.X)
    return model.predict(task.X), densities(model, task)


def fit_bic(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    models = [GaussianMixture(k, random_state=seed).fit(task.X) for k in range(1, MOST + 1)]
    model = min(models, key=lambda each: each.bic(task.X))
    return model.predict(task.X), densities(model, task)


def fit_hdbscan(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    return HDBSCAN(copy=True).fit(task.X).labels_, None


def densities(model: Any, task: Task) -> np.ndarray | None:
    """Of the rows held out, where the data are measurements."""
    return model.score_samples(task.new) if task.likelihood == "normal_wishart" else None


Fit = Callable[[Task, int], tuple[np.ndarray, np.ndarray | None]]
METHODS: dict[str, Fit] = {
    "thali": fit_thali,
    "variational": fit_variational,
    "BIC": fit_bic,
    "HDBSCAN": fit_hdbscan,
}


def measure(fit: Fit, task: Task, seed: int) -> Result:
    """One fit, its rows held out, and its time."""
    began = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels, found = fit(task, seed)
    seconds = time.process_time() - began
    index = adjusted_rand_score(task.classes, labels)
    return Result(found, float(index), len(np.unique(labels[labels >= 0])), seconds)


def run(name: str, methods: list[str], seeds: range) -> dict[str, list[Result]]:
    """Every method on every split of a data set."""
    found: dict[str, list[Result]] = {method: [] for method in methods}
    for seed in seeds:
        task = make(name, seed)
        for method in methods:
            result = measure(METHODS[method], task, seed)
            found[method].append(result)
            density = np.nan if result.densities is None else result.densities.mean()
            print(
                f"{name} seed {seed} {method}: density {density:.3f}, index {result.index:.3f}, "
                f"{result.clusters} clusters, {result.seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    return found


def row(name: str, method: str, results: list[Result]) -> list[str]:
    """Means over seeds, and the number of clusters of each."""
    known = [r.densities.mean() for r in results if r.densities is not None]
    return [
        name,
        method,
        f"{np.mean(known):.3f}" if known else "",
        f"{np.mean([r.index for r in results]):.3f}",
        " ".join(str(r.clusters) for r in results),
        f"{np.mean([r.seconds for r in results]):.1f}",
    ]


def verdict(own: list[Result], others: dict[str, list[Result]]) -> tuple[str, str]:
    """In density and in the index: win, tie or loss, and against whom; none where there is none."""
    rivals = {k: v for k, v in others.items() if v[0].densities is not None}
    density = ""
    if rivals:
        best = max(rivals, key=lambda k: np.mean([r.densities.mean() for r in rivals[k]]))
        pairs = zip(own, rivals[best], strict=True)
        gaps = np.concatenate([a.densities - b.densities for a, b in pairs])
        density = judged(gaps.mean(), 2.0 * gaps.std() / np.sqrt(len(gaps)), best)
    best = max(others, key=lambda k: np.mean([r.index for r in others[k]]))
    gap = np.mean([r.index for r in own]) - np.mean([r.index for r in others[best]])
    return density, judged(float(gap), CLEAR, best)


def judged(gap: float, clear: float, rival: str) -> str:
    """A gap in words."""
    word = "win" if gap > clear else "loss" if gap < -clear else "tie"
    return f"{word}, {gap:+.3f} ({rival})"


def in_words(verdicts: dict[str, tuple[str, str]]) -> str:
    """How often thali won, tied and lost."""
    lines = []
    for what, at in (("log density of rows held out", 0), ("adjusted Rand index", 1)):
        said = {name: v[at] for name, v in verdicts.items() if v[at]}
        parts = []
        for word in ("win", "tie", "loss"):
            names = [name for name, text in said.items() if text.startswith(word)]
            plural = {"win": "wins", "tie": "ties", "loss": "losses"}[word]
            parts.append(f"{len(names)} {plural} ({', '.join(names) or 'none'})")
        lines.append(f"In the {what}, against the best of the others: {'; '.join(parts)}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few sets and one seed: a smoke run")
    parser.add_argument("--seeds", type=int, help="splits and draws of each set (default 3)")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="DATA", help=" ".join(NAMES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    names = options.only or (SMOKE if options.quick else NAMES)
    seeds = range(options.seeds or (1 if options.quick else 3))
    methods = options.methods
    every = [make(name, 0) for name in names]
    for task in {task.likelihood: task for task in every}.values():
        fit_thali(task._replace(X=task.X[:40]), 0)  # compiled before the clock runs
    rows, verdicts = [], {}
    for name in names:
        found = run(name, methods, seeds)
        rows += [row(name, method, results) for method, results in found.items()]
        if "thali" in found and len(found) > 1:
            verdicts[name] = verdict(found.pop("thali"), found)
    print(
        markdown(["data", "method", "log density", "Rand index", "clusters", "processor s"], rows)
    )
    if verdicts:
        print()
        table = [[name, *said] for name, said in verdicts.items()]
        print(markdown(["data", "log density, thali's against", "Rand index"], table))
        print("\n" + in_words(verdicts))


if __name__ == "__main__":
    main()
