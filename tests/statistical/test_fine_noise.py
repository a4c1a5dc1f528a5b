"""Noise far below the features, where a feature may be the sum of others: digits are kept, or the
scale is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles import features as oracles
from statistical.budget import TESTS, judge, p_value_of_mean

import thali

X = np.array([[1.0], [0.4], [1.4]])  # two features and their sum, or more


def test_the_budget_counts_this_test():
    assert TESTS["fine_noise"] == 1


def log_density(G, sigma_x, sigma_a):
    """log N(x; 0, σ_x²I + σ_a²ZZᵀ) up to a constant; nothing is rounded before the last line."""
    n = len(G)
    rows = [
        [
            Fraction(sigma_a) ** 2 * int(G[i, j]) + (i == j) * Fraction(sigma_x) ** 2
            for j in range(n)
        ]
        + [Fraction(float(X[i, 0]))]
        for i in range(n)
    ]
    determinant, squares = Fraction(1), Fraction(0)
    for i in range(n):  # elimination: x'S⁻¹x is the sum of what each pivot explains
        pivot = rows[i][i]
        determinant *= pivot
        squares += rows[i][n] ** 2 / pivot
        for j in range(i + 1, n):
            share = rows[j][i] / pivot
            rows[j] = [a - share * b for a, b in zip(rows[j], rows[i], strict=True)]
    return -0.5 * float(squares) - 0.5 * float(np.log(float(determinant)))


def exact(sigma_x, alpha=1.0, cap=6):
    """P(K = 2), by enumeration."""
    counts = oracles.classes(3, cap)
    H = oracles.histories(3)
    grams = np.einsum("ch,hi,hj->cij", counts, H, H).round().astype(int)
    kinds, which = np.unique(grams.reshape(len(grams), -1), axis=0, return_inverse=True)
    known = np.array([log_density(G.reshape(3, 3), sigma_x, 1.0) for G in kinds])
    logs = oracles.PriorSpec("ibp", alpha).log_classes(counts, 3)[0] + known[which.ravel()]
    p = np.exp(logs - logs.max())
    p /= p.sum()
    return float(p[counts.sum(axis=1) == 2].sum())


def fitted(sigma_x, sweeps, seed=1, **scales):
    likelihood = thali.LinearGaussian(sigma_x=sigma_x, **({"sigma_a": 1.0} | scales))
    engine = thali.CollapsedGibbs(sweeps=sweeps, chains=4, init="empty")
    return thali.LatentFeatures(thali.IBP(alpha=1.0), likelihood, engine, random_state=seed).fit(X)


def test_the_finest_noise_taken_has_the_exact_posterior(seed):
    two = exact(5e-4)
    model = fitted(5e-4, 40_000, seed)
    found = np.asarray(model.history_["n_components"])[:, 1000:] == 2
    judge("fine_noise", {"P(K = 2)": p_value_of_mean(found.astype(float), two)})


@pytest.mark.parametrize("sigma_x", [2.9e-4, 1e-4, 3e-5, 2e-6])
def test_finer_noise_is_refused(sigma_x):
    with pytest.raises(ValueError, match=r"CollapsedGibbs: sigma_x=.* is less than 0\.0003 of"):
        fitted(sigma_x, 10)


def test_features_that_are_inferred_are_no_way_round():
    with pytest.raises(ValueError, match=r"is less than 0\.0003 of"):
        fitted(1e-5, 10, sigma_a="auto")


def test_noise_that_is_inferred_is_taken():
    assert fitted("auto", 20).n_components_ >= 0
