"""New rows under likelihoods that keep their features: against sums over all rows of bits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from scipy.special import logsumexp
from scipy.stats import norm

import thali
from thali.data import Data
from thali.model import Model
from thali.results import prediction_given_features as rows_given_features
from thali.results import summed_bits

LIKELIHOODS = {
    "nonnegative": thali.NonnegativeLinearGaussian(sigma_x=0.4, sigma_a=1.0),
    "gaussian slab": thali.SparseFactor("gaussian", sigma_x=0.4, sigma_a=1.0),
    "noisy-or": thali.NoisyOr(epsilon=0.05, lam=0.8, p=0.3),
}
ALL = pytest.mark.parametrize("name", LIKELIHOODS)


def log_row(name, x, z, A):
    """log p(x | z, A) by the definition, entries that are NaN left out."""
    seen = ~np.isnan(x)
    x, A = x[seen], A[:, seen]
    if not len(x):
        return 0.0
    if name == "nonnegative":
        return norm.logpdf(x, z @ A, 0.4).sum()
    if name == "gaussian slab":
        on = A[z.astype(bool)]
        covariance = 0.16 * np.eye(len(x)) + on.T @ on
        squares = x @ np.linalg.solve(covariance, x)
        return -0.5 * (squares + np.log(np.linalg.det(2 * np.pi * covariance)))
    counts = z.astype(int) @ A.astype(int)
    pairs = zip(x, counts, strict=True)
    return sum(oracles.noisy_or_entry(int(a), c, 0.05, 0.8) for a, c in pairs)


def brute_force(name, x, pi, A):
    """P(z_k = 1 | x) and log p(x)."""
    rows = np.array(list(product((0, 1), repeat=len(pi))), float).reshape(2 ** len(pi), -1)
    logs = [log_row(name, x, z, A) + np.log(np.where(z == 1, pi, 1 - pi)).sum() for z in rows]
    total = logsumexp(logs)
    return np.exp(np.array(logs) - total) @ rows, total


def drawn(name, seed, k, n=3, d=6):
    """Features, new rows with gaps (the last shows nothing), and prior probabilities."""
    rng, likelihood = np.random.default_rng(seed), LIKELIHOODS[name]
    if name == "nonnegative":
        A = np.abs(rng.normal(size=(k, d)))
    else:
        A = likelihood.sample_features(rng, k, d)
    pi = rng.uniform(0.1, 0.9, k)
    X = likelihood.sample(rng, rng.random((n, k)) < pi, A)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[-1] = np.nan
    return A, X, pi


def model_of(name):
    return Model(thali.IBP(alpha=1.0), LIKELIHOODS[name])


HYPER = {
    "nonnegative": {"alpha": 1.0, "sigma_x": 0.4, "sigma_a": 1.0},
    "gaussian slab": {"alpha": 1.0, "sigma_x": 0.4, "sigma_a": 1.0},
    "noisy-or": {"alpha": 1.0, "epsilon": 0.05, "lam": 0.8, "p": 0.3},
}


@ALL
@pytest.mark.parametrize("k", [0, 1, 4])
def test_sums_over_bits_are_those_of_the_definition(name, k, seed):
    A, X, pi = drawn(name, seed, k)
    odds, new = np.log(pi) - np.log(1 - pi), Data.checked(X)
    given = (model_of(name), HYPER[name], {"A": A}, odds, new)
    found = rows_given_features.probabilities(*given)
    logs = rows_given_features.log_densities(*given)
    for i, x in enumerate(X):
        wanted, total = brute_force(name, x, pi, A)
        assert found[i] == pytest.approx(wanted, abs=1e-8)
        assert logs[i] == pytest.approx(total, abs=1e-8)


def test_a_sum_in_blocks_is_the_whole(monkeypatch, seed):
    A, X, pi = drawn("noisy-or", seed, k=4)
    odds, new = np.log(pi) - np.log(1 - pi), Data.checked(X)
    given = (model_of("noisy-or"), HYPER["noisy-or"], {"A": A}, odds, new)
    whole = rows_given_features.log_densities(*given)
    monkeypatch.setattr(summed_bits, "BLOCK", 30)  # five rows of bits at once
    assert rows_given_features.log_densities(*given) == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("name", [*LIKELIHOODS, "laplace slab"])
def test_a_row_has_the_same_answer_in_any_company(name, monkeypatch, seed):
    """Where bits are sampled; and the shares are near the probabilities, where modes are joined."""
    monkeypatch.setattr(summed_bits, "SUMMED", 2)
    kind = "gaussian slab" if name == "laplace slab" else name
    A, X, pi = drawn(kind, seed, k=3, n=4)
    model = model_of(kind)
    if name == "laplace slab":
        model = Model(thali.IBP(alpha=1.0), thali.SparseFactor("laplace", 0.4, 1.0))
    given = (model, HYPER[kind], {"A": A}, np.log(pi) - np.log(1 - pi))
    together = rows_given_features.probabilities(*given, Data.checked(X))
    rows = [Data.checked(x[None]) for x in X[::-1]]
    alone = [rows_given_features.probabilities(*given, row)[0] for row in rows]
    assert np.array_equal(together, np.array(alone)[::-1])
    assert np.allclose(together[-1], pi)  # of a row that shows nothing
    if name != "laplace slab":  # sums of like features hold their bits: 0.13 over 100 seeds
        wanted = [brute_force(kind, x, pi, A)[0] for x in X]
        assert np.abs(together - wanted).mean() < (0.2 if name == "nonnegative" else 0.1)


@ALL
def test_the_score_is_the_mean_over_draws(name):
    """Of every draw's own Z, features and hyperparameters, by log-mean-exp."""
    rng = np.random.default_rng(1)
    A, _, _ = drawn(name, 1, k=2)
    X = LIKELIHOODS[name].sample(rng, rng.random((12, 2)) < 0.5, A)
    model = thali.LatentFeatures(
        thali.IBP(alpha=0.3),
        LIKELIHOODS[name],
        thali.UncollapsedGibbs(sweeps=12, chains=2, init="prior"),
        random_state=0,
    ).fit(X)
    new = X[:3].copy()
    new[1, 2] = np.nan
    logs = []
    for draw in model.draws():
        pi = draw.Z.sum(axis=0) / 13.0
        logs.append([brute_force(name, x, pi, np.asarray(draw.A, float))[1] for x in new])
    wanted = np.mean(logsumexp(logs, axis=0) - np.log(len(logs)))
    assert model.score(new) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("name", ["nonnegative", "gaussian slab"])
