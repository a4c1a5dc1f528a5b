"""The variational engine from outside: results, refusals, files, stops, and edges."""

from __future__ import annotations

import numpy as np
import pytest
from resuming import check_resuming

import thali
from thali.engines.ascent import moves
from thali.results.fit import VariationalFit
from thali.run import loop as run_module

QUICK = thali.Variational(truncation=6, n_init=2, max_iter=40)


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=40, random_state=0).X


@pytest.fixture(scope="module")
def fitted(X):
    return thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=3).fit(X)


def fit(X, prior="ibp", likelihood="linear_gaussian", seed=0, **settings):
    settings = {"truncation": 4, "n_init": 1, "max_iter": 30, **settings}
    engine = thali.Variational(**settings)
    return thali.LatentFeatures(prior, likelihood, engine, random_state=seed).fit(X)


def check(model, X):
    assert np.isfinite(model.elbo_)
    assert model.assignment_probabilities_.shape == model.Z_.shape == (len(X), model.n_components_)
    assert np.isfinite(model.assignment_probabilities_).all()
    assert np.isfinite(model.components_).all()
    rises(model.history_["elbo"])


def rises(elbo):
    """From one iteration to the next, but for rounding."""
    assert (np.diff(elbo, axis=1) >= -1e-9 * np.abs(elbo[:, 1:])).all()


# ---- results ------------------------------------------------------------------------------------
def test_the_result_is_a_law_with_its_bound(fitted, X):
    check(fitted, X)
    assert isinstance(fitted.fit_, VariationalFit)
    assert fitted.elbo_ == fitted.history_["elbo"][:, -1].max()
    assert fitted.elbos_["joint"] == fitted.elbo_
    assert fitted.elbos_["factorized"] < fitted.elbos_["joint"]
    assert np.array_equal(fitted.Z_, fitted.assignment_probabilities_ > 0.5)
    assert fitted.variational_params_["tau"].shape == (6, 2)
    assert sum(draw.weight for draw in fitted.draws()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("posterior_", "variational, not draws of a chain; it has no ArviZ posterior"),
        ("diagnostics_", "no R-hat and no effective sample size; elbo_ and history_ tell"),
        ("best_", "no best draw. Its answer is Z_, with assignment_probabilities_"),
    ],
)
def test_what_only_draws_have_is_refused(fitted, name, words):
    with pytest.raises(ValueError, match=words):
        getattr(fitted, name)


def test_priors_and_likelihoods_without_the_means_are_refused(X):
    for prior, likelihood, words in (
        ("two_parameter_ibp", "linear_gaussian", "Truncates, which TwoParameterIBP does not have"),
        ("ibp", "noisy_or", "Expected, which NoisyOr does not have"),
    ):
        model = thali.LatentFeatures(prior, likelihood, "variational")
        with pytest.raises(ValueError, match=words):
            model.fit((X > 0.5).astype(float))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"truncation": 0}, "truncation must be at least 1, not 0"),
        ({"truncation": 2.5}, "truncation must be a whole number"),
        ({"truncation": "many"}, "truncation must be a number of features or 'auto', not 'many'"),
        ({"n_init": 0}, "n_init must be at least 1, not 0"),
        ({"max_iter": 0}, "max_iter must be at least 1, not 0"),
        ({"anneal": -1}, "anneal must be at least 0, not -1"),
        ({"tol": 0.0}, "tol must be"),
        ({"tol": float("nan")}, "tol must be"),
        ({"stick_bound": "jensen"}, "stick_bound must be 'multinomial' or 'taylor', not 'jensen'"),
        ({"features": "full"}, "features must be 'joint' or 'factorized', not 'full'"),
        ({"dtype": "float16"}, "one of 'float64', 'float32', 'tf32', not 'float16'"),
        ({"dtype": np.float32}, "dtype must be one of 'float64', 'float32'"),
        ({"forgetting": 0.5}, "forgetting must be above 0.5 and at most 1"),
        ({"delay": 0.0}, "delay must be"),
        ({"init": "random"}, "init"),
    ],
)
def test_bad_settings_are_told(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        thali.Variational(**settings)


# ---- files and stops ----------------------------------------------------------------------------
def test_everything_comes_back_from_a_file(fitted, X, tmp_path):
    fitted.save(tmp_path / "m.thali")
    back = thali.load(tmp_path / "m.thali")
    for name in ("Z_", "components_", "assignment_probabilities_", "X_"):
        assert np.array_equal(getattr(fitted, name), getattr(back, name)), name
    for name in ("elbo_", "elbos_", "engine_", "log_joint_", "seed_", "starts_"):
        assert getattr(fitted, name) == getattr(back, name), name
    assert fitted.variational_params_.keys() == back.variational_params_.keys()
    assert all(
        np.array_equal(fitted.variational_params_[name], back.variational_params_[name])
        for name in fitted.variational_params_
    )
    for name, values in fitted.history_.items():
        assert np.array_equal(values, back.history_[name])
    assert np.array_equal(fitted.transform(X[:5]), back.transform(X[:5]))
    assert fitted.score(X[:5]) == back.score(X[:5])
    for a, b in zip(fitted.draws(), back.draws(), strict=True):
        assert np.array_equal(a.Z, b.Z)
        assert np.array_equal(a.A, b.A)
    with pytest.raises(ValueError, match="no best draw"):
        back.best_  # noqa: B018


@pytest.mark.parametrize("likelihood", ["linear_gaussian", "sparse_factor"])
@pytest.mark.parametrize("missing", [False, True])
def test_a_stopped_run_goes_on_to_the_same_bound(X, likelihood, missing, tmp_path, monkeypatch):
    if missing:
        X = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)

    def model():
        engine = QUICK.replace(init="prior", tol=1e-14)
        return thali.LatentFeatures("ibp", likelihood, engine, random_state=5)

    check_resuming(model, X, tmp_path / "run.thali", monkeypatch, at=30)


