"""The particle filter against exact enumeration on tiny data, and against its own mutants.

For any number of particles, (estimate of P(X)) × Σ_i W_i f(Z_i) has mean P(X) E[f | X] exactly.  So
over independent runs, with e = E[f | X, K ≤ cap] known from enumeration,

    mean of  P̂(X)/P(X) · Σ_i W_i 1{K_i ≤ cap} (f(Z_i) − e) = 0,   and with f − e = 1 it is 1,

where P(X) is the enumerated part K ≤ cap.  Few particles and many runs are then a test without
any bias: nothing has to converge.  The runs are independent, and their spread tells the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from oracles.features import PriorSpec
from scipy import stats
from statistical import test_enumeration
from statistical.budget import TESTS, alarms, judge, pooled
from statistical.mutants import mutate
from statistical.stories import library_prior
from statistical.test_enumeration import Case, library_likelihood, specs
from statistical.test_missing import Masked

import thali
from thali.data import Data
from thali.model import Model
from thali.starts import empty_start


@dataclass(frozen=True)
class Filtering:
    case: Case
    proposal: str = "conditional"
    passes: int = 1
    particles: int = 150
    runs: int = 60
    rejuvenate: int = 0  # the rows' own steps alone, which sweeps would mend
    resample_below: float = 0.8


CASES = {
    f"N={n} {kind} {proposal} {label}": Filtering(
        Case(n, specs(alpha)[kind]), proposal, particles=150 if proposal == "conditional" else 300
    )
    for n, kind, proposal, label, alpha in [
        (2, "ibp", "conditional", "α=3", 3.0),
        (3, "ibp", "conditional", "α=1", 1.0),
        (4, "ibp", "conditional", "α=1", 1.0),
        (3, "ibp", "prior", "α=1", 1.0),
        (4, "two_parameter", "conditional", "α=1", 1.0),
        (3, "two_parameter", "prior", "α=0.5", 0.5),
        (4, "finite", "conditional", "α=1", 1.0),
        (3, "finite", "prior", "α=3", 3.0),
        (3, "ibp", "conditional", "α~Gamma", (1.0, 1.0)),
        (3, "finite", "conditional", "α~Gamma", (1.0, 1.0)),
    ]
}
CASES["N=3 ibp two passes"] = Filtering(Case(3, PriorSpec("ibp", 1.0)), passes=2, particles=100)
CASES["N=3 two_parameter two passes α~Gamma"] = Filtering(
    Case(3, PriorSpec("two_parameter", (1.0, 1.0), beta=0.4)), passes=2, particles=100
)
CASES["N=2 ibp σ inferred"] = Filtering(
    Case(2, PriorSpec("ibp", (1.0, 1.0)), infer_sigmas=True), particles=200
)
CASES["N=3 two_parameter σ inferred, two passes"] = Filtering(
    Case(3, PriorSpec("two_parameter", (1.0, 1.0), beta=0.4), infer_sigmas=True),
    passes=2,
    particles=100,
)
CASES |= {
    f"N=3 {name}": Filtering(case, proposal, passes, particles)
    for name, case, proposal, passes, particles in [
        ("ibp with gaps", Masked(3, PriorSpec("ibp", 1.0)), "conditional", 1, 150),
        ("two_parameter, a row missing, two passes",
         Masked(3, PriorSpec("two_parameter", 1.0, beta=2.5), gaps="a row"), "conditional", 2, 100),
        ("finite with gaps, prior",
         Masked(3, PriorSpec("finite", 1.0, n_components=3)), "prior", 1, 300),
    ]
}  # fmt: skip
CASES["N=2 ibp σ inferred with gaps"] = Filtering(
    Masked(2, PriorSpec("ibp", (1.0, 1.0)), infer_sigmas=True), particles=200
)
# few particles and many runs: nothing else than their weights holds sweeps of the rows so far true
CASES |= {
    f"N={case.n} {name}, rejuvenated": Filtering(
        case, proposal, particles=particles, runs=runs, rejuvenate=1, resample_below=below
    )
    for name, case, proposal, particles, runs, below in [
        ("ibp", Case(3, PriorSpec("ibp", 1.0)), "conditional", 10, 120, 0.0),
        ("ibp", Case(4, PriorSpec("ibp", 1.0)), "prior", 40, 150, 0.8),
        ("two_parameter α~Gamma", Case(4, PriorSpec("two_parameter", (1.0, 1.0), beta=0.4)),
         "conditional", 20, 150, 0.8),
        ("finite", Case(3, PriorSpec("finite", 1.0, n_components=3)), "prior", 30, 150, 0.5),
        ("ibp σ inferred", Case(3, PriorSpec("ibp", (1.0, 1.0)), infer_sigmas=True),
         "conditional", 30, 150, 0.8),
        ("ibp with gaps", Masked(3, PriorSpec("ibp", 1.0)), "prior", 20, 150, 0.8),
    ]
}  # fmt: skip
LONG = {
    "N=4 two_parameter conditional α=1",
    "N=2 ibp conditional α=3",
    "N=3 two_parameter two passes α~Gamma",
    "N=3 finite conditional α~Gamma",
    "N=3 two_parameter σ inferred, two passes",
    "N=4 ibp, rejuvenated",
    "N=4 two_parameter α~Gamma, rejuvenated",
    "N=3 finite, rejuvenated",
    "N=3 ibp σ inferred, rejuvenated",
    "N=3 ibp with gaps, rejuvenated",
}


@cache
def exact_answer(case):
    return test_enumeration.exact_answer(case)


def populations(model, data, engine, runs, seed):
    """The final population of many independent runs, by the engine's own steps."""
    start = empty_start(None, model, data.filled)
    for sequence in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(sequence)
        state = engine.begin(rng, model, data, start)
        for _ in range(engine.steps(data)):
            engine.step(rng, model, data, state)
        yield engine.population(rng, model, data, state), list(state.hyper)


