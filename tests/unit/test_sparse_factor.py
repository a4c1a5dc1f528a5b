"""Sparse factors piece by piece: entries, amounts, own dishes, densities, starts, doors."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.sparse import log_ratio_by_quadrature
from scipy import stats
from scipy.special import log_ndtr, logsumexp
from statistical.budget import TESTS, judge

import thali
from thali.cli.commands import run as command
from thali.data import Data
from thali.kernels.bit_prior import BitPrior, accepts, prior_log_odds
from thali.kernels.sparse_factor import (
    draw_slab,
    fill_bins,
    log_mills,
    log_proposal,
    log_slab_ratio,
    propose_weight,
    turn_entries,
)
from thali.likelihoods.gibbs_updates import GibbsState
from thali.likelihoods.observed_rows import own_features
from thali.model import Model
from thali.registry import STARTS
from thali.starts import given_start

HYPER = {"alpha": 1.0, "sigma_x": 0.5, "sigma_a": 0.8}


# ---- one entry ----------------------------------------------------------------------------------
@pytest.mark.parametrize("slab", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("p", "q"), [(1.0, 0.3), (50.0, -40.0), (0.01, 2.0), (4.0, 0.0), (1e4, 3e4), (1e-3, 0.5)]
)
def test_the_evidence_of_an_entry_is_its_integral(slab, p, q):
    wanted = log_ratio_by_quadrature(p, q, slab)
    assert log_slab_ratio(p, q, slab == "laplace") == pytest.approx(wanted, rel=1e-8, abs=1e-8)


def test_both_tails_are_exact():
    u = np.concatenate([-np.logspace(8, 1, 30), np.linspace(-40, 40, 41), np.logspace(1, 4, 10)])
    ours = np.array([log_mills(v) for v in u])
    near = np.abs(u) < 1e3  # beyond, u²/2 and log Φ(u) cancel in the other formula
    wanted = 0.5 * np.log(2 * np.pi) + 0.5 * u**2 + log_ndtr(u)
    np.testing.assert_allclose(ours[near], wanted[near], rtol=1e-9, atol=1e-9)
    far = u < -1e4
    np.testing.assert_allclose(ours[far], -np.log(-u[far]), rtol=1e-9)
    both = log_mills(-30.0 - 1e-12), log_mills(-30.0 + 1e-12)  # the two formulas meet
    assert both[0] == pytest.approx(both[1], abs=1e-12)


def test_a_feature_of_zeros_says_nothing():
    assert log_slab_ratio(0.0, 0.0, True) == log_slab_ratio(0.0, 0.0, False) == 0.0
    assert log_slab_ratio(1e-20, 0.0, True) == pytest.approx(0.0, abs=1e-9)


def cumulative(p, q, laplace):
    """P(s < x) by a fine trapezium rule on the density."""
    width = 1.0 / np.sqrt(p + 1.0)
    peaks = [0.0, (q - 1) / p, (q + 1) / p, q / (1 + p)]
    s = np.unique(np.concatenate([c + width * np.linspace(-40, 40, 40_001) for c in peaks]))
    law = stats.laplace if laplace else stats.norm
    log_f = law.logpdf(s) + q * s - 0.5 * p * s * s
    f = np.exp(log_f - log_f.max())
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]) * np.diff(s))])
    return lambda x: np.interp(x, s, mass / mass[-1])


def test_amounts_follow_their_law(rng):
    found = {}
    for laplace in (True, False):
        for p, q in ((1.0, 0.3), (30.0, -45.0), (25.0, 1.0), (400.0, -2.0), (0.05, 0.2)):
            draws = np.array([draw_slab(rng, p, q, laplace) for _ in range(5000)])
            law = cumulative(p, q, laplace)
            found[f"{laplace} {p} {q}"] = stats.kstest(draws, law).pvalue
    judge("sparse_draws", found)


def test_proposals_of_own_dishes_have_the_density_they_claim(rng):
    from thali.kernels.gaussian_row import Scales

    scales, bins = Scales(0.5, 0.8, 3.0), np.zeros(15)
    found = {}
    for rho in (0.5, 20.0):
        total = fill_bins(0.3, rho, scales, True, bins)
        grid = np.linspace(0.0, 60.0, 600_001)
        density = np.exp([log_proposal(s, bins, total) for s in grid])
        mass = np.concatenate([[0.0], np.cumsum(density[:-1] * np.diff(grid))])
        assert mass[-1] == pytest.approx(1.0, abs=1e-3)
        draws = [propose_weight(rng, bins, total) for _ in range(5000)]
        found[f"{rho}"] = stats.kstest(
            draws, lambda x, g=grid, m=mass / mass[-1]: np.interp(x, g, m)
        ).pvalue
    judge("sparse_draws", found)


def test_the_budget_counts_these_tests():
    assert TESTS["sparse_draws"] == 2


# ---- a pass -------------------------------------------------------------------------------------
def some_state(rng, n=30, k=4, d=6):
    Z = (rng.random((n, k)) < 0.5).astype(np.uint8)
    S = Z * rng.laplace(size=(n, k))
    A = 0.8 * rng.normal(size=(k, d))
    return Z, S, A, Data.of(S @ A + 0.5 * rng.normal(size=(n, d)))


def slow_pass(rng, X, A, Z, S, prior, sigma_x, laplace):
    """Every entry from its residual in full, no maintained products."""
    for n in range(len(X)):
        for k in range(len(A)):
            odds = prior_log_odds(prior, k, Z[n, k])
            if np.isnan(odds):
                continue
            others = S[n].copy()
            others[k] = 0.0
            p = A[k] @ A[k] / sigma_x**2
            q = (X[n] - others @ A) @ A[k] / sigma_x**2
            on = accepts(rng, odds + log_slab_ratio(p, q, laplace))
            S[n, k] = draw_slab(rng, p, q, laplace) if on else 0.0
            prior.m[k] += int(on) - int(Z[n, k])
            Z[n, k] = on


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("frequencies", [True, False])
def test_the_kernel_is_the_slow_pass(laplace, frequencies, rng):
    Z, S, A, data = some_state(rng)
    pi = rng.uniform(0.1, 0.9, len(A)) if frequencies else np.zeros(0)
    with np.errstate(divide="ignore"):
        log_odds = np.log(np.arange(30.0)) - np.log(30.0 - np.arange(30.0))
    results = []
    for fast in (True, False):
        bits, amounts, generator = Z.copy(), S.copy(), np.random.default_rng(5)
        prior = BitPrior(log_odds, bits.sum(axis=0, dtype=np.int64), pi)
        if fast:
            G = A @ A.T
            R = data.X @ A.T - amounts @ G
            turn_entries(generator, R, G, None, bits, amounts, prior, 0.5, laplace)
            np.testing.assert_allclose(R, data.X @ A.T - amounts @ G, atol=1e-9)
        else:
            slow_pass(generator, data.X, A, bits, amounts, prior, 0.5, laplace)
        assert (prior.m == bits.sum(axis=0)).all()
        assert (amounts[bits == 0] == 0.0).all()
        results.append((bits, amounts))
    assert (results[0][0] == results[1][0]).all()
    assert (results[0][0] != Z).any()
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-8, atol=1e-8)


def test_own_features_follow_their_conditional_law(rng):
    """Mean and covariance of two own dishes of a row, against conditioning the joint normal."""
    s, e = np.array([0.7, -1.9]), np.array([[1.3, -0.4]])
    rows = np.zeros(2, int)
    draws = np.array([own_features(rng, e, None, rows, s, HYPER) for _ in range(20_000)])
    gain = 0.64 * s / (0.25 + 0.64 * s @ s)
    np.testing.assert_allclose(draws.mean(axis=0), np.outer(gain, e[0]), atol=0.03)
    wanted = 0.64 * np.eye(2) - 0.64 * np.outer(gain, s)
    np.testing.assert_allclose(np.cov(draws[:, :, 0].T), wanted, atol=0.03)


# ---- densities ----------------------------------------------------------------------------------
def normal_log_density(X, W, sigma_x, sigma_a):
    law = stats.multivariate_normal(cov=sigma_x**2 * np.eye(len(X)) + sigma_a**2 * W @ W.T)
    return law.logpdf(X.T).sum()


@pytest.mark.parametrize("slab", ["laplace", "gaussian"])
def test_the_reported_log_density_has_the_features_integrated_out(slab, rng):
    Z, S, A, data = some_state(rng, n=7, k=2, d=3)
    likelihood = thali.SparseFactor(slab, sigma_x=0.5, sigma_a=0.8)
    place = GibbsState(data, Z, {"A": A, "S": S}, dict(HYPER))
    value = likelihood.update_parameters(rng, place, hold=False)
    found = place.parameters
    on = found["S"][Z == 1]
    slab_law = stats.laplace if slab == "laplace" else stats.norm
    wanted = normal_log_density(data.X, found["S"], 0.5, 0.8) + slab_law.logpdf(on).sum()
    assert value == pytest.approx(wanted, rel=1e-10)
    assert (found["S"][Z == 0] == 0.0).all()


def test_the_log_density_of_a_place_is_the_same_whatever_its_features(rng):
    Z, S, A, data = some_state(rng, n=7, k=2, d=3)
    likelihood = thali.SparseFactor(sigma_x=0.5, sigma_a=0.8)
    wanted = normal_log_density(data.X, S, 0.5, 0.8) + stats.laplace.logpdf(S[Z == 1]).sum()
    for features in (A, 2.0 * A):
        place = GibbsState(data, Z, {"A": features, "S": S}, HYPER)
        assert likelihood.log_density(place) == pytest.approx(wanted, rel=1e-10)


def test_an_average_over_amounts_is_the_entrys_evidence(rng):
    """E_s[P(X | W, A)] / P(X | w = 0, A) by simulation: one row, one dish."""
    x, A = np.array([[0.9, -0.3]]), np.array([[0.7, 0.2]])
    likelihood = thali.SparseFactor(sigma_x=0.5, sigma_a=0.8)
    logs = [likelihood.log_likelihood(x, [[s]], A) for s in rng.laplace(size=20_000)]
    simulated = logsumexp(logs) - np.log(len(logs)) - likelihood.log_likelihood(x, [[0.0]], A)
    p, q = float((A @ A.T)[0, 0]) / 0.25, float((x @ A.T)[0, 0]) / 0.25
    assert log_slab_ratio(p, q, True) == pytest.approx(simulated, abs=0.05)


# ---- settings and starts ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"slab": "cauchy"}, "slab must be 'laplace' or 'gaussian', not 'cauchy'"),
        ({"sigma_x": -1.0}, "sigma_x must be positive"),
        ({"sigma_a": "big"}, "sigma_a must be a positive number"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        thali.SparseFactor(**settings)


@pytest.mark.parametrize("scales", [{"sigma_x": 1e-9}, {"sigma_x": 1.0, "sigma_a": 1e7}])
def test_scales_too_fine_are_refused(scales):
    with pytest.raises(ValueError, match="too fine for double precision"):
        thali.SparseFactor(**scales).resolve(Data.of(np.ones((3, 2))))


def sources(seed, n=200, d=8, k=3):
    rng = np.random.default_rng(seed)
    W = (rng.random((n, k)) < 0.4) * rng.laplace(size=(n, k))
    return W, W @ rng.normal(size=(k, d)) + 0.2 * rng.normal(size=(n, d))


def agreement(W, found):
    """The best absolute correlation of each true source with a found one."""
    k = W.shape[1]
    return np.abs(np.corrcoef(W.T, found.T)[:k, k:]).max(axis=1)


def test_the_sparse_start_is_near_the_truth():
    W, X = sources(0)
    data = Data.of(X)
    model = Model(thali.IBP(), thali.SparseFactor()).resolve(data)
    start = STARTS["sparse_ica"](np.random.default_rng(0), model, data)
    assert start.latent.shape[1] == 3
    assert (agreement(W, start.parameters["S"]) > 0.95).all()
    assert start.hyper["sigma_x"] == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("X", [np.zeros((6, 3)), np.ones((6, 1)), np.ones((2, 5)), np.eye(5)])
def test_the_sparse_start_bears_poor_data(X):
    model = thali.LatentFeatures(
        likelihood="sparse_factor",
        engine=thali.UncollapsedGibbs(sweeps=4, chains=1),
        random_state=0,
    ).fit(X)
    assert np.isfinite(model.best_.log_joint)


@pytest.mark.filterwarnings("ignore::thali.TooManyFeatures")  # after so few sweeps
@pytest.mark.parametrize("init", ["prior", "empty", "sparse_ica", "race", "given"])
@pytest.mark.parametrize("way", ["integrated", "slice"])
def test_every_start_runs(init, way):
    W, X = sources(1, n=30)
    model = thali.LatentFeatures(
        likelihood=thali.SparseFactor("gaussian"),
        engine=thali.UncollapsedGibbs(
            sweeps=4, chains=1, init=W != 0 if init == "given" else init, new_features=way
        ),
        random_state=0,
    ).fit(X)
    wanted = {"race": "sparse_ica", "given": "given Z"}.get(init, init)
    assert model.starts_ == [wanted]


def test_starts_that_do_not_suit_are_refused():
    X = sources(1, n=20)[1]
    engine = thali.UncollapsedGibbs(sweeps=4, init="ica")
    with pytest.raises(ValueError, match="'ica' does not suit SparseFactor; use one of sparse_ica"):
        thali.LatentFeatures(likelihood="sparse_factor", engine=engine).fit(X)
    engine = thali.UncollapsedGibbs(sweeps=4, init="sparse_ica")
    with pytest.raises(ValueError, match="'sparse_ica' does not suit LinearGaussian"):
        thali.LatentFeatures(likelihood="linear_gaussian", engine=engine).fit(X)


# ---- doors --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def fitted():
    W, X = sources(3)
    engine = thali.UncollapsedGibbs(sweeps=60, chains=2)
    model = thali.LatentFeatures(likelihood="sparse_factor", engine=engine, random_state=0).fit(X)
    return W, X, model


def test_sources_are_recovered_and_rows_rebuilt(fitted):
    W, X, model = fitted
    assert (agreement(W, model.amounts_) > 0.95).all()
    rebuilt = model.inverse_transform(model.amounts_)
    assert np.mean((rebuilt - X) ** 2) < 2 * 0.2**2
    assert np.mean(model.transform(X) == model.Z_) > 0.9
    with pytest.raises(ValueError, match="matrix"):
        model.inverse_transform(np.full((2, model.n_components_), np.nan))


def test_draws_have_amounts_and_a_consistent_log_joint(fitted):
    _, X, model = fitted
    best = model.best_
    W = best.parameters["S"]
    assert (W[~best.Z] == 0.0).all()
    wanted = normal_log_density(X, W, best.sigma_x, best.sigma_a)
    wanted += stats.laplace.logpdf(W[best.Z]).sum()
    wanted += thali.IBP(alpha=best.alpha).log_prob(best.Z)
    assert best.log_joint == pytest.approx(wanted, rel=1e-9)


def test_saving_keeps_the_amounts(fitted, tmp_path):
    _, X, model = fitted
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    np.testing.assert_array_equal(again.amounts_, model.amounts_)
    first, second = next(model.draws()), next(again.draws())
    np.testing.assert_array_equal(first.parameters["S"], second.parameters["S"])
    np.testing.assert_array_equal(model.transform(X[:5]), again.transform(X[:5]))


def test_a_fitted_model_hands_on_its_amounts(fitted):
    _, X, model = fitted
    given = given_start(model, Model(thali.IBP(), thali.SparseFactor()), Data.of(X))
    np.testing.assert_array_equal(given.parameters["S"], model.amounts_)
    engine = thali.UncollapsedGibbs(sweeps=2, chains=1, init=model)
    again = thali.LatentFeatures(likelihood="sparse_factor", engine=engine, random_state=1).fit(X)
    assert again.starts_ == ["another model"]


def test_pictures_and_report(fitted, tmp_path):
    model = fitted[2]
    model.plot()
    assert model.report(tmp_path / "r.html").exists()


def test_a_refit_with_bits_only_has_no_amounts(fitted):
    _, X, _ = fitted
    model = thali.LatentFeatures(likelihood="sparse_factor", random_state=0)
    model.set_params(engine__sweeps=4, engine__chains=1)
    assert isinstance(model.engine, thali.UncollapsedGibbs)
    assert hasattr(model.fit(X[:20]), "amounts_")
    model.set_params(likelihood="linear_gaussian")
    assert not hasattr(model.fit(X[:20]), "amounts_")


def test_draws_from_the_model():
    likelihood = thali.SparseFactor("gaussian", sigma_x=0.1, sigma_a=1.0)
    data = thali.datasets.draw(thali.IBP(alpha=2.0), likelihood, n=40, d=5)
    assert data.X.shape == (40, 5)
    assert data.sigma_x == 0.1
    empty = np.flatnonzero(~data.Z.any(axis=1))
    assert np.abs(data.X[empty]).max(initial=0.0) < 0.6


def test_the_command_line(tmp_path, capsys):
    np.save(tmp_path / "x.npy", sources(2, n=40)[1])
    out = tmp_path / "out"
    words = ["fit", str(tmp_path / "x.npy"), "--likelihood", "sparse-factor", "--sweeps", "6"]
    assert command([*words, "--chains", "1", "--slab", "gaussian", "--out", str(out)]) == 0
    assert "Chosen: UncollapsedGibbs, since " in capsys.readouterr().out
    assert thali.load(out / "model.thali").likelihood_.slab == "gaussian"
    other = [*words[:3], "linear-gaussian", "--slab", "gaussian"]
    assert command([*other, "--out", str(out)]) == 2
    assert (
        "--slab belongs to --likelihood sparse-factor; linear-gaussian has no such"
        in capsys.readouterr().err
    )
