r"""Words in groups within documents, and groups in topics across them (Welling and others 2012).

    groups of a document ~ a prior over partitions of its words
    topics               ~ a consistent prior over partitions of all groups
    x | topic t          ~ θ_t,    θ_t ~ Dirichlet(β, …, β) over V words, integrated out

A word is taken out and joins a group of j others with weight e^{join[j]} p_t(x), t the topic of
that group, or opens one with e^{open} times, over all topics and one more,

    (weight of topic t by its groups / all of them) · p_t(x),   p_t(x) = (n_tx + β)/(n_t + Vβ).

Then every group with its words is taken out and joins a topic by that topic's groups and the
probability of all its words, one after the other. These are eqs. 14 to 17 of the paper with their
normalizers, and with the new topic that eq. 17 lacks.

Groups of document j are numbered from ``first[j]``, as many as are in use; topics from 0.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel


class Words(NamedTuple):
    """The corpus: words by document, and where each document begins."""

    word: np.ndarray  # (N,) int32
    first: np.ndarray  # (D + 1,) int64


class Franchise(NamedTuple):
    """Which group each word is in, which topic each group, and their counts."""

    group: np.ndarray  # (N,) int32, from first[j] on in document j
    size: np.ndarray  # (N,) int32, words of each group
    topic: np.ndarray  # (N,) int32, of each group
    used: np.ndarray  # (D,) int32, groups of each document
    counts: np.ndarray  # (room, V) int32, words of each topic
    total: np.ndarray  # (room,) int64
    groups: np.ndarray  # (room,) int64, groups of each topic
    topics: np.ndarray  # (1,) int64, how many are in use


class Levels(NamedTuple):
    """The prior's tables, as ``PartitionTables`` has them: of words in groups, groups in topics."""

    join: np.ndarray
    open: np.ndarray  # by the number of other groups of the document
    join_topic: np.ndarray
    open_topic: np.ndarray
    beta: float  # of the topics' Dirichlet distribution


@helper
def take_topic_off(state, t):
    """A topic without groups goes, and the last one takes its place."""
    last = state.topics[0] - 1
    if t != last:
        state.counts[t] = state.counts[last]
        state.total[t], state.groups[t] = state.total[last], state.groups[last]
        for g in range(state.topic.shape[0]):
            if state.size[g] > 0 and state.topic[g] == last:
                state.topic[g] = t
    state.counts[last] = 0
    state.total[last], state.groups[last] = 0, 0
    state.topics[0] = last


@helper
def take_group_off(words, state, j, g):
    """A group without words goes, and the last one of its document takes its place."""
    t = state.topic[g]
    state.groups[t] -= 1
    state.used[j] -= 1
    last = words.first[j] + state.used[j]
    if g != last:
        state.size[g], state.topic[g] = state.size[last], state.topic[last]
        for i in range(words.first[j], words.first[j + 1]):
            if state.group[i] == last:
                state.group[i] = g
    state.size[last] = 0
    if state.groups[t] == 0:
        take_topic_off(state, t)


@helper
def weigh_topics(state, levels, out):
    """What topics, and a new one, have to expect of one more group: shares that sum to one."""
    k = state.topics[0]
    total = 0.0
    for t in range(k):
        out[t] = np.exp(levels.join_topic[state.groups[t]])
        total += out[t]
    out[k] = np.exp(levels.open_topic[k])
    total += out[k]
    for t in range(k + 1):
        out[t] /= total


@helper
def pick(rng, weights, k):
    """One of the first k by these weights."""
    total = 0.0
    for i in range(k):
        total += weights[i]
    u = rng.random() * total
    for i in range(k):
        u -= weights[i]
        if u < 0.0:
            return i
    return k - 1


@kernel
def sweep_words(rng, words, state, levels, begin):
    """Every word from ``begin`` on once, in place.

    Stops before a word for which there is no room for one topic more, and returns it: a sweep is
    over where that is the number of words.
    """
    n_words = words.word.shape[0]
    room, vocabulary = state.counts.shape
    shares, chance = np.empty(room + 1), np.empty(room + 1)
    weights = np.empty(n_words + room + 1)
    for j in range(words.first.shape[0] - 1):
        for i in range(max(words.first[j], begin), words.first[j + 1]):
            if state.topics[0] == room:
                return i
            x, g = words.word[i], state.group[i]
            t = state.topic[g]
            state.counts[t, x] -= 1
            state.total[t] -= 1
            state.size[g] -= 1
            if state.size[g] == 0:
                take_group_off(words, state, j, g)
            k, used, at = state.topics[0], state.used[j], words.first[j]
            for t in range(k):
                top = state.counts[t, x] + levels.beta
                chance[t] = top / (state.total[t] + vocabulary * levels.beta)
            chance[k] = 1.0 / vocabulary
            for f in range(used):
                join = np.exp(levels.join[state.size[at + f]])
                weights[f] = join * chance[state.topic[at + f]]
            weigh_topics(state, levels, shares)
            opening = np.exp(levels.open[used])
            for t in range(k + 1):
                weights[used + t] = opening * shares[t] * chance[t]
            f = pick(rng, weights, used + k + 1)
            if f < used:
                g = at + f
            else:
                g, t = at + used, f - used
                state.used[j] += 1
                state.topic[g] = t
                state.groups[t] += 1
                if t == k:
                    state.topics[0] += 1
            state.group[i] = g
            state.size[g] += 1
            state.counts[state.topic[g], x] += 1
            state.total[state.topic[g]] += 1
    return n_words


@helper
def log_chance(words, state, levels, j, g, t):
    """log P(the words of group g | those of topic t), which changes and is put back."""
    vocabulary = state.counts.shape[1]
    logs = 0.0
    seen = 0
    for i in range(words.first[j], words.first[j + 1]):
        if state.group[i] == g:
            x = words.word[i]
            logs += np.log(state.counts[t, x] + levels.beta)
            logs -= np.log(state.total[t] + seen + vocabulary * levels.beta)
            state.counts[t, x] += 1
            seen += 1
    for i in range(words.first[j], words.first[j + 1]):
        if state.group[i] == g:
            state.counts[t, words.word[i]] -= 1
    return logs


@helper
def move_words(words, state, j, g, t, change):
    """Add the words of a group to a topic, or take them from it."""
    for i in range(words.first[j], words.first[j + 1]):
        if state.group[i] == g:
            state.counts[t, words.word[i]] += change
            state.total[t] += change


@kernel
def sweep_groups(rng, words, state, levels, begin):
    """Every group from ``begin`` on once, in place; stops for want of room as ``sweep_words``."""
    room = state.counts.shape[0]
    weights = np.empty(room + 1)
    for j in range(words.first.shape[0] - 1):
        for f in range(state.used[j]):
            g = words.first[j] + f
            if g < begin:
                continue
            if state.topics[0] == room:
                return g
            t = state.topic[g]
            move_words(words, state, j, g, t, -1)
            state.groups[t] -= 1
            if state.groups[t] == 0:
                state.topic[g] = -1
                take_topic_off(state, t)
            k = state.topics[0]
            weigh_topics(state, levels, weights)
            top = -np.inf
            for t in range(k + 1):
                weights[t] = np.log(weights[t]) + log_chance(words, state, levels, j, g, t)
                top = max(top, weights[t])
            for t in range(k + 1):
                weights[t] = np.exp(weights[t] - top)
            t = pick(rng, weights, k + 1)
            if t == k:
                state.topics[0] += 1
            state.topic[g] = t
            state.groups[t] += 1
            move_words(words, state, j, g, t, 1)
    return words.word.shape[0]
