"""The evidence by annealed importance sampling, against sums over all left-ordered classes.

Exact for every likelihood but sparse factors, whose P(X) is the mean over many draws of Z and S
from the prior, A integrated out. Errors are as stated, runs being independent, so that a p-value is
Student's. Weights or steps at the wrong temperature are caught.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles import features as oracles
from oracles import nonnegative as nonnegative_oracles
from oracles import sparse as sparse_oracle
from scipy import stats
from scipy.special import logsumexp
from statistical.budget import TESTS, alarms, judge
from statistical.test_flexible_ibp import Told

import thali
from thali.data import Data
from thali.evaluation import log_bayes_factor
from thali.hyperparameters import Beta, Gamma, InverseGamma
from thali.model import Model
from thali.run import evidence as module
from thali.run.evidence import Annealed, evidence

SIGMA_X, SIGMA_A, ALPHA = 0.6, 0.9, 1.2
RATES = {"epsilon": 0.1, "lam": 0.7, "p": 0.35}
TWO = np.array([[1.4, 0.5], [1.8, -0.3]])
THREE = np.array([[1.1, -0.9, 0.4], [1.6, 0.5, -0.3], [-0.4, 1.2, 0.7]])
GAPS = np.array([[1.1, np.nan, 0.4], [1.6, 0.5, np.nan], [-0.4, 1.2, np.nan]])
NODES = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 1, 1]])
POTENTIALS = {2: (-0.3, 0.4), 3: (-0.6, -1.4, 0.5)}
GAUSSIAN = thali.LinearGaussian(SIGMA_X, SIGMA_A)
IBP = oracles.PriorSpec("ibp", ALPHA)
RUNS, STEPS = 48, 60


def flexible(n):
    return thali.FlexibleIBP(POTENTIALS[n])


def log_flexible(counts, n):
    """log P([Z]) from the definition: Poisson(e^λ) columns of each history."""
    of_history = np.array(POTENTIALS[n])[oracles.histories(n).sum(axis=1).astype(int) - 1]
    return Told(theta=(0.0,), potentials=POTENTIALS[n]).log_classes(counts, n)[0] - float(
        np.exp(of_history).sum()
    )


def linear_gaussian(X, spec=IBP, cap=9):
    return oracles.enumerate_posterior(spec, X, SIGMA_X, SIGMA_A, cap).log_evidence


def linear_gaussian_flexible():
    counts, s = oracles.classes(3, 9), oracles.spectrum_of(THREE, 9)
    return logsumexp(log_flexible(counts, 3) + s.log_likelihood(SIGMA_X, SIGMA_A)[s.of_class])


def inferred():
    spec = oracles.PriorSpec("ibp", (2.0, 1.5))
    return oracles.enumerate_posterior_with_sigmas(
        spec, THREE, (3.0, 1.0), (3.0, 2.0), 8
    ).log_evidence


def nonnegative():
    logs = nonnegative_oracles.log_likelihoods_of_two_rows(TWO, SIGMA_X, SIGMA_A, 9)
    return logsumexp(logs + oracles.log_prior_ibp(oracles.classes(2, 9), 2, ALPHA))


def sparse(draws=1_000_000):
    rng, G = np.random.default_rng(0), np.zeros((draws, 2, 2))
    weights = ALPHA * np.exp(oracles.log_column_weights(2))
    for h, weight in zip(oracles.histories(2), weights, strict=True):
        count = rng.poisson(weight, size=draws)
        for k in range(count.max()):
            w = np.where((count > k)[:, None], h * rng.laplace(size=(draws, 2)), 0.0)
            G += w[:, :, None] * w[:, None, :]
    return np.log(sparse_oracle.density(TWO, G, SIGMA_X, SIGMA_A).mean())


def noisy_or(log_prior, cap=14):
    counts = oracles.classes(2, cap)
    return logsumexp(log_prior(counts) + oracles.noisy_or_marginal(NODES, counts, **RATES))


def noisy_or_inferred(points=12, cap=14):
    """ε ~ Beta(1, 4) and λ ~ Beta(4, 1), by Gauss–Jacobi."""
    counts = oracles.classes(2, cap)
    logs = []
    for epsilon, of_epsilon in zip(*oracles.beta_nodes((1.0, 4.0), points), strict=True):
        for lam, of_lam in zip(*oracles.beta_nodes((4.0, 1.0), points), strict=True):
            given = oracles.noisy_or_marginal(NODES, counts, epsilon, lam, RATES["p"])
            logs.append(given + np.log(of_epsilon * of_lam))
    return logsumexp(np.array(logs) + oracles.log_prior_ibp(counts, 2, ALPHA))


def unseen(X):
    """The same data beside a column of which nothing was observed: the same evidence."""
    return np.column_stack([X, np.full(len(X), np.nan)])


BUFFET = thali.IBP(ALPHA)
KEPT = thali.NonnegativeLinearGaussian(SIGMA_X, SIGMA_A)
FACTORS = thali.SparseFactor("laplace", SIGMA_X, SIGMA_A)
CAUSES = thali.NoisyOr(**RATES)
SCALES = {"sigma_x": InverseGamma(3.0, 1.0), "sigma_a": InverseGamma(3.0, 2.0)}
CASES = {  # prior, likelihood, data, the answer
    "linear": (BUFFET, GAUSSIAN, THREE, lambda: linear_gaussian(THREE)),
    "two parameters": (
        thali.TwoParameterIBP(ALPHA, 2.0), GAUSSIAN, THREE,
        lambda: linear_gaussian(THREE, oracles.PriorSpec("two_parameter", ALPHA, 2.0)),
    ),
    "finite": (
        thali.BetaBernoulli(ALPHA, n_components=4), GAUSSIAN, THREE,
        lambda: linear_gaussian(THREE, oracles.PriorSpec("finite", ALPHA, n_components=4)),
    ),
    "flexible": (flexible(3), GAUSSIAN, THREE, linear_gaussian_flexible),
    "gaps": (BUFFET, GAUSSIAN, GAPS, lambda: linear_gaussian(GAPS)),
    "inferred": (
        thali.IBP(Gamma(2.0, 1.5)), thali.LinearGaussian(**SCALES), THREE, inferred,
    ),
    "nonnegative": (BUFFET, KEPT, TWO, nonnegative),
    "nonnegative, gaps": (BUFFET, KEPT, unseen(TWO), nonnegative),
    "sparse": (BUFFET, FACTORS, TWO, sparse),
    "sparse, gaps": (BUFFET, FACTORS, unseen(TWO), sparse),
    "noisy or": (
        BUFFET, CAUSES, NODES, lambda: noisy_or(lambda c: oracles.log_prior_ibp(c, 2, ALPHA)),
    ),
    "noisy or, flexible": (
        flexible(2), CAUSES, NODES, lambda: noisy_or(lambda c: log_flexible(c, 2)),
    ),
    "noisy or, gaps": (
        BUFFET, CAUSES, unseen(NODES),
        lambda: noisy_or(lambda c: oracles.log_prior_ibp(c, 2, ALPHA)),
    ),
    "noisy or, inferred": (
        BUFFET, thali.NoisyOr(Beta(1.0, 4.0), Beta(4.0, 1.0), RATES["p"]), NODES,
        noisy_or_inferred,
    ),
}  # fmt: skip


@cache
def exact(name):
    return float(CASES[name][3]())


def p_values(name, seed, steps=STEPS):
    prior, likelihood, X, _ = CASES[name]
    data = Data.of(np.asarray(X, float))
    found = evidence(seed, Model(prior, likelihood), data, n_runs=RUNS, steps=steps, progress=False)
    away = abs(found.estimate - exact(name)) / found.error
    return {"log P(X)": float(2.0 * stats.t.sf(away, RUNS - 1))}


SLOW = ("two parameters", "nonnegative, gaps", "sparse, gaps", "noisy or, gaps")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CASES],
)
def test_the_evidence_is_that_of_a_sum_over_all_classes(name, seed):
    judge("evidence", p_values(name, seed))


def test_the_grid_is_counted():
    assert TESTS["evidence"] == len(CASES)


MUTATED = ["linear", "nonnegative", "sparse", "noisy or"]


@pytest.mark.parametrize("name", MUTATED)
def test_weights_at_the_wrong_temperature_are_caught(name, seed, monkeypatch):
    def annealed(chain, betas):
        for beta in betas[1:]:
            yield beta * chain.log_f(1.0)  # in place of the difference
            if beta != betas[-1]:
                chain.step(beta)

    monkeypatch.setattr(module, "annealed", annealed)
    monkeypatch.setattr(module, "warn", lambda found: None)
    assert alarms(p_values(name, seed))


@pytest.mark.parametrize("name", MUTATED)
def test_steps_at_the_wrong_temperature_are_caught(name, seed, monkeypatch):
    step = Annealed.step
    monkeypatch.setattr(Annealed, "step", lambda chain, beta: step(chain, 1.0))
    monkeypatch.setattr(module, "warn", lambda found: None)
    assert alarms(p_values(name, seed))


# ---- the difference of two evidences from draws of both --------------------------------------


def chains(prior, seed):
    engine = thali.CollapsedGibbs(sweeps=2000, chains=2)
    return thali.LatentFeatures(prior, GAUSSIAN, engine, random_state=seed, progress=False)


def test_bayes_factors_are_differences_of_evidences(seed):
    one, other = (chains(p, seed % 1000).fit(THREE) for p in (BUFFET, flexible(3)))
    found = log_bayes_factor(one, other)
    truth = exact("linear") - exact("flexible")
    assert abs(found.estimate - truth) < 5.0 * found.error
    assert found.error < 0.2
    back = log_bayes_factor(other, one)
    assert abs(found.estimate + back.estimate) < 1e-6


def test_bayes_factors_with_numbers_that_are_inferred(seed):
    """Against Σ_[Z] ∫ P([Z] | α) p(α) dα P(X | Z)."""
    one, other = (chains(thali.IBP(a), seed % 1000).fit(THREE) for a in (Gamma(2.0, 1.5), ALPHA))
    found = log_bayes_factor(one, other)
    truth = linear_gaussian(THREE, oracles.PriorSpec("ibp", (2.0, 1.5))) - exact("linear")
    assert abs(found.estimate - truth) < 0.1
    assert found.error < 0.1


def test_models_whose_draws_have_nothing_in_common_are_not_compared():
    one, other = (chains(thali.IBP(a), 0).fit(THREE) for a in (1e-6, 12.0))
    with pytest.raises(ValueError, match="a prior in between"):
        log_bayes_factor(one, other)


def test_models_that_differ_in_more_than_the_prior_are_not_compared():
    one = chains(BUFFET, 0).fit(THREE)
    with pytest.raises(ValueError, match="different data"):
        log_bayes_factor(one, chains(BUFFET, 0).fit(THREE + 1.0))
    other = thali.LatentFeatures(BUFFET, thali.LinearGaussian(1.0, 1.0), one.engine_).fit(THREE)
    with pytest.raises(ValueError, match="likelihoods differ"):
        log_bayes_factor(one, other)
