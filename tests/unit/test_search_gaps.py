"""The search where entries of X are missing: against enumeration, and against its own mutants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles import search as oracle
from oracles.search_problems import CLOSE, KINDS, larger, misses, off, tiny
from statistical.mutants import mutate

import thali
from thali.data import Data
from thali.engines.beam_search import BeamSearch
from thali.engines.filtering.gaps import Gaps
from thali.engines.search.heuristics import NAMES
from thali.engines.search.masked_candidates import MaskedProblem
from thali.engines.search.masked_polish import MaskedIntegrated


def with_gaps(rng, case, share=0.35):
    """The case without some of its entries; one at least stays, and one at least goes."""
    X = case.X.copy()
    if X.size == 1:
        X = np.concatenate([X, X + 1.0], axis=1)
    gone = rng.random(X.shape) < share
    gone.flat[0], gone.flat[-1] = True, False
    X[gone] = np.nan
    return replace(case, X=X)


def tiny_with_gaps(rng, i):
    return with_gaps(rng, tiny(rng, i))


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_an_unlimited_queue_finds_the_mode_and_says_so(count, rng):
    assert not misses(rng, count, tiny_with_gaps)


def test_so_it_does_from_any_start_in_any_order_by_any_bound(rng):
    for settings in (
        {"prior_bound": "paper"},
        {"init": "race", "order": "farthest-first"},
        {"width": 10**6, "order": "given"},
    ):
        assert not misses(rng, 4, tiny_with_gaps, **settings), settings


def problem_of(case):
    data = Data.of(case.X)
    form = MaskedIntegrated(case.model(), data)
    return form, form.problem(np.arange(data.n), numbers(case), "convex")


def numbers(case):
    return {"sigma_x": case.sigma_x, "sigma_a": case.sigma_a}


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_what_was_observed_and_bounds(kind, rng):
    """evidence + bound of the prior + the highest density of what is to come."""
    case = with_gaps(rng, larger(rng, kind, n=5, d=4, k=2, n_components=6))
    _, problem = problem_of(case)
    to_come = problem.most_to_come()
    at = problem.root()
    for n in range(1, 6):
        entries = int((~np.isnan(case.X[n:])).sum())
        assert np.isclose(to_come[n], -0.5 * entries * np.log(2 * np.pi * case.sigma_x**2))
        for expansion, width in (("all", 40), ("within", 8)):
            children, _ = problem.expand(at, float(to_come[n]), expansion=expansion, width=width)
            for child in children:
                Z = child.matrix()
                fit = oracle.log_marginal(case.X[:n], Z, case.sigma_x, case.sigma_a)
                assert np.isclose(child.evidence, fit, rtol=0, atol=1e-8)
                prior = oracle.bound_of_prior(Z, 5, case.prior, "convex")
                assert np.isclose(child.score, fit + prior + to_come[n], rtol=0, atol=1e-8)
        at = children[rng.integers(len(children))]


def test_a_pass_of_polishing_never_loses_and_makes_each_row_best(rng):
    case = with_gaps(rng, larger(rng, "ibp", n=12, d=5, k=2))
    form, problem = problem_of(case)
    Z = rng.random((12, 3)) < 0.4
    Z[0] = True
    for n in rng.permutation(12):
        before = case.log_joint(Z)
        Z = problem.with_best_row(Z, int(n))
        now = case.log_joint(Z)
        assert now >= before - 1e-9
        for i in range(Z.shape[1]):  # no bit of the row is better the other way
            other = Z.copy()
            other[n, i] = ~other[n, i]
            assert case.log_joint(other) <= now + 1e-9
    value = form.log_joint_by_hyper(Z, {})(numbers(case))
    assert np.isclose(value, case.log_joint(Z), rtol=0, atol=1e-8)


@pytest.mark.parametrize("heuristic", NAMES)
def test_every_heuristic_runs_and_tells_its_log_joint(heuristic, rng):
    case = with_gaps(rng, larger(rng, "ibp", n=20, d=5, k=2), share=0.2)
    model = case.fit(width=4, heuristic=heuristic, polish=False)
    assert abs(off(case.log_joint(model.Z_), model.log_joint_)) < CLOSE
    assert not model.proven_optimal_ or heuristic == "admissible"


def test_scales_are_inferred_from_what_was_observed_and_gaps_are_filled(rng):
    case = with_gaps(rng, larger(rng, "ibp", n=40, d=6, k=3, sigma_x=0.2), share=0.15)
    engine = thali.BeamSearch(width=5, n_init=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(case.X)
    assert 0.15 < model.sigma_x_ < 0.27
    filled, seen = model.impute(), ~np.isnan(case.X)
    assert np.isfinite(filled).all()
    assert (filled[seen] == case.X[seen]).all()


def test_a_search_goes_through_a_file_and_a_stop_codes_the_rest(rng, monkeypatch):
    from thali.starts import empty_start

    case = with_gaps(rng, larger(rng, "ibp", n=30, d=5, k=3))
    data, model = Data.of(case.X), case.model()
    engine = BeamSearch(width=3, polish=False, n_init=1, heuristic="trivial")
    state = engine.begin(rng, model, data, empty_start(rng, model, data.filled))
    form = engine.form(model, data)
    engine._advance(form, state, state.search, 5)
    again = engine.from_arrays(model, data, *engine.to_arrays(state))
    monkeypatch.setattr("thali.engines.beam_search.A_MOMENT", 0.0)
    stopped = engine.population(rng, model, data, again)
    Z = np.unpackbits(stopped.packed[0], axis=0, count=30)
    assert stopped.scalars[0, 1] == pytest.approx(case.log_joint(Z))
    again = engine.from_arrays(model, data, *engine.to_arrays(state))
    for one in (state, again):
        while not one.finished:
            engine.step(rng, model, data, one)
    assert state.best.value == pytest.approx(again.best.value)


def test_noisy_or_with_gaps_is_refused(rng):
    X = (rng.random((6, 4)) < 0.5).astype(float)
    X[0, 0] = np.nan
    model = thali.LatentFeatures(likelihood="noisy_or", engine=thali.BeamSearch(), progress=False)
    with pytest.raises(ValueError, match="which BeamSearch cannot deal with"):
        model.fit(X)


# ---- mutants ------------------------------------------------------------------------------------


def test_gaps_that_are_taken_for_zeros_are_caught(rng, monkeypatch):
    old = "data.seen[:, order[start[:-1]]]"
    broken = mutate("thali.engines.filtering.gaps", [(old, f"{old} | True")])
    monkeypatch.setattr(Gaps, "of", broken.Gaps.of)
    assert misses(rng, 6, tiny_with_gaps, polish=False)  # which would mend what the search breaks


def test_rows_to_come_that_are_taken_to_add_too_little_are_caught(rng, monkeypatch):
    """A feature of their own each: no bound."""
    old = "np.cumsum(-self.unit(slice(None))[::-1])"
    new = "np.cumsum(self.own_feature_each()[::-1])"
    broken = mutate("thali.engines.search.masked_candidates", [(old, new)])
    monkeypatch.setattr(MaskedProblem, "most_to_come", broken.MaskedProblem.most_to_come)
    assert misses(rng, 30, tiny_with_gaps)
