"""A part's hyperparameters are its own: two parts may use one name, and no name is expected.

The same model with its hyperparameters under other names leads every engine to the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import thali
from thali.data import Data
from thali.hyperparameters import Gamma, Hyperprior
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.run.loop import run
from thali.settings import Settings, hyperparameter
from thali.structures.features import feature_counts

ENGINES = {
    "collapsed": thali.CollapsedGibbs(sweeps=8, chains=1, init="prior"),
    "uncollapsed": thali.UncollapsedGibbs(sweeps=8, chains=1, init="prior"),
    "filter": thali.ParticleFilter(n_particles=15, passes=2),
    "variational": thali.Variational(truncation=4, max_iter=8, n_init=1),
    "annealed": thali.Variational(truncation=4, max_iter=5, n_init=1, anneal=4, init="prior"),
    "hard": thali.MaximizationExpectation(max_iter=8, n_init=1),
    "search": thali.BeamSearch(width=3, n_init=1),
}


@dataclass(frozen=True)
class TwiceNamed(thali.LinearGaussian):
    """The linear-Gaussian likelihood with an ``alpha`` of its own, which changes nothing."""

    alpha: float = hyperparameter(0.5, symbol="a", words="nothing")

    def start(self, data):
        return {**super().start(data), "alpha": float(self.alpha)}


@dataclass(frozen=True)
class Renamed(Settings, PredictsRow):
    """The Indian buffet process, its mass under another name."""

    mass: Any = hyperparameter(Gamma(1.0, 1.0), symbol="m", words="how many features to expect")

    def at(self, **numbers):
        return self.replace(**numbers)

    def start(self):
        return {"mass": thali.IBP(self.mass).start()["alpha"]}

    def sample(self, rng, n):
        return thali.IBP(self.mass).sample(rng, n)

    def tables(self, n):
        return thali.IBP(self.mass).tables(n)

    def log_prob(self, Z):
        return thali.IBP(self.mass).log_prob(Z)

    def log_prob_counts(self, counts):
        return thali.IBP(self.mass).log_prob_counts(counts)

    def resample(self, rng, hyper, counts):
        if isinstance(self.mass, Hyperprior):
            own = {"alpha": hyper["mass"]}
            thali.IBP(self.mass).resample(rng, own, counts)
            hyper["mass"] = own["alpha"]


def data():
    rng = np.random.default_rng(5)
    X = (rng.random((16, 3)) < 0.5) @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(16, 5))
    return Data.of(X)


def answers(prior, likelihood, engine):
    """The record of a run, hyperparameters by value alone, and its last draw."""
    X = data()
    fit = run(3, Model(prior, likelihood).resolve(X), engine, X, progress=False)
    scalars = [row for chain in fit.chains for row in chain.scalars]
    return np.array(scalars), list(fit.draws())[-1].latent, fit.names


@pytest.mark.parametrize("name", ENGINES)
def test_two_parts_may_use_one_name(name):
    plain, Z, names = answers(thali.IBP(), thali.LinearGaussian(), ENGINES[name])
    found, same, others = answers(thali.IBP(), TwiceNamed(), ENGINES[name])
    assert {"prior.alpha", "likelihood.alpha"} <= set(others)
    own = [i for i, other in enumerate(others) if other != "likelihood.alpha"]
    assert [others[i].removeprefix("prior.") for i in own] == names
    assert np.array_equal(found[:, own], plain, equal_nan=True)
    assert np.array_equal(Z, same)


@dataclass(frozen=True)
class Noisy(thali.IBP):
    """The Indian buffet process with a ``sigma_x`` of its own, which changes nothing."""

    sigma_x: float = hyperparameter(7.0, symbol="s", words="nothing")

    def start(self):
        return {**super().start(), "sigma_x": float(self.sigma_x)}

    def sample(self, rng, n):
        return thali.IBP(self.alpha).sample(rng, n)


@pytest.mark.parametrize("init", ["ica", "columns", "race"])
def test_a_prior_may_have_the_name_of_a_scale(init):
    engine = ENGINES["collapsed"].replace(init=init)
    plain, Z, _ = answers(thali.IBP(), thali.LinearGaussian(), engine)
    found, same, others = answers(Noisy(), thali.LinearGaussian(), engine)
    own = [i for i, other in enumerate(others) if other != "prior.sigma_x"]
    assert np.array_equal(found[:, own], plain)
    assert np.array_equal(Z, same)


@pytest.mark.parametrize("name", ["collapsed", "hard"])
def test_a_prior_need_not_have_an_alpha(name):
    plain, Z, names = answers(thali.IBP(), thali.LinearGaussian(), ENGINES[name])
    found, same, others = answers(Renamed(), thali.LinearGaussian(), ENGINES[name])
    assert others == ["mass" if each == "alpha" else each for each in names]
    # what has an alpha is sampled by compiled code, where sums are made in another order
    assert np.allclose(found, plain, rtol=1e-12, atol=0)
    assert np.array_equal(Z, same)


@pytest.mark.parametrize("prior", [thali.IBP(thali.Gamma(1.0, 1.0)), thali.IBP(2.0)])
def test_a_prior_does_not_read_numbers_of_another_part(prior):
    """The table of all parts may hold a beta; that of an IBP is 1 all the same."""
    counts = feature_counts(np.eye(6, 3, dtype=bool))
    own, all_parts = {"alpha": 2.0}, {"alpha": 2.0, "beta": 50.0}
    assert prior.next_row(3, own) == prior.next_row(3, all_parts)
    for hyper in (own, all_parts):
        prior.resample(np.random.default_rng(0), hyper, counts)
    assert own["alpha"] == all_parts["alpha"]
