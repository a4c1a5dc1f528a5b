"""Topics as pictures: their words, their sizes, which are alike, which documents have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.estimators.topic_model import TopicModel
from thali.settings import whole_number
from thali.structures.base import evenly_spaced

from . import counts, style, tiles, topic_reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Locator

MOST_TOPICS = 12  # whose words are shown
MOST_BARS = 25
MOST_SIMILAR = 100
MOST_COLUMNS = 40  # topics beside documents
MOST_DOCUMENTS = 300
MOST_NAMED = 40  # documents whose names have room
CELL = 2.25  # inches that the words of a topic need
LONGEST_WORD = 20  # letters
LETTER = 0.075  # inches of one, at eight points


def topic_words(
    model: TopicModel,
    ax: Axes | None = None,
    *,
    max_topics: int = MOST_TOPICS,
    n: int = 8,
) -> Axes:
    """The n most probable words of the largest topics, their probabilities as bars behind them.

    Bars of all topics have one scale. Above the words stand the number of the topic (as in
    `components_`), its share of all words, and its presence: how much of it is found again in
    other draws.

    Examples
    --------
    >>> import thali, thali.plots
    >>> data = thali.datasets.topics(n=10, k=2)
    >>> engine = thali.DirectAssignment(sweeps=10, chains=1)
    >>> model = thali.TopicModel(engine=engine, random_state=0).fit(data.X, vocabulary=data.words)
    >>> thali.plots.topic_words(model).get_title(loc="left")
    'Words of topics'
    """
    check_is_fitted(model)
    n = whole_number("topic_words", "n", n, 1)
    shown = min(model.n_components_, whole_number("topic_words", "max_topics", max_topics, 1))
    n = min(n, model.components_.shape[1])
    across = min(4, shown)
    ax = style.given_or_new(ax, max(4.2, CELL * across), 0.6 + 0.185 * (n + 2.6) * -(-shown // 4))
    width, height = style.inches(ax)
    across = max(1, int(width / (0.85 * CELL)))
    down = -(-shown // across)
    colors = style.bare(ax, "Words of topics", _of(shown, model.n_components_))
    found, largest = topic_reading.ranked_words(model, n), topic_reading.size_shares(model)
    points = float(np.clip(72 * height / (down * (n + 2.6)) / 1.45, 4.5, 8.5))
    letters = int((width / across - 0.55) / (LETTER * points / 8))
    longest = max(4, min(LONGEST_WORD, letters))
    top = max(float(own[0]) for own in found.shares[:shown] if len(own))
    room = min(0.4, 6 * LETTER * points / 8 / (width / across))  # of the numbers beside the bars
    names = [style.drawable(w, longest) for own in found.words[:shown] for w in own]
    family = style.fonts(names)
    for k in range(shown):
        x, y = k % across, -(k // across) * (n + 2.6)
        head = f"Topic {k} · {style.percent(largest[k])} of words"
        ax.text(
            x, y + 1.75, head, fontsize=points, fontweight="bold", color=colors.ink, va="center"
        )
        ax.text(
            x, y + 0.85, f"presence {topic_reading.presence(model, k)}", fontsize=0.92 * points,
            color=colors.quiet, va="center",
        )  # fmt: skip
        rows = y - np.arange(len(found.words[k]))
        bars = (0.88 - room) * found.shares[k] / top
        ax.barh(rows, bars, left=x, height=0.84, color=style.BLUE, alpha=0.3, linewidth=0)
        for row, word, share in zip(rows, found.words[k], found.shares[k], strict=True):
            ax.text(
                x + 0.02, row, style.drawable(word, longest), fontsize=points, va="center_baseline",
                color=colors.ink, family=family,
            )  # fmt: skip
            ax.text(
                x + 0.9, row, _share(share), fontsize=0.88 * points, ha="right", color=colors.quiet,
                va="center_baseline",
            )  # fmt: skip
    for text in ax.texts:
        text.set_in_layout(False)
    ax.set_xlim(0, across)
    ax.set_ylim(-(down - 1) * (n + 2.6) - n + 0.4, 2.4)
    return ax


def _share(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 else "<0.1%"


def topic_sizes(model: TopicModel, ax: Axes | None = None, *, max_topics: int = MOST_BARS) -> Axes:
    """How many words each topic has as a bar, and how many its matches in the draws have.

    In every draw the topic has a match: the one that shares most words with it. The dot is the
    median of the sizes of these, and 90% of them lie on the line. A line that reaches to 0 tells
    that there are draws without the topic, a long one that they split it or merge it with others.

    Examples
    --------
    >>> import thali, thali.plots
    >>> data = thali.datasets.topics(n=10, k=2)
    >>> engine = thali.DirectAssignment(sweeps=10, chains=1)
    >>> model = thali.TopicModel(engine=engine, random_state=0).fit(data.X, vocabulary=data.words)
    >>> thali.plots.topic_sizes(model).get_ylabel()
    'topic'
    """
    check_is_fitted(model)
    k = model.n_components_
    shown = min(k, whole_number("topic_sizes", "max_topics", max_topics, 1))
    ax = style.given_or_new(ax, 4.2, 1.1 + 0.24 * max(shown, 4))
    spread = topic_reading.SizeSpread(*(p[:shown] for p in topic_reading.size_spread(model)))
    colors = style.tidy(ax, "Words in each topic", _of(shown, k))
    y = np.arange(shown)
    ax.barh(y, spread.words, height=0.72, color=style.BLUE, alpha=0.45, linewidth=0)
    ax.hlines(y, spread.low, spread.high, color=colors.ink, linewidth=1.4, zorder=3)
    ax.scatter(spread.median, y, s=16, color=colors.ink, linewidths=0, zorder=4)
    ends = np.maximum(spread.high, spread.words)
    shares = topic_reading.size_shares(model)[:shown]
    texts = [f"{w:,.0f} · {style.percent(s)}" for w, s in zip(spread.words, shares, strict=True)]
    room = min(0.6, (0.07 * max(map(len, texts)) + 0.1) / (0.8 * style.inches(ax)[0]))
    size = float(np.clip(60 * style.inches(ax)[1] / (shown + 1), 4.5, 8))
    for i, text in enumerate(texts):
        ax.annotate(
            text, (ends[i], i), (5, 0), textcoords="offset points", va="center",
            fontsize=size, color=colors.quiet,
        ).set_in_layout(False)  # fmt: skip
    ax.set_yticks(y, [str(i) for i in y], fontsize=size)
    more = max(0, 3 - shown) * 0.4
    ax.set_ylim(shown - 0.4 + more, -0.6 - more)
    ax.set_xlim(0, float(ends.max()) / (1 - room))
    ax.xaxis.set_major_locator(_few_whole())
    ax.tick_params(axis="y", length=0)
    style.label(ax, x="words; line: 90% of sizes in the draws, dot: median", y="topic")
    return ax


def topic_similarity(
    model: TopicModel, ax: Axes | None = None, *, max_topics: int = MOST_SIMILAR
) -> Axes:
    """How alike the words of topics are, topics that are alike side by side.

    It is the cosine between their rows of `components_`: 1 for the same words, 0 for none in
    common. Pairs of topics that are nearly the same may be one topic that was split.

    Examples
    --------
    >>> import thali, thali.plots
    >>> data = thali.datasets.topics(n=10, k=2)
    >>> engine = thali.DirectAssignment(sweeps=10, chains=1)
    >>> model = thali.TopicModel(engine=engine, random_state=0).fit(data.X, vocabulary=data.words)
    >>> thali.plots.topic_similarity(model).get_title(loc="left")
    'Topics that are alike'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 5.4, 4.2)
    k = model.n_components_
    topics, shares = topic_reading.similar(
        model, whole_number("topic_similarity", "max_topics", max_topics, 1)
    )
    style.tidy(ax, "Topics that are alike", _of(len(topics), k))
    for spine in ax.spines.values():
        spine.set_visible(True)
    artist = ax.imshow(
        shares, style.color_map(signed=False), vmin=0, vmax=1, interpolation="nearest"
    )
    width, height = style.inches(ax)
    side = min(0.9 * height, 0.75 * width)
    points = float(np.clip(72 * side / len(topics) / 1.3, 1.0, 8.0))
    if points >= 5.0:
        names = [f"{style.drawable(topic_reading.short_name(model, t), 24)}  {t}" for t in topics]
        ax.set_yticks(range(len(topics)), names, fontsize=points, family=style.fonts(names))
        ax.set_xticks(range(len(topics)), [str(t) for t in topics], fontsize=points)
        if points < 7.0:
            ax.tick_params(axis="x", rotation=90)
    else:
        ax.set_xticks([])
        ax.set_yticks([])
        style.label(ax, x="topics", y="topics")
    ax.tick_params(length=0)
    tiles.color_bar(ax, artist, "likeness")
    return ax


