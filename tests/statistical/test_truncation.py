"""Cutting off the sticks of the Indian buffet process: the chance that it matters, and its bounds.

Simulated from the definition: v_i ~ Beta(α, 1), π_k = ∏_{i≤k} v_i, every row has feature k with
probability π_k; does any of N rows have a feature beyond the K most frequent?
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statistical.budget import TESTS, judge

from thali.priors import truncation

GRID = [  # N, α, K
    (1, 0.5, 1), (1, 3.0, 4), (5, 1.0, 2), (5, 1.0, 5), (20, 0.5, 3), (20, 2.0, 6),
    (20, 2.0, 12), (100, 1.0, 8), (100, 4.0, 20), (100, 4.0, 40), (1000, 2.0, 15),
]  # fmt: skip
DRAWS = 10_000


def simulate(rng, n, alpha, k):
    """Whether each draw has a feature beyond k; sticks as many as may matter (π < 1e-12/n)."""
    length = k + int(np.ceil((np.log(n) + 28.0) * alpha + 10.0 * np.sqrt(30.0 * alpha))) + 20
    found = np.zeros(DRAWS, bool)
    for part in np.array_split(np.arange(DRAWS), 10):
        pi = np.cumprod(rng.beta(alpha, 1.0, size=(len(part), length)), axis=1)
        found[part] = (rng.binomial(n, pi[:, k:]) > 0).any(axis=1)
    return found


def test_the_chance_is_that_of_simulated_sticks(rng):
    p = {}
    for n, alpha, k in GRID:
        hits = int(simulate(rng, n, alpha, k).sum())
        chance = truncation.truncation_error(n, alpha, k)
        p[f"N={n} α={alpha} K={k}"] = float(stats.binomtest(hits, DRAWS, chance).pvalue)
    judge("truncation", p)


def test_the_bounds_lie_above_simulated_sticks(rng):
    """One-sided: that so many draws or more would have one if the bound were the chance."""
    p = {}
    for n, alpha, k in GRID:
        hits = int(simulate(rng, n, alpha, k).sum())
        for bound in (truncation.truncation_bound, truncation.tight_truncation_bound):
            most = bound(n, alpha, k)
            test = stats.binomtest(hits, DRAWS, min(most, 1.0), alternative="greater")
            p[f"{bound.__name__} N={n} α={alpha} K={k}"] = float(test.pvalue)
    judge("truncation", p)


def test_the_bounds_are_in_order():
    for n, alpha, k in GRID:
        truth, tight, loose = (
            f(n, alpha, k)
            for f in (
                truncation.truncation_error,
                truncation.tight_truncation_bound,
                truncation.truncation_bound,
            )
        )
        assert 0.0 < truth <= tight * (1.0 + 1e-9)
        assert tight <= loose * (1.0 + 1e-12)
        assert loose == pytest.approx(1.0 - np.exp(-n * alpha * (alpha / (1.0 + alpha)) ** k))


@pytest.mark.parametrize("n", [1, 30, 10_000])
@pytest.mark.parametrize("p", [1e-9, 1e-3, 0.3, 0.999, 1.0])
def test_expected_takers_are_an_integral(n, p):
    """h(p) = ∫₀^p (1 − (1−x)^n)/x dx, on log x."""
    from scipy.integrate import quad

    def integrand(u):
        return -np.expm1(n * np.log1p(-min(np.exp(u), 1.0 - 1e-16)))

    top = np.log(p)
    middle = min(-np.log(n), top) - 3.0
    pieces = [(top - 60.0, middle), (middle, top)]
    whole = sum(quad(integrand, *ends, epsabs=0.0, limit=400)[0] for ends in pieces)
    assert truncation.expected_takers(n, p) == pytest.approx(whole, rel=1e-7)


@pytest.mark.parametrize("p", [1e-12, 1e-8, 1e-5, 1e-3, 0.2, 0.9, 1.0])
def test_expected_takers_of_many_rows_agree_with_the_sum(p):
    """The form for large n, at sizes where the sum can still be made."""
    n = 2 * truncation.EXACT
    i = np.arange(1, n + 1)
    rate = -np.log1p(-min(p, 1.0 - 1e-16))
    whole = (-np.expm1(-i * rate) / i).sum()
    assert truncation.expected_takers(n, p) == pytest.approx(whole, rel=2.0 / n)


def test_the_least_truncation_is_the_least():
    for n, alpha, error in ((5, 1.0, 0.05), (100, 3.0, 0.01), (100_000, 2.0, 1e-4), (1, 0.1, 0.5)):
        k = truncation.least_truncation(n, alpha, error)
        assert truncation.tight_truncation_bound(n, alpha, k) <= error
        assert k == 1 or truncation.tight_truncation_bound(n, alpha, k - 1) > error
        assert truncation.truncation_error(n, alpha, k) <= error


def test_a_bound_without_alpha_is_caught(rng):
    """1 − exp(−N p̄) in place of 1 − exp(−Nα p̄): simulated sticks go beyond it."""
    n, alpha, k = 20, 2.0, 12
    broken = 1.0 - np.exp(-n * (alpha / (1.0 + alpha)) ** k)
    hits = int(simulate(rng, n, alpha, k).sum())
    assert stats.binomtest(hits, DRAWS, broken).pvalue < 1e-7


def test_the_budget_knows_these_tests():
    assert TESTS["truncation"] == 2
