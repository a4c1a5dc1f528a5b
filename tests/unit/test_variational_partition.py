"""Variational inference of partitions: the bound, every update of it, and what it answers."""

import time
from functools import partial
from unittest import mock

import numpy as np
import pytest
from oracles.partitions import normal_gamma_predictive, normal_wishart_predictive
from oracles.variational_partition import bound, log_evidence
from resuming import check_resuming
from scipy.integrate import trapezoid

import thali
from thali.data import Data
from thali.engines.clusters import soft_moves, soft_state
from thali.engines.clusters import variational as clusters
from thali.engines.clusters.soft_state import SoftClusters, in_order, softmax, update_block
from thali.engines.clusters.sticks import Sticks
from thali.likelihoods.gaussian_families import ColumnGaussian, FullGaussian
from thali.model import Model
from thali.results.fit import VariationalFit
from thali.starts import Start

KAPPA, SCALE, DEGREES, SHAPE = 0.3, 0.8, 5.5, 2.5
PRIORS = {
    "fixed": thali.DirichletProcess(alpha=0.7),
    "gamma": thali.DirichletProcess(alpha=thali.Gamma(2.0, 3.0)),
    "pitman_yor": thali.PitmanYor(alpha=0.7, discount=0.3),
}
LIKELIHOODS = {
    "full": thali.NormalWishart(KAPPA, SCALE, DEGREES, mean=0.0, spread=1.0),
    "columns": thali.NormalGamma(KAPPA, SCALE, SHAPE, mean=0.0, spread=1.0),
}


