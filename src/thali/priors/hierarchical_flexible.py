r"""Flexible priors over words in groups, and groups in topics (Welling and others 2012, IV).

The sizes of groups within a document may follow any prior over partitions that is a product over
groups, so that few large ones, or no tiny ones, can be asked for; and so may the sizes of topics.
A document is no part of a longer one, so that nothing is lost where ``groups`` is not consistent.

Where ``topics`` is not consistent it tells of ``slots`` places, each of which a group may have.

The hyperparameters of ``groups`` are inferred along with the rest. They may also be brought to
where the data are most probable (``learning``), as in the paper: after every sweep (a, b, c) of
λ_i = a + b log Γ(i + c) takes a step along

    Σ_j (m_j − E[m | n_j]) · ∂λ,

with the exact expectation, or one after a few sweeps of the prior from where the words are.
"""

from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from scipy.special import digamma, gammaln

from thali.hyperparameters import Scope, Value, Values
from thali.priors.grouped import PARTS, GroupedPrior, check_level, prefixed
from thali.priors.learned_partition import LearnedPartition
from thali.priors.partition import PredictsLabel
from thali.priors.partition_sums import log_choose, sums_of
from thali.priors.pitman_yor import DirichletProcess
from thali.priors.smooth_partition import SmoothPartition
from thali.registry import PRIORS
from thali.settings import Label, Settings, check_settings, hyperparameters_of, setting
from thali.structures.grouped_partitions import GroupingCounts

LONGEST_STEP = 0.1  # of a, b or c at once
RATE = 0.5  # of a Newton step, by which they wander around their best
CONTRASTED = 2  # sweeps of the prior


