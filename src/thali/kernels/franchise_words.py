r"""A sweep over all words: each is taken out of its group, and joins one or opens one.

    groups of a document ~ a prior over partitions of its words
    topics               ~ a prior over partitions of all groups
    x | topic t          ~ θ_t,    θ_t ~ Dirichlet(β, …, β) over V words, integrated out

A word joins a group of j others with weight ``join[j]`` p_t(x), t being the topic of that group, or
opens one with ``open`` times, over all topics and one more,

    (weight of topic t / all weights) · p_t(x),       p_t(x) = (n_tx + β)/(n_t + Vβ):

eqs. 14 to 16 of Welling and others (2012) with their normalizers. The sum over topics is that over
the topics which have the word, n_tx > 0, and one of β/(n_t + Vβ) over all, which is maintained; so
a word costs as much as its document has groups and as it has topics of its own, however many
topics there are.

Where there are slots, a group that opens takes a place that none has (a dummy), and with it the
topic of that place; one that closes leaves its place behind.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.corpus import close_topic, document_of, enlist, open_topic, strike


@helper(borrows=True)
def opening_weight(topics, levels, t):
    """What a group that opens has to do with topic t, over the sum of all of these."""
    if levels.slots > 0:
        return float(topics.dummies[t])
    return topics.groups[t] - levels.discount


@helper(borrows=True)
def smooth_mass(topics, levels, inverse):
    """Σ_t (weight of t) β/(n_t + Vβ) over the topics in use."""
    found = 0.0
    for e in range(topics.live[0]):
        t = topics.order[e]
        found += opening_weight(topics, levels, t) * inverse[t]
    return found * levels.beta


@helper(borrows=True)
def count_word(topics, inverse, prior_total, t, change):
    """Topic t has an observed word more, or less."""
    topics.total[t] += change
    inverse[t] = 1.0 / (topics.total[t] + prior_total)


@kernel
def sweep_words(rng, corpus, seating, lists, topics, levels, begin):
    """Every word from ``begin`` on once, in place.

    Stops before a word for which there is no room for one topic more, and returns it: a sweep is
    over where that is the number of words. Groups are left with gaps in their numbers.
    """
    word, first, vocabulary = corpus.word, corpus.first, corpus.vocabulary
    n_words, room = word.shape[0], topics.total.shape[0]
    beta = levels.beta
    prior_total = vocabulary * beta
    inverse, has = 1.0 / (topics.total + prior_total), np.zeros(room)
    longest = 0
    for j in range(first.shape[0] - 1):
        longest = max(longest, first[j + 1] - first[j])
    by_group, by_topic = np.empty(longest + 1), np.empty(room + 1)
    places = 0  # groups in all
    for e in range(topics.live[0]):
        places += topics.groups[topics.order[e]]
    i = begin
    if i == n_words:
        return i
    for j in range(document_of(first, begin), first.shape[0] - 1):
        at, used = first[j], seating.used[j]
        smooth = smooth_mass(topics, levels, inverse)
        others = 0  # groups that have words
        for g in range(used):
            others += seating.size[at + g] > 0
        while i < first[j + 1]:
            if topics.live[0] == room:
                seating.used[j] = used
                return i
            x, g = word[i], seating.group[i]
            t = seating.topic[at + g]
            # out of its group
            weight = opening_weight(topics, levels, t)
            smooth -= weight * beta * inverse[t]
            if x >= 0:
                strike(lists, x, t)
                count_word(topics, inverse, prior_total, t, -1)
            topics.members[t] -= 1
            seating.size[at + g] -= 1
            if seating.size[at + g] == 0:
                others -= 1
                places -= 1
                topics.groups[t] -= 1
                topics.dummies[t] += levels.slots > 0
                weight = opening_weight(topics, levels, t)
            if topics.groups[t] + topics.dummies[t] == 0:
                close_topic(topics, t)
            else:
                smooth += weight * beta * inverse[t]
            # what it may join
            in_groups, hole = 0.0, used
            of_word, opened = 0.0, levels.open[others]
            fresh = 0.0 if levels.slots > 0 else levels.mass + topics.live[0] * levels.discount
            all_weights = levels.slots - places if levels.slots > 0 else places + levels.mass
            if all_weights <= 0:  # every place has a group
                opened, all_weights = 0.0, 1.0
            if x >= 0:
                some, list_begin = lists.length[x], lists.begin[x]
                for e in range(some):
                    t = lists.topic[list_begin + e]
                    count = float(lists.count[list_begin + e])
                    has[t] = count
                    of_word += opening_weight(topics, levels, t) * count * inverse[t]
                    by_topic[e] = of_word
                for g in range(used):
                    size, t = seating.size[at + g], seating.topic[at + g]
                    if size == 0:
                        hole = g
                    in_groups += levels.join[size] * (has[t] + beta) * inverse[t]
                    by_group[g] = in_groups
                for e in range(some):
                    has[lists.topic[list_begin + e]] = 0.0
                opening = opened / all_weights * (of_word + smooth + fresh / vocabulary)
            else:
                for g in range(used):
                    if seating.size[at + g] == 0:
                        hole = g
                    in_groups += levels.join[seating.size[at + g]]
                    by_group[g] = in_groups
                opening = opened
            u = rng.random() * (in_groups + opening)
            if u < in_groups:
                g = 0
                while by_group[g] <= u:
                    g += 1
                t = seating.topic[at + g]
                smooth -= opening_weight(topics, levels, t) * beta * inverse[t]
            else:
                if x >= 0:
                    u = rng.random() * (of_word + smooth + fresh / vocabulary)
                else:
                    u = rng.random() * all_weights
                t = -1
                if x >= 0 and u < of_word:
                    e = 0
                    while by_topic[e] <= u:
                        e += 1
                    t = lists.topic[list_begin + e]
                else:
                    u -= of_word
                    for e in range(topics.live[0]):
                        s = topics.order[e]
                        share = opening_weight(topics, levels, s)
                        if x >= 0:
                            share *= beta * inverse[s]
                        u -= share
                        if share > 0.0 and (u < 0.0 or fresh == 0.0):
                            t = s
                            if u < 0.0:
                                break
                if t < 0:
                    t = open_topic(topics)
                    topics.total[t], topics.members[t], topics.groups[t] = 0, 0, 0
                    inverse[t] = 1.0 / prior_total
                else:
                    smooth -= opening_weight(topics, levels, t) * beta * inverse[t]
                g = hole
                used = max(used, g + 1)
                seating.topic[at + g], seating.size[at + g] = t, 0
                topics.groups[t] += 1
                topics.dummies[t] -= levels.slots > 0
                places += 1
                others += 1
            seating.group[i] = g
            seating.size[at + g] += 1
            topics.members[t] += 1
            if x >= 0:
                enlist(lists, x, t)
                count_word(topics, inverse, prior_total, t, 1)
            smooth += opening_weight(topics, levels, t) * beta * inverse[t]
            i += 1
        seating.used[j] = used
    return i
