"""Steps that lead a start along while the likelihood cools, and what comes after them.

A step at a temperature leaves the posterior at that temperature's numbers invariant, for every
sampler that anneals and every likelihood that can be let in by degrees: the loop itself is held at
one temperature, other than that of the model, and what it walks through is held to enumeration.
Tempering one half of a step alone, Z or parameters, is caught. Then the chains after annealing:
their draws are those of the model, and those of chains that stay warm are caught.
"""

from __future__ import annotations

import numpy as np
import pytest
from statistical import test_enumeration
from statistical.budget import TESTS, alarms, judge, p_value_of_mean
from statistical.mutants import mutate
from statistical.stories import STORIES, library_prior
from statistical.test_ladder import enumerated, measured

import thali
from thali.data import Data
from thali.engines import base
from thali.model import Model
from thali.starts import Start, anneal

ENGINES = {
    "kept": thali.UncollapsedGibbs(),
    "slices": thali.UncollapsedGibbs(new_features="slice"),
    "blocks": thali.UncollapsedGibbs(row_blocks=2),
    "moves": thali.UncollapsedGibbs(moves=3),
    "single moves": thali.Metropolis(),
    "collapsed": thali.CollapsedGibbs(),
}
COLD = {  # the model's own numbers, which no step here is made at
    "linear_gaussian": {"sigma_x": 0.15},
    "nonnegative_linear_gaussian": {"sigma_x": 0.15},
    "sparse_factor": {"sigma_x": 0.15},
    "noisy_or": {"epsilon": 0.01, "lam": 0.95},
}
CELLS = [("linear_gaussian", name) for name in ENGINES] + [
    (likelihood, name) for likelihood in list(COLD)[1:] for name in ("kept", "single moves")
]
QUICK = [("linear_gaussian", "kept"), ("linear_gaussian", "moves"), ("noisy_or", "kept")]
SLOW = pytest.mark.slow
AFTER = ("N=3 ibp α~Gamma", "N=3 ibp σ inferred", "N=4 ibp α=1")


def at_a_temperature(patch, likelihood, engine, seed, steps, burn_in=100):
    """P-values of what annealing walks through, held at the numbers that enumeration knows."""
    story = next(iter(STORIES[likelihood].values()))
    spec, cap = story.priors["ibp"]
    truths, cells, _ = enumerated(story, "ibp")
    warm, rows = story.fixed(), []
    model = Model(library_prior(spec), warm.replace(**COLD[likelihood]))
    data, step = Data.of(story.tiny), type(engine).step

    def recorded(self, rng, model, data, state):
        info = step(self, rng, model, data, state)
        Z = state.latent.astype(float)
        hyper = getattr(state, "all_hyper", state.hyper)
        rows.append((Z.shape[1] <= cap, measured(Z, hyper, cells)))
        return info

    def held(self, data, hyper):
        return lambda share: {name: getattr(warm, name) for name in COLD[likelihood]}

    patch.setattr(type(engine), "step", recorded)
    patch.setattr(type(warm), "cooling", held)
    start = Start("empty", np.zeros((data.n, 0), bool), model.start(data))
    engine = engine.replace(anneal=steps + burn_in, init="empty")
    led = anneal(np.random.default_rng(seed), engine, model, data, start, lambda: False)
    assert {name: led.hyper[name] for name in COLD[likelihood]} == COLD[likelihood]
    assert len(rows) == steps + burn_in
    return {
        name: p_value_of_mean(
            np.array([inside * (v[name] - truth) for inside, v in rows[burn_in:]]), 0.0
        )
        for name, truth in truths.items()
    }


@pytest.mark.parametrize(
    ("likelihood", "engine"),
    [pytest.param(*cell, marks=() if cell in QUICK else pytest.mark.slow) for cell in CELLS],
)
def test_a_step_leaves_its_temperature_invariant(likelihood, engine, monkeypatch, seed):
    found = at_a_temperature(monkeypatch, likelihood, ENGINES[engine], seed, 3000)
    judge("annealing", found)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", COLD)
def test_a_step_leaves_its_temperature_invariant_closely(likelihood, monkeypatch, seed):
    found = at_a_temperature(monkeypatch, likelihood, ENGINES["kept"], seed, 20_000)
    judge("annealing", found)


@pytest.mark.parametrize("half", ["update_matrix", pytest.param("update_parameters", marks=SLOW)])
def test_tempering_one_half_of_a_step_alone_is_caught(half, monkeypatch, seed):
    """The other is made at the model's own noise."""
    whole = getattr(thali.LinearGaussian, half)

    def cold(self, rng, state, *rest, **named):
        warm, state.hyper["sigma_x"] = state.hyper["sigma_x"], self.sigma_x
        try:
            return whole(self, rng, state, *rest, **named)
        finally:
            state.hyper["sigma_x"] = warm

    monkeypatch.setattr(thali.LinearGaussian, half, cold)
    engine = ENGINES["kept"]
    size = 3000 if half == "update_matrix" else 12_000
    assert alarms(at_a_temperature(monkeypatch, "linear_gaussian", engine, seed, size))


# ---- after it ------------------------------------------------------------------------------------
def after(name, seed, sweeps, **settings):
    engine = thali.UncollapsedGibbs(anneal=40, **settings)
    return test_enumeration.check(test_enumeration.CASES[name], seed, sweeps, engine=engine)


@pytest.mark.parametrize("name", [AFTER[0], *(pytest.param(n, marks=SLOW) for n in AFTER[1:])])
def test_draws_after_annealing_agree_with_enumeration(name, seed):
    judge("annealing", after(name, seed, 2000))


@pytest.mark.slow
@pytest.mark.parametrize("name", AFTER)
def test_draws_after_annealing_and_moves_agree_with_enumeration_closely(name, seed):
    judge("annealing", after(name, seed, 15_000, moves=2))


def test_a_chain_that_stays_warm_is_caught(monkeypatch, seed):
    changes = [
        ("np.linspace(0.0, 1.0, steps)", "np.linspace(0.0, 0.5, steps)"),
        ("    model.likelihood_values(hyper).update(cold)\n    kept", "    kept"),
    ]
    broken = mutate("thali.starts.anneal", changes)
    monkeypatch.setattr(base, "anneal", broken.anneal)
    assert alarms(after("N=4 ibp α=1", seed, 2000))


# ---- moves on whole columns where the features are kept ------------------------------------------
def test_moves_whose_features_are_not_drawn_anew_are_caught(monkeypatch, seed):
    """Bits given features from the prior, after moves that integrated these out."""
    moves, turn = thali.UncollapsedGibbs.move, thali.UncollapsedGibbs.update_matrix

    def early(self, rng, model, state):
        moves(self, rng, model, state)
        new = model.likelihood.new_parameters(rng, state.data, state.n_components, state.hyper)
        state.parameters = new
        turn(self, rng, model, state)

    case = test_enumeration.CASES["N=4 ibp α=1"]
    engine = thali.UncollapsedGibbs(moves=2)
    assert not alarms(test_enumeration.check(case, seed, 2000, engine=engine))
    monkeypatch.setattr(thali.UncollapsedGibbs, "move", lambda *_: None)
    monkeypatch.setattr(thali.UncollapsedGibbs, "update_matrix", early)
    assert alarms(test_enumeration.check(case, seed, 2000, engine=engine))


def test_the_budget_counts_these_tests():
    assert TESTS["annealing"] == len(CELLS) + len(COLD) + 2 * len(AFTER) + 1