def test_a_time_budget_stops_and_keeps_the_law(X):
    engine = thali.Variational(max_iter=10**6, tol=1e-300, init="prior", n_init=2)
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(
        X, time_budget=0.3
    )
    assert model.history_["elbo"].shape[1] < 10**6
    check(model, X)
    short = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(
        X, time_budget=1e-4
    )
    assert short.stopped_ == "time budget"
    check(short, X)


def test_the_result_does_not_depend_on_the_number_of_threads(X, monkeypatch):
    several = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=1).fit(
        X
    )
    monkeypatch.setattr(run_module, "cores", lambda: 1)
    monkeypatch.setattr(run_module, "SLICE", 0.0)
    single = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=1).fit(X)
    assert np.array_equal(several.history_["elbo"], single.history_["elbo"])
    assert np.array_equal(several.assignment_probabilities_, single.assignment_probabilities_)


# ---- numbers ------------------------------------------------------------------------------------
def test_single_precision_gives_nearly_the_same_bound(X):
    wide, narrow = (fit(X, init="ica", tol=1e-4, dtype=dtype) for dtype in ("float64", "float32"))
    assert narrow.elbo_ == pytest.approx(wide.elbo_, rel=1e-3)
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    wide, narrow = (
        fit(gaps, init="columns", max_iter=5, dtype=dtype) for dtype in ("float64", "float32")
    )
    assert narrow.elbo_ == pytest.approx(wide.elbo_, rel=1e-3)


def test_a_joint_law_is_no_worse_and_a_taylor_bound_is_no_worse(X):
    plain = fit(X, init="columns")
    assert plain.elbos_["joint"] >= plain.elbos_["factorized"]
    assert fit(X, init="columns", stick_bound="taylor").elbo_ > plain.elbo_


# ---- edges --------------------------------------------------------------------------------------
LIKELIHOODS = ["linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor"]
BOTH = pytest.mark.parametrize("prior", ["ibp", thali.BetaBernoulli(n_components=3)], ids=str)


@BOTH
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_rows_and_columns_may_be_wholly_missing(X, prior, likelihood):
    gaps = X[:20, :10].copy()
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.1] = np.nan
    gaps[3], gaps[:, 5] = np.nan, np.nan
    model = fit(gaps, prior, likelihood)
    check(model, gaps)
    assert np.isfinite(model.impute()).all()


@BOTH
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("init", ["empty", "prior"])
def test_any_start_will_do(X, prior, likelihood, init):
    check(fit(X, prior, likelihood, init=init), X)


def test_a_start_with_more_features_than_the_truncation_keeps_the_most_frequent(X):
    Z = np.random.default_rng(0).random((len(X), 9)) < np.linspace(0.8, 0.1, 9)
    model = fit(X, init=Z, truncation=3)
    assert model.variational_params_["nu"].shape[1] <= 3
    assert model.variational_params_["tau"].shape == (3, 2)
    check(model, X)


@BOTH
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_one_row_is_enough(X, prior, likelihood):
    check(fit(X[:1], prior, likelihood), X[:1])


@BOTH
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_data_are_taken(prior, likelihood, value):
    X = np.full((8, 3), value)
    check(fit(X, prior, likelihood), X)


def test_one_column_is_enough(X):
    check(fit(X[:, :1]), X)


def test_the_automatic_truncation_is_that_of_the_prior(X):
    model = fit(X, thali.IBP(alpha=2.0), truncation="auto")
    assert len(model.variational_params_["tau"]) == thali.IBP(alpha=2.0).truncation(len(X), 0.01)


def test_a_finite_prior_has_its_own_number_of_features(X):
    model = fit(X, thali.BetaBernoulli(n_components=5), truncation=2)
    assert len(model.variational_params_["tau"]) == 5


def test_tempering_comes_before_a_start_that_knows_nothing(X):
    check(fit(X, init="prior", anneal=5), X)


