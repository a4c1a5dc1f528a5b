"""Words in groups, groups in topics: sums over all ways to put them together."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from scipy.special import gammaln, logsumexp

from thali.structures.labels import all_partitions, canonical_labels


def log_topic(counts: np.ndarray, beta: float) -> float:
    """log P of a topic's words, its probabilities integrated out."""
    total, v = counts.sum(), len(counts)
    each = gammaln(counts + beta) - gammaln(beta)
    return float(each.sum() + gammaln(v * beta) - gammaln(total + v * beta))


def log_topics(prior, labels: tuple[int, ...], places: int) -> float:
    """log P that groups have these topics: of the first of ``places`` where there are any."""
    if not places:
        return prior.log_prob(np.array(labels))
    return logsumexp(
        [value for first, value in all_places(prior, places, len(labels)) if first == labels]
        or [-np.inf]
    )


@cache
def all_places(prior, places: int, n: int) -> list[tuple[tuple[int, ...], float]]:
    """Every partition of the places: what it is on the first n, and its log probability."""
    found = []
    for labels in all_partitions(places):
        own = np.array(labels)
        found.append((tuple(own[:n].tolist()), prior.log_prob(own)))
    return found


def all_groupings(documents, bottom, top, beta, vocabulary, places=0):
    """Every (group of each word, topic of each group), and its log joint; −1 is a hidden word."""
    flat = np.concatenate(documents)
    for groupings in product(*(list(all_partitions(len(d))) for d in documents)):
        labels, groups, log_prior = [], 0, 0.0
        for own in groupings:
            own = np.array(own)
            log_prior += bottom.log_prob(own)
            labels.append(own + groups)
            groups += int(own.max()) + 1
        if places and groups > places:
            continue
        of_words = np.concatenate(labels)
        for topics in all_partitions(groups):
            value = log_prior + log_topics(top, tuple(topics), places)
            each = np.array(topics)[of_words]
            for t in range(max(topics) + 1):
                seen = flat[(each == t) & (flat >= 0)]
                value += log_topic(np.bincount(seen, minlength=vocabulary), beta)
            yield of_words, each, value


def law_of_topics(
    documents, bottom, top, beta, vocabulary, places=0
) -> dict[tuple[int, ...], float]:
    """The probability of each partition of all words by topic."""
    found: dict[tuple[int, ...], list[float]] = {}
    for _, each, value in all_groupings(documents, bottom, top, beta, vocabulary, places):
        found.setdefault(tuple(canonical_labels(each).tolist()), []).append(value)
    law = {key: float(logsumexp(values)) for key, values in found.items()}
    total = logsumexp(list(law.values()))
    return {key: float(np.exp(value - total)) for key, value in law.items()}
