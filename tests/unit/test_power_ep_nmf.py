"""Infinite nonnegative factorization by power expectation propagation: moments and fixed points."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles.finite_posterior import posterior
from oracles.variational_updates import install
from scipy import integrate, stats
from scipy.special import expit, logit
from sklearn.base import clone

import thali
from thali.evaluation import PowerEPNMF, match_assignments
from thali.evaluation.power_ep_nmf import Globals, Rows

SCALES = {"sigma_x": 0.4, "sigma_a": 1.0}
CLOSE = {"tol": 1e-6, "max_iter": 500, "random_state": 0}


def drawn(rng, n, d, k):
    A, Z = np.abs(rng.standard_normal((k, d))), rng.random((n, k)) < 0.5
    Z[0] = True
    return Z @ A + 0.4 * rng.standard_normal((n, d))


# ---- exact moments ------------------------------------------------------------------------------
@cache
def problems(k, gaps=False):
    """Tiny data with the moments of their posterior."""
    rng, found = np.random.default_rng(k), []
    for i in range(6):
        X = drawn(rng, 4 + i % 3, 4, 1) if k == 1 else drawn(rng, 3, 4, 2)
        if gaps:
            X[rng.random(X.shape) < 0.2] = np.nan
        found.append((X, posterior(X, k, 1.5, **SCALES, nodes=60 if k == 1 else 40)))
    return found


def errors_of_one_feature(power=1.0, gaps=False):
    """Mean distances from the posterior's P(z = 1), E[A], sd of A, E[ZA] and E[π]."""
    found = []
    for X, exact in problems(1, gaps):
        model = PowerEPNMF(1, alpha=1.5, power=power, damping=0.0, **SCALES, **CLOSE).fit(X)
        pairs = (
            (model.weights_, exact.on),
            (model.components_, exact.features),
            (np.sqrt(model.components_variance_[0]), np.sqrt(exact.covariance[:, 0, 0])),
            (model.weights_ @ model.components_, exact.fitted),
            (model.frequencies_, exact.frequencies),
        )
        found.append([np.abs(mine - truth).mean() for mine, truth in pairs])
    return np.mean(found, axis=0)


@pytest.mark.parametrize(("gaps", "most"), [(False, 0.015), (True, 0.03)])
def test_moments_of_one_feature_are_those_of_the_posterior(gaps, most):
    """On average; entries are of size one."""
    assert errors_of_one_feature(gaps=gaps).max() < most


def test_smaller_powers_are_further_from_the_posterior():
    errors = [errors_of_one_feature(power).mean() for power in (1.0, 0.5, 0.05)]
    assert errors[0] < errors[1] < errors[2] < 0.03


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_expected_data_of_two_features_are_near_those_of_the_posterior(power):
    """E[ZA], which is the same whatever the order of the features."""
    found = []
    for X, exact in problems(2):
        model = PowerEPNMF(2, alpha=1.5, power=power, damping=0.3, **SCALES, **CLOSE).fit(X)
        found.append(np.abs(model.weights_ @ model.components_ - exact.fitted).mean())
    assert np.mean(found) < 0.12, found


@pytest.mark.parametrize("power", [1.0, 0.5, 0.1])
def test_it_is_exact_where_all_is_normal(power, rng):
    """Every row surely has the one feature, and its entries are far above zero."""
    X = 8.0 + 0.5 * rng.standard_normal((7, 3))
    settings = {"alpha": 1e6, "sigma_x": 0.5, "sigma_a": 6.0, "damping": 0.0}
    model = PowerEPNMF(1, power=power, **settings, **CLOSE).fit(X)
    precision = 7 / 0.25 + 1 / 36.0
    assert model.weights_ == pytest.approx(1.0, abs=1e-9)
    assert model.components_[0] == pytest.approx(X.sum(axis=0) / 0.25 / precision, rel=1e-5)
    assert model.components_variance_ == pytest.approx(1.0 / precision, rel=1e-5)


