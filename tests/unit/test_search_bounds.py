"""No score is below the best that its candidate can become, and each part of one is as defined."""

from __future__ import annotations

from itertools import product
from math import comb, lgamma

import numpy as np
import pytest
from oracles import search as oracle
from oracles.search_problems import KINDS, Case

import thali
from thali.engines.search import prior_bounds
from thali.kernels import search_scores
from thali.structures.features import FeatureCounts, FeatureTables

CLOSE = 1e-9
SIZES = ((1, 6), (2, 4), (3, 3), (4, 2))  # rows, and columns at most
LARGER = ((2, 7), (3, 5), (4, 3))


def cases(rng, kind, sizes=SIZES):
    for n, cap in sizes:
        for alpha in (0.4, 2.5, 9.0):
            own = {"beta_bernoulli": {"n_components": cap - 1}, "two_parameter_ibp": {"beta": 0.6}}
            prior = oracle.Prior(kind, alpha, **own.get(kind, {}))
            sigma_x = float(np.exp(rng.uniform(-1.5, 0.5)))
            yield Case(rng.normal(size=(n, int(rng.integers(1, 4)))), prior, sigma_x, 1.2), cap
            yield Case(np.zeros((n, 1)), prior, 0.2, 1e-5), cap  # of which the prior alone decides


def every_candidate(case, cap, bound="convex", corrected=True):
    """By the library: the score of each class of first rows with up to ``cap`` columns."""
    problem = case.problem(bound)
    if not corrected:
        problem.prior_bound = prior_bounds.Paper(case.of_library, len(case.X), corrected=False)
    level, scores = [problem.root()], {}
    for rows in range(1, len(case.X) + 1):
        future = (len(case.X) - rows) * problem.most_of_row
        following = []
        for candidate in level:
            children, _ = problem.expand(
                candidate, future, expansion="all", width=None, floor=-1e300, most_new=cap
            )
            following += [child for child in children if child.k <= cap]
        for child in following:
            key = oracle.class_key(child.matrix())
            assert key not in scores, "a class is reached twice"
            scores[key] = child.score
        level = following
    return scores


def best_completions(case, scores):
    """Of each class of first rows, the highest log joint of whole matrices that begin with it."""
    best = {}
    for key in scores:
        rows, columns = key
        if rows < len(case.X):
            continue
        Z = np.array(columns, int).reshape(-1, rows).T
        value = case.log_joint(Z)
        for first in range(1, rows + 1):
            part = Z[:first, Z[:first].any(axis=0)]
            at = oracle.class_key(part)
            best[at] = max(best.get(at, -np.inf), value)
    return best


def lowest_excess(case, cap, bound="convex", corrected=True):
    """The least of score − best completion, and the most that whole matrices are off."""
    scores = every_candidate(case, cap, bound, corrected)
    best = best_completions(case, scores)
    assert best.keys() == scores.keys()
    most = min(cap, case.prior.n_components) if case.prior.finite else cap
    for rows in range(1, len(case.X) + 1):  # every class, and each once
        assert sum(key[0] == rows for key in scores) == comb(2**rows - 1 + most, most)
    excess = min(scores[key] - best[key] for key in best)
    whole = max(abs(scores[key] - best[key]) for key in best if key[0] == len(case.X))
    return excess, whole