def document_topics(
    model: TopicModel,
    ax: Axes | None = None,
    *,
    max_documents: int = MOST_DOCUMENTS,
    max_topics: int = MOST_COLUMNS,
) -> Axes:
    """The share of each topic in each document, documents in the order of their largest topic.

    Of more than `max_documents` documents so many are shown, evenly chosen in that order.

    Examples
    --------
    >>> import thali, thali.plots
    >>> data = thali.datasets.topics(n=10, k=2)
    >>> engine = thali.DirectAssignment(sweeps=10, chains=1)
    >>> model = thali.TopicModel(engine=engine, random_state=0).fit(data.X, vocabulary=data.words)
    >>> thali.plots.document_topics(model).get_xlabel()
    'topic'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.8, 4.2)
    most = whole_number("document_topics", "max_documents", max_documents, 1)
    order = topic_reading.by_topic(model)
    rows = order[evenly_spaced(len(order), most)]
    k = model.n_components_
    shown = min(k, whole_number("document_topics", "max_topics", max_topics, 1))
    notes = [_of(shown, k)]
    if len(rows) < len(order):
        notes.insert(0, f"{len(rows):,} of {len(order):,}, evenly chosen")
    colors = style.tidy(ax, "Topics of documents", "; ".join(filter(None, notes)))
    for spine in ax.spines.values():
        spine.set_visible(True)
    artist = ax.imshow(
        model.document_topics_[rows][:, :shown], style.color_map(signed=False), vmin=0, vmax=1,
        interpolation="nearest", aspect="auto",
    )  # fmt: skip
    height = style.inches(ax)[1]
    points = 72 * 0.75 * height / len(rows) / 1.2
    if len(rows) <= MOST_NAMED and points >= 5.0:
        names = [style.drawable(topic_reading.document_name(model, i), 18) for i in rows]
        ax.set_yticks(range(len(rows)), names, fontsize=min(8, points), family=style.fonts(names))
    else:
        ax.set_yticks([])
        style.label(ax, y="documents")
    most = max(4, int(4 * style.inches(ax)[0]))
    step = next(s for e in range(12) for s in (10**e, 2 * 10**e, 5 * 10**e) if shown <= most * s)
    at = range(0, shown, step)
    ax.set_xticks(at, [str(i) for i in at])
    ax.tick_params(length=0)
    ax.set_xlabel("topic", fontsize=8.5, color=colors.quiet)
    tiles.color_bar(ax, artist, "share of the document")
    return ax


def group_size_counts(model: TopicModel, ax: Axes | None = None) -> Axes:
    """How many groups of each size documents have: by the prior, and by the posterior.

    Words of a document are in groups, and a group has one topic. The line is what the prior
    expects at the posterior means of its hyperparameters; the dots are posterior means, of sizes
    that some draw has. Where documents are very long or of very many lengths there is no line.
    Both axes are logarithmic.

    Examples
    --------
    >>> import thali, thali.plots
    >>> data = thali.datasets.topics(n=10, k=2)
    >>> engine = thali.DirectAssignment(sweeps=10, chains=1)
    >>> model = thali.TopicModel(engine=engine, random_state=0).fit(data.X, vocabulary=data.words)
    >>> thali.plots.group_size_counts(model).get_xlabel()
    'words in a group of a document'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.2, 2.8)
    found = topic_reading.group_sizes(model)
    note = "orange posterior" if found.prior is None else "blue prior, orange posterior"
    style.tidy(ax, "Groups of words", note)
    counts.draw(ax, found.prior, found.posterior)
    style.label(ax, x="words in a group of a document", y="expected groups")
    return ax


def _few_whole() -> Locator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4, integer=True)


def _of(shown: int, k: int) -> str:
    return "" if shown == k else f"the {shown} largest of {k}"
