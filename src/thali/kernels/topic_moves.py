r"""Splits and mergers of topics, the groups of words going one way or the other.

Two places are drawn, those of groups or, where there are slots, any. If both belong to one topic it
may be split: the two go to different sides, and the others of the topic follow one by one in a
random order, to either side with probability in proportion to

    (what the prior gives to the side for one more) · P(words of the group | those of the side).

If they belong to different topics these may be merged: the way back is the same, the sides being
known. The move is accepted with probability

    min(1, P(new) P(x | new) q(back) / (P(old) P(x | old) q(there)))

(Dahl 2005; Wang and Blei 2012). P(x | a side) is the product of what its groups had when they came.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.corpus import close_topic, open_topic
from thali.kernels.franchise_groups import log_rising, put_group, take_group


@helper(borrows=True)
def log_worth(levels, size):
    """What a topic of so many groups is worth to the prior."""
    if levels.slots > 0:
        return levels.potentials[size]
    worth = log_rising(1.0 - levels.discount, size - 1)
    return worth


@helper(borrows=True)
def log_joins(levels, size):
    """The same, of one group more."""
    if levels.slots > 0:
        return levels.potentials[size + 1] - levels.potentials[size]
    return np.log(size - levels.discount)


@helper(borrows=True)
def log_given(index, counts, total, beta, prior_total, g):
    """log P(words of a group | counts of words); a place without a group has none."""
    if g < 0:
        return 0.0
    logs, ratio = 0.0, 1.0
    begin, run, before = index.begin[g], 0, -1
    for e in range(begin, index.end[g]):
        x = index.word[e]
        run = run + 1 if x == before else 0
        before = x
        ratio *= (counts[x] + run + beta) / (total + e - begin + prior_total)
        if ratio < 1e-200:
            logs += np.log(ratio)
            ratio = 1.0
    return logs + np.log(ratio)


@helper(borrows=True)
def count_words(index, counts, g, change):
    """Add the words of a group to counts, or take them out; returns how many there are."""
    if g < 0:
        return 0
    for e in range(index.begin[g], index.end[g]):
        counts[index.word[e]] += change
    return change * (index.end[g] - index.begin[g])


@helper(borrows=True)
def place_of(rng, index, topics, slots):
    """A place at random: its group, or −1, and the topic of one without."""
    u = np.int64(rng.random() * slots)
    places = index.place.shape[0]
    if u < places:
        return u, -1
    u -= places
    e = 0
    while u >= topics.dummies[topics.order[e]]:
        u -= topics.dummies[topics.order[e]]
        e += 1
    return -1, topics.order[e]


@helper(borrows=True)
def gather(index, seating, topics, t, items, at):
    """The groups of a topic, and −1 for each place of it without one, put into items."""
    for e in range(index.place.shape[0]):
        if seating.topic[index.place[e]] == t:
            items[at] = e
            at += 1
    for _ in range(topics.dummies[t]):
        items[at] = -1
        at += 1
    return at


@helper(borrows=True)
def move_to(index, seating, lists, topics, g, t, s):
    """A group, or a place without one, goes from topic t to topic s."""
    if g < 0:
        topics.dummies[t] -= 1
        topics.dummies[s] += 1
        return
    take_group(index, lists, topics, g, t)
    put_group(index, lists, topics, g, s)
    topics.members[t] -= seating.size[index.place[g]]
    topics.members[s] += seating.size[index.place[g]]
    seating.topic[index.place[g]] = s


@kernel
def split_or_merge_topics(rng, index, seating, lists, topics, levels, vocabulary, attempts):
    """So many attempts, in place, where there is room; returns how many were accepted."""
    places, beta = index.place.shape[0], levels.beta
    slots, prior_total = max(levels.slots, places), vocabulary * beta
    counts = np.zeros((3, vocabulary), np.int32)  # of either side, and of both together
    totals, sizes, made = np.zeros(3, np.int64), np.zeros(2, np.int64), 0
    items, side = np.empty(slots, np.int64), np.empty(slots, np.int8)
    for _ in range(attempts if slots > 1 else 0):
        if topics.live[0] == topics.total.shape[0]:
            break
        one, t = place_of(rng, index, topics, slots)
        two, s = place_of(rng, index, topics, slots)
        t = seating.topic[index.place[one]] if one >= 0 else t
        s = seating.topic[index.place[two]] if two >= 0 else s
        if one == two and (one >= 0 or (t == s and rng.random() * topics.dummies[t] < 1.0)):
            continue  # the same place twice
        # the two, then the others in a random order
        n = gather(index, seating, topics, t, items, 0)
        border = n
        if s != t:
            n = gather(index, seating, topics, s, items, n)
        for e in range(n):
            side[e] = e >= border
        e = 0
        while items[e] != one:
            e += 1
        items[0], items[e] = items[e], items[0]
        side[0], side[e] = side[e], side[0]
        e = 1
        while items[e] != two or (s != t and side[e] == 0):
            e += 1
        items[1], items[e] = items[e], items[1]
        side[1], side[e] = side[e], side[1]
        for e in range(n - 1, 2, -1):
            f = rng.integers(2, e + 1)
            items[e], items[f] = items[f], items[e]
            side[e], side[f] = side[f], side[e]
        side[0], side[1] = 0, 1
        gain, log_q = 0.0, 0.0  # of two topics over one
        totals[:], sizes[:] = 0, 0
        for e in range(n):
            g = items[e]
            gain -= log_given(index, counts[2], totals[2], beta, prior_total, g)
            zero = log_given(index, counts[0], totals[0], beta, prior_total, g)
            unit = log_given(index, counts[1], totals[1], beta, prior_total, g)
            if e > 1:
                left = zero + log_joins(levels, sizes[0])
                right = unit + log_joins(levels, sizes[1])
                chance = 1.0 / (1.0 + np.exp(left - right))  # of the second side
                if s == t:
                    side[e] = rng.random() < chance
                both = np.logaddexp(left, right)
                log_q += (right if side[e] else left) - both
            gain += unit if side[e] else zero
            sizes[side[e]] += 1
            totals[side[e]] += count_words(index, counts[side[e]], g, 1)
            totals[2] += count_words(index, counts[2], g, 1)
        for e in range(n):
            count_words(index, counts[side[e]], items[e], -1)
            count_words(index, counts[2], items[e], -1)
        gain += log_worth(levels, sizes[0]) + log_worth(levels, sizes[1]) - log_worth(levels, n)
        if levels.slots == 0:
            fewer = topics.live[0] - (s != t)
            gain += np.log(levels.mass + fewer * levels.discount)
        gain -= log_q
        if np.log(1.0 - rng.random()) >= (gain if s == t else -gain):
            continue
        made += 1
        if s == t:
            s = open_topic(topics)
            for e in range(n):
                if side[e]:
                    move_to(index, seating, lists, topics, items[e], t, s)
        else:
            for e in range(n):
                if side[e]:
                    move_to(index, seating, lists, topics, items[e], s, t)
            close_topic(topics, s)
    return made
