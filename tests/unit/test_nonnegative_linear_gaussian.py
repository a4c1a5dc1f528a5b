"""The nonnegative linear-Gaussian likelihood: densities and kernels against plain versions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from oracles import features as oracles
from oracles import nonnegative as nonnegative_oracles
from scipy import integrate, stats
from statistical.budget import judge

import thali
from thali.data import Data
from thali.evaluation import match_assignments
from thali.kernels import nonnegative_features as kernel
from thali.kernels.positive_entries import exponential, half_normal
from thali.likelihoods.gibbs_updates import GibbsState, Turned
from thali.structures.features import FeatureTables

SCALES = [(0.6, 0.9), (0.05, 2.0), (3.0, 0.1)]
BY_SCALE = pytest.mark.parametrize(("sigma_x", "sigma_a"), SCALES)


def hyper_of(sigma_x, sigma_a):
    return {"sigma_x": sigma_x, "sigma_a": sigma_a}


LAWS = {
    "half_normal": half_normal,
    "exponential": lambda sigma_x, sigma_a: exponential(sigma_x, np.sqrt(2.0) / sigma_a),
}
BY_LAW = pytest.mark.parametrize("law", LAWS)


def prior_of(law, sigma_a):
    """With E[a²] = σ_a²."""
    if law == "exponential":
        return stats.expon(scale=sigma_a / np.sqrt(2.0))
    return stats.halfnorm(scale=sigma_a)


def given_sum(law, total, m, sigma_x, sigma_a):
    """μ and s of a ~ TN(μ, s²) given m residuals of this sum: p(a) Π N(e; a, σ_x²) completed to a
    square."""
    if law == "exponential":
        return (total - np.sqrt(2.0) / sigma_a * sigma_x**2) / m, sigma_x / np.sqrt(m)
    v = 1.0 / (m / sigma_x**2 + 1.0 / sigma_a**2)
    return v * total / sigma_x**2, np.sqrt(v)


@BY_SCALE
@BY_LAW
def test_densities_are_scipys(law, sigma_x, sigma_a, rng):
    X, Z = rng.normal(size=(6, 4)), rng.random((6, 3)) < 0.5
    A = np.abs(rng.normal(size=(3, 4)))
    likelihood = thali.NonnegativeLinearGaussian(sigma_x, sigma_a, law)
    given = stats.norm.logpdf(X, Z @ A, sigma_x).sum()
    prior = prior_of(law, sigma_a).logpdf(A).sum()
    assert likelihood.log_likelihood(X, Z, A) == pytest.approx(given, rel=1e-12)
    found = likelihood.log_density(GibbsState(Data(X), Z, {"A": A}, hyper_of(sigma_x, sigma_a)))
    assert found == pytest.approx(given + prior, rel=1e-12)


@BY_SCALE
@pytest.mark.parametrize("e", [-4.0, -0.3, 0.0, 0.7, 5.0])
@BY_LAW
def test_the_gain_of_a_dish_is_its_integral(e, sigma_x, sigma_a, law):
    """M(e) = ∫ N(e; a, σ_x²) p(a) da / N(e; 0, σ_x²), in units that do not underflow."""

    def ratio(a):
        return np.exp((e * a - 0.5 * a * a) / sigma_x**2 - top) * prior_of(law, sigma_a).pdf(a)

    peak = max(e, 0.0) / (1.0 + (sigma_x / sigma_a) ** 2)
    top = (e * peak - 0.5 * peak * peak) / sigma_x**2
    width = min(sigma_x, sigma_a) * (1 if law == "half_normal" else 3)
    edges = [max(peak - 10 * width, 0.0), peak, peak + 10 * width]
    total = sum(
        integrate.quad(ratio, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(edges) if b > a
    )
    found = kernel.log_gain(np.array([e]), LAWS[law](sigma_x, sigma_a))
    assert found == pytest.approx(np.log(total) + top, abs=1e-8)


def test_the_bound_of_the_gain_is_above_it_and_near():
    scales = half_normal(1.0, 1e6)  # t = e
    for t in np.concatenate([np.linspace(-40, 40, 4001), np.linspace(-3, 3, 6001)]):
        bound, value = (f(np.array([t]), scales) for f in (kernel.most_gain, kernel.log_gain))
        assert bound >= value - 1e-12
        assert bound - value < 0.01 or t < -0.5


@BY_LAW
def test_draws_of_a_feature_have_its_conditional_law(law, rng):
    """One feature, so that draws are independent, against scipy's law from plain sums."""
    sigma_x, sigma_a, draws = 0.7, 1.1, 4000
    Z = (rng.random((8, 1)) < 0.7).astype(float)
    X = rng.normal(size=(8, 3)) - [0.0, 1.5, -1.0]
    C, T = Z.T @ Z, Z.T @ X
    A, seen = np.ones((1, 3)), np.zeros((draws, 3))
    for i in range(draws):
        kernel.draw_features(rng, C, T, A, LAWS[law](sigma_x, sigma_a), 1)
        seen[i] = A[0]
    found = {}
    for d in range(3):
        mu, s = given_sum(law, Z[:, 0] @ X[:, d], Z.sum(), sigma_x, sigma_a)
        truth = stats.truncnorm(-mu / s, np.inf, loc=mu, scale=s)
        found[f"KS of column {d}"] = float(stats.kstest(seen[:, d], truth.cdf).pvalue)
    judge("nonnegative", found)


