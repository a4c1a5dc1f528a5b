"""The bound never exceeds the evidence, enumerated on tiny data, and reaches it where q can."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from oracles import features as oracles
from oracles import nonnegative as nonnegative_oracles
from oracles import sparse as sparse_oracle
from oracles import variational as oracle
from oracles.variational_problems import LIKELIHOODS, problem
from oracles.variational_updates import whole_iterations
from scipy import stats


def log_marginal_gaussian(X, Z, sigma_x, sigma_a):
    """Each column of X without its missing rows."""
    total = 0.0
    for x in X.T:
        seen = ~np.isnan(x)
        W = Z[seen]
        cov = sigma_x**2 * np.eye(len(W)) + sigma_a**2 * W @ W.T
        if len(W):
            total += float(stats.multivariate_normal(np.zeros(len(W)), cov).logpdf(x[seen]))
    return total


def log_marginal_sparse(slab, X, Z, sigma_x, sigma_a):
    G, weight = sparse_oracle.gram_of(Z, slab, points=12)
    return float(np.log(weight @ sparse_oracle.density(X, G, sigma_x, sigma_a)))


LOG_MARGINALS = {
    "gaussian": log_marginal_gaussian,
    "nonnegative": nonnegative_oracles.log_likelihood_by_orthant,
    "exponential": nonnegative_oracles.log_likelihood_of_exponentials,
    "laplace slab": partial(log_marginal_sparse, "laplace"),
    "gaussian slab": partial(log_marginal_sparse, "gaussian"),
}


def log_evidence(given, likelihood):
    n, k = given.rows.nu.shape
    prior = oracle.log_prior_of_sticks if given.infinite else oracle.log_prior_of_finite
    scales = given.hyper["sigma_x"], given.hyper["sigma_a"]
    return oracle.log_evidence(
        given.X,
        k,
        lambda counts: prior(counts, n, given.hyper["alpha"]),
        lambda Z: LOG_MARGINALS[likelihood](given.X, Z, *scales),
    )


SIZES = {
    "gaussian": (3, 2, 2),
    "nonnegative": (2, 2, 2),
    "exponential": (2, 2, 2),
}  # N, D, K; amounts: one feature
CASES = [
    (likelihood, *prior, joint, gaps)
    for likelihood in LIKELIHOODS
    for prior in (("ibp", "multinomial"), ("ibp", "taylor"), ("beta_bernoulli", "multinomial"))
    for joint in (True, False)
    for gaps in (False, True)
    if (joint or likelihood == "gaussian") and (not gaps or likelihood == "gaussian")
]


def shortfalls(rng, case):
    """log P(X) less the bound, before any update, on the way, and after 15 iterations."""
    n, d, k = SIZES.get(case[0], (2, 2, 1))
    given = problem(rng, *case, n, d, k).fixed()
    truth = log_evidence(given, case[0])
    found = [truth - given.by_library()]
    for _ in range(3):
        whole_iterations(given, 5)
        found.append(truth - given.by_library())
    return np.array(found)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_bound_stays_below_the_evidence(case, rng):
    for _ in range(2):
        found = shortfalls(rng, case)
        assert found.min() > -1e-6, found
        assert found[-1] < found[0]  # and comes nearer


def shortfall_of_certain_row(rng, likelihood, prior):
    """One row far from the noise has its one feature for certain: q(A) and q(v) are then exact."""
    given = problem(rng, likelihood, prior, n=1, d=3, k=1, X=np.full((1, 3), 30.0))
    given.rows.nu[:] = 1.0
    given.hyper.update(sigma_a=20.0, sigma_x=0.5)
    given = given.fixed()
    given.features = given.features.updated(given.statistics(), 0.5, 20.0)
    whole_iterations(given, 10)
    assert given.rows.nu[0, 0] > 1.0 - 1e-12
    return log_evidence(given, likelihood) - given.by_library()


@pytest.mark.parametrize("prior", ["ibp", "beta_bernoulli"])
@pytest.mark.parametrize("likelihood", ["gaussian", "nonnegative", "exponential"])
def test_the_bound_is_the_evidence_where_the_law_can_be_exact(likelihood, prior, rng):
    assert -1e-6 < shortfall_of_certain_row(rng, likelihood, prior) < 1e-5


def test_the_evidence_of_the_finite_prior_is_that_of_its_classes(rng):
    """Ordered matrices here, left-ordered classes there."""
    given = problem(rng, "gaussian", "beta_bernoulli", n=3, d=2, k=2).fixed()
    hyper = given.hyper
    exact = oracles.enumerate_posterior(
        oracles.PriorSpec("finite", hyper["alpha"], n_components=2),
        given.X, hyper["sigma_x"], hyper["sigma_a"], cap=2,
    )  # fmt: skip
    assert log_evidence(given, "gaussian") == pytest.approx(exact.log_evidence, rel=1e-10)


def test_the_sticks_of_the_oracle_follow_their_law(rng):
    """Σ_Z P(Z) = 1, and P(z_11 = 1) = α/(1+α)."""
    every = list(oracle.matrices(2, 2))
    counts = np.array([Z.sum(axis=0) for Z in every], float)
    p = np.exp(oracle.log_prior_of_sticks(counts, 2, 1.7))
    assert p.sum() == pytest.approx(1.0)
    assert sum(q for q, Z in zip(p, every, strict=True) if Z[0, 0]) == pytest.approx(1.7 / 2.7)
