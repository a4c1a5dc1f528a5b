"""What follows a candidate, and scores that are kept up along whole searches, by definition."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import search as oracle
from oracles.search_problems import KINDS, larger

from thali.engines.search.best_first import BestFirst
from thali.engines.search.heuristics import heuristic

CLOSE = 1e-8


def left_ordered(Z):
    """Columns in the order in which they were opened, equal ones side by side."""
    columns = sorted((c for c in map(tuple, Z.T.astype(int).tolist()) if any(c)), reverse=True)
    return np.array(columns, int).reshape(len(columns), len(Z)).T


def candidate(rng, kind, k, rows=7, n=9, d=3, equal=True, bound="convex"):
    """A case, its problem, and a candidate of the first rows."""
    case = larger(rng, kind, n, d, 3, n_components=k + 2)
    Z = rng.random((rows, k)) < 0.4
    if equal and k > 1:
        Z[:, rng.integers(k, size=k // 2)] = Z[:, :1]
    Z = left_ordered(Z)
    problem = case.problem(bound)
    evidence = oracle.log_marginal(case.X[:rows], Z, case.sigma_x, case.sigma_a)
    return case, problem, problem.restored(Z.astype(bool), 0.0, evidence)


def expanded(problem, at, guess, name, **options):
    rows = at.rows + 1
    future = heuristic(guess, problem, np.random.default_rng(0)).future(rows)
    children, lost = problem.expand(at, future, expansion=name, **options)
    found = {}
    for child in children:
        key = oracle.class_key(child.matrix())
        assert key not in found, "a row is scored twice"
        found[key] = child
    return found, lost


def by_definition(case, at, bound, guess, most_new):
    """The score of every class with one row more."""
    most = case.prior.n_components if case.prior.finite else np.inf
    return {
        oracle.class_key(Z): case.score(Z, bound, guess)
        for Z in oracle.next_rows(at.matrix(), most_new)
        if Z.shape[1] <= most
    }


def distance_of_rows(rng, kind, bound, guess, k, most_new=3, **shape):
    """The largest error of a score or evidence, over all rows that may follow."""
    case, problem, at = candidate(rng, kind, k, bound=bound, **shape)
    options = {"width": None, "floor": -1e300, "most_new": most_new}
    found, _ = expanded(problem, at, guess, "all", **options)
    truth = by_definition(case, at, bound, guess, most_new)
    if found.keys() != truth.keys():
        return np.inf
    of_data = [
        abs(
            child.evidence
            - oracle.log_marginal(case.X[: child.rows], child.matrix(), *case.numbers[1:])
        )
        for child in found.values()
    ]
    return max([abs(found[key].score - truth[key]) for key in truth] + of_data)


@pytest.mark.parametrize("guess", ["admissible", "inadmissible", "trivial"])
@pytest.mark.parametrize("bound", ["convex", "paper", "so_far"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_scored_once_and_as_defined(kind, bound, guess, rng):
    for k in (0, 1, 2, 4):
        for rows, n in ((5, 6), (4, 6), (4, 9)):
            shape = {"rows": rows, "n": n, "d": int(rng.integers(1, 9))}
            assert distance_of_rows(rng, kind, bound, guess, k, **shape) < CLOSE


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_rows_are_kept_and_the_best_of_the_others_is_known(kind, rng):
    for k in (1, 3, 5):
        case, problem, at = candidate(rng, kind, k, equal=False)
        truth = by_definition(case, at, "convex", "admissible", 6)
        order = sorted(truth.values(), reverse=True)
        for width in (1, 4, 25):
            found, lost = expanded(problem, at, "admissible", "all", width=width, most_new=6)
            kept = sorted((child.score for child in found.values()), reverse=True)
            assert np.allclose(kept, order[: len(kept)], atol=CLOSE)
            assert len(kept) == min(width, len(order))
            assert lost >= max(order[len(kept) :], default=-np.inf) - CLOSE
        floor = order[len(order) // 3]
        found, lost = expanded(
            problem, at, "admissible", "all", width=None, floor=floor - 1e-6, most_new=6
        )
        assert len(found) == sum(value > floor - 1e-6 for value in order)
        assert order[len(found)] - CLOSE <= lost


# ---- the beam within a row ----------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_within_the_row_finds_rows_with_their_scores(kind, rng):
    for k in (0, 1, 3, 6):
        for bound in ("convex", "so_far"):
            case, problem, at = candidate(rng, kind, k, bound=bound)
            truth = by_definition(case, at, bound, "admissible", 4)
            for width in (1, 12, None):
                found, lost = expanded(problem, at, "admissible", "within", width=width, most_new=4)
                assert found
                assert lost == np.inf
                assert max(abs(truth[key] - found[key].score) for key in found) < CLOSE


def best_found(rng, count, width):
    """The share of random candidates whose best row the beam within it finds."""
    hits = 0
    for i in range(count):
        k = int(rng.integers(4, 11))
        _, problem, at = candidate(
            rng, KINDS[i % 3], k, rows=30, n=32, d=int(rng.integers(2, 12)), equal=i % 4 == 0
        )
        best = [
            max(child.score for child in problem.expand(at, 0.0, expansion=name, width=width)[0])
            for name in ("all", "within")
        ]
        assert best[1] <= best[0] + CLOSE
        hits += best[1] >= best[0] - CLOSE
    return hits / count


@pytest.mark.parametrize("width", [1, 20])
def test_it_finds_the_best_row_nearly_always(width, rng):
    assert best_found(rng, 150, width) > 0.95  # 0.991 and 0.999 of a thousand


def test_an_unlimited_queue_leaves_the_beam_within_a_row_as_it_is(rng):
    """2^K rows of room for a beam that is not exact would be too many to have."""
    case, problem, at = candidate(rng, "ibp", 45, rows=60, n=62, d=30, equal=False)
    children, _ = problem.expand(at, 0.0, expansion="within", width=None)
    scores = [case.score(child.matrix(), heuristic="trivial") for child in children[:3]]
    assert np.allclose(scores, [child.score for child in children[:3]], atol=CLOSE)


# ---- whole searches -----------------------------------------------------------------------------
SEARCHES = [  # prior, rows, dimensions, features, width, expansion, bound, heuristic
    ("ibp", 40, 6, 5, 10, "all", "convex", "admissible"),
    ("ibp", 45, 60, 6, 5, "within", "convex", "inadmissible"),
    ("beta_bernoulli", 40, 10, 8, 6, "all", "paper", "inadmissible"),
    ("beta_bernoulli", 30, 50, 12, 4, "within", "so_far", "trivial"),
    ("two_parameter_ibp", 60, 20, 10, 5, "auto", "convex", "inadmissible"),
]


def drift_of_search(rng, kind, n, d, k, width, expansion, bound, guess, every=4):
    """The largest error of scores and of evidence among candidates that a search took."""
    case = larger(rng, kind, n, d, k, sigma_x=0.3)
    problem = case.problem(bound)
    search = BestFirst(problem, heuristic(guess, problem, rng), width=width, expansion=expansion)
    worst, most, taken = 0.0, 0, 0
    over = False
    while not over:
        over = search.advance(1)
        at, taken = search.last, taken + 1
        if at.rows == 0 or not (over or taken % every == 0):
            continue
        Z = at.matrix()
        most = max(most, at.k)
        data = oracle.log_marginal(case.X[: at.rows], Z, case.sigma_x, case.sigma_a)
        worst = max(worst, abs(at.evidence - data), abs(at.score - case.score(Z, bound, guess)))
        arrays = problem.kept(at).arrays
        M = np.linalg.inv(Z.T.astype(float) @ Z + problem.r * np.eye(at.k))
        worst = max(worst, np.abs(arrays.M[0] - M).max(initial=0.0))
        same = [c > 0 and (Z[:, c] == Z[:, c - 1]).all() for c in range(at.k)]
        assert problem.kept(at).same.tolist() == same
    assert search.answer is not None
    assert search.answer.rows == n
    return worst, most


@pytest.mark.parametrize("settings", SEARCHES, ids=lambda s: "-".join(map(str, s)))
def test_scores_do_not_drift(settings, rng):
    worst, most = drift_of_search(rng, *settings)
    assert worst < CLOSE
    assert most >= 3


def test_features_reach_a_dozen(rng):
    assert max(drift_of_search(rng, *SEARCHES[i], every=50)[1] for i in (3, 4)) >= 10