@BY_LAW
def test_a_pass_has_the_density_of_its_draws(law, rng):
    """Entry by entry with numpy: later features see the new values of earlier ones."""
    sigma_x, sigma_a = 0.8, 1.3
    Z, X = (rng.random((9, 3)) < 0.5).astype(float), rng.normal(size=(9, 2))
    before, after = np.abs(rng.normal(size=(2, 3, 2)))
    total, A = 0.0, before.copy()
    for k in range(3):
        others = X - np.delete(Z, k, 1) @ np.delete(A, k, 0)
        mu, s = given_sum(law, Z[:, k] @ others, Z[:, k].sum(), sigma_x, sigma_a)
        total += stats.truncnorm.logpdf(after[k], -mu / s, np.inf, loc=mu, scale=s).sum()
        A[k] = after[k]
    entries = LAWS[law](sigma_x, sigma_a)
    found = kernel.log_density_of_pass(Z.T @ Z, Z.T @ X, before, after, entries)
    assert found == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize(("sigma_x", "sigma_a"), [(0.6, 0.9), (0.9, 0.5), (1.5, 1.0)])
def test_the_oracles_agree_with_each_other(sigma_x, sigma_a):
    """Convolutions against orthants, for every class of at most two features on two rows."""
    X = np.array([[1.4, 0.5], [1.8, -0.3]]) * sigma_a
    entry = nonnegative_oracles.exponential
    found = nonnegative_oracles.log_likelihoods_of_two_rows(X, sigma_x, sigma_a, 2, entry)
    for counts, value in zip(oracles.classes(2, 2), found, strict=True):
        Z = np.repeat(oracles.histories(2), counts, axis=0).T
        wanted = nonnegative_oracles.log_likelihood_of_exponentials(X, Z, sigma_x, sigma_a)
        assert value == pytest.approx(wanted, abs=1e-6)
    found = nonnegative_oracles.log_likelihoods_of_two_rows(X, sigma_x, sigma_a, 2)
    for counts, value in zip(oracles.classes(2, 2), found, strict=True):
        Z = np.repeat(oracles.histories(2), counts, axis=0).T
        wanted = nonnegative_oracles.log_likelihood_by_orthant(X, Z, sigma_x, sigma_a)
        assert value == pytest.approx(wanted, abs=1e-6)


