"""Single moves (algorithm 2) against full enumeration of left-ordered classes.

Every likelihood of ``test_row_potentials``, under potentials of column sums, of row sums too, and
under features that are no sum over either; from complete data, and beside a column of which nothing
was observed. Priors of the buffet are in ``test_ladder``. Broken variants are caught.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from oracles import features as oracles
from oracles.features import PriorSpec
from row_weighted import THETA
from scipy.special import gammaln
from statistical.budget import TESTS, alarms, judge
from statistical.mutants import mutate
from statistical.test_flexible_ibp import POTENTIALS, Told
from statistical.test_row_potentials import CASES as OTHERS
from statistical.test_row_potentials import flat, p_values

import thali
from thali.data import Data
from thali.model import Model
from thali.starts import Start

LIKELIHOODS = ("linear", "nonnegative", "sparse", "noisy or")
WEIGHTS = (-0.25, 0.5)
KINDS = ("columns", "rows", "features")
CASES = [(name, kind, False) for name in LIKELIHOODS for kind in KINDS] + [
    (name, kind, True) for name in LIKELIHOODS for kind in ("rows", "features")
]
QUICK = [("linear", "features", True), ("sparse", "features", False), ("noisy or", "rows", True)]


def of_sums(m, n):
    """The square of the number of features, and whether all rows have as many."""
    return [m.sum() ** 2, float((n > 0).sum() == 1)]


class Whole(Told):
    """The prior with these features, as the oracles see it."""

    def log_classes(self, counts, n):
        logs, alpha = super().log_classes(counts, n)
        h = oracles.histories(n)
        by_sum = np.stack([h.sum(axis=1) == i for i in range(1, n + 1)], axis=1)
        m, rows = counts @ by_sum, (counts @ h).astype(int)
        phi = [of_sums(a, np.bincount(b)) for a, b in zip(m, rows, strict=True)]
        return logs + np.array(phi) @ WEIGHTS, alpha


def prior_of(name, kind):
    own = POTENTIALS[len(OTHERS[name][3])]
    if kind == "features":
        return thali.FlexibleIBP(own, None, of_sums, WEIGHTS)
    return thali.FlexibleIBP(own, THETA if kind == "rows" else None)


@cache
def exact(name, kind):
    _, _, oracle, X, _, cap = OTHERS[name]
    told = Whole if kind == "features" else Told
    own = POTENTIALS[len(X)]
    return oracle(told(theta=THETA if kind == "rows" else (0.0,), potentials=own), X, cap)


def walk(prior, name, seed, sweeps, engine=None, gaps=False, likelihood=None, X=None):
    """K and ZZ' of every sweep of one chain, after its first."""
    _, own, _, given, _, _ = OTHERS[name]
    X, rng = np.array(given if X is None else X, float), np.random.default_rng(seed)
    if gaps:
        X = np.column_stack([X, np.full(len(X), np.nan)])
    model, data = Model(prior, likelihood or own), Data.of(X)
    engine = engine or thali.Metropolis()
    state = engine.begin(
        rng, model, data, Start("empty", np.zeros((len(X), 0), bool), model.start(data))
    )
    K, gram = np.zeros(sweeps), np.zeros((sweeps, len(X), len(X)))
    for i in range(-100, sweeps):
        engine.step(rng, model, data, state)
        if i >= 0:
            Z = state.latent.astype(float)
            assert Z.any(axis=0).all()
            K[i], gram[i] = Z.shape[1], Z @ Z.T
    return K, gram


@pytest.mark.parametrize(
    ("name", "kind", "gaps"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_moves_agree_with_enumeration(name, kind, gaps, seed):
    chain = walk(prior_of(name, kind), name, seed, 1500, gaps=gaps)
    judge("metropolis", p_values(exact(name, kind), *chain))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("way", ["integrated", "prior"])
def test_moves_agree_with_enumeration_closely(name, kind, way, seed):
    engine = thali.Metropolis(new_features=way, block=1 if way == "prior" else 7)
    chain = walk(prior_of(name, kind), name, seed, 15_000, engine)
    judge("metropolis", p_values(exact(name, kind), *chain))


FOUR = [[1.1, -0.9], [1.6, 0.5], [-0.4, 1.2], [1.3, 0.1]]
ALGORITHMS = {
    "collapsed": (thali.CollapsedGibbs(moves=4), False),
    "kept": (thali.UncollapsedGibbs(), False),
    "single moves": (thali.Metropolis(), False),
    "single moves, features": (thali.Metropolis(), True),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "kept" else pytest.mark.slow) for n in ALGORITHMS]
)
def test_four_rows_agree_with_enumeration(name, seed):
    """Both algorithms, with row potentials, over the 15,504 classes of up to five features."""
    engine, features = ALGORITHMS[name]
    own = (-1.8, -1.6, -2.2, -0.9)
    prior = thali.FlexibleIBP(own, THETA)
    told = Told(theta=THETA, potentials=own)
    if features:
        prior = prior.replace(features=of_sums, weights=WEIGHTS)
        told = Whole(theta=THETA, potentials=own)
    answer = OTHERS["linear"][2](told, FOUR, 5)
    chain = walk(prior, "linear", seed, 2500, engine, X=FOUR)
    judge("metropolis", p_values(answer, *chain))


