r"""A sweep over all words: each is taken out of its group, and joins one or opens one.

    groups of a document ~ a prior over partitions of its words
    topics               ~ a prior over partitions of all groups
    x | topic t          ~ θ_t,    θ_t ~ Dirichlet(β, …, β) over V words, integrated out

A word joins a group of j others with weight ``join[j]`` p_t(x), t being the topic of that group, or
opens one with ``open`` times, over all topics and one more,

    (weight of topic t / all weights) · p_t(x),       p_t(x) = (n_tx + β)/(n_t + Vβ):

eqs. 14 to 16 of Welling and others (2012) with their normalizers. The sum over groups and topics is
one over the topics that have the word, n_tx > 0, and of β/(n_t + Vβ) over the groups and over all
topics; the last two are maintained, so that a word costs as much as it has topics, however many
there are (as Yao, Mimno and McCallum 2009 have it for a fixed number).

Where there are slots, a group that opens takes a place that none has (a dummy), and with it the
topic of that place; one that closes leaves its place behind.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.corpus import (
    add_to,
    close_topic,
    count_of,
    document_of,
    enlist,
    find_in_list,
    open_topic,
    strike,
    topic_of,
)

STEEP = 1e8  # of weights of groups, the largest over the smallest


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


@helper(borrows=True)
def put_word(lists, topics, inverse, prior_total, x, t, entry):
    """Topic t has an observed word more, at that entry of its list if it is known (not −1)."""
    if entry >= 0:
        add_to(lists, x, entry)
    else:
        enlist(lists, x, t)
    count_word(topics, inverse, prior_total, t, 1)


@helper(borrows=True)
def take_word(lists, topics, inverse, prior_total, x, t):
    """Topic t has an observed word less."""
    strike(lists, x, t)
    count_word(topics, inverse, prior_total, t, -1)


@helper(borrows=True)
def group_of_topic(seating, join, at, used, t, u):
    """The group of the document at which a sum of ``join`` over those of topic t comes to u."""
    found = -1
    for g in range(used):
        if seating.topic[at + g] == t and seating.size[at + g] > 0:
            found = g
            u -= join[seating.size[at + g]]
            if u < 0.0:
                break
    return found


@helper(borrows=True)
def count_again(seating, join, at, used, inverse, beta, t):
    """Σ join over the document's groups of topic t, over all of them, and Σ join β/(n + Vβ)."""
    of_topic, of_all, near = 0.0, 0.0, 0.0
    for g in range(used):
        weight, s = join[seating.size[at + g]], seating.topic[at + g]
        of_topic += weight if s == t else 0.0
        of_all += weight
        near += weight * beta * inverse[s]
    return of_topic, of_all, near


@helper(borrows=True)
def free_number(seating, at, used):
    """The number of a group that has no words, or the next one."""
    for g in range(used):
        if seating.size[at + g] == 0:
            return g
    return used


