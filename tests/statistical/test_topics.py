"""Samplers of topics against a sum over all ways to put words in groups, and groups in topics."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.topics import law_of_topics
from scipy.sparse import csr_array
from scipy.special import gammaln
from statistical.budget import p_value_of_mean, threshold

import thali
from thali.data.documents import Documents
from thali.engines.topics import steps
from thali.engines.topics.state import levels_of, state_of
from thali.kernels.corpus import BITS, LOW
from thali.model import Model
from thali.starts.topics import scattered
from thali.structures.labels import canonical_labels

BETA, VOCABULARY, SWEEPS = 0.6, 3, 6000
CORPORA = {
    "two documents": [[0, 0, 1], [0, 2]],
    "three documents": [[0, 1], [0], [1, 1]],
    "a hidden word": [[0, 0, -1], [0, 2]],
}
HDP = thali.HierarchicalDirichletProcess(alpha=1.3, gamma=0.8)
FLEXIBLE = thali.FlexiblePartition((0.3, -0.6, 1.1))
ODD = thali.FlexiblePartition((0.5, -0.4, 0.9, 0.2, 1.0, 0.3))


def dirichlet(mass, n):
    """A Dirichlet process as a table of n potentials."""
    return thali.FlexiblePartition(tuple(np.log(mass) + gammaln(np.arange(1.0, n + 1.0))))


def both(groups, topics, slots=None):
    return thali.HierarchicalFlexible(groups=groups, topics=topics, slots=slots)


DP = thali.DirichletProcess
PRIORS = {
    "hdp": HDP,
    "flexible groups": both(FLEXIBLE, DP(alpha=0.8)),
    "pitman-yor twice": both(
        thali.PitmanYor(alpha=0.4, discount=0.3), thali.PitmanYor(alpha=0.6, discount=0.4)
    ),
    "flexible topics": both(DP(alpha=1.3), ODD, 6),
    "few places": both(FLEXIBLE, ODD, 4),
    "a dirichlet process with places": both(DP(alpha=1.3), dirichlet(0.8, 7), 7),
}


def matrix(documents):
    """Counts, and how many words of each document are hidden."""
    X = np.zeros((len(documents), VOCABULARY))
    for i, words in enumerate(documents):
        for w in words:
            if w >= 0:
                X[i, w] += 1
    hidden = np.array([sum(w < 0 for w in words) for words in documents])
    return Documents(csr_array(X), hidden=hidden if hidden.any() else None)


def words(rng, state, levels):
    steps.sweep_words(rng, state, levels)


def groups(rng, state, levels):
    steps.sweep_groups(rng, state, levels, steps.index_of(state))


def swaps(rng, state, levels):
    steps.swap_places(rng, state, levels, steps.index_of(state), 3)


def moves(rng, state, levels):
    steps.split_or_merge(rng, state, levels, steps.index_of(state), 3)


def direct(rng, state, levels):
    alpha = float(levels.open[1])
    steps.sweep_assignments(rng, state, alpha, levels.mass, levels.beta)


def p_values(documents, prior, sampler, seed, sweeps=SWEEPS):
    """How well the topics of words follow their law under so many sweeps of a few steps."""
    rng, data = np.random.default_rng(seed), matrix(documents)
    model = Model(prior, thali.TopicWords(concentration=BETA))
    lengths = np.array([len(d) for d in documents])
    latent = scattered(rng, lengths, 2, prior.places)
    state = state_of(model, data, latent, model.start(data))
    levels = levels_of(model, state)
    flat = [np.sort(np.array(d))[::-1] if min(d) < 0 else np.array(d) for d in documents]
    law = law_of_topics(*(flat, prior.of_groups, prior.of_topics, BETA, VOCABULARY, prior.places))
    common = {key: i for i, key in enumerate(k for k, p in law.items() if p > 0.01)}
    seen = np.zeros((sweeps, len(common)))
    for s in range(sweeps):
        for step in sampler:
            step(rng, state, levels)
        at = state.corpus.first[:-1].repeat(lengths) + state.seating.group
        key = tuple(canonical_labels(state.seating.topic[at].astype(np.int64)).tolist())
        if key in common:
            seen[s, common[key]] = 1.0
    check(state)
    assert sum(law[k] for k in common) > 0.5
    return np.array([p_value_of_mean(seen[:, i], law[k]) for k, i in common.items()])


def check(state):
    """What is counted on the way is what there is."""
    fresh = {}
    seating, corpus = state.seating, state.corpus
    for j in range(len(corpus.first) - 1):
        at = corpus.first[j]
        own = seating.group[at : corpus.first[j + 1]]
        sizes = seating.size[at : at + seating.used[j]]
        assert np.array_equal(np.bincount(own, minlength=seating.used[j]), sizes)
        for i in range(at, corpus.first[j + 1]):
            t = seating.topic[at + seating.group[i]]
            fresh[t, corpus.word[i]] = fresh.get((t, corpus.word[i]), 0) + 1
    for x in range(corpus.vocabulary):
        begin = state.lists.begin[x]
        entries = state.lists.entry[begin : begin + state.lists.length[x]].tolist()
        found = {e & LOW: e >> BITS for e in entries}
        assert found == {t: c for (t, w), c in fresh.items() if w == x}
    live = state.topics.order[: state.topics.live[0]]
    for t in live:
        assert state.topics.total[t] == sum(c for (s, w), c in fresh.items() if s == t and w >= 0)
        assert state.topics.members[t] == sum(c for (s, w), c in fresh.items() if s == t)
        assert state.topics.groups[t] == (state.seating.topic[state.seating.size > 0] == t).sum()
        assert state.topics.groups[t] + state.topics.dummies[t] > 0


SAMPLERS = {
    "words": (words,),
    "words, groups": (words, groups),
    "words, groups, swaps": (words, groups, swaps),
    "words, groups, moves": (words, groups, moves),
}
CASES = [
    *((corpus, "hdp", "words, groups") for corpus in CORPORA),
    *(("two documents", prior, "words, groups") for prior in PRIORS if prior != "hdp"),
    ("a hidden word", "flexible topics", "words, groups, swaps"),
    ("two documents", "hdp", "words"),
    *(
        ("two documents", p, "words, groups, swaps")
        for p in ("hdp", "flexible topics", "few places")
    ),
    *(
        ("two documents", p, "words, groups, moves")
        for p in ("hdp", "pitman-yor twice", "flexible topics")
    ),
]


@pytest.mark.parametrize(("corpus", "prior", "sampler"), CASES)
def test_topics_of_words_have_the_law_of_all_ways(corpus, prior, sampler, seed):
    found = p_values(CORPORA[corpus], PRIORS[prior], SAMPLERS[sampler], seed)
    assert found.min() > threshold(len(found)), found


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("more", [(), (moves,)])
def test_direct_assignment_has_the_same_law(corpus, more, seed):
    found = p_values(CORPORA[corpus], HDP, (direct, *more), seed)
    assert found.min() > threshold(len(found)), found
