"""The point estimate of sparse factors: features and amounts that fit, and one log joint."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import thali
from thali.data import Data
from thali.likelihoods.gibbs_updates import GibbsState
from thali.results.feature_answer import nearest


def table(seed, n=100, k=4, d=6, noise=0.05):
    rng = np.random.default_rng(seed)
    W = (rng.random((n, k)) < 0.4) * rng.laplace(size=(n, k))
    return W @ rng.normal(size=(k, d)) + noise * rng.normal(size=(n, d))


def fitted(X):
    engine = thali.UncollapsedGibbs(sweeps=60, chains=1)
    return thali.LatentFeatures("ibp", "sparse_factor", engine, random_state=0).fit(X)


@pytest.mark.parametrize("which", range(4))
def test_the_answer_fits_where_noise_is_small(which):
    """Begun from the prior, the residual was 0.05 to 0.7 on these."""
    X = table(which)
    model = fitted(X)
    left = X - model.inverse_transform(model.amounts_)
    free = X.size - model.amounts_[model.Z_].size - model.components_.size
    found, error = np.sqrt(np.square(left).sum() / free), 0.05 / np.sqrt(2 * free)
    assert abs(found - 0.05) < 4 * error


def columns_of(X, W, sigma_x, sigma_a):
    """log P(X_obs | W) and E[A | X_obs, W] column by column, from the joint normal law."""
    total, A = 0.0, np.zeros((W.shape[1], X.shape[1]))
    for d, x in enumerate(X.T):
        seen = ~np.isnan(x)
        cov = sigma_x**2 * np.eye(seen.sum()) + sigma_a**2 * W[seen] @ W[seen].T
        total += stats.multivariate_normal(cov=cov).logpdf(x[seen]) if seen.any() else 0.0
        A[:, d] = sigma_a**2 * W[seen].T @ np.linalg.solve(cov, x[seen])
    return total, A


@pytest.mark.parametrize("gaps", ["none", "one", "many"])
def test_one_log_joint_of_draws_and_answer_with_gaps_and_without(gaps):
    X = table(0, n=30, noise=0.3)
    if gaps == "one":
        X[3, 2] = np.nan
    elif gaps == "many":
        X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
        X[:, 4], X[7] = np.nan, np.nan
    model = fitted(X)
    draws = [(d.Z, d.parameters["S"], d.hyper, d.log_joint) for d in model.draws(max_draws=5)]
    draws.append((model.Z_, model.amounts_, model.fit_.mean_hyper(), model.log_joint_))
    for Z, W, hyper, log_joint in draws:
        wanted, A = columns_of(X, W, hyper["sigma_x"], hyper["sigma_a"])
        wanted += stats.laplace.logpdf(W[Z]).sum() + thali.IBP(hyper["alpha"]).log_prob(Z)
        assert log_joint == pytest.approx(wanted, rel=1e-8)
    np.testing.assert_allclose(model.components_, A, atol=1e-8)


def test_draws_that_flip_signs_and_trade_scale_have_the_same_answer(rng):
    """Their plain means would vanish."""
    Z = np.ones((20, 2), np.uint8)
    S, A = rng.normal(size=(20, 2)), rng.normal(size=(2, 5))
    data = Data(S @ A)
    place = GibbsState(data, Z, {}, {"sigma_x": 0.01, "sigma_a": 1.0})
    signs = [(1, 1), (-1, 1), (1, -1), (-1, -1)]
    flipped = ({"A": A / c[:, None], "S": S * c} for c in map(np.array, signs))
    found = thali.SparseFactor().representative(place, flipped)
    np.testing.assert_allclose(found["S"], S)
    np.testing.assert_allclose(found["S"] @ found["A"], S @ A, atol=1e-3)
    scaled = ({"A": A / c, "S": S * c} for c in (0.5, -1.5, 1.0))
    found = thali.SparseFactor().representative(place, scaled)
    np.testing.assert_allclose(found["S"] @ found["A"], S @ A, atol=1e-3)


def test_the_nearest_draw_is_matched_column_by_column(rng):
    Z = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], bool)
    far = SimpleNamespace(latent=~Z[:, :2], parameters={"A": np.full((2, 5), 9.0)})
    near = SimpleNamespace(
        latent=Z[:, [1, 0]],
        parameters={"A": np.array([[1.0] * 5, [0.0] * 5]), "S": rng.random((2, 4))},
    )
    prior = {"A": np.full((3, 5), 7.0), "S": np.full((4, 3), 8.0)}
    found = nearest([far, near, far], Z, prior, {"A": 0, "S": 1})
    assert found["A"][:, 0].tolist() == [0.0, 1.0, 7.0]
    np.testing.assert_array_equal(found["S"][:, :2], near.parameters["S"][::-1].T)
    assert (found["S"][:, 2] == 8.0).all()
