r"""Collapsed Gibbs sampling of a partition, the clusters' parameters integrated out.

A step is a few attempts at a split or a merger of whole clusters (``kernels.cluster_moves``), a
sweep over all rows, O(NK) densities, and then the hyperparameters: the prior's given the sizes of
clusters, the likelihood's given the partition, by slice steps. Then the statistics of clusters are
made afresh, so that what rounding left of a sweep goes no further.

Labels of rows to come (``data.future``) are sampled along; they have no density. Missing entries
are integrated out, or drawn anew at the end of a step where the likelihood can only do that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from thali.data import Augmented, Data
from thali.engines.base import Drawn, Info
from thali.hyperparameters import Values
from thali.likelihoods.clusters import ConjugateClusters, DrawsGaps, Groups
from thali.model import Model
from thali.priors.partition import PredictsLabel
from thali.priors.pitman_yor import DirichletProcess
from thali.starts import Start
from thali.structures.labels import canonical_labels
from thali.structures.partitions import PARTITIONS, PartitionTables

if TYPE_CHECKING:
    from thali.kernels.cluster_rows import Slots

SCANS = 1  # of Gibbs sampling restricted to the two sides of a split, before the last


@dataclass
class ClusterState:
    """What the next sweep needs: statistics by slot, the labels, and the hyperparameters."""

    data: Data  # those given, or ``Augmented`` by draws
    groups: Groups
    slots: Slots
    n_components: int
    hyper: Values
    alone: np.ndarray  # log p(x) of each row by itself
    sweep: int = 0
    drift: float = field(default=0.0)

    @property
    def latent(self) -> np.ndarray:
        """The labels in canonical form, those of rows to come too."""
        return canonical_labels(self.slots.labels)


def begin(rng: np.random.Generator, model: Model, data: Data, start: Start) -> ClusterState:
    """The state at a start: statistics made from its labels; rows to come are put by the prior."""
    labels = canonical_labels(np.asarray(start.latent))
    labels = with_future(rng, model, start.hyper, labels, data.n + data.future)
    prior = cast(PredictsLabel, model.prior_at(start.hyper))
    if prior.forbids(len(labels)) and prior.log_prob(labels) == -np.inf:
        labels = prior.sample(rng, len(labels))  # where a chain cannot be, it cannot begin
    at = data
    if data.observed is not None and isinstance(model.likelihood, DrawsGaps):
        at = Augmented(model.likelihood.guess(data).X.copy(), source=data)
    return state_of(model, at, labels, dict(start.hyper))


def with_future(
    rng: np.random.Generator, model: Model, hyper: Values, labels: np.ndarray, total: int
) -> np.ndarray:
    """Labels 0 … K − 1 with those of more rows, up to so many, drawn from the prior one by one."""
    n = len(labels)
    if n == total:
        return labels
    prior = cast(PredictsLabel, model.prior_at(hyper))
    found, sizes = np.append(labels, np.zeros(total - n, np.int64)), np.bincount(labels).tolist()
    for i in range(n, total):
        tables = prior.tables_beside(total, np.array(sizes))
        logs = np.append(tables.join[np.array(sizes)], tables.open[len(sizes)])
        weights = np.exp(logs - logs.max())
        k = int(rng.choice(len(weights), p=weights / weights.sum()))
        if k == len(sizes):
            sizes.append(0)
        sizes[k] += 1
        found[i] = k
    return found


def state_of(
    model: Model, data: Data, labels: np.ndarray, hyper: Values, sweep: int = 0
) -> ClusterState:
    """All that follows from labels and hyperparameters."""
    from thali.kernels.cluster_rows import Slots

    k, none = int(labels.max()) + 1, np.zeros(0, np.int64)
    slots = Slots(none, none, none, none, none)
    state = ClusterState(data, None, slots, k, hyper, np.zeros(data.n), sweep)
    afresh(model, state, labels.astype(np.int64), room_for(k))
    return state


def room_for(k: int) -> int:
    """Slots for K clusters, and for more of them."""
    return k + max(8, k // 2)


def afresh(model: Model, state: ClusterState, labels: np.ndarray, room: int) -> None:
    """Statistics by canonical labels, hyperparameters being as they are, with so many slots."""
    from thali.kernels.cluster_rows import Slots, fill, log_alone

    likelihood = cast(ConjugateClusters, model.likelihood_at(state.hyper))
    order, none = np.arange(room), np.zeros(room, np.int64)
    state.slots = Slots(labels, none, none.copy(), order, order.copy())
    state.groups = likelihood.groups(state.data, room)
    fill(state.groups, state.slots, state.data.n)
    log_alone(state.groups, room - 1, state.alone)


def step(
    rng: np.random.Generator,
    model: Model,
    data: Data,
    state: ClusterState,
    moves: int,
    keep: bool,
) -> Drawn:
    """Splits and mergers, one sweep, and one update of every inferred hyperparameter."""
    from thali.kernels.cluster_moves import swap_rows
    from thali.kernels.cluster_rows import in_order, log_marginals

    prior = cast(PredictsLabel, model.prior_at(state.hyper))
    if prior.linear:
        tables = prior.tables(len(state.slots.labels))
        if prior.forbids(len(state.slots.labels)):
            swap_rows(rng, state.groups, state.slots, data.n, len(state.slots.labels))
        split_and_merge(rng, model, state, tables, moves)
        sweep_rows(rng, model, state, tables)
    else:
        split_and_merge_near(rng, model, state, prior, moves)
        sweep_one_by_one(rng, model, state, prior)
    if isinstance(state.data, Augmented):
        fill_gaps(rng, model, state)
    before = log_marginals(state.groups, state.slots, state.n_components)
    labels, hyper = in_order(state.slots.labels, len(state.slots.sizes)), state.hyper
    counts = PARTITIONS.counts(labels)
    model.prior.resample(rng, model.prior_values(hyper), counts)
    same = dict(hyper)
    likelihood = cast(ConjugateClusters, model.likelihood)
    values = model.likelihood_values(hyper)
    own = canonical_labels(labels[: data.n]) if data.future else labels
    likelihood.resample(rng, values, state.data, own)
    afresh(model, state, labels, room_for(state.n_components))
    log_likelihood = log_marginals(state.groups, state.slots, state.n_components)
    drift = 0.0
    if dict(hyper) == same:  # the same sum, of statistics maintained and afresh
        drift = abs(before - log_likelihood) / max(1.0, abs(log_likelihood))
    state.sweep += 1
    log_prior = model.prior_at(hyper).log_prob_counts(counts)
    info = Info(len(counts.sizes), log_prior + log_likelihood, dict(hyper), drift)
    return Drawn(info, PARTITIONS.pack(labels) if keep else None, {})


def split_and_merge(
    rng: np.random.Generator,
    model: Model,
    state: ClusterState,
    tables: PartitionTables,
    moves: int,
) -> int:
    """So many attempts at a split or a merger; returns how many were accepted."""
    from thali.kernels.cluster_moves import split_or_merge

    if moves == 0:
        return 0
    make_room(model, state, moves)
    state.n_components, accepted = split_or_merge(
        *(rng, state.groups, state.slots, state.n_components, state.data.n),
        *(*tables, SCANS, moves),
    )
    return int(accepted)


def split_and_merge_near(
    rng: np.random.Generator, model: Model, state: ClusterState, prior: PredictsLabel, moves: int
) -> None:
    """The same where what a cluster is worth depends on the others.

    An attempt under the linear part of the prior leaves the posterior under that part as it is, and
    in balance; it is the proposal, accepted by what the whole prior gives beyond that part (Liu
    2001, section 5.5.1).
    """
    near = prior.linear_part()
    tables = near.tables(len(state.slots.labels))

    def beyond(labels: np.ndarray) -> float:
        counts = PARTITIONS.counts(labels)
        return prior.log_prob_counts(counts) - near.log_prob_counts(counts)

    for _ in range(moves):
        before = canonical_labels(state.slots.labels)
        if split_and_merge(rng, model, state, tables, 1):
            gain = beyond(canonical_labels(state.slots.labels)) - beyond(before)
            if np.log(1.0 - rng.random()) >= gain:
                state.n_components = int(before.max()) + 1
                afresh(model, state, before, room_for(state.n_components))


def level(model: Model, state: ClusterState, info: Info) -> float:
    """About the log of how much of the posterior is where a chain is.

    The log joint of one partition says nothing of how many there are like it: where clusters
    hardly differ there are very many, and all rows being alone is one. So to the log joint and the
    hyperparameters' own density (of their logarithms) the entropy of each row's label given all
    others is added, the sum of which is at most that of the partition.
    """
    from thali.kernels.cluster_rows import uncertainty

    found = info.log_joint
    for name, hyperprior in model.hyperpriors.items():
        found += hyperprior.log_density_of_log(info.hyper[name])
    prior = cast(PredictsLabel, model.prior_at(state.hyper))
    if prior.linear:
        tables = prior.tables(len(state.slots.labels))
        k = state.n_components
        found += uncertainty(state.groups, state.slots, k, state.alone, *tables)
    return float(found)


def make_room(model: Model, state: ClusterState, moves: int) -> None:
    """Slots for all that so many moves can lead to: a split that there is room for must be one that
    a merger can undo."""
    needed = min(state.n_components + moves, len(state.slots.labels)) + 2
    if needed > len(state.slots.sizes):
        afresh(model, state, canonical_labels(state.slots.labels), needed)


def sweep_rows(
    rng: np.random.Generator, model: Model, state: ClusterState, tables: PartitionTables
) -> None:
    """One pass over all labels; where clusters need more room than there is, it goes on with it."""
    from thali.kernels.cluster_rows import sweep

    first = 0
    while first < len(state.slots.labels):
        state.n_components, first = sweep(
            rng, state.groups, state.slots, state.n_components, state.alone, *tables, first
        )
        if first < len(state.slots.labels):
            labels = canonical_labels(state.slots.labels)
            afresh(model, state, labels, 2 * room_for(state.n_components))


def sweep_one_by_one(
    rng: np.random.Generator, model: Model, state: ClusterState, prior: PredictsLabel
) -> None:
    """One pass over all labels where every row asks the prior anew."""
    from thali.kernels.cluster_rows import visit_one

    n = len(state.slots.labels)
    for i in range(n):
        if state.n_components == len(state.slots.sizes):
            labels = canonical_labels(state.slots.labels)
            afresh(model, state, labels, 2 * room_for(state.n_components))
        sizes = state.slots.sizes.copy()
        sizes[state.slots.labels[i]] -= 1
        tables = prior.tables_beside(n, sizes[sizes > 0])
        state.n_components = int(
            visit_one(
                *(rng, state.groups, state.slots, state.n_components, state.alone),
                *(*tables, i),
            )
        )


def fill_gaps(rng: np.random.Generator, model: Model, state: ClusterState) -> None:
    """Missing entries drawn anew, and the data that they complete."""
    likelihood = cast(DrawsGaps, model.likelihood_at(state.hyper))
    observed = state.data.given.observed
    X = likelihood.redraw(rng, state.groups, state.slots, state.data, cast(np.ndarray, observed))
    state.data = Augmented(X, source=state.data.given)


def to_arrays(state: ClusterState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The state as arrays and plain values; all else is made afresh from them."""
    arrays = {"labels": canonical_labels(state.slots.labels)}
    if isinstance(state.data, Augmented):
        arrays["X"] = state.data.X
    return arrays, {"sweep": state.sweep, "hyper": dict(state.hyper)}


