"""Draws of the variational laws have their moments, as the oracle integrates them."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import variational as oracle
from oracles.variational_problems import problem
from statistical.budget import TESTS, judge, p_value_of_mean

CASES = [("gaussian", False), ("gaussian", True), ("nonnegative", False)]
DRAWS = 2000


@pytest.mark.parametrize(("likelihood", "gaps"), CASES)
def test_draws_of_features_have_their_moments(likelihood, gaps, rng):
    given = problem(rng, likelihood, "ibp", gaps=gaps, k=2, d=2)
    mean, outer = oracle.moments(given.law())
    draws = np.array([given.features.draw(rng) for _ in range(DRAWS)])
    p = {}
    for i, d in np.ndindex(mean.shape):
        p[f"a_{i}{d}"] = p_value_of_mean(draws[:, i, d], mean[i, d])
        p[f"a_{i}{d} a_0{d}"] = p_value_of_mean(draws[:, i, d] * draws[:, 0, d], outer[d, i, 0])
    judge("variational_draws", p)


@pytest.mark.parametrize("prior", ["ibp", "beta_bernoulli"])
def test_frequencies_have_their_means(prior, rng):
    """π_k = ∏_{m≤k} v_m of the sticks, v_k itself of the finite prior."""
    law = problem(rng, "gaussian", prior, k=3).frequencies
    each = law.tau[:, 0] / law.tau.sum(axis=1)
    mean = np.array([each[: k + 1].prod() for k in range(3)]) if prior == "ibp" else each
    assert law.mean() == pytest.approx(mean)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("slab", ["laplace slab", "gaussian slab"])
def test_draws_of_amounts_have_their_moments(slab, gaps, rng):
    """Of w = zs: ν E[s | z = 1] and ν E[s² | z = 1], once the rows change no more."""
    given = problem(rng, slab, "ibp", gaps=gaps, k=2)
    at = given.data, given.rows, given.globals()
    for _ in range(200):
        given.backend.local_step(*at)
    first, second, _ = given.rows.amounts
    nu = given.rows.nu
    draws = np.array([given.backend.draw_rows(rng, *at)[1] for _ in range(DRAWS)])
    p = {}
    for n, k in np.ndindex(nu.shape):
        p[f"w_{n}{k}"] = p_value_of_mean(draws[:, n, k], nu[n, k] * first[n, k])
        p[f"w²_{n}{k}"] = p_value_of_mean(draws[:, n, k] ** 2, nu[n, k] * second[n, k])
    judge("variational_draws", p)


def test_the_budget_knows_these_tests():
    assert TESTS["variational_draws"] == len(CASES) + 4
