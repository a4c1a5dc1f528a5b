"""The particles of a filter: their arrays, weights, resampling, and what they become at the end.

Everything here works on a whole population; the rows themselves are the kernels' business, and
what a particle proposes and how its hyperparameters move is the engine's (``particle_filter``).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from thali.data import Data
from thali.engines.base import Info
from thali.engines.filtering.genealogy import Genealogy, settle, systematic
from thali.machine import cores, physical_memory
from thali.model import Model
from thali.structures.features import counts_from_gram


@dataclass
class Draws:
    """The population once all rows are seen: Z packed, numbers, log joints."""

    Z: list[np.ndarray]
    hyper: dict[str, np.ndarray]
    log_joints: np.ndarray


@dataclass
class State:
    """What the next row needs. ``particles`` are None once ``draws`` has taken their place."""

    particles: Any  # kernels.particle_rows.Particles
    hyper: dict[str, np.ndarray]  # (P,) each
    log_weights: np.ndarray  # (P,) normalized
    log_evidence: float
    row: int = 0
    genealogy: Genealogy = field(default_factory=Genealogy)
    draws: Draws | None = None
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(cores()))

    def in_blocks(self, work: Callable[[int, int], Any], size: int | None = None) -> list[Any]:
        """``work(first, last)`` over all particles, in threads; results in order."""
        count = len(self.log_weights)
        parts = max(1, min(2 * cores(), count // 32)) if size is None else -(-count // size)
        edges = np.linspace(0, count, parts + 1).astype(int)
        if size is not None:
            edges = np.minimum(np.arange(parts + 1) * size, count)
        if parts == 1 or cores() == 1:
            return [work(a, b) for a, b in pairwise(edges)]
        return list(self.pool.map(lambda ends: work(*ends), pairwise(edges)))


def log_sum(logs: np.ndarray) -> float:
    """log Σ e^x; −inf where there is nothing to sum (scipy's takes ten times as long)."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum())) if np.isfinite(top) else -np.inf


def seen(data: Data, n: int) -> Any:
    """The first n rows as the kernels of scales read them."""
    from thali.kernels.particle_scales import Seen

    return Seen(n, float(data.squares[:n].sum()), float(data.d))


def row_laws(model: Model, data: Data, state: State) -> Any:
    """Each particle's law of the next row."""
    from thali.kernels.particle_rows import RowNumbers

    law = model.prior.next_row(state.row + 1, model.prior_values(state.hyper))  # type: ignore[attr-defined]
    shape = state.log_weights.shape
    offset, rest, new_log_weight = (
        np.ascontiguousarray(np.broadcast_to(np.asarray(value, float), shape))
        for value in (law.offset, law.rest, law.new_log_weight)
    )
    scales = model.likelihood_values(state.hyper)
    sigma_x, sigma_a = scales["sigma_x"], scales["sigma_a"]
    capacity = int(law.capacity)
    return RowNumbers(offset, rest, new_log_weight, sigma_x, sigma_a, capacity, float(data.d))


# ---- particles --------------------------------------------------------------------------------


def empty_particles(count: int, cap: int, d: int) -> Any:
    """Particles without dishes, with room for ``cap``; refused where they would not fit."""
    from thali.kernels.particle_rows import Particles

    needed = 8 * count * (3 * cap * cap + cap * d)
    if needed > physical_memory() // 2:
        raise MemoryError(
            f"{count:,} particles of {cap:,} features need {needed / 2**30:,.0f} GB of memory, too "
            "much for this machine; use fewer particles, or look at sigma_a and alpha: a small "
            "sigma_a or a large alpha asks for many features."
        )
    square = (count, cap, cap)
    return Particles(
        np.zeros(count, np.int64),
        np.zeros((count, cap)),
        np.zeros(square),
        np.zeros((count, cap, d)),
        np.zeros(square),
        np.zeros(square),
        np.zeros(count),
    )


def no_proposals(particles: Any) -> Any:
    from thali.kernels.particle_rows import Proposals

    count, cap = particles.m.shape
    return Proposals(
        np.zeros((count, cap), np.uint8),
        np.zeros(count, np.int64),
        np.zeros((count, cap)),
        np.zeros(count),
    )


def make_room(state: State, proposals: Any) -> Any:
    """Arrays as wide as the proposals need, wider or (where far too wide) narrower."""
    old = state.particles
    lost = np.isnan(proposals.log_weight) & (state.log_weights > -np.inf)
    if lost.any():
        p = int(lost.argmax())
        raise FloatingPointError(
            f"The density of row {state.row} is not a number at sigma_x="
            f"{state.hyper['sigma_x'][p]:.3g}, sigma_a={state.hyper['sigma_a'][p]:.3g}; "
            "rescale the data, or give laws with less weight far from their scale."
        )
    alive = (proposals.log_weight > -np.inf) & (state.log_weights > -np.inf)
    proposals.log_weight[~alive] = -np.inf
    used = int(old.k.max())
    needed = max(used, int((old.k + proposals.new)[alive].max(initial=0)))
    cap = old.m.shape[1]
    if needed <= cap and not (cap > 16 and 3 * needed < cap):
        return proposals
    count, d = len(old.k), old.T.shape[2]
    new = empty_particles(count, needed + needed // 4 + 2, d)
    wide = no_proposals(new)
    new.k[:], new.lost[:] = old.k, old.lost
    for ours, theirs in ((old.m, new.m), (proposals.z, wide.z), (proposals.b, wide.b)):
        theirs[:, :used] = ours[:, :used]
    for ours, theirs in ((old.C, new.C), (old.S, new.S), (old.G, new.G)):
        theirs[:, :used, :used] = ours[:, :used, :used]
    new.T[:, :used] = old.T[:, :used]
    state.particles = new
    return wide._replace(new=proposals.new, log_weight=proposals.log_weight)


def weigh(state: State, log_weight: np.ndarray) -> None:
    """Multiply the weights; their average goes into the evidence."""
    state.log_weights = state.log_weights + log_weight
    total = log_sum(state.log_weights)
    if not np.isfinite(total):
        sigmas = ", ".join(f"{s}={np.median(state.hyper[s]):.3g}" for s in ("sigma_x", "sigma_a"))
        raise ValueError(
            f"Row {state.row - 1} is so far from what the particles can make (median {sigmas}) "
            "that none of them has any weight left; give larger scales, let them be inferred, or "
            "look at that row."
        )
    state.log_weights -= total
    state.log_evidence += float(total)


def resample(rng: np.random.Generator, state: State, weights: np.ndarray) -> None:
    """Systematic resampling: survivors stay, copies take the slots of the others."""
    from thali.kernels.particle_rows import copy_particles

    parents = settle(systematic(rng.random(), weights, len(weights)))
    targets = np.flatnonzero(parents != np.arange(len(parents)))
    copy_particles(state.particles, parents[targets], targets)
    for values in state.hyper.values():
        values[targets] = values[parents[targets]]
    state.genealogy.resampled(parents)
    state.log_weights = np.full(len(weights), -np.log(len(weights)))


def shrink(rng: np.random.Generator, state: State, size: int) -> None:
    """Resample to fewer particles."""
    counts = systematic(rng.random(), np.exp(state.log_weights), size)
    parents = np.repeat(np.arange(len(counts)), counts)
    state.particles = type(state.particles)(*(array[parents] for array in state.particles))
    state.hyper = {name: values[parents] for name, values in state.hyper.items()}
    if state.row:
        state.genealogy.follow(parents)
    state.log_weights = np.full(size, -np.log(size))


# ---- results ----------------------------------------------------------------------------------


def describe(model: Model, data: Data, state: State, p: int, drift: float) -> Info:
    """K, the log joint of the rows so far, and the numbers of one particle."""
    numbers = {name: float(values[p]) for name, values in state.hyper.items()}
    (evidence,) = evidences(model, data, state, p, p + 1)
    (log_joint,) = log_joints(model, state, np.array([p]), np.array([evidence]))
    return Info(int(state.particles.k[p]), log_joint, numbers, drift)


def evidences(model: Model, data: Data, state: State, first: int, last: int) -> np.ndarray:
    """log P(X | Z) of the rows so far for some particles."""
    from thali.kernels.particle_scales import log_evidences

    out = np.zeros(len(state.log_weights))
    scales = model.likelihood_values(state.hyper)
    sigmas = scales["sigma_x"], scales["sigma_a"]
    log_evidences(state.particles, seen(data, state.row), *sigmas, out, first, last)
    return out[first:last]


def log_joints(model: Model, state: State, slots: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Left-ordered log P([Z]) + log P(X | Z) of the rows so far, for some particles."""
    hyper = model.own_values("prior", state.hyper)
    prior, before = None, None
    found = evidence.astype(float)
    for i, p in enumerate(slots):
        numbers = tuple(float(values[p]) for values in hyper.values())
        if prior is None or numbers != before:
            prior, before = model.prior.at(**dict(zip(hyper, numbers, strict=True))), numbers
        k = state.particles.k[p]
        counts = counts_from_gram(state.row, state.particles.C[p, :k, :k])
        found[i] += prior.log_prob_counts(counts)
    return found


def drawn(model: Model, data: Data, state: State) -> Draws:
    """The population as draws, particles without weight left out; the arrays are let go."""
    slots = np.flatnonzero(state.log_weights > -np.inf)
    evidence = np.concatenate(state.in_blocks(lambda a, b: evidences(model, data, state, a, b)))
    joints = log_joints(model, state, slots, evidence[slots])
    Z = list(state.genealogy.matrices(state.particles.k, slots))
    state.log_weights = state.log_weights[slots]
    state.hyper = {name: values[slots] for name, values in state.hyper.items()}
    state.particles, state.genealogy = None, Genealogy()
    return Draws(Z, {name: values.copy() for name, values in state.hyper.items()}, joints)