def rows_of(n, d=2, seed=0, apart=3.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + apart * rng.integers(0, 3, (n, 1))


def state_at(prior, likelihood, X, labels, most=10):
    """The state with these labels, cut into blocks of a few rows."""
    data = Data.of(X)
    model = Model(prior, likelihood).resolve(data)
    start = Start("given", np.asarray(labels), model.start(data))
    return clusters.begin(model, data, start, most, 1, "float64")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of at least four rows, so that small data have several."""
    monkeypatch.setattr(soft_state, "LEAST_ROWS", 4)


def updated_with_r(state, times=2):
    """Visit every block so many times; r as it is then."""
    r = np.zeros((state.data.n, state.k))
    for _ in range(times):
        for b, rows in enumerate(state.blocks):
            F = state.family.features(state.data.rows(rows))
            r[rows] = softmax(state.given() @ F)[0].T
            update_block(state, b)
    return r


def check_against_oracle(prior, likelihood):
    X = rows_of(30)
    state = state_at(PRIORS[prior], LIKELIHOODS[likelihood], X, np.arange(30) % 3)
    r = updated_with_r(state)
    scales = {
        "full": (KAPPA, DEGREES, (DEGREES - 3.0) * SCALE**2),
        "columns": (KAPPA, 2 * SHAPE, 2 * (SHAPE - 1.0) * SCALE**2),
    }[likelihood]
    values, mass = state.sticks.values, state.sticks.mass
    expected = bound(
        X,
        r,
        state.sticks.tau,
        scales,
        likelihood == "columns",
        values.get("discount", 0.0),
        values["alpha"],
        mass,
        (2.0, 3.0),
    )
    assert np.isclose(state.value(), expected, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_bound_is_that_of_plain_loops(prior, likelihood):
    check_against_oracle(prior, likelihood)


# ---- every update -------------------------------------------------------------------------------


def problems():
    """Parts with hyperparameters to infer, data, and labels to begin from."""
    rng = np.random.default_rng(1)
    X = rows_of(60, 3, seed=1)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    bits = (rng.random((60, 5)) < np.where(rng.random((60, 1)) < 0.5, 0.8, 0.2)).astype(float)
    counts = rng.poisson(np.where(rng.random((60, 1)) < 0.5, [5, 1, 1], [1, 1, 5])).astype(float)
    process, pitman = thali.DirichletProcess(), thali.PitmanYor()
    return {
        "full": (process, thali.NormalWishart(), X),
        "columns": (pitman, thali.NormalGamma(), X),
        "gaps": (process, thali.NormalGamma(), gaps),
        "bits": (pitman, thali.BetaBernoulliItems(), bits),
        "categories": (process, thali.Categorical(), counts.clip(0, 3)),
        "counts": (process, thali.DirichletMultinomial(), counts),
    }


class Climb:
    """Looks at the bound after every update."""

    def __init__(self, state):
        self.state, self.last, self.updates = state, state.value(), 0

    def look(self):
        value = self.state.value()
        assert value >= self.last - 1e-10 * abs(value)
        self.last, self.updates = value, self.updates + 1


def climb(name, near=False, passes=6):
    """Blocks, sticks, hyperparameters, mergers, the order and splits, one after the other.

    From labels at random, or near to those that were planted in Gaussian rows.
    """
    prior, likelihood, X = problems()[name]
    rng = np.random.default_rng(0)
    labels = np.rint(X.mean(axis=1) / 3.0) if near else rng.integers(0, 8, len(X))
    state = state_at(prior, likelihood, X, labels)
    seen = Climb(state)
    for _ in range(passes):
        pairs, found = soft_moves.candidates(state), []
        for b in range(len(state.S)):
            found.append(update_block(state, b, pairs))
            seen.look()
        state.update_sticks(numbers=True)
        seen.look()
        state.update_scales()
        seen.look()
        state.bound = state.value()
        soft_moves.merge(state, pairs, np.stack(found))
        seen.look()
        in_order(state)
        seen.look()
    soft_moves.split(state, rng)
    seen.look()
    return seen


@pytest.mark.parametrize("name", problems())
def test_no_update_lowers_the_bound(name):
    assert climb(name).updates > 60


# ---- the evidence -------------------------------------------------------------------------------

PREDICTIVES = {
    "full": partial(
        normal_wishart_predictive,
        kappa=KAPPA,
        degrees=DEGREES,
        scale=(DEGREES - 3.0) * SCALE**2 * np.eye(2),
    ),
    "columns": partial(
        normal_gamma_predictive, kappa=KAPPA, shape=SHAPE, rate=(SHAPE - 1.0) * SCALE**2
    ),
}


def check_below_evidence(likelihood, prior="fixed"):
    X, part = rows_of(6, seed=3), PRIORS[prior]
    discount = getattr(part, "discount", 0.0)
    evidence = log_evidence(X, PREDICTIVES[likelihood], part.alpha, discount)
    found = []
    for k in range(1, 5):
        state = state_at(part, LIKELIHOODS[likelihood], X, np.arange(6) % k)
        for _ in range(30):
            clusters.step(np.random.default_rng(0), state, 1e-12)
        found.append(state.bound)
    assert max(found) < evidence
    assert max(found) > evidence - 3.0


@pytest.mark.parametrize("prior", ["fixed", "pitman_yor"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_bound_is_below_the_evidence_of_all_partitions(likelihood, prior):
    check_below_evidence(likelihood, prior)


# ---- broken variants must fail ------------------------------------------------------------------


def wrong_tau(self, counts):
    """Rows of later clusters forgotten."""
    return self._laws(len(counts)) + np.column_stack([counts, np.zeros(len(counts))])


def wrong_weights(self, S, at, right=FullGaussian.weights):
    """Clusters half as far from the middle as they are."""
    W = right(self, S, at)
    W[:, 1 : 1 + self.d] *= 0.5
    return W


def wrong_evidence(self, S, at, right=FullGaussian.log_evidence):
    """The means' variance forgotten."""
    n = S[:, 0]
    return right(self, S, at) - 0.5 * self.d * np.log(at["kappa"] / (at["kappa"] + n))


def wrong_columns(self, S, at, right=ColumnGaussian.log_evidence):
    return right(self, S, at) + 0.5 * S[:, 0] * self.d


def test_sticks_that_forget_later_rows_are_seen():
    with mock.patch.object(Sticks, "_best_tau", wrong_tau), pytest.raises(AssertionError):
        climb("full")


def test_clusters_in_the_wrong_place_are_seen():
    with mock.patch.object(FullGaussian, "weights", wrong_weights), pytest.raises(AssertionError):
        climb("full", near=True)


def test_a_wrong_evidence_is_seen():
    wrong = mock.patch.object(FullGaussian, "log_evidence", wrong_evidence)
    with wrong, pytest.raises(AssertionError):
        check_against_oracle("fixed", "full")
    with wrong, pytest.raises(AssertionError):
        check_below_evidence("full")
    with (
        mock.patch.object(ColumnGaussian, "log_evidence", wrong_columns),
        pytest.raises(AssertionError),
    ):
        check_below_evidence("columns")


# ---- moves --------------------------------------------------------------------------------------


def test_halves_of_a_cluster_are_merged_and_two_clusters_in_one_are_split():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 150)
    X = rng.standard_normal((300, 2)) + 12.0 * labels[:, None]
    for begun in (labels * 2 + (X[:, 0] % 2 > 1), np.zeros(300, int)):
        state = state_at(PRIORS["gamma"], thali.NormalWishart(), X, begun)
        while not state.finished:
            clusters.step(rng, state, 1e-8)
        assert state.k == 2
        assert sorted(state.counts.round()) == [150.0, 150.0]


