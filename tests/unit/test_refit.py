"""A second fit leaves nothing of the first; one that fails leaves the first as it was."""

import numpy as np
import pandas as pd
import pytest

import thali

ENGINE = thali.CollapsedGibbs(sweeps=6, chains=2)
FILTER = thali.ParticleFilter(n_particles=30, passes=2)


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=20, random_state=0).X


def attributes(model):
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


@pytest.mark.parametrize(
    "first",
    [
        {"prior": thali.TwoParameterIBP(beta=thali.Gamma(1.0, 1.0))},
        {"likelihood": "sparse_factor", "engine": thali.UncollapsedGibbs(sweeps=6, chains=2)},
        {"engine": FILTER},
    ],
)
def test_a_refit_has_the_attributes_of_a_first_fit(X, first):
    plain = {"prior": "ibp", "likelihood": "linear_gaussian", "engine": ENGINE}
    model = (
        thali.LatentFeatures(likelihood="linear_gaussian", random_state=0)
        .set_params(**plain | first)
        .fit(X)
    )
    assert np.isfinite(model.best_.log_joint)
    assert model.diagnostics_
    model.set_params(**plain).fit(X)
    fresh = thali.LatentFeatures(**plain, random_state=0).fit(X)
    assert attributes(model) == attributes(fresh)
    assert model.best_.log_joint == fresh.best_.log_joint


def failing(*_, **__):
    raise FloatingPointError("no")


@pytest.mark.parametrize("where", ["data", "run", "answer"])
def test_a_failed_refit_leaves_the_earlier_fit_whole(X, where, monkeypatch):
    frame = pd.DataFrame(X[:, :5], columns=list("abcde"))
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=ENGINE, random_state=0).fit(
        frame
    )
    before = dict(vars(model))
    other = X.copy()
    if where == "data":
        other[0, 0] = np.inf
    elif where == "run":
        monkeypatch.setattr(thali.CollapsedGibbs, "several", failing)
    else:
        monkeypatch.setattr(thali.estimators.latent_features, "answer", failing)
    with pytest.raises((ValueError, FloatingPointError)):
        model.fit(other)
    assert vars(model).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(model).items())
    assert model.transform(frame).shape == (20, model.n_components_)


def test_a_model_can_start_from_its_own_earlier_fit(X):
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=ENGINE, random_state=0).fit(X)
    model.set_params(engine__init=model).fit(X)
    assert model.starts_ == ["another model"] * 2


@pytest.mark.parametrize(
    ("most", "words"),
    [(-1, "max_draws must be at least 0, not -1"), (2.5, "must be a whole number")],
)
def test_a_number_of_draws_that_is_none_is_refused_at_once(X, most, words):
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=ENGINE, random_state=0).fit(X)
    with pytest.raises((ValueError, TypeError), match=words):
        model.draws(most)
    assert len(list(model.draws(3))) == 3
    assert list(model.draws(0)) == []


@pytest.mark.parametrize("progress", ["banana", None, 1, np.ones(2)])
def test_progress_is_checked(X, progress):
    with pytest.raises(ValueError, match="progress must be 'auto', True or False, not "):
        thali.LatentFeatures(likelihood="linear_gaussian", engine=ENGINE, progress=progress).fit(X)


@pytest.mark.parametrize("budget", [True, "soon"])
def test_a_time_budget_is_a_number(X, budget):
    with pytest.raises(TypeError, match="time_budget must be a positive number"):
        thali.LatentFeatures(likelihood="linear_gaussian", engine=ENGINE).fit(X, time_budget=budget)