@pytest.mark.parametrize("x", [0.7, -0.2])
def test_one_entry_has_the_truncated_moments(x):
    """One entry, its bit sure: the message of the sign makes q's moments those of the truth."""
    settings = {"alpha": 1e9, "sigma_x": 0.5, "sigma_a": 1.0, "damping": 0.0}
    model = PowerEPNMF(1, power=1.0, **settings, **CLOSE).fit([[x]])
    v = 1.0 / (1.0 + 4.0)
    mu, s = 4.0 * x * v, np.sqrt(v)
    law = stats.truncnorm(-mu / s, np.inf, loc=mu, scale=s)
    assert model.components_[0, 0] == pytest.approx(law.mean(), rel=1e-5)
    assert model.components_variance_[0, 0] == pytest.approx(law.var(), rel=1e-5)


# ---- power one is expectation propagation -------------------------------------------------------
def by_quadrature(x, m, v, p, noise):
    """P(z = 1), mean and variance of a under N(a; m, v) p^z (1 − p)^{1−z} N(x; z a, noise)."""

    def moment(power):
        def f(a):
            return (
                a**power * stats.norm.pdf(a, m, np.sqrt(v)) * stats.norm.pdf(x, a, np.sqrt(noise))
            )

        return integrate.quad(f, m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), epsabs=1e-13)[0]

    off = (1.0 - p) * stats.norm.pdf(x, 0.0, np.sqrt(noise))
    on = [p * moment(power) for power in range(3)]
    total = off + on[0]
    first = (off * m + on[1]) / total
    return on[0] / total, first, (off * (v + m * m) + on[2]) / total - first**2


def distance_of_a_message(x, power):
    """Of q after one update of one entry from its cavity, other messages there being some already:
    what q \\ f̃^η and f^η have for moments, and the message brought to the power 1/η."""
    from thali.kernels.power_ep import pass_rows

    P, H, L = np.array([[1.7]]), np.array([[1.1]]), np.array([[0.6]])
    tau, eta, odds = (np.full((1, 1, 1), value) for value in (0.3, 0.4, 0.2))
    precision = 1.7 - 0.3 * power
    v, u = 1.0 / precision, 0.6 - 0.2 * power
    m = (1.1 - 0.4 * power) * v
    on, first, second = by_quadrature(x, m, v, expit(u), 0.25 / power)
    rows = (L, tau, eta, odds, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    counts = np.zeros(1), np.zeros(1)  # no cavity: the bit's prior says nothing
    pass_rows(np.array([[x]]), (P, H, *counts), rows, 1e-9, 0.25, power, 1.0, False)
    wanted = (
        (1.0 / second - precision) / power,
        (first / second - m * precision) / power,
        (logit(on) - u) / power,
    )
    found = tau[0, 0, 0], eta[0, 0, 0], odds[0, 0, 0]
    q = P[0, 0] - 1.4 - tau[0, 0, 0], H[0, 0] - 0.7 - eta[0, 0, 0], L[0, 0] - 0.4 - odds[0, 0, 0]
    return float(np.abs([*np.subtract(found, wanted), *q]).max())


@pytest.mark.parametrize("power", [1.0, 0.6])
@pytest.mark.parametrize("x", [1.3, 0.2, -0.5])
def test_a_message_is_that_of_the_tilted_distribution(x, power):
    """With power one that is plain expectation propagation."""
    assert distance_of_a_message(x, power) < 1e-7


def test_as_the_power_falls_a_message_becomes_that_of_mean_field_inference():
    """E[log N(x; z a, σ²)] under q: of z (x E[a] − E[a²]/2)/σ², of a precision P(z = 1)/σ²."""
    from thali.kernels.power_ep import pass_rows

    P, H, L = np.array([[2.0]]), np.array([[1.6]]), np.array([[0.3]])
    m, v, r = 0.8, 0.5, expit(0.3)
    none = [np.zeros((1, 1, 1)) for _ in range(3)]
    rows = (L, *none, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    counts = np.zeros(1), np.zeros(1)
    pass_rows(np.array([[1.1]]), (P, H, *counts), rows, 1e-9, 0.25, 1e-5, 1.0, False)
    assert none[2][0, 0, 0] == pytest.approx((1.1 * m - 0.5 * (m * m + v)) / 0.25, rel=1e-3)
    slope = v * r * (1.1 - m) / 0.25  # of the mean of a by the power
    assert (H[0, 0] - m * P[0, 0]) * v == pytest.approx(slope, rel=1e-3)


def distance_of_a_frequency(sure=0.3):
    """Of mean and variance of π from those of (1−r) Beta(b, c+1) + r Beta(b+1, c), and of r."""
    from thali.kernels.power_ep import pass_rows

    L, odds = np.array([[sure + 0.1]]), np.array([[0.1]])
    b, c, of_b, of_c = (np.array(each) for each in ([2.3], [1.9], [[0.3]], [[0.6]]))
    rows = (L, *(np.zeros((1, 1, 1)) for _ in range(3)), odds, of_b, of_c)
    P, H, X = np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), np.nan)
    pass_rows(X, (P, H, b, c), rows, 1e-9, 1.0, 1.0, 1.0, False)
    r = expit(np.log(2.0 / 1.3) + sure)
    one, other = stats.beta(3.0, 1.3), stats.beta(2.0, 2.3)
    first = r * one.mean() + (1.0 - r) * other.mean()
    second = r * (one.var() + one.mean() ** 2) + (1.0 - r) * (other.var() + other.mean() ** 2)
    law = stats.beta(b[0], c[0])
    apart = law.mean() - first, law.var() - (second - first**2), expit(L[0, 0]) - r
    kept = b[0] - of_b[0, 0] - 2.0, c[0] - of_c[0, 0] - 1.3
    return float(np.abs([*apart, *kept]).max())


