"""Data with known classes for benchmarks of clusterings: real ones of scikit-learn, and drawn ones.

Measurements are standardized by means and standard deviations of the rows that are fitted; pixels
of digits are whole numbers, to which uniform noise is added, so that they have a density. A third
of the rows is held out.

    name            rows      columns  classes
    iris            150       4        3
    wine            178       13       3
    cancer          569       30       2
    digits_10       1797      10       10   principal components
    digits_20       1797      20       10   principal components
    digits          1797      57 or so 10   pixels that vary in the rows fitted
    separated       600       2        5    unit Gaussians 8 apart or more
    unequal         833       2        3    500, 50 and 5 of every 555 rows, unit Gaussians
    tiny            600       3        60   means of standard deviation 8, unit Gaussians
    overlapping     900       4        4    full covariances, means of standard deviation 2.5
    heavy_tails     900       2        3    t with 3 degrees, 8 apart
    one             600       3        1    a Gaussian of full covariance
    uniform         600       2        1    the unit square
    binary          600       30       5    probabilities Beta(0.4, 0.4)
    counts          600       40       5    60 draws a row, shares Dirichlet(0.3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn import datasets

__all__ = ["NAMES", "Task", "make"]

HELD_OUT = 1.0 / 3.0
PIXELS = 57


class Task(NamedTuple):
    """Rows to fit and rows held out, with the likelihood that suits them."""

    X: np.ndarray
    classes: np.ndarray
    new: np.ndarray
    likelihood: str = "normal_wishart"


Rows = tuple[np.ndarray, np.ndarray]


def digits(rng: np.random.Generator) -> Rows:
    """Pixels with noise; a constant pixel has no say (those that vary in fewest rows go first)."""
    found = datasets.load_digits()
    return found.data + rng.random(found.data.shape), found.target


def gaussians(rng: np.random.Generator, means: np.ndarray, sizes: list[int]) -> Rows:
    """Unit Gaussians around means."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return means[labels] + rng.normal(size=(len(labels), means.shape[1])), labels


def separated(rng: np.random.Generator) -> Rows:
    means = np.array([[0, 0], [8, 0], [0, 8], [8, 8], [16, 4]], float)
    return gaussians(rng, means, [120] * 5)


def unequal(rng: np.random.Generator) -> Rows:
    return gaussians(rng, np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 7.0]]), [750, 75, 8])


def tiny(rng: np.random.Generator) -> Rows:
    return gaussians(rng, 8.0 * rng.normal(size=(60, 3)), [10] * 60)


def overlapping(rng: np.random.Generator) -> Rows:
    """Each class has a covariance of its own."""
    parts = []
    for _ in range(4):
        root = rng.normal(size=(4, 4)) / np.sqrt(2.0)
        parts.append(2.5 * rng.normal(size=4) + rng.normal(size=(225, 4)) @ root)
    return np.vstack(parts), np.repeat(np.arange(4), 225)


def heavy_tails(rng: np.random.Generator) -> Rows:
    labels = np.repeat(np.arange(3), 300)
    means = np.array([[0.0, 0.0], [8.0, 0.0], [4.0, 7.0]])
    wide = np.sqrt(3.0 / rng.chisquare(3.0, size=(900, 1)))
    return means[labels] + wide * rng.normal(size=(900, 2)), labels


def one(rng: np.random.Generator) -> Rows:
    return rng.normal(size=(600, 3)) @ rng.normal(size=(3, 3)), np.zeros(600, int)


def uniform(rng: np.random.Generator) -> Rows:
    return rng.random((600, 2)), np.zeros(600, int)


def binary(rng: np.random.Generator) -> Rows:
    labels = np.repeat(np.arange(5), 120)
    chances = rng.beta(0.4, 0.4, size=(5, 30))
    return (rng.random((600, 30)) < chances[labels]).astype(float), labels


def counts(rng: np.random.Generator) -> Rows:
    shares = rng.dirichlet(np.full(40, 0.3), size=5)
    labels = np.repeat(np.arange(5), 120)
    return np.stack([rng.multinomial(60, shares[k]) for k in labels]).astype(float), labels


def read(load: Callable[[], datasets._base.Bunch]) -> Callable[[np.random.Generator], Rows]:
    """A data set of scikit-learn."""
    return lambda rng: (load().data, load().target)


SOURCES: dict[str, Callable[[np.random.Generator], Rows]] = {
    "iris": read(datasets.load_iris),
    "wine": read(datasets.load_wine),
    "cancer": read(datasets.load_breast_cancer),
    "digits_10": digits,
    "digits_20": digits,
    "digits": digits,
    "separated": separated,
    "unequal": unequal,
    "tiny": tiny,
    "overlapping": overlapping,
    "heavy_tails": heavy_tails,
    "one": one,
    "uniform": uniform,
    "binary": binary,
    "counts": counts,
}
NAMES = tuple(SOURCES)
LIKELIHOODS = {"binary": "beta_bernoulli_items", "counts": "dirichlet_multinomial"}


def make(name: str, seed: int) -> Task:
    """A data set, split at random and, of measurements, standardized."""
    rng = np.random.default_rng(seed)
    X, classes = SOURCES[name](rng)
    order = rng.permutation(len(X))
    held = int(HELD_OUT * len(X))
    old, new = order[held:], order[:held]
    if name in LIKELIHOODS:
        return Task(X[old], classes[old], X[new], LIKELIHOODS[name])
    if name.startswith("digits_"):
        X = components(X, old, int(name.removeprefix("digits_")))
    elif name == "digits":
        X = X[:, np.sort(np.argsort(-X[old].var(axis=0), kind="stable")[:PIXELS])]
    Y = (X - X[old].mean(axis=0)) / X[old].std(axis=0)
    return Task(Y[old], classes[old], Y[new])


def components(X: np.ndarray, old: np.ndarray, count: int) -> np.ndarray:
    """All rows by the first principal components of those that are fitted."""
    away = X - X[old].mean(axis=0)
    return away @ np.linalg.svd(away[old], full_matrices=False)[2][:count].T
