"""Where chains of topics begin: words over topics at random, one topic for all."""

from typing import cast

import numpy as np

from thali.data import Data
from thali.data.documents import lengths_of
from thali.model import Model
from thali.priors.grouped import GroupedPrior
from thali.starts.base import Start, start
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping

SCATTERED = 100  # topics that words are scattered over, fewer where there are few words
EACH, LEAST = 2000, 10  # words that each of them has then, and how many there are at least
FEWEST = 20  # words that a topic has in any case


def scattered(
    rng: np.random.Generator, lengths: np.ndarray, topics: int, places: int = 0
) -> Grouping:
    """Every word has one of so many topics at random, and one group for each in its document.

    Where there are ``places``, and too few for that, documents have one group each.
    """
    from thali.kernels.groupings import scatter

    lengths = lengths.astype(np.int32)
    group, topic = scatter(rng, lengths, topics, False)
    if places and len(topic) > places:
        group, topic = scatter(rng, lengths, topics, True)
    none = np.zeros(0, np.int32)
    if not places:
        return GROUPED_PARTITIONS.canonical(Grouping(lengths, group, topic, none))
    spread = rng.integers(0, topics, places - len(topic))
    dummies = np.bincount(spread, minlength=topics).astype(np.int32)
    used = np.union1d(topic, np.flatnonzero(dummies))
    place = np.searchsorted(used, topic).astype(np.int32)
    return GROUPED_PARTITIONS.canonical(Grouping(lengths, group, place, dummies[used]))


def with_places(rng: np.random.Generator, latent: Grouping, places: int) -> Grouping:
    """The same groups and topics where there are so many places: those that no group has go to
    topics at random."""
    groups, dummies = len(latent.topic), latent.dummies
    if not places:
        return latent._replace(dummies=np.zeros(0, np.int32))
    if len(dummies) and groups + int(dummies.sum()) == places:
        return latent
    if groups > places:
        raise ValueError(
            f"init has {groups} groups of words, and the prior slots={places} places for them; use "
            "more slots."
        )
    k = latent.n_topics
    spread = rng.multinomial(places - groups, np.full(k, 1.0 / k))
    return latent._replace(dummies=spread.astype(np.int32))


def begin_with(rng: np.random.Generator, model: Model, data: Data, name: str, topics: int) -> Start:
    """A start of so many topics."""
    prior, lengths = cast(GroupedPrior, model.prior), lengths_of(data)
    prior.check_documents(lengths)
    latent = scattered(rng, lengths, topics, prior.places)
    return Start(name, latent, model.start(data))


@start("scattered")
def scattered_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Words over many topics at random."""
    words = int(lengths_of(data).sum())
    topics = int(np.clip(words // EACH, LEAST, SCATTERED))
    return begin_with(rng, model, data, "scattered", int(np.clip(words // FEWEST, 1, topics)))


@start("one_topic")
def one_topic_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """All words in one topic, each document one group."""
    return begin_with(rng, model, data, "one_topic", 1)
