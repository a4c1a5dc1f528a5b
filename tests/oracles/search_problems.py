"""Random problems of a search, as the library has them and as the oracle does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import thali
from oracles import features
from oracles import search as oracle
from thali.data import Data
from thali.engines.search.candidates import Problem
from thali.model import Model

CLOSE = 1e-8
EXACT = {"width": None, "heuristic": "admissible", "expansion": "all"}
KINDS = ("ibp", "beta_bernoulli", "two_parameter_ibp")
OF_CLASSES = {  # priors, and their log probabilities of a class by its counts of histories
    "ibp": (thali.IBP(1.5), lambda counts, n: features.log_prior_ibp(counts, n, 1.5)),
    "two": (
        thali.TwoParameterIBP(2.0, 0.7),
        lambda counts, n: features.log_prior_two_parameter(counts, n, 2.0, 0.7),
    ),
    "finite": (
        thali.BetaBernoulli(3.0, n_components=3),
        lambda counts, n: features.log_prior_finite(counts, n, 3.0, 3),
    ),
}


@dataclass(frozen=True)
class Case:
    """Data and fixed hyperparameters."""

    X: np.ndarray
    prior: oracle.Prior
    sigma_x: float
    sigma_a: float

    @property
    def numbers(self):
        return self.prior, self.sigma_x, self.sigma_a

    @cached_property
    def best(self):
        """The highest log P(X, [Z]), by enumeration."""
        return oracle.most_probable(self.X, *self.numbers)[0]

    def log_joint(self, Z):
        return oracle.log_joint(self.X, Z[:, Z.any(axis=0)], *self.numbers)

    def score(self, Z, bound="convex", heuristic="admissible"):
        return oracle.score(self.X, Z, *self.numbers, bound, heuristic)

    @property
    def of_library(self):
        prior = self.prior
        if prior.kind == "ibp":
            return thali.IBP(alpha=prior.alpha)
        if prior.kind == "two_parameter_ibp":
            return thali.TwoParameterIBP(alpha=prior.alpha, beta=prior.beta)
        return thali.BetaBernoulli(alpha=prior.alpha, n_components=prior.n_components)

    @property
    def likelihood(self):
        return thali.LinearGaussian(sigma_x=self.sigma_x, sigma_a=self.sigma_a)

    def model(self):
        return Model(self.of_library, self.likelihood)

    def problem(self, bound="convex"):
        data = Data.of(self.X)
        return Problem(
            data.reduced, data.squares, data.d, self.of_library, self.sigma_x, self.sigma_a, bound
        )

    def fit(self, seed=0, **settings):
        engine = thali.BeamSearch(**{"n_init": 1, "init": "empty", **settings})
        return thali.LatentFeatures(
            self.of_library, self.likelihood, engine, random_state=seed, progress=False
        ).fit(self.X)


def tiny(rng, i=0, most=5):
    """Data so few that all classes can be looked at; α is often above N, where N is small."""
    n, d = int(rng.integers(1, most + 1)), int(rng.integers(1, 4))
    kind = KINDS[i % 3]
    alpha = float(np.exp(rng.uniform(-1.5, (5.0, 1.6, 1.4, 1.0, 0.5)[n - 1])))
    own = {}
    if kind == "beta_bernoulli":
        own = {"n_components": int(rng.integers(1, 7))}
    elif kind == "two_parameter_ibp":
        own = {"beta": float(np.exp(rng.uniform(-1.0, 1.0)))}
        alpha = min(alpha, alpha / own["beta"])
    sigma_x, sigma_a = (float(np.exp(rng.uniform(*ends))) for ends in ((-1.6, 0.5), (-0.7, 0.7)))
    Z = rng.random((n, int(rng.integers(0, 4)))) < 0.5
    X = Z @ (sigma_a * rng.normal(size=(Z.shape[1], d))) + sigma_x * rng.normal(size=(n, d))
    return Case(X, oracle.Prior(kind, alpha, **own), sigma_x, sigma_a)


def larger(rng, kind, n=40, d=6, k=5, sigma_x=0.5, n_components=12):
    """Data with planted features."""
    own = {"beta_bernoulli": {"n_components": n_components}, "two_parameter_ibp": {"beta": 1.7}}
    X = (rng.random((n, k)) < 0.4) @ rng.normal(size=(k, d)) + sigma_x * rng.normal(size=(n, d))
    return Case(X, oracle.Prior(kind, 1.5, **own.get(kind, {})), sigma_x, 1.0)


def off(found, best):
    """How far a log joint is from another, relative."""
    return (found - best) / (1.0 + abs(best))


def misses(rng, count, make=tiny, **settings):
    """Problems whose mode was not found and said to be it: what was wrong of each."""
    found = []
    for i in range(count):
        case = make(rng, i)
        model = case.fit(seed=i, **{**EXACT, "polish": i % 2 == 0, **settings})
        right = abs(off(model.log_joint_, case.best)) < CLOSE
        mine = abs(off(case.log_joint(model.Z_), model.log_joint_)) < CLOSE
        closed = abs(off(model.log_joint_upper_bound_, case.best)) < CLOSE
        if not (right and mine and closed and model.proven_optimal_):
            found.append((case, model))
    return found
