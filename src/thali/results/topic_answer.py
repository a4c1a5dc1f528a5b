r"""What a fit of topics says: one draw that stands for all, and how sure its topics are.

Topics have no names, so that draws are compared by their words: the answer is the draw whose topics
of words differ least from those of the others, its topics ordered by how many words they have. In
every other draw each of its topics is matched with the one that shares most words with it (one to
one, so that they share as many as can be in all); components and shares of documents are means over
draws in which a topic has a match, and ``presence`` says how much of it is matched: the mean over
draws of the words that both have over the words that either has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from thali.results.fit import Fit
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping


class TopicAnswer(NamedTuple):
    """The draw that stands for all, and means over draws by its topics."""

    grouping: Grouping
    counts: np.ndarray  # (K, V) words of each topic, a mean over draws
    documents: np.ndarray  # (D, K) words of each document by topic, a mean over draws
    presence: np.ndarray  # (K,)
    loss: float


def answer(fit: Fit, words: np.ndarray) -> TopicAnswer:
    """The answer of a fit to documents of these words (−1: hidden)."""
    picked = fit.pick(fit.representatives(GROUPED_PARTITIONS.draws_to_use(fit.data.n, 1)))
    draws = [draw.latent for draw in picked]
    log_joints = np.array([draw.scalars["log_joint"] for draw in picked])
    estimate = GROUPED_PARTITIONS.point_estimate(draws, log_joints)
    chosen = by_size(estimate.latent)
    labels, k = chosen.topic_of_word, chosen.n_topics
    document, seen = chosen.document, words >= 0
    counts, documents = np.zeros((k, fit.data.d)), np.zeros((fit.data.n, k))
    presence, matched = np.zeros(k), np.zeros(k)
    for draw in draws:
        place, overlap = matching(labels, k, draw)
        presence += overlap
        matched[place[place >= 0]] += 1.0
        other = place[draw.topic_of_word]
        use = (other >= 0) & seen
        np.add.at(counts, (other[use], words[use]), 1.0)
        use = other >= 0
        np.add.at(documents, (document[use], other[use]), 1.0)
    matched = np.maximum(matched, 1.0)
    return TopicAnswer(
        chosen,
        counts / matched[:, None],
        documents / matched,
        presence / len(draws),
        estimate.loss,
    )


def matching(labels: np.ndarray, k: int, draw: Grouping) -> tuple[np.ndarray, np.ndarray]:
    """Topics of a draw by those of the answer, which words have by ``labels``.

    The topic of the answer for each of the draw's, or −1, and of each of the k in the answer the
    words that both have over those that either has.
    """
    together = np.zeros((k, draw.n_topics), np.int64)
    np.add.at(together, (labels, draw.topic_of_word), 1)
    rows, columns = linear_sum_assignment(-together)
    either = together.sum(axis=1)[rows] + together.sum(axis=0)[columns]
    both = together[rows, columns]
    place, overlap = np.full(draw.n_topics, -1), np.zeros(k)
    overlap[rows] = both / (either - both)
    some = both > 0
    place[columns[some]] = rows[some]
    return place, overlap


def by_size(latent: Grouping) -> Grouping:
    """The same with topics in the order of how many words they have, the most first."""
    sizes = np.bincount(latent.topic_of_word, minlength=latent.n_topics)
    order = np.argsort(-sizes, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    dummies = latent.dummies
    if len(dummies):
        dummies = np.concatenate([dummies[: len(order)][order], dummies[len(order) :]])
    return latent._replace(topic=place[latent.topic], dummies=dummies)
