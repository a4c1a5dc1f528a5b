"""A latent structure that only tests know goes through the whole trunk.

Fit, checkpoint and resume, save and load, report and command line: the toy of ``toy_partition``
registers here, and nothing in the library is told of it.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from contract import toy_partition as toy

import thali
from thali.cli import run
from thali.model import Model
from thali.registry import ENGINES, ESTIMATORS, LIKELIHOODS, PRIORS

PARTS = (
    (PRIORS, "toy_restaurant", toy.ToyRestaurant),
    (LIKELIHOODS, "toy_normal", toy.ToyNormal),
    (ENGINES, "toy_cluster_gibbs", toy.ToyClusterGibbs),
    (ESTIMATORS, "ToyClusters", toy.ToyClusters),
)


@pytest.fixture(scope="module", autouse=True)
def registered():
    """As decorators would do it, but for these tests only: others go through all parts."""
    for registry, name, cls in PARTS:
        registry.register(name)(cls)
    yield
    for registry, name, _ in PARTS:
        del registry[name]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    centers = np.array([[-5.0, 0.0], [5.0, 0.0], [0.0, 6.0]])
    return centers[np.arange(18) % 3] + 0.5 * rng.standard_normal((18, 2))


@pytest.fixture(scope="module")
def fitted(X):
    return toy.ToyClusters(random_state=0).fit(X)


def test_the_clusters_are_found(fitted):
    assert fitted.n_components_ == 3
    assert np.array_equal(fitted.labels_, np.arange(18) % 3)
    assert fitted.posterior_.posterior.sizes == {"chain": 2, "draw": 20}


def test_hyperparameters_of_one_name_do_not_collide_and_may_be_arrays(fitted):
    assert fitted.likelihood_alpha_ == 3.0
    assert 0.0 < fitted.prior_alpha_ != 3.0
    assert fitted.scales_.tolist() == [0.5, 0.5]
    names = ["n_components", "log_joint", "prior.alpha", "likelihood.alpha"]
    assert list(fitted.history_) == [*names, "scales[0]", "scales[1]"]
    assert np.ptp(fitted.history_["prior.alpha"]) > 0.0
    assert np.ptp(fitted.history_["likelihood.alpha"]) == 0.0
    model = Model(toy.ToyRestaurant(), toy.ToyNormal())
    assert model.labels["prior"] == {"alpha": "prior.alpha"}
    assert set(model.hyperpriors) == {"prior.alpha"}


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_a_run_that_was_stopped_ends_with_the_same_draws(X, tmp_path, monkeypatch):
    engine = toy.ToyClusterGibbs(sweeps=30)
    whole = toy.ToyClusters(engine=engine, random_state=1).fit(X)
    path, step = tmp_path / "run.thali", toy.ToyClusterGibbs.step

    def slow(*arguments):
        time.sleep(0.05)
        return step(*arguments)

    monkeypatch.setattr(toy.ToyClusterGibbs, "step", slow)
    stopped = toy.ToyClusters(engine=engine, random_state=1)
    stopped.fit(X, checkpoint=path, time_budget=0.3)
    assert stopped.stopped_ == "time budget"
    monkeypatch.undo()
    resumed = toy.ToyClusters(engine=engine, random_state=1).fit(X, checkpoint=path, resume=True)
    for name, values in whole.history_.items():
        assert np.array_equal(values, resumed.history_[name]), name
    pairs = zip(whole.fit_.draws(), resumed.fit_.draws(), strict=True)
    assert all(np.array_equal(one.latent, two.latent) for one, two in pairs)


def test_it_is_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert isinstance(again, toy.ToyClusters)
    assert np.array_equal(again.labels_, fitted.labels_)
    assert again.log_joint_ == fitted.log_joint_
    assert again.scales_.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("given", ["labels", "model"])
def test_it_begins_from_given_labels_and_from_a_fitted_model(X, fitted, given):
    init, name = (fitted.labels_, "given Z") if given == "labels" else (fitted, "another model")
    engine = toy.ToyClusterGibbs(sweeps=1, chains=1, init=init)
    again = toy.ToyClusters(engine=engine, random_state=0).fit(X)
    assert again.starts_ == [name]
    assert np.array_equal(again.labels_, fitted.labels_)
    if given == "model":
        assert again.history_["prior.alpha"].size == 1
    with pytest.raises(
        ValueError, match="ToyClusterGibbs: init must be a label for each of the 18"
    ):
        toy.ToyClusters(engine=engine.replace(init=np.arange(5)), random_state=0).fit(X)


class RacedGibbs(toy.ToyClusterGibbs):
    """The toy's starts raced, and searched on from."""

    races = True


class RacedNormal(toy.ToyNormal):
    """A likelihood that lets starts race."""

    starts = ("race", "prior", "empty")


def test_its_starts_race_though_its_prior_has_no_tables(X):
    engine = RacedGibbs(sweeps=30, chains=2, init="race")
    model = toy.ToyClusters(likelihood=RacedNormal(), engine=engine, random_state=0).fit(X)
    assert np.array_equal(model.labels_, np.arange(18) % 3)
    assert set(model.starts_) <= {"prior", "empty"}


def test_its_report_says_what_every_structure_has_to_say(fitted, tmp_path):
    page = fitted.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "3 clusters found in 18 rows of 2 numbers." in page
    for words in ("Convergence", "how far apart clusters are", "noise of each column", "s[1]"):
        assert words in page
    assert "Reconstructions" not in page
    assert fitted.convergence().level in ("good", "fair", "poor", "unknown")


def test_it_has_names_on_the_command_line(X, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    names = ["--prior", "toy-restaurant", "--likelihood", "toy-normal"]
    options = ["--engine", "toy-cluster-gibbs", "--sweeps", "10", "--seed", "0", "--out", "o"]
    assert run(["fit", "x.npy", *names, *options]) == 0
    assert "3 clusters, log joint" in capsys.readouterr().out
    assert np.array_equal(thali.load("o/model.thali").labels_, np.arange(18) % 3)


def test_parts_of_two_structures_are_refused():
    words = "ToyRestaurant is a prior on toy clusters but LinearGaussian needs features"
    with pytest.raises(ValueError, match=words):
        Model(toy.ToyRestaurant(), thali.LinearGaussian())
    with pytest.raises(ValueError, match="LatentFeatures finds features, but ToyRestaurant"):
        thali.LatentFeatures(toy.ToyRestaurant(), toy.ToyNormal()).fit(np.ones((3, 2)))
