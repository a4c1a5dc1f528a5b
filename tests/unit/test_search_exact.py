"""The search against enumeration: what it finds, and what it says of that."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from oracles import search as oracle
from oracles.features import (
    classes,
    histories,
    log_prior_finite,
    log_prior_ibp,
    log_prior_two_parameter,
)
from oracles.search_problems import CLOSE, EXACT, KINDS, Case, larger, misses, off, tiny

import thali
from thali.cli import console
from thali.data import Data
from thali.engines.search.best_first import BestFirst
from thali.engines.search.heuristics import heuristic


# ---- the oracle ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_finds_the_mode_of_all_classes(kind, rng):
    """Against plain lists of classes with at most so many columns, and the priors' own formulas."""
    for n, cap in ((1, 12), (2, 8), (3, 5)):
        X, alpha = rng.normal(size=(n, 2)), float(rng.uniform(0.3, 2.0))
        prior = oracle.Prior(kind, alpha, 1.3 if "two" in kind else 1.0, 4)
        counts = classes(n, cap)
        if prior.finite:
            counts = counts[counts.sum(axis=1) <= 4]
        logs = {
            "ibp": log_prior_ibp(counts, n, alpha),
            "two_parameter_ibp": log_prior_two_parameter(counts, n, alpha, 1.3),
            "beta_bernoulli": log_prior_finite(counts, n, alpha, 4),
        }[kind]
        outer = np.einsum("hi,hj->hij", histories(n), histories(n))
        G = (counts @ outer.reshape(-1, n * n)).reshape(-1, n, n)
        each = logs + oracle.log_densities(X, G, 0.6, 1.1)
        best, Z = oracle.most_probable(X, prior, 0.6, 1.1)
        assert Z.shape[1] < cap
        assert np.isclose(best, each.max(), rtol=0, atol=1e-10)
        assert np.isclose(oracle.log_joint(X, Z, prior, 0.6, 1.1), best, rtol=0, atol=1e-10)


# ---- an unlimited queue -------------------------------------------------------------------------
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_an_unlimited_queue_finds_the_mode_and_says_so(count, rng):
    assert not misses(rng, count)


def test_so_it_does_from_any_start_in_any_order_by_any_bound(rng):
    for settings in (
        {"prior_bound": "paper"},
        {"init": "race", "order": "farthest-first"},
        {"order": "given", "init": "prior", "n_init": 2},
        {"width": 10**6},
    ):
        assert not misses(rng, 6, **settings), settings


def test_a_row_may_open_many_dishes():
    """More than a search expects: all of them are looked at."""
    case = Case(np.array([[300.0]]), oracle.Prior("ibp", 150.0), 1.0, 1.0)
    problem = case.problem()
    children, lost = problem.expand(
        problem.root(), 0.0, expansion="all", width=None, floor=-500.0, most_new=-1
    )
    opened = sorted(child.new for child in children)
    assert opened == list(range(opened[0], opened[-1] + 1))
    assert len(children) > 200
    assert lost < -500.0
    model = case.fit(**EXACT, polish=False)
    assert abs(off(model.log_joint_, case.best)) < CLOSE
    assert model.proven_optimal_
    assert model.n_components_ > 100


def test_trivial_is_a_bound_where_densities_are_below_one(rng):
    """σ_x above 1/√2π: what rows to come add is at most nothing."""
    case = tiny(rng, 0, most=3)
    case = Case(case.X, case.prior, 0.5, case.sigma_a)
    assert case.fit(**{**EXACT, "heuristic": "trivial"}).proven_optimal_
    case = Case(case.X, case.prior, 0.3, case.sigma_a)
    model = case.fit(**{**EXACT, "heuristic": "trivial"})
    assert not model.proven_optimal_
    assert model.log_joint_upper_bound_ == np.inf


def test_the_order_of_the_rows_changes_nothing(rng):
    for i in range(6):
        case = tiny(rng, i)
        rows = rng.permutation(len(case.X))
        other = Case(case.X[rows], case.prior, case.sigma_x, case.sigma_a)
        for order in ("given", "random", "farthest_first"):
            a, b = (each.fit(**EXACT, order=order) for each in (case, other))
            assert np.isclose(a.log_joint_, b.log_joint_, rtol=1e-9)
            assert np.isclose(other.log_joint(a.Z_[rows]), b.log_joint_, rtol=1e-9)


# ---- what is never said wrongly -----------------------------------------------------------------
LIMITS = {
    **{f"width {w}": {"width": w, "heuristic": "admissible"} for w in (1, 2, 5, 20)},
    "no new dishes": {**EXACT, "most_new": 0},
    "one new dish": {**EXACT, "most_new": 1},
    "two, and a queue": {"width": 5, "heuristic": "admissible", "most_new": 2},
    "paper": {"width": 3, "heuristic": "admissible", "prior_bound": "paper"},
    "a start of nothing": {"width": 4, "heuristic": "admissible", "polish": False},
}
NEVER = {  # nothing is proven
    "within": {**EXACT, "expansion": "within"},
    "the prior so far": {**EXACT, "prior_bound": "so_far"},
    "inadmissible": {**EXACT, "heuristic": "inadmissible"},
    "cluster": {**EXACT, "heuristic": "cluster"},
    "neighbor": {**EXACT, "heuristic": "neighbor"},
    "neighbors_or": {**EXACT, "heuristic": "neighbors_or", "neighbors": 2},
}


