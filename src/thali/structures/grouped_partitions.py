r"""Grouped partitions: words in groups within documents, and groups in topics across them.

Only words of one document share a group; groups of all documents share topics, which have no names.
A value numbers the groups of each document by their first words, and topics by the first groups
that they have (canonical). Where a prior over topics is not consistent it tells of M places, of
which some have no group: these are counted by topic, topics without any group being last.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from thali.structures.base import PointEstimate, Structure
from thali.structures.partition_losses import binder


class Grouping(NamedTuple):
    """The group of every word, the topic of every group."""

    lengths: np.ndarray  # (D,) words of each document
    group: np.ndarray  # (N,) of each word, from 0 in each document
    topic: np.ndarray  # (G,) of each group, document after document
    dummies: np.ndarray  # places without a group, by topic; none where there are no slots

    @property
    def first(self) -> np.ndarray:
        """Where the words of each document begin, (D + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def groups_of(self) -> np.ndarray:
        """How many groups each document has, (D,)."""
        found, some = np.zeros(len(self.lengths), np.int32), self.lengths > 0
        if some.any():
            found[some] = np.maximum.reduceat(self.group, self.first[:-1][some]) + 1
        return found

    @property
    def document(self) -> np.ndarray:
        """The document of each word, (N,)."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @property
    def group_in_all(self) -> np.ndarray:
        """The group of each word, numbered through all documents, (N,)."""
        groups_of = self.groups_of
        before = (np.cumsum(groups_of) - groups_of).astype(np.int32)
        return np.asarray(np.repeat(before, self.lengths) + self.group)

    @property
    def topic_of_word(self) -> np.ndarray:
        """The topic of each word, (N,)."""
        from thali.kernels.groupings import topics_of_words

        return np.asarray(topics_of_words(self.lengths, self.group, self.topic))

    @property
    def n_topics(self) -> int:
        """How many topics have a group."""
        return int(self.topic.max()) + 1 if len(self.topic) else 0


class GroupingCounts(NamedTuple):
    """All that an exchangeable prior sees: sizes of groups, how many documents and topics have."""

    lengths: np.ndarray  # (D,)
    sizes: np.ndarray  # (G,) words of each group
    groups_of: np.ndarray  # (D,) groups of each document
    topics: np.ndarray  # (K,) groups of each topic, then 0 for topics of dummies alone
    dummies: np.ndarray  # the same of places without a group; none where there are no slots


class GroupedPartitions(Structure[Grouping]):
    """Words in groups, groups in topics."""

    name = "grouped partitions"
    component = "topic"
    answer = "grouping_"

    def n_components(self, latent: Grouping) -> int:
        return latent.n_topics

    def empty(self, n: int) -> Grouping:
        """Nothing known of n documents: an engine knows how many words they have."""
        none = np.zeros(0, np.int32)
        return Grouping(np.zeros(n, np.int32), none, none, none)

    def canonical(self, latent: Grouping) -> Grouping:
        from thali.kernels.groupings import in_order

        group, topic, order = in_order(latent.lengths, latent.group, latent.topic)
        dummies = latent.dummies
        if len(dummies):
            others = np.setdiff1d(np.arange(len(dummies)), order)
            others = others[np.argsort(-dummies[others], kind="stable")]
            dummies = dummies[np.append(order, others)]
        return Grouping(latent.lengths, group, topic, dummies)

    def counts(self, latent: Grouping) -> GroupingCounts:
        sizes = np.bincount(latent.group_in_all, minlength=len(latent.topic))
        most = max(latent.n_topics, len(latent.dummies))
        topics = np.bincount(latent.topic, minlength=most)
        return GroupingCounts(latent.lengths, sizes, latent.groups_of, topics, latent.dummies)

    def check(self, owner: str, given: object, n: int | None = None) -> Grouping:
        if not isinstance(given, Grouping):
            raise ValueError(
                f"{owner}: init must be the name of a start or a fitted TopicModel; it is of type "
                f"{type(given).__name__}."
            )
        if n is not None and len(given.lengths) != n:
            raise ValueError(
                f"{owner}: init was fitted to {len(given.lengths)} documents, and there are {n}."
            )
        return self.canonical(given)

    # many values

    def pack(self, latent: Grouping) -> np.ndarray:
        """One array of bytes: lengths of its parts and their types, then each in little space."""
        parts = [part.astype(np.min_scalar_type(int(part.max(initial=0)))) for part in latent]
        head = np.array([[len(part), part.itemsize] for part in parts], np.int64)
        return np.concatenate(
            [head.view(np.uint8).ravel(), *(part.view(np.uint8) for part in parts)]
        )

    def unpack(self, packed: np.ndarray, n: int) -> Grouping:
        raw = np.ascontiguousarray(packed).view(np.uint8)
        fields = len(Grouping._fields)
        head = np.frombuffer(raw[: fields * 16].tobytes(), np.int64).reshape(fields, 2)
        found, at = [], fields * 16
        for length, width in head.tolist():
            part = np.frombuffer(raw[at : at + length * width].tobytes(), np.dtype(f"u{width}"))
            found.append(part.astype(np.int32))
            at += length * width
        if at != len(raw):
            raise ValueError("a draw of groups has not the length that it says")
        value = Grouping(*found)
        whole = int(value.lengths.sum()) == len(value.group)
        if not whole or int(value.groups_of.sum()) != len(value.topic):
            raise ValueError("a draw of groups has other words or groups than it says")
        return value

    def join(self, packed: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        ends = np.cumsum([len(each) for each in packed], dtype=np.int64)
        together = np.concatenate([np.zeros(0, np.uint8), *packed])
        return {"groupings": together, "ends": ends}

    def split(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        parts = np.split(arrays["groupings"], arrays["ends"])
        return parts[: len(arrays["ends"])]

    def point_estimate(
        self, draws: Sequence[Grouping], log_joints: np.ndarray
    ) -> PointEstimate[Grouping]:
        """The draw whose topics of words differ least from those of the others."""
        best, loss = nearest([draw.topic_of_word for draw in draws])
        return PointEstimate(draws[best], np.zeros(0), loss)

    def draws_to_use(self, n: int, k: int) -> int:
        return 20

    # a search among values

    def distance(self, a: Grouping, b: Grouping) -> float:
        """Pairs of words that share a topic in one and not in the other."""
        return binder(a.topic_of_word, b.topic_of_word)

    def changed(self, rng: np.random.Generator, latent: Grouping, capacity: int) -> Grouping:
        """Two topics become one."""
        k = latent.n_topics
        if k < 2:
            return latent
        one, two = rng.choice(k, 2, replace=False)
        topic = np.where(latent.topic == two, one, latent.topic)
        return self.canonical(latent._replace(topic=topic))


def nearest(labels: Sequence[np.ndarray]) -> tuple[int, float]:
    """Of topics of words in several draws, those that differ least from the others, and by how
    much: pairs of words that share a topic in one and not in the other."""
    from thali.kernels.groupings import tally_pairs

    most = [int(own.max(initial=0)) + 1 for own in labels]
    together = np.zeros((len(labels), len(labels)))
    for i, one in enumerate(labels):
        for j in range(i + 1):
            found = tally_pairs(one, labels[j], most[i], most[j]).astype(float)
            together[i, j] = together[j, i] = np.square(found).sum()
    own = np.diag(together)
    losses = (0.5 * (own[:, None] + own) - together).mean(axis=1)
    best = int(np.argmin(losses))
    return best, float(losses[best])


GROUPED_PARTITIONS = GroupedPartitions()
