"""The sampler of partitions: statistics of clusters, sweeps and moves, against all partitions."""

from functools import partial

import numpy as np
import pytest
from oracles import partitions as oracle
from scipy.special import gammaln, softmax
from statistical.mutants import mutate

from thali.kernels import cluster_moves, cluster_rows, groups
from thali.kernels.categories import CategoryGroups
from thali.kernels.cluster_rows import Slots
from thali.kernels.dirichlet_multinomial import MultinomialGroups
from thali.kernels.normal_gamma import NormalGammaGroups
from thali.kernels.normal_wishart import NormalWishartGroups
from thali.priors.flexible_partition import FlexiblePartition
from thali.priors.pitman_yor import DirichletProcess, PitmanYor
from thali.structures.labels import all_partitions, canonical_labels

KAPPA, SHAPE, RATE = 0.3, 1.4, np.array([0.8, 2.0])
NORMAL_GAMMA = partial(oracle.normal_gamma_predictive, kappa=KAPPA, shape=SHAPE, rate=RATE)
DEGREES, SCALE = 4.5, np.array([[1.2, 0.3], [0.3, 2.0]])
NORMAL_WISHART = partial(
    oracle.normal_wishart_predictive, kappa=KAPPA, degrees=DEGREES, scale=SCALE
)
PRIORS = {
    "dirichlet_process": DirichletProcess(alpha=1.3),
    "pitman_yor": PitmanYor(alpha=0.5, discount=0.4),
    "flexible": FlexiblePartition((0.5, -0.4, 1.2, 0.3, 2.0, 2.5)),
}


def normal_gamma(X, room):
    arrays = [np.zeros((room, X.shape[1])) for _ in range(3)]
    gammas = gammaln(SHAPE + 0.5 * np.arange(len(X) + 2))
    return NormalGammaGroups(X, KAPPA, SHAPE, RATE, gammas, *arrays, *np.zeros((2, room)))


def normal_wishart(X, room):
    d = X.shape[1]
    factor = np.linalg.cholesky(SCALE)
    empty = [np.zeros((room, d)), np.zeros((room, d, d)), np.zeros(room), np.zeros(room)]
    return NormalWishartGroups(X, KAPPA, DEGREES, factor, *empty, np.zeros((room, d)))


WEIGHTS = [[0.7, 1.5], [0.4, 0.4, 0.4]]
WEIGHT = 0.6


def as_codes(X):
    """A binary column, a column of three values, an entry missing."""
    codes = np.stack([X[:, 0] > 0.5, np.digitize(X[:, 1], [2.0, 4.0])], axis=1).astype(np.int64)
    codes[1, 1] = -1
    return codes


def categories(X, room):
    flat = np.concatenate(WEIGHTS)
    totals = np.array([sum(own) for own in WEIGHTS])
    empty = [np.zeros((room, 5)), np.zeros((room, 2))]
    return CategoryGroups(X, np.array([0, 2, 5]), flat, totals, *empty)


def as_counts(X):
    """Rows of counts, some above what a product is taken of, one of nothing."""
    counts = np.rint(np.abs(np.column_stack([X, X[:, :1] * X[:, 1:]]))).astype(np.int64)
    counts[2, 0], counts[3] = 9, 0
    return counts


def multinomial(X, room):
    rows, values = np.nonzero(X)
    lengths = X.sum(axis=1).astype(float)
    coefficients = gammaln(lengths + 1.0) - gammaln(X + 1.0).sum(axis=1)
    ends = np.searchsorted(rows, np.arange(len(X) + 1))
    times = X[rows, values].astype(float)
    empty = [np.zeros((room, X.shape[1])), np.zeros(room), np.zeros(room)]
    return MultinomialGroups(ends, values, times, lengths, coefficients, WEIGHT, *empty)