def from_arrays(
    model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
) -> ClusterState:
    """The state that ``to_arrays`` saved."""
    at = Augmented(arrays["X"], source=data) if "X" in arrays else data
    return state_of(model, at, arrays["labels"], dict(numbers["hyper"]), numbers["sweep"])


def rehearse(part: str, model: Model, missing: bool) -> None:
    """Call the kernels on next to nothing, so that they are compiled.

    With a likelihood of the same class: one that is resolved belongs to its own columns.
    """
    from thali.kernels.cluster_moves import split_or_merge
    from thali.kernels.cluster_rows import log_marginals

    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    if missing:
        X[0, 0] = np.nan
    data, rng = Data.of(X), np.random.default_rng(0)
    own = Model(DirichletProcess(alpha=1.0), type(model.likelihood)().resolve(data))
    state = begin(rng, own, data, Start(part, np.zeros(3, np.int64), own.start(data)))
    tables = PartitionTables(np.zeros(3), np.zeros(4))
    if part == "moves":
        split_or_merge(rng, state.groups, state.slots, 1, 3, *tables, SCANS, 0)
        return
    sweep_rows(rng, own, state, tables)
    if isinstance(state.data, Augmented):
        fill_gaps(rng, own, state)
    log_marginals(state.groups, state.slots, state.n_components)
