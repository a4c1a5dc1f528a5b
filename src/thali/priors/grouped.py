r"""Priors over grouped partitions: one over the words of each document, one over all groups.

    words of document j in groups   ~ ``groups``, a prior over partitions of n_j
    groups of all documents         ~ ``topics``, a prior over partitions of M places

(Welling and others 2012, section IV). Where ``topics`` is consistent, places that no group has make
no difference, and there are as many as groups. Else M is a setting, ``slots``: groups take places
at random, without replacement, and the others are dummies. What is counted of these is how many
each topic has, so that with L groups and d_t dummies in topic t

    P(value) = ∏_j P(groups of j) · P(sizes of topics, dummies included) (M − L)!/∏ d_t! / ∏ r!,

r being how many topics of dummies alone have the same size. Values with more groups than places
have no probability: where M is less than the number of words these probabilities sum to less than
one, by as much as ``groups`` gives to such values.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from thali.hyperparameters import (
    Hyperprior,
    Value,
    Values,
    slice_step,
    slice_step_of_probability,
    slice_step_of_real,
)
from thali.priors.base import Prior
from thali.priors.linear_partition import LinearPartition
from thali.priors.partition import ConsistentPartition, PredictsLabel
from thali.settings import Label, hyperparameters_of, shown
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping, GroupingCounts
from thali.structures.partitions import PARTITIONS, PartitionCounts

PARTS = ("groups", "topics")
STEEPEST = 500.0  # between potentials of neighbouring sizes: beyond it weights are no numbers
WIDTH = 1.0  # of the first guess of a slice


class GroupedTables(NamedTuple):
    """Both levels as a sampler reads them: weights of words, and what topics are worth."""

    join: np.ndarray  # by how many others a group has; 0 for none
    open: np.ndarray  # by how many other groups the document has
    mass: float  # of a consistent prior over topics,
    discount: float
    slots: int  # or how many places there are,
    potentials: np.ndarray  # and λ_0 … λ_M


class GroupedPrior(Prior):
    """A prior over words in groups, and groups in topics."""

    structure = GROUPED_PARTITIONS

    @property
    @abstractmethod
    def of_groups(self) -> PredictsLabel:
        """The prior of the words of each document."""

    @property
    @abstractmethod
    def of_topics(self) -> PredictsLabel:
        """The prior of all groups."""

    @property
    def places(self) -> int:
        """M, where the prior over topics is not consistent; else 0."""
        return 0

    @abstractmethod
    def values_of(self, part: str, hyper: Values) -> Values:
        """The hyperparameters of "groups" or "topics" by their own names; writing to them writes
        to ``hyper``."""

    def check_documents(self, lengths: np.ndarray) -> None:
        """Refuse documents that the prior has no say about."""

    def tables(self, longest: int) -> GroupedTables:
        """For documents of up to so many words; hyperparameters are numbers."""
        longest = max(longest, 1)
        found = self.of_groups.tables(longest)
        for logs in (found.join[1:], found.open):
            if not (np.abs(logs) < STEEPEST).all():
                raise ValueError(
                    f"{type(self.of_groups).__name__}: potentials of groups of words must not "
                    f"change by more than {STEEPEST:g} from one size to the next, nor be infinite; "
                    "use a smaller number for sizes that are not wanted."
                )
        join = np.append(0.0, np.exp(found.join[1:]))
        join = np.append(join, join[-1])  # of all words of a document, which none can join
        topics, none = self.of_topics, np.zeros(1)
        if isinstance(topics, ConsistentPartition):
            mass, discount = (float(x) for x in topics.mass_and_discount(topics.start()))
            return GroupedTables(join, np.exp(found.open), mass, discount, 0, none)
        top = topics.tables(self.places)
        potentials = np.cumsum(np.concatenate([[0.0, top.open[0]], top.join[1:]]))
        return GroupedTables(join, np.exp(found.open), 0.0, 0.0, self.places, potentials)

    def log_prob_counts(self, counts: GroupingCounts) -> float:
        found = log_prob_of_documents(self.of_groups, counts)
        if not self.places:
            sizes = counts.topics[counts.topics > 0]
            own = PartitionCounts(int(sizes.sum()), sizes)
            return found + (self.of_topics.log_prob_counts(own) if len(sizes) else 0.0)
        dummies = counts.dummies if len(counts.dummies) else np.zeros_like(counts.topics)
        sizes = counts.topics + dummies
        if int(sizes.sum()) != self.places:
            return -np.inf
        found += self.of_topics.log_prob_counts(PartitionCounts(self.places, sizes))
        alone = dummies[counts.topics == 0]
        equal = np.unique(alone, return_counts=True)[1]
        found += gammaln(dummies.sum() + 1.0) - gammaln(dummies + 1.0).sum()
        return float(found - gammaln(equal + 1.0).sum())

    def start(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for part, prior in zip(PARTS, (self.of_groups, self.of_topics), strict=True):
            own = self.values_of(part, found)
            for name, value in prior.start().items():
                own[name] = value
        return found

    def sample(self, rng: np.random.Generator, n: Any) -> Grouping:
        """A draw; ``n`` has the number of words of each document."""
        lengths = np.atleast_1d(np.asarray(n)).astype(np.int32)
        drawn = {
            name: value.sample(rng) if isinstance(value, Hyperprior) else value
            for name, value in ((k, getattr(self, k)) for k in hyperparameters_of(self))
        }
        fixed = self.at(**{k: v for k, v in drawn.items() if v is not None})
        each = [fixed.of_groups.sample(rng, int(length)) for length in lengths if length]
        group = np.concatenate([np.zeros(0, np.int32), *each]).astype(np.int32)
        count = sum(int(labels.max()) + 1 for labels in each)
        none = np.zeros(0, np.int32)
        if not self.places:
            topic = fixed.of_topics.sample(rng, count) if count else none
            return GROUPED_PARTITIONS.canonical(
                Grouping(lengths, group, topic.astype(np.int32), none)
            )
        if count > self.places:  # such draws have no probability: another one
            return self.sample(rng, n)
        whole = fixed.of_topics.sample(rng, self.places)[rng.permutation(self.places)]
        topic, others = whole[:count], whole[count:]
        dummies = np.bincount(others, minlength=int(whole.max()) + 1)
        return GROUPED_PARTITIONS.canonical(
            Grouping(lengths, group, topic.astype(np.int32), dummies.astype(np.int32))
        )

    def resample(self, rng: np.random.Generator, hyper: Values, counts: GroupingCounts) -> None:
        self.resample_groups(rng, hyper, counts)
        sizes = counts.topics + counts.dummies if len(counts.dummies) else counts.topics
        sizes = sizes[sizes > 0]
        if len(sizes):
            own = PartitionCounts(int(sizes.sum()), sizes)
            self.of_topics.resample(rng, self.values_of("topics", hyper), own)

    def resample_groups(
        self, rng: np.random.Generator, hyper: Values, counts: GroupingCounts
    ) -> None:
        """The hyperparameters of ``groups`` given those of all documents, by slice steps."""
        prior, own = self.of_groups, self.values_of("groups", hyper)
        names = tuple(hyperparameters_of(prior))
        for name in names:
            hyperprior = getattr(prior, name)
            if not isinstance(hyperprior, Hyperprior):
                continue

            def log_density(value: float, name: str = name, law: Hyperprior = hyperprior) -> float:
                numbers = {k: own[k] for k in names} | {name: value}
                at = prior.at(**numbers)
                return law.log_density(value) + log_prob_of_documents(at, counts)

            step = slice_step
            if hyperprior.probability:
                step = slice_step_of_probability
            elif hyperprior.real:
                step = slice_step_of_real
            own[name] = step(rng, own[name], log_density, WIDTH)


def log_prob_of_documents(prior: PredictsLabel, counts: GroupingCounts) -> float:
    """Σ_j log P(groups of document j), hyperparameters being numbers.

    One table of normalizers serves documents of all lengths.
    """
    lengths, sizes = counts.lengths[counts.lengths > 0], counts.sizes
    if not len(lengths):
        return 0.0
    if isinstance(prior, ConsistentPartition):
        alpha, discount = (float(x) for x in prior.mass_and_discount(prior.start()))
        groups_of = counts.groups_of[counts.lengths > 0]
        opened = np.cumsum(np.log(alpha + discount * np.arange(1.0, groups_of.max() + 1.0)))
        found = np.append(0.0, opened)[groups_of - 1].sum()
        rows = np.bincount(lengths)
        n = np.flatnonzero(rows)
        steps = np.cumsum(np.log(alpha + np.arange(1.0, n[-1] + 1.0)))  # log (α + 1) ⋯ (α + i)
        found -= rows[n] @ np.append(0.0, steps)[n - 1]
        times = np.bincount(sizes)
        i = np.flatnonzero(times)
        return float(found + times[i] @ (gammaln(i - discount) - gammaln(1.0 - discount)))
    if isinstance(prior, LinearPartition):
        longest = int(lengths.max())
        own, sums = prior.potentials_for(longest), prior.log_sums(longest)
        return float(own[sizes - 1].sum() - sums[lengths].sum())
    raise TypeError(f"{type(prior).__name__} has no form that many documents can share.")


def check_level(owner: str, name: str, prior: object) -> None:
    """Refuse what is no prior over partitions that words, or groups, can be sampled by."""
    if not isinstance(prior, PredictsLabel) or prior.structure != PARTITIONS:
        raise TypeError(
            f"{owner}: {name} must be a prior over partitions such as thali.DirichletProcess() or "
            f"thali.SmoothPartition(), not {shown(prior)}."
        )
    if not prior.linear:
        raise ValueError(
            f"{owner}: {name} has features that are no sum over sizes, which words in groups "
            "cannot be sampled by; leave features away."
        )


def prefixed(part: str, labels: Mapping[str, Label]) -> dict[str, Label]:
    """The hyperparameters of one level by their names in the whole."""
    return {f"{part}_{name}": label for name, label in labels.items()}