CATEGORIES = partial(oracle.categories_predictive, weights=WEIGHTS)
MULTINOMIAL = partial(oracle.multinomial_predictive, weight=WEIGHT)
TABLES = {"categories": as_codes, "dirichlet_multinomial": as_counts}
LIKELIHOODS = {
    "categories": (categories, CATEGORIES),
    "dirichlet_multinomial": (multinomial, MULTINOMIAL),
    "normal_gamma": (normal_gamma, NORMAL_GAMMA),
    "normal_wishart": (normal_wishart, NORMAL_WISHART),
}


def predictive_of(own, slot, i, size):
    out = np.zeros(1)
    groups.log_predictives(own, np.array([slot]), np.full(slot + 1, size), 1, i, out, np.inf)
    return out[0]


def slots_of(labels, room):
    order, none = np.arange(room), np.zeros(room, np.int64)
    return Slots(labels.astype(np.int64), none, none.copy(), order, order.copy())


@pytest.fixture
def X(rng):
    return rng.normal(size=(6, 2)) * 1.5 + np.array([0.4, 3.0])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_statistics_are_those_of_the_rows(likelihood, X):
    """Rows come and go; densities are those of the rows that are there."""
    X = TABLES.get(likelihood, np.asarray)(X)
    make, predictive = LIKELIHOODS[likelihood]
    own, size = make(X, 2), 0
    groups.clear(own, 1)
    here = []
    for i, entering in [(0, 1), (1, 1), (2, 1), (1, 0), (4, 1), (0, 0), (3, 1)]:
        size += 1 if entering else -1
        (groups.add if entering else groups.remove)(own, 1, i, size)
        here = [*here, i] if entering else [j for j in here if j != i]
        assert np.isclose(predictive_of(own, 1, 5, size), predictive(X[5], X[here]))
        expected = oracle.log_marginal(X[here], predictive)
        assert np.isclose(groups.log_marginal(own, 1, size), expected)
    for i in list(here):
        size -= 1
        groups.remove(own, 1, i, size)
    assert size == 0
    again = make(X, 2)
    groups.clear(again, 1)
    for now, empty in zip(own, again, strict=True):  # exactly empty, not what rounding left
        if np.ndim(now) and len(now) == 2 and now is not own[-1]:
            assert np.array_equal(now[1], empty[1])


def test_many_columns_neither_overflow_nor_underflow(rng):
    X = rng.normal(size=(5, 2)) * 1e3
    X = np.tile(X, (1, 400))
    arrays = [np.zeros((1, 800)) for _ in range(3)]
    rate = np.tile([1e-9, 1e9], 400)
    gammas = gammaln(SHAPE + 0.5 * np.arange(7))
    own = NormalGammaGroups(X, KAPPA, SHAPE, rate, gammas, *arrays, *np.zeros((2, 1)))
    cluster_rows.fill(own, slots_of(np.zeros(5), 1), 5)
    predictive = partial(oracle.normal_gamma_predictive, kappa=KAPPA, shape=SHAPE, rate=rate)
    assert np.isclose(
        cluster_rows.log_marginals(own, slots_of_filled(5), 1), oracle.log_marginal(X, predictive)
    )


def slots_of_filled(n):
    slots = slots_of(np.zeros(n), 1)
    slots.sizes[0] = slots.seen[0] = n
    return slots


def noise(law, count):
    """The distance in total variation that so many independent draws have on average."""
    return 0.5 * np.sqrt(2.0 * law * (1.0 - law) / (np.pi * count)).sum()


def begin(X, labels, room, make=normal_gamma):
    own, slots = make(X, room), slots_of(labels, room)
    cluster_rows.fill(own, slots, len(X))
    alone = np.zeros(len(X))
    empty = make(X, 1)
    groups.clear(empty, 0)
    cluster_rows.log_alone(empty, 0, alone)
    return own, slots, alone


