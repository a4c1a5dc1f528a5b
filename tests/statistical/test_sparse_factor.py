"""Sparse factors beyond the ladder: more enumeration, the moves by themselves, known sources.

The oracle (``sparse_oracle``) integrates the amounts by quadrature, and the comparison is given
K ≤ cap, as in ``test_enumeration``.  Broken variants must fail the same checks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from math import factorial

import numpy as np
import pytest
from oracles.features import PriorSpec
from oracles.sparse import enumerate_sparse, half_nodes, shapes
from scipy import stats
from statistical.budget import (
    TESTS,
    alarms,
    judge,
    p_value_of_difference,
    p_value_of_mean,
    pooled,
)
from statistical.mutants import mutate
from statistical.stories import library_prior

import thali
from thali.kernels.gaussian_row import Scales
from thali.kernels.new_features import MOST_NEW, NewFeatures

KERNEL = "thali.kernels.sparse_factor"
SIGMA_X, SIGMA_A = 0.7, 0.8
TWO = [[1.3, -0.5], [1.1, 0.6]]
THREE = [[1.2, -0.4], [1.5, 0.3], [-0.5, 0.9]]


# ---- enumeration --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Case:
    prior: PriorSpec
    slab: str
    new_features: str
    cap: int = 2
    rows: int = 2

    @property
    def X(self):
        return np.array(TWO if self.rows == 2 else THREE)


CASES = {  # beyond those of the ladder
    "ibp laplace": Case(PriorSpec("ibp", 0.8), "laplace", "integrated"),
    "three rows": Case(PriorSpec("finite", 1.5, n_components=1), "laplace", "integrated", 1, 3),
}


@cache
def exact_answer(case):
    return enumerate_sparse(case.prior, case.X, SIGMA_X, SIGMA_A, case.slab, case.cap, points=5)


def check(case, seed, sweeps, chains=2, likelihood=thali.SparseFactor):
    """P-values of P(K), E[ZZ'] and E[shapes(WW')] given K ≤ cap, through the public door."""
    model = thali.LatentFeatures(
        library_prior(case.prior),
        likelihood(case.slab, sigma_x=SIGMA_X, sigma_a=SIGMA_A),
        thali.UncollapsedGibbs(
            sweeps + 200, 200, chains=chains, init="prior", new_features=case.new_features
        ),
        random_state=seed,
        progress=False,
    ).fit(case.X)
    draws = list(model.draws())
    K = np.array([d.Z.shape[1] for d in draws]).reshape(chains, sweeps)
    size = (chains, sweeps, case.rows, case.rows)
    bits = np.array([d.Z.astype(float) @ d.Z.T for d in draws]).reshape(size)
    assert all((d.parameters["S"][~d.Z] == 0.0).all() for d in draws)
    amounts = np.array([shapes(d.parameters["S"] @ d.parameters["S"].T) for d in draws])
    exact = exact_answer(case)

    def compare(values, truth):
        return p_value_of_mean((case.cap >= K) * (values - truth), 0.0)

    found = {}
    for cell in pooled(exact.k_probabilities):
        found[f"P(K in {cell})"] = compare(np.isin(K, cell), exact.k_probabilities[cell].sum())
    for i in range(case.rows):
        for j in range(i, case.rows):
            found[f"E[ZZ']_{i}{j}"] = compare(bits[:, :, i, j], exact.gram[i, j])
            values = amounts.reshape(size)[:, :, i, j]
            found[f"E[WW']_{i}{j}"] = compare(values, exact.shapes[i, j])
    return found


@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration(name, seed):
    judge("sparse_enumeration", check(CASES[name], seed, sweeps=1500))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration_closely(name, seed):
    judge("sparse_enumeration", check(CASES[name], seed, sweeps=15_000))


def test_the_enumeration_has_converged():
    case = CASES["ibp laplace"]
    fine = enumerate_sparse(case.prior, case.X, SIGMA_X, SIGMA_A, case.slab, case.cap, points=6)
    coarse = exact_answer(case)
    assert coarse.evidence == pytest.approx(fine.evidence, rel=1e-5)
    np.testing.assert_allclose(coarse.k_probabilities, fine.k_probabilities, atol=1e-5)
    np.testing.assert_allclose(coarse.shapes, fine.shapes, atol=1e-5)


# ---- the two ways to new features ---------------------------------------------------------------
def both_ways(seed, sweeps, chains=2):
    rng = np.random.default_rng(7)
    X = (rng.random((10, 2)) < 0.6) * rng.laplace(size=(10, 2)) @ rng.normal(size=(2, 3))
    X = X + 0.4 * rng.normal(size=X.shape)
    series = []
    for way in ("integrated", "slice"):
        model = thali.LatentFeatures(
            thali.IBP(alpha=thali.Gamma(2, 2)),
            thali.SparseFactor("laplace", thali.InverseGamma(4, 1), thali.InverseGamma(4, 3)),
            thali.UncollapsedGibbs(sweeps + 300, 300, chains=chains, new_features=way),
            random_state=seed,
            progress=False,
        ).fit(X)
        found = {name: values[:, 300:] for name, values in model.history_.items()}
        found["ΣZ"] = np.array([d.Z.sum() for d in model.draws()]).reshape(chains, sweeps)
        series.append(found)
    return {name: p_value_of_difference(series[0][name], series[1][name]) for name in series[0]}


@pytest.mark.slow
def test_integrated_and_slice_agree(seed):
    judge("sparse_agreement", both_ways(seed, sweeps=10_000))


# ---- the rescaling alone, and the own dishes alone ----------------------------------------------
def rescaled_p_values(rng, likelihood, slab, m=2, d=6, features=5000):
    """Amounts and features from their prior keep that law when they are rescaled.

    Σ|s| of m Laplace amounts is Gamma(m), Σs² of m Gaussian ones χ²_m, and Σ(a/σ_a)² is χ²_d.
    m is far from d, since the Jacobian is c^{m−d}.
    """
    part = likelihood(slab)
    Z = np.ones((m, features), np.uint8)
    S = rng.laplace(size=Z.shape) if slab == "laplace" else rng.normal(size=Z.shape)
    A = 0.8 * rng.normal(size=(features, d))
    c = part._rescaling(rng, Z, S, A, 0.8)
    size = (np.abs(c * S) if slab == "laplace" else np.square(c * S)).sum(axis=0)
    law = stats.gamma(m) if slab == "laplace" else stats.chi2(m)
    length = np.square(A / c[:, None] / 0.8).sum(axis=1)
    assert np.std(np.log(c)) > 0.1  # it moves
    return {
        "s": stats.kstest(size, law.cdf).pvalue,
        "a": stats.kstest(length, stats.chi2(d).cdf).pvalue,
    }


@pytest.mark.parametrize("slab", ["laplace", "gaussian"])
def test_rescaling_keeps_the_prior(slab, rng):
    judge("sparse_moves", rescaled_p_values(rng, thali.SparseFactor, slab))


def test_a_rescaling_without_its_jacobian_is_caught(rng, monkeypatch):
    from thali.kernels import sparse_factor

    broken = mutate(KERNEL, NO_JACOBIAN)
    monkeypatch.setattr(sparse_factor, "rescaling", broken.rescaling)
    assert alarms(rescaled_p_values(rng, thali.SparseFactor, "laplace"))


NEW = NewFeatures(0.0, -1, -1, MOST_NEW)  # one new feature expected
SCALES = Scales(SIGMA_X, SIGMA_A, 2.0)


def own_law(slab, rho, cap=2):
    """P(j) of one row's own dishes, j ≤ cap, its residual of squared length ρ; by quadrature."""
    s, w = half_nodes(slab, 12)
    V, weight, masses = np.zeros(1), np.ones(1), []
    for j in range(cap + 1):
        variance = SIGMA_X**2 + SIGMA_A**2 * V
        density = variance**-1.0 * np.exp(-0.5 * rho / variance)  # D = 2
        masses.append(weight @ density / factorial(j))
        V = (V[:, None] + s**2).ravel()
        weight = np.outer(weight, 2.0 * w).ravel()
    return np.array(masses) / sum(masses)


