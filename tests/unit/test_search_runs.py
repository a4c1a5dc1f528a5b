"""Runs of a search: settings, orders, restarts, files, stops, and what begins from its answer."""

from __future__ import annotations

import json
import signal
import time

import numpy as np
import pytest
from oracles import search as oracle
from oracles.search_problems import KINDS, Case, larger

import thali
import thali.run.loop as run_module
from thali.data import Data
from thali.engines import beam_search
from thali.engines.search.best_first import BestFirst
from thali.engines.search.heuristics import NAMES as HEURISTICS
from thali.engines.search.orders import NAMES as ORDERS
from thali.engines.search.orders import row_order
from thali.starts import empty_start, given_start

WRONG = [
    ({"width": 0}, ValueError, "width"),
    ({"width": 2.5}, TypeError, "width"),
    ({"width": True}, TypeError, "width"),
    ({"most_new": -1}, ValueError, "most_new"),
    ({"neighbors": 0}, ValueError, "neighbors"),
    ({"passes": 0}, ValueError, "passes"),
    ({"n_init": 0}, ValueError, "n_init"),
    ({"n_init": None}, TypeError, "n_init"),
    ({"heuristic": "best"}, ValueError, "'admissible'"),
    ({"heuristic": None}, ValueError, "heuristic"),
    ({"expansion": "some"}, ValueError, "'within'"),
    ({"order": "last"}, ValueError, "'farthest_first'"),
    ({"prior_bound": "none"}, ValueError, "'so_far'"),
    ({"polish": 1}, TypeError, "polish"),
    ({"init": "nowhere"}, ValueError, "init"),
    ({"init": 3}, (TypeError, ValueError), "init"),
]


@pytest.mark.parametrize(
    ("settings", "error", "word"), WRONG, ids=lambda given: str(given) if given else ""
)
def test_wrong_settings_are_refused_by_name(settings, error, word):
    with pytest.raises(error, match=word) as found:
        thali.BeamSearch(**settings)
    assert str(found.value).count("\n") == 0


def test_dashes_will_do():
    engine = thali.BeamSearch(order="farthest-first", heuristic="neighbors-or")
    assert (engine.order, engine.heuristic) == ("farthest_first", "neighbors_or")
    assert engine.replace(width=3).order == "farthest_first"


def test_too_many_features_for_all_rows_are_refused(rng):
    case = Case(10.0 * rng.normal(size=(4, 60)), oracle.Prior("ibp", 90.0), 0.1, 1.0)
    with pytest.raises(ValueError, match="expansion='auto'"):
        case.fit(expansion="all", width=2, polish=False)


# ---- stops -------------------------------------------------------------------------------------
@pytest.mark.parametrize("likelihood", ["linear_gaussian", "noisy_or"])
def test_a_search_stopped_for_good_codes_the_other_rows(likelihood, monkeypatch):
    """Its log joint is far above that of no features."""
    X = thali.datasets.images(n=60, random_state=0).X
    if likelihood == "noisy_or":
        X = (X > 0.5).astype(int)
    taken, advance = [], BestFirst.advance

    def few(search, most):
        """Thirty candidates, then Ctrl-C."""
        taken.append(most)
        if len(taken) > 1:
            raise AssertionError("a search went on after it was stopped for good")
        found = advance(search, 30)
        loops[-1].halt("interrupted")
        return found

    loops, begin = [], run_module._Loop.begin

    def keep(loop, *arguments):
        loops.append(loop)
        return begin(loop, *arguments)

    monkeypatch.setattr(run_module._Loop, "begin", keep)
    monkeypatch.setattr(BestFirst, "advance", few)
    monkeypatch.setattr(beam_search, "A_MOMENT", 0.0)
    engine = thali.BeamSearch(n_init=1, init="empty", polish=False, width=5, order="given")
    model = thali.LatentFeatures(
        likelihood=likelihood, engine=engine, random_state=0, progress=False
    ).fit(X)
    assert model.stopped_ == "interrupted"
    assert model.n_components_ > 0
    assert model.Z_[-20:].any()
    form, hyper = engine.form(model.fit_.model, model.fit_.data), model.fit_.mean_hyper()
    nothing = np.zeros((60, 0), bool)
    empty = form.log_joint(nothing, form.parameters(nothing, hyper), hyper)
    assert model.log_joint_ > empty + 50.0
    assert model.n_dequeued_ == 30


