"""``TopicModel``: what it accepts, what it says, pieces, files, checkpoints and stops."""

from __future__ import annotations

import pickle
import signal
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, csc_array, csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import thali
import thali.run.loop as run_module
from thali.data.documents import words_of
from thali.engines.topics.state import Earlier, state_of
from thali.estimators import topic_streaming
from thali.model import Model
from thali.results import topic_answer
from thali.run.choices import auto_engine
from thali.structures.grouped_partitions import Grouping, nearest

QUICK = thali.DirectAssignment(sweeps=12, chains=2)
PLACES = thali.HierarchicalFlexible(
    groups=thali.SmoothPartition(a=0.0, b=1.1, c=0.5),
    topics=thali.SmoothPartition(a=0.2, b=0.9, c=0.3),
    slots=600,
)
ENGINES = {
    "direct": ("hierarchical_dirichlet_process", thali.DirectAssignment(sweeps=24, chains=2)),
    "franchise": ("hierarchical_dirichlet_process", thali.Franchise(sweeps=24, chains=2)),
    "flexible": ("hierarchical_flexible", thali.Franchise(sweeps=24, chains=2)),
    "places": (PLACES, thali.Franchise(sweeps=24, chains=2)),
}


def corpus(n=40, words=60, seed=0):
    """Documents of three topics that share no words; counts."""
    rng = np.random.default_rng(seed)
    phi = np.kron(np.eye(3), np.full(4, 0.25))
    theta = rng.dirichlet(np.full(3, 0.3), n)
    return np.array([rng.multinomial(words, theta[d] @ phi) for d in range(n)])


X = corpus()
WORDS = thali.TopicWords()
HELD = np.random.default_rng(0).binomial(X, 0.3)


def model(engine=QUICK, prior="hierarchical_dirichlet_process", **more):
    return thali.TopicModel(prior, engine=engine, random_state=0, progress=False, **more)


@pytest.fixture(scope="module")
def fitted():
    return model(thali.DirectAssignment(sweeps=100, chains=2)).fit(X)


def lists(counts):
    """Counts as lists of words w00, w01 …"""
    return [[f"w{j:02d}" for j, c in enumerate(row) for _ in range(c)] for row in counts]


NAMES = [f"w{j:02d}" for j in range(12)]


# what it says


