"""Coherence of topics against a plain count of documents, and the corpus with known topics."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import thali
from thali.results.topic_coherence import npmi


def plain_npmi(X: np.ndarray, words: list[int]) -> float:
    """The mean over pairs of words, document by document."""
    documents, found = [set(np.flatnonzero(row)) for row in X], []
    for i, j in itertools.combinations(words, 2):
        one, other, both = (
            sum(own <= document for document in documents) / len(documents)
            for own in ({i}, {j}, {i, j})
        )
        if both in (0.0, 1.0):
            found.append(-1.0 if both == 0.0 else 1.0)
        else:
            found.append(math.log(both / (one * other)) / -math.log(both))
    return sum(found) / len(found)


@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
def test_npmi_is_that_of_a_plain_count(rng: np.random.Generator, density: float) -> None:
    X = rng.poisson(3.0, (40, 30)) * (rng.random((40, 30)) < density)
    X[:, :2] += 1  # words that all documents have
    X[:, 2] = 0  # and one that none has
    words = np.array([rng.permutation(30)[:6] for _ in range(5)] + [[0, 1, 2, 3, 4, 5]])
    expected = [plain_npmi(X, row.tolist()) for row in words]
    np.testing.assert_allclose(npmi(csr_array(X), list(words)), expected, atol=1e-12)


def test_npmi_of_words_that_are_never_and_always_together() -> None:
    X = csr_array(np.array([[1, 1, 0, 1], [2, 1, 0, 1], [0, 0, 5, 1]]))
    pairs = [np.array(pair) for pair in ([0, 1], [0, 2], [0, 3])]
    np.testing.assert_allclose(npmi(X, pairs), [1.0, -1.0, 0.0])
    ragged = npmi(X, [np.array([0]), np.array([2, 0, 3]), np.zeros(0, int)])
    assert np.isnan(ragged[[0, 2]]).all()
    np.testing.assert_allclose(ragged[1], -1 / 3, atol=1e-12)


@pytest.fixture(scope="module")
def fitted() -> tuple[thali.TopicModel, thali.datasets.Corpus]:
    data = thali.datasets.topics(n=40, k=3, length=30, random_state=1)
    engine = thali.DirectAssignment(sweeps=40, chains=1, init="one_topic")
    model = thali.TopicModel(engine=engine, random_state=0, progress=False)
    return model.fit(data.X, vocabulary=data.words), data


def test_coherence_of_a_model_on_its_documents_and_on_others(fitted) -> None:
    model, data = fitted
    X = data.X.toarray()
    place = {word: v for v, word in enumerate(data.words)}
    expected = [plain_npmi(X, [place[word] for word in own]) for own in model.top_words(5)]
    np.testing.assert_allclose(model.coherence(5), expected, atol=1e-12)
    others = thali.datasets.topics(n=30, k=3, random_state=2).X
    expected = [
        plain_npmi(others.toarray(), [place[word] for word in own]) for own in model.top_words(4)
    ]
    np.testing.assert_allclose(model.coherence(4, others), expected, atol=1e-12)
    np.testing.assert_allclose(model.coherence(4, others.toarray()), expected, atol=1e-12)
    lists = [np.repeat(data.words, row.astype(int)).tolist() for row in others.toarray()]
    lists[0].append("a word that was never seen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of words that are left out
        np.testing.assert_allclose(model.coherence(4, lists), expected, atol=1e-12)
    assert len(model.coherence(10**6)) == model.n_components_  # more words than there are


def test_coherence_refuses_what_it_cannot_use(fitted) -> None:
    model, data = fitted
    with pytest.raises(ValueError, match="n must be"):
        model.coherence(1)
    with pytest.raises(ValueError, match="X has 3 "):
        model.coherence(5, np.ones((4, 3)))
    with pytest.raises(ValueError, match="counts of words"):
        model.coherence(5, data.X * 0.5)


def test_documents_with_known_topics() -> None:
    data = thali.datasets.topics(n=50, length=20, random_state=3)
    assert data.X.shape == (50, len(data.words)) == (50, 84)
    assert data.words == sorted(set(data.words))
    assert abs(data.X.sum() / 50 - 20) < 3
    np.testing.assert_allclose(data.topics.sum(axis=1), 1.0)
    np.testing.assert_allclose(data.shares.sum(axis=1), 1.0)
    assert data.topic_names[0] == "kitchen"
    again = thali.datasets.topics(n=50, length=20, random_state=3)
    assert (again.X != data.X).nnz == 0
    expected = data.shares @ data.topics * data.X.sum(axis=1)[:, None]
    assert np.abs(expected.sum(axis=0) - data.X.sum(axis=0)).max() < 5 * np.sqrt(data.X.sum())
    for wrong in ({"n": 0}, {"k": 7}, {"length": 0}, {"spread": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            thali.datasets.topics(**wrong)
