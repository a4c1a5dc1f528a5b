"""Several sweeps in one call of compiled code, hyperparameters and all, against one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from statistical.mutants import update_in_python

import thali
from thali.data import Augmented, Data
from thali.model import Model
from thali.starts import Start

PRIORS = {
    "ibp": thali.IBP(),
    "ibp, alpha a number": thali.IBP(alpha=1.5),
    "two parameters": thali.TwoParameterIBP(beta=2.0),
    "finite, alpha a number": thali.BetaBernoulli(alpha=2.0, n_components=6),
}
LIKELIHOODS = {
    "inferred": thali.LinearGaussian(),
    "gamma": thali.LinearGaussian(thali.Gamma(2.0, 2.0), thali.Gamma(3.0, 1.0)),
    "one a number": thali.LinearGaussian(sigma_x=0.5),
    "numbers": thali.LinearGaussian(0.5, 1.0),
}


def begun(prior, likelihood, hold=0, hidden=0.0):
    rng = np.random.default_rng(3)
    Z = rng.random((12, 3)) < 0.4
    X = Z @ rng.normal(size=(3, 5)) + 0.5 * rng.normal(size=(12, 5))
    if hidden:
        X[rng.random(X.shape) < hidden] = np.nan
        X[1], X[2] = np.nan, 1.0
    data = Data.of(X)
    model = Model(prior, likelihood).resolve(data)
    engine = thali.CollapsedGibbs()
    start = Start("given", Z, model.start(data), hold_sigma=hold)
    return rng, model, data, engine, engine.begin(rng, model, data, start)


def walk(parts, calls):
    rng, model, data, engine, state = parts
    drawn = []
    for most in calls:
        drawn += engine.several(rng, model, data, state, most)
    return drawn


def assert_same(ours, theirs, **tolerance):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.info.n_components == b.info.n_components
        assert np.array_equal(a.packed, b.packed)
        assert a.info.hyper == pytest.approx(b.info.hyper, **tolerance)
        assert a.info.log_joint == pytest.approx(b.info.log_joint, **tolerance)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("prior", PRIORS)
def test_compiled_updates_are_those_of_python(prior, likelihood, monkeypatch):
    """The same draws of the same numbers: α, σ_x, σ_a and the log joint to the last digits."""
    parts = PRIORS[prior], LIKELIHOODS[likelihood]
    ours = walk(begun(*parts), [1] * 40)
    update_in_python(monkeypatch)
    assert_same(ours, walk(begun(*parts), [1] * 40), rel=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("hidden", [0.2, 0.7])
def test_compiled_updates_of_data_with_gaps_are_those_of_python(hidden, likelihood, monkeypatch):
    """A and what is missing too: a likelihood that draws them in a way of its own is asked."""
    parts = PRIORS["ibp"], LIKELIHOODS[likelihood], 5, hidden
    ours = walk(begun(*parts), [3, 5] * 5)
    update_in_python(monkeypatch)
    assert_same(ours, walk(begun(*parts), [1] * 40), rel=1e-8)


class DrawsGapsItself(thali.LinearGaussian):
    """What is missing is drawn in a way of its own."""

    def augment(self, rng, data, Z, parameters):
        completed = super().augment(rng, data, Z, parameters)
        X = completed.X.copy()
        X[data.given.where_missing] = 7.0
        return Augmented(X, source=data.given)


def test_a_likelihood_that_draws_gaps_in_its_own_way_is_asked():
    rng, model, data, engine, state = begun(PRIORS["ibp"], DrawsGapsItself(), 0, 0.2)
    assert len(engine.several(rng, model, data, state, 8)) == 1
    assert (state.X[data.where_missing] == 7.0).all()


def test_scales_are_held_as_long_as_a_start_says(monkeypatch):
    parts = PRIORS["ibp"], LIKELIHOODS["inferred"]
    ours = walk(begun(*parts, hold=5), [4, 4, 4])
    scales = [each.info.hyper["sigma_x"] for each in ours]
    assert len(set(scales[:5])) == 1
    assert len(set(scales)) == len(scales) - 4
    update_in_python(monkeypatch)
    assert_same(ours, walk(begun(*parts, hold=5), [1] * 12)[: len(ours)], rel=1e-8)


@pytest.mark.parametrize("calls", [[8] * 20, [3, 5] * 20, [1, 7] * 20])
def test_how_many_are_made_at_once_changes_no_draw(calls):
    """Sums are made afresh after 64 sweeps, columns moved after eight: both are passed."""
    parts = PRIORS["ibp"], LIKELIHOODS["inferred"]
    one_by_one = walk(begun(*parts), [1] * 160)
    assert_same(walk(begun(*parts), calls), one_by_one, rel=0, abs=0)


def test_the_log_joint_is_that_of_the_model():
    parts = begun(PRIORS["ibp"], LIKELIHOODS["inferred"])
    _, model, data, _, _ = parts
    for each in walk(parts, [8] * 4):
        Z = model.structure.unpack(each.packed, data.n)
        assert each.info.log_joint == pytest.approx(model.at(each.info.hyper).log_joint(data, Z))


def test_values_not_wanted_are_not_copied():
    rng, model, data, engine, state = begun(PRIORS["ibp"], LIKELIHOODS["inferred"])
    drawn = engine.several(rng, model, data, state, 8, keep=False)
    assert len(drawn) == 8
    assert all(each.packed is None for each in drawn)


def test_a_call_never_passes_the_next_moves_on_columns():
    rng, model, data, engine, state = begun(PRIORS["ibp"], LIKELIHOODS["inferred"])
    assert len(engine.several(rng, model, data, state, 3)) == 3
    assert len(engine.several(rng, model, data, state, 100)) == 5
    assert len(engine.several(rng, model, data, state, 100)) == 8


class Triangle(thali.Gamma):
    """A hyperprior that compiled code has no form for."""

    def powers(self):
        return None


class Capped(thali.Gamma):
    """A density of its own, and the form of another one inherited."""

    def log_density(self, value):
        return super().log_density(value) if value < 0.4 else -np.inf


@pytest.mark.parametrize("hyperprior", [Triangle(2.0, 2.0), Capped(2.0, 2.0)])
def test_a_hyperprior_of_another_form_is_updated_in_python(hyperprior):
    parts = list(begun(PRIORS["ibp"], thali.LinearGaussian(sigma_x=hyperprior)))
    parts[-1].hyper["sigma_x"] = 0.3
    drawn = walk(parts, [8] * 20)
    assert len(drawn) == 20  # one a call
    found = [each.info.hyper["sigma_x"] for each in drawn]
    assert len(set(found)) == 20
    assert max(found) < 0.4 or isinstance(hyperprior, Triangle)


class NoNew(thali.IBP):
    """Features that a single row has are as good as impossible."""

    def tables(self, n):
        return super().tables(n)._replace(new_log_weight=-1e6)


class Stubborn(thali.IBP):
    """A mass that is resampled to seven."""

    def resample(self, rng, hyper, counts):
        hyper["alpha"] = 7.0


def test_what_a_subclass_of_a_prior_changes_is_heeded():
    rng, model, data, engine, _ = begun(NoNew(), LIKELIHOODS["inferred"])
    empty = Start("empty", np.zeros((data.n, 0), bool), model.start(data))
    state = engine.replace(moves=0).begin(rng, model, data, empty)
    for _ in range(5):
        drawn = engine.replace(moves=0).several(rng, model, data, state, 8)
        assert [each.info.n_components for each in drawn] == [0] * len(drawn)
    drawn = walk(begun(Stubborn(), LIKELIHOODS["inferred"]), [8] * 3)
    assert [each.info.hyper["alpha"] for each in drawn] == [7.0] * 3


def test_many_features_and_rows_are_made_afresh_at_the_same_places():
    """More than 256 rows and 32 features: where M is made afresh depends on K of the sweep."""
    rng = np.random.default_rng(0)
    Z = rng.random((300, 40)) < 0.1
    X = Z @ rng.normal(size=(40, 6)) + 0.3 * rng.normal(size=(300, 6))
    data = Data.of(X)
    model = Model(PRIORS["ibp"], LIKELIHOODS["inferred"]).resolve(data)
    engine, drifts = thali.CollapsedGibbs(moves=0), []
    for calls in ([1] * 8, [8]):
        own = np.random.default_rng(1)
        state = engine.begin(own, model, data, Start("given", Z, model.start(data)))
        drawn = walk((own, model, data, engine, state), calls)
        drifts.append([each.info.drift for each in drawn])
    several = len(drifts[1])
    assert several > 1
    assert drifts[0][:several] == drifts[1]
