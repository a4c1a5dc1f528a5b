"""What the report tells of topics: their words, how sure they are, which are alike, documents."""

import numpy as np

from thali import plots
from thali.data.documents import lengths_of
from thali.estimators.topic_model import TopicModel
from thali.plots import topic_reading
from thali.plots.style import percent

from . import words
from .markup import Markup, join, name, number, plural, table, tag
from .pictures import panel, svg
from .story import Shape, Story

MOST_TOPICS = 100  # that have a card
MOST_LINES = 200  # topics in the table
OPEN_CARDS = 9
MOST_WORDS = 10
MOST_DOCUMENTS = 5
MOST_PAIRS = 10
MUCH = 0.1  # of a document, from which a topic counts as one of its topics
DOUBT = 0.5  # presence below which a topic is in doubt
ALIKE = 0.7  # cosine above which two topics may be one


def lede(model: TopicModel) -> str:
    """What was found, in one sentence."""
    (n, v), total = model.X_.shape, int(lengths_of(model.fit_.data).sum())
    if topic_reading.in_pieces(model):
        n, total = model.n_documents_seen_, round(model.topic_sizes_.sum())
    found = (
        f"{plural(model.n_components_, 'topic')} found in {plural(n, 'document')} of "
        f"{plural(total, 'word')}, {v:,} of them different"
    )
    if model.n_components_ == 1:
        return f"{found}: nothing sets some of the words apart from the others."
    if topic_reading.in_pieces(model):
        return f"{found}; they came in pieces, and what is said of documents is of the last one."
    if np.isnan(model.topic_presence_).any():
        return f"{found}; there is one draw, and no other to find them again in."
    shares = topic_reading.size_shares(model)
    sure = percent(min(1.0, float(shares @ model.topic_presence_)))
    again = f"a topic is found again to {sure} in other draws, on average over words"
    return f"{found}; {again}."


def topics(model: TopicModel, shape: Shape) -> list[Markup]:
    """Words, sizes, presence and coherence of each topic, and its documents."""
    k = min(model.n_components_, 25)
    often = plots.topic_sizes(model, panel(1.3 + 0.24 * max(k, 6)))
    count = plots.feature_count(model, panel(2.6))
    pictures = (
        svg(often, "sizes", "Number of words in each topic, and its spread over draws"),
        svg(count, "topic-count", "Posterior of the number of topics"),
    )
    coherence = model.coherence(MOST_WORDS)
    return [
        tag("p", model.likelihood_.words.feature, " ", _how_many(model)),
        tag("div", join(pictures), class_="pictures"),
        _doubtful(model),
        *_cards(model, coherence),
        *_table(model, coherence),
    ]


def _how_many(model: TopicModel) -> str:
    """The number of topics and its uncertainty."""
    K = model.fit_.after_burn_in("n_components").ravel()
    low, high = np.quantile(K, [0.05, 0.95])
    if low == high:
        return f"At least 90% of the draws have {plural(int(low), 'topic')}."
    return (
        f"The draws have {number(K.mean())} topics on average, and 90% of them {low:,.0f} to "
        f"{high:,.0f}."
    )


def _doubtful(model: TopicModel) -> Markup:
    """How much there is to topics that are seldom found again."""
    if np.isnan(model.topic_presence_).any():
        why = "Documents came in pieces" if topic_reading.in_pieces(model) else "There is one draw"
        return tag("p", f"{why}: there are no other draws to find topics again in.")
    own = model.topic_presence_ < DOUBT
    if not own.any():
        return tag("p", f"No topic is in doubt: each is found again to {DOUBT:.0%} or more.")
    if own.all():
        said = f"Every topic is in doubt: none is found again to {DOUBT:.0%} in other draws."
        return tag("p", said)
    share = percent(float(topic_reading.size_shares(model)[own].sum()))
    is_, it = ("is", "It has") if own.sum() == 1 else ("are", "They have")
    said = (
        f"{plural(int(own.sum()), 'topic')} {is_} in doubt: found again to less than {DOUBT:.0%} "
        f"in other draws. {it} {share} of the words."
    )
    return tag("p", said)


def _cards(model: TopicModel, coherence: np.ndarray) -> list[Markup]:
    """A card for each topic: its words with their probabilities, and its documents."""
    shown = min(model.n_components_, MOST_TOPICS)
    found = topic_reading.ranked_words(model, MOST_WORDS)
    shares = topic_reading.size_shares(model)
    top = max(float(own[0]) for own in found.shares[:shown] if len(own))
    cards = []
    for k in range(shown):
        lines = [
            join(
                (
                    tag("dt", name(word, 40)),
                    tag("span", tag("i", style=f"--w:{share / top:.3f}"), class_="bar share"),
                    tag("dd", f"{share:.1%}" if share >= 5e-4 else "<0.1%"),
                ),
                "",
            )
            for word, share in zip(found.words[k], found.shares[k], strict=True)
        ]
        said = (
            f"{percent(shares[k])} of words · presence {topic_reading.presence(model, k)}"
            f" · coherence {_two_digits(coherence[k])}"
        )
        cards.append(
            tag(
                "li",
                tag("h3", f"Topic {k}"),
                tag("p", said),
                tag("dl", join(lines), class_="weights"),
                tag("p", "Documents: ", _documents(model, k)),
            )
        )
    legend = tag(
        "p", "The most probable words of each topic, with their probabilities in it; bars of all "
        "topics have one scale. Below are the documents with the largest share of the topic.",
        class_="quiet",
    )  # fmt: skip
    first = tag("ol", join(cards[:OPEN_CARDS]), class_="cards wide")
    if shown <= OPEN_CARDS:
        return [legend, first]
    summary = tag("summary", plural(shown - OPEN_CARDS, "more topic"))
    others = tag("ol", join(cards[OPEN_CARDS:]), class_="cards wide")
    return [legend, first, tag("details", summary, others)]


