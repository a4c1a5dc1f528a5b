"""Words in groups and groups in topics as plain arrays: put in order, drawn, compared, counted.

Each takes one pass over the words, and makes no array longer than it returns.
"""

import numpy as np

from thali.kernels.compiling import kernel


@kernel
def in_order(lengths, group, topic):
    """Groups of each document numbered by their first words, and topics by their first groups.

    Returns both, and the old names of topics in their new order.
    """
    longest, most = 0, 0
    for n in lengths:
        longest = max(longest, n)
    for t in topic:
        most = max(most, t + 1)
    number = np.empty(longest + 1, np.int32)
    name, old = np.full(most, -1, np.int32), np.empty(most, np.int32)
    new_group, new_topic = np.empty(len(group), np.int32), np.empty(len(topic), np.int32)
    at, before, topics = 0, 0, 0
    for n in lengths:
        groups, used = 0, 0
        for i in range(at, at + n):
            groups = max(groups, group[i] + 1)
        number[:groups] = -1
        for i in range(at, at + n):
            g = group[i]
            if number[g] < 0:
                number[g] = used
                t = topic[before + g]
                if name[t] < 0:
                    name[t], old[topics] = topics, t
                    topics += 1
                new_topic[before + used] = name[t]
                used += 1
            new_group[i] = number[g]
        at += n
        before += groups
    return new_group, new_topic, old[:topics]


@kernel
def topics_of_words(lengths, group, topic):
    """The topic of each word, (N,)."""
    label = np.empty(len(group), np.int32)
    at, before = 0, 0
    for n in lengths:
        groups = 0
        for i in range(at, at + n):
            label[i] = topic[before + group[i]]
            groups = max(groups, group[i] + 1)
        at += n
        before += groups
    return label


@kernel
def scatter(rng, lengths, topics, whole):
    """Words over topics at random, or ``whole`` documents: groups, and the topics of these."""
    n_words = 0
    for n in lengths:
        n_words += n
    group, topic = np.empty(n_words, np.int32), np.empty(n_words, np.int32)
    number, mark = np.empty(topics, np.int32), np.full(topics, -1, np.int64)
    at, groups = 0, 0
    for j in range(len(lengths)):
        used, all_words = 0, np.int64(rng.random() * topics)
        for i in range(at, at + lengths[j]):
            t = all_words if whole else np.int64(rng.random() * topics)
            if mark[t] != j:
                mark[t], number[t] = j, used
                topic[groups + used] = t
                used += 1
            group[i] = number[t]
        at += lengths[j]
        groups += used
    return group, topic[:groups].copy()


@kernel
def occurrences(values, most):
    """How often each of 0 … most − 1 occurs; negative ones are left out."""
    found = np.zeros(most, np.int64)
    for value in values:
        if value >= 0:
            found[value] += 1
    return found


@kernel
def tally_pairs(a, b, k, m):
    """How many words have topic s in one and t in the other, (k, m)."""
    found = np.zeros((k, m), np.int64)
    for i in range(len(a)):
        found[a[i], b[i]] += 1
    return found


@kernel
def tally(lengths, word, label, place, counts, documents):
    """Add the words of topics to counts by word and by document; topics go to their places."""
    at = 0
    for j in range(len(lengths)):
        for i in range(at, at + lengths[j]):
            t = place[label[i]]
            if t >= 0:
                documents[j, t] += 1.0
                if word[i] >= 0:
                    counts[t, word[i]] += 1.0
        at += lengths[j]
