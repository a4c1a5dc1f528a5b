"""A noise of its own for each column: samplers against enumeration, and against the model.

P(K | X) and E[ZZ' | X] by sums over all classes of Z, the noise of each column integrated out in
closed form (Student's t). Then all numbers inferred, with gaps: draws of the model against sweeps
between draws of the data (Geweke 2004). Features not in proportion to the noise are caught.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles import column_noise as closed_form
from oracles import features as oracles
from statistical.budget import TESTS, alarms, judge, p_value_of_difference
from statistical.mutants import mutate
from statistical.test_row_potentials import flat, k_and_gram, p_values

import thali
from thali.data import Augmented, Data
from thali.engines.features.state import FeatureState
from thali.engines.kept_parameters import State
from thali.kernels.maintained_rows import rows_of
from thali.likelihoods import table
from thali.likelihoods.column_noise import ColumnNoise
from thali.model import Model
from thali.starts import Start

ENGINES = {
    "collapsed": thali.CollapsedGibbs(moves=2),
    "kept": thali.UncollapsedGibbs(),
    "slices": thali.UncollapsedGibbs(new_features="slice"),
    "moves": thali.UncollapsedGibbs(moves=2),
}
SIGMA_A, ALPHA, NAN = 1.5, 1.0, np.nan
LAW = thali.InverseGamma(2.0, 0.6)
UNITS = np.array([0.01, 1000.0])
CASES = {  # data, the law of every σ_d², cap
    "two rows": ([[1.8, 0.9], [-0.2, 1.1]], LAW, 9),
    "three rows, far apart in units": (UNITS * [[1.4, 0.5], [1.8, -0.3], [0.1, 0.9]], "auto", 7),
    "a gap": (UNITS * [[1.8, 0.9], [-0.2, NAN], [1.0, 1.3]], "auto", 7),
}


def quick(name, engine):
    """Cells that have features integrated out, features kept, and a gap."""
    return (name, engine) in (("a gap", "collapsed"), ("two rows", "kept"))


@cache
def exact(name):
    X, law, cap = CASES[name]
    X, n = np.asarray(X), len(X)
    shape, scales = LAW.shape, np.full(X.shape[1], LAW.scale)
    if law == "auto":
        shape, scales = table.NOISE.shape, table.NOISE.scale * np.nanmean(np.square(X), axis=0)
    counts, h = oracles.classes(n, cap), oracles.histories(n)
    logs = oracles.log_prior_ibp(counts, n, ALPHA)
    by_gram = {}
    for i, own in enumerate(counts):
        Z = np.repeat(h, own, axis=0).T
        gram = Z @ Z.T
        key = gram.tobytes()
        if key not in by_gram:
            by_gram[key] = closed_form.log_evidence(X, Z, SIGMA_A, shape, scales)
        logs[i] += by_gram[key]
    return k_and_gram(counts, n, logs)


def walk(model, X, engine, seed, sweeps, burn_in=200):
    """K and ZZ' of every sweep."""
    data = Data.of(np.asarray(X))
    model, rng = model.resolve(data), np.random.default_rng(seed)
    start = Start("empty", np.zeros((data.n, 0), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    K, gram = np.zeros(sweeps), np.zeros((sweeps, data.n, data.n))
    for i in range(-burn_in, sweeps):
        engine.step(rng, model, data, state)
        if i >= 0:
            Z = state.latent.astype(float)
            K[i], gram[i] = Z.shape[1], Z @ Z.T
    return K, gram


def model_of(name):
    law = CASES[name][1]
    return Model(thali.IBP(ALPHA), thali.LinearGaussian(law, SIGMA_A, noise="column"))


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        pytest.param(name, engine, marks=() if quick(name, engine) else pytest.mark.slow)
        for name in CASES
        for engine in ENGINES
    ],
)
def test_samplers_agree_with_enumeration(name, engine, seed):
    chain = walk(model_of(name), CASES[name][0], ENGINES[engine], seed, 3000)
    judge("column_noise", p_values(exact(name), *chain))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_data_that_say_nothing_give_back_the_prior(engine, seed):
    X = np.full((3, 1), NAN)
    X[0] = 1e-9  # of features too small to be told from noise
    model = Model(thali.IBP(ALPHA), thali.LinearGaussian(LAW, 1e-5, noise="column"))
    prior = thali.IBP(ALPHA)
    truth = flat(Flat(prior), X, 7)
    judge("column_noise", p_values(truth, *walk(model, X, ENGINES[engine], seed, 3000)))


class Flat:
    """What the oracle asks of a prior."""

    def __init__(self, prior):
        self.alpha = prior.alpha

    def log_classes(self, counts, n):
        return (oracles.log_prior_ibp(counts, n, self.alpha),)


# ---- all inferred --------------------------------------------------------------------------------

ROWS, COLUMNS = 4, 3
HIDDEN = np.zeros((ROWS, COLUMNS), bool)
HIDDEN[[0, 2, 3], [0, 1, 1]] = True
LIKELIHOOD = ColumnNoise(law=thali.InverseGamma(3.0, 2.0))


def fresh(rng):
    """A draw of everything from the prior."""
    hyper = {
        "alpha": 1.0,
        "sigma_a": float(np.sqrt(2.0 / rng.standard_gamma(2.0))),
        "noise": np.sqrt(2.0 / rng.standard_gamma(3.0, COLUMNS)),
    }
    Z = thali.IBP(1.0).sample(rng, ROWS)
    return Z, features(rng, Z, hyper), hyper


