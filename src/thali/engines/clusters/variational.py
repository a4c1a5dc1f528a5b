r"""Variational inference of a partition: memoized passes over blocks of rows, mergers and splits.

    q = ∏_n q(c_n) · ∏_k Beta(v_k; τ_k) q(θ_k) · q(α)        (``soft_state.py``, ``sticks.py``)

A step is a pass over all blocks of rows, whose sums it replaces one after the other; then mergers
of clusters whose gain the pass has weighed; and where a pass gains little, splits
(``soft_moves.py``). Nothing lowers the bound, which is one of the evidence of the whole process:
q puts no row in clusters beyond those that it has, of which there are at most ``truncation``.

The likelihood's inferred hyperparameters (κ, s and others) are numbers, at which bound and log
hyperprior together are highest; so are those of a Pitman–Yor prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from thali.data import Data
from thali.engines.base import Info, Population
from thali.engines.clusters.soft_moves import agglomerated, candidates, merge, split
from thali.engines.clusters.soft_state import (
    PIECE,
    SoftClusters,
    hard_step,
    in_order,
    one_pass,
    softmax,
    state_of,
)
from thali.engines.clusters.sticks import MassLaw
from thali.hyperparameters import as_scalars
from thali.model import Model
from thali.starts import Start
from thali.stopping import stopped
from thali.structures.labels import canonical_labels
from thali.structures.partitions import PARTITIONS

AUTO = 50  # clusters at most, where nothing is said
START = "fine_kmeans"  # in place of a race: mergers and splits leave little to where one begins
DRAWS = 100  # of q, for what is averaged over it
DRAWN = 10**7  # labels in all of them
PROGRESS = ("iteration", "bound", "quiet", "finished")


def most_clusters(truncation: int | str, n: int) -> int:
    """How many clusters there may be."""
    return min(AUTO if isinstance(truncation, str) else truncation, n)


def begin(
    model: Model, data: Data, start: Start, truncation: int | str, threads: int, dtype: str
) -> SoftClusters:
    """q that belongs to the start's labels, its clusters merged while they are too many."""
    hyper, most = dict(start.hyper), most_clusters(truncation, data.n)
    state = state_of(model, data, hyper, most, threads, dtype)
    labels = canonical_labels(np.asarray(start.latent)[: data.n])
    k = int(labels.max()) + 1
    found = [hard_step(state, rows, labels, k) for rows in state.blocks]
    state.S = np.stack([each.S for each in found])
    state.H = np.zeros(state.S.shape[:2])
    state.update_scales()
    agglomerated(state, most)
    state.update_sticks()
    in_order(state)  # the bound of hard labels is not compared with any other
    state.bound = -np.inf
    return state


def step(rng: np.random.Generator, state: SoftClusters, tol: float) -> Info:
    """One pass with mergers; splits where it gained little, and the end where they do not."""
    if not state.finished:
        before, k = state.bound, state.k
        pairs = candidates(state)
        entropies = one_pass(state, pairs)
        if entropies is not None and pairs:
            merge(state, pairs, entropies)
        in_order(state)
        state.iteration += 1
        if state.k == k and state.bound - before <= negligible(state, tol) and not stopped():
            state.finished = not split(state, rng) and not stopped()
    used = int((state.counts > 0.5).sum())
    return Info(used, state.bound, dict(state.hyper), 0.0)


def negligible(state: SoftClusters, tol: float) -> float:
    """A gain of the bound that does not count."""
    return tol * max(abs(state.bound), float(state.data.n * state.data.d))


# ---- ending -----------------------------------------------------------------------------------


def responsibilities(state: SoftClusters) -> Iterator[tuple[slice, np.ndarray]]:
    """r given all else, (K, n), piece by piece."""
    W, n = state.given(), state.data.n
    for first in range(0, n, PIECE):
        rows = slice(first, min(first + PIECE, n))
        yield rows, softmax(W @ state.family.features(state.data.rows(rows)))[0]


def params(state: SoftClusters) -> dict[str, np.ndarray]:
    """The parameters of q, clusters in the order of the labels' sizes; and of each row the most
    probable cluster and its probability."""
    n = state.data.n
    labels, chance = np.empty(n, np.int64), np.empty(n, np.float32)
    for rows, r in responsibilities(state):
        labels[rows] = r.argmax(axis=0)
        chance[rows] = r.max(axis=0)
    sizes = np.bincount(labels, minlength=state.k)
    first = np.full(state.k, n)
    used, at = np.unique(labels, return_index=True)
    first[used] = at
    order = np.lexsort((first, -sizes))
    S, at_values = state.total[order], state.values
    found = {
        "tau": state.sticks.tau,
        "order": order,
        "weights_of_clusters": state.sticks.mean_weights()[np.append(order, state.k)],
        "sums": S,
        "labels": PARTITIONS.pack(np.argsort(order)[labels]),
        "membership": chance,
        **state.family.arrays(S, at_values),
    }
    if state.sticks.mass is not None:
        found["alpha_law"] = np.array(state.sticks.mass)
    return found


def population(rng: np.random.Generator, state: SoftClusters) -> Population:
    """Draws of the labels, with equal weights."""
    n = state.data.n
    count = int(np.clip(DRAWN // n, 1, DRAWS))
    drawn = np.empty((count, n), np.min_scalar_type(state.k))
    for rows, r in responsibilities(state):
        below = np.cumsum(r, axis=0)[:-1]
        for s in range(count):
            drawn[s, rows] = (rng.random(r.shape[1]) > below).sum(axis=0)
    labels = [canonical_labels(each) for each in drawn]
    numbers = list(as_scalars(state.hyper).values())
    scalars = [(float(own.max() + 1), float("nan"), *numbers) for own in labels]
    packed = [PARTITIONS.pack(own) for own in labels]
    return Population(np.full(count, 1.0 / count), np.array(scalars), packed, float("nan"))


# ---- files ------------------------------------------------------------------------------------


def to_arrays(state: SoftClusters) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The state as arrays and plain values."""
    arrays = {"S": state.S.copy(), "H": state.H.copy(), "tau": state.sticks.tau}
    numbers = {name: getattr(state, name) for name in PROGRESS}
    mass = None if state.sticks.mass is None else list(state.sticks.mass)
    return arrays, numbers | {"hyper": dict(state.hyper), "mass": mass, "most": state.most}


def from_arrays(
    model: Model,
    data: Data,
    arrays: dict[str, np.ndarray],
    numbers: dict[str, Any],
    threads: int,
    dtype: str,
) -> SoftClusters:
    """The state that ``to_arrays`` saved."""
    state = state_of(model, data, dict(numbers["hyper"]), numbers["most"], threads, dtype)
    mass = None if numbers["mass"] is None else MassLaw(*numbers["mass"])
    sticks = replace(state.sticks, tau=arrays["tau"], mass=mass)
    progress = {name: numbers[name] for name in PROGRESS}
    return replace(state, S=arrays["S"].copy(), H=arrays["H"].copy(), sticks=sticks, **progress)
