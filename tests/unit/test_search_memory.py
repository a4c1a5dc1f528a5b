"""A search without a limit stops with words before memory does."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from oracles.search_problems import larger, tiny

from thali.data import Data
from thali.engines.search import memory
from thali.engines.search.best_first import BestFirst
from thali.engines.search.heuristics import heuristic
from thali.engines.search.kept_candidates import KeptProblem
from thali.likelihoods.noisy_or import NoisyOr

EXACT = {"width": None, "heuristic": "admissible", "expansion": "all"}


def begun(case, width=None):
    problem = case.problem()
    future = heuristic("admissible", problem, np.random.default_rng(0))
    return BestFirst(problem, future, width=width, expansion="all")


def test_more_than_memory_is_refused_with_a_way_out(rng, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1 << 24)
    with pytest.raises(MemoryError, match=r"candidates, which need .* GB .* give a smaller width"):
        larger(rng, "ibp", n=12).fit(**EXACT, polish=False)


def test_a_limited_queue_of_the_same_data_goes_through(rng, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1 << 24)
    model = larger(rng, "ibp", n=12).fit(**{**EXACT, "width": 50}, polish=False)
    assert len(model.Z_) == 12


def test_what_was_let_go_does_not_count(rng, monkeypatch):
    """All that ever came in is more than there is room for, what is held is not."""
    case = larger(rng, "ibp", n=40, k=2)
    search = begun(case, width=20)
    while not search.advance(100):
        pass
    came = search.meter.bytes
    monkeypatch.setattr(memory, "room", lambda: came // 2)
    again = begun(case, width=20)
    while not again.advance(100):
        pass
    assert again.meter.bytes < came // 2
    assert again.answer.score == search.answer.score


def test_what_is_counted_is_what_is_taken(rng):
    search = begun(larger(rng, "ibp", n=12))
    search.advance(20)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        counted = memory.bytes_held(search.queue.held())
        search.advance(300)
        taken = tracemalloc.get_traced_memory()[0] - before
        counted = memory.bytes_held(search.queue.held()) - counted
    finally:
        tracemalloc.stop()
    assert 0.8 < counted / taken < 1.5


def test_kept_lists_are_counted_too(rng):
    X = (rng.random((8, 4)) < 0.5).astype(float)
    likelihood = NoisyOr(epsilon=0.05, lam=0.8, p=0.3)
    probabilities = likelihood.count_probabilities(70)
    problem = KeptProblem(Data.of(X).binary, tiny(rng).of_library, probabilities)
    assert memory.bytes_of(problem.nothing()) > 4 * memory.ARRAY
