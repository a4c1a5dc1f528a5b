"""Samplers of topics against a sum over all ways to put words in groups, and groups in topics."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.topics import law_of_topics
from scipy.sparse import csr_array
from scipy.special import gammaln
from statistical.budget import (
    TESTS,
    alarms,
    judge,
    p_value_of_difference,
    p_value_of_mean,
)
from statistical.mutants import mutate

import thali
from thali.data.documents import Documents
from thali.engines.topics import steps
from thali.engines.topics.state import levels_of, state_of
from thali.kernels.corpus import BITS, LOW
from thali.model import Model
from thali.starts.topics import scattered
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
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
    "steep potentials": both(thali.FlexiblePartition((0.0, 0.0, 60.0)), DP(alpha=0.8)),
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


def some_groups(rng, state, levels):
    steps.sweep_groups(rng, state, levels, steps.index_of(state), 0.4)


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


def named(found):
    return {str(i): p for i, p in enumerate(found)}


@pytest.mark.parametrize(("corpus", "prior", "sampler"), CASES)
def test_topics_of_words_have_the_law_of_all_ways(corpus, prior, sampler, seed):
    found = p_values(CORPORA[corpus], PRIORS[prior], SAMPLERS[sampler], seed)
    judge("topics", named(found))


@pytest.mark.parametrize("more", [(), (moves,), (some_groups,)])
@pytest.mark.parametrize("corpus", CORPORA)
def test_direct_assignment_has_the_same_law(corpus, more, seed):
    found = p_values(CORPORA[corpus], HDP, (direct, *more), seed)
    judge("topics", named(found))


def test_the_number_of_places_makes_no_difference_to_a_dirichlet_process():
    flat = [np.array(d) for d in CORPORA["two documents"]]
    each = [
        law_of_topics(flat, DP(alpha=1.3), dirichlet(0.8, m) if m else DP(alpha=0.8), BETA, 3, m)
        for m in (0, 5, 6, 7)
    ]
    for law in each[1:]:
        assert law.keys() == each[0].keys()
        assert max(abs(law[key] - each[0][key]) for key in law) < 1e-12


# ---- hyperparameters: Geweke (2004) --------------------------------------------------------------

LENGTHS = np.array([5, 4, 6])
INFERRED = thali.TopicWords(concentration=thali.Gamma(2.0, 2.0))
JOINT = {
    "hdp, direct": (
        thali.HierarchicalDirichletProcess(thali.Gamma(2.0, 2.0), thali.Gamma(2.0, 2.0)),
        thali.DirectAssignment(sweeps=10, moves=2, passes=2),
    ),
    "smooth groups": (
        both(thali.SmoothPartition(a=thali.Normal(0.0, 0.7)), DP(alpha=thali.Gamma(2.0, 2.0))),
        thali.Franchise(sweeps=10, moves=2),
    ),
    "smooth topics": (
        both(
            thali.PitmanYor(alpha=thali.Gamma(2.0, 2.0), discount=thali.Beta(2.0, 2.0)),
            thali.SmoothPartition(a=thali.Normal(0.0, 0.7), b=1.1, c=0.2),
            15,
        ),
        thali.Franchise(sweeps=10, moves=2),
    ),
}


def drawn_words(rng, latent, beta):
    """Words given their topics, one after the other, as counts of words by document."""
    label, X = latent.topic_of_word, np.zeros((len(latent.lengths), VOCABULARY))
    counts = np.zeros((latent.n_topics, VOCABULARY))
    for j, t in zip(latent.document, label, strict=True):
        p = counts[t] + beta
        x = rng.choice(VOCABULARY, p=p / p.sum())
        counts[t, x] += 1.0
        X[j, x] += 1.0
    return X, counts


def in_order(latent, rng, beta):
    """Words drawn given topics, put where a matrix of counts has them: documents are bags."""
    flat, counts = [], np.zeros((latent.n_topics, VOCABULARY))
    for t in latent.topic_of_word:
        p = counts[t] + beta
        flat.append(rng.choice(VOCABULARY, p=p / p.sum()))
        counts[t, flat[-1]] += 1.0
    order = np.lexsort([np.array(flat), latent.document])
    group = latent.group[order]
    X = np.zeros((len(latent.lengths), VOCABULARY))
    np.add.at(X, (latent.document, flat), 1.0)
    return X, GROUPED_PARTITIONS.canonical(latent._replace(group=group))


def told(latent, hyper, X):
    """What both ways of drawing are compared by."""
    numbers = [float(np.log(v) if v > 0 else v) for k, v in sorted(hyper.items())]
    several, groups = X.sum(axis=0), len(latent.topic)
    both_of = [number * groups for number in numbers] + [n * latent.n_topics for n in numbers]
    return [latent.n_topics, groups, float((several**2).sum()), *numbers, *both_of]


@pytest.mark.parametrize("name", JOINT)
def test_sweeps_and_draws_of_the_model_agree(name, seed):
    judge("topics", joint_p_values(name, seed))


def test_hyperparameters_that_ignore_documents_are_caught(seed, monkeypatch):
    monkeypatch.setattr("thali.priors.grouped.log_prob_of_documents", lambda prior, counts: 0.0)
    assert alarms(joint_p_values("hdp, direct", seed))


def joint_p_values(name, seed):
    """How well draws of all there is agree with sweeps between draws of words (Geweke 2004)."""
    prior, engine = JOINT[name]
    model, rng, draws = Model(prior, INFERRED), np.random.default_rng(seed), 6000
    one, other = [], []
    for _ in range(draws):
        latent, hyper = fresh(rng, model)
        X, _ = drawn_words(rng, latent, hyper["concentration"])
        one.append(told(latent, hyper, X))
    latent, hyper = fresh(rng, model)
    for _ in range(draws):
        X, latent = in_order(latent, rng, hyper["concentration"])
        data = Documents(csr_array(X))
        state = state_of(model, data, latent, dict(hyper))
        engine.step(rng, model, data, state)
        latent, hyper = state.latent, state.hyper
        other.append(told(latent, hyper, X))
    a, b = np.array(one), np.array(other)
    found = {}
    for i in range(a.shape[1]):
        found[f"mean {i}"] = p_value_of_difference(a[:, i], b[:, i])
        found[f"square {i}"] = p_value_of_difference(a[:, i] ** 2, b[:, i] ** 2)
    return found


def fresh(rng, model):
    """A draw of hyperparameters and of groups and topics."""
    hyper = model.start(Documents(csr_array(np.ones((3, VOCABULARY)))))
    for label, law in model.hyperpriors.items():
        hyper[label] = law.sample(rng)
    return model.prior_at(hyper).sample(rng, LENGTHS), hyper


# ---- broken variants -----------------------------------------------------------------------------

WORDS, GROUPS = "thali.kernels.franchise_words", "thali.kernels.franchise_groups"
MOVES, DIRECT = "thali.kernels.topic_moves", "thali.kernels.direct_assignment"
CHANCE = "log_chance(index, lists, topics, beta, prior_total, other, here)"
BROKEN = {
    "eq. 16 without its normalizer": (
        *(WORDS, "sweep_words", (words,), "hdp"),
        [
            ("(topics.total[t] + prior_total)", "(0 * topics.total[t] + prior_total)"),
            ("(topics.total + prior_total)", "(0 * topics.total + prior_total)"),
        ],
    ),
    "the swap as printed": (
        *(GROUPS, "swap_places", (words, *(swaps,) * 8), "hdp"),
        [
            (
                f"            gain += {CHANCE}\n",
                "            put_group(index, lists, topics, one, here)\n"
                f"            gain += {CHANCE}\n"
                "            take_group(index, lists, topics, one, here)\n",
            )
        ],
    ),
    "no new topic for a group": (
        *(GROUPS, "sweep_groups", (words, groups), "hdp"),
        [("weights[k] = levels.mass + k * levels.discount", "weights[k] = 1.0 * (k == 0)")],
    ),
    "split without its proposal": (
        *(MOVES, "split_or_merge_topics", (words, moves, moves), "hdp"),
        [("        gain -= log_q\n", "")],
    ),
    "closed topics lose their weight": (
        *(DIRECT, "sweep_assignments", (direct,), "hdp"),
        [("                left += weights[t]\n", "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_sweeps_are_caught(name, seed, monkeypatch):
    module, function, sampler, prior, changes = BROKEN[name]
    broken = mutate(module, changes)
    monkeypatch.setattr(f"{module}.{function}", getattr(broken, function))
    swapped = swaps in sampler  # words undo much of what a wrong swap does
    documents = [[0, 0, 0], [1, 1]] if swapped else CORPORA["two documents"]
    found = p_values(documents, PRIORS[prior], sampler, seed, SWEEPS * (3 if swapped else 1))
    assert alarms(named(found))


def test_the_budget_knows_how_many_tests_there_are():
    draws = 5  # of priors: tests/unit/test_grouped_priors.py
    assert TESTS["topics"] == len(CASES) + 3 * len(CORPORA) + len(JOINT) + draws
