"""The nonnegative linear-Gaussian likelihood beyond the ladder.

More enumeration with A integrated numerically (``nonnegative_oracles``), births and deaths against
the slice step on data of some size, and broken variants that must fail.  Every statistic of
the enumeration is a mean given K ≤ cap, as in ``test_enumeration``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from oracles import nonnegative as nonnegative_oracles
from oracles.features import PriorSpec
from statistical.budget import (
    TESTS,
    alarms,
    judge,
    p_value_of_difference,
    p_value_of_mean,
    pooled,
)
from statistical.mutants import mutate
from statistical.stories import ExponentialStory, NonnegativeStory, library_prior
from statistical.test_ladder import check_joint

import thali
from thali.data import Data
from thali.likelihoods import nonnegative_linear_gaussian
from thali.model import Model
from thali.starts import Start

KERNEL = "thali.kernels.nonnegative_features"
SIGMA_X, SIGMA_A = 0.6, 0.9
DATA = {
    2: [[1.4, 0.5], [1.8, -0.3]],
    3: [[1.1, 0.2], [1.7, 0.9], [-0.3, 0.8]],
}
STEPS = ("integrated", "slice")


@dataclass(frozen=True)
class Case:
    n: int
    prior: PriorSpec
    cap: int = 9
    law: str = "half_normal"

    @property
    def X(self):
        return np.array(DATA[self.n])


CASES = {  # beyond those of the ladder
    "N=2 ibp α=1": Case(2, PriorSpec("ibp", 1.0)),
    "N=2 ibp α=3": Case(2, PriorSpec("ibp", 3.0)),
    "N=3 finite": Case(3, PriorSpec("finite", 3.0, n_components=2), 2),
    "N=3 finite, exponential": Case(3, PriorSpec("finite", 3.0, n_components=2), 2, "exponential"),
}
QUICK = ("N=2 ibp α=3", "N=3 finite")
EXPONENTIAL = Case(2, PriorSpec("ibp", 3.0), 9, "exponential")


@cache
def exact_answer(case):
    entry = getattr(nonnegative_oracles, case.law)
    return nonnegative_oracles.enumerate_posterior(
        case.prior, case.X, SIGMA_X, SIGMA_A, case.cap, entry
    )


def walk(model, X, new_features, seed, sweeps, burn=200):
    """(K, α, ZZ', ZA) of every sweep of one chain, from the engine's own steps."""
    rng = np.random.default_rng(seed)
    data = Data.of(X)
    engine = thali.UncollapsedGibbs(new_features=new_features)
    start = Start("empty", np.zeros((len(X), 0), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    K, alpha, gram, fitted = [], [], [], []
    for i in range(burn + sweeps):
        engine.step(rng, model, data, state)
        if i >= burn:
            Z = state.bits.astype(float)
            K.append(Z.shape[1])
            alpha.append(state.hyper["alpha"])
            gram.append(Z @ Z.T)
            fitted.append(Z @ state.parameters["A"])
    return np.array(K), np.array(alpha), np.array(gram), np.array(fitted)


def check_enumeration(case, new_features, seed, sweeps):
    """One p-value for each cell of K, each entry of E[ZZ'] and of E[ZA], and E[α]."""
    exact = exact_answer(case)
    likelihood = thali.NonnegativeLinearGaussian(SIGMA_X, SIGMA_A, case.law)
    model = Model(library_prior(case.prior), likelihood)
    K, alpha, gram, fitted = walk(model, case.X, new_features, seed, sweeps)
    within = case.cap >= K

    def compare(values, truth):
        return p_value_of_mean(within * (values - truth), 0.0)

    found = {"E[K]": compare(K, exact.k_probabilities @ np.arange(case.cap + 1))}
    for cell in pooled(exact.k_probabilities):
        found[f"P(K in {cell})"] = compare(np.isin(K, cell), exact.k_probabilities[cell].sum())
    for i in range(case.n):
        for j in range(i, case.n):
            found[f"E[ZZ']_{i}{j}"] = compare(gram[:, i, j], exact.gram[i, j])
        for d in range(case.X.shape[1]):
            found[f"E[ZA]_{i}{d}"] = compare(fitted[:, i, d], exact.fitted[i, d])
    if isinstance(case.prior.alpha, tuple):
        found["E[α]"] = compare(alpha, exact.alpha)
    return found


@pytest.mark.parametrize("new_features", STEPS)
@pytest.mark.parametrize("name", QUICK)
def test_sampler_agrees_with_enumeration(name, new_features, seed):
    judge("nonnegative", check_enumeration(CASES[name], new_features, seed, sweeps=2000))


@pytest.mark.slow
@pytest.mark.parametrize("new_features", STEPS)
@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration_closely(name, new_features, seed):
    judge("nonnegative", check_enumeration(CASES[name], new_features, seed, sweeps=15_000))


@pytest.mark.parametrize("name", CASES)
def test_what_the_enumeration_leaves_out_is_little(name):
    exact = exact_answer(CASES[name])
    assert exact.k_probabilities.sum() == pytest.approx(1.0, abs=1e-9)
    if CASES[name].prior.kind != "finite":
        assert exact.k_probabilities[-1] < 0.002


# ---- births and deaths against the slice step, on data of some size ---------------------------
@pytest.mark.slow
def test_births_and_deaths_agree_with_the_slice_step(seed):
    prior, likelihood = thali.IBP(), thali.NonnegativeLinearGaussian(0.5, 1.0)
    X = thali.datasets.draw(thali.IBP(2.0), likelihood, n=12, d=3, random_state=5).X
    walks = [walk(Model(prior, likelihood), X, step, seed, 15_000) for step in STEPS]
    found = {
        "E[K]": p_value_of_difference(walks[0][0], walks[1][0]),
        "E[K²]": p_value_of_difference(walks[0][0] ** 2, walks[1][0] ** 2),
        "E[α]": p_value_of_difference(walks[0][1], walks[1][1]),
        "E[ΣZZ']": p_value_of_difference(*(w[2].sum(axis=(1, 2)) for w in walks)),
        "E[ΣZ]": p_value_of_difference(*(np.trace(w[2], axis1=1, axis2=2) for w in walks)),
        "E[ΣZA]": p_value_of_difference(*(w[3].sum(axis=(1, 2)) for w in walks)),
        "E[ΣZA²]": p_value_of_difference(*((w[3] ** 2).sum(axis=(1, 2)) for w in walks)),
    }
    judge("nonnegative", found)


# ---- broken variants --------------------------------------------------------------------------
MUTANTS = {
    "own features counted in order": (
        "import MOST_NEW, NewFeatures, is_full, log_step, room_left\n",
        """import MOST_NEW, NewFeatures, is_full, room_left
@njit
def log_step(new, theta, j):
    return new.log_weight
""",
    ),
    "half-normals taken for normals in the gain": (
        "    total = e.shape[0] * law.log_each\n",
        "    total = e.shape[0] * (law.log_each + math.log(0.5))\n",
    ),
    "features not cut off": (
        "A[k, i] = sample(rng, left[i] / precision, sigma_x / math.sqrt(precision))",
        "A[k, i] = left[i] / precision + sigma_x / math.sqrt(precision) * rng.standard_normal()",
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(MUTANTS)],
)
def test_enumeration_catches_a_broken_kernel(name, monkeypatch, seed):
    monkeypatch.setitem(sys.modules, KERNEL, mutate(KERNEL, [MUTANTS[name]]))
    assert alarms(check_enumeration(CASES["N=2 ibp α=3"], "integrated", seed, sweeps=2500))


RATES = {  # of exponential entries: where, and what is wrong
    "the rate forgotten": (
        KERNEL, "out[i] = T[k, i] - pull", "out[i] = T[k, i]",
    ),
    "the rate doubled": (
        KERNEL, "out[i] = T[k, i] - pull", "out[i] = T[k, i] - 2.0 * pull",
    ),
    "a gain of a rate forgotten": (
        KERNEL, "total += log_lifted_ndtr(law.slope * (e[i] - law.pull))",
        "total += log_lifted_ndtr(law.slope * e[i])",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(RATES)],
)
def test_enumeration_catches_a_broken_rate(name, monkeypatch, seed):
    module, old, new = RATES[name]
    monkeypatch.setitem(sys.modules, KERNEL, mutate(module, [(old, new)]))
    assert alarms(check_enumeration(EXPONENTIAL, "integrated", seed, sweeps=6000))


@pytest.mark.slow
def test_geweke_catches_an_exponential_scale_of_twice_the_sum(monkeypatch, seed):
    right = nonnegative_linear_gaussian.scale_given_sum
    monkeypatch.setattr(
        nonnegative_linear_gaussian,
        "scale_given_sum",
        lambda rng, law, value, total, n: right(rng, law, value, 2.0 * total, n),
    )
    assert alarms(
        check_joint(thali.UncollapsedGibbs(), ExponentialStory(), "ibp", seed, size=15_000)
    )


@pytest.mark.slow
def test_geweke_catches_scales_from_the_wrong_number_of_squares(monkeypatch, seed):
    right = nonnegative_linear_gaussian.scale_given_squares
    monkeypatch.setattr(
        nonnegative_linear_gaussian,
        "scale_given_squares",
        lambda rng, law, value, squares, n: right(rng, law, value, squares, n // 2),
    )
    engine = thali.UncollapsedGibbs()
    assert alarms(check_joint(engine, NonnegativeStory(), "ibp", seed, size=6000))


def test_the_budget_counts_these_tests():
    quick = len(QUICK) * len(STEPS) + 2  # the last two in test_nonnegative_linear_gaussian
    assert TESTS["nonnegative"] == quick + len(STEPS) * len(CASES) + 1