def features_of(population, names, n):
    """K, every entry of ZZᵀ, and the hyperparameters of each particle: name -> (P,)."""
    Z = [np.unpackbits(z, axis=0, count=n).astype(float) for z in population.packed]
    gram = np.array([z @ z.T for z in Z])
    found = {f"E[ZZ']_{i}{j}": gram[:, i, j] for i in range(n) for j in range(i, n)}
    found["K"] = population.scalars[:, 0]
    return found | {name: population.scalars[:, 2 + i] for i, name in enumerate(names)}


def check(filtering, seed, engine=thali.ParticleFilter):
    """P-values of the evidence and of every compared mean."""
    case = filtering.case
    exact = exact_answer(case)
    cap = len(exact.k_probabilities) - 1
    data = Data.of(case.X)
    model = Model(library_prior(case.prior), library_likelihood(case)).resolve(data)
    settings = engine(
        filtering.particles,
        filtering.proposal,
        filtering.resample_below,
        filtering.passes,
        filtering.rejuvenate,
    )
    truths = {f"E[ZZ']_{i}{j}": exact.gram[i, j] for i in range(case.n) for j in range(i, case.n)}
    truths["K"] = exact.k_probabilities @ np.arange(cap + 1)
    cells = pooled(exact.k_probabilities)
    series = {name: [] for name in truths} | {f"P(K in {cell})": [] for cell in cells}
    series |= {"evidence": []}
    if isinstance(case.prior.alpha, tuple):
        truths["alpha"], series["alpha"] = exact.alpha, []
    for population, names in populations(model, data, settings, filtering.runs, seed):
        ratio = np.exp(population.log_evidence - exact.log_evidence)
        values = features_of(population, names, case.n)
        within = ratio * population.weights * (values["K"] <= cap)
        series["evidence"].append(within.sum())
        for name, truth in truths.items():
            series[name].append(within @ (values[name] - truth))
        for cell in cells:
            share = exact.k_probabilities[cell].sum()
            series[f"P(K in {cell})"].append(within @ (np.isin(values["K"], cell) - share))
    return {
        name: p_value_of_runs(values, 1.0 if name == "evidence" else 0.0)
        for name, values in series.items()
    }