@kernel
def sweep_words(rng, corpus, seating, lists, topics, levels, begin):
    """Every word from ``begin`` on once, in place.

    Stops before a word for which there is no room for one topic more, and returns it: a sweep is
    over where that is the number of words. Groups are left with gaps in their numbers.
    """
    word, first, vocabulary = corpus.word, corpus.first, corpus.vocabulary
    n_words, room = word.shape[0], topics.total.shape[0]
    beta, join = levels.beta, levels.join
    prior_total = vocabulary * beta
    inverse = 1.0 / (topics.total + prior_total)
    joined = np.zeros(room)  # Σ join over the document's groups that have a topic
    chance = np.zeros(room)  # (that + opening weight · share)/(n_t + Vβ)
    places = 0  # groups in all
    for e in range(topics.live[0]):
        places += topics.groups[topics.order[e]]
    steep = join.max() > STEEP * join[1:].min()  # what is small would be lost in differences
    i = begin
    if i == n_words:
        return i
    for j in range(document_of(first, begin), first.shape[0] - 1):
        at, used = first[j], seating.used[j]
        smooth = smooth_mass(topics, levels, inverse)
        others, all_joined, near = 0, 0.0, 0.0  # groups that have words, Σ join, Σ join β/(n + Vβ)
        for g in range(used):
            size, t = seating.size[at + g], seating.topic[at + g]
            others += size > 0
            joined[t] += join[size]
            all_joined += join[size]
            near += join[size] * beta * inverse[t]
        while i < first[j + 1]:
            if topics.live[0] == room:
                break
            x, g = word[i], seating.group[i]
            t = seating.topic[at + g]
            # out of its group
            size = seating.size[at + g]
            near -= joined[t] * beta * inverse[t]
            smooth -= opening_weight(topics, levels, t) * beta * inverse[t]
            joined[t] += join[size - 1] - join[size]
            all_joined += join[size - 1] - join[size]
            seating.size[at + g] = size - 1
            topics.members[t] -= 1
            if x >= 0:
                take_word(lists, topics, inverse, prior_total, x, t)
            hole = used
            if size == 1:
                hole = g
                others -= 1
                places -= 1
                topics.groups[t] -= 1
                topics.dummies[t] += levels.slots > 0
            if topics.groups[t] + topics.dummies[t] == 0:
                joined[t] = 0.0
                close_topic(topics, t)
            else:
                near += joined[t] * beta * inverse[t]
                smooth += opening_weight(topics, levels, t) * beta * inverse[t]
            if steep:
                joined[t], all_joined, near = count_again(seating, join, at, used, inverse, beta, t)
            # what it may join
            fresh = 0.0 if levels.slots > 0 else levels.mass + topics.live[0] * levels.discount
            all_weights = levels.slots - places if levels.slots > 0 else places + levels.mass
            share = levels.open[others] / all_weights if all_weights > 0 else 0.0
            entry, t, g = -1, -1, -1
            if x >= 0:
                of_word = 0.0
                for e in range(lists.begin[x], lists.begin[x] + lists.length[x]):
                    s = topic_of(lists.entry[e])
                    weight = joined[s] + share * opening_weight(topics, levels, s)
                    chance[s] = weight * inverse[s]
                    of_word += count_of(lists.entry[e]) * chance[s]
                u = of_word + near + share * (smooth + fresh / vocabulary)
                u = rng.random() * u - of_word
                if u < 0.0:
                    entry = find_in_list(lists, x, chance, u + of_word, -1)
                    t = np.int64(topic_of(lists.entry[entry]))
                    # by a group of the document, or a new one
                    weight = share * opening_weight(topics, levels, t)
                    u = rng.random() * (joined[t] + weight) - weight
                    if u >= 0.0:
                        g = group_of_topic(seating, join, at, used, t, u)
            else:
                u = rng.random() * (all_joined + share * all_weights)
            if t < 0:
                for f in range(used):
                    s = seating.topic[at + f]
                    u -= join[seating.size[at + f]] * (beta * inverse[s] if x >= 0 else 1.0)
                    if u < 0.0:
                        t, g = s, f
                        break
            if t < 0:
                for e in range(topics.live[0]):
                    s = topics.order[e]
                    weight = share * opening_weight(topics, levels, s)
                    u -= weight * (beta * inverse[s] if x >= 0 else 1.0)
                    if weight > 0.0 and (u < 0.0 or fresh == 0.0):
                        t = s
                        if u < 0.0:
                            break
            if t < 0 and levels.slots > 0:  # rounding: there is no new topic, but a group
                g = 0
                while seating.size[at + g] == 0:
                    g += 1
                t = np.int64(seating.topic[at + g])
            if t < 0:
                t = open_topic(topics)
                topics.total[t], topics.members[t], topics.groups[t] = 0, 0, 0
                inverse[t] = 1.0 / prior_total
            else:
                near -= joined[t] * beta * inverse[t]
                smooth -= opening_weight(topics, levels, t) * beta * inverse[t]
            if g < 0:
                if hole == used:
                    hole = free_number(seating, at, used)
                g = hole
                used = max(used, g + 1)
                seating.topic[at + g], seating.size[at + g] = t, 0
                topics.groups[t] += 1
                topics.dummies[t] -= levels.slots > 0
                places += 1
                others += 1
            size = seating.size[at + g]
            seating.group[i] = g
            seating.size[at + g] = size + 1
            joined[t] += join[size + 1] - join[size]
            all_joined += join[size + 1] - join[size]
            topics.members[t] += 1
            if x >= 0:
                put_word(lists, topics, inverse, prior_total, x, t, entry)
            near += joined[t] * beta * inverse[t]
            smooth += opening_weight(topics, levels, t) * beta * inverse[t]
            if steep:
                joined[t], all_joined, near = count_again(seating, join, at, used, inverse, beta, t)
            i += 1
        seating.used[j] = used
        for g in range(used):
            joined[seating.topic[at + g]] = 0.0
        if i < first[j + 1]:
            break
    return i
