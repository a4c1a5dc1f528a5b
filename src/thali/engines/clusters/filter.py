r"""Particle filtering of partitions: the rows one by one, in many weighted particles.

A particle is a partition of the rows so far, the clusters' parameters integrated out. The label of
the next row is drawn given the row, and the particle weighted by how probable the row was
(``kernels/cluster_particles.py``); where the effective size 1/ΣW² falls below a share of the
particles, they are drawn again by their weights. The average weights multiply to an unbiased
estimate of the evidence P(X).

Hyperparameters with hyperpriors are each particle's own: draws from these at the beginning, and
moved by a step that leaves their posterior given the rows so far invariant, after a resampling,
each time the rows have become a tenth more: a step of a likelihood's looks at all rows so far.
"""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np

from thali.data import Data
from thali.engines.base import Info, Population, inferred
from thali.engines.clusters import gibbs
from thali.engines.clusters.particles import (
    Ancestry,
    Draws,
    FilterState,
    new_state,
    refuse_too_many,
)
from thali.engines.collapsed_gibbs import CollapsedGibbs
from thali.likelihoods.clusters import ConjugateClusters
from thali.model import Model
from thali.priors.pitman_yor import DirichletProcess
from thali.starts import Start
from thali.structures.partitions import PARTITIONS, PartitionCounts

A_CALL = 5_000_000  # densities of columns of one call of compiled code
GROWTH = 10  # hyperparameters move where rows have grown by one in so many
FEWEST = 20  # particles with which a filter that was stopped goes through the remaining rows
A_MOMENT = 0.1  # seconds for which it does
CODED = 5  # particles that are left where the rest of the rows is put to clusters all at once


def begin(
    rng: np.random.Generator, model: Model, data: Data, start: Start, count: int
) -> FilterState:
    """Particles without rows, their hyperparameters drawn."""
    refuse_too_many(model, data, start.hyper, count)
    hyper = {name: np.full(count, float(value)) for name, value in start.hyper.items()}
    for name, hyperprior in model.hyperpriors.items():
        hyper[name] = np.array([hyperprior.sample(rng) for _ in range(count)])
    return new_state(model, data, hyper, count)


# ---- rows -------------------------------------------------------------------------------------


