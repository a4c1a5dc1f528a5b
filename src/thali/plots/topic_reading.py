"""What pictures of topics read from a fitted model: words, sizes in draws, likeness, documents."""

from functools import partial
from typing import NamedTuple, cast

import numpy as np

from thali.data.documents import lengths_of, words_of
from thali.estimators.topic_model import TopicModel
from thali.estimators.topic_streaming import is_stream
from thali.priors.grouped import GroupedPrior
from thali.priors.linear_partition import LinearPartition
from thali.priors.partition import PartitionPrior
from thali.priors.partition_sums import expected_sizes
from thali.results.topic_answer import matching
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping

from .style import percent

MOST_DRAWS = 40  # looked at, evenly spaced
INTERVAL = (0.05, 0.95)
MOST_TERMS = 10**7  # in sums over sizes of groups and lengths of documents: a few seconds
LONGEST = 5000  # words of a document up to which sums over all partitions are taken


class RankedWords(NamedTuple):
    """The most probable words of each topic, of those that it has."""

    words: list[list[str]]
    shares: list[np.ndarray]  # of the topic's words


def ranked_words(model: TopicModel, n: int) -> RankedWords:
    """The n most probable words of each topic and their probabilities."""
    columns, names = model._top(n), np.array(model.vocabulary_, dtype=object)
    shares = [row[own] for row, own in zip(model.components_, columns, strict=True)]
    return RankedWords([names[own].tolist() for own in columns], shares)


def short_name(model: TopicModel, k: int, n: int = 2) -> str:
    """A topic by its first words: `rice, lentil`."""
    vocabulary = model.vocabulary_
    return ", ".join(vocabulary[v] for v in model._first(k, n))


def document_name(model: TopicModel, n: int) -> str:
    """Name of document n, or its number counted from 1."""
    names = model.row_names_
    return f"document {n + 1}" if names is None else str(names[n])


def presence(model: TopicModel, k: int) -> str:
    """How much of a topic is found again in other draws, in percent, or that it is not known."""
    share = float(model.topic_presence_[k])
    return "not known" if np.isnan(share) else percent(share)


def in_pieces(model: TopicModel) -> bool:
    """Whether documents came in pieces, so that there is one draw, of the last piece."""
    return is_stream(model.fit_)


def size_shares(model: TopicModel) -> np.ndarray:
    """The share that each topic has of all words, hidden ones left out; a topic that comes and goes
    leaves some to none."""
    all_words = model.topic_sizes_.sum() if in_pieces(model) else model.fit_.data.X.sum()
    return np.asarray(model.topic_sizes_ / all_words)


def drawn(model: TopicModel) -> list[Grouping]:
    """At most 40 draws of equal weight."""
    fit = model.fit_
    return [draw.latent for draw in fit.pick(fit.representatives(MOST_DRAWS))]


class SizeSpread(NamedTuple):
    """Of each topic: its words, and the 90% interval and the median of those of its match in draws.

    A draw in which a topic shares no word with any has 0 words of it.
    """

    words: np.ndarray
    low: np.ndarray
    median: np.ndarray
    high: np.ndarray


def size_spread(model: TopicModel) -> SizeSpread:
    """How many words each topic has over draws, matched as ``topic_presence_`` is; hidden words are
    left out.

    Of documents that came in pieces there is one draw, and no spread.
    """
    if in_pieces(model):
        return SizeSpread(*(model.topic_sizes_ for _ in SizeSpread._fields))
    labels, k = model.grouping_.topic_of_word, model.n_components_
    found, seen = [], words_of(model.fit_.data) >= 0
    for own in (draw.topic_of_word for draw in drawn(model)):
        place, sizes = matching(labels, k, own)[0], np.zeros(k)
        some = place >= 0
        sizes[place[some]] = np.bincount(own[seen], minlength=len(place))[some]
        found.append(sizes)
    low, median, high = np.quantile(found, [INTERVAL[0], 0.5, INTERVAL[1]], axis=0)
    return SizeSpread(model.topic_sizes_, low, median, high)


