r"""What a fit of topics says: one draw that stands for all, and how sure its topics are.

Topics have no names, so that draws are compared by their words: the answer is the draw whose topics
of words differ least from those of the others. In every draw each of its topics is matched with the
one that shares most words with it (one to one, so that they share as many as can be in all). Words
by topic and by document are means over draws; in a draw in which a topic has no match it has no
words, and words of a draw's topics that match none are left out. Topics come in the order of their
mean numbers of words, the largest first. ``presence`` says how much of a topic is matched: the mean
over the other draws of the words that both have over the words that either has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from thali.results.fit import Fit
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping, nearest


class TopicAnswer(NamedTuple):
    """The draw that stands for all, and means over draws by its topics."""

    grouping: Grouping
    counts: np.ndarray  # (K, V) words of each topic, hidden ones left out, a mean over draws
    documents: np.ndarray  # (D, K) words of each document by topic, a mean over draws
    matched: np.ndarray  # (K,) the share of draws in which a topic has a match
    presence: np.ndarray  # (K,), NaN where there is one draw
    loss: float


def answer(fit: Fit, words: np.ndarray) -> TopicAnswer:
    """The answer of a fit to documents of these words (−1: hidden)."""
    from thali.kernels.groupings import occurrences, tally

    which = fit.representatives(GROUPED_PARTITIONS.draws_to_use(fit.data.n, 1))
    each = [narrow(draw.latent.topic_of_word) for draw in fit.picked(which)]  # one at a time
    if any(len(own) != len(words) for own in each):
        raise ValueError(f"draws are not of the {len(words)} words that documents have")
    best, loss = nearest(each)
    chosen = fit.pick([int(which[best])])[0].latent
    labels, k = narrow(chosen.topic_of_word), chosen.n_topics
    presence, matched, sizes = np.zeros(k), np.zeros(k), np.zeros(k)
    places = []
    for i, own in enumerate(each):
        place, overlap = matching(labels, k, own)
        presence += overlap if i != best else 0.0  # it would always find itself
        matched += overlap > 0.0
        seen = occurrences(own[words >= 0], len(place))
        np.add.at(sizes, place[place >= 0], seen[place >= 0])
        places.append(place)
    order = np.argsort(-sizes, kind="stable")
    rank = np.append(np.argsort(order), -1)  # the last of words without a match
    counts, documents = np.zeros((k, fit.data.d)), np.zeros((fit.data.n, k))
    for own, place in zip(each, places, strict=True):
        tally(chosen.lengths, words, own, rank[place], counts, documents)
    counts /= len(each)  # in place: they may be larger than all else
    documents /= len(each)
    return TopicAnswer(
        in_order(chosen, order),
        counts,
        documents,
        matched[order] / len(each),
        presence[order] / (len(each) - 1) if len(each) > 1 else np.full(k, np.nan),
        loss,
    )


def narrow(labels: np.ndarray) -> np.ndarray:
    """Topics of words in as little space as they need."""
    return labels.astype(np.min_scalar_type(int(labels.max(initial=0))))


def matching(labels: np.ndarray, k: int, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Topics of a draw, which words have by ``own``, by those of the answer, by ``labels``.

    The topic of the answer for each of the draw's, or −1, and of each of the k in the answer the
    words that both have over those that either has.
    """
    from thali.kernels.groupings import tally_pairs

    several = int(own.max()) + 1 if len(own) else 0
    together = tally_pairs(labels, own, k, several)
    rows, columns = linear_sum_assignment(-together)
    either = together.sum(axis=1)[rows] + together.sum(axis=0)[columns]
    both = together[rows, columns]
    place, overlap = np.full(several, -1), np.zeros(k)
    overlap[rows] = both / (either - both)
    some = both > 0
    place[columns[some]] = rows[some]
    return place, overlap


def in_order(latent: Grouping, order: np.ndarray) -> Grouping:
    """The same with its topics in another order, given by their numbers now."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    dummies = latent.dummies
    if len(dummies):
        dummies = np.concatenate([dummies[: len(order)][order], dummies[len(order) :]])
    return latent._replace(topic=place[latent.topic], dummies=dummies)