@BY_LAW
def test_the_judgment_is_exact_for_one_feature_and_low_for_two(law, rng):
    sigma_x, sigma_a = 0.6, 0.9
    likelihood = thali.NonnegativeLinearGaussian(sigma_x, sigma_a, law)
    by = nonnegative_oracles
    truth = by.log_likelihood_of_exponentials
    truth = truth if law == "exponential" else by.log_likelihood_by_orthant
    hyper, X = hyper_of(sigma_x, sigma_a), rng.normal(size=(5, 2)) + 0.7
    for k in (1, 2):
        Z = np.ones((5, k), np.uint8)
        Z[: k - 1, 0] = 0
        exact = truth(X, Z, sigma_x, sigma_a)
        place, judged = GibbsState(Data(X), Z, {"A": np.ones((k, 2))}, hyper), []
        for _ in range(300):
            judged.append(likelihood.estimate_evidence(rng, place))
            likelihood.update_parameters(rng, place, hold=True)
        if k == 1:
            assert judged == pytest.approx([exact] * 300, abs=1e-8)
        else:
            assert exact - 2.0 < np.mean(judged) < exact


@BY_LAW
def test_the_judgment_does_not_depend_on_the_unit(law, rng):
    """X in other units: log P(X | Z) moves by −ND log(unit), however many features there are."""
    X, unit = rng.normal(size=(7, 3)) + 1.0, 2.0**10
    for k in (1, 4):
        Z = (rng.random((7, k)) < 0.6).astype(np.uint8)
        Z[0] = 1
        A = np.abs(rng.normal(size=(k, 3)))
        one, other = (
            thali.NonnegativeLinearGaussian(law=law).estimate_evidence(
                np.random.default_rng(0),
                GibbsState(Data(u * X), Z, {"A": u * A}, hyper_of(0.5 * u, 1.5 * u)),
            )
            for u in (1.0, unit)
        )
        assert other == pytest.approx(one - X.size * np.log(unit), rel=1e-10)


@pytest.mark.parametrize("capacity", [-1, 3, 6])
def test_own_dishes_keep_the_books(capacity, rng):
    """What comes back is a matrix without empty columns, its features, and no more than allowed."""
    likelihood, hyper = thali.NonnegativeLinearGaussian(0.3, 1.0), hyper_of(0.3, 1.0)
    tables = FeatureTables(np.zeros(10), 1.0, capacity)
    for _ in range(50):
        X = np.abs(rng.normal(size=(10, 2)))
        Z = np.zeros((10, 3), np.uint8)
        Z[:4, 0] = Z[5, 1] = Z[6, 2] = 1
        A = np.abs(rng.normal(size=(3, 2)))
        m = Z.sum(axis=0, dtype=np.int64)
        place = GibbsState(Data(X), Z, {"A": A}, hyper)
        likelihood.update_own(rng, place, tables, Turned(m))
        new, parameters = place.bits, place.parameters
        assert new.dtype == np.uint8
        assert (new.sum(axis=0) >= 1).all()
        assert np.array_equal(new[:, 0], Z[:, 0])  # shared by others: not touched
        assert np.array_equal(parameters["A"][0], A[0])
        assert parameters["A"].shape == (new.shape[1], 2)
        assert (parameters["A"] >= 0.0).all()
        assert capacity < 0 or new.shape[1] <= capacity


@BY_LAW
def test_planted_nonnegative_features_are_found(law, seed):
    data = thali.datasets.noisy_nonnegative(120, 60, 5, sigma_x=0.5, random_state=seed)
    engine = thali.UncollapsedGibbs(sweeps=60, chains=2, init="ica")
    likelihood = thali.NonnegativeLinearGaussian(law=law)
    model = thali.LatentFeatures("ibp", likelihood, engine, random_state=seed)
    model.fit(data.X)
    matching = match_assignments(data.Z, model.Z_)
    assert model.n_components_ == 5
    assert matching.distance <= 0.02 * data.Z.size
    assert (model.components_ >= 0.0).all()
    assert model.sigma_x_ == pytest.approx(0.5, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("init", "unit"), [("ica", 1.0), ("race", 1.0), ("race", 1e-3)])