def similarity(components: np.ndarray) -> np.ndarray:
    """The cosine between the words of any two topics: 1 for the same, 0 for none in common.

    Frequent words decide it, so that topics of few words are not alike for what they all lack.
    """
    long = components / np.linalg.norm(components, axis=1, keepdims=True)
    return np.asarray(np.clip(long @ long.T, 0.0, 1.0))


class Similar(NamedTuple):
    """Topics in an order in which those that are alike touch, and how alike they are."""

    topics: np.ndarray
    shares: np.ndarray  # (topics, topics)


def similar(model: TopicModel, most: int) -> Similar:
    """The largest topics, in the order of a hierarchical clustering (average linkage)."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    alike = similarity(model.components_[:most])
    order = np.arange(len(alike))
    if len(alike) > 2:
        apart = squareform(1.0 - alike, checks=False)
        order = leaves_list(linkage(np.maximum(apart, 0.0), "average", optimal_ordering=True))
    return Similar(order, alike[np.ix_(order, order)])


def likest(model: TopicModel, most: int) -> list[tuple[int, int, float]]:
    """The pairs of topics that are most alike, the most first."""
    alike = similarity(model.components_)
    i, j = np.triu_indices(len(alike), 1)
    order = np.argsort(-alike[i, j], kind="stable")[:most]
    return [(int(i[o]), int(j[o]), float(alike[i[o], j[o]])) for o in order]


def top_documents(model: TopicModel, k: int, most: int) -> np.ndarray:
    """The documents with the largest share of a topic, those with none of it left out.

    Of equal shares the longer documents come first: they tell more.
    """
    shares, lengths = model.document_topics_[:, k].round(6), lengths_of(model.fit_.data)
    order = np.lexsort((-lengths, -shares))[:most]
    return np.asarray(order[(shares[order] > 0.0) & (lengths[order] > 0)])


def by_topic(model: TopicModel) -> np.ndarray:
    """Documents by their largest topic, within it those with the largest share first."""
    shares = model.document_topics_
    first = shares.argmax(axis=1)
    return np.lexsort((-shares[np.arange(len(shares)), first].round(6), first))


class GroupSizes(NamedTuple):
    """How many groups of i words documents have in all, i = 1 …, before and after the data."""

    prior: np.ndarray | None  # at the posterior means of the hyperparameters
    posterior: np.ndarray


def group_sizes(model: TopicModel) -> GroupSizes:
    """Σ_j E[m_i | n_j] over documents j, by the prior and over draws."""
    lengths = lengths_of(model.fit_.data)
    longest = int(lengths.max(initial=1))
    posterior, draws = np.zeros(longest), drawn(model)
    for draw in draws:
        sizes = GROUPED_PARTITIONS.counts(draw).sizes
        posterior += np.bincount(sizes[sizes > 0], minlength=longest + 1)[1:]
    return GroupSizes(_expected(model, lengths[lengths > 0]), posterior / len(draws))


def _expected(model: TopicModel, lengths: np.ndarray) -> np.ndarray | None:
    """What the prior expects; None where documents are too long to sum that."""
    fit = model.fit_
    prior = cast(GroupedPrior, fit.model.prior_at(fit.mean_hyper()))
    groups = cast(PartitionPrior, prior.of_groups)
    different, documents = np.unique(lengths, return_counts=True)
    linear = isinstance(groups, LinearPartition)
    if different.sum() > MOST_TERMS or (linear and different[-1] > LONGEST):
        return None
    found, expect = np.zeros(int(different[-1])), groups.expected_size_counts
    if isinstance(groups, LinearPartition):  # one table of sums serves documents of all lengths
        expect = partial(_expected_by_sums, groups, int(different[-1]))
    for n, times in zip(different.tolist(), documents.tolist(), strict=True):
        found[:n] += times * expect(n)
    return found if np.isfinite(found).all() else None


def _expected_by_sums(prior: LinearPartition, longest: int, n: int) -> np.ndarray:
    """E[m_i | n] = C(n, i) e^{λ_i} Z_{n−i} / Z_n."""
    return expected_sizes(prior.potentials_for(longest)[:n], prior.log_sums(longest)[: n + 1])