def law_of_sweeps(module, likelihood, prior, X, rng, count, to_come=0):
    """Of every partition, how often sweeps were there, and its probability.

    Rows to come are among those enumerated, and add nothing to the density.
    """
    make, predictive = LIKELIHOODS[likelihood]
    rows, n = len(X), len(X) + to_come
    own, slots, alone = begin(X, np.zeros(n), n + 1, make)
    tables, k, found = prior.tables(n), 1, {}
    for _ in range(count):
        k, at = module.sweep(rng, own, slots, k, alone, tables.join, tables.open, 0)
        assert at == n
        key = tuple(canonical_labels(slots.labels))
        found[key] = found.get(key, 0) + 1
    every = [np.array(labels) for labels in all_partitions(n)]
    logs = [
        prior.log_prob(labels) + oracle.log_likelihood(X, labels[:rows], predictive)
        for labels in every
    ]
    seen = np.array([found.get(tuple(c), 0) for c in every]) / count
    return every, seen, softmax(logs)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", PRIORS)
def test_sweeps_have_the_law_of_all_partitions(likelihood, name, X, rng):
    X = TABLES.get(likelihood, np.asarray)(X)[:5]
    every, seen, law = law_of_sweeps(cluster_rows, likelihood, PRIORS[name], X, rng, 10000)
    assert 0.5 * np.abs(seen - law).sum() < 2.0 * noise(law, 10000)
    together = np.array([[c[0] == c[1], c[2] == c[4], c.max() == 1] for c in every], float)
    # draws are correlated, but on five rows not much
    assert np.abs(seen @ together - law @ together).max() < 0.02


def test_rows_to_come_have_the_law_of_the_prior_given_the_others(X, rng):
    _, seen, law = law_of_sweeps(
        cluster_rows, "normal_gamma", PRIORS["flexible"], X[:3], rng, 20000, 3
    )
    assert 0.5 * np.abs(seen - law).sum() < 2.0 * noise(law, 20000)


PRINTED = """    if k > 0 and slots.sizes[before] > 0:
        logs[slots.place[before]] += join[slots.sizes[before] + 1] - join[slots.sizes[before]]
    logs[k] = opening[k] +"""