def test_topics_are_distributions_of_words_and_documents_of_topics(fitted):
    assert fitted.n_components_ == 3
    assert fitted.components_.shape == (fitted.n_components_, 12)
    for rows in (fitted.components_, fitted.document_topics_, fitted.transform(X)):
        assert np.allclose(rows.sum(axis=1), 1.0)
    blocks = {tuple(sorted(int(w[1:]) // 4 for w in top)) for top in fitted.top_words(4)}
    assert blocks == {(0,) * 4, (1,) * 4, (2,) * 4}
    assert 0.9 * X.sum() < fitted.topic_sizes_[:3].sum() <= fitted.topic_sizes_.sum() + 1e-9
    assert fitted.topic_sizes_.sum() <= X.sum() + 1e-9


@pytest.mark.parametrize("hidden", [0, 9])
def test_topics_that_come_and_go_are_summed_up_over_draws(hidden):
    """Of diffuse documents, where draws agree on little."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.5, (30, 50))
    engine = thali.DirectAssignment(sweeps=40, chains=2)
    found = model(engine).fit(counts, n_hidden=np.full(30, hidden))
    assert found.topic_presence_.min() < 0.5
    assert 0.0 < found.topic_sizes_.sum() <= counts.sum() + 1e-9
    assert (np.diff(found.topic_sizes_) <= 1e-9).all()
    which = found.fit_.representatives(found.structure.draws_to_use(30, 1))
    draws = [draw.latent for draw in found.fit_.pick(which)]
    best = nearest([draw.topic_of_word for draw in draws])[0]
    labels = draws[best].topic_of_word
    again, sizes = np.zeros(found.n_components_), np.zeros(found.n_components_)
    shares = np.zeros((30, found.n_components_))
    had, words = [set() for _ in sizes], words_of(found.fit_.data)
    document = np.repeat(np.arange(30), counts.sum(axis=1) + hidden)
    seen, counted, matched = words >= 0, np.zeros((len(sizes), 50)), np.zeros(len(sizes))
    for i, draw in enumerate(draws):  # one by one, by hand
        pairs = np.zeros((found.n_components_, draw.n_topics), int)
        np.add.at(pairs, (labels, draw.topic_of_word), 1)
        for mine, theirs in zip(*linear_sum_assignment(-pairs), strict=True):
            own = draw.topic_of_word == theirs
            if pairs[mine, theirs]:
                sizes[mine] += (own & seen).sum()
                had[mine] |= set(words[own & seen].tolist())
                counted[mine] += np.bincount(words[own & seen], minlength=50)
                matched[mine] += 1
                np.add.at(shares[:, mine], document[own], 1.0)
            if i != best:
                both, either = pairs[mine, theirs], (own | (labels == mine)).sum()
                again[mine] += both / either / (len(draws) - 1)
    order = np.argsort(-sizes, kind="stable")
    np.testing.assert_allclose(found.topic_presence_, again[order])
    np.testing.assert_allclose(found.topic_sizes_, sizes[order] / len(draws))
    shares = shares[:, order] / shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.document_topics_, shares, atol=1e-12)
    rows = (counted / matched[:, None] + 0.1)[order]
    np.testing.assert_allclose(found.components_, rows / rows.sum(axis=1, keepdims=True))
    assert len(set(matched)) > 1
    assert min(map(len, had)) < 50
    for k, listed in enumerate(found.top_words(50)):
        assert {int(word[1:]) for word in listed} == had[order[k]]


def test_fitted_documents_taken_as_new_ones_have_about_the_same_topics(fitted):
    assert np.abs(fitted.transform(X) - fitted.document_topics_).max() < 0.1
    assert np.array_equal(fitted.transform(X), fitted.transform(X))
    assert np.array_equal(model().fit_transform(X), model().fit(X).document_topics_)


def test_new_words_are_predicted_better_than_by_their_frequencies(fitted):
    new = corpus(30, seed=1)
    held = np.random.default_rng(1).binomial(new, 0.3)
    found = fitted.perplexity(new - held, held)
    frequency = X.sum(axis=0) / X.sum()
    alone = np.exp(-(held @ np.log(frequency)).sum() / held.sum())
    assert 4.0 < found < 0.8 * alone
    assert -np.log(0.8 * alone) < fitted.score(new) < -np.log(4.0)


def test_there_is_no_evidence(fitted):
    assert not hasattr(fitted, "evidence")
    assert not hasattr(fitted, "log_evidence_")


# what it accepts

SAME = {
    "integers": X.astype(np.int16),
    "floats in columns": np.asfortranarray(X.astype(float)),
    "a list": X.tolist(),
    "csr": csr_array(X),
    "csc": csc_array(X),
    "coo with twice": coo_array(
        (
            np.ones(X.sum()),
            (
                np.repeat(np.arange(40), 60),
                words_of_all := np.concatenate([np.repeat(np.arange(12), row) for row in X]),
            ),
        ),
        shape=X.shape,
    ),
    "a frame": pd.DataFrame(X, columns=NAMES),
    "a sparse frame": pd.DataFrame.sparse.from_spmatrix(csr_array(X), columns=NAMES),
    "lists of words": lists(X),
    "tuples of words": tuple(tuple(d) for d in lists(X)),
    "a series of lists": pd.Series(lists(X)),
    "lists in arrays": [np.array(d) for d in lists(X)],
    "a table of words": np.array([d for d in lists(X)]),
    "numbers as text": X.astype(str),
    "lists as objects": np.array([d for d in lists(X)], dtype=object),
}


@pytest.mark.parametrize("name", SAME)
def test_counts_in_any_form_have_one_answer(name):
    quick = model(thali.DirectAssignment(sweeps=4, chains=1))
    plain, other = clone(quick).fit(X), clone(quick).fit(SAME[name])
    assert np.array_equal(plain.components_, other.components_)
    assert np.array_equal(plain.transform(X), other.transform(SAME[name]))
    if "frame" in name or "words" in name or "lists" in name:
        assert other.vocabulary_ == NAMES
        assert other.top_words(2)[0][0] in NAMES
    else:
        assert other.vocabulary_[3] == "x3"


def changed(value):
    found = X.astype(float)
    found[3, 4] = value
    return found


REFUSED = {
    "missing": (changed(np.nan), "1 counts missing .NaN., the first at row 3, column 4"),
    "negative": (changed(-1.0), "Negative values in data: X has -1 at row 3, column 4"),
    "a fraction": (changed(0.5), "X has 0.5 at row 3, column 4, .* whole numbers from 0"),
    "sparse fraction": (csr_array(changed(0.5)), "X has 0.5 at row 3, column 4"),
    "sparse missing": (csr_array(changed(np.nan)), "NaN, the first at row 3, column 4"),
    "infinite": (changed(np.inf), "infinity: 1 entries, the first at row 3, column 4"),
    "huge": (changed(1e7), "X has 1e.07 at row 3, column 4"),
    "text in a table": (pd.DataFrame(X).astype(object).replace(0, "none"), "X has text .* 'none'"),
    "no documents": (np.zeros((0, 5)), "0 sample"),
    "no words to choose from": (np.zeros((5, 0)), "0 feature"),
    "no words": (np.zeros((5, 3)), "X has no words: every count is 0"),
    "no words, sparse": (csr_array((5, 3)), "X has no words: every count is 0"),
    "empty lists": ([[], []], "X has no words: every document is empty"),
    "an empty list": ([], "X is empty: it has no documents"),
    "no list in a series": (
        pd.Series([None, ["dal"]]),
        "Document 0 is None, where a list of words",
    ),
    "a column of texts": (np.array([["dal and rice"], ["rice"]]), "list of texts.*CountVectorizer"),
    "no list among lists": ([None, ["dal"]], "Document 0 is None, where a list of words"),
    "a text among lists": ([["dal"], "rice"], "Document 1 is 'rice', where a list of words"),
    "texts": (["dal and rice", "rice"], "list of texts.*CountVectorizer"),
    "a series of texts": (pd.Series(["dal and rice", "rice"]), "list of texts"),
    "a number among words": ([["dal", 3], ["rice"]], "Document 0 has 3"),
    "one document": (X[0], "2 dimensions"),
    "nothing": (None, "X is None"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_count_is_refused_with_its_place(name):
    given, words = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=words):
        model().fit(given)


@pytest.mark.parametrize("name", ["missing", "negative", "a fraction", "infinite", "texts"])
def test_and_so_are_new_documents(name, fitted):
    given, words = REFUSED[name]
    for method in (fitted.transform, fitted.score, fitted.partial_fit):
        with pytest.raises((ValueError, TypeError), match=words):
            method(given)


def test_new_documents_have_the_same_columns(fitted):
    for method in (fitted.transform, fitted.score, fitted.partial_fit):
        for wrong in (X[:, :5], csr_array(X[:, :5])):
            with pytest.raises(ValueError, match="5 features"):
                method(wrong)
    with pytest.raises(ValueError, match=r"columns have no names.*vocabulary=names"):
        fitted.transform(lists(X))
    with pytest.raises(ValueError, match="X_seen has 3 documents and X_held 2"):
        fitted.perplexity(X[:3], X[:2])
    with pytest.raises(ValueError, match="X_held has no words"):
        fitted.perplexity(X[:2], np.zeros((2, 12)))
    with pytest.raises(ValueError, match="no document of two words"):
        fitted.score(np.eye(12, dtype=int))
    for wrong, words in (([["dal"], None], "Document 1 is None"), ([], "X is empty")):
        with pytest.raises((ValueError, TypeError), match=words):
            fitted.transform(wrong)
    with pytest.raises(NotFittedError):
        model().transform(X)


def test_words_that_are_not_known_are_left_out_with_one_warning():
    named = model().fit(lists(X))
    given = [["w00", "w01", "dal"], ["rice"], []]
    with pytest.warns(UserWarning, match="2 of 4 words are not in the vocabulary") as told:
        found = named.transform(given)
    assert len(told) == 1
    assert np.array_equal(found[0], named.transform([["w00", "w01"]])[0])
    assert np.array_equal(found[1], found[2])
    assert np.array_equal(found[2], named.transform([[], []])[1])
    with pytest.warns(UserWarning, match="of 2400 words are not in the vocabulary"):
        few = model().fit(lists(X), vocabulary=NAMES[:8])
    assert few.components_.shape[1] == 8


@pytest.mark.parametrize(
    ("vocabulary", "words"),
    [
        (NAMES[:5], "vocabulary has 5 words, and X has 12 columns"),
        (["a"] * 12, "vocabulary has 'a' twice"),
        ("abcdefghijkl", "must be a list with the word of each column"),
        (5, "must be a list with the word of each column"),
        (b"abcdefghijkl", "must be a list with the word of each column"),
        (frozenset(NAMES), "must be a list with the word of each column"),
        (dict.fromkeys(NAMES).keys(), "must be a list with the word of each column"),
        ([[name] for name in NAMES], "must be a list with the word of each column"),
        ([None, *NAMES[1:]], "vocabulary has None, which is no word"),
        ([], "vocabulary is empty"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(vocabulary, words):
    with pytest.raises((ValueError, TypeError), match=words):
        model().fit(X, vocabulary=vocabulary)


def test_documents_may_be_empty():
    some = X.copy()
    some[[0, 7]] = 0
    found = model().fit(some)
    assert np.allclose(found.document_topics_.sum(axis=1), 1.0)
    assert np.array_equal(found.document_topics_[0], found.document_topics_[7])
    assert np.allclose(found.transform(np.zeros((2, 12), int)), found.document_topics_[0])


@pytest.mark.parametrize("wrong", [[1] * 39, [-1] * 40, [0.5] * 40, "many", [[1]] * 40])
def test_hidden_words_are_whole_numbers(wrong):
    with pytest.raises(ValueError, match="n_hidden must be a whole number from 0 on for each"):
        model().fit(X, n_hidden=wrong)


def test_hidden_words_are_those_that_are_asked_for():
    held = HELD
    found = model(thali.DirectAssignment(sweeps=40, chains=2)).fit(X - held, n_hidden=held.sum(1))
    assert 6.0 < found.perplexity(None, held) < 8.0
    assert abs(found.perplexity(None, held) - found.perplexity(X - held, held)) < 0.2
    for wrong in (held[::-1], held[:5]):
        with pytest.raises(ValueError, match=r"n_hidden=X_held.sum\(axis=1\)"):
            found.perplexity(None, wrong)
    with pytest.raises(ValueError, match=r"n_hidden=X_held.sum\(axis=1\)"):
        model().fit(X).perplexity(None, held)


# scikit-learn


def test_parts_have_parameters():
    other = clone(model()).set_params(
        prior__alpha=0.5, engine__sweeps=3, likelihood__concentration=0.1
    )
    assert other.prior == thali.HierarchicalDirichletProcess(alpha=0.5)
    assert other.engine.sweeps == 3
    found = clone(other).fit(X)
    assert found.alpha_ == 0.5
    assert found.concentration_ == 0.1
    tags = other.__sklearn_tags__().input_tags
    assert tags.positive_only
    assert tags.sparse
    assert not tags.allow_nan
    assert tags.two_d_array


def test_a_pipeline_counts_words_and_finds_topics():
    texts = [" ".join(words) for words in lists(X)]
    pipe = make_pipeline(CountVectorizer(), model())
    found = pipe.fit_transform(texts)
    assert np.array_equal(found, model().fit(csr_array(X)).document_topics_)
    assert pipe.transform(texts[:3]).shape == (3, found.shape[1])
    assert list(pipe.get_feature_names_out())[:2] == ["topicmodel0", "topicmodel1"]
    assert np.isfinite(pipe.score(texts[:5]))
    assert pipe[-1].top_words(1)[0][0].startswith("x")
    pipe[-1].vocabulary_ = pipe[0].get_feature_names_out()
    assert pipe[-1].top_words(1)[0][0] in NAMES
    with pytest.raises(ValueError, match="vocabulary has 3 words, and X has 12 columns"):
        pipe[-1].vocabulary_ = NAMES[:3]
    with pytest.raises(NotFittedError):
        model().vocabulary_ = NAMES


def test_frames_in_and_out():
    frame = pd.DataFrame(X, columns=NAMES, index=[f"doc {i}" for i in range(40)])
    found = model().set_output(transform="pandas").fit(frame)
    assert list(found.feature_names_in_) == NAMES
    assert found.row_names_[3] == "doc 3"
    out = found.transform(frame)
    assert list(out.columns) == [f"topicmodel{k}" for k in range(found.n_components_)]
    assert list(out.index) == list(frame.index)
    with pytest.raises(ValueError, match="feature names should match"):
        found.transform(frame[NAMES[::-1]])


def test_grid_search():
    search = GridSearchCV(
        model(QUICK.replace(chains=1)), {"likelihood__concentration": [0.1, 5.0]}, cv=2
    ).fit(X)
    assert search.best_params_["likelihood__concentration"] == 0.1


def test_it_can_be_pickled(fitted):
    fitted.transform(X[:2])
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(X[:2]), fitted.transform(X[:2]))


# pieces


def test_pieces_add_up():
    found = model()
    for first in (0, 15, 30):
        before = getattr(found, "topic_sizes_", np.zeros(0))
        found.partial_fit(X[first : first + 15])
        assert found.document_topics_.shape == (len(X[first : first + 15]), found.n_components_)
        assert found.n_documents_seen_ == min(first + 15, 40)
        if first == 30:
            assert (found.topic_sizes_[: len(before)] >= before).all()
    assert np.isclose(found.topic_sizes_.sum(), X.sum())
    assert np.isnan(found.topic_presence_).all()
    counts = topic_streaming.stream_of(found.fit_, found.grouping_).counts
    assert np.array_equal(np.asarray(counts.sum(axis=0)), X.sum(axis=0))
    rows = counts.toarray() + 0.1
    assert np.allclose(found.components_, rows / rows.sum(axis=1, keepdims=True))
    assert np.allclose(found.components_.sum(axis=1), 1.0)
    assert len(found.top_words(3)) == found.n_components_
    shares, own = found.transform(X[30:]), found.document_topics_
    assert np.abs(shares - own).mean() < 0.6 * np.abs(shares - own[::-1]).mean()
    held = HELD
    assert found.perplexity(X - held, held) < 8.0
    assert np.isfinite(found.score(X))
    with pytest.raises(ValueError, match="n_hidden"):
        found.perplexity(None, held[30:])


def test_pieces_of_lists_have_one_vocabulary():
    given, own = lists(X), [word for word in NAMES if word != "w03"]
    first = [[word for word in d if word != "w03"] for d in given[:20]]
    found = model().partial_fit(first, vocabulary=NAMES).partial_fit(given[20:], vocabulary=NAMES)
    assert found.vocabulary_ == NAMES
    assert np.isclose(found.topic_sizes_.sum(), X[:20].sum() - X[:20, 3].sum() + X[20:].sum())
    with pytest.raises(ValueError, match="not that of earlier pieces"):
        found.partial_fit(given[20:], vocabulary=own)
    with pytest.warns(UserWarning, match="not in the vocabulary"):
        assert model().partial_fit(first).partial_fit(given[20:]).vocabulary_ == own
    unnamed = model().partial_fit(X[:20]).partial_fit(X[20:], vocabulary=NAMES)
    assert unnamed.vocabulary_ == NAMES


def test_topics_in_another_order_are_the_same():
    lengths, group = np.array([3, 2], np.int32), np.array([0, 0, 1, 0, 1], np.int32)
    given = Grouping(lengths, group, np.array([0, 1, 1, 2], np.int32), np.array([5, 6, 7, 8, 9]))
    found = topic_answer.in_order(given, np.array([2, 0, 1]))
    assert found.topic.tolist() == [1, 2, 2, 0]
    assert found.dummies.tolist() == [7, 5, 6, 8, 9]


def test_empty_documents_need_no_names(fitted):
    assert np.array_equal(fitted.transform([[], []]), fitted.transform(np.zeros((2, 12), int)))


def test_a_vocabulary_that_came_with_bad_documents_is_forgotten():
    found = model().partial_fit(X[:20])
    with pytest.raises(ValueError, match="X has no words"):
        found.partial_fit(np.zeros((2, 12)), vocabulary=NAMES)
    assert found.vocabulary_[0] == "x0"


def test_words_may_be_sets():
    given = [{"dal", "rice"}, {"goal", "ball"}, frozenset({"dal", "ball"})]
    sure = [["dal", "rice"], ["ball", "goal"], ["ball", "dal"]]
    one, other = (model().fit(documents) for documents in (given, sure))
    assert np.array_equal(one.components_, other.components_)


def test_none_of_the_words_is_known():
    with pytest.raises(ValueError, match="None of the words of X is in the vocabulary"):
        model().fit(lists(X), vocabulary=["z"])


def test_a_new_topic_opens_in_a_later_piece():
    found = model().partial_fit(X * (np.arange(12) < 8)).partial_fit(X * (np.arange(12) >= 8))
    best = found.components_[:, 8:].sum(axis=1)
    assert best.max() > 0.9
    assert found.top_words(2)[int(best.argmax())][0] in {"x8", "x9", "x10", "x11"}


@pytest.mark.parametrize("prior", ["hierarchical_dirichlet_process", "hierarchical_flexible"])
def test_what_is_counted_of_pieces_is_what_there_is(prior):
    """Lists of topics with earlier counts in them, after sweeps over new documents."""
    found = model(thali.Franchise(sweeps=4, chains=1), prior).fit(X[:20])
    stream = topic_streaming.stream_of(found.fit_, found.grouping_)
    rng, data = np.random.default_rng(0), model().fit(X[20:]).fit_.data
    hyper = dict(found.fit_.mean_hyper())
    first = topic_streaming.in_one_group(rng, X[20:].sum(axis=1), stream.groups)
    earlier = Earlier(stream.counts, stream.groups)
    state = state_of(found.fit_.model, data, first, hyper, earlier=earlier)
    for _ in range(3):
        topic_streaming.one_sweep(rng, found.fit_.model, state, stream)
        label, k = topic_streaming.slots_of_words(state), len(stream.groups)
        expected = np.zeros((len(state.topics.total), 12), int)
        expected[:k] = stream.counts.toarray()
        np.add.at(expected, (label, words_of(data)), 1)
        for x in range(12):
            some = slice(state.lists.begin[x], state.lists.begin[x] + state.lists.length[x])
            entries = state.lists.entry[some]
            got = np.zeros(len(expected), int)
            got[entries & (2**32 - 1)] = entries >> 32
            assert np.array_equal(got, expected[:, x])
        assert np.array_equal(state.topics.total, expected.sum(axis=1))
        groups = np.bincount(state.seating.topic[state.seating.size > 0], minlength=len(expected))
        groups[:k] += stream.groups
        assert np.array_equal(state.topics.groups, groups)


def test_pieces_need_a_consistent_prior_over_topics():
    for asked in (
        model(prior=PLACES, engine="auto"),
        model(thali.Franchise(sweeps=2, chains=1), PLACES).fit(X[:5]),
    ):
        with pytest.raises(ValueError, match="SmoothPartition tells of slots=600 places"):
            asked.partial_fit(X)
    with pytest.raises(ValueError, match="X has no words"):
        model().fit(X).partial_fit(np.zeros((2, 12)))


# files


@pytest.mark.parametrize("name", ENGINES)
def test_a_file_keeps_it_all(name, tmp_path):
    prior, engine = ENGINES[name]
    held = HELD
    found = model(engine.replace(sweeps=6), prior).fit(lists(X - held), n_hidden=held.sum(axis=1))
    found.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert again.vocabulary_ == NAMES
    assert (again.prior_, again.engine_) == (found.prior_, found.engine_)
    for key in ("components_", "topic_sizes_", "topic_presence_", "document_topics_"):
        assert np.array_equal(getattr(again, key), getattr(found, key)), key
    assert again.perplexity(None, held) == found.perplexity(None, held)
    assert np.array_equal(again.transform(lists(X)), found.transform(lists(X)))


def test_a_file_keeps_pieces(tmp_path):
    found = model().partial_fit(X[:20]).partial_fit(X[20:30])
    found.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert np.array_equal(again.document_topics_, found.document_topics_)
    assert again.n_documents_seen_ == 30
    assert np.array_equal(again.transform(X), found.transform(X))
    one, two = found.partial_fit(X[30:]), again.partial_fit(X[30:])
    assert np.array_equal(one.components_, two.components_)


def test_a_damaged_file_is_refused(tmp_path, fitted):
    from thali import storage

    fitted.save(tmp_path / "m.thali")
    arrays, meta = storage.read(tmp_path / "m.thali", "model")
    for change in ({"X_data": -arrays["X_data"]}, {"X_data": arrays["X_data"] + 1}):
        storage.write(tmp_path / "d.thali", "model", arrays | change, meta)
        with pytest.raises(ValueError, match="damaged"):
            thali.load(tmp_path / "d.thali")


def test_a_model_begins_from_another_and_can_be_saved(tmp_path, fitted):
    for prior, engine in (ENGINES["direct"], ENGINES["places"]):
        found = model(engine.replace(sweeps=3, init=fitted), prior).fit(X)
        assert found.starts_ == ["another model"] * 2
        found.save(tmp_path / "m.thali")
        again = thali.load(tmp_path / "m.thali")
        assert np.array_equal(again.components_, found.components_)
        assert again.fit(X).starts_ == ["given Z"] * 2
        again.save(tmp_path / "m.thali")
    with pytest.raises(ValueError, match="document 0 has 60 words there and 61 here"):
        model(QUICK.replace(init=fitted)).fit(X, n_hidden=np.ones(40, int))
    with pytest.raises(ValueError, match="init was fitted to 40 documents, and there are 5"):
        model(QUICK.replace(init=fitted)).fit(X[:5])
    few = PLACES.replace(slots=41)
    with pytest.raises(ValueError, match="slots=41 places"):
        model(thali.Franchise(sweeps=3, init=fitted), few).fit(X)
    with pytest.raises(ValueError, match="init must be the name of a start or a fitted TopicModel"):
        thali.Franchise(init=3)


# stops


def stopped_at(monkeypatch, engine, at):
    """Ctrl-C comes at step ``at``, counted over chains, which take turns."""
    step, seen = type(engine).step, []

    def count(*arguments):
        seen.append(1)
        if len(seen) == at:
            time.sleep(0.1)  # until the main thread does nothing but wait
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.1)  # until it has heard of it
        return step(*arguments)

    monkeypatch.setattr(run_module, "cores", lambda: 1)
    monkeypatch.setattr(run_module, "SLICE", 0.0)
    monkeypatch.setattr(type(engine), "step", count)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("at", [8, 40])  # of 48 steps, 24 of them in burn-in
@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_a_run_that_was_stopped_ends_with_the_same_draws(name, at, tmp_path, monkeypatch):
    prior, engine = ENGINES[name]
    hidden, few = np.ones(12, int), X[:12]
    whole = model(engine, prior).fit(few, n_hidden=hidden)
    path = tmp_path / "run.thali"
    stopped_at(monkeypatch, engine, at)
    part = model(engine, prior).fit(few, n_hidden=hidden, checkpoint=path)
    assert part.stopped_ == "interrupted"
    assert part.history_["log_joint"].shape[1] < 24
    monkeypatch.undo()
    with pytest.raises(ValueError, match="belongs to another run: the data differs"):
        model(engine, prior).fit(few, n_hidden=2 * hidden, checkpoint=path, resume=True)
    rest = model(engine, prior).fit(few, n_hidden=hidden, checkpoint=path, resume=True)
    for key, values in whole.history_.items():
        assert np.array_equal(values, rest.history_[key]), key
    for one, two in zip(whole.fit_.draws(), rest.fit_.draws(), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(one.latent, two.latent, strict=True))


@pytest.mark.parametrize("name", ["direct", "places"])
@pytest.mark.parametrize("at", [1, 5])
@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_ctrl_c_keeps_what_was_computed(name, at, monkeypatch):
    prior, engine = ENGINES[name]
    stopped_at(monkeypatch, engine, at)
    found = model(engine, prior).fit(X[:12])
    assert found.stopped_ == "interrupted"
    assert found.document_topics_.shape == (12, found.n_components_)
    assert found.transform(X).shape == (40, found.n_components_)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_no_time_at_all_has_a_step(name):
    prior, engine = ENGINES[name]
    found = model(engine.replace(sweeps=10**6), prior).fit(X[:12], time_budget=1e-9)
    assert found.stopped_ == "time budget"
    assert np.isfinite(found.log_joint_)
    assert np.allclose(found.transform(X).sum(axis=1), 1.0)


def test_a_fit_that_fails_leaves_the_earlier_one(fitted):
    before = fitted.components_
    for wrong in ({"X": changed(0.5)}, {"X": X, "n_hidden": [1]}, {"X": X, "vocabulary": ["a"]}):
        with pytest.raises(ValueError):  # noqa: PT011
            fitted.fit(**wrong)
    assert fitted.components_ is before
    assert fitted.vocabulary_[0] == "x0"
    assert np.isfinite(fitted.perplexity(X, np.minimum(X, 1)))


def test_no_warning_is_given_for_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(X).transform(X)
    assert Model(thali.HierarchicalFlexible(), thali.TopicWords()).structure.component == "topic"


@pytest.mark.parametrize(("sweeps", "kept"), [(4, 2), (24, 6), (90, 9)])
def test_as_many_sweeps_are_made_as_were_asked_for(sweeps, kept):
    found = model(thali.DirectAssignment(sweeps=sweeps, chains=1)).fit(X[:5])
    assert found.history_["log_joint"].shape == (1, sweeps)
    assert len(found.fit_) == kept


def test_the_reason_for_an_engine_speaks_of_engines_of_topics():
    plain = auto_engine(Model(thali.HierarchicalDirichletProcess(), WORDS))
    assert plain.sentence() == "DirectAssignment, since it samples the model exactly."
    other = auto_engine(Model(thali.HierarchicalFlexible(), WORDS))
    assert other.sentence().startswith("Franchise, since DirectAssignment cannot run")