@pytest.mark.parametrize("which", range(3))
def test_planted_nonnegative_features_are_found_in_larger_data(which, init, unit):
    """In other units too, where the density of A would choose among starts by their size."""
    data = thali.datasets.noisy_nonnegative(200, 100, 8, random_state=which)
    engine = thali.UncollapsedGibbs(sweeps=300, chains=2, init=init)
    model = thali.LatentFeatures("ibp", "nonnegative_linear_gaussian", engine, random_state=which)
    model.fit(unit * data.X)
    assert model.n_components_ == 8
    assert match_assignments(data.Z, model.Z_).distance <= 0.02 * data.Z.size


@BY_LAW
def test_auto_takes_an_engine_that_can_and_the_rest_works(law, tmp_path):
    data = thali.datasets.noisy_nonnegative(30, 8, 2, sigma_x=0.3, random_state=0)
    model = thali.LatentFeatures(
        thali.BetaBernoulli(n_components=4),
        thali.NonnegativeLinearGaussian(law=law),
        random_state=0,
    )
    model.set_params(engine=thali.UncollapsedGibbs(sweeps=20, chains=2, init="prior")).fit(data.X)
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert again.likelihood_.law == law
    assert np.array_equal(again.Z_, model.Z_)
    assert np.array_equal(again.components_, model.components_)
    pairs = zip(again.draws(), model.draws(), strict=True)
    assert all(np.array_equal(a.A, b.A) and a.log_joint == b.log_joint for a, b in pairs)
    assert model.transform(data.X).shape == model.Z_.shape
    model.report(tmp_path / "report.html")
    gap = np.where(np.eye(1, data.X.size).reshape(data.X.shape), np.nan, data.X)
    assert np.mean(model.transform(gap) == model.transform(data.X)) > 0.95
    assert np.isfinite(model.score(gap))
    from thali.model import Model
    from thali.run.choices import choose_engine

    parts = Model(thali.IBP(), thali.NonnegativeLinearGaussian())
    assert isinstance(choose_engine("auto", parts), thali.UncollapsedGibbs)


@BY_LAW
def test_the_log_joint_of_a_draw_is_its_density(law):
    data = thali.datasets.noisy_nonnegative(30, 8, 2, sigma_x=0.3, random_state=0)
    engine = thali.UncollapsedGibbs(sweeps=10, chains=1, init="prior")
    prior, likelihood = thali.IBP(1.0), thali.NonnegativeLinearGaussian(0.3, 1.0, law)
    model = thali.LatentFeatures(prior, likelihood, engine, random_state=0).fit(data.X)
    for draw in model.draws():
        place = GibbsState(Data.of(data.X), draw.Z, {"A": draw.A}, draw.hyper)
        density = likelihood.log_density(place)
        assert draw.log_joint == pytest.approx(density + prior.log_prob(draw.Z), rel=1e-10)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="law must be 'half_normal' or 'exponential'"):
        thali.NonnegativeLinearGaussian(law="gamma")
    with pytest.raises(ValueError, match="NonnegativeLinearGaussian: sigma_x must be"):
        thali.NonnegativeLinearGaussian(sigma_x=-1.0)
    with pytest.raises(TypeError, match="NonnegativeLinearGaussian: sigma_a must be"):
        thali.NonnegativeLinearGaussian(sigma_a="large")
    with pytest.raises(ValueError, match="NonnegativeLinearGaussian: sigma_x=1e-09 is less than"):
        thali.LatentFeatures(likelihood=thali.NonnegativeLinearGaussian(1e-9)).fit(np.ones((4, 3)))
    with pytest.raises(ValueError, match="Engines that can: UncollapsedGibbs"):
        thali.LatentFeatures(
            likelihood="nonnegative_linear_gaussian", engine="collapsed_gibbs"
        ).fit(np.ones((4, 3)))


@BY_LAW
def test_data_are_drawn_from_the_model(law):
    likelihood = thali.NonnegativeLinearGaussian(sigma_x=0.5, sigma_a=2.0, law=law)
    data = thali.datasets.draw(thali.IBP(3.0), likelihood, n=400, d=50, random_state=0)
    assert (data.A >= 0.0).all()
    assert np.sqrt(np.mean(data.A**2)) == pytest.approx(2.0, rel=0.1)
    assert (data.X - data.Z @ data.A).std() == pytest.approx(0.5, rel=0.05)
