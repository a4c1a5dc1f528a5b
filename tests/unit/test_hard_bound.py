"""Maximization-expectation: the bound, the objective of a row, and that no update lowers either."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import hard as oracle
from oracles.hard_problems import PRIORS, problem, random_problems, without_empty

from thali.backends import local
from thali.backends.block import Block
from thali.backends.local import Local
from thali.engines.ascent import bound, moves, state
from thali.engines.ascent.point_state import SOLVERS, PointState, guarantee
from thali.likelihoods import feature_posteriors as features

ROUNDING = 1e-9  # of the bound, that an update may lower it by


def kernels():
    """Looked up when called, so that a broken copy can take a module's place."""
    from thali.kernels import hard_rows as kernel
    from thali.kernels.row_solvers import row

    return kernel, row


# ---- the bound ----------------------------------------------------------------------------------
BY_LAW = pytest.mark.parametrize("law", ["half_normal", "exponential"])  # of nonnegative features


def distance_of_bounds(rng, count, law="half_normal"):
    """How far the library's bound lies from the oracle's, both classes, relative to it."""
    for given in random_problems(rng, count, law=law):
        truth = given.by_oracle()
        yield abs(given.by_library() - truth) / (1.0 + abs(truth))
        kept = without_empty(given)
        kept.bound = kept.by_library()
        truth = kept.by_oracle(left_ordered=True)
        yield abs(kept.reported - truth) / (1.0 + abs(truth))


@BY_LAW
def test_the_bound_is_that_of_the_oracle(law, rng):
    assert max(distance_of_bounds(rng, 36, law)) < 1e-8


def test_the_left_ordered_bound_is_never_lower_and_equal_columns_lower_it(rng):
    for given in random_problems(rng, 20):
        assert given.by_oracle(left_ordered=True) >= given.by_oracle()
    Z = np.tile(rng.random((6, 1)) < 0.5, 4) | (np.arange(6)[:, None] == 0)
    given = problem(rng, Z=Z)
    given.bound = given.by_library()
    assert given.reported == pytest.approx(given.bound, abs=1e-12)  # 4!/4! orders


# ---- the objective of a row ---------------------------------------------------------------------
def objective_of_row(given, n):
    """The library's F of all rows in place of row n, in the oracle's order."""
    kernel, row = kernels()
    known, Z = given.globals(), given.rows.nu
    k = Z.shape[1]
    seen = ~np.isnan(given.X[n])
    q = np.ascontiguousarray(given.features.grams()[seen].sum(axis=0))
    x = np.where(seen, given.X[n], 0.0)
    prior = kernel.RowPrior(known.log_odds, known.own, known.in_use)
    pairs, total = np.empty((k, k)), np.empty(k)
    precision = given.hyper["sigma_x"] ** -2
    kernel.pair_costs(q, precision, pairs, total)
    likely, weights, own = np.empty(k), np.empty(k), np.empty(k, bool)
    m = Z.sum(axis=0).astype(np.int64)
    others = kernel.weigh(
        x @ given.features.phi.T, q, precision, prior, m, Z[n], likely, weights, own
    )
    it = row.Row(weights, pairs, total, own, prior.by_count, others)
    found, slack = [], np.empty(k)
    for z in oracle.sets(k):
        bits = z > 0.5
        found.append(row.worth(it, bits, slack, row.begin(it, bits, slack)))
    return np.array(found), it


def mixed_columns(rng, n, k):
    """Z whose row 0 has features of its own, shares others, and could take some that none has."""
    Z = rng.random((n, k)) < 0.5
    Z[1:, 0] = False
    Z[0, 0] = True  # its own
    Z[:, 1] = False  # no one's
    return Z


def distance_of_objectives(rng, law="half_normal"):
    """Of differences from the row without features, all rows."""
    for prior in PRIORS:
        for nonnegative, gaps, k in ((True, False, 8), (False, False, 5), (True, True, 5)):
            Z = mixed_columns(rng, 5, k)
            given = problem(rng, nonnegative, prior, gaps, n=5, k=k, Z=Z, law=law)
            ours, _ = objective_of_row(given, 0)
            theirs = []
            for z in oracle.sets(k):
                Z = given.rows.nu.copy()
                Z[0] = z
                theirs.append(oracle.bound(given.point().but(Z=Z)))
            theirs = np.array(theirs)
            scale = 1.0 + np.abs(theirs).max()
            yield np.abs((ours - ours[0]) - (theirs - theirs[0])).max() / scale