@pytest.mark.parametrize("sure", [0.3, -2.0, 40.0])
def test_the_message_of_a_frequency_keeps_mean_and_variance(sure):
    assert distance_of_a_frequency(sure) < 1e-12


def test_q_is_the_product_of_its_messages_however_sure_it_is(rng):
    """Log odds of thousands too."""
    from thali.kernels.power_ep import pass_rows

    Z, A = rng.random((6, 2)) < 0.5, 20.0 * np.abs(rng.standard_normal((2, 40)))
    Z[0], Z[1], Z[2] = (True, False), (False, True), (False, False)
    X = Z @ A + 0.5 * rng.standard_normal((6, 40))
    q = Globals.prior(40, 2, 1.5, 20.0)
    rows = Rows.empty(6, 40, 2, q)
    q.H[:] = A.T / 20.0**2
    P, H = q.P.copy(), q.H.copy()
    for _ in range(8):
        pass_rows(X, q[:4], tuple(rows), q.least, 0.25, 0.5, 1.0, False)
    assert np.abs(rows.L).max() > 5000.0
    assert np.array_equal(rows.L > 0.0, Z)
    assert rows.L == pytest.approx(rows.prior_odds + rows.odds.sum(axis=1), rel=1e-9)
    assert q.P == pytest.approx(P + rows.tau.sum(axis=0), rel=1e-9)
    assert q.H == pytest.approx(H + rows.eta.sum(axis=0), rel=1e-9)
    assert q.b == pytest.approx(0.75 + rows.of_b.sum(axis=0), rel=1e-9)
    assert q.c == pytest.approx(1.0 + rows.of_c.sum(axis=0), rel=1e-9)


# ---- fits ---------------------------------------------------------------------------------------
def test_damped_or_not_it_ends_at_the_same_place(rng):
    X = drawn(rng, 8, 5, 1)
    models = [
        PowerEPNMF(1, damping=damping, **SCALES, **CLOSE).fit(X) for damping in (0.0, 0.3, 0.8)
    ]
    for model in models:
        assert model.converged_
        assert model.history_[-1] <= 1e-6
        assert model.components_ == pytest.approx(models[0].components_, abs=1e-4)
        assert model.weights_ == pytest.approx(models[0].weights_, abs=1e-4)
    assert models[0].n_iter_ < models[2].n_iter_


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_features_of_pictures_are_found(power):
    """The best of a few beginnings by the density of what was seen."""
    data = thali.datasets.images(n=120, random_state=0)
    fits = [PowerEPNMF(6, power=power, random_state=seed).fit(data.X) for seed in range(4)]
    model = min(fits, key=lambda fit: np.square(data.X - fit.weights_ @ fit.components_).sum())
    Z = model.weights_ > 0.5
    assert model.n_active_ == Z.any(axis=0).sum()
    assert 4 <= model.n_active_ <= 6
    assert match_assignments(data.Z, Z[:, Z.any(axis=0)]).distance <= 0.1 * data.Z.size
    error = model.weights_ @ model.components_ - data.Z @ data.A
    assert np.sqrt(np.mean(error**2)) < 0.2
    assert (model.components_ > 0.0).all()
    again = model.transform(data.X)
    assert np.mean((again > 0.5) == Z) > 0.95