# ---- orders and answers -------------------------------------------------------------------------
@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_a_permutation(name, rng):
    for n in (1, 2, 9):
        for X in (rng.normal(size=(n, 3)), np.ones((n, 2))):
            assert sorted(row_order(name, X, rng).tolist()) == list(range(n))
    X = rng.normal(size=(12, 2))
    order = row_order(name, X, rng)
    if name == "given":
        assert order.tolist() == list(range(12))
    if name == "farthest_first":
        for i in range(1, 12):
            apart = [min(np.sum((x - X[j]) ** 2) for j in order[:i]) for x in X]
            assert np.isclose(apart[order[i]], max(apart))


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("order", ORDERS)
def test_an_answer_comes_back_in_the_order_of_the_data(heuristic, order, rng):
    case = larger(rng, "ibp", n=25, d=8, k=3, sigma_x=0.3)
    model = case.fit(heuristic=heuristic, order=order, width=5)
    assert np.isclose(case.log_joint(model.Z_), model.log_joint_)
    assert -np.inf < model.history_["log_joint"][0, -1] <= model.log_joint_ + 1e-9
    empty = case.log_joint(np.zeros((25, 0), int))
    assert model.log_joint_ > empty + 20.0
    assert model.n_dequeued_ <= model.n_enqueued_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expansion", ["all", "within"])
def test_greedy_is_each_row_in_turn(kind, expansion, rng):
    same = 0
    for _ in range(6):
        case = larger(rng, kind, n=7, d=3, k=2, sigma_x=0.4, n_components=3)
        engine = {"expansion": expansion, "order": "given", "polish": False}
        greedy = thali.BeamSearch.greedy(**engine, n_init=1, init="empty")
        model = thali.LatentFeatures(case.of_library, case.likelihood, greedy, random_state=0).fit(
            case.X
        )
        Z = oracle.greedy(case.X, *case.numbers, most_new=3)
        empty = case.log_joint(np.zeros((7, 0), int))
        assert np.isclose(max(case.log_joint(Z), empty), model.log_joint_)
        same += oracle.class_key(Z) == oracle.class_key(model.Z_)
    assert same >= 4


def test_the_best_of_restarts_is_kept(rng):
    case = larger(rng, "ibp", n=30, d=4, k=4, sigma_x=0.6)
    model = case.fit(width=1, n_init=5, polish=False)
    ends = model.history_["log_joint"][:, -1]
    assert len(np.unique(ends.round(6))) > 1
    assert np.isclose(model.log_joint_, max(ends.max(), case.log_joint(np.zeros((30, 0), int))))


def test_a_start_is_the_answer_where_the_search_finds_no_better(rng):
    case = larger(rng, "ibp", n=30, d=8, k=3, sigma_x=0.3)
    good = case.fit(width=20, n_init=3)
    again = case.fit(width=1, init=good.Z_, heuristic="trivial", order="given")
    assert again.log_joint_ >= good.log_joint_ - 1e-9


def test_polishing_helps_or_does_nothing(rng):
    for i in range(6):
        case = larger(rng, KINDS[i % 3], n=25, d=4, k=4, sigma_x=0.6)
        rough, smooth = (case.fit(width=1, polish=p, order="given") for p in (False, True))
        assert smooth.log_joint_ >= rough.log_joint_ - 1e-9


def test_hyperparameters_are_searched_again_where_they_moved(rng):
    X = larger(rng, "ibp", n=40, d=8, k=3, sigma_x=0.3).X
    logs = {}
    for passes in (1, 3):
        engine = thali.BeamSearch(n_init=1, passes=passes, init="empty")
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0
        ).fit(X)
        assert np.isclose(
            oracle.log_joint(
                X, model.Z_, oracle.Prior("ibp", model.alpha_), model.sigma_x_, model.sigma_a_
            ),
            model.log_joint_,
        )
        logs[passes] = model.n_dequeued_
    assert logs[3] >= logs[1]


