"""A noise of its own for each column: densities against closed forms, and every answer of a fit."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln
from scipy.stats import multivariate_normal
from sklearn.base import clone

import thali
from thali.cli import run
from thali.data import Data
from thali.likelihoods.column_noise import ColumnNoise
from thali.likelihoods.gibbs_updates import GibbsState
from thali.model import Model
from thali.results.prediction import _predicted
from thali.results.trace import Recorded
from thali.starts import Start

NOISE, SIGMA_A = np.array([0.5, 20.0, 0.03]), 1.3
LIKELIHOOD = ColumnNoise(sigma_a=SIGMA_A, noise=NOISE, sizes=(1.0, 1.0, 1.0))
COLUMN = thali.LinearGaussian(noise="column")
UNITS = np.array([1.0, 50.0, 0.02, 1.0, 7.0])
rng = np.random.default_rng(0)
Z = (rng.random((5, 2)) < 0.6).astype(int)
X = NOISE * rng.normal(size=(5, 3))
GAPS = X.copy()
GAPS[[0, 3], [1, 2]] = np.nan
QUICK = thali.CollapsedGibbs(sweeps=60, chains=1)


def made(n=50, gaps=0.0):
    rng = np.random.default_rng(1)
    Z = rng.random((n, 2)) < 0.5
    A = 3.0 * np.array([[1.0, -1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, -1.0, 0.0]])
    X = UNITS * (Z @ A + 0.7 * rng.normal(size=(n, 5)))
    return np.where(rng.random(X.shape) < gaps, np.nan, X), Z


def fit(X, engine=QUICK, **settings):
    return thali.LatentFeatures(likelihood=COLUMN, engine=engine, random_state=0, **settings).fit(X)


@pytest.fixture(scope="module")
def fitted():
    return fit(made(gaps=0.05)[0])


@pytest.mark.parametrize("data", [X, GAPS])
def test_the_marginal_is_that_of_each_column_by_itself(data):
    total = 0.0
    for x, sd in zip(data.T, NOISE, strict=True):
        seen = ~np.isnan(x)
        C = sd**2 * (np.eye(5) + SIGMA_A**2 * Z @ Z.T)
        total += multivariate_normal.logpdf(x[seen], cov=C[np.ix_(seen, seen)])
    assert LIKELIHOOD.log_marginal(data, Z) == pytest.approx(total, rel=1e-10)


def test_bayes_rule_holds_at_any_features():
    A = NOISE * np.random.default_rng(2).normal(size=(2, 3))
    posterior = 0.0
    for x, sd, a, mean in zip(X.T, NOISE, A.T, LIKELIHOOD.features(X, Z).T, strict=True):
        M = np.linalg.inv(Z.T @ Z + np.eye(2) / SIGMA_A**2)
        assert np.allclose(mean, M @ Z.T @ x)
        posterior += multivariate_normal.logpdf(a, mean, sd**2 * M)
    state = GibbsState(Data(X), Z.astype(np.uint8), {"A": A}, {"sigma_a": SIGMA_A, "noise": NOISE})
    joint = LIKELIHOOD.log_density(state)
    assert LIKELIHOOD.log_marginal(X, Z) + posterior == pytest.approx(joint, rel=1e-10)
    prior = sum(
        multivariate_normal.logpdf(a, cov=(sd * SIGMA_A) ** 2 * np.eye(2))
        for a, sd in zip(A.T, NOISE, strict=True)
    )
    assert LIKELIHOOD.log_likelihood(X, Z, A) + prior == pytest.approx(joint, rel=1e-10)


def test_draws_of_features_have_their_mean_and_spread():
    rng = np.random.default_rng(3)
    draws = np.array([LIKELIHOOD.draw_features(rng, GAPS, Z) for _ in range(4000)])
    spread = draws.std(axis=0)
    assert np.all(np.abs(draws.mean(axis=0) - LIKELIHOOD.features(GAPS, Z)) < 0.1 * spread)
    M = np.linalg.inv(Z.T @ Z + np.eye(2) / SIGMA_A**2)  # of the column without gaps
    assert np.allclose(spread[:, 0], NOISE[0] * np.sqrt(np.diag(M)), rtol=0.1)


def test_missing_entries_are_those_of_a_normal_given_the_others():
    found = LIKELIHOOD.missing_entries(GAPS, Z)
    for i, (n, d) in enumerate([(0, 1), (3, 2)]):
        seen = np.arange(5) != n
        C = NOISE[d] ** 2 * (np.eye(5) + SIGMA_A**2 * Z @ Z.T)
        weights = np.linalg.solve(C[np.ix_(seen, seen)], C[seen, n])
        assert found.mean[i] == pytest.approx(weights @ X[seen, d], rel=1e-8)
        assert found.variance[i] == pytest.approx(C[n, n] - weights @ C[seen, n], rel=1e-8)


@pytest.mark.parametrize("engine", [QUICK, thali.UncollapsedGibbs(sweeps=100, chains=1)])
def test_features_are_found_in_columns_of_unlike_units(engine):
    X, Z = made()
    model = fit(X, engine)
    assert model.n_components_ == 2
    agree = (model.Z_[:, :, None] == Z[:, None, :]).mean(axis=0)
    assert np.all(agree.max(axis=0) > 0.9)
    assert np.allclose(model.noise_ / UNITS, 0.7, rtol=0.4)
    assert np.abs(model.components_[:, 1]).max() > 100.0  # the data's own units
    assert np.allclose(model.inverse_transform(model.Z_), model.Z_ @ model.components_)
    assert (model.transform(X) == model.Z_).mean() > 0.95
    best = model.best_
    fixed = Model(model.prior_, model.likelihood_).at(best.hyper)
    assert fixed.log_joint(X, best.Z) == pytest.approx(best.log_joint, rel=1e-10)


def test_scores_of_units_differ_by_their_jacobian():
    X, _ = made()
    one, other = fit(X), fit(X * 2.0**10)
    assert np.array_equal(one.Z_, other.Z_)
    change = 5 * np.log(2.0**10)
    assert one.score(X) - other.score(X * 2.0**10) == pytest.approx(change, rel=1e-6)
    assert np.allclose(one.predict_proba(X), other.predict_proba(X * 2.0**10))


def test_score_is_the_density_of_all_rows_less_that_of_the_others():
    """Of one new row: log P(X, x | Z, z) − log P(X | Z), summed over z and features of its own."""
    X, _ = made(12)
    model = thali.LatentFeatures(
        thali.BetaBernoulli(n_components=2), COLUMN, QUICK, random_state=0
    ).fit(X[:-1])
    draw = next(model.draws())
    fixed = Model(model.prior_, model.likelihood_).at(draw.hyper)
    logs = _predicted(
        model.fit_, Recorded(draw.Z, {}, {}), draw.hyper, Data(X[-1:]), densities=True
    )
    after = []
    full = np.concatenate([draw.Z, np.zeros((11, 2 - draw.Z.shape[1]), bool)], axis=1)
    for z in np.ndindex(2, 2):
        both = np.concatenate([full, [z]]).astype(bool)
        after.append(_log_of_matrix(fixed, X, both))
    assert logs[0] == pytest.approx(
        np.logaddexp.reduce(after) - _log_of_matrix(fixed, X[:-1], full), rel=1e-8
    )


def _log_of_matrix(model, X, Z):
    """log P(X, Z) of one matrix in order, under a beta-Bernoulli prior of two columns."""
    a = model.prior.alpha / 2.0
    m, n = Z.sum(axis=0), len(Z)
    prior = (betaln(m + a, n - m + 1.0) - betaln(a, 1.0)).sum()
    return prior + model.likelihood.log_marginal(X, Z.astype(float))


def test_intervals_of_missing_entries(fitted):
    filled, low, high = fitted.impute(interval=0.9)
    gone = np.isnan(fitted.X_)
    assert np.all((low < filled)[gone])
    assert np.all((filled < high)[gone])
    assert np.array_equal(filled[~gone], fitted.X_[~gone])
    std = fitted.impute(return_std=True)[1]
    assert np.all(std[~gone] == 0.0)
    assert np.all((0.5 < std / UNITS)[gone])
    assert np.all((std / UNITS < 3.0)[gone])


def test_a_saved_model_is_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m.thali")
    other = thali.load(tmp_path / "m.thali")
    assert other.likelihood_ == fitted.likelihood_
    assert other.likelihood == COLUMN
    assert np.array_equal(other.noise_, fitted.noise_)
    assert np.array_equal(other.components_, fitted.components_)
    assert other.score(made()[0]) == fitted.score(made()[0])


@pytest.mark.parametrize("engine", [QUICK, thali.UncollapsedGibbs(sweeps=60, chains=1)])
def test_a_state_from_a_file_goes_on_as_it_would_have(engine):
    data = Data.of(made(20, gaps=0.1)[0])
    model = Model(thali.IBP(), COLUMN).resolve(data)
    rng = np.random.default_rng(4)
    state = engine.begin(
        rng, model, data, Start("empty", np.zeros((20, 0), bool), model.start(data))
    )
    for _ in range(10):
        engine.step(rng, model, data, state)
    other = engine.from_arrays(model, data, *engine.to_arrays(state))
    twin = deepcopy(rng)
    for _ in range(5):
        one = engine.step(rng, model, data, state)
        two = engine.step(twin, model, data, other)
        assert one.log_joint == two.log_joint
        assert np.array_equal(one.hyper["noise"], two.hyper["noise"])


def test_names_of_columns_are_in_the_report(tmp_path):
    X = pd.DataFrame(made(30)[0], columns=["height", "weight", "dose", "age", "pulse"])
    model = fit(X)
    page = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "size of the noise of height" in page
    assert "each column has its own size" in page
    assert list(model.effects()["column"].unique()) == list(X.columns)


def test_the_command_line_has_it(tmp_path):
    path = tmp_path / "X.csv"
    np.savetxt(path, made(20)[0], delimiter=",")
    options = ["--sweeps", "12", "--chains", "1", "--out", str(tmp_path / "out"), "--quiet"]
    assert run(["fit", str(path), "--noise", "column", *options]) == 0
    model = thali.load(tmp_path / "out" / "model.thali")
    assert model.likelihood == COLUMN
    assert isinstance(model.likelihood_, ColumnNoise)


@pytest.mark.parametrize(
    "engine",
    ["variational", "particle_filter", "beam_search", "metropolis", "maximization_expectation"],
)
def test_other_engines_refuse_it_and_name_those_that_can(engine):
    match = "cannot run .*Engines that can: CollapsedGibbs, UncollapsedGibbs"
    with pytest.raises(ValueError, match=match):
        fit(X, engine)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"sigma_x=0\.5 is for noise='shared'"):
        thali.LinearGaussian(0.5, noise="column")
    with pytest.raises(ValueError, match=r"sigma_x=.*Gamma.* is for noise='shared'"):
        thali.LinearGaussian(thali.Gamma(1, 1), noise="column")
    with pytest.raises(ValueError, match="noise must be 'shared' or 'column', not 'row'"):
        thali.LinearGaussian(noise="row")
    with pytest.raises(ValueError, match="evidence cannot be estimated"):
        fit(made(12)[0]).evidence()


def test_it_is_a_parameter_like_others():
    model = thali.LatentFeatures(likelihood=COLUMN)
    assert clone(model).likelihood == COLUMN
    assert model.get_params()["likelihood__noise"] == "column"
    model.set_params(likelihood__noise="shared")
    assert model.likelihood == thali.LinearGaussian()
    shared = thali.LinearGaussian()
    assert Model(thali.IBP(), shared).likelihood is shared
    assert isinstance(Model(thali.IBP(), COLUMN).likelihood, ColumnNoise)


def test_columns_that_say_nothing_are_fitted_too():
    X = made(30)[0]
    X[:, 0], X[:, 1] = 0.0, 3.0
    model = fit(X)
    assert np.all(np.isfinite(model.noise_))
    assert np.all(model.noise_ > 0.0)