@pytest.mark.parametrize("sizes", [SIZES, pytest.param(LARGER, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bound", ["convex", "paper"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_score_is_below_the_best_completion(kind, bound, sizes, rng):
    for case, cap in cases(rng, kind, sizes):
        excess, whole = lowest_excess(case, cap, bound)
        assert excess > -CLOSE, case
        assert whole < CLOSE, case


@pytest.mark.parametrize("kind", KINDS)
def test_as_printed_it_is_no_bound(kind, rng):
    tried = cases(rng, kind, SIZES[-1:])
    found = [lowest_excess(case, cap, "paper", False)[0] for case, cap in tried]
    assert min(found) < -0.1


# ---- the parts ----------------------------------------------------------------------------------
def test_equal_columns_are_parted_as_evenly_as_can_be():
    for left in range(4):
        for count in range(13):
            mine = search_scores.ties(count, left)
            assert np.isclose(mine, oracle.fewest_ties(count, left), atol=1e-12)
    for left, most in ((0, 6), (1, 6), (2, 5)):  # every column by itself
        for count in range(1, most + 1):
            ways = product(range(2**left), repeat=count)
            least = min(sum(lgamma(way.count(c) + 1.0) for c in set(way)) for way in ways)
            assert np.isclose(search_scores.ties(count, left), least, atol=1e-12)
    assert search_scores.ties(5, 200) == 0.0


class Any:
    """A prior with any potentials whatever."""

    def __init__(self, rng, n, capacity):
        self.odds, self.first, self.capacity = rng.normal(size=n), rng.normal(), capacity

    def tables(self, n):
        return FeatureTables(self.odds, self.first, self.capacity)

    def log_prob_counts(self, counts: FeatureCounts):
        return -1.5

    def potential(self, m):
        return self.first + sum(self.odds[i] for i in range(1, m))


def test_the_worth_of_a_dish_is_the_most_it_can_be(rng):
    bent = 0
    for n in (1, 2, 3, 7):
        for _ in range(10):
            prior = Any(rng, n, -1)
            bound = prior_bounds.Convex(prior, n)
            bent += not bound.convex
            for left in range(n):
                worth = bound.worth(left)
                assert len(worth) == n - left + 1
                assert worth[0] == 0.0
                for m in range(1, n - left + 1):
                    most = max(prior.potential(m + s) for s in range(left + 1))
                    assert np.isclose(worth[m], most, atol=1e-12)
    assert 10 < bent < 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", ["convex", "paper"])
def test_worth_and_future_are_as_defined(kind, bound):
    n = 9
    for alpha in (0.3, 2.0, 30.0):
        prior = oracle.Prior(kind, alpha, 1.6 if "two" in kind else 1.0, 5)
        library = Case(np.zeros((n, 1)), prior, 1.0, 1.0).of_library
        mine = prior_bounds.prior_bound(bound, library, n)
        assert np.isclose(mine.constant(0), prior.none(n))
        for left in range(n):
            worth = mine.worth(left)
            for m in range(1, n - left + 1):
                assert np.isclose(worth[m], oracle.best_worth(prior, m, left, n, bound))
            for free in range(6) if prior.finite else [None]:
                found = mine.future(left, -1 if free is None else 5)
                value = found[0 if free is None else free]
                assert np.isclose(value, oracle.best_future(prior, left, n, free), atol=1e-10)


def test_the_future_is_above_all_that_can_be_opened():
    """Every multiset of columns that two rows to come may open, of four that are free."""
    for alpha in (0.5, 3.0, 20.0):
        prior = oracle.Prior("beta_bernoulli", alpha, n_components=4)
        bound = prior_bounds.Convex(Case(np.zeros((3, 1)), prior, 1.0, 1.0).of_library, 3)
        for left, takers in ((1, (1,)), (2, (1, 1, 2))):
            for free in range(5):
                most = 0.0
                for c in product(range(free + 1), repeat=len(takers)):
                    if sum(c) <= free:
                        ways = lgamma(free + 1.0) - lgamma(free - sum(c) + 1.0)
                        each = zip(c, takers, strict=True)
                        value = ways + sum(
                            count * prior.potential(m, 3) - lgamma(count + 1.0) for count, m in each
                        )
                        most = max(most, float(value))
                assert bound.future(left, free)[free] >= most - 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_to_end_together_are_what_a_dish_is_among_the_rows_so_far(kind):
    n, own = 6, {"beta_bernoulli": {"n_components": 4}, "two_parameter_ibp": {"beta": 0.6}}
    prior = oracle.Prior(kind, 2.5, **own.get(kind, {}))
    bound = prior_bounds.Convex(Case(np.zeros((n, 1)), prior, 1.0, 1.0).of_library, n)
    for left in range(n):
        for m in range(1, n - left + 1):
            ways = [comb(left, s) * np.exp(bound.potential[m + s]) for s in range(left + 1)]
            assert np.isclose(bound.slack(left)[m], np.log(sum(ways)) - bound.worth(left)[m])


def test_many_dishes_expected_of_a_row_are_not_piled_up():
    """Each of 20 in 12 rows is worth having; hundreds that only ties would tell apart are not."""
    X = np.random.default_rng(0).normal(size=(12, 4))
    engine = thali.BeamSearch(3, n_init=1, init="empty", polish=False)
    likelihood = thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0)
    model = thali.LatentFeatures(thali.IBP(alpha=20.0), likelihood, engine, random_state=0).fit(X)
    assert model.history_["n_components"].max() < 100