def own_p_values(kernel, rng, slab, rho, steps=60_000):
    own, bins, j, found = np.zeros(60), np.zeros(15), 0, np.empty(steps)
    for i in range(steps):
        j = kernel.walk_own(rng, own, j, rho, NEW, np.zeros(0), SCALES, slab == "laplace", bins)
        found[i] = j
    truth = own_law(slab, rho)
    return {
        f"P(j = {i})": p_value_of_mean((found <= 2) * ((found == i) - truth[i]), 0.0)
        for i in range(3)
    }


@pytest.mark.parametrize("slab", ["laplace", "gaussian"])
@pytest.mark.parametrize("rho", [0.3, 9.0])
def test_births_and_deaths_follow_the_law_of_own_dishes(slab, rho, rng):
    from thali.kernels import sparse_factor

    judge("sparse_moves", own_p_values(sparse_factor, rng, slab, rho))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own dishes counted as if ordered", "births proposed too seldom"])
def test_broken_births_are_caught(name, rng):
    kernel = mutate(KERNEL, BROKEN_BIRTHS[name])
    assert alarms(own_p_values(kernel, rng, "laplace", 9.0))


# ---- broken variants ----------------------------------------------------------------------------
MANY_OWN = Case(PriorSpec("ibp", 2.5), "laplace", "integrated")
BROKEN_BIRTHS = {
    "own dishes counted as if ordered": [
        ("ratio = log_step(new, theta, j) - log", "ratio = new.log_weight - log"),
    ],
    "births proposed too seldom": [
        (
            "if rng.random() < 0.5:\n            if j ==",
            "if rng.random() < 0.4:\n            if j ==",
        )
    ],
}
BROKEN_KERNELS = {
    "negative amounts forgotten": [
        (
            "both = log_add(log_mills((q - 1.0) / root), log_mills((-q - 1.0) / root))",
            "both = log_mills((q - 1.0) / root)",
        )
    ],
    "proposal of a birth forgotten": [
        ("return value - log_proposal(s, bins, total)", "return value")
    ],
}
NO_JACOBIAN = [("power = float(m[k] - d)", "power = 0.0")]


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN_KERNELS)
def test_enumeration_catches_a_broken_kernel(name, monkeypatch, seed):
    import thali.kernels

    copy = mutate(KERNEL, BROKEN_KERNELS[name])
    monkeypatch.setitem(sys.modules, KERNEL, copy)
    monkeypatch.setattr(thali.kernels, "sparse_factor", copy, raising=False)
    assert alarms(check(MANY_OWN, seed, sweeps=6000))


