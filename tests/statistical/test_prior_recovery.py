"""A flat likelihood gives back the prior: the sampler's law of [Z] against closed forms, N = 8.

With σ_x a thousand times the data and σ_a a thousandth of it, one feature changes log P(X|Z) by
less than N·D·(σ_a/σ_x)²: 10⁻¹⁰, so that Z follows its prior:

    K ~ Poisson(α Σ_i β/(β+i−1)),  or Binomial(K_max, 1 − p_0) for the finite prior
    E[number of dishes that i rows have] = α β C(N, i) B(i, N−i+β),  or K_max C(N, i) p_i
    truncated: K ~ Poisson(α H_N) given K ≤ K_max,  and E[K]/(i H_N)
    α ~ its own law
"""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from oracles import features as oracles
from oracles.features import PriorSpec
from scipy import stats
from scipy.special import gammaln, logsumexp
from statistical.budget import TESTS, judge, p_value_of_mean, pooled
from statistical.stories import kept_matrices, library_prior

import thali

N, D = 8, 3
CASES = {
    "ibp α=0.5": PriorSpec("ibp", 0.5),
    "ibp α=3": PriorSpec("ibp", 3.0),
    "ibp α~Gamma": PriorSpec("ibp", (2.0, 1.5)),
    "two_parameter β=0.4 α=3": PriorSpec("two_parameter", 3.0, beta=0.4),
    "two_parameter β=2.5 α=1": PriorSpec("two_parameter", 1.0, beta=2.5),
    "two_parameter β=2.5 α~Gamma": PriorSpec("two_parameter", (2.0, 1.5), beta=2.5),
    "finite α=0.5": PriorSpec("finite", 0.5, n_components=4),
    "finite α=3": PriorSpec("finite", 3.0, n_components=6),
    "finite α~Gamma": PriorSpec("finite", (2.0, 1.5), n_components=4),
    "truncated α~Gamma": PriorSpec("truncated", (2.0, 1.0), n_components=3),
}


def log_p_column(m, a):
    """log p_m of the finite prior with a = α/K_max."""
    return np.log(a) + gammaln(m + a) + gammaln(N - m + 1) - gammaln(N + 1 + a)


def over_alpha(spec, f):
    """E[f(α)] under the law of α; f gives a vector."""
    if not isinstance(spec.alpha, tuple):
        return f(spec.alpha)
    nodes, log_weights = oracles.gamma_nodes(*spec.alpha)
    log_weights = log_weights - logsumexp(log_weights)
    return sum(np.exp(w) * f(a) for a, w in zip(nodes, log_weights, strict=True))


def law_of_k(spec):
    k = np.arange(80)
    if spec.kind == "truncated":
        return over_alpha(spec, lambda a: truncated_poisson(a, spec.n_components, k))
    if spec.kind != "finite":
        return np.exp(spec.log_k_prior(N, k))
    most = spec.n_components
    return over_alpha(
        spec, lambda a: stats.binom.pmf(k, most, 1 - np.exp(log_p_column(0, a / most)))
    )


def truncated_poisson(alpha, most, k):
    mean = alpha * oracles.harmonic(N)
    return stats.poisson.pmf(k, mean) / stats.poisson.cdf(most, mean) * (k <= most)


def dishes_by_takers(spec):
    """E[#{k: m_k = i}] for i = 1 … N."""
    i = np.arange(1, N + 1)
    if spec.kind == "truncated":
        k = np.arange(spec.n_components + 1)
        return law_of_k(spec)[k] @ k / (i * oracles.harmonic(N))
    ways = np.array([comb(N, int(v)) for v in i])
    if spec.kind == "finite":
        most = spec.n_components
        return over_alpha(spec, lambda a: most * ways * np.exp(log_p_column(i, a / most)))
    beta = spec.beta
    log_w = np.log(beta) + gammaln(i) + gammaln(N - i + beta) - gammaln(N + beta)
    return over_alpha(spec, lambda a: a * ways * np.exp(log_w))


def walk(spec, seed, sweeps, chains=2, engine=None):
    """K, the counts of dishes by takers, and α along the chains, from the public estimator."""
    X = np.random.default_rng(0).normal(size=(N, D))
    model = thali.LatentFeatures(
        library_prior(spec),
        thali.LinearGaussian(sigma_x=1e3, sigma_a=1e-3),
        (engine or thali.CollapsedGibbs(moves=0)).replace(
            sweeps=sweeps, burn_in=0, chains=chains, init="prior"
        ),
        random_state=seed,
        progress=False,
    ).fit(X)
    takers = np.array(
        [np.bincount(Z.sum(axis=0), minlength=N + 1)[1:] for Z in kept_matrices(model)]
    ).reshape(chains, sweeps, N)
    return model.history_["n_components"], takers, model.history_["alpha"]


def p_values(spec, K, takers, alpha):
    found = {}
    probabilities = law_of_k(spec)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-6)
    found["E[K]"] = p_value_of_mean(K, probabilities @ np.arange(len(probabilities)))
    for cell in pooled(probabilities):
        found[f"P(K in {cell})"] = p_value_of_mean(np.isin(K, cell), probabilities[cell].sum())
    expected = dishes_by_takers(spec)
    for cell in pooled(expected, at_least=0.25):
        name = f"dishes of {[i + 1 for i in cell]}"
        found[name] = p_value_of_mean(takers[:, :, cell].sum(axis=2), expected[cell].sum())
    if isinstance(spec.alpha, tuple):
        shape, rate = spec.alpha
        found["E[α]"] = p_value_of_mean(alpha, shape / rate)
        found["E[log α]"] = p_value_of_mean(
            np.log(alpha), stats.gamma(shape, scale=1 / rate).expect(np.log)
        )
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if i % 3 else ()) for i, n in enumerate(CASES)]
)
def test_a_flat_likelihood_gives_back_the_prior(name, seed):
    spec = CASES[name]
    judge("prior_recovery", p_values(spec, *walk(spec, seed, sweeps=5000)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_flat_likelihood_gives_back_the_prior_closely(name, seed):
    spec = CASES[name]
    judge("prior_recovery", p_values(spec, *walk(spec, seed, sweeps=20_000)))


def test_the_likelihood_is_flat():
    X = np.random.default_rng(0).normal(size=(N, D))
    likelihood = thali.LinearGaussian(sigma_x=1e3, sigma_a=1e-3)
    nothing = likelihood.log_marginal(X, np.zeros((N, 0)))
    everything = likelihood.log_marginal(X, np.ones((N, 50)))
    assert abs(everything - nothing) < 1e-8


@pytest.mark.parametrize("name", CASES)
def test_the_closed_forms_agree_with_each_other(name):
    """E[K] by the law of K and by takers; and both with enumeration's weights."""
    spec = CASES[name]
    probabilities = law_of_k(spec)
    wanted = probabilities @ np.arange(len(probabilities))
    assert dishes_by_takers(spec).sum() == pytest.approx(wanted, rel=1e-5)


def test_the_budget_counts_these_tests():
    assert TESTS["prior_recovery"] == 2 * len(CASES)
