"""Hidden entries of the tables of `valera_2020.py`: how much do the other columns say of them?

Mean log probability of what was hidden, a density for numbers in their own units, under

    features     the model, averaged over draws
    none         the same without any feature: each column has its kind's distribution
    by itself    each column's own distribution, smoothed: frequencies of levels with 1/2 added, a
                 Gaussian kernel estimate of numbers, on the logarithm of positive ones and counts,
                 with a normal one of weight 0.05 for what is far from all others

As in the authors' scripts nothing counts with less than −30: a number far from all that a pattern
of features has, whose noise is small, would outweigh all others. Features can gain on "none" by
the shape of single columns alone; what they gain on "by itself" is what columns say of each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gaussian_kde, norm
from valera_2020_tables import Example

import thali
from thali.evaluation import Holdout, holdout

CHAINS = 2
LEAST_LOG = -30.0  # what any entry counts with
FAR = 0.05  # weight of the normal distribution
ALMOST_NONE = 1e-9  # α with which a table has no features


def fitted(example: Example, X: Any, prior: Any, sweeps: int, seed: int, **how: Any) -> Any:
    """A model of an example's table, or of what is left of it."""
    return thali.LatentFeatures(
        prior=prior,
        likelihood=thali.MixedColumns(types=example.types),
        engine=thali.CollapsedGibbs(sweeps=sweeps, chains=CHAINS, **how),
        random_state=seed,
        progress=False,
    ).fit(X)


def means(test: Holdout, logs: np.ndarray) -> np.ndarray:
    """The mean log probability of the hidden entries of each column."""
    logs = np.maximum(logs, LEAST_LOG)
    return np.array([logs[test.columns == d].mean() for d in np.unique(test.columns)])


def by_itself(test: Holdout, kinds: tuple[str, ...]) -> np.ndarray:
    """Log probabilities of the hidden entries by each column's own distribution."""
    found = np.empty(len(test.values))
    for d in np.unique(test.columns):
        own = test.columns == d
        found[own] = log_smoothed(test.X.iloc[:, d].dropna(), test.values[own], kinds[d])
    return found


def log_smoothed(seen: pd.Series, hidden: np.ndarray, kind: str) -> np.ndarray:
    """Log probabilities of hidden entries by the distribution of those that were seen."""
    if kind in ("binary", "ordinal", "categorical"):
        counts = seen.value_counts()
        levels = len(set(counts.index) | set(hidden.tolist()))
        own = np.array([counts.get(level, 0) for level in hidden], float)
        return np.log((own + 0.5) / (len(seen) + 0.5 * levels))
    x, at = seen.to_numpy(float), np.asarray(hidden, float)
    if kind == "count":
        low, high, middle = np.log(at + 1.0), np.log(at + 2.0), np.log(x + 1.5)
        within = gaussian_kde(middle).integrate_box_1d
        kernels = np.array([within(*each) for each in zip(low, high, strict=True)])
        rest = np.diff(norm.cdf([low, high], middle.mean(), middle.std()), axis=0)[0]
        return np.log((1.0 - FAR) * kernels + FAR * rest)
    if kind == "positive":
        return smooth(np.log(x), np.log(at)) - np.log(at)
    return smooth(x, at)


def smooth(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The log density of a kernel estimate."""
    kernels, rest = gaussian_kde(x)(at), norm.pdf(at, x.mean(), x.std())
    return np.log((1.0 - FAR) * kernels + FAR * rest)


def compare(example: Example, share: float, sweeps: int, seed: int) -> tuple[np.ndarray, ...]:
    """Of one mask: the number of hidden entries of each column, and their three scores."""
    test = holdout(example.frame, share, "entries", seed)
    model = fitted(example, test.X, thali.IBP(alpha=1.0), sweeps, seed)
    none = fitted(example, test.X, thali.IBP(alpha=ALMOST_NONE), sweeps, seed, init="empty")
    kinds = model.likelihood_.known.table.kinds
    counts = np.bincount(test.columns)
    logs = test.log_densities(model), test.log_densities(none), by_itself(test, kinds)
    return counts, *(means(test, each) for each in logs)
