"""New rows: probabilities of bits, and densities, against brute force over all rows."""

import itertools

import numpy as np
import pytest
from oracles import features as oracles
from scipy.special import gammaln, logsumexp

import thali
from thali.data import Data
from thali.model import Model
from thali.results import prediction as predictive


def brute_force(model, X, Z, x, most_new=12):
    """Sum over all 2^K rows and j ≤ most_new new dishes, by the log joint of N+1 rows.

    p(x | X, Z) = Σ P([Z; z, j new]) P(X, x | …) / (P([Z]) P(X | Z)), each class counted as often
    as the buffet gives it: through the tables' predictive probabilities of one row.
    """
    n, k = Z.shape
    tables = model.prior.tables(n + 1)
    odds = tables.log_odds[Z.sum(axis=0)]
    j = np.arange(most_new + 1)
    if tables.capacity < 0:
        log_new = j * tables.new_log_weight - gammaln(j + 1)
    else:
        room = tables.capacity - k
        j = j[j <= room]
        log_new = (
            j * tables.new_log_weight + gammaln(room + 1) - gammaln(j + 1) - gammaln(room - j + 1)
        )
    log_new = log_new - logsumexp(log_new)
    before = model.likelihood.log_marginal(X, Z)
    weights, rows = [], []
    for bits in itertools.product([0, 1], repeat=k):
        z = np.array(bits, float)
        log_z = (z * odds - np.logaddexp(0.0, odds)).sum()
        for new, log_j in zip(j, log_new, strict=True):
            bigger = np.zeros((n + 1, k + new), bool)
            bigger[:n, :k] = Z
            bigger[n, :k] = z
            bigger[n, k:] = True
            after = model.likelihood.log_marginal(np.vstack([X, x]), bigger)
            weights.append(log_z + log_j + after - before)
            rows.append(z)
    weights = np.array(weights)
    total = logsumexp(weights)
    return np.exp(weights - total) @ np.array(rows).reshape(len(weights), k), total


PRIORS = [
    thali.IBP(alpha=1.5),
    thali.TwoParameterIBP(alpha=1.5, beta=2.0),
    thali.BetaBernoulli(alpha=1.5, n_components=6),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("k", [0, 1, 4])
def test_rows_against_brute_force(prior, k, seed):
    rng = np.random.default_rng(seed)
    model = Model(prior, thali.LinearGaussian(sigma_x=0.7, sigma_a=1.1))
    Z = rng.random((9, k)) < 0.5
    Z[0] = True
    X = Z @ rng.standard_normal((k, 3)) + 0.7 * rng.standard_normal((9, 3))
    new = 1.5 * rng.standard_normal((5, 3))
    marginals, logs = predictive.rows(model, Data(X), Z, Data(new))
    for i in range(5):
        expected, log_density = brute_force(model, X, Z, new[i])
        assert np.allclose(marginals[i], expected, atol=1e-8)
        assert np.isclose(logs[i], log_density, atol=1e-8)


def test_density_integrates_to_one():
    rng = np.random.default_rng(0)
    model = Model(thali.IBP(alpha=1.0), thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0))
    Z = rng.random((6, 2)) < 0.5
    Z[0] = True
    X = Z @ np.array([[1.0], [-2.0]]) + 0.5 * rng.standard_normal((6, 1))
    grid = np.linspace(-25.0, 25.0, 20001)
    _, logs = predictive.rows(model, Data(X), Z, Data(grid[:, None]))
    assert np.isclose(np.exp(logs).sum() * (grid[1] - grid[0]), 1.0, atol=1e-6)


def sum_over_all(model, X, Z, x):
    """P(z = 1 | x) and log p(x) by the sum over all 2^K rows, new dishes up to two."""
    n, k = Z.shape
    tables = model.prior.tables(n + 1)
    odds, rate = tables.log_odds[Z.sum(axis=0)], np.exp(tables.new_log_weight)
    likelihood = model.likelihood
    known = *likelihood.rows(X, Z), likelihood.sigma_x, likelihood.sigma_a
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=k)))
    logs = rows @ odds - np.logaddexp(0.0, odds).sum() - rate
    for i, z in enumerate(rows):
        for_new = [j * np.log(rate) - gammaln(j + 1) for j in range(3)]
        density = [oracles.log_density_of_row(x, z, j, *known) for j in range(3)]
        logs[i] += logsumexp(np.add(for_new, density))
    total = logsumexp(logs)
    return np.exp(logs - total) @ rows, total


def test_beyond_ten_features_the_density_is_close(seed):
    rng = np.random.default_rng(seed)
    k = 14
    model = Model(thali.IBP(alpha=3.0), thali.LinearGaussian(sigma_x=0.3, sigma_a=1.0))
    Z = rng.random((60, k)) < 0.4
    Z[0] = True
    A = rng.standard_normal((k, 30))
    X = Z @ A + 0.3 * rng.standard_normal((60, 30))
    z = rng.random(k) < 0.4
    x = z @ A + 0.3 * rng.standard_normal(30)
    marginals, logs = predictive.rows(model, Data(X), Z, Data(x[None]))
    _, total = sum_over_all(model, X, Z, x)
    assert logs[0] == pytest.approx(total, abs=1e-3)
    assert np.array_equal(marginals[0] > 0.5, z)


@pytest.mark.parametrize("gaps", [False, True])
def test_beyond_ten_features_doubtful_bits_keep_their_doubt(gaps, rng):
    """Large noise: against the sum over all rows; and of nothing observed, against the prior."""
    k, n = 13, 40
    model = Model(thali.IBP(alpha=3.0), thali.LinearGaussian(sigma_x=3.0, sigma_a=1.0))
    Z = rng.random((n, k)) < 0.3
    Z[0] = True
    A = rng.standard_normal((k, 6))
    X = Z @ A + 3.0 * rng.standard_normal((n, 6))
    if gaps:
        X[3, 2] = X[5, 0] = np.nan
    x = 3.0 * rng.standard_normal(6)
    rows = np.array([x, np.full(6, np.nan)])
    marginals, logs = predictive.rows(model, Data.of(X), Z, Data.checked(rows))
    odds = model.prior.tables(n + 1).log_odds[Z.sum(axis=0)]
    assert np.allclose(marginals[1], 1.0 / (1.0 + np.exp(-odds)))
    assert logs[1] == pytest.approx(0.0, abs=1e-9)
    if not gaps:
        expected, total = sum_over_all(model, X, Z, x)
        assert np.allclose(marginals[0], expected, atol=0.05)
        assert logs[0] == pytest.approx(total, abs=0.1)
        assert (np.abs(marginals[0] - 0.5) < 0.499).all()
