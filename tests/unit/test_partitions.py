"""Partitions: their canonical form, losses, estimates, and priors, against all of few rows."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from thali.hyperparameters import Beta, Gamma
from thali.priors import nonlinear_wishes, wished_sizes
from thali.priors.flexible_partition import FlexiblePartition
from thali.priors.pitman_yor import DirichletProcess, PitmanYor
from thali.priors.size_sets import all_size_sets
from thali.priors.wished_sizes import nearest_feasible
from thali.structures.labels import all_partitions, canonical_labels
from thali.structures.partition_estimate import credible_ball, point_estimate, usual_number
from thali.structures.partition_losses import LOSSES, binder, distance, variation_of_information
from thali.structures.partitions import PARTITIONS

BELL = [1, 1, 2, 5, 15, 52, 203, 877, 4140]
SIZES = np.arange(1, 9)
PRIORS = {
    "dirichlet_process": DirichletProcess(alpha=1.7),
    "pitman_yor": PitmanYor(alpha=0.8, discount=0.35),
    "pitman_yor, mass below zero": PitmanYor(alpha=-0.2, discount=0.5),
    "flexible": FlexiblePartition(tuple(np.sin(3.0 * SIZES) * 1.5 + 0.2 * SIZES)),
    "flexible, no pairs": FlexiblePartition(tuple(np.where(SIZES == 2, -np.inf, 0.3 * SIZES))),
}


def everything(n):
    return [np.array(labels) for labels in all_partitions(n)]


def probabilities(prior, n):
    return np.exp([prior.log_prob(labels) for labels in everything(n)])


# ---- labels, losses ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 9))
def test_every_partition_is_there_once(n):
    found = everything(n)
    assert len({tuple(labels) for labels in found}) == len(found) == BELL[n]
    assert all((canonical_labels(labels) == labels).all() for labels in found)


def test_canonical_labels_forget_names(rng):
    labels = rng.integers(0, 6, 30)
    names = rng.permutation(100)[:6]
    assert (canonical_labels(names[labels]) == canonical_labels(labels)).all()


def pairs(labels):
    return [labels[i] == labels[j] for i, j in itertools.combinations(range(len(labels)), 2)]


def test_losses_are_what_they_are_called(rng):
    for _ in range(20):
        a, b = (canonical_labels(rng.integers(0, k, 12)) for k in (3, 5))
        assert binder(a, b) == np.sum(np.array(pairs(a)) != np.array(pairs(b)))
        joint = np.zeros((a.max() + 1, b.max() + 1))
        np.add.at(joint, (a, b), 1.0 / 12)

        def entropy(p):
            p = p[p > 0]
            return -(p * np.log(p)).sum()

        mutual = entropy(joint.sum(0)) + entropy(joint.sum(1)) - entropy(joint.ravel())
        found = entropy(joint.sum(0)) + entropy(joint.sum(1)) - 2.0 * mutual
        assert np.isclose(variation_of_information(a, b), found)


# ---- estimates -----------------------------------------------------------------------------------


def noisy_draws(rng, n, count):
    truth = rng.integers(0, 3, n)
    draws = []
    for _ in range(count):
        labels = truth.copy()
        some = rng.random(n) < 0.15
        labels[some] = rng.integers(0, 4, some.sum())
        draws.append(canonical_labels(labels))
    return truth, draws


@pytest.mark.parametrize("loss", LOSSES)
def test_the_estimate_of_few_rows_is_the_best_of_all(loss, rng):
    for n in (3, 6):
        _, draws = noisy_draws(rng, n, 9)
        expected = [np.mean([distance(loss, c, d) for d in draws]) for c in everything(n)]
        found = point_estimate(draws, loss)
        assert np.isclose(found.loss, min(expected))
        assert np.isclose(np.mean([distance(loss, found.latent, d) for d in draws]), found.loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_search_finds_the_best_of_all(loss, rng, monkeypatch):
    from thali.structures import partition_estimate

    monkeypatch.setattr(partition_estimate, "FEW", 0)
    for _ in range(5):
        _, draws = noisy_draws(rng, 7, 9)
        best = min(np.mean([distance(loss, c, d) for d in draws]) for c in everything(7))
        found = point_estimate(draws, loss)
        assert np.isclose(np.mean([distance(loss, found.latent, d) for d in draws]), found.loss)
        assert np.isclose(found.loss, best)


def test_the_search_is_no_worse_than_the_best_draw_and_finds_the_truth(rng):
    truth, draws = noisy_draws(rng, 200, 60)
    for loss in LOSSES:
        found = point_estimate(draws, loss)
        each = [np.mean([distance(loss, c, d) for d in draws]) for c in draws]
        assert found.loss <= min(each) + 1e-9
        assert binder(found.latent, canonical_labels(truth)) == 0.0
    shared = np.mean([d[:, None] == d for d in draws], axis=0)
    for i in (0, 50):
        mates = np.flatnonzero((truth == truth[i]) & (np.arange(200) != i))
        assert np.isclose(found.probabilities[i], shared[i, mates].mean())


def test_a_credible_ball_holds_its_share(rng):
    _, draws = noisy_draws(rng, 40, 100)
    best = point_estimate(draws)
    ball = credible_ball(draws, best.latent, level=0.9)
    apart = np.array([distance("vi", best.latent, d) for d in draws])
    assert (apart <= ball.radius).mean() >= 0.9
    assert (apart < ball.radius).mean() < 0.9
    assert ball.coarsest.max() <= ball.finest.max()
    assert np.isclose(distance("vi", ball.farthest, best.latent), ball.radius)


def test_values_go_into_files_and_back(rng):
    draws = [canonical_labels(rng.integers(0, k, 300)) for k in (1, 3, 290)]
    packed = [PARTITIONS.pack(labels) for labels in draws]
    assert [p.dtype for p in packed] == [np.uint8, np.uint8, np.uint8]
    again = PARTITIONS.split(PARTITIONS.join(packed, 300))
    assert all((PARTITIONS.unpack(p, 300) == d).all() for p, d in zip(again, draws, strict=True))


def test_changes_stay_partitions_within_capacity(rng):
    labels = canonical_labels(rng.integers(0, 3, 20))
    for _ in range(50):
        labels = PARTITIONS.changed(rng, labels, 4)
        assert (canonical_labels(labels) == labels).all()
        assert 1 <= PARTITIONS.n_components(labels) <= 4
    assert len({PARTITIONS.n_components(PARTITIONS.changed(rng, labels, 4)) for _ in range(60)}) > 1


# ---- priors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIORS)
def test_probabilities_of_all_partitions_sum_to_one(name):
    for n in (1, 2, 5, 8):
        assert np.isclose(probabilities(PRIORS[name], n).sum(), 1.0)


@pytest.mark.parametrize("name", PRIORS)
def test_expected_size_counts_are_those_of_all_partitions(name):
    prior = PRIORS[name]
    p = probabilities(prior, 7)
    m = np.array([PARTITIONS.counts(labels).size_counts for labels in everything(7)])
    assert np.allclose(p @ m, prior.expected_size_counts(7))
    assert np.isclose(p @ m.sum(axis=1), prior.expected_components(7))
    if isinstance(prior, FlexiblePartition):
        assert np.allclose((m * p[:, None]).T @ m, prior.expected_pairs(7))


@pytest.mark.parametrize("name", PRIORS)
def test_tables_are_the_law_of_a_row_given_the_others(name):
    """For every partition of the others: P(label | others) from log P of the whole."""
    prior, n = PRIORS[name], 6
    tables = prior.tables(n)
    for others in everything(n - 1):
        sizes, k = np.bincount(others), int(others.max()) + 1
        whole = np.array([prior.log_prob(np.append(others, j)) for j in range(k + 1)])
        if np.isneginf(whole).all():
            continue  # others that no row can complete
        given = np.append(tables.join[sizes], tables.open[k])
        assert np.allclose(np.exp(whole - logsumexp(whole)), np.exp(given - logsumexp(given)))


def test_eq_6_as_printed_is_another_law():
    """Without taking the row out first, staying has a weight that is not its own."""
    own = np.concatenate([[0.0], np.array(PRIORS["flexible"].potentials)])
    others = np.array([0, 0, 1, 1, 1])  # the row is in the first cluster, of size 3 with it
    sizes = np.bincount(others) + np.array([1, 0])
    printed = np.array([-own[3] + own[2] - own[s] + own[s + 1] for s in sizes])
    true = np.array([PRIORS["flexible"].log_prob(np.append(others, j)) for j in range(2)])
    assert abs((printed[0] - printed[1]) - (true[0] - true[1])) > 0.1


@pytest.mark.parametrize("name", ["dirichlet_process", "pitman_yor", "pitman_yor, mass below zero"])
def test_first_rows_of_a_larger_draw_are_a_smaller_draw(name):
    prior = PRIORS[name]
    for labels in everything(4):
        more = [np.append(labels, k) for k in range(int(labels.max()) + 2)]
        assert np.isclose(logsumexp([prior.log_prob(c) for c in more]), prior.log_prob(labels))


@pytest.mark.parametrize("name", PRIORS)
def test_draws_have_the_law(name, rng):
    prior, n, count = PRIORS[name], 5, 3000
    found = {tuple(labels): 0 for labels in everything(n)}
    for _ in range(count):
        found[tuple(prior.sample(rng, n))] += 1
    expected = count * probabilities(prior, n)
    seen = np.array(list(found.values()))
    assert (seen[expected == 0.0] == 0).all()
    likely = expected > 0.0
    z = (seen[likely] - expected[likely]) / np.sqrt(expected[likely])
    assert np.square(z).sum() < likely.sum() + 6.0 * np.sqrt(2.0 * likely.sum())


def test_potentials_of_the_dirichlet_process_are_it():
    prior = FlexiblePartition(tuple(np.log(2.5) + gammaln(SIZES)))
    other = DirichletProcess(alpha=2.5)
    assert np.allclose(probabilities(prior, 8), probabilities(other, 8))
    shifted = FlexiblePartition(tuple(np.array(prior.potentials) + 0.7 * SIZES))
    assert np.allclose(probabilities(shifted, 8), probabilities(other, 8))  # the gauge


def test_signatures_are_sums_over_their_partitions():
    prior, n = PRIORS["flexible"], 6
    found = dict(prior.signatures(n))
    assert np.isclose(sum(found.values()), 1.0)
    assert len(found) == 11
    p = probabilities(prior, n)
    for sizes in ((6,), (3, 2, 1), (2, 2, 2)):
        own = [tuple(sorted(np.bincount(c), reverse=True)) == sizes for c in everything(n)]
        assert np.isclose(p[own].sum(), found[sizes])


# ---- hyperparameters -----------------------------------------------------------------------------


def law_of_alpha(hyperprior, counts, grid, make):
    logs = [hyperprior.log_density(a) + make(a).log_prob_counts(counts) for a in grid]
    weights = np.exp(np.array(logs) - max(logs)) * np.gradient(grid)
    return weights / weights.sum()


@pytest.mark.parametrize("hyperprior", [Gamma(2.0, 1.5), Gamma(0.4, 0.1)])
def test_the_mass_is_drawn_from_its_law(hyperprior, rng):
    counts = PARTITIONS.counts(np.array([0, 0, 0, 1, 1, 2, 3, 0, 1, 0]))
    grid = np.exp(np.linspace(-12, 5, 4000))
    for prior in (DirichletProcess(alpha=hyperprior), PitmanYor(alpha=hyperprior, discount=0.3)):
        weights = law_of_alpha(hyperprior, counts, grid, lambda a, p=prior: p.at(alpha=a))
        hyper, draws = {"alpha": 1.0, "discount": 0.3}, []
        for _ in range(2000):
            prior.resample(rng, hyper, counts)
            draws.append(hyper["alpha"])
        mean, second = weights @ np.log(grid), weights @ np.log(grid) ** 2
        error = np.sqrt((second - mean**2) / 200)  # of draws that are correlated
        assert abs(np.mean(np.log(draws)) - mean) < 4.0 * error


def test_the_discount_is_drawn_from_its_law(rng):
    counts = PARTITIONS.counts(np.array([0, 0, 0, 1, 1, 2, 3, 0, 4, 0]))
    prior, grid = PitmanYor(alpha=1.0, discount=Beta(2.0, 2.0)), np.linspace(1e-4, 1 - 1e-4, 2000)
    logs = [
        Beta(2.0, 2.0).log_density(d) + prior.at(discount=d).log_prob_counts(counts) for d in grid
    ]
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    hyper, draws = {"alpha": 1.0, "discount": 0.5}, []
    for _ in range(2000):
        prior.resample(rng, hyper, counts)
        draws.append(hyper["discount"])
    spread = np.sqrt(weights @ grid**2 - (weights @ grid) ** 2)
    assert abs(np.mean(draws) - weights @ grid) < 4.0 * spread / 14.0


# ---- wishes --------------------------------------------------------------------------------------


def truncated_normal_wish(n):
    """Not every one can be met: a cluster of n − 1 rows comes with one of a single row."""
    i = np.arange(1.0, n + 1.0)
    counts = np.exp(-0.5 * ((i - n / 4) / (n / 4)) ** 2)
    return counts * n / (counts @ i)


@pytest.mark.parametrize("n", [5, 20, 60])
def test_wishes_are_met(n):
    wish = truncated_normal_wish(n)
    prior = FlexiblePartition.from_expectations(wish)
    assert np.abs(prior.expected_size_counts(n) - wish).max() < 1e-7


def test_expectations_of_a_prior_lead_back_to_it():
    for prior in (PRIORS["flexible"], PRIORS["flexible, no pairs"]):
        again = FlexiblePartition.from_expectations(prior.expected_size_counts(8))
        assert np.allclose(probabilities(again, 8), probabilities(prior, 8), atol=1e-7)


def test_penalties_do_what_they_say():
    wish = truncated_normal_wish(20)
    free = np.array(FlexiblePartition.from_expectations(wish).potentials)
    smooth = np.array(FlexiblePartition.from_expectations(wish, pull=0.001, smooth=5.0).potentials)
    pulled = np.array(FlexiblePartition.from_expectations(wish, pull=1e4, alpha=2.0).potentials)
    assert np.square(np.diff(smooth)).sum() < np.square(np.diff(free)).sum()
    assert np.allclose(pulled, np.log(2.0) + gammaln(np.arange(1.0, 21.0)), atol=1e-2)


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ([0.0, 1.5, 0.0], "nearest"),
        ([3.0, 1.0, 0.0], "rows in all"),
        ([-1.0, 2.0, 0.0], "zero or more"),
        ([np.nan, 1.0], "zero or more"),
        ([], "each size"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(counts, word):
    with pytest.raises(ValueError, match=word):
        FlexiblePartition.from_expectations(counts)


def test_the_nearest_wish_is_feasible_and_no_farther_than_any_mixture(rng):
    wish = np.array([0.0, 1.5, 0.0])
    found = nearest_feasible(wish)
    corners = np.array([[3.0, 0, 0], [1.0, 1, 0], [0, 0, 1]])
    weights = np.linalg.lstsq(np.vstack([corners.T, np.ones(3)]), np.append(found, 1.0), rcond=None)
    assert (weights[0] > -1e-9).all()
    assert weights[1].sum() < 1e-12
    mixtures = rng.dirichlet(np.full(3, 0.3), 2000) @ corners
    assert np.abs(found - wish).sum() <= np.abs(mixtures - wish).sum(axis=1).min() + 1e-9


def test_wishes_on_the_edge_are_met_in_the_limit():
    counts = np.zeros(4)
    counts[[1, 3]] = 1.0, 0.5  # between (2, 2) and (4): one of a face that potentials can reach
    prior = FlexiblePartition.from_expectations(counts)
    assert np.allclose(prior.expected_size_counts(4), counts, atol=1e-7)
    corner = np.array([0.0, 2.0, 0.0, 0.0])
    assert np.allclose(
        FlexiblePartition.from_expectations(corner).expected_size_counts(4), corner, atol=1e-7
    )
    # (2, 1, 1) is left out in the limit of potentials without bound: as near as rounding
    edge = 0.5 * np.array([1.0, 0.0, 1.0, 0.0]) + 0.5 * np.array([0.0, 2.0, 0.0, 0.0])
    found = FlexiblePartition.from_expectations(edge).expected_size_counts(4)
    assert np.allclose(found, edge, atol=1e-7)


def test_a_wish_that_takes_too_many_steps_is_refused_with_one_inside(monkeypatch):
    monkeypatch.setattr(wished_sizes, "NEWTON", 1)
    with pytest.raises(ValueError, match="on the edge"):
        FlexiblePartition.from_expectations(truncated_normal_wish(20))


def test_potentials_are_of_so_many_rows_and_no_more():
    with pytest.raises(ValueError, match="not consistent"):
        PRIORS["flexible"].log_prob(np.zeros(9, int))
    with pytest.raises(ValueError, match="no partition"):
        FlexiblePartition((-np.inf, 0.0, -np.inf))
    with pytest.raises(ValueError, match="one number"):
        FlexiblePartition((np.nan, 1.0))
    with pytest.raises(TypeError, match="numbers"):
        FlexiblePartition("abc")
    assert math.isclose(PRIORS["flexible"].log_prob(np.zeros(1, int)), 0.0)


# ---- nonlinear features and the smooth form ------------------------------------------------------


def clusters_opened(alpha, discount):
    """What Pitman–Yor has of the number of clusters, which is no sum over them."""

    def features(m):
        return [np.log(alpha + discount * np.arange(1, int(m.sum()))).sum()]

    return features


def test_a_flexible_prior_at_the_values_of_pitman_yor_is_it():
    alpha, d, n = 0.7, 0.4, 6
    own = PitmanYor(alpha=alpha, discount=d)
    sizes = np.arange(1.0, n + 1.0)
    potentials = tuple(gammaln(sizes - d) - gammaln(1.0 - d))
    prior = FlexiblePartition(potentials, clusters_opened(alpha, d), (1.0,))
    for labels in all_partitions(n):
        assert np.isclose(prior.log_prob(np.array(labels)), own.log_prob(np.array(labels)))
    np.testing.assert_allclose(prior.expected_size_counts(n), own.expected_size_counts(n))
    for labels in all_partitions(n - 1):
        others = np.bincount(labels)
        one, other = prior.tables_beside(n, others), own.tables(n)
        logs = [np.append(t.join[others], t.open[len(others)]) for t in (one, other)]
        law = [np.exp(each - np.logaddexp.reduce(each)) for each in logs]
        np.testing.assert_allclose(law[0], law[1])


def test_draws_with_features_have_the_law(rng):
    prior = FlexiblePartition((0.3, 0.0, 1.0, 0.5), lambda m: [m.sum() ** 2], (-0.3,))
    every = [np.array(labels) for labels in all_partitions(4)]
    law = np.exp([prior.log_prob(labels) for labels in every])
    assert np.isclose(law.sum(), 1.0)
    assert np.isclose(sum(share for _, share in prior.signatures(4)), 1.0)
    keys = {tuple(labels): i for i, labels in enumerate(every)}
    seen = np.zeros(len(every))
    for _ in range(250):
        seen[keys[tuple(prior.sample(rng, 4))]] += 1
    assert 0.5 * np.abs(seen / 250 - law).sum() < 0.15


def integer_partitions(n, most=None):
    """Every way to write n as a sum, largest first."""
    if n == 0:
        yield ()
        return
    for first in range(min(n, n if most is None else most), 0, -1):
        for rest in integer_partitions(n - first, first):
            yield (first, *rest)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 17])
def test_all_sets_of_sizes_are_there(n):
    sets = all_size_sets(n)
    wanted = [np.bincount(sizes, minlength=n + 1)[1:].tolist() for sizes in integer_partitions(n)]
    assert sets.counts.toarray().tolist() == wanted
    partitions = np.exp(sets.log_partitions)
    if n <= 8:
        assert np.isclose(partitions.sum(), len(everything(n)))


def expectations_by_number(potentials, weight):
    """E[K²], E[m] and log 𝒵 where φ = K², another way: by sums over partitions in k clusters."""
    n = len(potentials)
    log_z = np.full((n + 1, n + 1), -np.inf)
    log_z[0, 0] = 0.0
    for rows in range(1, n + 1):
        i = np.arange(1, rows + 1)
        ways = gammaln(rows) - gammaln(i) - gammaln(rows - i + 1.0) + potentials[:rows]
        log_z[rows, 1:] = logsumexp(ways[:, None] + log_z[rows - i, :-1], axis=0)
    squares = np.arange(n + 1.0) ** 2
    logs = log_z[n] + weight * squares
    total = logsumexp(logs)
    i = np.arange(1, n + 1)
    ways = gammaln(n + 1.0) - gammaln(i + 1.0) - gammaln(n - i + 1.0) + potentials
    counts = logsumexp(ways[:, None] + log_z[n - i, :-1] + weight * squares[1:], axis=1) - total
    return float(np.exp(logs - total) @ squares), np.exp(counts), float(total)


def squared_number(m):
    return [m.sum() ** 2]


def wish_of_variance(n, times):
    """Size counts of a Dirichlet process, and a variance of K so many times its own."""
    p = 1.0 / np.arange(1, n + 1)
    counts = DirichletProcess(alpha=1.0).expected_size_counts(n)
    return counts, counts.sum() ** 2 + times * float(p @ (1.0 - p))


@pytest.mark.parametrize(("n", "times"), [(20, 1.4), (40, 0.8), (60, 0.8), (60, 1.4)])
def test_nonlinear_wishes_are_met(n, times):
    counts, wanted = wish_of_variance(n, times)
    prior = FlexiblePartition.from_expectations(counts, features=squared_number, expected=[wanted])
    square, found, _ = expectations_by_number(np.array(prior.potentials), prior.weights[0])
    assert abs(square / wanted - 1.0) < 1e-6
    np.testing.assert_allclose(found, counts, rtol=1e-6)
    np.testing.assert_allclose(prior.expected_size_counts(n), counts, rtol=1e-6)


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_nonlinear_wishes_are_near_for_more_rows(times, monkeypatch):
    """Weighted draws beyond all sets of sizes; few of them tell how much they may miss. A larger
    variance needs partitions with almost as many clusters as rows, of which the size counts alone
    give no draws."""
    counts, wanted = wish_of_variance(90, times)
    prior = FlexiblePartition.from_expectations(counts, features=squared_number, expected=[wanted])
    square, found, _ = expectations_by_number(np.array(prior.potentials), prior.weights[0])
    assert abs(square / wanted - 1.0) < 0.02
    common = counts > 0.1
    assert np.abs(found[common] / counts[common] - 1.0).max() < 0.02
    told = prior.expected_size_counts(90)  # by draws of its own
    assert np.abs(told[common] / counts[common] - 1.0).max() < 0.05
    monkeypatch.setattr(nonlinear_wishes, "DRAWS", 5000)
    with pytest.warns(UserWarning, match="met within about"):
        FlexiblePartition.from_expectations(counts, features=squared_number, expected=[wanted])


def test_nonlinear_wishes_that_contradict_themselves_are_refused():
    counts, _ = wish_of_variance(20, 1.0)
    with pytest.raises(ValueError, match="contradict"):
        FlexiblePartition.from_expectations(
            counts, features=squared_number, expected=[counts.sum() ** 2]
        )
    with pytest.raises(ValueError, match="contradict"):  # the largest cluster cannot be as large
        FlexiblePartition.from_expectations(
            counts, features=lambda m: [np.flatnonzero(m)[-1] + 1.0], expected=[14.0]
        )
    with pytest.raises(ValueError, match="2 are expected"):
        FlexiblePartition.from_expectations(counts, features=squared_number, expected=[1.0, 2.0])
    with pytest.raises(ValueError, match="give both"):
        FlexiblePartition.from_expectations(counts, expected=[1.0])
    with pytest.raises(TypeError, match="function"):
        FlexiblePartition.from_expectations(counts, features=3.0, expected=[1.0])


@pytest.mark.parametrize("penalty", [{"pull": 0.05}, {"smooth": 0.01}])
def test_penalties_are_those_of_eq_4(penalty):
    """Their slope and that of what is wished for cancel out, with features and without."""
    counts, wanted = wish_of_variance(12, 0.7)
    for features in ({}, {"features": squared_number, "expected": [wanted]}):
        prior = FlexiblePartition.from_expectations(counts, alpha=1.5, **penalty, **features)

        def value(potentials, like=prior):
            tried = FlexiblePartition(tuple(potentials), like.features, like.weights)
            away = potentials - np.log(1.5) - gammaln(np.arange(1.0, 13.0))
            one = np.array([*[0] * 11, 1.0])  # a partition's probability gives the normalizer
            normalizer = potentials[-1] + tried.extra(one) - tried.log_prob(np.zeros(12, int))
            cost = penalty.get("pull", 0.0) * away @ away
            cost += penalty.get("smooth", 0.0) * np.square(np.diff(potentials)).sum()
            return counts @ potentials - normalizer - cost

        best = np.array(prior.potentials)
        for i in range(12):
            step = 1e-3 * np.eye(12)[i]
            slope = (value(best + step) - value(best - step)) / 2e-3
            assert abs(slope) < 1e-5
        if features:
            square, _, _ = expectations_by_number(best, prior.weights[0])
            assert np.isclose(square, wanted)


def test_expectations_and_draws_beyond_all_sets_are_near(rng):
    n = 64
    sizes = np.arange(1.0, n + 1.0)
    prior = FlexiblePartition(tuple(gammaln(sizes)), squared_number, (-0.05,))
    _, exact, total = expectations_by_number(gammaln(sizes), -0.05)
    np.testing.assert_allclose(prior.expected_size_counts(n), exact, atol=0.01)
    together = gammaln(sizes)[-1] - 0.05 - total
    assert np.isclose(prior.log_prob(np.zeros(n, int)), together, atol=0.01)
    with pytest.raises(ValueError, match="up to 60"):
        next(prior.signatures(n))
    drawn = [prior.sample(rng, n).max() + 1 for _ in range(300)]
    assert abs(np.mean(drawn) - exact.sum()) < 4.0 * np.std(drawn) / np.sqrt(300)


@pytest.mark.parametrize(("number", "weight"), [(12, -5.0), (40, -5.0), (5, -1.0), (3, 0.01)])
def test_features_far_from_the_potentials_have_their_normalizer(number, weight):
    """(K − a)² is K² with other potentials, of which the sum is known."""
    n = 70
    own = gammaln(np.arange(1.0, n + 1.0))
    prior = FlexiblePartition(tuple(own), lambda m: [(m.sum() - number) ** 2], (weight,))
    _, exact, total = expectations_by_number(own - 2.0 * weight * number, weight)
    total += weight * number**2
    together = own[-1] + weight * (1 - number) ** 2 - total
    assert np.isclose(prior.log_prob(np.zeros(n, int)), together, atol=0.05)
    assert np.isclose(prior.expected_components(n), exact.sum(), rtol=0.02)


def test_features_may_exclude(rng):
    """At most three clusters, exactly and by draws."""
    for n in (12, 70):
        own = tuple(gammaln(np.arange(1.0, n + 1.0)))
        prior = FlexiblePartition(own, lambda m: [0.0 if m.sum() <= 3 else -np.inf], (1.0,))
        assert 1.0 < prior.expected_components(n) < 3.0
        assert all(prior.sample(rng, n).max() < 3 for _ in range(20))
        assert prior.log_prob(np.zeros(n, int)) < 0.0
        assert prior.log_prob(np.arange(n) % 4) == -np.inf
        assert prior.replace(weights=(0.0,)).log_prob(np.arange(n) % 4) > -np.inf
    with pytest.raises(ValueError, match="exclude them all"):
        FlexiblePartition(own, lambda m: [-np.inf], (1.0,)).log_prob(np.zeros(70, int))


BAD_FEATURES = [
    (lambda m: None, ValueError, "return missing"),
    (lambda m: [np.nan], ValueError, "return missing"),
    (lambda m: [np.inf], ValueError, "finite or -inf"),
    (lambda m: ["many"], TypeError, "must give numbers"),
    (lambda m, n: [1.0], TypeError, "must give numbers"),
    (lambda m: [m[99]], TypeError, "IndexError"),
]


@pytest.mark.parametrize("case", range(len(BAD_FEATURES)))
def test_features_that_give_no_numbers_are_told_of(case):
    features, kind, words = BAD_FEATURES[case]
    with pytest.raises(kind, match=words):
        FlexiblePartition((0.0, 0.0, 0.0), features, (1.0,))
    counts, wanted = wish_of_variance(6, 1.0)
    with pytest.raises(kind, match=words):
        FlexiblePartition.from_expectations(counts, features=features, expected=[wanted])


def test_features_that_change_their_length_or_weigh_against_exclusion_are_told_of():
    changing = FlexiblePartition((0.0, 0.0, 0.0), lambda m: np.ones(int(m.sum())), (1.0,))
    with pytest.raises(ValueError, match="as many"):
        changing.log_prob(np.array([0, 1, 1]))
    against = FlexiblePartition((0.0, 0.0), lambda m: [-np.inf if m.sum() > 1 else 0.0], (-1.0,))
    with pytest.raises(ValueError, match="negative weight"):
        against.log_prob(np.array([0, 1]))


def test_the_smooth_form_is_the_dirichlet_process_at_its_values():
    smooth = FlexiblePartition.smooth_form(np.log(1.7), 1.0, 0.0)
    own = DirichletProcess(alpha=1.7)
    for labels in all_partitions(5):
        assert np.isclose(smooth.log_prob(np.array(labels)), own.log_prob(np.array(labels)))
    rarer = FlexiblePartition.smooth_form(0.0, 1.0, 2.0).expected_size_counts(20)
    assert rarer[0] / rarer.sum() < own.expected_size_counts(20)[0] / own.expected_components(20)


def test_an_estimate_has_no_more_clusters_than_draws_have():
    """Draws of a prior under which rows are seldom together: alone they are all nearer."""
    rng, prior = np.random.default_rng(0), DirichletProcess(alpha=10.0)
    draws = [canonical_labels(prior.sample(rng, 40)) for _ in range(100)]
    most = usual_number(draws)
    assert np.mean([draw.max() + 1 > most for draw in draws]) <= 0.05
    assert point_estimate(draws).latent.max() + 1 > most
    assert point_estimate(draws, most=most).latent.max() + 1 <= most
    few = [draw[:6] for draw in draws]
    assert point_estimate(few, most=2).latent.max() + 1 <= 2