def falling(most):
    """log most!/(most − K)!: what a limited number of features has beside its potentials."""

    def features(m, n):
        k = int(m.sum())
        return [gammaln(most + 1.0) - gammaln(most - k + 1.0) if k <= most else -np.inf]

    return features


def test_features_can_be_those_of_a_finite_prior(seed):
    """The Beta-Bernoulli prior as potentials, and a feature of the number in use."""
    most, spec = 4, PriorSpec("finite", 2.0, n_components=4)
    own = thali.BetaBernoulli(alpha=2.0, n_components=most)
    tables = own.tables(3)
    potentials = np.cumsum([tables.new_log_weight, *tables.log_odds[1:]])
    prior = thali.FlexibleIBP(tuple(potentials), None, falling(most), (1.0,))
    rng = np.random.default_rng(seed)
    drawn = [own.sample(rng, 3) for _ in range(30)]
    apart = [prior.log_prob(Z) - own.log_prob(Z) for Z in drawn]
    np.testing.assert_allclose(apart, apart[0])
    X = OTHERS["linear"][3]
    chain = walk(prior, "linear", seed, 2500)
    judge("metropolis", p_values(OTHERS["linear"][2](spec, X, 4), *chain))


def test_the_number_of_cases_is_told():
    closely = 2 * len(KINDS) * len(LIKELIHOODS)
    assert TESTS["metropolis"] == len(CASES) + closely + len(ALGORITHMS) + 1


# ---- broken variants --------------------------------------------------------------------------

MODULE = "thali.kernels.single_moves"
FLAT = thali.LinearGaussian(30.0, 0.001)
BROKEN = {
    "k < K": [
        (
            "            f = int(rng.random() * k)\n",
            "            if k == 1:\n                continue\n"
            "            f = int(rng.random() * (k - 1))\n",
        )
    ],
    "births without their factor": [("math.log((k + 1.0) / (k + 2.0)) + delta", "delta")],
    "deaths without their factor": [("math.log((k + 1.0) / k) - delta", "-delta")],
    "equal singletons are not counted": [
        (
            "            delta += loss(rows, n, f, drawn)\n",
            "            delta += loss(rows, n, f, drawn)\n"
            "            for g in range(k):\n"
            "                if g != f and m[g] == 1 and Z[n, g]:\n"
            "                    delta -= math.log(2.0)\n",
        )
    ],
    "row potentials without own features": [
        ("delta = tables.new_log_weight + free + row_step(theta, F[n])", "delta = 0.0"),
        (
            "            delta += propose(rows, rng, n, k, drawn)\n",
            "            shared = 0\n"
            "            for g in range(k):\n"
            "                shared += Z[n, g] * (m[g] > 1)\n"
            "            delta += tables.new_log_weight + free + row_step(theta, shared)\n"
            "            delta += propose(rows, rng, n, k, drawn)\n",
        ),
    ],
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_moves_are_caught(name, seed, monkeypatch):
    """Of two rows with few columns, or with many equal ones, whose data say nothing."""
    rows = THETA if "row" in name else None
    own = (0.3, 0.1) if rows else (0.7, 0.2) if "equal" in name else (-1.0, 0.2)
    told = Told(theta=rows or (0.0,), potentials=own)
    answer = flat(told, OTHERS["nonnegative"][3], 9)
    prior = thali.FlexibleIBP(own, rows)
    settings = {"likelihood": FLAT, "engine": thali.Metropolis(moves=20)}
    right = walk(prior, "nonnegative", seed, 3000, **settings)
    assert not alarms(p_values(answer, *right))
    broken = mutate(MODULE, BROKEN[name])
    monkeypatch.setattr(f"{MODULE}.make_moves", broken.make_moves)
    wrong = walk(prior, "nonnegative", seed, 3000, **settings)
    assert alarms(p_values(answer, *wrong))


def test_features_that_are_not_heeded_are_caught(seed, monkeypatch):
    prior = prior_of("linear", "features")
    monkeypatch.setattr(thali.FlexibleIBP, "linear", True)
    chain = walk(prior, "linear", seed, 1500)
    assert alarms(p_values(exact("linear", "features"), *chain))


def test_a_number_of_moves_that_follows_the_features_is_caught(seed):
    """As many moves as there are bits now: what is left invariant is another law."""
    answer = flat(Told(theta=(0.0,), potentials=(0.7, 0.2)), OTHERS["nonnegative"][3], 9)

    class Follows(thali.Metropolis):
        def update_matrix(self, rng, model, state):
            state.moves = 1 + 2 * state.n_components
            super().update_matrix(rng, model, state)

    prior, settings = thali.FlexibleIBP((0.7, 0.2)), {"likelihood": FLAT}
    chain = walk(prior, "nonnegative", seed, 6000, engine=Follows(), **settings)
    assert alarms(p_values(answer, *chain))


def test_blocks_that_are_judged_wrongly_are_caught(seed, monkeypatch):
    """What φ was before a block that was not accepted is forgotten: the next is held against it."""
    from thali.engines.metropolis import Moving

    own = Moving.beyond_tables
    seen = []

    def stale(moving):
        seen.append(own(moving))
        return seen[max(len(seen) - 2, 0)]  # of one block ago

    monkeypatch.setattr(Moving, "beyond_tables", stale)
    chain = walk(prior_of("linear", "features"), "linear", seed, 2500)
    assert alarms(p_values(exact("linear", "features"), *chain))