def p_value_of_runs(values, truth):
    """Student's t over independent runs."""
    return float(stats.ttest_1samp(values, truth).pvalue)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in CASES]
)
def test_filter_agrees_with_enumeration(name, seed):
    judge("particle_filter", check(CASES[name], seed))


def test_the_budget_counts_these_tests():
    assert TESTS["particle_filter"] == len(CASES)


# ---- mutants ----------------------------------------------------------------------------------


KERNELS = {
    "the probability of the proposal forgotten": [
        ("return True, odds + np.log1p(np.exp(-log_ratio))", "return True, odds"),
        ("return False, np.log1p(np.exp(log_ratio))", "return False, 0.0"),
    ],
    "the chance of no new dish forgotten": [
        (
            "return new, log_no_new_feature(row) + top + np.log(total)",
            "return new, top + np.log(total)",
        )
    ],
    "a new dish that nothing is learned of": [
        ("M[a, a] = (r * V_old + new - 1.0) / (r * rV)", "M[a, a] = 1.0 / r")
    ],
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (i > 0)) for i, name in enumerate(KERNELS)],
)
def test_enumeration_catches_a_broken_kernel(name, monkeypatch, seed):
    import sys

    import thali.kernels

    broken = mutate("thali.kernels.particle_rows", KERNELS[name])
    monkeypatch.setitem(sys.modules, "thali.kernels.particle_rows", broken)
    monkeypatch.setattr(thali.kernels, "particle_rows", broken, raising=False)
    assert alarms(check(CASES["N=4 ibp conditional α=1"], seed))


REJUVENATIONS = {
    "sums of before the moves": (
        "thali.engines.filtering.rejuvenation",
        [("        particles.T[p, :k] = Z.T @ X\n", "")],
    ),
    "a prior of all rows for those so far": (
        "thali.engines.filtering.rejuvenation",
        [("prior.tables(self.state.row)", "prior.tables(self.state.data.n)")],
    ),
    "equal columns that are not counted": (  # of K + 1 columns that die only one was born
        "thali.kernels.column_moves",
        [("odds = np.log(free / whole * ", "odds = np.log(free * ")],
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (i > 0)) for i, n in enumerate(REJUVENATIONS)],
)
def test_enumeration_catches_a_step_that_changes_the_posterior(name, monkeypatch, seed):
    import sys

    import thali.kernels
    from thali.engines import particle_filter

    module, changes = REJUVENATIONS[name]
    broken = mutate(module, changes)
    if module.startswith("thali.kernels"):
        monkeypatch.setitem(sys.modules, module, broken)
        monkeypatch.setattr(thali.kernels, "column_moves", broken, raising=False)
    else:
        monkeypatch.setattr(particle_filter, "rejuvenate", broken.rejuvenate)
    case = Case(4, PriorSpec("ibp", 1.0))
    assert alarms(check(Filtering(case, particles=40, runs=150, rejuvenate=1), seed))


def test_enumeration_catches_gaps_that_are_taken_for_zeros(monkeypatch, seed):
    from thali.engines.filtering.gaps import Gaps

    old = "data.seen[:, order[start[:-1]]]"
    broken = mutate("thali.engines.filtering.gaps", [(old, f"{old} | True")])
    monkeypatch.setattr(Gaps, "of", broken.Gaps.of)
    assert alarms(check(CASES["N=3 ibp with gaps"], seed))


def test_enumeration_catches_weights_that_outlive_resampling(monkeypatch, seed):
    from thali.engines.filtering.particles import State

    old = "        self.log_weights = np.full(len(weights), -np.log(len(weights)))\n"
    broken = mutate("thali.engines.filtering.particles", [(old, "")])
    monkeypatch.setattr(State, "resample", broken.State.resample)
    assert alarms(check(CASES["N=3 ibp prior α=1"], seed))


def test_enumeration_catches_scales_without_their_weights(seed):
    """Scales drawn near a guess, taken for draws from their law."""
    change = ("log_p - (np.logaddexp(log_p, log_bell) - np.log(2.0))", "np.zeros(count)")
    broken = mutate("thali.engines.particle_filter", [change])
    assert alarms(check(CASES["N=2 ibp σ inferred"], seed, broken.ParticleFilter))
