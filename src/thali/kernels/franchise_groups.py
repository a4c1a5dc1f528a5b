r"""Whole groups of words, and places that no group has, change topics.

A group is taken out with its words and joins topic t with weight

    (what the prior gives to t for one more) · P(its words | those of t),

a new topic among them, which eq. 17 of Welling and others (2012) lacks:

    P(words | t) = ∏_x (n_tx + β)_{c_x} / (n_t + Vβ)_s,    (a)_c = a (a+1) ⋯ (a+c−1),

c_x times word x, s words in all. What does not depend on t is left out, so that of the numerator
only topics that have a word of the group need be visited.

Places without a group have no words, and go where the prior alone sends them. A swap exchanges the
topics of two places, of which one at least has a group (eq. 18 as it should be: the words of
either, given the other topic without the words that it loses).
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.corpus import (
    LOW,
    close_topic,
    count_of,
    enlist,
    open_topic,
    strike,
    topic_of,
)

DIGITS, LARGEST_COUNT = 280.0, 9.0  # that a product may have, and a count


@helper(borrows=True)
def log_rising(a, count):
    """log a (a + 1) ⋯ (a + count − 1)."""
    logs, product = 0.0, 1.0
    for i in range(count):
        product *= a + i
        if product > 1e250 or product < 1e-250:
            logs += np.log(product)
            product = 1.0
    return logs + np.log(product)


@helper(borrows=True)
def run_of(word, e, end):
    """How many equal words there are from e on."""
    e_next = e + 1
    while e_next < end and word[e_next] == word[e]:
        e_next += 1
    return e_next - e


@helper(borrows=True)
def take_group(index, lists, topics, g, t):
    """The words of a group are not in topic t any more, nor the group."""
    for e in range(index.begin[g], index.end[g]):
        strike(lists, index.word[e], t)
    topics.total[t] -= index.end[g] - index.begin[g]
    topics.groups[t] -= 1


@helper(borrows=True)
def put_group(index, lists, topics, g, t):
    """The words of a group are in topic t, and the group."""
    for e in range(index.begin[g], index.end[g]):
        enlist(lists, index.word[e], t)
    topics.total[t] += index.end[g] - index.begin[g]
    topics.groups[t] += 1


@helper(borrows=True)
def log_joining(topics, levels, t):
    """The prior's log weight of topic t for one group more."""
    if levels.slots > 0:
        size = topics.groups[t] + topics.dummies[t]
        return levels.potentials[size + 1] - levels.potentials[size]
    return np.log(topics.groups[t] - levels.discount)


@helper(borrows=True)
def log_opening(topics, levels):
    """The prior's log weight of a topic of its own."""
    if levels.slots > 0:
        return levels.potentials[1] - levels.potentials[0]
    return np.log(levels.mass + topics.live[0] * levels.discount)


@helper(borrows=True)
def pick_by_logs(rng, logs, k):
    """One of the first k by these log weights, which are overwritten."""
    top = -np.inf
    for e in range(k):
        top = max(top, logs[e])
    total = 0.0
    for e in range(k):
        total += np.exp(logs[e] - top)
        logs[e] = total
    u = rng.random() * total
    e = 0
    while e < k - 1 and logs[e] <= u:
        e += 1
    return e


