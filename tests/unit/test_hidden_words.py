"""Words that are hidden from a model: how many, which, and what is refused."""

import copy

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from thali.evaluation import hide_words


def test_a_share_of_words_of_a_share_of_documents_is_hidden():
    X = np.random.default_rng(0).integers(0, 4, (40, 25))
    given = csr_array(X)
    seen, held = hide_words(given, words=0.3, documents=0.25, random_state=1)
    assert np.array_equal((seen + held).toarray(), X)
    assert np.array_equal(given.toarray(), X)  # what was given stays as it is
    assert min(seen.data.min(), held.data.min()) >= 1.0  # no zeros are kept
    some = held.sum(axis=1) > 0
    assert some.sum() == 10
    assert np.array_equal(held.sum(axis=1)[some], np.floor(0.3 * X.sum(axis=1)[some]))


def test_every_word_is_as_likely_to_be_hidden():
    X, share = np.array([[3, 1, 0, 8]]), np.zeros(4)
    rng = np.random.default_rng(2)
    for _ in range(2000):
        share += hide_words(X, random_state=rng)[1].toarray()[0] / 2000
    assert share == pytest.approx([1.5, 0.5, 0.0, 4.0], abs=0.15)


def test_a_number_makes_it_the_same():
    X = np.random.default_rng(0).integers(0, 4, (9, 7))
    one, other = (hide_words(X, random_state=5)[1].toarray() for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, hide_words(X, random_state=6)[1].toarray())


@pytest.mark.parametrize(
    ("given", "settings", "says"),
    [
        ([[1.5]], {}, "whole numbers"),
        ([[-1.0]], {}, "Negative"),
        ([[0.0]], {}, "no words"),
        ([[1.0]], {"words": 0.0}, "hide_words: words must be positive"),
        ([[1.0]], {"words": "a"}, "hide_words: words must be a positive number, not 'a'"),
        ([[1.0]], {"documents": 1.2}, "hide_words: documents must be at most 1"),
        ([[1.0]], {"random_state": "a"}, "hide_words: random_state must be a whole number"),
        ([[1.0]], {"random_state": -1}, "hide_words: random_state must be a whole number"),
        ([["dal", "rice"], ["goal"]], {}, "hide_words takes a matrix of counts"),
        (["dal rice", "goal"], {}, "hide_words takes a matrix of counts"),
        ([{"dal"}, np.array(["rice"])], {}, "hide_words takes a matrix of counts"),
        (None, {}, "X is None"),
        ([[1.0, np.nan]], {}, "1 counts missing"),
        ([[1.0, 2.0], [1.0]], {}, "ragged"),
        ("docs.csv", {}, "X is a path"),
    ],
)
def test_what_cannot_be_is_refused(given, settings, says):
    with pytest.raises((ValueError, TypeError), match=says):
        hide_words(given, **settings)


def test_counts_in_other_forms_are_hidden_alike_and_stay_as_they_are():
    X = np.random.default_rng(0).integers(0, 4, (9, 7))
    held = hide_words(X, random_state=5)[1].toarray()
    for form in (csr_array(X), csr_array(X.astype(float)), pd.DataFrame(X), X.astype(object)):
        before = copy.deepcopy(form)
        assert np.array_equal(hide_words(form, random_state=5)[1].toarray(), held)
        assert (csr_array(before) != csr_array(form)).nnz == 0 if hasattr(form, "nnz") else True