def test_more_labels_than_the_truncation_are_joined():
    X = rows_of(50)
    state = state_at(PRIORS["fixed"], LIKELIHOODS["full"], X, np.arange(50), most=4)
    assert state.k == 4
    assert np.isclose(state.counts.sum(), 50.0)


# ---- the estimator ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    z = rng.choice(3, 400, p=[0.5, 0.3, 0.2])
    X = rng.standard_normal((400, 2)) + np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[z]
    return X, z


@pytest.fixture(scope="module")
def fitted(planted):
    engine = thali.Variational(truncation=10)
    return thali.LatentPartition(engine=engine, random_state=0, progress=False).fit(planted[0])


def test_it_finds_what_was_planted(planted, fitted):
    X, z = planted
    assert isinstance(fitted.fit_, VariationalFit)
    assert fitted.n_clusters_ == 3
    order = np.argsort(-np.bincount(z))
    assert (order[fitted.labels_] == z).mean() > 0.99
    assert (fitted.predict(X) == fitted.labels_).all()
    assert fitted.membership_.min() > 0.4
    shares = fitted.predict_proba(X)
    assert shares.shape == (400, 3)
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert fitted.novelty([[100.0, 100.0]])[0] > 0.5 > fitted.novelty([[0.0, 0.0]])[0]
    assert fitted.elbo_ == fitted.history_["elbo"][:, -1].max()
    assert fitted.elbo_ < fitted.log_joint_ + 10.0
    means = fitted.variational_params_["means"][:3]
    assert np.allclose(means[np.argsort(order)], [[0, 0], [9, 0], [0, 9]], atol=0.5)
    assert fitted.co_clustering(np.arange(5)).shape == (5, 5)
    assert len(list(fitted.draws(7))) == 7
    assert fitted.credible_ball().radius >= 0.0
    assert fitted.cluster_profiles_.shape == (3, 2)


def test_a_score_is_a_density():
    X = rows_of(200, 1)
    engine = thali.Variational(n_init=1)
    grid = np.linspace(-60.0, 60.0, 8001)[:, None]
    for likelihood in ("normal_wishart", "normal_gamma"):
        model = thali.LatentPartition(
            likelihood=likelihood, engine=engine, random_state=0, progress=False
        ).fit(X)
        mass = trapezoid(np.exp(model.score_samples(grid)), grid[:, 0])
        assert 0.99 < mass < 1.0001


@pytest.mark.parametrize("likelihood", ["normal_wishart", "normal_gamma"])
def test_new_rows_may_have_gaps(planted, likelihood):
    """What is missing is integrated out: a column alone has the integral over the other."""
    engine = thali.Variational(n_init=1, max_iter=5)
    model = thali.LatentPartition(likelihood=likelihood, engine=engine, random_state=0)
    model.set_params(progress=False).fit(planted[0])
    grid = np.linspace(-150.0, 150.0, 30_001)
    both = np.column_stack([np.full(len(grid), 0.5), grid])
    whole = trapezoid(np.exp(model.score_samples(both)), grid)
    alone = model.score_samples([[0.5, np.nan], [np.nan, np.nan]])
    assert np.isclose(np.exp(alone[0]), whole, rtol=1e-3)
    assert np.isclose(alone[1], 0.0)


