r"""Words of documents, the groups that they are in, and the topics of these: what samplers change.

Documents hold words one after the other; −1 stands for a word that was not observed. In document j
groups are numbered from 0, and what is known of group g of it lies at ``first[j] + g``. Topics are
kept in slots: ``order`` lists all slots, the ones in use first, so that opening and closing one
moves nothing.

How often topic t has word x is kept in a list for each word, of the topics that have it at all:
there are at most as many as the word has occurrences, so that all lists together have the length of
the corpus, however many topics there are.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel

BITS = 32
ONE = 1 << BITS  # what an entry is more for one occurrence of the word
LOW = ONE - 1
U1, U2 = np.uint64(1), np.uint64(2)


class Corpus(NamedTuple):
    """The words by document, where each document begins, and how many different ones there are."""

    word: np.ndarray  # (N,) int32
    first: np.ndarray  # (D + 1,) int64
    vocabulary: int


class WordLists(NamedTuple):
    """The topics of each word, and how often each of them has it: count · 2³² + topic."""

    begin: np.ndarray  # (V + 1,) int64
    entry: np.ndarray  # (N,) int64
    length: np.ndarray  # (V,) int32


class Seating(NamedTuple):
    """The group of each word, and the topics of groups."""

    group: np.ndarray  # (N,) int32, numbered in each document
    size: np.ndarray  # (N,) int32, words of each group
    topic: np.ndarray  # (N,) int32, of each group
    used: np.ndarray  # (D,) int32, how many groups documents have


class Topics(NamedTuple):
    """By slot: observed words, all words, groups, and places that no group has; slots in use."""

    total: np.ndarray  # (room,) int64
    members: np.ndarray
    groups: np.ndarray
    dummies: np.ndarray
    order: np.ndarray
    place: np.ndarray
    live: np.ndarray  # (1,) int64


class Levels(NamedTuple):
    """The prior at both levels, and β of the topics.

    A word joins a group of j others with weight ``join[j]`` (0 for j = 0) and opens one beside k
    others with ``open[k]``. A group joins a topic of m others with weight m − discount, or opens
    one beside k others with mass + k·discount, where the prior over topics is consistent; else
    there are so many ``slots``, and ``potentials`` λ_0 … λ_M say what a topic of m of them is
    worth.
    """

    join: np.ndarray
    open: np.ndarray
    mass: float
    discount: float
    slots: int
    potentials: np.ndarray
    beta: float


@helper(borrows=True)
def open_topic(topics):
    """A slot that was not in use; there must be one."""
    topics.live[0] += 1
    return topics.order[topics.live[0] - 1]


@helper(borrows=True)
def close_topic(topics, t):
    """A slot is not in use any more: it changes places with the last that is."""
    topics.live[0] -= 1
    last = topics.order[topics.live[0]]
    at = topics.place[t]
    topics.order[at], topics.order[topics.live[0]] = last, t
    topics.place[last], topics.place[t] = at, topics.live[0]


@helper(borrows=True)
def topic_of(entry):
    """The topic of an entry."""
    return np.uint64(entry & LOW)


@helper(borrows=True)
def count_of(entry):
    """How often the topic of an entry has the word."""
    return entry >> BITS


@helper(borrows=True)
def add_to(lists, x, e):
    """Entry e of the list of word x counts one more; large counts stay near the beginning."""
    found = lists.entry[e] + ONE
    if e > lists.begin[x] and found > lists.entry[e - 1]:
        lists.entry[e] = lists.entry[e - 1]
        e -= 1
    lists.entry[e] = found


@helper(borrows=True)
def enlist(lists, x, t):
    """Topic t has word x once more."""
    begin = lists.begin[x]
    end = begin + lists.length[x]
    for e in range(begin, end):
        if lists.entry[e] & LOW == t:
            add_to(lists, x, e)
            return
    lists.entry[end] = ONE + t
    lists.length[x] += 1


@helper(borrows=True)
def strike(lists, x, t, other=-1):
    """Topic t has word x once less; returns where the ``other`` entry is afterwards."""
    last = lists.begin[x] + lists.length[x] - 1
    e = lists.begin[x]
    while lists.entry[e] & LOW != t:
        e += 1
    found = lists.entry[e] - ONE
    if found < ONE:
        lists.entry[e] = lists.entry[last]
        lists.length[x] -= 1
        return e if other == last else other
    if e < last and found < lists.entry[e + 1]:
        lists.entry[e], lists.entry[e + 1] = lists.entry[e + 1], found
        return e if other == e + 1 else other
    lists.entry[e] = found
    return other


@helper(borrows=True)  # lists are short: as vector instructions it takes twice as long
def weigh_list(lists, x, by_topic):
    """Σ n_tx by_topic[t] over the topics that have word x."""
    e, end = np.uint64(lists.begin[x]), np.uint64(lists.begin[x] + lists.length[x])
    found, other = 0.0, 0.0
    while e + U1 < end:
        one, two = lists.entry[e], lists.entry[e + U1]
        found += count_of(one) * by_topic[topic_of(one)]
        other += count_of(two) * by_topic[topic_of(two)]
        e += U2
    if e < end:
        found += count_of(lists.entry[e]) * by_topic[topic_of(lists.entry[e])]
    return found + other


@helper(borrows=True)
def find_in_list(lists, x, by_topic, u, less):
    """The entry at which a sum as of ``weigh_list`` comes to u, the last of them at most.

    Topic ``less`` has the word one time less than its entry says (−1: there is none).
    """
    e, last = np.uint64(lists.begin[x]), np.uint64(lists.begin[x] + lists.length[x] - 1)
    t = topic_of(lists.entry[e])
    u -= (count_of(lists.entry[e]) - (t == less)) * by_topic[t]
    while u >= 0.0 and e < last:
        e += U1
        t = topic_of(lists.entry[e])
        u -= (count_of(lists.entry[e]) - (t == less)) * by_topic[t]
    return np.int64(e)


@helper(borrows=True)
def document_of(first, i):
    """The document that word i is in: the last that begins there or before, and has words."""
    low, high = 0, first.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if first[middle] <= i:
            low = middle
        else:
            high = middle
    return low


@kernel
def fill_lists(corpus, seating, lists, topics):
    """Sizes of groups, and counts of topics by the words of these, added to what is there."""
    for j in range(corpus.first.shape[0] - 1):
        at = corpus.first[j]
        for g in range(seating.used[j]):
            topics.groups[seating.topic[at + g]] += 1
        for i in range(at, corpus.first[j + 1]):
            t = seating.topic[at + seating.group[i]]
            seating.size[at + seating.group[i]] += 1
            topics.members[t] += 1
            if corpus.word[i] >= 0:
                topics.total[t] += 1
                enlist(lists, corpus.word[i], t)


@kernel
def compact(corpus, seating):
    """Number the groups of every document in the order of their first words, without gaps."""
    longest = 0
    for j in range(corpus.first.shape[0] - 1):
        longest = max(longest, corpus.first[j + 1] - corpus.first[j])
    number = np.empty(longest + 1, np.int32)
    topic = np.empty(longest + 1, np.int32)
    size = np.empty(longest + 1, np.int32)
    for j in range(corpus.first.shape[0] - 1):
        at, used = corpus.first[j], 0
        number[: seating.used[j]] = -1
        for i in range(at, corpus.first[j + 1]):
            g = seating.group[i]
            if number[g] < 0:
                number[g] = used
                topic[used], size[used] = seating.topic[at + g], seating.size[at + g]
                used += 1
            seating.group[i] = number[g]
        for g in range(used):
            seating.topic[at + g], seating.size[at + g] = topic[g], size[g]
        for g in range(used, seating.used[j]):
            seating.size[at + g] = 0
        seating.used[j] = used


class Index(NamedTuple):
    """All groups, one after the other: where each is, and its observed words, ``word[begin :
    end]``."""

    place: np.ndarray  # (G,) int32, in the arrays of ``Seating``
    begin: np.ndarray  # (G,) int32
    end: np.ndarray  # (G,) int32
    word: np.ndarray  # (N,) int32


@kernel
def index_groups(corpus, seating):
    """The observed words of every group, equal ones side by side; groups without gaps."""
    n, groups = corpus.word.shape[0], 0
    for j in range(seating.used.shape[0]):
        groups += seating.used[j]
    word, place = np.empty(n, np.int32), np.empty(groups, np.int32)
    begin, end = np.empty(groups, np.int32), np.empty(groups, np.int32)
    found = 0
    for j in range(seating.used.shape[0]):
        at = corpus.first[j]
        free = at
        for g in range(seating.used[j]):
            begin[found + g], end[found + g] = free, free
            place[found + g] = at + g
            free += seating.size[at + g]
        for i in range(at, corpus.first[j + 1]):
            if corpus.word[i] >= 0:
                e = found + seating.group[i]
                word[end[e]] = corpus.word[i]
                end[e] += 1
        found += seating.used[j]
    return Index(place, begin, end, word)


@kernel
def histogram(lists):
    """How often each number occurs among the counts of words by topic."""
    most = 0
    for x in range(lists.length.shape[0]):
        for e in range(lists.begin[x], lists.begin[x] + lists.length[x]):
            most = max(most, count_of(lists.entry[e]))
    times = np.zeros(most + 1, np.int64)
    for x in range(lists.length.shape[0]):
        for e in range(lists.begin[x], lists.begin[x] + lists.length[x]):
            times[count_of(lists.entry[e])] += 1
    return times