def take_rows(
    rng: np.random.Generator, state: FilterState, most: int, below: float, informed: bool, last: int
) -> list[Info]:
    """At least one row and at most so many; particles are not resampled after row ``last``."""
    from thali.kernels import cluster_particles as kernel

    if int(state.particles.k.max()) + 2 > state.room:
        state.widen()
    columns = (int(state.particles.k.max()) + 2) * state.data.d
    rows = min(most, state.data.n - state.row, max(1, A_CALL // (state.count * columns)))
    labels, told = np.zeros((rows, state.count), np.int32), np.zeros((rows, 3))
    plan = kernel.Plan(below * state.count, last, informed)
    first = state.row
    state.row, gained, why = kernel.take_rows(
        rng, state.groups, state.laws, state.particles, first, plan, labels, told
    )
    if why == kernel.LOST:
        raise ValueError(
            f"Row {state.row} is so far from what the particles can make that none of them has any "
            "weight left; give hyperpriors nearer to the data, or look at that row."
        )
    state.log_evidence += gained
    made = state.row - first
    state.ancestry.record(labels[:made], state.room)
    infos = [state.describe(int(p), k, joint) for k, joint, p in told[:made]]
    if why == kernel.RESAMPLE:
        state.resample(rng)
        if state.row >= state.moved + max(1, state.moved // GROWTH):
            move(rng, state)
    return infos


def move(rng: np.random.Generator, state: FilterState) -> None:
    """A step of every inferred hyperparameter of every particle, given the rows so far."""
    from thali.kernels.cluster_particles import refill

    model, particles, state.moved = state.model, state.particles, state.row
    if not model.hyperpriors:
        return
    likelihood = cast(ConjugateClusters, model.likelihood)
    seen, scales = state.data.rows(slice(state.row)), bool(inferred(likelihood))
    labels = state.ancestry.labels(state.count) if scales else None
    before = log_priors(state)
    sizes = particles.sizes.reshape(state.count, state.room)
    for p in range(state.count):  # microseconds each, and only now and then
        hyper = state.numbers(p)
        counts = PartitionCounts(state.row, sizes[p, : particles.k[p]])
        model.prior.resample(rng, model.prior_values(hyper), counts)
        if labels is not None:
            likelihood.resample(rng, model.likelihood_values(hyper), seen, labels[p])
        for name, value in hyper.items():
            state.hyper[name][p] = value
    state.renew_laws()
    after = log_priors(state)
    if labels is None:
        particles.log_joints[:] += after - before
    else:
        evidence = refill(state.groups, state.laws, particles, labels)
        particles.log_joints[:] = after + evidence


def log_priors(state: FilterState) -> np.ndarray:
    """log P(partition) of the rows so far in each particle."""
    sizes = state.particles.sizes.reshape(state.count, state.room)
    found = np.zeros(state.count)
    for p, k in enumerate(state.particles.k):
        counts = PartitionCounts(state.row, sizes[p, :k])
        found[p] = state.model.prior_at(state.numbers(p)).log_prob_counts(counts)
    return found


# ---- passes -----------------------------------------------------------------------------------


def rejuvenate(rng: np.random.Generator, state: FilterState) -> Info:
    """One collapsed Gibbs sweep of every particle, hyperparameters included."""
    engine, draws = CollapsedGibbs(sweeps=1, chains=1), drawn(rng, state)
    for p, labels in enumerate(draws.labels):
        start = Start("particle", labels[: state.data.n], state.numbers(p))
        at = engine.begin(rng, state.model, state.data, start)
        info = engine.step(rng, state.model, state.data, at)
        draws.labels[p], draws.log_joints[p] = at.latent, info.log_joint
        for name, value in info.hyper.items():
            state.hyper[name][p] = value
    heaviest = int(state.particles.log_weights.argmax())
    k = PARTITIONS.n_components(draws.labels[heaviest])
    return state.describe(heaviest, k, draws.log_joints[heaviest])


def drawn(rng: np.random.Generator, state: FilterState) -> Draws:
    """The population as draws; labels of rows to come are drawn from the prior."""
    if state.draws is None:
        labels, joints = list(state.ancestry.labels(state.count)), state.particles.log_joints
        total = state.data.n + state.data.future
        if state.data.future:
            for p, own in enumerate(labels):
                hyper = state.numbers(p)
                labels[p] = gibbs.with_future(rng, state.model, hyper, own, total)
                prior = state.model.prior_at(hyper)
                joints[p] += prior.log_prob(labels[p]) - prior.log_prob(own)
        state.draws = Draws(labels, joints.copy())
        state.ancestry = Ancestry()
    return state.draws


# ---- the end ----------------------------------------------------------------------------------


def population(
    rng: np.random.Generator, state: FilterState, settings: tuple[Any, ...]
) -> Population:
    """The weighted draws; a filter stopped early goes on with a few particles first."""
    n = state.data.n
    if state.row < n:
        state.shrink(rng, min(FEWEST, state.count))
        until = time.monotonic() + A_MOMENT
        while state.row < n and time.monotonic() < until:
            take_rows(rng, state, n, *settings)
    if state.row < n:
        state.shrink(rng, min(CODED, state.count))
        code_the_rest(state)
    draws, weights = drawn(rng, state), np.exp(state.particles.log_weights)
    k = [PARTITIONS.n_components(labels) for labels in draws.labels]
    scalars = np.column_stack([k, draws.log_joints, *state.hyper.values()])
    packed = [PARTITIONS.pack(labels) for labels in draws.labels]
    return Population(weights, scalars, packed, state.log_evidence)


def code_the_rest(state: FilterState) -> None:
    """Put the rows to come to their most probable clusters, all at once; nothing estimates P(X)."""
    from thali.kernels.cluster_particles import most_probable, refill

    labels = np.zeros((state.count, state.data.n - state.row), np.int64)
    most_probable(state.groups, state.laws, state.particles, state.row, labels)
    state.ancestry.record(np.ascontiguousarray(labels.T), state.room)
    state.row, state.log_evidence = state.data.n, float("nan")
    whole = state.ancestry.labels(state.count)
    evidence = refill(state.groups, state.laws, state.particles, whole)
    state.particles.log_joints[:] = log_priors(state) + evidence


# ---- files ------------------------------------------------------------------------------------


def to_arrays(state: FilterState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The state as arrays and plain values; statistics follow from the labels, to the last bit,
    as rows are added in the same order."""
    arrays = {f"hyper_{name}": values.copy() for name, values in state.hyper.items()}
    arrays["log_weights"] = state.particles.log_weights.copy()
    draws = state.draws
    if draws is None:
        arrays["labels"] = state.ancestry.labels(state.count)
        arrays["log_joints"] = state.particles.log_joints.copy()
    else:
        arrays["labels"], arrays["log_joints"] = np.array(draws.labels), draws.log_joints.copy()
    numbers = {"row": state.row, "moved": state.moved, "log_evidence": state.log_evidence}
    return arrays, numbers | {"drawn": draws is not None}


def from_arrays(
    model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
) -> FilterState:
    """The state that ``to_arrays`` saved."""
    from thali.kernels.cluster_particles import refill

    hyper = {k.removeprefix("hyper_"): v for k, v in arrays.items() if k.startswith("hyper_")}
    state = new_state(model, data, hyper, len(arrays["log_weights"]))
    labels, joints, state.row = arrays["labels"], arrays["log_joints"], numbers["row"]
    state.moved, state.log_evidence = numbers["moved"], numbers["log_evidence"]
    state.particles.log_weights[:] = arrays["log_weights"]
    if numbers["drawn"]:
        state.draws = Draws(list(labels), joints)
        return state
    state.particles.k[:] = labels.max(axis=1, initial=-1) + 1
    state.widen()
    refill(state.groups, state.laws, state.particles, labels)
    state.particles.log_joints[:] = joints
    state.ancestry.record(np.ascontiguousarray(labels.T), state.room)
    return state


def rehearse(model: Model) -> None:
    """Call the kernel of rows on next to nothing, so that it is compiled; with a likelihood of the
    same class, as one that is resolved belongs to its own columns."""
    data, rng = Data.of(np.array([[0.0, 1.0], [1.0, 0.0]])), np.random.default_rng(0)
    own = Model(DirichletProcess(alpha=1.0), type(model.likelihood)().resolve(data))
    state = begin(rng, own, data, Start("rehearsal", np.zeros(2, np.int64), own.start(data)), 2)
    take_rows(rng, state, 2, 0.0, True, 2)