def features(rng, Z, hyper):
    return hyper["noise"] * hyper["sigma_a"] * rng.standard_normal((Z.shape[1], COLUMNS))


def table_of(rng, Z, A, hyper):
    X = Z @ A + hyper["noise"] * rng.standard_normal((ROWS, COLUMNS))
    return X, np.where(HIDDEN, NAN, X)


def told(Z, A, hyper, Y, X):
    """What both ways of drawing are compared by; without X, a sampler blind to it would pass."""
    K, scales = Z.shape[1], np.log(hyper["noise"])
    numbers = [K, Z.sum(), np.log(hyper["sigma_a"]), *scales, *(K * scales)]
    inside, own = np.arctan(Y / hyper["noise"]), np.arctan(A / hyper["noise"])
    effects = np.square(own).mean(axis=0) if K else np.zeros(COLUMNS)
    shown = np.arctan(np.nan_to_num(X))
    with_data = [*(shown * inside).mean(axis=0), *(np.square(shown) * scales).mean(axis=0)]
    return [*numbers, *effects, *inside.mean(axis=0), *with_data, *(K * shown).mean(axis=0)]


def in_place(engine, model, data, Z, A, hyper, Y):
    """The state of a sampler with these numbers."""
    own, hyper = Augmented(Y / hyper["noise"], source=data, latent=True), dict(hyper)
    if isinstance(engine, thali.CollapsedGibbs):
        return FeatureState(own, rows_of(Z, own.X), Z.shape[1], hyper)
    bits, values = np.ascontiguousarray(Z, np.uint8), model.likelihood_values(hyper)
    return State(own, bits, {"A": A}, values, all_hyper=hyper)


def joint_p_values(name, seed, draws=4000):
    engine = ENGINES[name]
    model = Model(thali.IBP(1.0), LIKELIHOOD).resolve(Data.of(np.ones((ROWS, COLUMNS))))
    rng = np.random.default_rng(seed)
    one, other = [], []
    for _ in range(draws):
        Z, A, hyper = fresh(rng)
        one.append(told(Z, A, hyper, *table_of(rng, Z, A, hyper)))
    Z, A, hyper = fresh(rng)
    for _ in range(draws):
        Y, X = table_of(rng, Z, A, hyper)
        data = Data.checked(X)
        state = in_place(engine, model, data, Z, A, hyper, Y)
        engine.step(rng, model, data, state)
        Z, hyper = state.latent, dict(getattr(state, "all_hyper", state.hyper))
        Y = state.data.X * hyper["noise"]
        if name == "collapsed":  # which keeps no A: what was drawn in gaps is not to be used again
            A = model.at(hyper).likelihood.draw_features(rng, Data.of(Y), Z)
        else:
            A = state.parameters["A"]
        other.append(told(Z, A, hyper, Y, X))
    a, b = np.array(one), np.array(other)
    found = {}
    for i in range(a.shape[1]):
        found[f"mean {i}"] = p_value_of_difference(a[:, i], b[:, i])
        found[f"square {i}"] = p_value_of_difference(a[:, i] ** 2, b[:, i] ** 2)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_sweeps_and_draws_of_the_model_agree(name, seed):
    judge("column_noise", joint_p_values(name, seed))


def test_the_tests_are_counted():
    assert TESTS["column_noise"] == len(CASES) * len(ENGINES) + 2 * len(ENGINES)


# ---- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_units_of_columns_say_nothing_of_the_features(engine):
    """Powers of two, which rounding leaves alone: the chains are the same, draw by draw."""
    rng = np.random.default_rng(0)
    X = (rng.random((12, 2)) < 0.5) @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(12, 3))
    X[[1, 5], [0, 2]] = np.nan
    model = Model(thali.IBP(ALPHA), thali.LinearGaussian(noise="column"))
    K, gram = walk(model, X, ENGINES[engine], 3, 40, burn_in=0)
    other = walk(model, X * [2.0**20, 1.0, 2.0**-30], ENGINES[engine], 3, 40, burn_in=0)
    assert np.array_equal(K, other[0])
    assert np.array_equal(gram, other[1])
    assert len(np.unique(K)) > 1


# ---- broken variants -----------------------------------------------------------------------------

BROKEN = {  # what is changed, the step that it is in, and the case that tells
    "features not in proportion to the noise": (
        ("1.0 / sigma_a**2)", "float(np.square(self.sizes).mean()) / sigma_a**2)"),
        "_noise",
        *("three rows, far apart in units", "collapsed"),
    ),
    "noise drawn as if there were no features": (
        ("left = totals.left(", "left = totals.squares + 0.0 * totals.left("),
        "_noise",
        *("three rows, far apart in units", "collapsed"),
    ),
    "new features not in proportion to the noise": (
        ('return {"A": inside * hyper["noise"]}', 'return {"A": inside}'),
        "new_parameters",
        *("three rows, far apart in units", "slices"),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_step_is_caught(what, seed, monkeypatch):
    change, step, name, engine = BROKEN[what]
    broken = mutate("thali.likelihoods.column_noise", [change]).ColumnNoise
    monkeypatch.setattr(ColumnNoise, step, getattr(broken, step))
    chain = walk(model_of(name), CASES[name][0], ENGINES[engine], seed, 2000)
    assert alarms(p_values(exact(name), *chain))
