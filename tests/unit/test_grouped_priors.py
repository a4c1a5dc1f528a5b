"""Priors over words in groups and groups in topics: what they sum to, draw, learn and refuse."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from statistical.budget import judge, p_value_of_counts

import thali
from thali.priors.grouped import log_prob_of_documents
from thali.priors.hierarchical_flexible import expected_over_documents, relaxed_over_documents
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping, GroupingCounts
from thali.structures.labels import all_partitions

LENGTHS = np.array([2, 0, 3])
DP, PY = thali.DirichletProcess, thali.PitmanYor
TABLE = thali.FlexiblePartition((0.5, -0.4, 0.9, 0.2, 1.0, 0.3))
PRIORS = {
    "hdp": thali.HierarchicalDirichletProcess(alpha=1.3, gamma=0.7),
    "pitman-yor": thali.HierarchicalFlexible(
        PY(alpha=0.5, discount=0.2), PY(alpha=1.0, discount=0.5)
    ),
    "flexible groups": thali.HierarchicalFlexible(
        thali.SmoothPartition(a=0.2, b=0.8, c=0.5), DP(alpha=0.9)
    ),
    "places": thali.HierarchicalFlexible(DP(alpha=1.3), TABLE, 6),
    "as many places as words": thali.HierarchicalFlexible(DP(alpha=1.3), TABLE, 5),
}


def all_values(places):
    """Every value of documents of these lengths, once."""
    found = {}
    each = [list(all_partitions(int(n))) if n else [[]] for n in LENGTHS]
    for own in product(*each):
        group = np.concatenate([np.array(labels, np.int32) for labels in own]).astype(np.int32)
        count = sum(max(labels) + 1 for labels in own if labels)
        for topics in all_partitions(max(places, count)):
            whole = np.array(topics)
            dummies = np.zeros(0, np.int32)
            if places:
                dummies = np.bincount(whole[count:], minlength=whole.max() + 1).astype(np.int32)
            value = Grouping(
                LENGTHS.astype(np.int32), group, whole[:count].astype(np.int32), dummies
            )
            value = GROUPED_PARTITIONS.canonical(value)
            found[GROUPED_PARTITIONS.pack(value).tobytes()] = value
    return found


@pytest.mark.parametrize("name", PRIORS)
def test_probabilities_sum_to_one(name):
    prior = PRIORS[name]
    logs = [prior.log_prob(value) for value in all_values(prior.places).values()]
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("name", PRIORS)
def test_draws_have_these_probabilities(name, seed):
    prior, rng = PRIORS[name], np.random.default_rng(seed)
    values = all_values(prior.places)
    place = {key: i for i, key in enumerate(values)}
    seen = np.zeros(len(values) + 1)
    for _ in range(800):
        drawn = prior.sample(rng, LENGTHS)
        seen[place[GROUPED_PARTITIONS.pack(drawn).tobytes()]] += 1
    law = np.exp([prior.log_prob(value) for value in values.values()])
    judge("topics", {"draws": p_value_of_counts(seen, law)})


def test_a_value_is_packed_and_comes_back():
    rng = np.random.default_rng(0)
    for prior in PRIORS.values():
        value = prior.sample(rng, [3, 0, 5, 1] if not prior.places else [2, 0, 2, 1])
        back = GROUPED_PARTITIONS.unpack(GROUPED_PARTITIONS.pack(value), 4)
        assert all(np.array_equal(a, b) for a, b in zip(value, back, strict=True))
        again = GROUPED_PARTITIONS.canonical(value)
        assert all(np.array_equal(a, b) for a, b in zip(value, again, strict=True))


def test_one_table_serves_documents_of_all_lengths():
    prior, rng = thali.SmoothPartition(a=0.3, b=0.9, c=0.4), np.random.default_rng(1)
    lengths = np.array([1, 7, 4, 7, 0, 12])
    each = [prior.sample(rng, int(n)) for n in lengths if n]
    sizes = np.concatenate([np.bincount(labels) for labels in each])
    groups_of = np.array([0 if not n else int(e.max()) + 1 for n, e in with_labels(lengths, each)])
    counts = GroupingCounts(lengths, sizes, groups_of, np.zeros(0), np.zeros(0))
    by_one = sum(prior.log_prob(labels) for labels in each)
    assert log_prob_of_documents(prior, counts) == pytest.approx(by_one, abs=1e-9)
    alike = DP(alpha=0.6)
    by_one = sum(alike.log_prob(labels) for labels in each)
    assert log_prob_of_documents(alike, counts) == pytest.approx(by_one, abs=1e-9)


def with_labels(lengths, each):
    own = iter(each)
    return [(n, next(own) if n else None) for n in lengths]


def test_expected_sizes_are_the_slope_of_the_normalizers():
    lengths, numbers = np.array([5, 9, 9, 2]), np.array([0.3, 0.9, 0.4])

    def normalizers(potentials):
        own = thali.FlexiblePartition(tuple(potentials))
        return sum(own.log_sums(9)[n] for n in lengths)

    prior = thali.SmoothPartition(*numbers)
    potentials, expected = prior.potentials_for(9), expected_over_documents(prior, lengths)
    for i in range(9):
        step = 1e-5 * (np.arange(9) == i)
        slope = (normalizers(potentials + step) - normalizers(potentials - step)) / 2e-5
        assert expected[i] == pytest.approx(slope, abs=1e-6)


def test_sweeps_of_the_prior_keep_what_it_expects(seed):
    """Begun from a draw of the prior, contrastive divergence has nothing to contrast."""
    prior, rng = thali.SmoothPartition(a=0.0, b=0.9, c=0.5), np.random.default_rng(seed)
    lengths, whole = (
        np.full(300, 8),
        thali.HierarchicalFlexible(thali.SmoothPartition(a=0.0, b=0.9, c=0.5), DP(alpha=1.0)),
    )
    counts = GROUPED_PARTITIONS.counts(whole.sample(rng, lengths))
    later, expected = (
        relaxed_over_documents(rng, prior, counts),
        expected_over_documents(prior, lengths),
    )
    assert (later @ np.arange(1, 9)) == pytest.approx(2400.0)
    assert np.abs(later - expected).sum() < 0.25 * expected.sum()


@pytest.mark.parametrize("learning", ["exact", "contrastive"])
def test_a_b_and_c_are_learned_from_groups(learning):
    truth, rng = thali.SmoothPartition(a=-1.0, b=1.0, c=1.5), np.random.default_rng(0)
    given = thali.HierarchicalFlexible(truth, DP(alpha=1.0)).sample(rng, np.full(200, 20))
    counts = GROUPED_PARTITIONS.counts(given)
    prior = thali.HierarchicalFlexible(learning=learning)
    hyper = prior.start()
    for _ in range(100):
        prior.resample_groups(rng, hyper, counts)
    found = thali.SmoothPartition(*(float(hyper[f"groups_{k}"]) for k in "abc"))
    gap = log_prob_of_documents(truth, counts) - log_prob_of_documents(found, counts)
    start = thali.SmoothPartition(*(float(prior.start()[f"groups_{k}"]) for k in "abc"))
    first = log_prob_of_documents(truth, counts) - log_prob_of_documents(start, counts)
    assert gap < 5.0 < first


def test_potentials_of_a_dirichlet_process_are_one():
    lengths = np.array([4, 3])
    table = thali.FlexiblePartition(tuple(np.log(0.7) + gammaln(np.arange(1.0, 8.0))))
    one = thali.HierarchicalFlexible(table, DP(alpha=0.5))
    other = thali.HierarchicalDirichletProcess(alpha=0.7, gamma=0.5)
    value = other.sample(np.random.default_rng(0), lengths)
    assert one.log_prob(value) == pytest.approx(other.log_prob(value), abs=1e-10)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"groups": thali.IBP()}, "must be a prior over partitions"),
        ({"topics": TABLE}, "slots must give"),
        ({"slots": 5}, "means nothing"),
        ({"topics": TABLE, "slots": 9}, "need as many potentials"),
        ({"groups": DP(), "learning": "exact"}, "SmoothPartition"),
        ({"groups": thali.LearnedPartition()}, "many documents"),
        ({"learning": "guess"}, "must be one of"),
    ],
)
def test_what_cannot_be_is_refused(settings, says):
    with pytest.raises((ValueError, TypeError), match=says):
        thali.HierarchicalFlexible(**settings)


def test_documents_that_a_prior_cannot_have_are_refused():
    X = np.ones((7, 3))
    few = thali.HierarchicalFlexible(DP(), TABLE, 6)
    with pytest.raises(ValueError, match="too few for 7 documents"):
        thali.TopicModel(prior=few).fit(X)
    short = thali.HierarchicalFlexible(thali.FlexiblePartition((0.0, 1.0)), DP())
    with pytest.raises(ValueError, match="longest document has 3 words"):
        thali.TopicModel(prior=short).fit(X)
    steep = thali.HierarchicalFlexible(thali.FlexiblePartition((0.0, -np.inf, 1.0)), DP())
    with pytest.raises(ValueError, match="nor be infinite"):
        thali.TopicModel(prior=steep, engine=thali.Franchise(sweeps=2, chains=1)).fit(X)