def _documents(model: TopicModel, k: int) -> Markup:
    """The documents with the largest share of a topic, by name or by number from 1."""
    own = topic_reading.top_documents(model, k, MOST_DOCUMENTS)
    shares, names = model.document_topics_[:, k], model.row_names_
    each = (
        join((name(i + 1 if names is None else names[i], 40), f" ({percent(shares[i])})"), "")
        for i in own
    )
    return join(each, ", ") if len(own) else Markup("none")


def _two_digits(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}".replace("-", "−")


def _table(model: TopicModel, coherence: np.ndarray) -> list[Markup]:
    """All topics in numbers; closed until asked for where they are many."""
    shown = min(model.n_components_, MOST_LINES)
    spread, shares = topic_reading.size_spread(model), topic_reading.size_shares(model)
    documents = (model.document_topics_ >= MUCH).sum(axis=0)
    lines = [
        [
            str(k),
            tag("td", name(topic_reading.short_name(model, k, 3), 50), class_="words"),
            f"{spread.words[k]:,.0f}",
            percent(shares[k]),
            f"{spread.low[k]:,.0f} to {spread.high[k]:,.0f}",
            topic_reading.presence(model, k),
            _two_digits(coherence[k]),
            f"{documents[k]:,}",
        ]
        for k in range(shown)
    ]
    which = "Topics" if shown == model.n_components_ else f"The {shown} largest topics"
    caption = (
        f"{which}. The interval holds 90% of the sizes that the topic’s match has in the draws; "
        f"documents are those of which it has {MUCH:.0%} or more."
    )
    head = ["topic", "words", "size", "share", "90% interval", "presence", "coherence", "documents"]
    whole = table(caption, head, lines)
    if shown <= OPEN_CARDS:
        return [whole]
    return [tag("details", tag("summary", "All topics in numbers"), whole)]


def alike(model: TopicModel, shape: Shape) -> list[Markup]:
    """Which topics have the same words."""
    if model.n_components_ == 1:
        return [tag("p", "There is one topic, and nothing to compare it with.")]
    picture = svg(
        plots.topic_similarity(model), "alike", "How alike the words of topics are, topics that "
        "are alike side by side", wide=True,
    )  # fmt: skip
    pairs = topic_reading.likest(model, MOST_PAIRS)
    near = sum(share >= ALIKE for _, _, share in topic_reading.likest(model, 10**6))
    said = (
        f"{plural(near, 'pair')} of topics {'has' if near == 1 else 'have'} a likeness of {ALIKE} "
        "or more; these may be one topic that was split."
        if near
        else f"No two topics have a likeness of {ALIKE} or more."
    )
    lines = [
        [
            f"{i} and {j}",
            tag("td", name(topic_reading.short_name(model, i, 3), 50), class_="words"),
            tag("td", name(topic_reading.short_name(model, j, 3), 50), class_="words"),
            number(share, 2),
        ]
        for i, j, share in pairs
    ]
    caption = "The topics that are most alike" if len(lines) > 1 else "The two topics"
    return [
        tag("p", said),
        picture,
        table(caption, ["topics", "words of one", "words of the other", "likeness"], lines),
    ]


def documents(model: TopicModel, shape: Shape) -> list[Markup]:
    """How many topics documents have, and how much of each."""
    some = lengths_of(model.fit_.data) > 0
    many = (model.document_topics_[some] >= MUCH).sum(axis=1)
    said = (
        f"A document has {number(float(many.mean()), 2)} topics on average that make up "
        f"{MUCH:.0%} of it or more."
    )
    none = int((~some).sum())
    if none:
        said += (
            f" {plural(none, 'document')} without words {'is' if none == 1 else 'are'} no guide."
        )
    picture = svg(
        plots.document_topics(model), "documents", "Share of each topic in each document, "
        "documents ordered by their largest topic", wide=True,
    )  # fmt: skip
    return [tag("p", said), picture]


def groups(model: TopicModel, shape: Shape) -> list[Markup]:
    """The sizes of groups that prior and posterior expect."""
    found = topic_reading.group_sizes(model)
    n = int((lengths_of(model.fit_.data) > 0).sum())
    said = (
        f"Given the data, {number(found.posterior.sum() / n)} groups of words are expected in a "
        "document"
    )
    if found.prior is not None:
        said += (
            f"; the prior expects {number(found.prior.sum() / n)}, at the posterior means of its "
            "hyperparameters. Where dots leave the line, the prior is not what the data are like"
        )
    picture = svg(
        plots.group_size_counts(model, panel(2.6)), "groups",
        "Expected number of groups of each size, by the prior and by the posterior",
    )  # fmt: skip
    return [tag("p", f"{said}."), tag("div", picture, class_="pictures")]


STORY = Story(
    "Topics",
    lede,
    {
        "topics": ("Topics", topics),
        "alike": ("Topics that are alike", alike),
        "documents": ("Documents", documents),
        "groups": ("Prior and posterior", groups),
        "reading": ("How to read this", words.of_topics),
    },
)
