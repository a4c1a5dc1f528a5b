"""Variational inference of clusters beside scikit-learn's, on rows of a planted Gaussian mixture.

10⁶ × 10 rows of 15 clusters with full covariances of their own, and 10⁵ rows more that nobody sees.
Both may have 20 clusters, of any shape, under a Dirichlet process; each has its own way to begin
and to end. Prints the seconds of each fit by the clock and of the processor, all that `fit` does
being counted, the mean log density of the rows held out, and the ratio of the seconds.

    python benchmarks/variational_partition.py [--quick] [--seed 0] [--iterations 100]

`--quick` has 10⁵ rows. `--iterations` are scikit-learn's at most, 100 by default, as are its own.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from tables import markdown

import thali

K, D, MOST, HELD_OUT = 15, 10, 20, 100_000


def mixture(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows, their clusters, and the mean log density of the last ``HELD_OUT`` at the truth."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(K, 3.0))
    means = 3.0 * rng.standard_normal((K, D))
    roots = rng.standard_normal((K, D, D)) / np.sqrt(D) + 0.3 * np.eye(D)
    z = rng.choice(K, n, p=weights)
    X = np.empty((n, D))
    for k in range(K):
        own = z == k
        X[own] = means[k] + rng.standard_normal((int(own.sum()), D)) @ roots[k].T
    logs = []
    for k in range(K):
        y = np.linalg.solve(roots[k], (X[-HELD_OUT:] - means[k]).T)
        known = np.log(weights[k]) - np.linalg.slogdet(roots[k])[1] - 0.5 * D * np.log(2 * np.pi)
        logs.append(known - 0.5 * np.square(y).sum(axis=0))
    return X, z, float(np.logaddexp.reduce(logs, axis=0).mean())


def ours(X: np.ndarray, seed: int, **settings: object) -> tuple[float, thali.LatentPartition]:
    engine = thali.Variational(truncation=MOST, **settings)
    model = thali.LatentPartition(engine=engine, random_state=seed, progress=False)
    began = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - began, model


def theirs(X: np.ndarray, seed: int, iterations: int) -> tuple[float, BayesianGaussianMixture]:
    model = BayesianGaussianMixture(
        n_components=MOST,
        covariance_type="full",
        weight_concentration_prior_type="dirichlet_process",
        random_state=seed,
        max_iter=iterations,
    )
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table says how many it made
        model.fit(X)
    return time.perf_counter() - began, model


def main(quick: bool, seed: int, iterations: int) -> None:
    n = 100_000 if quick else 1_000_000
    X, z, truth = mixture(n + HELD_OUT, seed)
    train, test = X[:n].copy(), X[n:].copy()
    ours(train[:2000], seed)  # what is imported and compiled at the first call
    rows, seconds = [["the truth", "", "", f"{truth:.4f}", K, "", ""]], {}
    for name, settings in (("thali", {}), ("thali, n_init=1", {"n_init": 1})):
        used = time.process_time()
        took, model = ours(train, seed, **settings)
        used = time.process_time() - used
        seconds[name] = took
        found = adjusted_rand_score(z[:n], model.labels_)
        passes = model.history_["elbo"].shape[1]
        score = f"{model.score(test):.4f}"
        rows.append([name, f"{took:.1f}", f"{used:.1f}", score, model.n_clusters_, passes])
        rows[-1].append(f"{found:.4f}")
        print(rows[-1], flush=True)
    used = time.process_time()
    took, other = theirs(train, seed, iterations)
    used, labels = time.process_time() - used, other.predict(train)
    found, clusters = adjusted_rand_score(z[:n], labels), len(np.unique(labels))
    score = f"{other.score(test):.4f}"
    rows.append(["scikit-learn", f"{took:.1f}", f"{used:.1f}", score, clusters, other.n_iter_])
    rows[-1].append(f"{found:.4f}")
    print(f"\n## {n}×{D}, {K} clusters planted, {MOST} at most, seed {seed}\n")
    head = ["fit", "s", "s of cores", "log density held out", "clusters", "passes", "adjusted Rand"]
    print(markdown(head, rows))
    ratios = ", ".join(f"{name}: {took / own:.1f}" for name, own in seconds.items())
    print(f"\nscikit-learn's seconds over those of {ratios}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Variational inference of clusters.")
    parser.add_argument("--quick", action="store_true", help="10⁵ rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=100, help="of scikit-learn, at most")
    options = parser.parse_args()
    main(options.quick, options.seed, options.iterations)
