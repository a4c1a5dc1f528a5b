"""Geweke's joint test (2004): two ways to draw (Z, α, σ_x, σ_a, X) from prior × likelihood.

    marginal-conditional    α, σ from their laws, Z from the prior, X from the likelihood
    successive-conditional  one step of the engine given X, then X afresh given Z and the σ's

If the engine's step leaves the posterior invariant, every function of the five has the same mean in
both.  The first simulator is written from the stories in ``oracles``; it shares no line with the
library.  All hyperparameters are inferred, under laws light enough for the means to be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from oracles import features as oracles
from statistical.budget import TESTS, judge, p_value_of_difference

import thali
from thali.data import Data
from thali.model import Model
from thali.starts import Start

ALPHA = (2.0, 2.0)  # Gamma(shape, rate)
DRAWS = 4000  # enough for every mutant of ``test_mutants`` but one, which is slow


@dataclass(frozen=True)
class Case:
    prior: oracles.PriorSpec
    n: int
    d: int
    sigma_step: str = "slice"
    moves: int = 0
    sigma_x: tuple[float, float] = (4.0, 3.0)  # σ_x² ~ InverseGamma(shape, scale)
    sigma_a: tuple[float, float] = (4.0, 6.0)

    def library_prior(self):
        law = thali.Gamma(*ALPHA)
        if self.prior.kind == "finite":
            return thali.BetaBernoulli(alpha=law, n_components=self.prior.n_components)
        if self.prior.kind == "two_parameter":
            return thali.TwoParameterIBP(alpha=law, beta=self.prior.beta)
        return thali.IBP(alpha=law)


CASES = {
    "ibp": Case(oracles.PriorSpec("ibp", ALPHA), n=4, d=2),
    "two_parameter": Case(oracles.PriorSpec("two_parameter", ALPHA, beta=2.5), n=3, d=2),
    "finite": Case(oracles.PriorSpec("finite", ALPHA, n_components=3), n=4, d=2),
    "ibp with moves": Case(oracles.PriorSpec("ibp", ALPHA), n=3, d=2, moves=5),
    # D > N, and scales so small that steps of ±0.05 carry the chain through them quickly
    "wide_metropolis": Case(
        oracles.PriorSpec("ibp", ALPHA), 2, 3, "metropolis", 0, (4.0, 0.008), (4.0, 0.012)
    ),
}
QUICK = ("ibp", "ibp with moves")


def statistics(Z, alpha, sigma_x, sigma_a, X):
    """Functions of one joint draw, of the features only through their class."""
    Z = np.asarray(Z, dtype=np.float64)
    K = Z.any(axis=0).sum() if Z.size else 0.0
    gram = Z @ Z.T
    return {
        "K": K,
        "K²": K**2,
        "ΣZ": np.trace(gram),
        "shared": gram.sum() - np.trace(gram),
        "α": alpha,
        "α²": alpha**2,
        "αK": alpha * K,
        "log σ_x": np.log(sigma_x),
        "log σ_a": np.log(sigma_a),
        "log² σ_x": np.log(sigma_x) ** 2,
        "log² σ_a": np.log(sigma_a) ** 2,
        "K log σ_x": K * np.log(sigma_x),
        "log mean X²": np.log(np.mean(X**2)),
        "K log mean X²": K * np.log(np.mean(X**2)),
    }


def collect(draws):
    draws = list(draws)
    return {name: np.array([d[name] for d in draws]) for name in draws[0]}


def simulate_prior(rng, spec, n):
    alpha = rng.gamma(ALPHA[0]) / ALPHA[1]
    if spec.kind == "finite":
        return alpha, oracles.simulate_finite(rng, n, alpha, spec.n_components)
    return alpha, oracles.simulate_buffet(rng, n, alpha, spec.beta)


def simulate_data(rng, Z, sigma_x, sigma_a, d):
    A = sigma_a * rng.normal(size=(Z.shape[1], d))
    return Z @ A + sigma_x * rng.normal(size=(Z.shape[0], d))


def simulate_sigma(rng, law):
    return np.sqrt(law[1] / rng.gamma(law[0]))


def marginal_conditional(rng, case, draws):
    """Independent joint draws, forward from the laws."""
    for _ in range(draws):
        alpha, Z = simulate_prior(rng, case.prior, case.n)
        sigma_x, sigma_a = simulate_sigma(rng, case.sigma_x), simulate_sigma(rng, case.sigma_a)
        X = simulate_data(rng, Z, sigma_x, sigma_a, case.d)
        yield statistics(Z, alpha, sigma_x, sigma_a, X)


def successive_conditional(rng, case, draws, prior=None, engine=None):
    """A chain: the engine's step given X, then X given the engine's state."""
    prior = case.library_prior() if prior is None else prior
    model = Model(
        prior,
        thali.LinearGaussian(thali.InverseGamma(*case.sigma_x), thali.InverseGamma(*case.sigma_a)),
    )
    engine = engine or thali.CollapsedGibbs(sigma_step=case.sigma_step, moves=case.moves)
    alpha, Z = simulate_prior(rng, case.prior, case.n)
    hyper = {
        **prior.start(),
        "alpha": alpha,
        "sigma_x": simulate_sigma(rng, case.sigma_x),
        "sigma_a": simulate_sigma(rng, case.sigma_a),
    }
    for _ in range(draws):
        X = simulate_data(rng, Z, hyper["sigma_x"], hyper["sigma_a"], case.d)
        data = Data.of(X)
        state = engine.begin(rng, model, data, Start("joint", Z.astype(bool), hyper))
        engine.step(rng, model, data, state)
        Z, hyper = state.latent, dict(state.hyper)
        yield statistics(Z, hyper["alpha"], hyper["sigma_x"], hyper["sigma_a"], X)


def geweke_p_values(seed, case, draws, prior=None, engine=None):
    """P-values that the two simulators agree, one for each statistic."""
    forward_rng, chain_rng = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)
    )
    forward = collect(marginal_conditional(forward_rng, case, draws))
    chain = collect(successive_conditional(chain_rng, case, draws, prior, engine))
    return {name: p_value_of_difference(forward[name], chain[name]) for name in forward}


@pytest.mark.parametrize(
    "name", [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow) for c in CASES]
)
def test_engine_and_forward_simulation_agree(name, seed):
    judge("geweke", geweke_p_values(seed, CASES[name], DRAWS))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_engine_and_forward_simulation_agree_closely(name, seed):
    judge("geweke", geweke_p_values(seed, CASES[name], draws=100_000))


def test_the_budget_counts_these_tests():
    assert TESTS["geweke"] == 2 * len(CASES)
