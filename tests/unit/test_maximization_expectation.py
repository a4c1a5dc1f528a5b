"""Maximization-expectation from outside: results, refusals, files, stops, edges, planted truth."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.hard_problems import random_problems
from resuming import check_resuming

import thali
from thali.backends.local import Local
from thali.engines.ascent import state
from thali.engines.ascent.point_state import SOLVERS
from thali.model import Model
from thali.results.fit import VariationalFit
from thali.run import loop as run_module

NONNEGATIVE = "nonnegative_linear_gaussian"
QUICK = thali.MaximizationExpectation(truncation=6, max_iter=40)
PRIORS = ["ibp", "two_parameter_ibp", thali.BetaBernoulli(n_components=3)]
LIKELIHOODS = [NONNEGATIVE, "linear_gaussian"]


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=40, random_state=0).X


@pytest.fixture(scope="module")
def fitted(X):
    return thali.LatentFeatures("ibp", NONNEGATIVE, QUICK, random_state=3).fit(X)


def fit(X, prior="ibp", likelihood=NONNEGATIVE, seed=0, **settings):
    settings = {"truncation": 4, "n_init": 1, "max_iter": 30, **settings}
    engine = thali.MaximizationExpectation(**settings)
    return thali.LatentFeatures(prior, likelihood, engine, random_state=seed).fit(X)


def check(model, X):
    assert np.isfinite(model.elbo_)
    assert model.Z_.shape == (len(X), model.n_components_)
    assert np.array_equal(model.assignment_probabilities_, model.Z_)
    assert model.Z_.any(axis=0).all()
    assert np.isfinite(model.components_).all()
    rise = np.diff(model.history_["elbo"], axis=1)
    assert (rise >= -1e-9 * (1.0 + abs(model.elbo_))).all()


# ---- results ------------------------------------------------------------------------------------
def test_the_result_is_a_point_and_a_law(fitted, X):
    check(fitted, X)
    assert isinstance(fitted.fit_, VariationalFit)
    assert fitted.elbo_ == fitted.history_["elbo"][:, -1].max() == fitted.elbos_["factorized"]
    assert float(fitted.variational_params_["guarantee"]) == pytest.approx(1 / 3)
    draws = list(fitted.draws())
    order = [np.flatnonzero((d.Z == fitted.Z_[:, :1]).all(axis=0))[0] for d in draws]
    assert len(draws) > 10
    assert len({d.Z.tobytes() for d in draws}) == 1  # Z is a point,
    first = np.array([d.A[i] for d, i in zip(draws, order, strict=True)])
    assert (first.std(axis=0) > 0.0).all()  # and A is not
    assert (first >= 0.0).all()
    with pytest.raises(ValueError, match="no best draw"):
        fitted.best_  # noqa: B018


def test_the_bound_lies_below_the_log_joint_where_features_can_be_integrated_out(X):
    """log P(X, [Z]) is what the best law of A would give."""
    fixed = {"sigma_x": 0.5, "sigma_a": 1.0}
    model = fit(X, thali.IBP(alpha=2.0), thali.LinearGaussian(**fixed))
    truth = Model(thali.IBP(alpha=2.0), thali.LinearGaussian(**fixed)).log_joint(X, model.Z_)
    assert model.log_joint_ == pytest.approx(truth)
    assert truth - 0.02 * abs(truth) < model.elbo_ < truth


def test_new_rows_are_assigned_and_gaps_filled(fitted, X):
    assert fitted.transform(X[:5]).shape == (5, fitted.n_components_)
    assert np.isfinite(fitted.score(X[:5]))
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    model = fit(gaps, truncation=6)
    check(model, gaps)
    error = (model.impute() - X)[np.isnan(gaps)]
    assert np.sqrt(np.mean(error**2)) < X.std()


def test_answers_pass_from_engine_to_engine(fitted, X):
    sampler = thali.CollapsedGibbs(sweeps=6, chains=1, init=fitted)
    assert thali.LatentFeatures(likelihood="linear_gaussian", engine=sampler, random_state=0).fit(
        X
    ).starts_ == ["another model"]
    gibbs = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=20, chains=1),
        random_state=0,
    ).fit(X)
    for source in (gibbs, gibbs.Z_):
        check(fit(X, init=source, truncation=12), X)


def test_the_report_and_summary_are_written(fitted, tmp_path):
    path = fitted.report(tmp_path / "report.html")
    assert "bound of the log evidence" in path.read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"solver": "greedy"}, "solver must be one of 'best', 'local_search'"),
        ({"truncation": 0}, "truncation must be at least 1, not 0"),
        ({"truncation": "many"}, "truncation must be a number of features or 'auto'"),
        ({"solver": "exact", "truncation": 17}, "at most 16 of them; lower truncation=17"),
        ({"n_init": 0}, "n_init must be at least 1, not 0"),
        ({"tol": 0.0}, "tol must be"),
        ({"init": "random"}, "init"),
    ],
)
def test_bad_settings_are_told(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        thali.MaximizationExpectation(**settings)


def test_likelihoods_with_amounts_are_refused(X):
    with pytest.raises(ValueError, match="ExpectedBits, which SparseFactor does not have"):
        thali.LatentFeatures("ibp", "sparse_factor", "maximization_expectation").fit(X)


# ---- files and stops ----------------------------------------------------------------------------
def test_everything_comes_back_from_a_file(fitted, X, tmp_path):
    fitted.save(tmp_path / "m.thali")
    back = thali.load(tmp_path / "m.thali")
    for name in ("Z_", "assignment_probabilities_", "components_"):
        assert np.array_equal(getattr(fitted, name), getattr(back, name)), name
    for name in ("elbo_", "elbos_", "engine_", "log_joint_"):
        assert getattr(fitted, name) == getattr(back, name), name
    assert all(
        np.array_equal(fitted.variational_params_[name], back.variational_params_[name])
        for name in fitted.variational_params_
    )
    assert fitted.score(X[:5]) == back.score(X[:5])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_stopped_run_goes_on_to_the_same_bound(X, likelihood, tmp_path, monkeypatch):
    engine = QUICK.replace(init="prior", tol=1e-14, solver="randomized_double_greedy")

    def model():
        return thali.LatentFeatures("ibp", likelihood, engine, random_state=5)

    check_resuming(model, X, tmp_path / "run.thali", monkeypatch, at=15)


@pytest.mark.parametrize("n_init", [1, 2])
def test_the_result_does_not_depend_on_the_number_of_threads(X, n_init, monkeypatch):
    engine = QUICK.replace(n_init=n_init)
    found = []
    for cores in (3, 1):
        monkeypatch.setattr(run_module, "cores", lambda cores=cores: cores)
        here = Local(cores if n_init == 1 else 1, most=7)  # so that there are many pieces
        monkeypatch.setattr(
            thali.MaximizationExpectation, "backend_for", lambda *_, here=here: here
        )
        found.append(thali.LatentFeatures("ibp", NONNEGATIVE, engine, random_state=1).fit(X))
    assert np.array_equal(found[0].history_["elbo"], found[1].history_["elbo"])
    assert np.array_equal(found[0].Z_, found[1].Z_)
    check(found[0], X)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_recorded_bound_of_tiny_data_never_falls(likelihood):
    """Columns of a few rows often come to be equal, or lose their last row, which costs orders."""
    for seed in (4, 16, 19, 47, 48, 69, 75):
        rng = np.random.default_rng(seed)
        shape = [(2, 3), (3, 2), (2, 2), (4, 3)][seed % 4]
        X = rng.exponential(size=shape) * 10 ** rng.uniform(-1, 1)
        if seed % 3 == 0:
            X = X + rng.normal(size=shape)
        engine = thali.MaximizationExpectation(n_init=1 + seed % 2)
        check(thali.LatentFeatures("ibp", likelihood, engine, random_state=seed).fit(X), X)


def test_an_iteration_that_lowers_what_is_reported_puts_rows_back():
    """Rows that would make two columns equal: the bound rises by less than the orders lose."""
    lowered = 0
    for given in random_problems(np.random.default_rng(0), 60):
        state.iterate(given)
        for _ in range(4):
            free, before = given.copy(), given.reported
            state.iterate(free)
            lowered += free.reported < before - 1e-9
            given.advance()
            assert given.reported >= before - 1e-9 * (1.0 + abs(before))
    assert lowered, "nothing here is put to the test"


def priors_without_their_numbers():
    """Every prior over features that the engine accepts: fixed, inferred, and without any alpha."""
    expected = np.array([3.0, 2.0, 1.5, 1.0, 0.5, 0.5, 0.4, 0.3])
    return {
        "fixed": thali.IBP(alpha=1.5),
        "uniform": thali.IBP(alpha=thali.Gamma(2.0, 1.0)),
        "shared": thali.TwoParameterIBP(beta=thali.Gamma(1.0, 1.0)),
        "mass known": thali.TwoParameterIBP(alpha=1.0, beta=thali.Gamma(1.0, 1.0)),
        "finite": thali.BetaBernoulli(n_components=4),
        "smooth": thali.SmoothIBP(shift=thali.Gamma(1.0, 1.0)),
        "flexible": thali.FlexibleIBP.from_expectations(m=expected, n_rows=8),
    }


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", priors_without_their_numbers())
@pytest.mark.parametrize("n_init", [1, 2])
def test_any_prior_will_do(name, likelihood, n_init, tmp_path):
    """One without a mass called alpha, too: FlexibleIBP has no hyperparameters at all."""
    prior = priors_without_their_numbers()[name]
    rng = np.random.default_rng(0)
    Z = rng.random((8, 2)) < 0.5
    X = Z @ (3.0 * rng.random((2, 4))) + 0.1 * rng.standard_normal((8, 4))
    model = fit(X, prior, likelihood, n_init=n_init)
    check(model, X)
    assert hasattr(model, "alpha_") == (name != "flexible")
    model.save(tmp_path / "model.thali")
    assert thali.load(tmp_path / "model.thali").elbo_ == model.elbo_


def test_a_prior_whose_numbers_cannot_be_maximized_is_refused(X):
    for prior in (thali.LearnedIBP(), thali.LearnedIBP(expected=np.ones(8))):
        with pytest.raises(
            ValueError, match=r"LearnedIBP learns can only be drawn\. Engines that can"
        ):
            fit(X[:8], prior)


def test_a_prior_that_weighs_rows_is_refused(X):
    weighing = thali.FlexibleIBP([0.0] * 8, row_potentials=(0.0, 0.5, -0.5))
    with pytest.raises(ValueError, match="does not weigh the number of features of a row"):
        fit(X[:8], weighing)


# ---- edges --------------------------------------------------------------------------------------
@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("init", ["empty", "prior"])
def test_any_start_will_do(X, prior, likelihood, init):
    check(fit(X, prior, likelihood, init=init), X)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("truncation", ["auto", 3])
def test_any_solver_will_do(X, solver, truncation):
    model = fit(X, solver=solver, truncation=truncation)
    check(model, X)
    assert model.n_components_ <= {"auto": 16 if solver == "exact" else 40, 3: 3}[truncation]


def test_a_finite_prior_keeps_to_its_number_of_features(X):
    Z = np.random.default_rng(0).random((len(X), 3)) < 0.5
    model = fit(X, thali.BetaBernoulli(n_components=3), init=Z, truncation="auto")
    check(model, X)
    assert model.n_components_ <= 3


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_little_data_are_taken(X, prior, likelihood):
    for part in (X[:1], X[:, :1], np.zeros((8, 3)), np.full((8, 3), 3.0)):
        check(fit(part, prior, likelihood), part)


def test_rows_and_columns_may_be_wholly_missing(X):
    gaps = X[:20, :10].copy()
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.1] = np.nan
    gaps[3], gaps[:, 5] = np.nan, np.nan
    for likelihood in LIKELIHOODS:
        model = fit(gaps, likelihood=likelihood)
        check(model, gaps)
        assert np.isfinite(model.impute()).all()


# ---- planted truth ------------------------------------------------------------------------------
def test_planted_features_are_found():
    """Strong signal: the very matrix, up to the order of columns."""
    rng = np.random.default_rng(0)
    Z = rng.random((200, 4)) < 0.4
    X = Z @ np.abs(rng.normal(0.0, 2.0, size=(4, 20))) + 0.2 * rng.normal(size=(200, 20))
    for likelihood in LIKELIHOODS:
        model = fit(X, likelihood=likelihood, truncation=10, max_iter=200)
        assert model.n_components_ == 4
        found = {tuple(column) for column in model.Z_.T.tolist()}
        assert found == {tuple(column) for column in Z.T.tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_twenty_planted_features_are_found_by_default(seed):
    data = thali.datasets.noisy_nonnegative(random_state=seed)
    n, k = data.Z.shape
    engine = thali.MaximizationExpectation(truncation=40)
    model = thali.LatentFeatures("ibp", NONNEGATIVE, engine, random_state=seed).fit(data.X)
    alpha = k / float((1.0 / np.arange(1, n + 1)).sum())
    at = Model(thali.IBP(alpha=alpha), thali.LinearGaussian(1.0, data.sigma_a))
    truth = at.log_joint(data.X, data.Z)
    assert model.n_components_ == 20
    assert at.log_joint(data.X, model.Z_) >= truth - 1e-3 * abs(truth)