def test_the_budget_counts_these_tests():
    assert TESTS["sparse_enumeration"] == 2 * len(CASES)
    assert TESTS["sparse_agreement"] == 1
    assert TESTS["sparse_moves"] == 2 + 4


# ---- known sources ------------------------------------------------------------------------------
def five_sources(seed, n=500, d=10, noise=0.3):
    """Five Laplace sources, each on with its own probability, in ten noisy channels."""
    rng = np.random.default_rng(seed)
    W = (rng.random((n, 5)) < rng.uniform(0.3, 0.5, 5)) * rng.laplace(size=(n, 5))
    return W, W @ rng.normal(size=(5, d)) + noise * rng.normal(size=(n, d))


@pytest.mark.slow
@pytest.mark.parametrize("which", range(4))
def test_five_known_sources_are_separated_without_being_counted(which, seed):
    """Nothing is told but the data; sources are matched one to one by their correlations."""
    from scipy.optimize import linear_sum_assignment

    W, X = five_sources(seed)
    model = thali.LatentFeatures(
        likelihood="sparse_factor",
        engine=thali.UncollapsedGibbs(sweeps=300, chains=2),
        random_state=which,
        progress=False,
    ).fit(X)
    assert model.n_components_ == 5
    correlations = np.abs(np.corrcoef(W.T, model.amounts_.T)[:5, 5:])
    rows, columns = linear_sum_assignment(correlations, maximize=True)
    assert (correlations[rows, columns] > 0.95).all()
