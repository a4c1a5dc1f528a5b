"""Priors: log P([Z]), the tables of potentials and the draws, against enumeration and play."""

from __future__ import annotations

from collections import Counter
from math import comb, factorial

import numpy as np
import pytest
from oracles import features as oracles
from statistical.budget import TESTS, judge, p_value_of_counts, p_value_of_mean

import thali
from thali.structures.features import feature_counts, held_to

PRIORS = {
    "ibp": (thali.IBP(alpha=1.3), oracles.PriorSpec("ibp", 1.3)),
    "ibp_3": (thali.IBP(alpha=3.0), oracles.PriorSpec("ibp", 3.0)),
    "shared": (
        thali.TwoParameterIBP(alpha=1.3, beta=0.4),
        oracles.PriorSpec("two_parameter", 1.3, beta=0.4),
    ),
    "spread": (
        thali.TwoParameterIBP(alpha=0.8, beta=2.5),
        oracles.PriorSpec("two_parameter", 0.8, beta=2.5),
    ),
    "finite": (
        thali.BetaBernoulli(alpha=1.3, n_components=5),
        oracles.PriorSpec("finite", 1.3, n_components=5),
    ),
    "finite_1": (
        thali.BetaBernoulli(alpha=3.0, n_components=1),
        oracles.PriorSpec("finite", 3.0, n_components=1),
    ),
    "truncated": (
        thali.TruncatedIBP(alpha=2.5, max_features=3),
        oracles.PriorSpec("truncated", 2.5, n_components=3),
    ),
}
ALL = pytest.mark.parametrize("name", PRIORS)
JUDGED = 3 * len(PRIORS)  # p-values: library draws, the oracles' own simulation, α given Z


def test_the_budget_counts_these_tests():
    assert TESTS["priors"] == JUDGED


def matrix(counts, n):
    return np.repeat(oracles.histories(n), counts, axis=0).T


def enumerated(spec, n, cap):
    """All classes with K ≤ cap, and their exact probabilities."""
    counts = oracles.classes(n, min(cap, spec.n_components) if spec.limited else cap)
    return counts, spec.log_classes(counts, n)[0]


@ALL
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_log_prob_is_the_left_ordered_one(name, n):
    prior, spec = PRIORS[name]
    counts, expected = enumerated(spec, n, cap=4 if n < 4 else 3)
    found = [prior.log_prob(matrix(c, n)) for c in counts]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@ALL
def test_probabilities_of_all_classes_sum_to_one(name):
    prior, spec = PRIORS[name]
    counts, _ = enumerated(spec, 2, cap=26)
    assert np.exp([prior.log_prob(matrix(c, 2)) for c in counts]).sum() == pytest.approx(
        1, abs=1e-9
    )


@ALL
def test_log_prob_ignores_the_order_of_columns_and_empty_ones(name, rng):
    prior, spec = PRIORS[name]
    Z = matrix(enumerated(spec, 3, cap=3)[0][-9 if name != "finite_1" else -1], 3)
    wanted = prior.log_prob(Z)
    assert prior.log_prob(Z[:, rng.permutation(Z.shape[1])]) == pytest.approx(wanted, rel=1e-14)
    if spec.kind != "finite" or Z.shape[1] < spec.n_components:
        with_empty = np.column_stack([np.zeros(3), Z])
        assert prior.log_prob(with_empty) == pytest.approx(wanted, rel=1e-14)


def test_more_features_than_a_prior_allows_are_impossible():
    assert thali.BetaBernoulli(alpha=1.0, n_components=2).log_prob(np.ones((3, 3))) == -np.inf
    assert thali.TruncatedIBP(alpha=1.0, max_features=2).log_prob(np.ones((3, 3))) == -np.inf


@pytest.mark.parametrize("alpha", [1e-12, 0.3, 40.0, 3e4, 1e15])
@pytest.mark.parametrize("most", [1, 7, 300])
def test_the_truncated_process_is_the_process_given_its_limit(alpha, most):
    """Also where almost no draw of the process is within it."""
    from mpmath import exp, factorial, mp, mpf

    n, Z = 20, np.eye(20)[:, :1]
    with mp.workdps(60):
        mean = mpf(alpha) * sum(mpf(1) / i for i in range(1, n + 1))
        held = float(mp.log(sum(mean**j / factorial(j) for j in range(most + 1)) * exp(-mean)))
    wanted = thali.IBP(alpha=alpha).log_prob(Z) - held
    found = thali.TruncatedIBP(alpha=alpha, max_features=most).log_prob(Z)
    # −α H_N stands in both terms of what is wanted, and its rounding stays
    assert found == pytest.approx(wanted, abs=1e-10 + 4e-16 * float(mean))


def test_one_parameter_is_the_two_parameter_process_at_beta_one_and_the_finite_limit(rng):
    Z = rng.random((6, 5)) < 0.4
    ibp = thali.IBP(alpha=1.7).log_prob(Z)
    assert thali.TwoParameterIBP(alpha=1.7, beta=1.0).log_prob(Z) == pytest.approx(ibp, rel=1e-12)
    near = thali.BetaBernoulli(alpha=1.7, n_components=10**7).log_prob(Z)
    assert near == pytest.approx(ibp, abs=1e-4)


