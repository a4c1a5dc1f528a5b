"""The truncated normal law against mpmath with 80 digits, and its draws against scipy's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from statistical.budget import TESTS, judge

from thali.kernels import truncated_normal as tn

RATIOS = [
    *(-1e8, -1e5, -1e3, -100.0, -30.0, -8.0, -4.0, -2.5, -2.0000001, -2.0, -1.9999999, -1.0, -0.3),
    *(-1e-8, 0.0, 1e-8, 0.3, 1.0, 2.0, 5.0, 9.0, 30.0, 1e3, 1e8),
]
DRAWN = [-1e6, -30.0, -5.0, -0.5, 0.0, 0.5, 5.0, 1e6]
DIGITS = 1e-12


def exact(mu, sigma):
    """log Φ(t), mean, variance and entropy, by the plain formulas with digits to lose."""
    with mp.workdps(80):
        t = mpf(mu) / mpf(sigma)
        inside = mpmath.erfc(-t / mpmath.sqrt(2)) / 2
        h = mpmath.exp(-t * t / 2) / mpmath.sqrt(2 * mpmath.pi) / inside
        entropy = mpmath.log(sigma * mpmath.sqrt(2 * mpmath.pi * mpmath.e)) - t * h / 2
        # the integral is 1 to 80 digits far on the right, and its logarithm then what is missing
        log_inside = (
            mpmath.log(inside) if t < 0 else mpmath.log1p(-mpmath.erfc(t / mpmath.sqrt(2)) / 2)
        )
        values = log_inside, sigma * (t + h), sigma**2 * (1 - h * (t + h)), entropy + log_inside
        return [float(v) for v in values]


@pytest.mark.parametrize("t", RATIOS)
@pytest.mark.parametrize("sigma", [1.0, 0.37, 54.0])
def test_normalizer_and_moments_agree_with_eighty_digits(t, sigma):
    mu = t * sigma
    found = [tn.log_ndtr(mu / sigma), *(f(mu, sigma) for f in (tn.mean, tn.variance, tn.entropy))]
    for value, truth, name in zip(
        found, exact(mu, sigma), ("log normalizer", "mean", "variance", "entropy"), strict=True
    ):
        assert value == pytest.approx(truth, rel=DIGITS, abs=1e-300), name


@pytest.mark.parametrize(
    "x", [-26.0, -5.0, -1.0, 0.0, 0.5, 1.41, 1.4142135, 1.41421357, 1.5, 2.0, 5.0, 50.0, 1e4, 1e8]
)
def test_erfcx_agrees_with_mpmath(x):
    with mp.workdps(80):
        truth = float(mpmath.exp(mpf(x) ** 2) * mpmath.erfc(mpf(x)))
    assert tn.erfcx(x) == pytest.approx(truth, rel=DIGITS, abs=0.0)


@pytest.mark.parametrize("t", [-1e8, -40.0, -2.0, -1.0, 0.0, 1.0, 3.0, 1e4])
def test_lifted_cumulative_agrees_with_mpmath(t):
    """log 2Φ(t) + t²/2."""
    with mp.workdps(80):
        truth = float(mpmath.log(mpmath.erfc(-mpf(t) / mpmath.sqrt(2))) + mpf(t) ** 2 / 2)
    assert tn.log_lifted_ndtr(t) == pytest.approx(truth, rel=DIGITS, abs=1e-15)


@pytest.mark.parametrize("t", [-1e6, -30.0, -2.0, -1.0, 0.0, 2.0])
@pytest.mark.parametrize("x", [0.0, 0.4, 3.0])
def test_density_agrees_with_mpmath(t, x):
    sigma = 0.7
    a = x * tn.mean(t * sigma, sigma)
    with mp.workdps(80):
        z = (mpf(a) - mpf(t * sigma)) / mpf(sigma)
        inside = mpmath.erfc(-mpf(t * sigma) / mpf(sigma) / mpmath.sqrt(2)) / 2
        truth = float(
            -z * z / 2 - mpmath.log(sigma * mpmath.sqrt(2 * mpmath.pi)) - mpmath.log(inside)
        )
    assert tn.log_density(a, t * sigma, sigma) == pytest.approx(truth, rel=1e-11, abs=1e-12)


def test_arrays_of_moments_are_the_scalars(rng):
    mu, sigma = rng.normal(size=50) * 10.0, rng.random(50) + 0.1
    out = np.zeros((3, 50))
    tn.moments(mu, sigma, *out)
    for row, f in zip(out, (tn.mean, tn.variance, tn.entropy), strict=True):
        assert row.tolist() == [f(m, s) for m, s in zip(mu, sigma, strict=True)]


@pytest.mark.parametrize("t", DRAWN)
def test_draws_follow_the_law(t, seed):
    """Kolmogorov–Smirnov; in the far tail against the exponential law that it becomes."""
    sigma, n = 2.5, 20_000
    out = np.empty(n)
    tn.sample_each(np.random.default_rng(seed), np.full(n, t * sigma), np.full(n, sigma), out)
    assert (out >= 0.0).all()
    law = stats.truncnorm(-t, np.inf, loc=t * sigma, scale=sigma)
    if t < -1e3:  # scipy loses its digits; the exponential is off by 3/t² at most
        law = stats.expon(scale=tn.mean(t * sigma, sigma))
    judge("truncated_normal", {"KS": float(stats.kstest(out, law.cdf).pvalue)})


def test_a_normal_draw_moved_to_zero_would_be_seen(seed):
    """The same check on a wrong law: negative draws set to zero in place of drawn again."""
    out = np.maximum(np.random.default_rng(seed).normal(size=20_000) - 0.5, 0.0)
    law = stats.truncnorm(0.5, np.inf, loc=-0.5)
    assert stats.kstest(out, law.cdf).pvalue < 1e-12


def test_the_budget_counts_these_tests():
    assert TESTS["truncated_normal"] == len(DRAWN)
