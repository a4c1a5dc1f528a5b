"""Random problems of maximization-expectation, as the library has them and as the oracle does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import thali
from oracles import hard as oracle
from oracles.variational import log_density_of_scale
from thali.backends.block import Block
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.counts import Counts
from thali.engines.ascent.point_state import PointState
from thali.likelihoods.exponential_features import ExponentialFeatures
from thali.likelihoods.feature_posteriors import GaussianFeatures, NonnegativeFeatures
from thali.model import Model

LAWS = {
    "alpha": ("gamma", 2.0, 0.7),
    "beta": ("gamma", 2.0, 1.0),
    "sigma_x": ("inverse gamma", 2.0, 0.5),
    "sigma_a": ("gamma", 3.0, 2.0),
}
KINDS = {"gamma": thali.Gamma, "inverse gamma": thali.InverseGamma}
PRIORS = ("ibp", "two_parameter_ibp", "beta_bernoulli")


@dataclass
class Problem(PointState):
    """A state anywhere: no update has been made."""

    X: np.ndarray | None = None
    prior: str = "ibp"

    def point(self):
        """As the oracle has it."""
        law = self.features
        if isinstance(law, NonnegativeFeatures):
            mu, s = law.mu, law.s
        else:
            v = np.broadcast_to(np.diagonal(law.V, axis1=-2, axis2=-1), law.phi.T.shape)
            mu, s = law.phi, np.sqrt(v.T)
        of_prior = {"n_components": getattr(self.frequencies.prior, "n_components", 0)}
        return oracle.Point(
            self.X, self.rows.nu.copy(), mu, s, isinstance(law, NonnegativeFeatures),
            isinstance(law, ExponentialFeatures), self.prior,
            **self.hyper, **of_prior,
        )  # fmt: skip

    def by_library(self):
        kept = self.copy()  # features without rows leave it
        return kept.value(PointState.local_step(kept, passes=0))

    def by_oracle(self, left_ordered=False):
        return oracle.bound(self.point(), left_ordered) + sum(
            log_density_of_scale(self.hyper[name], *LAWS[name]) for name in self.model.hyperpriors
        )


def problem(
    rng, nonnegative=True, prior="ibp", gaps=False, n=6, d=3, k=4, room=3, solver="best", Z=None,
    law="half_normal",
):  # fmt: skip
    """Z and q(A) drawn at random, everything far from its best."""
    laws = {name: KINDS[law[0]](*law[1:]) for name, law in LAWS.items()}
    own = {"n_components": k + room} if prior == "beta_bernoulli" else {}
    if prior == "two_parameter_ibp":
        own = {"beta": laws["beta"]}
    of = {"ibp": thali.IBP, "two_parameter_ibp": thali.TwoParameterIBP}
    of["beta_bernoulli"] = thali.BetaBernoulli
    kind = thali.LinearGaussian
    if nonnegative:
        kind = partial(thali.NonnegativeLinearGaussian, law=law)
    model = Model(
        of[prior](alpha=laws["alpha"], **own),
        kind(sigma_x=laws["sigma_x"], sigma_a=laws["sigma_a"]),
    )
    A = rng.normal(size=(k, d))
    A = np.abs(A) if nonnegative else A
    X = (rng.random((n, k)) < 0.5) @ A + 0.3 * rng.normal(size=(n, d))
    if gaps:
        X[rng.random(X.shape) < 0.3] = np.nan
        X[0, 0], X[-1, -1] = np.nan, 1.0
    hyper = {"alpha": float(rng.gamma(2.0)) + 0.2}
    if prior == "two_parameter_ibp":
        hyper["beta"] = float(rng.gamma(2.0)) + 0.2
    hyper["sigma_x"] = float(rng.uniform(0.3, 1.2))
    hyper["sigma_a"] = float(rng.uniform(0.5, 2.0))
    if Z is None:
        Z = rng.random((n, k)) < rng.uniform(0.1, 0.9)
    fixed = model.prior_at(hyper)
    return Problem(
        Block.of(Data.of(X), "float64"),
        Rows.of(Z),
        random_features(rng, nonnegative, d, k, gaps, law),
        Counts(fixed, k + room),
        hyper,
        model,
        solver=solver,
        rng=rng,
        X=X,
        prior=prior,
    )


def random_features(rng, nonnegative, d, k, gaps, law="half_normal"):
    if nonnegative:
        kind = ExponentialFeatures if law == "exponential" else NonnegativeFeatures
        return kind.of(rng.normal(0.0, 1.5, size=(k, d)), rng.uniform(0.1, 1.5, size=(k, d)))
    v = rng.uniform(0.05, 1.0, size=(d, k) if gaps else k)
    return GaussianFeatures(rng.normal(size=(k, d)), np.eye(k) * v[..., None, :], joint=False)


def random_problems(rng, count, **more):
    """Of all kinds, in an order that mixes them, with sizes at random."""
    kinds = [
        (nonnegative, prior, gaps)
        for gaps in (False, True)
        for prior in PRIORS
        for nonnegative in (True, False)
    ]
    for i in range(count):
        n, d, k = (int(rng.integers(1, most + 1)) for most in (9, 5, 5))
        room = int(rng.integers(0, 3))
        yield problem(rng, *kinds[5 * i % len(kinds)], n=n, d=d, k=k, room=room, **more)


def without_empty(given):
    """The same without columns that no row has."""
    given = replace(given)
    given.take(np.flatnonzero(given.rows.nu.any(axis=0)))
    return given