@BY_LAW
def test_differences_of_the_row_objective_are_those_of_the_bound(law, rng):
    assert max(distance_of_objectives(rng, law)) < 1e-9


def test_rows_are_submodular_where_features_have_no_negative_entries(rng):
    """F(S + i) + F(S + j) ≥ F(S + i + j) + F(S) for all S, i, j."""
    for prior in PRIORS:
        for _ in range(5):
            given = problem(rng, True, prior, n=5, k=6, Z=mixed_columns(rng, 5, 6))
            F, it = objective_of_row(given, 0)
            assert largest_return(F, 6) < 1e-9 * (1.0 + np.abs(F).max())
            assert guarantee(given.features, False, "local_search") == pytest.approx(1 / 3)
            theirs = oracle.values(it.weights, it.pairs, it.own, it.by_count, it.others)
            assert np.allclose(F, theirs, rtol=1e-10, atol=1e-9)


def largest_return(F, k):
    """The largest rise of a feature's gain by another feature."""
    worst, codes = -np.inf, np.arange(2**k)
    for i in range(k):
        for j in range(i):
            S = codes[(codes >> i & 1 == 0) & (codes >> j & 1 == 0)]
            rise = F[S | 1 << i | 1 << j] + F[S] - F[S | 1 << i] - F[S | 1 << j]
            worst = max(worst, float(rise.max()))
    return worst


def test_features_with_negative_products_are_refused_a_guarantee(rng):
    given = problem(rng, nonnegative=False, k=3, d=2)
    phi = np.array([[1.0, 1.0], [1.0, 0.5], [-1.0, 0.2]])
    law = features.GaussianFeatures(phi, 0.1 * np.eye(3), joint=False)
    for solver in SOLVERS[:-1]:
        with pytest.raises(ValueError, match=r"Features 1 and 2 .* not submodular"):
            guarantee(law, False, solver)
    assert guarantee(law, False, "exact") == 1.0
    given.features = law
    F, _ = objective_of_row(given, 0)
    assert largest_return(F, 3) > 1e-6  # and rightly so
    positive = features.GaussianFeatures(np.abs(phi), 0.1 * np.eye(3), joint=False)
    assert guarantee(positive, False, "best") == pytest.approx(1 / 3)
    # a row that shows the second column only
    mixed = features.GaussianFeatures(np.array([[2.0, 1.0], [2.0, -1.0]]), np.eye(2), joint=False)
    assert guarantee(mixed, False, "best") > 0.0
    with pytest.raises(ValueError, match="not submodular"):
        guarantee(mixed, True, "best")


# ---- no update lowers the bound -----------------------------------------------------------------
class Watch:
    """The largest fall of the oracle's bound, relative to it, by each kind of update."""

    def __init__(self, given):
        self.given, self.falls, self.value = given, {}, given.by_oracle()

    def after(self, name, told=None):
        now = self.given.by_oracle(left_ordered=told == "reported")
        self.note(name, (now - self.value) / (1.0 + abs(now)))
        if told:
            off = abs(getattr(self.given, told) - now)
            self.note(f"bound after {name}", -off / (1.0 + abs(now)))
        self.value = now

    def note(self, name, gain):
        self.falls[name] = max(self.falls.get(name, -np.inf), -float(gain))


def each_row(given, watch):
    """One row after the other, with the counts as they are then."""
    whole, known = given.rows.nu, given.globals()
    for n in range(given.data.n):
        one = slice(n, n + 1)
        m = whole.sum(axis=0).astype(np.int64)
        local.hard_rows(given.rng, given.data.part(one), given.rows.part(one), known, m, True)
        watch.note("counts", -np.abs(m - whole.sum(axis=0)).max())
        watch.after("row")