@PRIORS.register("hierarchical_flexible")
@dataclass(frozen=True)
class HierarchicalFlexible(Settings, GroupedPrior):
    """Words in groups and groups in topics, each by a prior over partitions of one's own.

    Parameters
    ----------
    groups : prior over partitions, default SmoothPartition()
        Of the words of each document: ``FlexiblePartition``, ``SmoothPartition``,
        ``DirichletProcess``, ``PitmanYor``.
    topics : prior over partitions, default DirichletProcess()
        Of the groups of all documents.
    slots : int, optional
        How many places for groups ``topics`` tells of. Needed where it is not consistent, as all
        flexible ones; documents cannot have more groups than that in all. Log joints compare
        between models with as many places as words, or with the same number.
    learning : {"posterior", "exact", "contrastive"}, default "posterior"
        How a, b and c of a ``SmoothPartition`` of groups are found: with their uncertainty; or at
        their best, by steps along the exact gradient, or by contrastive divergence as in the paper.

    Examples
    --------
    >>> import thali
    >>> prior = HierarchicalFlexible(groups=thali.SmoothPartition(a=0.0, b=1.2, c=0.5))
    >>> sorted(prior.start())
    ['groups_a', 'groups_b', 'groups_c', 'topics_alpha']
    """

    groups: Any = setting(SmoothPartition(), help="Prior over the words of each document")
    topics: Any = setting(DirichletProcess(), help="Prior over the groups of all documents")
    slots: int | None = setting(
        None, help="Places for groups, where topics are not consistent", minimum=1, maximum=10**7
    )
    learning: str = setting(
        "posterior",
        help="How a, b and c of groups are found",
        choices=("posterior", "exact", "contrastive"),
    )

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_settings(self)
        for name in PARTS:
            check_level(owner, name, getattr(self, name))
        if isinstance(self.groups, LearnedPartition):
            raise ValueError(
                f"{owner}: LearnedPartition learns from one partition, not from many documents; "
                "use groups=thali.SmoothPartition() with learning='exact'."
            )
        if self.topics.consistent and self.slots is not None:
            raise ValueError(
                f"{owner}: slots={self.slots} means nothing where topics="
                f"{type(self.topics).__name__} is consistent; leave it away."
            )
        if not self.topics.consistent:
            if self.slots is None:
                raise ValueError(
                    f"{owner}: topics={type(self.topics).__name__} is not consistent: it tells of "
                    "a number of places for groups, which slots must give. Use at least a few "
                    "times as many as there are documents."
                )
            given = getattr(self.topics, "potentials", None)
            if given is not None and np.size(given) > 1 and np.size(given) < self.slots:
                raise ValueError(
                    f"{owner}: slots={self.slots} places need as many potentials of topics, which "
                    f"are {np.size(given)}."
                )
        if self.learning != "posterior" and not isinstance(self.groups, SmoothPartition):
            raise ValueError(
                f"{owner}: learning={self.learning!r} is of a SmoothPartition's a, b and c; groups "
                f"is {type(self.groups).__name__}. Use learning='posterior'."
            )

    def __getattr__(self, name: str) -> Any:
        """The hyperparameters of either level by their names here."""
        part, _, own = name.partition("_")
        if part in PARTS and own:
            prior = object.__getattribute__(self, part)
            if own in hyperparameters_of(prior):
                return getattr(prior, own)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def nested_hyperparameters(self) -> dict[str, Label]:
        """Those of both levels."""
        each = (prefixed(part, hyperparameters_of(getattr(self, part))) for part in PARTS)
        return {name: label for own in each for name, label in own.items()}

    @property
    def of_groups(self) -> PredictsLabel:
        return cast(PredictsLabel, self.groups)

    @property
    def of_topics(self) -> PredictsLabel:
        return cast(PredictsLabel, self.topics)

    @property
    def places(self) -> int:
        return 0 if self.slots is None else self.slots

    def values_of(self, part: str, hyper: Values) -> Values:
        own = hyperparameters_of(getattr(self, part))
        return Scope(hyper, {name: f"{part}_{name}" for name in own})

    def at(self, **numbers: Value) -> Self:
        changes = {}
        for part in PARTS:
            prior, prefix = getattr(self, part), f"{part}_"
            own = {k.removeprefix(prefix): v for k, v in numbers.items() if k.startswith(prefix)}
            changes[part] = prior.at(**own) if own else prior
        return self.replace(**changes)

    def check_documents(self, lengths: np.ndarray) -> None:
        documents = int((lengths > 0).sum())
        if self.slots is not None and self.slots < documents:
            raise ValueError(
                f"HierarchicalFlexible: slots={self.slots} are too few for {documents} documents, "
                "each of which has at least one group; use a few times as many."
            )
        given = getattr(self.groups, "potentials", None)
        if given is not None and 1 < np.size(given) < lengths.max(initial=0):
            raise ValueError(
                f"HierarchicalFlexible: the longest document has {lengths.max()} words, and groups "
                f"has potentials of up to {np.size(given)}; give as many, or use SmoothPartition."
            )

    def resample_groups(
        self, rng: np.random.Generator, hyper: Values, counts: GroupingCounts
    ) -> None:
        if self.learning == "posterior":
            super().resample_groups(rng, hyper, counts)
            return
        own = self.values_of("groups", hyper)
        prior = cast(SmoothPartition, self.groups).at(**{k: own[k] for k in ("a", "b", "c")})
        found = np.bincount(counts.sizes, minlength=int(counts.lengths.max(initial=1)) + 1)[1:]
        expected = (
            expected_over_documents(prior, counts.lengths)
            if self.learning == "exact"
            else relaxed_over_documents(rng, prior, counts)
        )
        i = np.arange(1.0, len(found) + 1.0)
        slopes = np.stack(
            [np.ones_like(i), gammaln(i + own["c"]), own["b"] * digamma(i + own["c"])]
        )
        # metric of Poisson counts: an approximate Newton step, whatever the size of the corpus
        metric = (slopes * expected) @ slopes.T + 1e-3 * np.eye(3) * max(expected.sum(), 1.0)
        step = RATE * np.linalg.solve(metric, slopes @ (found - expected))
        a, b, c = (
            own[k] + d
            for k, d in zip("abc", np.clip(step, -LONGEST_STEP, LONGEST_STEP), strict=True)
        )
        own["a"], own["b"], own["c"] = a, max(b, 1e-3), max(c, -0.95)


def expected_over_documents(prior: SmoothPartition, lengths: np.ndarray) -> np.ndarray:
    """Σ_j E[m_i | n_j], i = 1 … the longest: O(different lengths × the longest)."""
    longest = int(lengths.max(initial=1))
    own, found = prior.potentials_for(longest), np.zeros(longest)
    sums = sums_of(own.tobytes())
    for n, documents in zip(*np.unique(lengths[lengths > 0], return_counts=True), strict=True):
        i = np.arange(1, n + 1)
        found[:n] += documents * np.exp(log_choose(n, i) + own[:n] + sums[n - i] - sums[n])
    return found


def relaxed_over_documents(
    rng: np.random.Generator, prior: SmoothPartition, counts: GroupingCounts
) -> np.ndarray:
    """Size counts after a few sweeps of the prior in every document, from where its words are."""
    from thali.kernels.cluster_rows import prior_sweeps

    longest = int(counts.lengths.max(initial=1))
    tables, found = prior.tables(longest), np.zeros(longest + 1)
    ends = np.cumsum(counts.groups_of)
    for own in np.split(counts.sizes, ends[:-1]):
        if len(own):
            labels = np.repeat(np.arange(len(own)), own)
            sizes = prior_sweeps(rng, labels, tables.join, tables.open, CONTRASTED)
            found += np.bincount(sizes[sizes > 0], minlength=longest + 1)
    return found[1:]
