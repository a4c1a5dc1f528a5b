"""Solvers of a row: what each promises, against looking at every set of features."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import hard as oracle
from scipy import stats
from scipy.special import gammaln
from statistical.budget import TESTS, judge

CLOSE = 1e-9


def library():
    """Looked up when called, so that a broken copy can take a module's place."""
    from thali.kernels.row_solvers import combined, double_greedy, enumeration, local_search, row

    solvers = {
        "local_search": local_search.local_search,
        "double_greedy": lambda *given: double_greedy.double_greedy(*given, False),
        "randomized_double_greedy": lambda *given: double_greedy.double_greedy(*given, True),
        "exact": enumeration.enumerate_sets,
    }
    return solvers, row, combined


def random_row(rng, k):
    """A submodular row: as data make them, cuts of graphs, and some between."""
    kind = rng.integers(3)
    if kind == 0:  # features and a row of them
        A = np.abs(rng.normal(size=(k, int(rng.integers(1, 12))))) * rng.uniform(0.3, 3.0)
        pairs = A @ A.T
        x = (rng.random(k) < 0.4) @ A + rng.normal(size=A.shape[1])
        weights = A @ x - 0.5 * np.diag(pairs) + rng.normal(size=k)
    elif kind == 1:  # a cut: nothing at both ends, where greedy steps are misled
        pairs = np.triu(rng.exponential(size=(k, k)) * (rng.random((k, k)) < 0.5), 1)
        pairs = 2.0 * (pairs + pairs.T)
        weights = 0.5 * pairs.sum(axis=1)
    else:
        pairs = np.abs(rng.standard_cauchy(size=(k, k)))
        pairs = np.triu(pairs, 1) + np.triu(pairs, 1).T
        weights = rng.uniform(-0.3, 1.0, size=k) * pairs.sum(axis=1)
    np.fill_diagonal(pairs, 0.0)
    own, others = rng.random(k) < 0.3, int(rng.integers(0, 4))
    if kind == 1:
        own[:] = False
    by_count = -gammaln(np.arange(others + k + 1) + 1.0)
    _, row, _ = library()
    return row.Row(weights, pairs, pairs.sum(axis=1), own, by_count, others)


def every_value(it):
    return oracle.values(it.weights, it.pairs, it.own, it.by_count, it.others)


def code(z):
    return int(z @ 2 ** np.arange(len(z) - 1, -1, -1))


def shares(rng, count):
    """Each solver's share of the way from the worst to the best: (solver, share, is the best)."""
    solvers, row, combined = library()
    for _ in range(count):
        k = int(rng.integers(2, 9))
        it = random_row(rng, k)
        F = every_value(it)
        scale = np.abs(F).max() + 1.0
        room = [np.empty(k) for _ in range(3)]
        for name, solver in solvers.items():
            z = rng.random(k) < 0.5  # whatever it held
            j = solver(rng, it, z, *room[:2])
            assert j == int((z & it.own).sum())
            told = row.worth(it, z, room[0], j)
            assert abs(told - F[code(z)]) < CLOSE * scale, name
            yield name, share(F, F[code(z)])
        z, trial = rng.random(k) < 0.5, np.empty(k, bool)
        before = F[code(z)]
        combined.solve(rng, it, combined.BEST, z, room[0], trial, *room[1:])
        assert F[code(z)] >= before - CLOSE * scale
        yield "best", share(F, F[code(z)])


def share(F, value):
    spread = F.max() - F.min()
    return 1.0 if spread < CLOSE else (value - F.min()) / spread


def promises(rng, count):
    """The least share of each solver, and how often it is the best."""
    found = {}
    for name, value in shares(rng, count):
        found.setdefault(name, []).append(value)
    return {
        name: (min(each), np.mean(np.array(each) > 1.0 - CLOSE)) for name, each in found.items()
    }


def test_every_solver_keeps_its_promise_on_ten_thousand_rows(rng):
    found = promises(rng, 10_000)
    for name in ("local_search", "double_greedy", "best"):
        assert found[name][0] > 1 / 3 - CLOSE, (name, found[name])
    assert found["exact"] == (pytest.approx(1.0), 1.0)
    assert found["best"][1] >= max(found[name][1] for name in ("local_search", "double_greedy"))


def left_by_exchanges(rng, count):
    """What a single change or an exchange would still add where the climb by exchanges ends."""
    from thali.kernels.row_solvers import exchange

    _, row, _ = library()
    for _ in range(count):
        k = int(rng.integers(2, 9))
        it = random_row(rng, k)
        F, z, slack = every_value(it), rng.random(k) < 0.5, np.empty(k)
        j = row.begin(it, z, slack)
        j = exchange.climb_by_exchanges(it, z, slack, j, np.empty(k))
        assert j == int((z & it.own).sum())
        bits = 2 ** np.arange(k - 1, -1, -1)
        single = code(z) ^ bits
        pair = (code(z) ^ bits[z][:, None] ^ bits[~z]).ravel()
        yield (F[np.concatenate([single, pair])].max() - F[code(z)]) / (1.0 + np.abs(F).max())


def test_nothing_is_left_for_an_exchange_to_add(rng):
    assert max(left_by_exchanges(rng, 2000)) < CLOSE


def test_the_promise_is_of_half_on_average(rng):
    """By the exact law of its answers, coin by coin; and by hand, where a coin is fair."""
    for _ in range(2000):
        it = random_row(rng, int(rng.integers(2, 6)))
        F = every_value(it)
        law = oracle.law_of_double_greedy(it.weights, it.pairs, it.own, it.by_count, it.others)
        assert law.sum() == pytest.approx(1.0)
        assert share(F, law @ F) > 0.5 - CLOSE
    fair = oracle.law_of_double_greedy(
        np.ones(2), 2.0 * (1.0 - np.eye(2)), np.zeros(2, bool), np.zeros(3), 0
    )
    assert fair.tolist() == [0.0, 0.5, 0.5, 0.0]  # the two ends of an edge


def p_of_draws(rng, it, draws):
    """That the randomized solver's answers follow their exact law, by χ²."""
    solvers, _, _ = library()
    law = oracle.law_of_double_greedy(it.weights, it.pairs, it.own, it.by_count, it.others)
    k = len(it.weights)
    counts, slack, upper, z = np.zeros(2**k), np.empty(k), np.empty(k), np.empty(k, bool)
    for _ in range(draws):
        solvers["randomized_double_greedy"](rng, it, z, slack, upper)
        counts[code(z)] += 1
    if counts[law < 1e-12].any():
        return 0.0
    kept = law * draws > 20.0
    seen = np.append(counts[kept], counts[~kept].sum())
    expected = np.append(law[kept], law[~kept].sum()) * draws
    seen, expected = seen[expected > 1e-9], expected[expected > 1e-9]
    return 1.0 if len(seen) < 2 else float(stats.chisquare(seen, expected).pvalue)


def test_the_randomized_solver_throws_the_right_coins(rng):
    p = {str(i): p_of_draws(rng, random_row(rng, 4), 4000) for i in range(12)}
    judge("row_solvers", p)


def test_budget_has_room_for_these_tests():
    assert TESTS["row_solvers"] == 1
