"""The state of a sampler of topics: words, their groups, the topics of these, and counts of both.

Kernels change all of it in place. What a trace keeps is a ``Grouping``: all else follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.documents import lengths_of, words_of
from thali.hyperparameters import Values
from thali.likelihoods.topic_words import TopicLikelihood, WordCounts
from thali.model import Model
from thali.priors.grouped import GroupedPrior
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping, GroupingCounts

if TYPE_CHECKING:
    from thali.kernels.corpus import Corpus, Levels, Seating, Topics, WordLists

SPARE = 32  # topics that there is room for beyond those in use, at least


@dataclass
class TopicState:
    """What the next sweep needs."""

    corpus: Corpus
    seating: Seating
    lists: WordLists
    topics: Topics
    hyper: Values
    sweep: int = 0

    @property
    def latent(self) -> Grouping:
        """Words in groups and groups in topics, canonical."""
        lengths = np.diff(self.corpus.first).astype(np.int32)
        topic, dummies = self.topic_of_groups(), np.zeros(0, np.int32)
        if self.topics.dummies.any():
            dummies = self.topics.dummies[self.topics.order[: self.topics.live[0]]].astype(np.int32)
        group = self.seating.group.copy()
        return GROUPED_PARTITIONS.canonical(Grouping(lengths, group, topic, dummies))

    def topic_of_groups(self) -> np.ndarray:
        """The topic of each group, by its place among topics in use, (G,)."""
        slots = self.seating.topic[self.seating.size > 0]
        return self.topics.place[slots].astype(np.int32)

    @property
    def n_topics(self) -> int:
        """How many topics have a group."""
        return int((self.topics.groups > 0).sum())

    def counts(self) -> GroupingCounts:
        """What the prior asks for."""
        used = self.topics.order[: self.topics.live[0]]
        none = np.zeros(0, np.int64)
        dummies = self.topics.dummies[used] if self.topics.dummies.any() else none
        return GroupingCounts(
            np.diff(self.corpus.first),
            self.seating.size[self.seating.size > 0],
            self.seating.used,
            self.topics.groups[used],
            dummies,
        )

    def word_counts(self) -> WordCounts:
        """What the likelihood asks for."""
        from thali.kernels.corpus import histogram

        times = histogram(self.lists)
        count = np.flatnonzero(times)
        used = self.topics.order[: self.topics.live[0]]
        return WordCounts(count, times[count], self.topics.total[used], self.corpus.vocabulary)


class Earlier(NamedTuple):
    """What is known of topics from documents that are not sampled any more."""

    counts: csr_array  # (K, V) words by topic
    groups: np.ndarray  # (K,)


def state_of(
    model: Model,
    data: Data,
    latent: Grouping,
    hyper: Values,
    sweep: int = 0,
    earlier: Earlier | None = None,
) -> TopicState:
    """All that follows from a value and hyperparameters; topics begin as they were ``earlier``."""
    from thali.kernels.corpus import Corpus, Seating, fill_lists

    lengths = lengths_of(data)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    corpus = Corpus(words_of(data), first, data.d)
    n = len(corpus.word)
    seating = Seating(
        np.array(latent.group, np.int32),  # of its own: several chains may begin from one value
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        latent.groups_of.astype(np.int32),
    )
    used = seating.used.astype(np.int64)
    place = np.repeat(first[:-1] - (np.cumsum(used) - used), used) + np.arange(used.sum())
    seating.topic[place] = latent.topic
    before = 0 if earlier is None else len(earlier.groups)
    k = max(latent.n_topics, len(latent.dummies), before)
    topics = empty_topics(k + max(SPARE, k // 2), k)
    topics.dummies[: len(latent.dummies)] = latent.dummies
    lists = empty_lists(corpus) if earlier is None else lists_from(earlier, corpus, topics)
    fill_lists(corpus, seating, lists, topics)
    return TopicState(corpus, seating, lists, topics, hyper, sweep)


def empty_lists(corpus: Corpus, more: np.ndarray | None = None) -> WordLists:
    """Room for the topics of each word; ``more`` of some words."""
    from thali.kernels.corpus import WordLists
    from thali.kernels.groupings import occurrences

    room = occurrences(corpus.word, corpus.vocabulary)
    if more is not None:
        room = room + more
    begin = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    entries = np.zeros(int(begin[-1]), np.int64)
    return WordLists(begin, entries, np.zeros(corpus.vocabulary, np.int32))


def lists_from(earlier: Earlier, corpus: Corpus, topics: Topics) -> WordLists:
    """Lists with earlier counts in them, the largest first, and room for more; topics too."""
    from thali.kernels.corpus import ONE

    counts = earlier.counts.tocsc()
    several = np.diff(counts.indptr)
    lists = empty_lists(corpus, several)
    word = np.repeat(np.arange(corpus.vocabulary), several)
    order = np.lexsort((-counts.data, word))
    place = lists.begin[word] + np.arange(len(word)) - np.repeat(counts.indptr[:-1], several)
    lists.entry[place] = counts.data[order].astype(np.int64) * ONE + counts.indices[order]
    lists.length[:] = several
    k = len(earlier.groups)
    topics.groups[:k] = earlier.groups
    topics.total[:k] = topics.members[:k] = np.asarray(counts.sum(axis=1)).ravel()
    return lists


def empty_topics(room: int, live: int) -> Topics:
    """So many slots, the first of them in use."""
    from thali.kernels.corpus import Topics

    none, order = np.zeros(room, np.int64), np.arange(room)
    counts = none, none.copy(), none.copy(), none.copy()
    return Topics(*counts, order, order.copy(), np.array([live], np.int64))


def make_room(state: TopicState, more: int) -> None:
    """Slots for so many topics beyond those in use."""
    room, needed = len(state.topics.total), int(state.topics.live[0]) + more
    if needed <= room:
        return
    wider = empty_topics(max(needed, 2 * room), int(state.topics.live[0]))
    for name in ("total", "members", "groups", "dummies", "order", "place"):
        getattr(wider, name)[:room] = getattr(state.topics, name)
    state.topics = wider


def levels_of(model: Model, state: TopicState) -> Levels:
    """Prior and likelihood as kernels read them."""
    from thali.kernels.corpus import Levels

    prior = cast(GroupedPrior, model.prior_at(state.hyper))
    likelihood = cast(TopicLikelihood, model.likelihood_at(state.hyper))
    longest = int(np.diff(state.corpus.first).max(initial=1))
    tables = prior.tables(longest)
    return Levels(*tables, likelihood.beta)
