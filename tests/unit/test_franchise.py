"""Words in groups, groups in topics: sweeps against a sum over all ways to put them together."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from statistical.budget import p_value_of_mean
from statistical.mutants import mutate

import thali
from thali.kernels.franchise_words import Franchise, Levels, Words, sweep_groups, sweep_words
from thali.structures.labels import all_partitions, canonical_labels

BETA, VOCABULARY = 0.6, 3
CORPORA = {
    "two documents": [[0, 0, 1], [0, 2]],
    "three documents": [[0, 1], [0], [1, 1]],
}
TOP = thali.DirichletProcess(alpha=0.8)
BOTTOM = {
    "dirichlet process": thali.DirichletProcess(alpha=1.3),
    "flexible": thali.FlexiblePartition((0.3, -0.6, 1.1)),
    "pitman-yor": thali.PitmanYor(alpha=0.4, discount=0.3),
}


def log_topic(counts):
    """log P of a topic's words, its probabilities integrated out."""
    total, v = counts.sum(), len(counts)
    each = gammaln(counts + BETA) - gammaln(BETA)
    return float(each.sum() + gammaln(v * BETA) - gammaln(total + v * BETA))


def exact_law(documents, bottom):
    """The probability of each partition of all words by topic."""
    found = {}
    flat = np.concatenate(documents)
    for groupings in product(*(list(all_partitions(len(d))) for d in documents)):
        labels, groups, log_prior = [], 0, 0.0
        for own in groupings:
            own = np.array(own)
            log_prior += bottom.log_prob(own)
            labels.append(own + groups)
            groups += own.max() + 1
        labels = np.concatenate(labels)
        for topics in all_partitions(int(groups)):
            topics = np.array(topics)
            of_words = topics[labels]
            value = log_prior + TOP.log_prob(topics)
            for t in range(topics.max() + 1):
                value += log_topic(np.bincount(flat[of_words == t], minlength=VOCABULARY))
            found.setdefault(tuple(canonical_labels(of_words).tolist()), []).append(value)
    law = {key: logsumexp(values) for key, values in found.items()}
    total = logsumexp(list(law.values()))
    return {key: float(np.exp(value - total)) for key, value in law.items()}


def begin(documents, room):
    """Every document one group, all groups one topic."""
    lengths = [len(d) for d in documents]
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    words = Words(np.concatenate(documents).astype(np.int32), first)
    n, d = int(first[-1]), len(documents)
    size = np.zeros(n, np.int32)
    size[first[:-1]] = lengths
    counts = np.zeros((room, VOCABULARY), np.int32)
    counts[0] = np.bincount(words.word, minlength=VOCABULARY)
    group = np.repeat(first[:-1], lengths).astype(np.int32)
    total, groups = np.zeros(room, np.int64), np.zeros(room, np.int64)
    total[0], groups[0] = n, d
    used = np.ones(d, np.int32)
    state = Franchise(
        group, size, np.zeros(n, np.int32), used, counts, total, groups, np.ones(1, np.int64)
    )
    return words, state


def levels_of(bottom, words):
    longest = int(np.diff(words.first).max())
    own, top = bottom.tables(longest), TOP.tables(len(words.word) + 1)
    return Levels(own.join, own.open, top.join, top.open, BETA)


def p_values(documents, bottom, seed, sweeps, kernels=(sweep_words, sweep_groups)):
    rng = np.random.default_rng(seed)
    words, state = begin(documents, len(np.concatenate(documents)) + 1)
    levels, law = levels_of(bottom, words), exact_law(documents, bottom)
    common = [key for key, p in law.items() if p > 0.01]
    seen = np.zeros((sweeps, len(common)))
    for s in range(sweeps):
        for kernel in kernels:
            assert kernel(rng, words, state, levels, 0) == len(words.word)
        key = tuple(canonical_labels(state.topic[state.group]).tolist())
        if key in common:
            seen[s, common.index(key)] = 1.0
    check(words, state)
    return {str(key): p_value_of_mean(seen[:, i], law[key]) for i, key in enumerate(common)}


def check(words, state):
    """What is counted on the way is what there is."""
    k, n = int(state.topics[0]), len(words.word)
    topics = state.topic[state.group]
    for t in range(k):
        own = np.bincount(words.word[topics == t], minlength=VOCABULARY)
        assert np.array_equal(state.counts[t], own)
        assert state.total[t] == own.sum()
        assert state.groups[t] == len(np.unique(state.group[topics == t])) > 0
    assert state.total[:k].sum() == n
    assert np.array_equal(np.bincount(state.group, minlength=n), state.size)


@pytest.mark.parametrize("bottom", BOTTOM)
@pytest.mark.parametrize("name", CORPORA)
def test_topics_of_words_have_the_law_of_all_ways(name, bottom, seed):
    found = p_values([np.array(d) for d in CORPORA[name]], BOTTOM[bottom], seed, 20_000)
    assert min(found.values()) > 1e-5 / len(found), found


def test_words_alone_have_it_too(seed):
    documents = [np.array(d) for d in CORPORA["two documents"]]
    found = p_values(documents, BOTTOM["flexible"], seed, 20_000, (sweep_words,))
    assert min(found.values()) > 1e-5 / len(found), found


BROKEN = {
    "without the normalizer of eq. 16": (
        "chance[t] = top / (state.total[t] + vocabulary * levels.beta)",
        "chance[t] = top / (1.0 + vocabulary * levels.beta)",
    ),
    "no new topic for a group": ("weights[t] = np.exp(weights[t] - top)", "weights[t] = "
        "np.exp(weights[t] - top) * (t < k or k == 0)"),
    "a group of its own weighs as its topic": (
        "weights[used + t] = opening * shares[t] * chance[t]",
        "weights[used + t] = opening * chance[t]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_sweeps_are_caught(name, seed):
    broken = mutate("thali.kernels.franchise_words", [BROKEN[name]])
    documents = [np.array(d) for d in CORPORA["two documents"]]
    kernels = (broken.sweep_words, broken.sweep_groups)
    found = p_values(documents, BOTTOM["flexible"], seed, 20_000, kernels)
    assert min(found.values()) < 1e-5 / len(found)