def falls(rng, count, law="half_normal"):
    """How far each update lowers the bound: (kind, fall) of random problems."""
    for i, given in enumerate(random_problems(rng, count, law=law)):
        given.solver = SOLVERS[i % len(SOLVERS)]
        watch = Watch(given)
        each_row(given, watch)
        found = PointState.local_step(given)
        watch.after("rows")
        given.side_by_side, given.backend = True, Local(2, most=2)
        given.rows.nu[:] = given.rng.random(given.rows.nu.shape) < 0.5
        watch.value = given.by_oracle()
        PointState.local_step(given)
        watch.after("rows side by side")
        given.side_by_side, given.backend = False, Local()
        found = PointState.local_step(given)
        watch.value = given.by_oracle()
        hyper = given.hyper
        given.features = given.features.updated(found, hyper["sigma_x"], hyper["sigma_a"])
        watch.after("features")
        given.fit_prior(found)
        watch.after("prior")
        squares = features.expected_squares(found, given.features)
        given.hyper["sigma_x"] = bound.best_scale(
            given.model.hyperpriors["sigma_x"], squares, found.entries, hyper["sigma_x"]
        )
        watch.after("σ_x")
        squares, total = given.features.of_scale()
        given.hyper["sigma_a"] = bound.best_scale(
            given.model.hyperpriors["sigma_a"], squares, given.features.phi.size,
            hyper["sigma_a"], total,
        )  # fmt: skip
        watch.after("σ_a")
        for _ in range(3):
            state.iterate(given)
            watch.after("iteration", told="bound")
        watch.value = given.by_oracle(left_ordered=True)
        for _ in range(2):
            given.advance()
            watch.after("step", told="reported")
        moves.drop_features(given)
        watch.after("drop", told="reported")
        moves.join_features(given)
        watch.after("join", told="reported")
        moves.add_feature(given, given.rng)
        watch.after("birth", told="reported")
        given.births = moves.SURE
        moves.add_features(given, given.rng)
        watch.after("births", told="reported")
        yield from watch.falls.items()


@pytest.mark.parametrize("count", [24, pytest.param(100, marks=pytest.mark.slow)])
@BY_LAW
def test_no_update_lowers_the_bound(law, count, rng):
    found = {}
    for name, fall in falls(rng, count, law):
        found[name] = max(found.get(name, -np.inf), fall)
    kinds = {"row", "counts", "rows", "rows side by side", "features", "prior", "σ_x", "σ_a"}
    for name in ("iteration", "step", "drop", "join", "birth", "births"):
        kinds |= {name, f"bound after {name}"}
    assert found.keys() == kinds
    assert max(found.values()) < ROUNDING, found


@pytest.mark.parametrize(("each", "taken"), [(0.1, False), (0.5, True)])
def test_a_block_that_would_lower_the_bound_is_put_back(each, taken, rng, monkeypatch):
    """Two rows gain by a new feature each, but less together: there are then log 3 − log 2 more
    orders of the columns to pay for than both think."""
    A = 3.0 * np.eye(3)
    Z = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]])
    given = problem(rng, n=4, d=3, k=3, Z=Z)
    X = A[[1, 2, 0, 0]]
    given.data = Block(X, None, (X**2).sum(axis=1))
    given.features = features.NonnegativeFeatures.of(A, np.full((3, 3), 1e-3))
    tables = given.frequencies.prior.tables(4)
    own = 0.5 * 9.0 / given.hyper["sigma_x"] ** 2 + tables.new_log_weight - np.log(2.0)
    gains = np.array([0.0, each - own, each - own])
    monkeypatch.setattr(features.NonnegativeFeatures, "gains", lambda self, sigma_a: gains)
    known = given.globals()
    found = Local(2, most=2).hard_step(
        rng, given.data, given.rows, known._replace(side_by_side=True)
    )
    after = Z.copy()
    if taken:
        after[0, 1] = after[1, 2] = 1
    assert np.array_equal(given.rows.nu, after)
    assert np.array_equal(found.C, after.T @ after)
    assert np.array_equal(found.T, after.T @ X)
