"""The sampler against full enumeration of left-ordered classes, through the public door.

N = 2, 3, 4 rows; the three priors; α = 0.5, 1, 3 and α ~ Gamma(1, 1).  Compared: P(K|X), every
entry of E[ZZ'|X] and E[α|X]; with the σ's inferred also E[log σ_x|X], E[log σ_a|X].

The enumeration stops at K ≤ cap, and so does the comparison: every statistic is a mean *given
K ≤ cap*, which is known exactly, so nothing left out can disturb it.  For f with known
e = E[f | X, K ≤ cap], the series 1{K ≤ cap}(f − e) has mean zero, and that is what is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from oracles import features as oracles
from oracles.features import PriorSpec
from statistical.budget import TESTS, judge, p_value_of_mean, pooled
from statistical.stories import kept_matrices, library_prior

import thali

CAPS = {2: 20, 3: 10, 4: 7}
SIGMA_X, SIGMA_A = 0.6, 0.9
LAW_X, LAW_A = (4.0, 1.5), (4.0, 3.0)  # σ² ~ InverseGamma(shape, scale), where they are inferred
ALPHAS = {"α=0.5": 0.5, "α=1": 1.0, "α=3": 3.0, "α~Gamma": (1.0, 1.0)}
# small on purpose: rare and frequent K, shared and single dishes must all have some probability
DATA = {
    2: [[1.4, -0.6, 0.1, 0.9], [1.5, 0.4, -0.8, 0.3]],  # D > N: the data shrink to N columns
    3: [[1.1, -0.9, 0.4], [1.6, 0.5, -0.3], [-0.4, 1.2, 0.7]],
    4: [[0.9, -0.7], [1.1, 0.6], [-0.5, 0.9], [0.3, -1.1]],  # N > D
}


@dataclass(frozen=True)
class Case:
    n: int
    prior: PriorSpec
    infer_sigmas: bool = False
    sigma_step: str = "slice"
    scale: float = 1.0  # of the data and of the laws of σ

    @property
    def X(self):
        return self.scale * np.array(DATA[self.n])

    @property
    def laws(self):
        return [(shape, scale * self.scale**2) for shape, scale in (LAW_X, LAW_A)]

    @property
    def cap(self):
        return self.prior.n_components or CAPS[self.n]


def specs(alpha):
    return {
        "ibp": PriorSpec("ibp", alpha),
        "two_parameter": PriorSpec("two_parameter", alpha, beta=2.5 if alpha == 1.0 else 0.4),
        "finite": PriorSpec("finite", alpha, n_components=3),
    }


CASES = {
    f"N={n} {kind} {label}": Case(n, spec)
    for n in DATA
    for label, alpha in ALPHAS.items()
    for kind, spec in specs(alpha).items()
}
# a third of them, in which every two of N, prior and α meet
QUICK = {
    f"N={n} {kind} {label}"
    for i, n in enumerate(DATA)
    for j, (label, alpha) in enumerate(ALPHAS.items())
    for k, kind in enumerate(specs(alpha))
    if (i + j + k) % 3 == 2
}
CASES |= {
    f"N={n} {kind} σ inferred": Case(n, specs((1.0, 1.0))[kind], infer_sigmas=True)
    for n in (2, 3)
    for kind in ("ibp", "two_parameter", "finite")
}
# steps of ±0.05 go a long way when everything is this small
CASES["N=2 ibp σ by metropolis"] = Case(2, PriorSpec("ibp", (1.0, 1.0)), True, "metropolis", 0.07)
QUICK |= {name for name, case in CASES.items() if case.infer_sigmas}
QUICK.add("N=4 ibp α=1")  # which a mutant must not pass


def library_likelihood(case):
    if case.infer_sigmas:
        return thali.LinearGaussian(*(thali.InverseGamma(*law) for law in case.laws))
    return thali.LinearGaussian(sigma_x=SIGMA_X, sigma_a=SIGMA_A)


@cache
def exact_answer(case):
    if case.infer_sigmas:
        return oracles.enumerate_posterior_with_sigmas(
            case.prior, case.X, *case.laws, min(case.cap, 12 if case.n == 2 else 6), points=32
        )
    return oracles.enumerate_posterior(case.prior, case.X, SIGMA_X, SIGMA_A, case.cap)


def sampled(case, seed, sweeps, chains=2, prior=None, engine=None):
    """Series of every compared quantity, (chains, draws), by fitting the public estimator."""
    return walked(case, seed, sweeps, chains, prior, engine)[1:]


def walked(case, seed, sweeps, chains=2, prior=None, engine=None):
    """The fitted estimator, and the series of every compared quantity."""
    engine = engine or thali.CollapsedGibbs(sigma_step=case.sigma_step, moves=0)
    engine = engine.replace(
        sweeps=sweeps + 200,
        burn_in=200,
        chains=chains,
        init="prior" if case.n % 2 else "empty",
    )
    model = thali.LatentFeatures(
        library_prior(case.prior) if prior is None else prior,
        library_likelihood(case),
        engine,
        random_state=seed,
        progress=False,
    ).fit(case.X)
    kept = {name: values[:, 200:] for name, values in model.history_.items()}
    matrices = [Z.astype(float) for Z in kept_matrices(model)]
    gram = np.array([Z @ Z.T for Z in matrices]).reshape(chains, sweeps, case.n, case.n)
    K = np.array([Z.shape[1] for Z in matrices]).reshape(chains, sweeps)
    assert np.array_equal(K, kept["n_components"])  # draws and history tell one story
    assert all(np.array_equal(d.Z, Z) for d, Z in zip(model.draws(), matrices[:20], strict=False))
    return model, kept, gram


def p_values(case, kept, gram):
    """One p-value for each cell of K, each entry of E[ZZ'], E[α], and E[log σ]."""
    exact = exact_answer(case)
    cap = len(exact.k_probabilities) - 1
    K = kept["n_components"]
    within = cap >= K

    def compare(values, truth):
        return p_value_of_mean(within * (values - truth), 0.0)

    found = {}
    for cell in pooled(exact.k_probabilities):
        probability = exact.k_probabilities[cell].sum()
        found[f"P(K in {cell})"] = compare(np.isin(K, cell), probability)
    found["E[K]"] = compare(K, exact.k_probabilities @ np.arange(cap + 1))
    for i in range(case.n):
        for j in range(i, case.n):
            found[f"E[ZZ']_{i}{j}"] = compare(gram[:, :, i, j], exact.gram[i, j])
    if isinstance(case.prior.alpha, tuple):
        found["E[α]"] = compare(kept["alpha"], exact.alpha)
    else:
        assert (kept["alpha"] == case.prior.alpha).all()
    if case.infer_sigmas:
        found["E[log σ_x]"] = compare(np.log(kept["sigma_x"]), exact.log_sigma_x)
        found["E[log σ_a]"] = compare(np.log(kept["sigma_a"]), exact.log_sigma_a)
    return found


def check(case, seed, sweeps, prior=None, engine=None):
    return p_values(case, *sampled(case, seed, sweeps, prior=prior, engine=engine))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_sampler_agrees_with_enumeration(name, seed):
    judge("enumeration", check(CASES[name], seed, sweeps=2000))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration_closely(name, seed):
    judge("enumeration", check(CASES[name], seed, sweeps=20_000))


@pytest.mark.parametrize("name", CASES)
def test_what_the_enumeration_leaves_out_is_little(name):
    """The compared part K ≤ cap is nearly all of the posterior, but for four rows at α = 3."""
    exact = exact_answer(CASES[name])
    assert exact.k_probabilities.sum() == pytest.approx(1.0, abs=1e-9)
    if CASES[name].prior.kind == "finite":
        assert exact.left_out == 0.0
    else:
        assert exact.k_probabilities[-1] < (0.15 if CASES[name].n == 4 else 0.02)


def test_the_budget_counts_these_tests():
    assert TESTS["enumeration"] == 2 * len(CASES)
