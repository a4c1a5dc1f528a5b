"""The linear-Gaussian likelihood against plain multivariate normal densities."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import features as oracles
from scipy import stats
from statistical.budget import TESTS, judge

import thali
from thali.data import Data

SHAPES = [(1, 1, 0), (1, 1, 1), (4, 3, 0), (4, 3, 2), (3, 7, 2), (6, 2, 5), (5, 1, 8), (12, 30, 4)]
SCALES = [(1.0, 1.0), (0.3, 2.0), (5.0, 0.2), (0.01, 1.0)]
BY_SHAPE = pytest.mark.parametrize(("n", "d", "k"), SHAPES)
BY_SCALE = pytest.mark.parametrize(("sigma_x", "sigma_a"), SCALES)


def case(rng, n, d, k):
    return rng.normal(size=(n, d)), rng.random((n, k)) < 0.5


def test_the_budget_counts_these_tests():
    assert TESTS["linear_gaussian"] == 2


@BY_SHAPE
@BY_SCALE
def test_log_marginal_is_the_normal_density_of_the_columns(n, d, k, sigma_x, sigma_a, rng):
    X, Z = case(rng, n, d, k)
    likelihood = thali.LinearGaussian(sigma_x=sigma_x, sigma_a=sigma_a)
    wanted = oracles.log_marginal(X, Z, sigma_x, sigma_a)
    assert likelihood.log_marginal(X, Z) == pytest.approx(wanted, rel=1e-8, abs=1e-8)


@BY_SHAPE
@BY_SCALE
def test_the_textbook_formula_is_the_same_number(n, d, k, sigma_x, sigma_a, rng, textbook):
    X, Z = case(rng, n, d, k)
    wanted = oracles.log_marginal(X, Z, sigma_x, sigma_a)
    found = textbook.log_marginal(X, Z.astype(float), sigma_x, sigma_a)
    assert found == pytest.approx(wanted, rel=1e-8, abs=1e-8)


@BY_SHAPE
def test_log_marginal_is_log_joint_less_log_posterior_of_any_features(n, d, k, rng):
    """log P(X|Z) = log P(X|Z,A) + log P(A) − log P(A|X,Z), whatever A is."""
    X, Z = case(rng, n, d, k)
    likelihood = thali.LinearGaussian(sigma_x=0.7, sigma_a=1.3)
    A = rng.normal(size=(k, d))
    value = likelihood.log_likelihood(X, Z, A)
    assert value == pytest.approx(stats.norm(Z @ A, 0.7).logpdf(X).sum(), rel=1e-12)
    if k:
        mean, covariance = oracles.posterior_of_features(X, Z, 0.7, 1.3)
        value += stats.norm(0.0, 1.3).logpdf(A).sum()
        value -= sum(
            stats.multivariate_normal(mean[:, j], covariance).logpdf(A[:, j]) for j in range(d)
        )
    assert likelihood.log_marginal(X, Z) == pytest.approx(value, rel=1e-8, abs=1e-8)


@BY_SHAPE
@BY_SCALE
def test_features_are_the_posterior_mean(n, d, k, sigma_x, sigma_a, rng):
    X, Z = case(rng, n, d, k)
    found = thali.LinearGaussian(sigma_x=sigma_x, sigma_a=sigma_a).features(X, Z)
    assert found.shape == (k, d)
    wanted, _ = oracles.posterior_of_features(X, Z, sigma_x, sigma_a)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9 * sigma_a / sigma_x)


def test_drawn_features_have_the_posterior_law(rng):
    """Whitened draws are standard normal: means, variances and the covariance of two features."""
    X, Z = case(rng, 6, 3, 2)
    Z[:2] = [[1, 1], [1, 0]]
    mean, covariance = oracles.posterior_of_features(X, Z, 0.7, 1.3)
    likelihood = thali.LinearGaussian(sigma_x=0.7, sigma_a=1.3)
    draws = np.stack([likelihood.draw_features(rng, X, Z) for _ in range(4000)])
    white = np.linalg.solve(np.linalg.cholesky(covariance), draws - mean)
    judge("linear_gaussian", white_p_values(white))


def test_sampled_features_and_data_have_their_scales(rng):
    likelihood = thali.LinearGaussian(sigma_x=0.2, sigma_a=3.0)
    A = likelihood.sample_features(rng, 400, 50)
    assert A.shape == (400, 50)
    Z = rng.random((300, 400)) < 0.1
    E = likelihood.sample(rng, Z, A) - Z @ A
    p_values = {
        name: p
        for part, values in (("A", A / 3.0), ("E", E / 0.2))
        for name, p in white_p_values(values.reshape(-1, 2, 50), part).items()
    }
    judge("linear_gaussian", p_values)


def white_p_values(white, name=""):
    """P-values that (draws, 2, D) are independent standard normals."""
    product = white[:, 0] * white[:, 1]
    return {
        f"{name} mean": 2 * stats.norm.sf(abs(white.mean() * np.sqrt(white.size))),
        f"{name} square": two_sided(stats.chi2(white.size), (white**2).sum()),
        f"{name} product": 2 * stats.norm.sf(abs(product.mean() * np.sqrt(product.size))),
        f"{name} shape": stats.kstest(white.ravel(), "norm").pvalue,
    }


def two_sided(law, value):
    return min(1.0, 2.0 * min(law.cdf(value), law.sf(value)))


@BY_SHAPE
@BY_SCALE
def test_predictive_row_is_a_ratio_of_marginals(n, d, k, sigma_x, sigma_a, rng):
    """log p(x_n | z, j new features, the rest) for every n and j."""
    X, Z = case(rng, n, d, k)
    likelihood = thali.LinearGaussian(sigma_x=sigma_x, sigma_a=sigma_a)
    for i in range(n):
        others, z = (np.delete(X, i, 0), np.delete(Z, i, 0)), Z[i].astype(float)
        known = (np.eye(k) * (sigma_a / sigma_x) ** 2, np.zeros((k, d)))  # of no other row
        without = 0.0
        if n > 1:
            known = likelihood.rows(*others)
            without = oracles.log_marginal(*others, sigma_x, sigma_a)
        for j in (0, 1, 3):
            own = np.zeros((n, j))
            own[i] = 1
            wanted = oracles.log_marginal(X, np.hstack([Z, own]), sigma_x, sigma_a) - without
            found = oracles.log_density_of_row(X[i], z, j, *known, sigma_x, sigma_a)
            assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("n", "d"), [(3, 8), (5, 5), (8, 3), (2, 40)])
def test_fewer_columns_give_the_same_marginal(n, d, rng):
    """For D > N the data shrink to N columns with the same XXᵀ, hence the same P(X|Z)/P(X|0)."""
    X = rng.normal(size=(n, d))
    data = Data.of(X)
    assert data.reduced.shape == (n, min(n, d))
    np.testing.assert_allclose(data.reduced @ data.reduced.T, X @ X.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(data.squares, (X**2).sum(axis=1), rtol=1e-12)


def test_the_collapsed_marginal_integrates_over_features_drawn_from_the_prior(rng):
    """The slowest oracle of all: P(X|Z) = E_A[P(X|Z,A)], by quadrature over one feature's value."""
    X = rng.normal(size=(3, 1))
    Z = np.array([[1], [0], [1]])
    likelihood = thali.LinearGaussian(sigma_x=0.8, sigma_a=1.1)
    a = np.linspace(-12, 12, 20001)
    density = [likelihood.log_likelihood(X, Z, np.array([[v]])) for v in a]
    integrand = np.exp(density) * stats.norm(0, 1.1).pdf(a)
    total = integrand.sum() * (a[1] - a[0])
    assert likelihood.log_marginal(X, Z) == pytest.approx(np.log(total), abs=1e-9)
