"""The noisy-or model beyond the ladder: more enumeration, the laws of own causes, mutants.

Enumeration is over left-ordered classes with Y summed out by inclusion and exclusion
(``oracles.noisy_or_marginal``), and over a grid of the rates where they are inferred.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from oracles.features import PriorSpec
from statistical.budget import (
    TESTS,
    alarms,
    judge,
    p_value_of_counts,
    p_value_of_difference,
    p_value_of_mean,
    pooled,
)
from statistical.mutants import mutate
from statistical.stories import library_prior

import thali
from thali import UncollapsedGibbs
from thali.data import Data
from thali.evaluation import autocorrelation
from thali.model import Model
from thali.starts import Start

KERNEL = "thali.kernels.noisy_or"
NAMES = ("epsilon", "lam", "p")
FIXED = {"epsilon": 0.1, "lam": 0.7, "p": 0.35}
LAWS = {"epsilon": (1.5, 6.0), "lam": (4.0, 1.5), "p": (2.0, 3.0)}  # Beta(a, b)
CAPS = {2: 14, 3: 7}
DATA = {
    2: [[1, 1, 0, 1, 0], [1, 0, 0, 1, 1]],
    3: [[1, 1, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1]],
}


@dataclass(frozen=True)
class Case:
    n: int
    prior: PriorSpec
    inferred: bool = False
    new_features: str = "integrated"

    @property
    def rates(self):
        return LAWS if self.inferred else FIXED

    @property
    def cap(self):
        return self.prior.n_components or CAPS[self.n]

    def model(self, prior=None):
        rates = {k: thali.Beta(*LAWS[k]) if self.inferred else FIXED[k] for k in NAMES}
        return Model(library_prior(self.prior) if prior is None else prior, thali.NoisyOr(**rates))


IBP3, INFERRED = PriorSpec("ibp", 3.0), PriorSpec("ibp", (1.0, 1.0))
FINITE = PriorSpec("finite", 3.0, n_components=3)
CASES = {  # beyond those of the ladder: three rows, and inferred rates
    "N=2 ibp α=3": Case(2, IBP3),
    "N=3 ibp α~Gamma": Case(3, INFERRED),
    "N=2 rates inferred": Case(2, INFERRED, inferred=True),
    "N=3 finite, slice": Case(3, FINITE, new_features="slice"),
    "N=2 rates inferred, slice": Case(2, INFERRED, inferred=True, new_features="slice"),
}


@cache
def exact_answer(n, prior, inferred, cap):
    return oracles.enumerate_noisy_or(prior, np.array(DATA[n]), LAWS if inferred else FIXED, cap)


def walk(seed, model, X, new_features, sweeps, burn_in=100):
    """Every state of one chain after its burn-in: (Z, hyperparameters)."""
    rng, data = np.random.default_rng(seed), Data.of(X)
    engine = thali.UncollapsedGibbs(new_features=new_features)
    nothing = np.zeros((data.n, 0), bool)
    state = engine.begin(rng, model, data, Start("empty", nothing, model.start(data)))
    for i in range(sweeps + burn_in):
        engine.step(rng, model, data, state)
        if i >= burn_in:
            yield state.latent, dict(state.hyper)


def check(case, seed, sweeps, prior=None):
    """P-values of P(K), E[ZZ'], E[α] and the rates, all given K ≤ cap."""
    exact = exact_answer(case.n, case.prior, case.inferred, case.cap)
    states = list(walk(seed, case.model(prior), DATA[case.n], case.new_features, sweeps))
    K = np.array([Z.shape[1] for Z, _ in states])
    gram = np.array([Z.astype(float) @ Z.T for Z, _ in states])
    within = case.cap >= K

    def compare(values, truth):
        return p_value_of_mean(within * (values - truth), 0.0)

    found = {"E[K]": compare(K, exact.k_probabilities @ np.arange(len(exact.k_probabilities)))}
    for cell in pooled(exact.k_probabilities):
        found[f"P(K in {cell})"] = compare(np.isin(K, cell), exact.k_probabilities[cell].sum())
    for i, j in product(range(case.n), repeat=2):
        if i <= j:
            found[f"E[ZZ']_{i}{j}"] = compare(gram[:, i, j], exact.gram[i, j])
    if isinstance(case.prior.alpha, tuple):
        found["E[α]"] = compare(np.array([h["alpha"] for _, h in states]), exact.alpha)
    if case.inferred:
        for name in NAMES:
            values = np.array([h[name] for _, h in states])
            found[f"E[{name}]"] = compare(values, exact.rates[name])
    return found


@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration(name, seed):
    judge("noisy_or", check(CASES[name], seed, sweeps=1500))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sampler_agrees_with_enumeration_closely(name, seed):
    judge("noisy_or", check(CASES[name], seed, sweeps=15_000))


# ---- a node of which nothing was observed -------------------------------------------------------
def test_a_node_never_seen_follows_the_others(seed):
    """The others have the posterior of two nodes; the third takes their causes with m/3."""
    exact = exact_answer(2, IBP3, False, CAPS[2])
    X = np.vstack([np.array(DATA[2], float), np.full((1, 5), np.nan)])
    states = [Z for Z, _ in walk(seed, Case(2, IBP3).model(), X, "integrated", 2500)]
    gram = np.array([Z.astype(float) @ Z.T for Z in states])
    within = np.array([Z[:2].any(axis=0).sum() <= CAPS[2] for Z in states])
    takes = exact.gram.sum(axis=0) / 3.0  # E[z_3·z_i] = Σ_k z_ik m_k / 3
    truth = {(0, 0): exact.gram[0, 0], (0, 1): exact.gram[0, 1], (1, 1): exact.gram[1, 1]}
    truth |= {(0, 2): takes[0], (1, 2): takes[1], (2, 2): np.trace(exact.gram) / 3.0 + 1.0}
    judge(
        "noisy_or",
        {f"{at}": p_value_of_mean(within * (gram[:, *at] - v), 0.0) for at, v in truth.items()},
    )


@dataclass(frozen=True)
class TakesDrawnForData(UncollapsedGibbs):
    """Broken: steps take the drawn entries for data."""

    def _augment(self, rng, model, data, state):
        super()._augment(rng, model, data, state)
        state.data = Data(state.data.X)


def memory_of_an_unseen_node(seed, drawn):
    """Autocorrelation, five sweeps apart, of the number of causes of a node never seen."""
    rng = np.random.default_rng(seed)
    Z = np.array([[1, 0], [1, 1], [0, 1], [1, 0]], bool)
    likelihood = thali.NoisyOr(0.05, 0.8, 0.3)
    X = likelihood.sample(rng, Z, likelihood.sample_features(rng, 2, 40))
    X[3] = np.nan
    model, data = Model(thali.IBP(2.0), likelihood), Data.of(X)
    engine = TakesDrawnForData() if drawn else UncollapsedGibbs()
    state = engine.begin(rng, model, data, Start("given", Z, model.start(data)))
    number = []
    for _ in range(1000):
        engine.step(rng, model, data, state)
        number.append(state.bits[3].sum())
    return autocorrelation(np.array(number, float), lags=5)[5]


def test_a_node_never_seen_has_no_memory(seed):
    """Steps that took its drawn entries for data would hold it where it is."""
    assert memory_of_an_unseen_node(seed, drawn=False) < 0.25 < memory_of_an_unseen_node(seed, True)


# ---- new causes: the exact laws of their number and of their y ----------------------------------
@pytest.mark.parametrize("capacity", [-1, 4])
def test_the_number_of_own_causes_has_its_exact_law(capacity, rng):
    from scipy.special import comb, factorial

    from thali.kernels.new_features import NewFeatures, draw
    from thali.kernels.noisy_or import ANY_NUMBER, RowTally, rates_at

    rates, weight = rates_at(0.05, 0.8, 0.3), np.log(1.7)
    off, on = 2, np.array([2, 1])  # two entries on without any active cause, one with one
    j = np.arange(60 if capacity < 0 else capacity + 1)
    quiet = 0.95 * 0.2 ** np.arange(2)[:, None] * (1.0 - 0.24) ** j
    ways = 1.0 / factorial(j) if capacity < 0 else comb(capacity, j)
    law = ways * 1.7**j * (1.0 - 0.24) ** (off * j) * np.prod((1.0 - quiet) ** on[:, None], axis=0)
    new = NewFeatures(weight, capacity, 0, ANY_NUMBER)
    tally = RowTally(off, rates, off * rates.log_idle)
    draws = [draw(rng, new, None, tally, on) for _ in range(20_000)]
    observed = np.bincount(draws, minlength=len(j))
    judge("noisy_or", {"j": p_value_of_counts(observed, law / law.sum())})


def own_causes_p_values(rng, kernel):
    """Three of them, for entries on, off and not observed, with and without a cause besides."""
    p, found = 0.3, {}
    patterns = np.array(list(product((0, 1), repeat=3)))
    prior = p ** patterns.sum(axis=1) * (1 - p) ** (3 - patterns.sum(axis=1))
    unseen = 2 * (1 + 1) + 2 * 1  # beside the codes of one cause, which is active
    E = np.tile(np.array([[2 * 1 + 1, 2 * 0 + 1, 2 * 1 + 0, unseen]], np.int32), (1, 20_000))
    Y = kernel.draw_own_states(rng, E, np.array([3]), 1, kernel.rates_at(0.05, 0.8, p))
    for column, (x, c) in enumerate(((1, 1), (1, 0), (0, 1), (None, 1))):
        law = prior.copy()
        if x is not None:
            law *= np.exp(
                [oracles.noisy_or_entry(x, c + s, 0.05, 0.8) for s in patterns.sum(axis=1)]
            )
        observed = np.bincount(np.array([4, 2, 1]) @ Y[:, column::4], minlength=8)
        found[f"x={x}, c={c}"] = p_value_of_counts(observed, law / law.sum())
    return found


def test_causes_of_ones_own_have_their_exact_law(rng):
    from thali.kernels import noisy_or

    judge("noisy_or", own_causes_p_values(rng, noisy_or))


# ---- the two ways to make new features, on data too large to enumerate --------------------------
def agreement(seed, sweeps):
    X = np.random.default_rng(3).integers(0, 2, (6, 12))
    case = Case(2, INFERRED, inferred=True)
    series = []
    for i, way in enumerate(("integrated", "slice")):
        states = walk(seed + i, case.model(), X, way, sweeps)
        rows = [(Z.shape[1], Z.sum(), h["alpha"], *(h[name] for name in NAMES)) for Z, h in states]
        series.append(np.array(rows, float).T)
    names = ("K", "ΣZ", "α", *NAMES)
    return {k: p_value_of_difference(a, b) for k, a, b in zip(names, *series, strict=True)}


@pytest.mark.slow
def test_integrated_and_slice_agree(seed):
    judge("noisy_or", agreement(seed, sweeps=20_000))


# ---- mutants ------------------------------------------------------------------------------------
# (1−λ)^j in place of (1−λp)^j: every new cause taken as active
ALWAYS_ACTIVE = [("log1p(-lam * p))", "log1p(-lam))")]
AT_MOST_ONE = [("free, F, ANY_NUMBER)", "free, F, 0)")]
# y of new causes from its prior, though the row was looked at to draw their number; the pass over
# Y that follows hides this from all but the law of the draws itself
FROM_THE_PRIOR = [("chance = active / (active + idle)", "chance = p")]


def install(monkeypatch, kernel):
    import thali.kernels
    import thali.kernels.noisy_or

    monkeypatch.setitem(sys.modules, KERNEL, kernel)
    monkeypatch.setattr(thali.kernels, "noisy_or", kernel)


def test_enumeration_catches_at_most_one_new_cause(monkeypatch, seed):
    install(monkeypatch, mutate(KERNEL, AT_MOST_ONE))
    assert alarms(check(CASES["N=2 ibp α=3"], seed, sweeps=1500))


@pytest.mark.slow
def test_enumeration_catches_new_causes_taken_as_active(monkeypatch, seed):
    install(monkeypatch, mutate(KERNEL, ALWAYS_ACTIVE))
    assert alarms(check(CASES["N=2 ibp α=3"], seed, sweeps=2500))


def test_causes_drawn_from_their_prior_are_noticed(rng):
    assert alarms(own_causes_p_values(rng, mutate(KERNEL, FROM_THE_PRIOR)))


@pytest.mark.slow
def test_an_unchanged_copy_raises_no_alarm(monkeypatch, seed):
    install(monkeypatch, mutate(KERNEL, []))
    judge("noisy_or", check(CASES["N=2 ibp α=3"], seed, sweeps=1500))


def test_the_budget_counts_these_tests():
    assert TESTS["noisy_or"] == 2 * len(CASES) + 1 + 2 + 1 + 2