BROKEN = {
    "a row that leaves is not taken out of the statistics": [
        ("remove(groups, slot, i, slots.seen[slot])", "pass")
    ],
    "eq. 6 as printed, which weighs staying by the size with the row in": [
        ("    rows = len(alone)\n    slot =", "    rows = len(alone)\n    slot = before ="),
        ("    logs[k] = opening[k] +", PRINTED),
    ],
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_sweeps_have_another_law(what, X, rng):
    broken = mutate("thali.kernels.cluster_rows", BROKEN[what])
    prior = PRIORS["dirichlet_process"]
    _, seen, law = law_of_sweeps(broken, "normal_gamma", prior, X[:5], rng, 6000)
    assert 0.5 * np.abs(seen - law).sum() > 3.0 * noise(law, 6000)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_how_unsure_labels_are_given_all_others(likelihood, X):
    make, predictive = LIKELIHOODS[likelihood]
    X, prior, expected = TABLES.get(likelihood, np.asarray)(X)[:5], PRIORS["pitman_yor"], 0.0
    labels = np.array([0, 1, 0, 2, 1])
    for i in range(5):
        logs = {}
        for k in range(4):
            moved = labels.copy()
            moved[i] = k
            c = canonical_labels(moved)
            logs[tuple(c)] = prior.log_prob(c) + oracle.log_likelihood(X, c, predictive)
        law = softmax(list(logs.values()))
        expected -= (law * np.log(law)).sum()
    own, slots, alone = begin(X, labels, 6, make)
    sizes = slots.sizes.copy()
    found = cluster_rows.uncertainty(own, slots, 3, alone, *prior.tables(5))
    assert found == pytest.approx(expected, rel=1e-8)
    assert (slots.sizes == sizes).all()
    assert (slots.labels == labels).all()


def test_a_sweep_says_where_there_is_no_slot_left(X, rng):
    prior, n = DirichletProcess(alpha=1e6), len(X)
    own, slots, alone = begin(X, np.zeros(n), 3)
    tables = prior.tables(n)
    k, at = cluster_rows.sweep(rng, own, slots, 1, alone, tables.join, tables.open, 0)
    assert k == 3
    assert at < n
    assert sorted(slots.sizes) == sorted(np.bincount(slots.labels, minlength=3))


# ---- splits and merges ---------------------------------------------------------------------------


def law_of_moves(module, likelihood, prior, X, rng, count, sweeps_too=False):
    n, (make, predictive) = len(X), LIKELIHOODS[likelihood]
    own, slots, alone = begin(X, np.zeros(n), n + 2, make)
    tables, k, found, accepted = prior.tables(n), 1, {}, 0
    for _ in range(count):
        k, made = module.split_or_merge(rng, own, slots, k, n, tables.join, tables.open, 1, 1)
        accepted += made
        if sweeps_too:
            k, _ = cluster_rows.sweep(rng, own, slots, k, alone, tables.join, tables.open, 0)
        key = tuple(canonical_labels(slots.labels))
        found[key] = found.get(key, 0) + 1
    sizes = np.bincount(slots.labels, minlength=n + 2)
    assert (slots.sizes == sizes).all()
    assert (slots.seen == sizes).all()
    assert sorted(slots.active[:k]) == np.flatnonzero(sizes).tolist()
    assert (slots.active[slots.place] == np.arange(n + 2)).all()
    again, other = make(X, n + 2), slots_of(slots.labels, n + 2)
    cluster_rows.fill(again, other, n)
    for now, filled in zip(own[:-1], again[:-1], strict=True):  # slots out of use are empty
        assert np.allclose(now, filled)
    every, law = oracle.posterior(X, prior.log_prob, predictive)
    seen = np.array([found.get(tuple(c), 0) for c in every]) / count
    return 0.5 * np.abs(seen - law).sum() / noise(law, count), accepted


MOVES = [
    ("normal_gamma", "dirichlet_process", False),
    ("normal_gamma", "pitman_yor", True),
    ("normal_wishart", "pitman_yor", False),
    ("normal_wishart", "flexible", False),
    ("normal_wishart", "dirichlet_process", True),
    ("categories", "dirichlet_process", False),
    ("dirichlet_multinomial", "flexible", False),
]


@pytest.mark.parametrize(("likelihood", "name", "sweeps_too"), MOVES)
def test_splits_and_merges_leave_the_law_as_it_is(likelihood, name, sweeps_too, X, rng):
    X = TABLES.get(likelihood, np.asarray)(X)
    distance, accepted = law_of_moves(
        cluster_moves, likelihood, PRIORS[name], X[:5], rng, 12000, sweeps_too
    )
    assert distance < (2.0 if sweeps_too else 3.0)  # moves alone are more correlated
    assert accepted > 500


@pytest.mark.parametrize(
    ("likelihood", "name"), list(zip(LIKELIHOODS, [*PRIORS, "dirichlet_process"], strict=True))
)
def test_eight_rows_have_the_law_of_all_4140_partitions(likelihood, name, rng):
    """How many clusters, of which sizes, and which rows are together; with moves."""
    make, predictive = LIKELIHOODS[likelihood]
    X = rng.normal(size=(8, 2)) + 2.5 * (np.arange(8) % 3)[:, None]
    X, prior, count = TABLES.get(likelihood, np.asarray)(X), PRIORS[name], 12000
    if name == "flexible":
        prior = FlexiblePartition((0.5, -0.4, 1.2, 0.3, 2.0, 2.5, 3.0, 4.0))
    every = np.array(list(all_partitions(8)))
    logs = [prior.log_prob(c) + oracle.log_likelihood(X, c, predictive) for c in every]
    i, j = np.triu_indices(8, 1)

    def seen(labels):
        sizes = np.array([np.bincount(c, minlength=8) for c in labels])
        counts = (sizes[:, :, None] == np.arange(1, 9)).sum(axis=1)
        clusters = (sizes > 0).sum(axis=1)[:, None] == np.arange(1, 9)
        return np.hstack([clusters, counts, labels[:, i] == labels[:, j]]).astype(float)

    own, slots, alone = begin(X, np.zeros(8), 12, make)
    tables, k, draws = prior.tables(8), 1, []
    for _ in range(count):
        k, _ = cluster_moves.split_or_merge(rng, own, slots, k, 8, *tables, 1, 2)
        k, _ = cluster_rows.sweep(rng, own, slots, k, alone, *tables, 0)
        draws.append(canonical_labels(slots.labels))
    law, of_all, found = softmax(logs), seen(every), seen(np.array(draws))
    expected = law @ of_all
    spread = np.sqrt(law @ np.square(of_all - expected))
    # draws are correlated; that of a mean is then about twice as far off
    assert (np.abs(found.mean(axis=0) - expected) < 8.0 * spread / np.sqrt(count) + 1e-3).all()


def test_a_forgotten_proposal_ratio_is_noticed(X, rng):
    forgotten = [("together - log_q", "together"), ("gain += log_proposal", "log_q = log_proposal")]
    broken = mutate("thali.kernels.cluster_moves", forgotten)
    distance, _ = law_of_moves(
        broken, "normal_gamma", PRIORS["dirichlet_process"], X[:5], rng, 10000
    )
    assert distance > 6.0


@pytest.mark.parametrize("far", [1e4, 1e8])
def test_rows_far_from_the_middle_lose_no_digits(far, rng):
    """Clusters far apart, and means that vary as much more than rows."""
    X = rng.normal(size=(12, 2)) + np.where(np.arange(12) < 6, -far, far)[:, None]
    gammas = gammaln(SHAPE + 0.5 * np.arange(14))
    arrays = [np.zeros((3, 2)) for _ in range(3)]
    own = NormalGammaGroups(X, far**-2.0, SHAPE, RATE, gammas, *arrays, *np.zeros((2, 3)))
    slots = slots_of(np.arange(12) // 6, 3)
    cluster_rows.fill(own, slots, 12)
    found = cluster_rows.log_marginals(own, slots, 2)
    wanted = 0.0
    for rows in (X[:6], X[6:]):
        mean = rows.mean(axis=0)
        inside = np.square(rows - mean).sum(axis=0)
        b = RATE + 0.5 * (inside + far**-2.0 * 6 / (far**-2.0 + 6) * mean**2)
        wanted += (
            gammaln(SHAPE + 3) - gammaln(SHAPE) + SHAPE * np.log(RATE) - (SHAPE + 3) * np.log(b)
        ).sum()
        wanted += np.log(far**-2.0 / (far**-2.0 + 6)) - 6 * np.log(2 * np.pi)
    assert np.isclose(found, wanted, rtol=1e-6)


def test_only_clusters_without_a_chance_are_passed_over(rng):
    """With many rows, most clusters need no logarithm; what is left is as it would be with all."""
    labels = np.arange(1500) % 6
    X = rng.normal(size=(1500, 2)) + rng.normal(size=(6, 2))[labels] * 8.0
    own, slots, _ = begin(X, labels, 7, normal_wishart)
    passed = 0
    for i in range(0, 1500, 5):
        some, every = np.zeros(6), np.zeros(6)
        groups.log_predictives(own, slots.active, slots.seen, 6, i, some, 40.0)
        groups.log_predictives(own, slots.active, slots.seen, 6, i, every, np.inf)
        gone = np.isinf(some)
        passed += gone.sum()
        np.testing.assert_array_equal(some[~gone], every[~gone])
        assert (every[gone] < every.max() - 40.0).all()
    assert passed > 100


def test_rows_of_different_clusters_change_places_by_their_law(X, rng):
    """Where sizes are fixed nothing else can move: three pairs of six rows."""
    potentials = np.full(6, -np.inf)
    potentials[1] = 0.0
    prior = FlexiblePartition(tuple(potentials))
    own, slots, _ = begin(X, np.arange(6) // 2, 8)
    every, law = oracle.posterior(X, prior.log_prob, NORMAL_GAMMA)
    found = {}
    for _ in range(8000):
        cluster_moves.swap_rows(rng, own, slots, 6, 3)
        key = tuple(canonical_labels(slots.labels))
        found[key] = found.get(key, 0) + 1
    seen = np.array([found.get(tuple(c), 0) for c in every]) / 8000
    assert 0.5 * np.abs(seen - law).sum() < 3.0 * noise(law, 8000)