def wrong_words(case, model):
    """Whether the model says more than is so."""
    below = off(model.log_joint_upper_bound_, case.best) < -CLOSE
    proven = model.proven_optimal_ and off(model.log_joint_, case.best) < -CLOSE
    unlike = abs(off(case.log_joint(model.Z_), model.log_joint_)) > CLOSE
    better = off(model.log_joint_, case.best) > CLOSE
    return bool(below or proven or unlike or better)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limited_search_never_says_too_much(name, rng):
    said = 0
    for i in range(12):
        case = tiny(rng, i)
        model = case.fit(seed=i, **LIMITS[name])
        assert not wrong_words(case, model), case
        said += model.proven_optimal_
    assert said < 12 or name in ("width 20", "two, and a queue", "paper")


@pytest.mark.parametrize("name", NEVER)
def test_a_search_without_a_bound_proves_nothing(name, rng):
    for i in range(4):
        case = tiny(rng, i, most=4)
        model = case.fit(seed=i, **NEVER[name])
        assert not wrong_words(case, model), case
        assert not model.proven_optimal_
        assert model.log_joint_upper_bound_ == np.inf


def forgotten(rng, count, width):
    """How far the bound of a search is below the scores of rows that it did not follow."""
    most = -np.inf
    for i in range(count):
        case = tiny(rng, i)
        if i % 2:  # with two dishes at most, it is the queue that drops, not an expansion
            case = larger(rng, "beta_bernoulli", n=6, d=2, k=2, n_components=2)
        problem = case.problem()
        guess = heuristic("admissible", problem, rng)
        search = BestFirst(problem, guess, width=width, expansion="all")
        scores, over = {}, False
        while not over:
            over = search.advance(1)
            taken = search.last
            scores.pop(oracle.class_key(taken.matrix()), None)
            if taken.rows < problem.n:
                future = guess.future(taken.rows + 1)
                options = {"expansion": "all", "width": None, "floor": -1e300, "most_new": 9}
                for child in problem.expand(taken, future, **options)[0]:
                    scores[oracle.class_key(child.matrix())] = child.score
        most = max(most, max(scores.values(), default=-np.inf) - search.bound)
    return most


@pytest.mark.parametrize("width", [1, 3, 6])
def test_what_is_not_followed_is_remembered(width, rng):
    assert forgotten(rng, 8, width) < CLOSE


def test_inferred_hyperparameters_prove_nothing(rng):
    X = tiny(rng, 0).X
    for prior, likelihood in (
        (thali.IBP(), thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0)),
        (thali.IBP(alpha=1.0), thali.LinearGaussian(sigma_x=0.5)),
    ):
        engine = thali.BeamSearch(**EXACT, n_init=1)
        model = thali.LatentFeatures(prior, likelihood, engine, random_state=0).fit(X)
        assert not model.proven_optimal_
        assert model.log_joint_upper_bound_ == np.inf


def test_a_search_that_is_stopped_never_says_too_much(rng):
    """Wherever it is stopped, its answer has all rows and its bound is one."""
    finished = set()
    for i in range(6):
        case = tiny(rng, i)
        model, data = case.model(), Data.of(case.X)
        for steps in range(5):
            engine = thali.BeamSearch(**EXACT, n_init=1, polish=steps % 2 == 0)
            state = begun(engine, model, data, rng)
            for _ in range(steps):
                engine.step(rng, model, data, state)
            if state.search is not None:
                state.search.advance(int(rng.integers(1, 4)))
            found = engine.population(rng, model, data, state)
            law = engine.known(state)
            Z = np.unpackbits(found.packed[0], axis=0, count=data.n)
            log_joint = found.scalars[0, 1]
            assert abs(off(case.log_joint(Z), log_joint)) < CLOSE
            assert off(float(law["bound"]), case.best) > -CLOSE
            if law["proven"]:
                assert abs(off(log_joint, case.best)) < CLOSE
            finished.add(bool(law["proven"]))
    assert finished == {True, False}


def begun(engine, model, data, rng):
    from thali.starts import empty_start

    return engine.begin(rng, model, data, empty_start(rng, model, data))


@pytest.mark.filterwarnings("ignore::thali.results.findings.TooManyFeatures")  # data are noise
@pytest.mark.parametrize("how", ["interrupted", "time budget"])
def test_a_stop_gives_an_answer_with_all_rows(how, rng, monkeypatch):
    case = Case(rng.normal(size=(25, 4)), oracle.Prior("ibp", 2.0), 0.5, 1.0)
    step, seen = thali.BeamSearch.step, []

    def count(*arguments):
        seen.append(1)
        if how == "interrupted" and len(seen) == 4:
            time.sleep(0.05)  # until all threads have begun
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(thali.BeamSearch, "step", count)
    engine = thali.BeamSearch(heuristic="admissible", width=300, n_init=2, init="empty")
    model = thali.LatentFeatures(case.of_library, case.likelihood, engine, random_state=0)
    model.fit(case.X, time_budget=0.2 if how == "time budget" else None)
    assert model.stopped_ == how
    assert model.Z_.shape == (25, model.n_components_)
    assert np.isclose(case.log_joint(model.Z_), model.log_joint_)
    assert model.log_joint_upper_bound_ > model.log_joint_
    assert not model.proven_optimal_


def test_a_search_that_kept_no_count_is_reported_all_the_same(tmp_path):
    """Somebody else's search may know less than the beam search does."""
    X = np.random.default_rng(0).normal(size=(5, 3))
    engine = thali.BeamSearch(width=2, n_init=1, init="empty")
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)
    assert "candidates looked at" in model.report(tmp_path / "all.html").read_text()
    assert replace(model.fit_, extra={}).attributes() == {
        "proven_optimal_": False,
        "log_joint_upper_bound_": np.inf,
    }
    del model.n_enqueued_, model.n_dequeued_
    assert "candidates looked at" not in model.report(tmp_path / "none.html").read_text()
    console.print_summary(model)