@ALL
@pytest.mark.parametrize("n", [2, 3, 5])
def test_tables_are_differences_of_log_prob(name, n):
    """λ_{m+1} − λ_m and the weights of j new dishes, from ratios of class probabilities."""
    prior, spec = PRIORS[name]
    tables = prior.tables(n)
    assert len(tables.log_odds) == n

    def one_column(m):
        return prior.log_prob((np.arange(n) < m).astype(int)[:, None])

    for m in range(1, n):
        assert tables.log_odds[m] == pytest.approx(one_column(m + 1) - one_column(m), abs=1e-10)
    nothing = prior.log_prob(np.zeros((n, 0)))
    singleton = np.zeros((n, 1))
    singleton[0] = 1
    most = spec.n_components if spec.limited else 6
    limits = {"finite": spec.n_components, "truncated": held_to(spec.n_components)}
    assert tables.capacity == limits.get(spec.kind, -1)
    assert prior.most_components(n) == (most if spec.limited else -1)
    for j in range(1, most + 1):
        ways = comb(most, j) if spec.kind == "finite" else 1 / factorial(j)
        found = np.log(ways) + j * tables.new_log_weight
        wanted = prior.log_prob(np.repeat(singleton, j, axis=1)) - nothing
        assert found == pytest.approx(wanted, abs=1e-9)


@ALL
def test_tables_give_the_conditional_law_of_a_row(name):
    """P(row n of Z | the other rows), by the tables, against Bayes on labeled matrices (n = 3).

    A class with counts K_h has K!/∏K_h! labeled orders of its K columns; dividing the class's
    probability evenly among them gives a law of matrices with K ordered columns, and ratios for
    the same K are ratios of bits.
    """
    prior, _ = PRIORS[name]
    tables = prior.tables(3)

    def log_labeled(Z):
        counts = oracles.class_of(Z)
        orders = factorial(sum(counts)) / np.prod([factorial(c) for c in counts])
        return prior.log_prob(Z) - np.log(orders)

    if name == "finite_1":
        Z = np.array([[1], [0], [0]])
    else:
        Z = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    for n, k in np.ndindex(Z.shape):
        on, off = Z.copy(), Z.copy()
        on[n, k], off[n, k] = 1, 0
        m = off[:, k].sum()
        if m:
            ratio = log_labeled(on) - log_labeled(off)
            assert tables.log_odds[m] == pytest.approx(ratio, abs=1e-10)


def class_counts(draws, counts):
    """How often each class was drawn, with one more cell for all others."""
    index = {tuple(c): i for i, c in enumerate(counts.tolist())}
    found = np.zeros(len(index) + 1)
    for c, times in Counter(draws).items():
        found[index.get(c, len(index))] += times
    return found


@ALL
def test_draws_have_the_enumerated_law(name, seed):
    prior, spec = PRIORS[name]
    rng = np.random.default_rng(seed)
    counts, log_p = enumerated(spec, 3, cap=8)
    draws = []
    for _ in range(6000):
        Z = prior.sample(rng, 3)
        assert Z.dtype == bool
        assert Z.any(axis=0).all()
        draws.append(oracles.class_of(Z))
    found = class_counts(draws, counts)
    judge("priors", {"classes": p_value_of_counts(found, np.exp(log_p))})


@ALL
def test_the_oracles_closed_form_is_the_law_of_their_story(name, seed):
    """The oracle against itself: P([Z]) in closed form against the buffet, played."""
    _, spec = PRIORS[name]
    rng = np.random.default_rng(seed)
    counts, log_p = enumerated(spec, 3, cap=8)
    if spec.limited:
        play = oracles.simulate_finite if spec.kind == "finite" else oracles.simulate_truncated
        plays = (play(rng, 3, spec.alpha, spec.n_components) for _ in range(6000))
    else:
        plays = (oracles.simulate_buffet(rng, 3, spec.alpha, spec.beta) for _ in range(6000))
    found = class_counts([oracles.class_of(Z) for Z in plays], counts)
    judge("priors", {"classes": p_value_of_counts(found, np.exp(log_p))})


@ALL
def test_draws_are_left_ordered(name, rng):
    prior, _ = PRIORS[name]
    for _ in range(50):
        Z = prior.sample(rng, 6)
        histories = [tuple(column) for column in Z.T.tolist()]
        assert histories == sorted(histories, reverse=True)


@ALL
def test_alpha_given_z_has_the_mean_that_quadrature_gives(name, seed):
    """The engine's own step of α, repeated with Z held: its mean is E[α | Z]."""
    prior, spec = PRIORS[name]
    shape, rate = 2.0, 0.7
    Z = np.array([[1, 1], [1, 0], [0, 0], [1, 1], [1, 0]])
    Z = Z[:, :1] if name == "finite_1" else Z
    wanted = oracles.mean_of_gamma_by_quadrature(
        lambda a: prior.at(alpha=a).log_prob(Z), shape, rate
    )
    if spec.kind == "ibp":  # conjugate: Gamma(shape + K, rate + H_N)
        exact = (shape + Z.shape[1]) / (rate + oracles.harmonic(5))
        assert wanted == pytest.approx(exact, rel=1e-6)
    inferred = prior.replace(alpha=thali.Gamma(shape, rate))
    rng = np.random.default_rng(seed)
    hyper = inferred.start()
    series = []
    for _ in range(3000):
        inferred.resample(rng, hyper, feature_counts(Z))
        series.append(hyper["alpha"])
    judge("priors", {"alpha": p_value_of_mean(np.array(series), wanted)})


@pytest.mark.parametrize("k", [0, 1, 7])
def test_columns_are_counted_alike_with_and_without_a_kernel(k, rng):
    from thali.kernels.equal_columns import count_columns

    Z = (rng.random((3, k)) < 0.5).astype(np.uint8)
    Z[0, ~Z.any(axis=0)] = 1  # a chain has no empty columns; of these few, some are equal
    m, times = count_columns(Z)
    assert m.tolist() == Z.sum(axis=0).tolist()
    assert sorted(times) == sorted(Counter(map(tuple, Z.T)).values())