def test_beyond_the_sum_densities_are_estimates_near_it(name, monkeypatch, seed):
    """And a row has the same in any company; one that shows nothing has density one."""
    A, X, pi = drawn(name, seed, k=4)
    given = (model_of(name), HYPER[name], {"A": A}, np.log(pi) - np.log(1 - pi))
    exact = rows_given_features.log_densities(*given, Data.checked(X))
    monkeypatch.setattr(summed_bits, "SUMMED", 3)
    together = rows_given_features.log_densities(*given, Data.checked(X))
    alone = [rows_given_features.log_densities(*given, Data.checked(x[None]))[0] for x in X]
    assert np.array_equal(together, alone)
    assert together[-1] == 0.0
    assert 0.0 < np.abs(together - exact).max() < 1.5


def test_what_cannot_be_scored_is_refused():
    rng = np.random.default_rng(0)
    A, new, pi = drawn("noisy-or", 0, k=15)
    with pytest.raises(ValueError, match=r"up to 14 features, and a draw has 15.*score\(holdout\)"):
        rows_given_features.log_densities(
            model_of("noisy-or"), HYPER["noisy-or"], {"A": A}, np.log(pi), Data.checked(new)
        )
    engine = thali.UncollapsedGibbs(sweeps=4, chains=1, init="prior")
    X = rng.normal(size=(8, 4))
    model = thali.LatentFeatures("ibp", "noisy_or", engine, random_state=0).fit(X > 0)
    with pytest.raises(ValueError, match="0 or 1"):
        model.score(X)