@pytest.mark.slow
def test_messages_of_many_features_need_damping():
    """Without it they swing: what was seen is fitted worse after some passes than after the first.

    The default ends nearer to what was planted than it began.
    """
    data = thali.datasets.noisy_nonnegative(300, 300, 20, random_state=0)

    def error(**settings):
        model = PowerEPNMF(20, random_state=1, **settings).fit(data.X)
        return np.sqrt(np.mean((model.weights_ @ model.components_ - data.Z @ data.A) ** 2))

    first, last = error(max_iter=1), error(max_iter=12)
    assert last < 0.95 * first
    assert error(max_iter=12, damping=0.0, power=1.0) > 1.2 * last


def test_missing_entries_are_predicted():
    data = thali.datasets.images(n=120, random_state=1)
    hidden = np.random.default_rng(0).random(data.X.shape) < 0.1
    X = np.where(hidden, np.nan, data.X)
    model = PowerEPNMF(6, max_iter=60, random_state=0).fit(X)
    truth = (data.Z @ data.A)[hidden]
    found = model.inverse_transform(model.weights_)[hidden]
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.6 * np.sqrt(
        np.mean((truth.mean() - truth) ** 2)
    )


MUTANTS = {
    "no cavity": ("precision = P[i] - power * tau[i]", "precision = P[i]"),
    "bits without a cavity": ("u = L[i] - power * odds[i]", "u = L[i]"),
    "messages of the power for those of the factor": (
        "(1.0 / var - 1.0 / v) / power - tau[i]", "(1.0 / var - 1.0 / v) - tau[i]",
    ),
    "features that are as sure as if each row had them": (
        "var = v + r * (v1 - v) + r * (1.0 - r) * (m1 - m) * (m1 - m)", "var = v1",
    ),
    "no signs": ("average, var = mean(m, s), variance(m, s)", "average, var = m, s * s"),
    "frequencies of sure bits": ("inside + r * (1.0 - r)", "inside"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(m, marks=pytest.mark.slow if i > 1 else ()) for i, m in enumerate(MUTANTS)],
)
def test_a_mutant_is_caught(name, monkeypatch):
    install(monkeypatch, "thali.kernels.power_ep", [MUTANTS[name]])
    far = distance_of_a_message(0.7, 0.6) > 1e-7 or distance_of_a_frequency() > 1e-12
    assert far or errors_of_one_feature(power=1.0).max() > 0.015


def test_it_is_an_estimator():
    model = PowerEPNMF(2, alpha=2.0, power=0.3)
    assert clone(model).get_params() == model.get_params()
    X = np.zeros((5, 3))
    assert np.isfinite(model.fit(X).components_).all()
    assert model.get_feature_names_out().tolist() == ["powerepnmf0", "powerepnmf1"]
    assert model.__sklearn_tags__().input_tags.allow_nan
    one, same = (PowerEPNMF(3, random_state=4).fit(np.eye(6)) for _ in range(2))
    assert np.array_equal(one.components_, same.components_)


def test_bad_settings_are_refused_in_words():
    X = np.eye(4)
    for settings, words in (
        ({"n_components": 0}, "PowerEPNMF: n_components must be at least 1, not 0"),
        ({"power": 1.5}, "PowerEPNMF: power must be at most 1, not 1.5"),
        ({"damping": 1.0}, "PowerEPNMF: damping must be less than 1, not 1.0"),
        ({"sigma_x": -1.0}, "PowerEPNMF: sigma_x must be positive"),
        ({"alpha": 0.0}, "PowerEPNMF: alpha must be positive"),
        ({"max_iter": 0}, "PowerEPNMF: max_iter must be at least 1"),
    ):
        with pytest.raises(ValueError, match=words):
            PowerEPNMF(**settings).fit(X)
    model = PowerEPNMF(2, max_iter=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"W must be a matrix \(rows x 2 features\)"):
        model.inverse_transform(np.ones((2, 3)))
    with pytest.raises(ValueError, match="whose squares overflow"):
        PowerEPNMF(2).fit(1e200 * X)
    with pytest.raises(MemoryError, match="PowerEPNMF keeps three numbers"):
        PowerEPNMF(10**13).fit(X)
