"""The factorization that others are compared with: modes, and a log posterior that rises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.base import clone

from thali.evaluation import BayesianNMF
from thali.evaluation.bayesian_nmf import improve


def log_posterior(X, W, A, variance, rate, shape, scale):
    """Entry by entry, up to the inverse gamma's constant."""
    seen = ~np.isnan(X)
    total = stats.norm.logpdf(X, W @ A, np.sqrt(variance))[seen].sum()
    total += stats.expon.logpdf(W, scale=1 / rate).sum()
    total += stats.expon.logpdf(A, scale=1 / rate).sum()
    constant = stats.invgamma.logpdf(1.0, shape, scale=scale) + scale
    return total + stats.invgamma.logpdf(variance, shape, scale=scale) - constant


def data(rng, gaps, n=30, d=12, k=3):
    X = rng.exponential(size=(n, k)) @ rng.exponential(size=(k, d)) + 0.1 * rng.normal(size=(n, d))
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.mark.parametrize("gaps", [False, True])
def test_the_log_posterior_is_right_and_rises(rng, gaps):
    for _ in range(5):
        X = data(rng, gaps)
        settings = {"rate": 0.7, "shape": 2.0, "scale": 0.3}
        model = BayesianNMF(4, **settings, tol=1e-12, max_iter=60, random_state=0)
        model.fit(X)
        history = model.history_
        assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()
        truth = log_posterior(
            X, model.weights_, model.components_, model.sigma_x_**2, *settings.values()
        )
        assert history[-1] == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_weight_is_at_its_mode_given_the_rest(rng, gaps):
    X = data(rng, gaps, n=4, d=6)
    mask = ~np.isnan(X) if gaps else None
    W, A = rng.exponential(size=(4, 2)), rng.exponential(size=(2, 6))
    before = W.copy()
    improve(W, A, np.nan_to_num(X), mask, penalty=0.8 * 0.5)
    for n in range(4):
        for k in range(2):

            def loss(w, n=n, k=k):
                at = np.where(np.arange(2) < k, W[n], before[n])  # those before it have moved
                at[k] = w
                return np.nansum((X[n] - at @ A) ** 2) / (2 * 0.5) + 0.8 * w

            found = optimize.minimize_scalar(loss, bounds=(0.0, 20.0), method="bounded")
            assert W[n, k] == pytest.approx(found.x, abs=1e-4)


def test_planted_factors_and_missing_entries_are_found(rng):
    full = data(rng, False, n=200, d=30)
    gaps = np.where(rng.random(full.shape) < 0.1, np.nan, full)
    model = BayesianNMF(3, rate=0.1, max_iter=2000, random_state=0).fit(gaps)
    error = (model.weights_ @ model.components_ - full)[np.isnan(gaps)]
    assert np.sqrt(np.mean(error**2)) < 0.2
    assert model.sigma_x_ == pytest.approx(0.1, rel=0.1)
    again = model.inverse_transform(model.transform(full))
    assert np.sqrt(np.mean((again - full) ** 2)) < 0.15


def test_it_is_an_estimator():
    model = BayesianNMF(2, rate=3.0)
    assert clone(model).get_params() == model.get_params()
    X = np.zeros((5, 3))
    assert np.isfinite(model.fit(X).components_).all()
    assert model.get_feature_names_out().tolist() == ["bayesiannmf0", "bayesiannmf1"]
    with pytest.raises(ValueError, match="n_components must be at least 1"):
        BayesianNMF(0).fit(X)


def test_weights_of_another_shape_and_values_too_large_are_refused_in_words():
    X = np.abs(np.random.default_rng(0).standard_normal((6, 4)))
    model = BayesianNMF(n_components=2, max_iter=5, random_state=0).fit(X)
    for wrong in (np.ones((2, 3)), np.ones(2)):
        with pytest.raises(ValueError, match=r"W must be a matrix \(rows x 2 factors\)"):
            model.inverse_transform(wrong)
    with pytest.raises(ValueError, match="whose squares overflow"):
        BayesianNMF(n_components=2).fit(1e200 * X)


def test_it_says_that_it_takes_missing_entries():
    assert BayesianNMF().__sklearn_tags__().input_tags.allow_nan
