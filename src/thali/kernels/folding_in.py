r"""The words of new documents in groups, given topics that stay as they are.

    words of a document in groups ~ a prior over partitions of its words
    topic of a group              ~ b_1 … b_K, and b_0 of one that has no words yet
    x | topic t                   ~ φ_t, fixed

Documents share nothing then, so that each is sampled by itself. A word has topic t with weight

    (Σ join over the groups of topic t + open · b_t) φ_t(x),

and then one of the groups of that topic, or a new one; after every sweep groups choose their topics
anew, b_t ∏ φ_t(x) over the words of each. What is kept are these weights over their sum, before a
word is drawn from them. A hidden word, −1, has no φ.

Every document has random numbers of its own, by a seed and by its words: what is found of it does
not depend on other documents, nor on threads. They are those of SplitMix64 (Steele, Lea and Flood
2014), as a generator of NumPy for each document would take longer to make than to use.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
A30, A27, A31, A11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53
ANY_ORDER = {"nnan", "nsz", "reassoc", "contract"}  # sums by vector instructions
TOGETHER = 8  # probabilities multiplied before they are brought near one again


class FixedTopics(NamedTuple):
    """Topics that stay, and the prior over the words of a document."""

    phi: np.ndarray  # (words, K + 1), the last column 1/V
    row: np.ndarray  # (V,) int32, the row of each word that documents have
    share: np.ndarray  # (K + 1,) b, of which the last is b_0
    join: np.ndarray  # by how many others a group has; 0 for none
    open: np.ndarray  # by how many other groups the document has


@helper(borrows=True)
def scrambled(z):
    """All bits depend on all bits."""
    z = (z ^ (z >> A30)) * FIRST
    z = (z ^ (z >> A27)) * SECOND
    return z ^ (z >> A31)


@helper(borrows=True)
def uniform(state):
    """The next random number between 0 and 1."""
    state[0] += GOLDEN
    return np.float64(scrambled(state[0]) >> A11) * UNIT


@helper(borrows=True)
def pick(weight, k, u):
    """The place at which the sum of weights comes to u."""
    t = 0
    while t + 4 < k:  # four at a time, which the processor adds side by side
        four = (weight[t] + weight[t + 1]) + (weight[t + 2] + weight[t + 3])
        if u < four:
            break
        u -= four
        t += 4
    while t < k - 1:
        u -= weight[t]
        if u < 0.0:
            break
        t += 1
    while weight[t] <= 0.0 and t > 0:  # by rounding alone
        t -= 1
    return t


@helper(borrows=True, fastmath=ANY_ORDER)
def weigh(weight, joined, share, opens, phi, row):
    """The weight of each topic for a word, and their sum."""
    total = 0.0
    for t in range(weight.shape[0]):
        weight[t] = (joined[t] + opens * share[t]) * phi[row, t]
        total += weight[t]
    return total


@helper(borrows=True, fastmath=ANY_ORDER)
def weigh_hidden(weight, joined, share, opens):
    """The same for a word that was not seen."""
    total = 0.0
    for t in range(weight.shape[0]):
        weight[t] = joined[t] + opens * share[t]
        total += weight[t]
    return total


@helper(borrows=True, fastmath=ANY_ORDER)
def add_parts(found, j, weight, part):
    """Row j has so much of the weights more."""
    for t in range(weight.shape[0]):
        found[j, t] += weight[t] * part


@helper(borrows=True)
def joined_to(join, size, topic, used, t):
    """Σ join over the groups of topic t."""
    found = 0.0
    for g in range(used):
        if topic[g] == t:
            found += join[size[g]]
    return found


@helper(borrows=True)
def group_to_join(join, size, topic, used, t, u):
    """The group of topic t at which that sum comes to u."""
    found = -1
    for g in range(used):
        if topic[g] == t and size[g] > 0:
            found = g
            u -= join[size[g]]
            if u < 0.0:
                break
    return found


@helper(borrows=True)
def free_group(size, used):
    """The number of a group that has no words, or the next one."""
    for g in range(used):
        if size[g] == 0:
            return g
    return used


@helper(borrows=True)
def choose_topics(state, word, at, n, fixed, group, size, topic, used, order, begin, weight):
    """Every group has a topic given its words, in place."""
    k = fixed.share.shape[0]
    free = 0
    for g in range(used):
        begin[g] = free
        free += size[g]
    for i in range(n):
        g = group[i]
        order[begin[g]] = i
        begin[g] += 1
    for g in range(used):
        if size[g] == 0:
            continue
        for t in range(k):
            weight[t] = fixed.share[t]
        for e in range(begin[g] - size[g], begin[g]):
            x = word[at + order[e]]
            if x >= 0:
                for t in range(k):
                    weight[t] *= fixed.phi[fixed.row[x], t]
            if (begin[g] - e) % TOGETHER == 1:
                top = 0.0
                for t in range(k):
                    top = max(top, weight[t])
                for t in range(k):
                    weight[t] /= top
        total = 0.0
        for t in range(k):
            total += weight[t]
        topic[g] = pick(weight, k, uniform(state) * total)


@kernel
def fold_in(word, first, begin, end, fixed, seed, burn_in, sweeps, seen, hidden):
    """Documents ``begin`` to ``end``: so many sweeps after others that are not counted.

    Adds to ``seen`` and ``hidden``, (D, K + 1), the mean over sweeps of how many of the words that
    were seen, and of those that were not, have each topic.
    """
    k, longest = fixed.share.shape[0], 0
    for j in range(begin, end):
        longest = max(longest, first[j + 1] - first[j])
    group, order = np.empty(longest, np.int32), np.empty(longest, np.int32)
    size, topic = np.empty(longest + 1, np.int32), np.empty(longest + 1, np.int32)
    starts, state = np.empty(longest + 1, np.int32), np.empty(1, np.uint64)
    joined, weight = np.zeros(k), np.empty(k)
    join, share = fixed.join, fixed.share
    for j in range(begin, end):
        at, n = first[j], first[j + 1] - first[j]
        state[0] = scrambled(np.uint64(seed) + GOLDEN)
        for i in range(n):
            state[0] = scrambled(state[0] ^ np.uint64(word[at + i] + 2))
        joined[:] = 0.0
        used, others = 0, 0
        for sweep in range(-1 - burn_in, sweeps):
            for i in range(n):
                x = word[at + i]
                if sweep > -1 - burn_in:  # before, it is nowhere yet
                    g = group[i]
                    size[g] -= 1
                    others -= size[g] == 0
                    joined[topic[g]] = joined_to(join, size, topic, used, topic[g])
                opens = fixed.open[others]
                if x >= 0:
                    total = weigh(weight, joined, share, opens, fixed.phi, fixed.row[x])
                else:
                    total = weigh_hidden(weight, joined, share, opens)
                if sweep >= 0:
                    add_parts(seen if x >= 0 else hidden, j, weight, 1.0 / (total * sweeps))
                t = pick(weight, k, uniform(state) * total)
                opens *= share[t]
                u = uniform(state) * (joined[t] + opens) - opens
                g = -1
                if u >= 0.0:
                    g = group_to_join(join, size, topic, used, t, u)
                if g < 0:
                    g = free_group(size, used)
                    used = max(used, g + 1)
                    size[g], topic[g] = 0, t
                    others += 1
                size[g] += 1
                group[i] = g
                joined[t] = joined_to(join, size, topic, used, t)
            if n > 0:
                choose_topics(
                    state, word, at, n, fixed, group, size, topic, used, order, starts, weight
                )
                joined[:] = 0.0
                for g in range(used):
                    joined[topic[g]] += join[size[g]]


@kernel
def hidden_shares(corpus, seating, topics, levels, k, shares):
    """Of each document with hidden words, the mean over these of how probable each topic is.

    A word is taken out, and its group where it is alone; it joins another group or opens one.
    ``shares`` is (D, k + 1), the last column for a topic of its own; topics are 0 … k − 1.
    """
    longest, places = 0, 0
    for j in range(corpus.first.shape[0] - 1):
        longest = max(longest, corpus.first[j + 1] - corpus.first[j])
    for t in range(k):
        places += topics.groups[t]
    count = np.zeros(longest + 1, np.int64)
    joined, weight = np.zeros(k), np.empty(k + 1)
    for j in range(corpus.first.shape[0] - 1):
        at, used, several = corpus.first[j], seating.used[j], 0
        count[:used] = 0
        for i in range(at, corpus.first[j + 1]):
            if corpus.word[i] < 0:
                count[seating.group[i]] += 1
                several += 1
        for g in range(used):
            if count[g] == 0:
                continue
            out, alone = seating.topic[at + g], seating.size[at + g] == 1
            joined[:] = 0.0
            for f in range(used):
                joined[seating.topic[at + f]] += levels.join[seating.size[at + f] - (f == g)]
            opens, live, total = levels.open[used - alone], 0, 0.0
            left = levels.slots - places + alone  # places without a group
            for t in range(k):
                groups = topics.groups[t] - (alone and t == out)
                live += groups > 0
                if levels.slots > 0:
                    own = topics.dummies[t] + (alone and t == out)
                    share = own / left if left > 0 else 0.0
                else:
                    share = groups - levels.discount if groups > 0 else 0.0
                    share /= places - alone + levels.mass
                weight[t] = joined[t] + opens * share
                total += weight[t]
            weight[k] = 0.0
            if levels.slots == 0:
                weight[k] = opens
                if live > 0:
                    weight[k] *= levels.mass + live * levels.discount
                    weight[k] /= places - alone + levels.mass
            total += weight[k]
            for t in range(k + 1):
                shares[j, t] += weight[t] / total * count[g] / several