# ---- files --------------------------------------------------------------------------------------
def resumed(make, X, path, monkeypatch, at):
    """A run never stopped, one that Ctrl-C stops at step ``at``, and one that goes on from it."""
    whole = make().fit(X)
    step, seen = thali.BeamSearch.step, []

    def count(*arguments):
        seen.append(1)
        if len(seen) == at:
            time.sleep(0.05)  # until all threads have begun
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(run_module, "cores", lambda: 1)
    monkeypatch.setattr(run_module, "SLICE", 0.0)
    monkeypatch.setattr(thali.BeamSearch, "step", count)
    part = make().fit(X, checkpoint=path)
    monkeypatch.setattr(thali.BeamSearch, "step", step)
    return whole, part, make().fit(X, checkpoint=path, resume=True)


@pytest.mark.parametrize("at", [6, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "settings",
    [{}, {"width": None, "heuristic": "admissible"}, {"heuristic": "cluster"}],
    ids=["default", "exact", "cluster"],
)
def test_resuming_ends_with_the_same_answer(settings, at, rng, tmp_path, monkeypatch):
    n = 5 if "width" in settings else 30
    X = larger(rng, "ibp", n=n, d=3, k=3, sigma_x=0.8).X
    fixed = thali.LinearGaussian(sigma_x=0.8, sigma_a=1.0)
    likelihood = fixed if "width" in settings else "linear_gaussian"
    prior = thali.IBP(alpha=1.0) if "width" in settings else thali.IBP()
    monkeypatch.setattr("thali.engines.beam_search.CHUNK", 8)

    def make():
        engine = thali.BeamSearch(n_init=2, init="empty", **settings)
        return thali.LatentFeatures(prior, likelihood, engine, random_state=1, progress=False)

    whole, part, rest = resumed(make, X, tmp_path / "run.thali", monkeypatch, at)
    assert part.stopped_ == "interrupted"
    assert part.Z_.shape[0] == n
    assert whole.history_["log_joint"].shape[1] > 4
    for name, values in whole.history_.items():
        assert np.allclose(values, rest.history_[name], atol=1e-8), name
    assert np.array_equal(whole.Z_, rest.Z_)
    for name in ("proven_optimal_", "n_enqueued_", "n_dequeued_", "n_components_"):
        assert getattr(whole, name) == getattr(rest, name), name
    assert whole.log_joint_upper_bound_ == rest.log_joint_upper_bound_ or np.isclose(
        whole.log_joint_upper_bound_, rest.log_joint_upper_bound_
    )


def test_a_finished_search_goes_into_a_file_and_back(rng):
    case = larger(rng, "ibp", n=3, d=2, k=2)
    model, data = case.model(), Data.of(case.X)
    engine = thali.BeamSearch(width=None, heuristic="admissible", n_init=2, init="empty")
    state = engine.begin(rng, model, data, empty_start(rng, model, data))
    while not engine.finished(state):
        arrays, numbers = engine.to_arrays(state)
        state = engine.from_arrays(model, data, arrays, json.loads(json.dumps(numbers)))
        before = engine.step(rng, model, data, state)
    arrays, numbers = engine.to_arrays(state)
    again = engine.from_arrays(model, data, arrays, json.loads(json.dumps(numbers)))
    assert engine.finished(again)
    assert engine.step(rng, model, data, again) == before
    assert engine.known(again) == engine.known(state)
    assert again.proven
    assert np.isclose(again.best.value, case.best)


def test_a_model_is_saved_and_loaded(rng, tmp_path):
    for exact in (True, False):
        case = larger(rng, "beta_bernoulli", n=4 if exact else 20, d=2, k=2)
        settings = {"width": None, "heuristic": "admissible"} if exact else {}
        model = case.fit(**settings)
        model.save(tmp_path / "m.thali")
        again = thali.load(tmp_path / "m.thali")
        assert np.array_equal(model.Z_, again.Z_)
        assert again.engine_ == model.engine_
        for name in (
            "log_joint_",
            "proven_optimal_",
            "log_joint_upper_bound_",
            "n_enqueued_",
            "n_dequeued_",
        ):
            assert getattr(model, name) == getattr(again, name), name
        assert model.proven_optimal_ is exact


# ---- what begins from it ------------------------------------------------------------------------
def test_chains_begin_from_its_answer(rng):
    case = larger(rng, "ibp", n=40, d=10, k=3, sigma_x=0.3)
    found = case.fit()
    data, model = Data.of(case.X), case.model()
    start = given_start(found, model, data)
    assert np.array_equal(start.latent, found.Z_)
    engine = thali.CollapsedGibbs(sweeps=3, chains=1, init=found)
    chain = thali.LatentFeatures(case.of_library, case.likelihood, engine, random_state=0)
    chain.fit(case.X)
    assert chain.starts_ == ["another model"]
    empty = case.log_joint(np.zeros((40, 0), int))
    gained = chain.history_["log_joint"][0, 0] - empty
    assert gained > 0.9 * (found.log_joint_ - empty)


def test_laws_begin_from_its_answer(rng):
    case = larger(rng, "ibp", n=40, d=10, k=3, sigma_x=0.3)
    found = case.fit()
    engine = thali.Variational(init=found, n_init=1, max_iter=1)
    law = thali.LatentFeatures(case.of_library, case.likelihood, engine, random_state=0)
    law.fit(case.X)
    assert law.starts_ == ["another model"]
    shared = [(law.Z_[:, [k]] == found.Z_).mean(axis=0).max() for k in range(law.n_components_)]
    assert np.mean(shared) > 0.9


# ---- restarts together --------------------------------------------------------------------------
def state_of(value, log_joint, bound):
    from thali.engines.beam_search import Answer, State

    state = State({}, Answer(np.zeros((2, 0), bool), {}, value), np.arange(2), bound=bound)
    state.own = (0, log_joint)
    return state


def test_what_one_restart_has_proven_is_proven():
    """The answer of one, the bound of another: rounding decides which of equal answers is kept."""
    engine, model = thali.BeamSearch(), None
    best, law = engine.together(model, [state_of(-5.0, -5.0, -5.0), state_of(-5.0 + 1e-12, 0, -3)])
    assert best == 1
    assert law["proven"]
    assert float(law["bound"]) == pytest.approx(-5.0)
    best, law = engine.together(model, [state_of(-6.0, 0.0, -4.0), state_of(-5.0, 0.0, np.inf)])
    assert best == 1
    assert not law["proven"]
    assert float(law["bound"]) == -4.0
    assert not engine.together(model, [state_of(-6.0, 0.0, np.inf)])[1]["proven"]


def test_the_best_restart_is_so_with_the_laws_of_hyperparameters(rng, monkeypatch):
    """As within one search, where a higher log joint may be paid for by unlikely numbers."""
    states, known = [], thali.BeamSearch.known

    def seen(self, state):
        states.append(state)
        return known(self, state)

    monkeypatch.setattr(thali.BeamSearch, "known", seen)
    X = rng.normal(size=(10, 3))
    population = thali.BeamSearch.population

    def told(self, rng, model, data, state):
        found = population(self, rng, model, data, state)
        if len(told.seen) == 1:  # of one restart, as if a law were against its hyperparameters
            state.best.value -= 1e3
        else:
            found.scalars[0, 1] -= 1.0
        told.seen.append(state)
        return found

    told.seen = []
    monkeypatch.setattr(thali.BeamSearch, "population", told)
    engine = thali.BeamSearch(width=2, n_init=3)
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(X)
    assert len(states) == 3
    kept = [bool(chain.kept) for chain in model.fit_.chains]
    assert kept.index(True) == int(np.argmax([state.best.value for state in told.seen])) != 1
    assert sum(kept) == 1


def test_a_report_of_an_answer_does_not_speak_of_samplers(rng, tmp_path):
    X = rng.normal(size=(8, 3))
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=thali.BeamSearch(2, n_init=1), random_state=0
    ).fit(X)
    page = tmp_path / "report.html"
    model.report(page)
    text = page.read_text(encoding="utf8").split("How to read this")[-1]
    assert "most probable that a search found" in text
    for word in ("R-hat", "Burn-in", "sweep", "The sampler visits", "share of visited"):
        assert word not in text
    with pytest.raises(ValueError, match=r"one matrix that a search found.*no ArviZ"):
        _ = model.posterior_
