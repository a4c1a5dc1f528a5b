r"""The hierarchical Dirichlet process by topics of words (Teh and others 2006, section 5.3).

Given weights of topics b_1 … b_K, and b_0 of those not in use, a word of document j has topic t
with weight

    (n_jt + α b_t) p_t(x),    p_t(x) = (n_tx + β)/(n_t + Vβ),

and one not in use with α b_0/V. The sum is that of (n_jt + α b_t) n_tx/(n_t + Vβ) over the topics
that have the word, of n_jt β/(n_t + Vβ) over those of the document and of α b_t β/(n_t + Vβ) over
all; the last two are maintained, so that a word costs as much as it has topics, however many there
are (Yao, Mimno and McCallum 2009).

Groups are forgotten before, and drawn anew after: the words of a document that share a topic sit
down one by one, at a table of their own with weight α b_t, or with one of those before.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.corpus import (
    close_topic,
    document_of,
    find_in_list,
    open_topic,
    strike,
    topic_of,
    weigh_list,
)
from thali.kernels.franchise_words import put_word


@helper(borrows=True)
def weighted_mass(topics, weights, inverse, beta):
    """Σ_t b_t β/(n_t + Vβ) over the topics in use."""
    found = 0.0
    for e in range(topics.live[0]):
        t = topics.order[e]
        found += weights[t] * inverse[t]
    return found * beta


@kernel(error_model="numpy")
def sweep_assignments(rng, corpus, label, lists, topics, weights, left, masses, beta, begin):
    """Every word's topic from ``begin`` on once, in place; ``left`` is b_0, ``masses`` α and γ.

    Stops before a word for which there is no room for one topic more, and returns it with b_0.
    """
    word, first, vocabulary = corpus.word, corpus.first, corpus.vocabulary
    n_words, room = word.shape[0], topics.total.shape[0]
    alpha, gamma = masses
    prior_total = vocabulary * beta
    inverse = 1.0 / (topics.total + prior_total)
    chance = alpha * weights * inverse  # (n_jt + α b_t)/(n_t + Vβ), j the document at hand
    own, own_topics, own_place = np.zeros(room), np.empty(room, np.int32), np.zeros(room, np.int32)
    i = begin
    if i == n_words:
        return i, left
    for j in range(document_of(first, begin), first.shape[0] - 1):
        smooth = weighted_mass(topics, weights, inverse, beta)
        several = 0  # topics of the document
        for at in range(first[j], first[j + 1]):
            t = label[at]
            if own[t] == 0.0:
                own_topics[several], own_place[t] = t, several
                several += 1
            own[t] += 1.0
        near = 0.0  # Σ n_jt β/(n_t + Vβ)
        for e in range(several):
            t = own_topics[e]
            near += own[t] * inverse[t] * beta
            chance[t] = (own[t] + alpha * weights[t]) * inverse[t]
        others = first[j + 1] - first[j] - 1.0
        while i < first[j + 1] and topics.live[0] < room:
            x, t = word[i], label[i]
            # the weights of its topic without it; counts stay until it is seen to leave
            had = near, smooth, own[t], inverse[t], chance[t]
            near -= own[t] * beta * inverse[t]
            smooth -= weights[t] * beta * inverse[t]
            own[t] -= 1.0
            if x >= 0:
                inverse[t] = 1.0 / (topics.total[t] - 1 + prior_total)
            alone = topics.members[t] == 1
            if alone:
                left += weights[t]
                weights[t] = 0.0
            near += own[t] * beta * inverse[t]
            smooth += weights[t] * beta * inverse[t]
            chance[t] = (own[t] + alpha * weights[t]) * inverse[t]
            # what it may have
            if x >= 0:
                of_word = weigh_list(lists, x, chance) - chance[t]
                u = rng.random() * (of_word + near + alpha * (smooth + left / vocabulary)) - of_word
            else:
                u = rng.random() * (others + alpha)
            s, entry = -1, -1
            if u < 0.0:
                entry = find_in_list(lists, x, chance, u + of_word, np.uint64(t))
                s = np.int64(topic_of(lists.entry[entry]))
            else:
                for e in range(several):
                    r = own_topics[e]
                    u -= own[r] * (beta * inverse[r] if x >= 0 else 1.0)
                    if u < 0.0:
                        s = r
                        break
            if u >= 0.0:
                for e in range(topics.live[0]):
                    r = topics.order[e]
                    u -= alpha * weights[r] * (beta * inverse[r] if x >= 0 else 1.0)
                    if u < 0.0:
                        s = r
                        break
            if s == t and not alone:
                near, smooth, own[t], inverse[t], chance[t] = had
                i += 1
                continue
            # out of its topic
            if own[t] == 0.0:
                several -= 1
                last = own_topics[several]
                own_topics[own_place[t]], own_place[last] = last, own_place[t]
            topics.members[t] -= 1
            if x >= 0:
                topics.total[t] -= 1
                entry = strike(lists, x, t, entry)
            if alone:
                close_topic(topics, t)
            # into another
            if s < 0 or s == t:
                s, entry = open_topic(topics), -1
                topics.total[s], topics.members[s] = 0, 0
                share = 1.0 - (1.0 - rng.random()) ** (1.0 / gamma)  # Beta(1, γ)
                weights[s] = share * left
                left -= weights[s]
                inverse[s] = 1.0 / prior_total
            else:
                near -= own[s] * beta * inverse[s]
                smooth -= weights[s] * beta * inverse[s]
            label[i] = s
            if own[s] == 0.0:
                own_topics[several], own_place[s] = s, several
                several += 1
            own[s] += 1.0
            topics.members[s] += 1
            if x >= 0:
                put_word(lists, topics, inverse, prior_total, x, s, entry)
            near += own[s] * beta * inverse[s]
            smooth += weights[s] * beta * inverse[s]
            chance[s] = (own[s] + alpha * weights[s]) * inverse[s]
            i += 1
        for e in range(several):
            t = own_topics[e]
            own[t] = 0.0
            chance[t] = alpha * weights[t] * inverse[t]
        if i < first[j + 1]:
            break
    return i, left


@kernel
def topics_of_words(corpus, seating):
    """The topic of each word."""
    label = np.empty(corpus.word.shape[0], np.int32)
    for j in range(corpus.first.shape[0] - 1):
        at = corpus.first[j]
        for i in range(at, corpus.first[j + 1]):
            label[i] = seating.topic[at + seating.group[i]]
    return label


@kernel
def draw_groups(rng, corpus, label, seating, topics, weights, alpha):
    """Groups given topics of words and weights of topics, in place; counts of groups too."""
    room, longest = topics.total.shape[0], 0
    for j in range(corpus.first.shape[0] - 1):
        longest = max(longest, corpus.first[j + 1] - corpus.first[j])
    count, offset = np.zeros(room, np.int64), np.zeros(room, np.int64)
    seated = np.empty(longest + 1, np.int64)  # words by topic
    topics.groups[:] = 0
    for j in range(corpus.first.shape[0] - 1):
        at, used, taken = corpus.first[j], 0, 0
        for i in range(at, corpus.first[j + 1]):
            offset[label[i]] -= 1  # how many there are, until the first of them comes
        for i in range(at, corpus.first[j + 1]):
            t = label[i]
            if offset[t] < 0:
                taken, offset[t] = taken - offset[t], taken
            mass = alpha * weights[t]
            u = rng.random() * (mass + count[t]) - mass
            if u < 0.0 or count[t] == 0:
                g = used
                used += 1
                seating.topic[at + g], seating.size[at + g] = t, 0
                topics.groups[t] += 1
            else:
                g = seating.group[seated[offset[t] + min(np.int64(u), count[t] - 1)]]
            seating.group[i] = g
            seating.size[at + g] += 1
            seated[offset[t] + count[t]] = i
            count[t] += 1
        for i in range(at, corpus.first[j + 1]):
            count[label[i]], offset[label[i]] = 0, 0
        for g in range(used, seating.used[j]):
            seating.size[at + g] = 0
        seating.used[j] = used