@helper(borrows=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def weigh_words(index, lists, topics, beta, prior_total, totals, first, last, run, weights):
    """∏ P(word | topic, the words before)/P(word | a new topic, the same) over a few words.

    ``run`` is how often the first of them came before; returns the same of the next.
    """
    k, seen = topics.live[0], first[1]
    for e in range(k):
        weights[e] = 1.0
    for i in range(last - first[0]):
        scale = 1.0 / (prior_total + seen + i)
        for e in range(k):
            weights[e] *= (totals[e] + seen + i) * scale
    for e in range(k):
        weights[e] = 1.0 / weights[e]
    for e in range(first[0], last):
        x, scale = index.word[e], 1.0 / (beta + run)
        for i in range(lists.begin[x], lists.begin[x] + lists.length[x]):
            entry = lists.entry[i]
            weights[topics.place[topic_of(entry)]] *= (count_of(entry) + beta + run) * scale
        same = e + 1 < index.word.shape[0] and index.word[e + 1] == x
        run = run + 1.0 if same else 0.0
    return run


@helper(borrows=True)
def draw_topic(rng, index, lists, topics, levels, prior_total, chunk, g, weights, logs, totals):
    """The place of a topic for a group that is in none, as many as there are for a new one.

    Products of a few words at a time; a group of few words needs no logarithm at all.
    """
    k, begin, end = topics.live[0], index.begin[g], index.end[g]
    for e in range(k):
        totals[e] = topics.total[topics.order[e]] + prior_total
        logs[e] = 0.0
    at, run = begin, 0.0
    while True:
        last = min(at + chunk, end)
        span = (at, at - begin)
        run = weigh_words(
            index, lists, topics, levels.beta, prior_total, totals, span, last, run, weights
        )
        if last == end:
            break
        at = last
        for e in range(k):
            logs[e] += np.log(weights[e])
    if at == begin and levels.slots == 0:
        for e in range(k):
            weights[e] *= topics.groups[topics.order[e]] - levels.discount
        weights[k] = levels.mass + k * levels.discount
        return pick(rng, weights, k + 1)
    for e in range(k):
        logs[e] += np.log(weights[e]) + log_joining(topics, levels, topics.order[e])
    logs[k] = log_opening(topics, levels)
    return pick_by_logs(rng, logs, k + 1)


@helper(borrows=True)
def pick(rng, weights, k):
    """One of the first k by these weights."""
    total = 0.0
    for e in range(k):
        total += weights[e]
    u = rng.random() * total
    e = 0
    u -= weights[0]
    while u >= 0.0 and e < k - 1:
        e += 1
        u -= weights[e]
    return e


@kernel
def sweep_groups(rng, index, seating, lists, topics, levels, vocabulary, begin, end):
    """Every group from ``begin`` to ``end`` once, in place.

    Stops before one for which there is no room for one topic more, and returns it.
    """
    room, prior_total = topics.total.shape[0], vocabulary * levels.beta
    weights, logs, totals = np.empty(room + 1), np.empty(room + 1), np.empty(room + 1)
    digits = LARGEST_COUNT + max(0.0, -np.log10(levels.beta))  # of what one word may multiply by
    chunk = max(1, int(DIGITS / digits))
    for g in range(begin, end):
        if topics.live[0] == room:
            return g
        t = seating.topic[index.place[g]]
        size = seating.size[index.place[g]]
        take_group(index, lists, topics, g, t)
        topics.members[t] -= size
        if topics.groups[t] + topics.dummies[t] == 0:
            close_topic(topics, t)
        k = topics.live[0]
        e = draw_topic(
            rng, index, lists, topics, levels, prior_total, chunk, g, weights, logs, totals
        )
        t = open_topic(topics) if e == k else topics.order[e]
        seating.topic[index.place[g]] = t
        put_group(index, lists, topics, g, t)
        topics.members[t] += size
    return end


@kernel
def sweep_dummies(rng, topics, levels, begin):
    """As many places without a group as there are, one at random after the other, from ``begin``.

    Stops for want of room as ``sweep_groups``.
    """
    room = topics.total.shape[0]
    logs = np.empty(room + 1)
    count = 0
    for e in range(topics.live[0]):
        count += topics.dummies[topics.order[e]]
    for at in range(begin, count):
        if topics.live[0] == room:
            return at
        u, e = rng.integers(0, count), 0
        while u >= topics.dummies[topics.order[e]]:
            u -= topics.dummies[topics.order[e]]
            e += 1
        t = topics.order[e]
        topics.dummies[t] -= 1
        if topics.groups[t] + topics.dummies[t] == 0:
            close_topic(topics, t)
        k = topics.live[0]
        for e in range(k):
            logs[e] = log_joining(topics, levels, topics.order[e])
        logs[k] = log_opening(topics, levels)
        e = pick_by_logs(rng, logs, k + 1)
        t = open_topic(topics) if e == k else topics.order[e]
        topics.dummies[t] += 1
    return count


@helper(borrows=True)
def times_in(lists, x, t):
    """How often topic t has word x."""
    for e in range(lists.begin[x], lists.begin[x] + lists.length[x]):
        if lists.entry[e] & LOW == t:
            return count_of(lists.entry[e])
    return 0


@helper(borrows=True)
def log_chance(index, lists, topics, beta, prior_total, g, t):
    """log P(the words of a group | those of topic t), in which they are not."""
    logs = -log_rising(topics.total[t] + prior_total, index.end[g] - index.begin[g])
    e = index.begin[g]
    while e < index.end[g]:
        x, count = index.word[e], run_of(index.word, e, index.end[g])
        logs += log_rising(times_in(lists, x, t) + beta, count)
        e += count
    return logs


@kernel
def swap_places(rng, index, seating, lists, topics, levels, vocabulary, attempts):
    """So many attempts to exchange the topics of a group and of another place, in place.

    The other place is any, where there are slots, else that of a group. Returns how many exchanges
    were made.
    """
    beta, made, places = levels.beta, 0, index.place.shape[0]
    prior_total, slots = vocabulary * beta, max(levels.slots, places)
    for _ in range(attempts if slots > 1 else 0):
        one = rng.integers(0, places)
        u = rng.integers(0, slots - 1)  # of the others: groups, then places without
        other = -1
        if u < places - 1:
            other = u if u != one else places - 1
            there = seating.topic[index.place[other]]
        else:
            u -= places - 1
            e = 0
            while u >= topics.dummies[topics.order[e]]:
                u -= topics.dummies[topics.order[e]]
                e += 1
            there = topics.order[e]
        here = seating.topic[index.place[one]]
        if here == there:
            continue
        take_group(index, lists, topics, one, here)
        if other >= 0:  # both out: each is compared in topics that hold neither
            take_group(index, lists, topics, other, there)
        gain = log_chance(index, lists, topics, beta, prior_total, one, there)
        gain -= log_chance(index, lists, topics, beta, prior_total, one, here)
        if other >= 0:
            gain += log_chance(index, lists, topics, beta, prior_total, other, here)
            gain -= log_chance(index, lists, topics, beta, prior_total, other, there)
        if np.log(1.0 - rng.random()) < gain:
            made += 1
            seating.topic[index.place[one]] = there
            moved = seating.size[index.place[one]]
            if other >= 0:
                seating.topic[index.place[other]] = here
                moved -= seating.size[index.place[other]]
            topics.members[here] -= moved
            topics.members[there] += moved
            if other < 0:
                topics.dummies[here] += 1
                topics.dummies[there] -= 1
        put_group(index, lists, topics, one, seating.topic[index.place[one]])
        if other >= 0:
            put_group(index, lists, topics, other, seating.topic[index.place[other]])
    return made
