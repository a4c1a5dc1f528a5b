"""Random problems for the variational laws, as the library has them and as the oracle does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import thali
from oracles import variational as oracle
from thali.backends.block import Block
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.state import State
from thali.likelihoods.exponential_features import ExponentialFeatures
from thali.likelihoods.feature_posteriors import GaussianFeatures, NonnegativeFeatures
from thali.model import Model

LIKELIHOODS = {
    "gaussian": (thali.LinearGaussian, {}),
    "nonnegative": (thali.NonnegativeLinearGaussian, {}),
    "exponential": (thali.NonnegativeLinearGaussian, {"law": "exponential"}),
    "laplace slab": (thali.SparseFactor, {"slab": "laplace"}),
    "gaussian slab": (thali.SparseFactor, {"slab": "gaussian"}),
}
ALPHA = ("gamma", 2.0, 0.7)
SIGMA_X = ("inverse gamma", 2.0, 0.5)
SIGMA_A = ("gamma", 3.0, 2.0)


@dataclass
class Problem(State):
    """A state of the library, anywhere: no update has been made. And what the oracle needs."""

    X: np.ndarray | None = None
    taylor: bool = False

    def fixed(self):
        """The same with hyperparameters that stay where they are."""
        return replace(self, model=self.model.at(self.hyper))

    def statistics(self):
        """Of the rows as they are."""
        return self.backend.local_step(self.data, self.rows, self.globals(), passes=0)

    def by_library(self):
        return self.value(self.statistics())

    def law(self):
        """As the oracle has it: features that are not in use have ν = 0 and the prior's law."""
        d, more = self.X.shape[1], self.room
        sigma_a, after = self.hyper["sigma_a"], [(0, 0), (0, more)]
        if isinstance(self.features, NonnegativeFeatures):
            exponential = isinstance(self.features, ExponentialFeatures)
            rate, wide = (np.sqrt(2.0) / sigma_a, 1e7) if exponential else (0.0, sigma_a)
            of_s = np.pad(self.features.s, after[::-1], constant_values=wide)
            of_mu = np.pad(self.features.mu, after[::-1], constant_values=-rate * wide**2)
            parts = {"mu": of_mu, "s": of_s, "exponential": exponential}
        else:
            V = np.zeros((d, self.frequencies.k, self.frequencies.k))
            V[:] = sigma_a**2 * np.eye(self.frequencies.k)
            V[:, : self.k, : self.k] = self.features.V
            parts = {"phi": np.pad(self.features.phi, after[::-1]), "V": V}
        if self.rows.slab is not None:
            names = ("first", "second", "divergence")
            held = (np.pad(each, after) for each in self.rows.amounts)
            parts |= dict(zip(names, held, strict=True))
        return oracle.Law(
            self.X,
            np.pad(self.rows.nu, after),
            self.frequencies.tau,
            **self.hyper,
            **parts,
            infinite=self.infinite,
            log_off=self.frequencies.log_off() if self.taylor else None,
        )

    @property
    def infinite(self):
        return isinstance(self.model.prior, thali.IBP)

    def by_oracle(self):
        return oracle.bound(self.law()) + self.densities()

    def densities(self):
        """Log densities of the hyperparameters that have laws, from scipy."""
        each = {"alpha": ALPHA, "sigma_x": SIGMA_X, "sigma_a": SIGMA_A}
        return sum(
            oracle.log_density_of_scale(self.hyper[name], *each[name])
            for name in self.model.hyperpriors
        )


def problem(
    rng,
    likelihood,
    prior,
    bound="multinomial",
    joint=True,
    gaps=False,
    n=4,
    d=3,
    k=3,
    room=0,
    X=None,
):
    """A q drawn at random, everything far from its best."""
    kind, settings = LIKELIHOODS[likelihood]
    priors = {"ibp": thali.IBP, "beta_bernoulli": thali.BetaBernoulli}
    own = {"n_components": k + room} if prior == "beta_bernoulli" else {}
    of_alpha, of_x, of_a = (law[1:] for law in (ALPHA, SIGMA_X, SIGMA_A))
    model = Model(
        priors[prior](alpha=thali.Gamma(*of_alpha), **own),
        kind(sigma_x=thali.InverseGamma(*of_x), sigma_a=thali.Gamma(*of_a), **settings),
    )
    if X is None:
        X = rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.3 * rng.normal(size=(n, d))
    if gaps:
        X = X.copy()
        X[rng.random(X.shape) < 0.3] = np.nan
        X[0, 0], X[-1, -1] = np.nan, 1.0  # one is missing, one is not
    hyper = {
        "alpha": float(rng.gamma(2.0)) + 0.2,
        "sigma_x": float(rng.uniform(0.3, 1.2)),
        "sigma_a": float(rng.uniform(0.5, 2.0)),
    }
    nu = rng.uniform(0.02, 0.98, size=(n, k))
    rows = Rows.of(nu, model.likelihood.amounts)
    if rows.slab is not None:
        a, b = rng.gamma(2.0, 2.0, size=nu.shape), rng.normal(0.0, 3.0, size=nu.shape)
        rows = Rows(nu, rows.slab, oracle.amounts(a, b, rows.slab))
    frequencies = model.prior.frequencies(k + room, hyper["alpha"], bound)
    tau = rng.gamma(2.0, 1.0, size=(k + room, 2)) + 0.3
    found = Problem(
        Block.of(Data.of(X), "float64"),
        rows,
        random_features(rng, likelihood, d, k, joint, gaps),
        type(frequencies)(tau),
        hyper,
        model,
        X=X,
        taylor=bound == "taylor" and prior == "ibp",
    )
    assert found.features.phi.shape == (k, d)
    return found


def random_features(rng, likelihood, d, k, joint, gaps):
    if likelihood in ("nonnegative", "exponential"):
        kind = NonnegativeFeatures if likelihood == "nonnegative" else ExponentialFeatures
        mu = rng.normal(0.0, 1.5, size=(k, d))
        return kind.of(mu, rng.uniform(0.1, 1.5, size=(k, d)))
    root = rng.normal(0.0, 0.5, size=(d if gaps else 1, k, k))
    V = root @ np.swapaxes(root, 1, 2) + 0.05 * np.eye(k)
    if not joint:
        V = V * np.eye(k)
    return GaussianFeatures(rng.normal(size=(k, d)), V if gaps else V[0], joint)