def test_a_fit_comes_back_from_its_file(fitted, planted, tmp_path):
    X, _ = planted
    fitted.save(tmp_path / "model.thali")
    again = thali.load(tmp_path / "model.thali")
    assert (again.labels_ == fitted.labels_).all()
    assert again.score(X[:50]) == fitted.score(X[:50])
    assert np.array_equal(again.predict_proba(X[:50]), fitted.predict_proba(X[:50]))
    assert again.elbo_ == fitted.elbo_


@pytest.mark.parametrize("name", ["gaps", "bits", "categories", "counts"])
def test_other_likelihoods_run_and_predict(name):
    prior, likelihood, X = problems()[name]
    engine = thali.Variational(truncation=6, max_iter=15)
    model = thali.LatentPartition(prior, likelihood, engine, random_state=0, progress=False)
    model.fit(X)
    assert model.predict(X).shape == (60,)
    assert np.isfinite(model.score(X))


def test_what_it_cannot_do_is_refused_in_words(planted, fitted):
    X, _ = planted
    engine = thali.Variational(truncation=5)
    flexible = thali.FlexiblePartition(np.zeros(len(X)))
    with pytest.raises(ValueError, match="BreaksSticks, which FlexiblePartition does not have"):
        thali.LatentPartition(flexible, engine=engine).fit(X)
    with pytest.raises(ValueError, match="features is for features"):
        thali.LatentPartition(engine=engine.replace(features="factorized")).fit(X)
    gaps = X.copy()
    gaps[0, 0] = np.nan
    with pytest.raises(ValueError, match="missing"):
        thali.LatentPartition(engine=engine).fit(gaps)
    with pytest.raises(ValueError, match="Its answer is labels_, with membership_"):
        fitted.best_  # noqa: B018


def test_starts_can_be_given(planted, fitted):
    X, z = planted
    for init in (z, "one_cluster", "kmeans", "prior", fitted):
        engine = thali.Variational(truncation=10, n_init=1, init=init)
        model = thali.LatentPartition(engine=engine, random_state=0, progress=False).fit(X)
        assert model.n_clusters_ == 3
        assert np.isclose(model.elbo_, fitted.elbo_, rtol=1e-3)


def test_threads_change_nothing_and_single_precision_little(planted, fitted):
    X = np.tile(planted[0], (30, 1)) + np.random.default_rng(0).normal(size=(12_000, 2))

    def run(threads=1, **settings):
        with mock.patch("thali.engines.ascent.optimizer.cores", return_value=threads):
            engine = thali.Variational(truncation=6, n_init=1, max_iter=5, **settings)
            model = thali.LatentPartition(engine=engine, random_state=0, progress=False)
            return model.fit(X).elbo_

    with mock.patch.object(soft_state, "LEAST_ROWS", 2**16):  # one block of several pieces
        assert run() == run(3)
        assert np.isclose(run(), run(dtype="float32"), rtol=1e-4)


def test_a_resumed_run_ends_as_one_never_stopped(planted, tmp_path, monkeypatch):
    engine = thali.Variational(truncation=8, init="one_cluster", tol=1e-12)
    parts = {"prior": thali.PitmanYor(), "engine": engine, "random_state": 3}
    make = partial(thali.LatentPartition, **parts, progress=False)
    check_resuming(make, planted[0][:100], tmp_path / "run.thali", monkeypatch, at=4)


def test_a_time_budget_is_kept():
    X = rows_of(60_000, 8)
    engine = thali.Variational(truncation=30, tol=1e-15)
    model = thali.LatentPartition(engine=engine, random_state=0, progress=False)
    began = time.monotonic()
    model.fit(X, time_budget=0.3)
    assert model.stopped_ == "time budget"
    assert np.isfinite(model.elbo_)
    assert time.monotonic() - began < 30.0  # on a busy machine; the answer takes passes too


def test_state_arrays_hold_all_of_it(planted):
    X, z = planted
    state = state_at(PRIORS["gamma"], thali.NormalGamma(), X, z)
    clusters.step(np.random.default_rng(0), state, 1e-6)
    arrays, numbers = clusters.to_arrays(state)
    again = clusters.from_arrays(state.model, state.data, arrays, numbers, 1, "float64")
    assert isinstance(again, SoftClusters)
    assert again.value() == state.value()
