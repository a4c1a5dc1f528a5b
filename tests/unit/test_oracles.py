"""The oracles against each other: what judges the library must itself be beyond doubt."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from oracles import features as oracles
from oracles.features import PriorSpec
from scipy import integrate, stats
from statistical import test_enumeration
from statistical.budget import TESTS, judge

PRIORS = [
    PriorSpec("ibp", 1.7),
    PriorSpec("two_parameter", 1.7, beta=0.4),
    PriorSpec("finite", 1.7, n_components=3),
]
BY_PRIOR = pytest.mark.parametrize("spec", PRIORS, ids=lambda s: s.kind)


def matrix(counts, n):
    return np.repeat(oracles.histories(n), counts, axis=0).T


@pytest.mark.parametrize(("n", "cap"), [(1, 5), (2, 6), (3, 4), (4, 3)])
def test_all_classes_are_listed_once(n, cap):
    found = oracles.classes(n, cap)
    assert len(found) == len(np.unique(found, axis=0)) == comb(2**n - 1 + cap, cap)
    assert found.sum(axis=1).max() == cap
    for counts in found[:: max(1, len(found) // 50)]:
        assert oracles.class_of(matrix(counts, n)) == tuple(counts)


@BY_PRIOR
def test_class_probabilities_sum_to_one(spec):
    counts = oracles.classes(2, 30 if spec.kind != "finite" else spec.n_components)
    assert np.exp(spec.log_classes(counts, 2)[0]).sum() == pytest.approx(1.0, abs=1e-10)


def test_poisson_law_of_the_number_of_dishes():
    counts = oracles.classes(3, 12)
    p = np.exp(oracles.log_prior_two_parameter(counts, 3, 0.9, 2.5))
    found = np.bincount(counts.sum(axis=1), p)
    wanted = stats.poisson.pmf(np.arange(13), 0.9 * oracles.harmonic(3, 2.5))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("n", [2, 3])
def test_spectrum_likelihood_is_the_multivariate_normal_density(n, rng):
    X = rng.normal(size=(n, 3))
    counts = oracles.classes(n, 4)
    s = oracles.spectrum(X, 4)
    found = s.log_likelihood(0.4, 0.8)[s.of_class]
    wanted = [oracles.log_marginal(X, matrix(c, n), 0.4, 0.8) for c in counts]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("kind", ["ibp", "two_parameter", "finite"])
def test_alpha_integrated_out_is_a_mixture_over_alpha(kind, rng):
    """P([Z]) and E[α|Z] under a Gamma law, in closed form or on nodes, against quadrature."""
    shape, rate = 1.3, 0.8
    counts = oracles.classes(3, 3)[[0, 1, 5, 40, -1]]
    spec = PriorSpec(kind, (shape, rate), beta=2.5, n_components=4)
    log_p, alpha = spec.log_classes(counts, 3)
    for i, row in enumerate(counts):

        def joint(a, power, row=row):
            fixed = PriorSpec(kind, a, beta=2.5, n_components=4)
            density = stats.gamma.pdf(a, shape, scale=1 / rate)
            return a**power * np.exp(fixed.log_classes(row[None], 3)[0][0]) * density

        mass = integrate.quad(joint, 0, 60, args=(0,), limit=300)[0]
        first = integrate.quad(joint, 0, 60, args=(1,), limit=300)[0]
        assert np.exp(log_p[i]) == pytest.approx(mass, rel=1e-6)
        assert alpha[i] == pytest.approx(first / mass, rel=1e-6)


@BY_PRIOR
def test_the_bound_of_what_is_left_out_holds(spec):
    """Enumerate twice: the mass between the two caps is within the smaller one's bound."""
    X = np.array(test_enumeration.DATA[2])
    if spec.kind == "finite":
        assert oracles.enumerate_posterior(spec, X, 0.6, 0.9, 9).left_out == 0.0
        return
    whole = oracles.enumerate_posterior(spec, X, 0.6, 0.9, 40)
    assert whole.left_out < 1e-12
    for cap in (4, 8, 12):
        part = oracles.enumerate_posterior(spec, X, 0.6, 0.9, cap)
        beyond = whole.k_probabilities[cap + 1 :].sum()
        within = whole.k_probabilities[: cap + 1].sum()
        assert beyond <= part.left_out * within
        assert part.left_out < 1e3 * beyond  # and it is no idle bound


def test_narrow_laws_of_sigma_give_the_answer_at_fixed_sigma():
    X = np.array(test_enumeration.DATA[2])
    spec = PriorSpec("ibp", (1.0, 1.0))
    shape = 4e4
    narrow = oracles.enumerate_posterior_with_sigmas(
        spec, X, (shape, shape * 0.36), (shape, shape * 0.81), 10, points=40
    )
    fixed = oracles.enumerate_posterior(spec, X, 0.6, 0.9, 10)
    np.testing.assert_allclose(narrow.k_probabilities, fixed.k_probabilities, atol=1e-3)
    assert narrow.alpha == pytest.approx(fixed.alpha, rel=1e-3)
    assert narrow.log_sigma_x == pytest.approx(np.log(0.6), abs=1e-3)


def test_the_grid_of_sigmas_is_fine_enough():
    X = np.array(test_enumeration.DATA[2])
    spec = PriorSpec("ibp", (1.0, 1.0))
    coarse, fine = (
        oracles.enumerate_posterior_with_sigmas(
            spec, X, test_enumeration.LAW_X, test_enumeration.LAW_A, 6, points=points
        )
        for points in (32, 90)
    )
    np.testing.assert_allclose(coarse.k_probabilities, fine.k_probabilities, atol=1e-7)
    assert coarse.log_sigma_x == pytest.approx(fine.log_sigma_x, abs=1e-7)
    assert coarse.log_sigma_a == pytest.approx(fine.log_sigma_a, abs=1e-7)


def test_exact_fractions_are_ratios_of_marginals(rng):
    X, Z = rng.normal(size=(4, 2)), rng.random((4, 2)) < 0.6
    candidates = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    found = oracles.log_predictive_exact(X, Z, 1, candidates, 0.5, 1.2)
    wanted = []
    for z in candidates:
        changed = Z.copy()
        changed[1] = z
        wanted.append(oracles.log_marginal(X, changed, 0.5, 1.2))
    np.testing.assert_allclose(found - found[0], np.array(wanted) - wanted[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["N=2 ibp α=3", "N=2 ibp α~Gamma"])
def test_the_textbook_sampler_agrees_with_enumeration(name, textbook, seed):
    """The benchmark's yardstick is right, and not only slow."""
    case = test_enumeration.CASES[name]
    inferred = isinstance(case.prior.alpha, tuple)
    walk = textbook.textbook_gibbs(
        np.random.default_rng(seed),
        case.X,
        alpha=1.0 if inferred else case.prior.alpha,
        sigma_x=test_enumeration.SIGMA_X,
        sigma_a=test_enumeration.SIGMA_A,
        alpha_law=case.prior.alpha if inferred else None,
        step_sigmas=False,
    )
    states = [next(walk) for _ in range(1200)]
    kept = {
        "n_components": np.array([[float(s.n_components) for s in states]]),
        "alpha": np.array([[s.alpha for s in states]]),
    }
    gram = np.array([[s.Z @ s.Z.T for s in states]])
    judge("oracles", test_enumeration.p_values(case, kept, gram))


def test_the_budget_counts_these_tests():
    assert TESTS["oracles"] == 2
