"""New documents given fixed topics, and hidden words, against sums written out in plain Python."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles.topics import all_groupings
from scipy.sparse import csr_array
from scipy.special import logsumexp

import thali
from thali.data.documents import Documents
from thali.engines.topics import steps
from thali.engines.topics.state import Earlier, levels_of, state_of
from thali.estimators import topic_streaming
from thali.kernels import folding_in
from thali.model import Model
from thali.results import new_documents
from thali.results.new_documents import every_second, fold_in, topics_of
from thali.structures.labels import all_partitions

BETA = 0.4
COUNTS = np.array([[4.0, 1.0, 0.0, 2.0], [0.0, 3.0, 3.0, 0.0]])  # of two topics
GROUPS = np.array([3, 2])
WORDS = [0, 2, 3]
FLEXIBLE = thali.FlexiblePartition((0.3, -0.6, 1.1, 0.4))
DP = thali.DirichletProcess
TOP = thali.FlexiblePartition((0.5, -0.4, 0.9, 0.2, 1.0, 0.3, 0.1, 0.2))
PRIORS = {
    "hdp": thali.HierarchicalDirichletProcess(alpha=1.3, gamma=0.8),
    "flexible groups": thali.HierarchicalFlexible(groups=FLEXIBLE, topics=DP(alpha=0.8)),
    "pitman-yor twice": thali.HierarchicalFlexible(
        groups=thali.PitmanYor(alpha=0.4, discount=0.3),
        topics=thali.PitmanYor(alpha=0.6, discount=0.4),
    ),
    "places": thali.HierarchicalFlexible(groups=FLEXIBLE, topics=TOP, slots=8),
}
DUMMIES = np.array([1, 2])  # of 8 places, where there are any


def topics(prior, words=COUNTS):
    model = Model(prior, thali.TopicWords(concentration=BETA))
    dummies = DUMMIES if prior.places else np.zeros(2, np.int64)
    hyper = model.start(Documents(csr_array(words)))
    return topics_of(model, hyper, csr_array(words), (GROUPS, dummies), np.arange(2))


def shares_by_hand(prior):
    """What one more group has to do with the two topics, and with a new one."""
    if prior.places:
        return np.array([1.0, 2.0, 0.0]) / 3.0
    top = prior.of_topics
    mass, d = (float(x) for x in top.mass_and_discount(top.start()))
    return np.array([3.0 - d, 2.0 - d, mass + 2 * d]) / (5.0 + mass)


def all_ways(prior, words):
    """Expected topics of each word of a document, summed over all groups and their topics."""
    share = shares_by_hand(prior)
    total = COUNTS.sum(axis=1)
    phi = np.vstack([(COUNTS + BETA) / (total + 4 * BETA)[:, None], np.full(4, 0.25)])
    found, norm = np.zeros((len(words), 3)), 0.0
    for labels in all_partitions(len(words)):
        own = np.array(labels)
        k = int(own.max()) + 1
        for each in product(range(3), repeat=k):
            weight = np.exp(prior.of_groups.log_prob(own)) * np.prod(share[list(each)])
            for w, g in zip(words, own, strict=True):
                weight *= phi[each[g], w] if w >= 0 else 1.0
            norm += weight
            found[np.arange(len(words)), np.array(each)[own]] += weight
    return found / norm, phi


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("hidden", [0, 1])
def test_a_new_document_has_the_topics_of_all_ways_to_group_its_words(name, hidden):
    prior, words = PRIORS[name], WORDS if not hidden else [0, 2, -1]
    expected, _ = all_ways(prior, words)
    X = np.zeros((1, 4))
    for w in words:
        X[0, w] += w >= 0
    documents = Documents(csr_array(X), hidden=np.array([hidden]) if hidden else None)
    found = fold_in(topics(prior), documents, 7, 200_000)
    seen = np.array(words) >= 0
    assert np.allclose(found.seen[0], expected[seen].sum(axis=0), atol=0.005)
    assert np.allclose(found.hidden[0], expected[~seen].sum(axis=0), atol=0.005)
    assert np.isclose(found.seen.sum() + found.hidden.sum(), len(words))


def test_a_wrong_share_of_topics_would_be_noticed():
    expected, _ = all_ways(PRIORS["hdp"], WORDS)
    given = topics(PRIORS["hdp"])
    wrong = given._replace(share=np.full(3, 1 / 3))
    documents = Documents(csr_array([[1.0, 0.0, 1.0, 1.0]]))
    found = fold_in(wrong, documents, 7, 200_000)
    assert np.abs(found.seen[0] - expected.sum(axis=0)).max() > 0.05


@pytest.mark.parametrize("name", PRIORS)
def test_a_held_word_has_its_probability(name):
    prior = PRIORS[name]
    expected, phi = all_ways(prior, [0, 2, -1])
    seen, held = csr_array([[1.0, 0.0, 1.0, 0.0]]), csr_array([[0.0, 0.0, 0.0, 1.0]])
    found = new_documents.held_probabilities([topics(prior)] * 2, seen, held, 3)
    many = fold_in(topics(prior), Documents(seen, hidden=np.array([1])), 3, 200_000).hidden[0]
    assert np.allclose(many @ phi[:, 3], expected[2] @ phi[:, 3], atol=0.003)
    assert np.allclose(found, many @ phi[:, 3], atol=0.03)  # of a hundred sweeps


def test_threads_and_other_documents_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    X, given = csr_array(rng.poisson(1.0, (40, 4)).astype(float)), topics(PRIORS["hdp"])
    one = new_documents.topic_shares([given], 2, X, 0)
    monkeypatch.setattr(new_documents, "cores", lambda: 3)
    assert np.array_equal(one, new_documents.topic_shares([given], 2, X, 0))
    monkeypatch.setattr(new_documents, "cores", lambda: 1)
    monkeypatch.setattr(new_documents, "BLOCK", 9)
    assert np.array_equal(one, new_documents.topic_shares([given], 2, X, 0))
    order = rng.permutation(40)
    assert np.array_equal(one[order[:5]], new_documents.topic_shares([given], 2, X[order[:5]], 0))
    assert not np.array_equal(one, new_documents.topic_shares([given], 2, X, 1))


def test_an_empty_document_has_the_shares_of_the_prior():
    given = topics(PRIORS["hdp"])
    found = new_documents.topic_shares([given], 2, csr_array((2, 4)), 0)
    assert np.allclose(found, [0.6, 0.4])
    held = csr_array([[0.0, 0.0, 0.0, 1.0]])
    share, phi = shares_by_hand(PRIORS["hdp"]), all_ways(PRIORS["hdp"], [0])[1]
    found = new_documents.held_probabilities([given], csr_array((1, 4)), held, 0)
    assert np.allclose(found, share @ phi[:, 3])


def test_random_numbers_are_even():
    state = np.array([3], np.uint64)
    drawn = np.array([folding_in.uniform(state) for _ in range(4000)])
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    counts = np.bincount((drawn * 20).astype(int), minlength=20)
    assert ((counts - 200.0) ** 2 / 200.0).sum() < 45.0  # chi-square of 19: about one in a thousand
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.06


def test_every_second_word_is_held():
    rng = np.random.default_rng(0)
    X = csr_array(rng.poisson(0.7, (30, 9)).astype(float))
    seen, held = every_second(X)
    assert np.array_equal((seen + held).toarray(), X.toarray())
    for i, row in enumerate(X.toarray().astype(int)):
        words = np.repeat(np.arange(9), row)
        assert np.array_equal(np.bincount(words[::2], minlength=9), seen.toarray()[i])


# hidden words of the documents that were fitted


def by_hand(model, draw, held):
    """P of every word of every document, of a hidden word that is taken out of its group."""
    fit = model.fit_
    hyper = fit.hyper_of(draw.scalars)
    prior, beta = fit.model.prior_at(hyper), fit.model.likelihood_at(hyper).beta
    latent, X, v = draw.latent, fit.data.X.toarray().astype(int), fit.data.d
    tables = prior.tables(int(latent.lengths.max()))
    hidden, first, groups_of = fit.data.hidden, latent.first, latent.groups_of
    begin = np.cumsum(groups_of) - groups_of
    k = max(latent.n_topics, len(latent.dummies))
    counts = np.zeros((k, v))
    for j in range(len(X)):
        words = np.repeat(np.arange(v), X[j])
        for i, w in enumerate(words):
            counts[latent.topic[begin[j] + latent.group[first[j] + i]], w] += 1
    phi = (counts + beta) / (counts.sum(axis=1, keepdims=True) + v * beta)
    found = np.zeros((len(X), v))
    for j in range(len(X)):
        own = latent.group[first[j] : first[j + 1]]
        for i in range(len(own) - hidden[j], len(own)):
            rest = np.delete(own, i)
            groups = np.bincount(latent.topic, minlength=k).astype(float)
            dummies = latent.dummies.astype(float)
            if own[i] not in rest:
                t = latent.topic[begin[j] + own[i]]
                groups[t] -= 1
                if prior.places:
                    dummies[t] += 1
            weights, p, opens = 0.0, np.zeros(v), tables.open[len(set(rest.tolist()))]
            for g in set(rest.tolist()):
                w = tables.join[int((rest == g).sum())]
                weights += w
                p += w * phi[latent.topic[begin[j] + g]]
            if prior.places:
                left = prior.places - groups.sum()
                p += opens * (dummies @ phi) / left if left else 0.0
                weights += opens if left else 0.0
            else:
                live = groups > 0
                share = np.where(live, groups - tables.discount, 0.0)
                fresh = tables.mass + live.sum() * tables.discount
                p += opens * (share @ phi + fresh / v) / (share.sum() + fresh)
                weights += opens
            found[j] += p / weights / hidden[j]
    return found[held.nonzero()]


@pytest.mark.parametrize("name", ["hdp", "pitman-yor twice", "flexible groups", "places"])
def test_hidden_words_are_predicted_as_written_out(name, rng):
    X = rng.poisson(0.5, (9, 5)).astype(int)
    held = rng.poisson(0.4, (9, 5)).astype(int)
    X[0], held[1], held[2] = 0, 0, [1, 0, 2, 0, 0]
    X = np.minimum(X, 1) if name in ("flexible groups", "places") else X
    prior = PRIORS[name]
    if prior.places or name == "flexible groups":
        groups = thali.SmoothPartition(a=0.1, b=1.1, c=0.4)
        top = thali.SmoothPartition(a=0.2, b=0.9, c=0.3) if prior.places else DP(alpha=0.8)
        slots = 45 if prior.places else None
        prior = thali.HierarchicalFlexible(groups=groups, topics=top, slots=slots)
    engine = thali.Franchise(sweeps=8, chains=1)
    model = thali.TopicModel(prior, engine=engine, random_state=0)
    model.fit(X, n_hidden=held.sum(axis=1))
    fit, asked = model.fit_, csr_array(held.astype(float))
    every = []
    for draw in fit.draws():
        own = new_documents.held_in_draw(fit, draw.latent, fit.hyper_of(draw.scalars), asked)
        every.append(by_hand(model, draw, held))
        assert np.allclose(own, every[-1], rtol=1e-8, atol=0.0)
    mean = np.mean(every, axis=0)
    counts = held[held.nonzero()]
    expected = np.exp(-(counts @ np.log(mean)) / counts.sum())
    assert np.isclose(model.perplexity(None, held), expected, rtol=1e-8)


ODD = thali.FlexiblePartition((0.5, -0.4, 0.9, 0.2, 1.0, 0.3))


@pytest.mark.parametrize(
    ("name", "sweeps"),
    [
        ("places", 500),
        *(pytest.param(name, 4000, marks=pytest.mark.slow) for name in PRIORS),
    ],
)
def test_a_hidden_word_is_predicted_as_all_ways_to_put_words_together_do(name, sweeps):
    """P(word | all others), by draws of a chain, and by sums over groups and topics."""
    prior = PRIORS[name]
    if prior.places:
        prior = thali.HierarchicalFlexible(groups=FLEXIBLE, topics=ODD, slots=6)
    logs = []
    for w in range(3):
        documents = [np.array([0, 0, w]), np.array([0, 2])]
        parts = prior.of_groups, prior.of_topics, BETA, 3, prior.places
        logs.append(logsumexp([value for *_, value in all_groupings(documents, *parts)]))
    exact = np.exp(logs - logsumexp(logs))
    engine = thali.Franchise(sweeps=sweeps, burn_in=100, thin=1, chains=1)
    model = thali.TopicModel(prior, thali.TopicWords(concentration=BETA), engine, random_state=0)
    model.fit(np.array([[2, 0, 0], [1, 0, 1]]), n_hidden=[1, 0])
    found = new_documents.held_in_fit(model.fit_, csr_array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    assert np.isclose(sum(found), 1.0)
    assert np.allclose(found, exact, atol=0.01 if sweeps > 1000 else 0.03)


@pytest.mark.parametrize("name", ["hdp", "flexible groups", "pitman-yor twice"])
def test_a_later_piece_has_its_law_given_the_one_before(name):
    """Topics of two new words beside three of an earlier document, which stay where they are."""
    prior, before = PRIORS[name], np.array([0, 0, 1])  # the first two share a group and a topic
    documents = [np.array([0, 0, 1]), np.array([0, 2])]
    law: dict[tuple[int, ...], float] = {}
    parts = prior.of_groups, prior.of_topics, BETA, 3
    for of_words, each, value in all_groupings(documents, *parts):
        if np.array_equal(of_words[:3], before) and np.array_equal(each[:3], before):
            key = tuple(np.minimum(each[3:], 2).tolist())
            law[key] = law.get(key, 0.0) + float(np.exp(value))
    total = sum(law.values())
    model = Model(prior, thali.TopicWords(concentration=BETA))
    data = Documents(csr_array([[1.0, 0.0, 1.0]]))
    earlier = Earlier(csr_array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([1, 1]))
    rng = np.random.default_rng(0)
    first = topic_streaming.in_one_group(rng, np.array([2]), earlier.groups)
    state = state_of(model, data, first, model.start(data), earlier=earlier)
    levels, seen, sweeps = levels_of(model, state), dict.fromkeys(law, 0), 4000
    for _ in range(sweeps):
        steps.sweep_words(rng, state, levels)
        steps.sweep_groups(rng, state, levels, steps.index_of(state))
        slots = topic_streaming.slots_of_words(state)
        seen[tuple(np.minimum(slots, 2).tolist())] += 1
    for key, value in law.items():
        assert abs(seen[key] / sweeps - value / total) < 0.03, key
