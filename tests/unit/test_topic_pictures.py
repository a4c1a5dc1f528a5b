"""Pictures and report of topics show what a fitted TopicModel holds, whatever its size."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from pictured import drawn
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

import thali
from thali import plots
from thali.plots import topic_reading
from thali.report import write_report

SINGLE = (
    "document_topics",
    "feature_count",
    "group_size_counts",
    "topic_similarity",
    "topic_sizes",
    "topic_words",
)
SECTIONS = [
    *("summary", "convergence", "topics", "alike", "documents", "groups", "reading"),
]
EVIL = "<script>alert(1)</script>"
QUICK = thali.DirectAssignment(sweeps=10, thin=1, chains=1, init="one_topic")


def fitted(X: Any, words: Any = None, engine: Any = QUICK, **options: Any) -> thali.TopicModel:
    model = thali.TopicModel(engine=engine, random_state=0, progress=False, **options)
    return model.fit(X, vocabulary=words)


def text_of(model: thali.TopicModel, folder: Path, **options: Any) -> str:
    return write_report(model, folder / "r.html", **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data() -> thali.datasets.Corpus:
    return thali.datasets.topics(n=40, k=4, length=30, random_state=0)


@pytest.fixture(scope="module")
def plain(data: thali.datasets.Corpus) -> thali.TopicModel:
    engine = thali.DirectAssignment(sweeps=60, chains=2, init="one_topic")
    return fitted(data.X, data.words, engine)


@pytest.fixture(scope="module")
def page(plain: thali.TopicModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    return text_of(plain, tmp_path_factory.mktemp("report"))


def named() -> thali.TopicModel:
    columns = [EVIL, "costs $5", "名前", "x" * 300]
    rows = [EVIL, "</td>", *(f"r{i}" for i in range(6))]
    X = np.random.default_rng(0).poisson(2.0, (8, 4)) + 1
    frame = pd.DataFrame.sparse.from_spmatrix(csr_array(X.astype(float)), rows, columns)
    return fitted(frame)


def many() -> thali.TopicModel:
    """A topic for each document, 150 of them, planted: how they are shown is what is asked."""
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(150), 3.0 * np.ones((1, 3))) + (rng.random((150, 450)) < 0.002)
    model = fitted(csr_array(X), engine=thali.DirectAssignment(sweeps=2, chains=1, burn_in=0))
    model.n_components_ = 150
    lengths = model.grouping_.lengths
    model.grouping_ = model.grouping_._replace(
        group=np.zeros(int(lengths.sum()), np.int32), topic=np.arange(150, dtype=np.int32)
    )
    model.components_ = (X + 0.01) / (X + 0.01).sum(axis=1, keepdims=True)
    model._words_of_topics = (X > 0.0).sum(axis=1)
    model.topic_sizes_, model.topic_presence_ = X.sum(axis=1), np.linspace(1, 0, 150)
    model.document_topics_ = np.eye(150)
    return model


def in_pieces() -> thali.TopicModel:
    """After documents that came in pieces, the last of which has few of the topics."""
    rng = np.random.default_rng(0)
    first = np.kron(np.eye(3), np.ones((2, 4))) * rng.poisson(9.0, (6, 12))
    return fitted(csr_array(first)).partial_fit(csr_array(first[:3]))


def without_words() -> thali.TopicModel:
    """One of the documents is empty."""
    return fitted(csr_array(np.array([[3.0, 1, 0], [0, 0, 0], [0, 2, 5]])), ["a", "b", "c"])


EXTREMES: dict[str, Callable[[], thali.TopicModel]] = {
    "one document of one word": lambda: fitted(csr_array([[1.0, 0.0]])),
    "an empty document": without_words,
    "pieces": in_pieces,
    "one draw": lambda: fitted(
        csr_array(np.kron(np.eye(2), np.full((3, 4), 5.0))),
        engine=thali.DirectAssignment(sweeps=20, burn_in=19, chains=1),
    ),
    "names": named,
    "150 topics": many,
    "flexible": lambda: fitted(
        thali.datasets.topics(n=8, k=2, length=10).X,
        engine=thali.Franchise(sweeps=6, chains=2),
        prior=thali.HierarchicalFlexible(),
    ),
}


@pytest.mark.filterwarnings("ignore:.*[Gg]lyph")  # the machine may have no font for a script
@pytest.mark.parametrize("case", EXTREMES)
def test_every_picture_and_the_report_cope_with(case: str, tmp_path: Path) -> None:
    model = EXTREMES[case]()
    assert drawn(model.plot())
    page = text_of(model, tmp_path)
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS
    assert len(page) < 2e6
    assert "<script" not in page
    assert "://" not in page
    assert "x" * 300 not in page
    words = re.findall(r"[a-z]+", re.sub(r"<[^>]*>", " ", page).lower())
    assert "nan" not in words
    if case == "names":
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    if case == "pieces":
        assert "9 documents" in page
        assert "presence not known" in page
        assert "Documents came in pieces: there are no other draws" in page
    if case == "one draw":
        assert "presence not known" in page
        assert "There is one draw: there are no other draws" in page
    if case == "150 topics":
        assert "91 more topics" in page
        assert "The 100 largest" not in page  # the table has them all


@pytest.mark.parametrize("name", SINGLE)
def test_each_picture_stands_alone_and_uses_given_axes(plain: thali.TopicModel, name: str) -> None:
    assert drawn(getattr(plots, name)(plain))
    ax = Figure().subplots()
    assert getattr(plots, name)(plain, ax) is ax
    with pytest.raises(NotFittedError):
        getattr(plots, name)(thali.TopicModel())


# what they show ----------------------------------------------------------------------------------


def test_words_are_the_most_probable_with_bars_as_long_as_probabilities(
    plain: thali.TopicModel,
) -> None:
    ax = plots.topic_words(plain, max_topics=2, n=3)
    said = [text.get_text() for text in ax.texts]
    for k, own in enumerate(plain.top_words(3)[:2]):
        assert said.index(own[0]) < said.index(own[1]) < said.index(own[2])
        assert any(text.startswith(f"Topic {k} · ") for text in said)
        assert f"presence {plots.style.percent(plain.topic_presence_[k])}" in said
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(2, 3)
    shares = -np.sort(-plain.components_, axis=1)[:2, :3]
    np.testing.assert_allclose(widths / widths.max(), shares / shares.max())
    left = f"the 2 largest of {plain.n_components_}"
    assert left in (ax.get_title(loc="right"), *said)


def test_sizes_spread_as_those_of_matched_topics_do(plain: thali.TopicModel) -> None:
    found = topic_reading.size_spread(plain)
    np.testing.assert_array_equal(found.words, plain.topic_sizes_)
    assert (found.low <= found.median).all()
    assert (found.median <= found.high).all()
    sizes, labels = [], plain.grouping_.topic_of_word
    for draw in topic_reading.drawn(plain):  # of the largest topic: the one with most of its words
        own = draw.topic_of_word
        match = np.bincount(own[labels == 0]).argmax()
        sizes.append((own == match).sum())
    expected = np.quantile(sizes, [0.05, 0.5, 0.95])
    np.testing.assert_allclose([found.low[0], found.median[0], found.high[0]], expected)
    bars = [bar.get_width() for bar in plots.topic_sizes(plain).patches]
    assert bars == found.words.tolist()


def test_topics_that_are_alike_are_neighbors() -> None:
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(50, 0.1), size=3)
    mixed = np.concatenate([base, 0.9 * base + 0.1 / 50])  # k and k + 3 are nearly the same
    alike = topic_reading.similarity(mixed)
    np.testing.assert_allclose(np.diag(alike), 1.0)
    np.testing.assert_allclose(alike, alike.T)

    class Model:
        components_ = mixed

    topics, shares = topic_reading.similar(Model(), 100)  # type: ignore[arg-type]
    place = np.argsort(topics)
    assert [abs(int(place[k] - place[k + 3])) for k in range(3)] == [1, 1, 1]
    np.testing.assert_allclose(shares, alike[np.ix_(topics, topics)])
    pairs = topic_reading.likest(Model(), 3)  # type: ignore[arg-type]
    assert sorted((i, j) for i, j, _ in pairs) == [(0, 3), (1, 4), (2, 5)]


def test_documents_are_in_the_order_of_their_largest_topic(plain: thali.TopicModel) -> None:
    order = topic_reading.by_topic(plain)
    assert sorted(order) == list(range(40))
    assert (np.diff(plain.document_topics_[order].argmax(axis=1)) >= 0).all()
    (picture,) = plots.document_topics(plain).get_images()
    np.testing.assert_array_equal(picture.get_array(), plain.document_topics_[order])
    ax = plots.document_topics(plain, max_documents=10)
    said = [text.get_text() for text in ax.texts] + [ax.get_title(loc="right")]
    assert any("10 of 40, evenly chosen" in text for text in said)


def test_top_documents_have_the_largest_shares(plain: thali.TopicModel) -> None:
    own = topic_reading.top_documents(plain, 0, 5)
    shares = plain.document_topics_[:, 0]
    np.testing.assert_allclose(shares[own], np.sort(shares)[::-1][:5], atol=1e-6)
    assert 1 not in topic_reading.top_documents(without_words(), 0, 5)  # it has no words


def test_sizes_of_groups_are_expectations(
    plain: thali.TopicModel, data: thali.datasets.Corpus
) -> None:
    found = topic_reading.group_sizes(plain)
    sizes = np.arange(1, len(found.posterior) + 1)
    assert found.prior is not None
    assert found.prior @ sizes == pytest.approx(data.X.sum())
    assert found.posterior @ sizes == pytest.approx(data.X.sum())
    alpha = plain.alpha_
    lengths = np.asarray(data.X.sum(axis=1)).ravel()
    expected = sum((alpha / (alpha + np.arange(n))).sum() for n in lengths)
    assert found.prior.sum() == pytest.approx(expected)


def test_a_flexible_prior_expects_of_documents_what_it_expects_of_each() -> None:
    model = EXTREMES["flexible"]()
    found = topic_reading.group_sizes(model).prior
    prior = model.prior_.at(**model.fit_.mean_hyper()).groups
    lengths = np.asarray(model.X_.sum(axis=1)).ravel().astype(int)
    expected = np.zeros(lengths.max())
    for n in lengths:
        expected[:n] += prior.expected_size_counts(n)
    np.testing.assert_allclose(found, expected)


# the report --------------------------------------------------------------------------------------


def test_the_report_says_what_was_found(
    plain: thali.TopicModel, data: thali.datasets.Corpus, page: str
) -> None:
    words = f"{int(data.X.sum()):,} words, {len(data.words)} of them different"
    assert f"{plain.n_components_} topics found in 40 documents of {words}" in page
    assert plain.convergence().headline in page
    for word in plain.top_words(10)[0]:
        assert f"<bdi>{word}</bdi>" in page
    assert f"coherence {plain.coherence(10)[0]:.2f}" in page
    best = topic_reading.top_documents(plain, 0, 1)[0]
    share = plots.style.percent(plain.document_topics_[best, 0]).replace(">", "&gt;")
    assert f"Documents: <bdi>{best + 1}</bdi> ({share})" in page
    for said in ("Presence", "R-hat", "how many topics there are", "different words"):
        assert said in page
    assert "feature" not in page
    assert "cluster" not in page


def test_the_same_model_gives_the_same_bytes(
    plain: thali.TopicModel, page: str, tmp_path: Path
) -> None:
    assert text_of(plain, tmp_path) == page