def test_tempering_helps_where_noise_is_small():
    """From draws of the prior, the planted four features and no more, more often."""
    X = thali.datasets.planted(n=300, d=60, random_state=0).X
    found = {
        anneal: [
            thali.LatentFeatures(
                likelihood="linear_gaussian",
                engine=thali.Variational(truncation=10, n_init=1, init="prior", anneal=anneal),
                random_state=seed,
                progress=False,
            )
            .fit(X)
            .n_components_
            for seed in range(4)
        ]
        for anneal in (0, 30)
    }
    assert found[30].count(4) > found[0].count(4)


def test_planted_features_are_found():
    """Strong signal: the very matrix, up to the order of columns."""
    rng = np.random.default_rng(0)
    Z = rng.random((200, 4)) < 0.4
    X = Z @ rng.normal(0.0, 2.0, size=(4, 20)) + 0.2 * rng.normal(size=(200, 20))
    model = fit(X, truncation=10, max_iter=200)
    assert model.n_components_ == 4
    found = {tuple(column) for column in model.Z_.T.tolist()}
    assert found == {tuple(column) for column in Z.T.tolist()}


def test_a_stop_loses_none_of_the_bounds(fitted):
    """A restart that had ended when a run was stopped is not looked at again after the resume."""
    engine, model, data = fitted.engine_, fitted.fit_.model, fitted.fit_.data
    state = engine.stream(model, data, fitted.fit_.params, fitted.fit_.mean_hyper()).state
    again = engine.from_arrays(model, data, *engine.to_arrays(state))
    assert engine.bounds(model, again) == engine.bounds(model, state)
    assert engine.bounds(model, again).keys() == {"joint", "factorized"}


def test_rounding_in_float32_does_not_make_squares_negative(rng):
    X = (rng.random((200, 4)) < 0.4) @ rng.standard_normal((4, 30))
    X += 1e-5 * rng.standard_normal(X.shape)
    likelihood = thali.LinearGaussian(sigma_x=thali.InverseGamma(1e-3, 1e-14), sigma_a=1.0)
    model = fit(X, "ibp", likelihood, truncation=6, init="ica", dtype="float32")
    assert np.isfinite(model.elbo_)


def test_a_feature_is_born_with_the_size_of_the_data(X):
    """Beside one of another size, features updated one after the other would all be wrong."""
    X = 1e-6 * np.abs(X)
    model = fit(X, "ibp", "nonnegative_linear_gaussian", init="ica", truncation=8)
    fitted = model.fit_
    state = fitted.engine.stream(
        fitted.model, fitted.data, fitted.params, fitted.mean_hyper()
    ).state
    takers = np.arange(len(X)) < 5
    rows = state.rows.with_column(takers, np.ones(len(X)))
    law = moves._with_feature(state, rows)
    assert np.array_equal(law.phi[:-1], state.features.phi)
    left = X[:5].sum(axis=0) - state.rows.nu[:5].sum(axis=0) @ state.features.phi
    precision = 5.0 + (state.hyper["sigma_x"] / state.hyper["sigma_a"]) ** 2
    assert np.allclose(law.mu[-1], left / precision, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # of one feature at a time too many
@pytest.mark.parametrize(
    "engine", [thali.Variational(truncation=60), thali.MaximizationExpectation()]
)
def test_many_features_are_born_several_at_a_time(engine, monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.random((800, 30)) < 0.15
    X = Z @ rng.normal(size=(30, 60)) + 0.3 * rng.normal(size=(800, 60))
    engine = engine.replace(n_init=1, init=Z[:, :2], max_iter=300)
    model = thali.LatentFeatures("ibp", thali.LinearGaussian(), engine, random_state=0)
    born, several = [], moves._add_several

    def counted(state, rng):
        before = state.k
        kept = several(state, rng)
        born.append(state.k - before if kept else 0)
        return kept

    monkeypatch.setattr(moves, "_add_several", counted)
    together = model.fit(X).elbo_
    assert max(born) >= 8
    monkeypatch.setattr(moves, "SURE", 10**9)
    born.clear()
    assert together > model.fit(X).elbo_  # of one at a time
    assert not born


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")
@pytest.mark.parametrize("sigma", [1e-2, 1e-3])
@pytest.mark.parametrize("kind", [thali.Variational, thali.MaximizationExpectation])
def test_columns_that_depend_on_each_other_cost_no_digits(kind, sigma):
    """A column that is the sum of two makes ZᵀZ singular but for r = σ_x²/σ_a²."""
    rng = np.random.default_rng(0)
    Z = rng.random((3000, 4)) < 0.4
    Z[:, 1] &= ~Z[:, 0]
    Z = np.column_stack([Z, Z[:, 0] | Z[:, 1]])
    X = Z @ rng.normal(size=(5, 60)) + sigma * rng.normal(size=(3000, 60))
    engine = kind(truncation=8, n_init=1, init=Z, max_iter=20)
    model = thali.LatentFeatures("ibp", thali.LinearGaussian(), engine, random_state=0).fit(X)
    steps = np.diff(model.history_["elbo"][0])
    assert steps.min() > -1e-9 * abs(model.elbo_)
    assert model.sigma_x_ == pytest.approx(sigma, rel=0.15)  # not below a thousandth of the data
