"""The particles of a filter over partitions: their arrays, ancestors, room and resampling.

All particles share one named tuple of groups: particle p has the slots p·room … (p + 1)·room − 1 of
its statistics. The fields that hyperparameters decide are kept apart, one for each particle
(``laws``). Labels of the rows are kept once, with the parents of every resampling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from thali.data import Data
from thali.engines.base import Info, inferred
from thali.engines.filtering.genealogy import parents_of, systematic
from thali.hyperparameters import Values
from thali.likelihoods.clusters import ConjugateClusters, Groups
from thali.machine import physical_memory
from thali.model import Model
from thali.priors.partition import ConsistentPartition

if TYPE_CHECKING:
    from thali.kernels.cluster_particles import Particles

ROOM = 8  # slots of a particle to begin with
BY_PARTICLE = ("mass", "discount", "k", "log_weights", "log_joints")  # of ``Particles``


@dataclass
class Ancestry:
    """Labels of rows by place, (rows, P) a block, and the parents where resampling followed."""

    blocks: list[np.ndarray] = field(default_factory=list)
    parents: list[np.ndarray | None] = field(default_factory=list)

    def record(self, labels: np.ndarray, room: int) -> None:
        """Keep the labels of some rows, all below ``room``."""
        if len(labels):
            self.blocks.append(labels.astype(np.min_scalar_type(room)))
            self.parents.append(None)

    def follow(self, parents: np.ndarray) -> None:
        """After the last row: place i now holds a copy of the particle in place parents[i]."""
        before = self.parents[-1]
        self.parents[-1] = parents if before is None else before[parents]

    def labels(self, count: int) -> np.ndarray:
        """The labels of all rows in each of the particles that there are now, (P, rows)."""
        found = np.zeros((count, sum(map(len, self.blocks))), np.int64)
        at, end = np.arange(count), found.shape[1]
        for block, parents in zip(reversed(self.blocks), reversed(self.parents), strict=True):
            if parents is not None:
                at = parents[at]
            found[:, end - len(block) : end] = block[:, at].T
            end -= len(block)
        return found


@dataclass
class Draws:
    """The population once all rows are seen: labels of rows and of rows to come, log joints."""

    labels: list[np.ndarray]
    log_joints: np.ndarray


@dataclass
class FilterState:
    """What the next row needs; once there are ``draws``, no more than they and the weights."""

    model: Model
    data: Data
    hyper: dict[str, np.ndarray]  # (P,) each
    groups: Groups
    laws: tuple[np.ndarray, ...]
    particles: Particles
    by_slot: list[str] = field(default_factory=list)  # the fields of groups that are
    log_evidence: float = 0.0
    row: int = 0
    moved: int = 0  # the row after which hyperparameters were last drawn anew
    ancestry: Ancestry = field(default_factory=Ancestry)
    draws: Draws | None = None

    @property
    def count(self) -> int:
        """How many particles there are."""
        return len(self.particles.k)

    @property
    def room(self) -> int:
        """How many slots each has."""
        return len(self.particles.sizes) // self.count

    def numbers(self, p: int) -> Values:
        """The hyperparameters of one particle."""
        return {name: float(values[p]) for name, values in self.hyper.items()}

    def describe(self, p: int, k: float, log_joint: float) -> Info:
        """What is told of a row: one particle at that time."""
        return Info(int(k), float(log_joint), self.numbers(p), 0.0)

    # hyperparameters

    def renew_laws(self) -> None:
        """What follows from the hyperparameters of each particle."""
        prior = cast(ConsistentPartition, self.model.prior)
        found = prior.mass_and_discount(self.model.own_values("prior", self.hyper))
        for own, values in zip(self.particles[:2], found, strict=True):
            own[:] = values
        self.laws = laws_of_particles(self.model, self.data, self.hyper, self.count)

    # resampling

    def by_particle(self) -> list[np.ndarray]:
        """Views of all arrays that particles have parts of, (P, …) each."""
        slots = [getattr(self.groups, name) for name in self.by_slot]
        wide = [array.reshape(self.count, self.room, *array.shape[1:]) for array in slots]
        sizes = self.particles.sizes.reshape(self.count, self.room)
        each = [getattr(self.particles, name) for name in BY_PARTICLE]
        return [*each, *self.laws, *self.hyper.values(), sizes, *wide]

    def resample(self, rng: np.random.Generator) -> None:
        """Systematic resampling: survivors stay, copies take the places of the others."""
        weights = np.exp(self.particles.log_weights)
        parents = parents_of(systematic(rng.random(), weights, self.count))
        targets = np.flatnonzero(parents != np.arange(self.count))
        for array in self.by_particle():
            array[targets] = array[parents[targets]]
        self.particles.log_weights[:] = -np.log(self.count)
        self.ancestry.follow(parents)

    def rearrange(self, parents: np.ndarray, room: int) -> None:
        """Copies of some particles alone, with so many slots each."""
        old, cut = self.room, min(room, self.room)

        def moved(array: np.ndarray) -> np.ndarray:
            rest = array.shape[1:]
            wide = np.zeros((len(parents), room, *rest), array.dtype)
            wide[:, :cut] = array.reshape(-1, old, *rest)[parents, :cut]
            return wide.reshape(-1, *rest)

        more = len(parents) * room
        refuse_more_than_fits(self.groups, self.by_slot, len(self.particles.sizes), more)
        slots = {name: moved(getattr(self.groups, name)) for name in self.by_slot}
        self.groups = self.groups._replace(**slots)
        each = {name: getattr(self.particles, name)[parents] for name in BY_PARTICLE}
        self.particles = self.particles._replace(**each, sizes=moved(self.particles.sizes))
        self.hyper = {name: values[parents] for name, values in self.hyper.items()}
        self.laws = tuple(values[parents] for values in self.laws)

    def widen(self) -> None:
        """More slots for all particles."""
        from thali.kernels.cluster_particles import clear_next

        k = int(self.particles.k.max())
        self.rearrange(np.arange(self.count), k + 2 + max(ROOM, k // 2))
        clear_next(self.groups, self.laws, self.particles)

    def shrink(self, rng: np.random.Generator, size: int) -> None:
        """Resample to fewer particles."""
        weights = np.exp(self.particles.log_weights)
        parents = np.repeat(np.arange(self.count), systematic(rng.random(), weights, size))
        self.rearrange(parents, self.room)
        self.particles.log_weights[:] = -np.log(size)
        if self.row:
            self.ancestry.follow(parents)


def refuse_too_many(model: Model, data: Data, hyper: Values, count: int) -> None:
    """Refuse particles that would not fit in memory, before any of them is made."""
    own = cast(ConjugateClusters, model.likelihood_at(hyper))
    little = own.groups(data.rows(slice(1)), 1)
    refuse_more_than_fits(little, slot_fields(own, data), 1, count * ROOM)


def new_state(model: Model, data: Data, hyper: dict[str, np.ndarray], count: int) -> FilterState:
    """Particles without rows, of equal weights."""
    from thali.kernels.cluster_particles import Particles, clear_next

    own = cast(ConjugateClusters, model.likelihood_at({n: float(v[0]) for n, v in hyper.items()}))
    groups, names = own.groups(data, 1), slot_fields(own, data)
    slots = {name: np.repeat(getattr(groups, name), count * ROOM, axis=0) for name in names}
    equal = np.full(count, -np.log(count))
    particles = Particles(
        mass=np.zeros(count),
        discount=np.zeros(count),
        k=np.zeros(count, np.int64),
        log_weights=equal,
        log_joints=np.zeros(count),
        sizes=np.zeros(count * ROOM, np.int64),
    )
    state = FilterState(model, data, hyper, groups._replace(**slots), (), particles, names)
    state.renew_laws()
    clear_next(state.groups, state.laws, particles)
    return state


def slot_fields(likelihood: ConjugateClusters, data: Data) -> list[str]:
    """The fields of groups that are by slot: those that grow with the number of slots."""
    one, two = (likelihood.groups(data.rows(slice(1)), room) for room in (1, 2))
    return [name for name in one._fields if shape_of(one, name) != shape_of(two, name)]


def shape_of(groups: Groups, name: str) -> tuple[int, ...]:
    """The shape of a field; () of a number."""
    return np.shape(getattr(groups, name))


def laws_of_particles(
    model: Model, data: Data, hyper: dict[str, np.ndarray], count: int
) -> tuple[np.ndarray, ...]:
    """The fields of groups that hyperparameters decide, (P, …) each; of one row's groups, which
    are made in no time."""
    from thali.kernels.groups import laws_of

    different = count if inferred(model.likelihood) else 1
    little, made = data.rows(slice(1)), []
    for p in range(different):
        numbers = {name: float(values[p]) for name, values in hyper.items()}
        made.append(cast(ConjugateClusters, model.likelihood_at(numbers)).groups(little, 1))
    found = [np.stack([getattr(each, n) for each in made]) for n in laws_of(type(made[0]))]
    return tuple(np.repeat(values, count // different, axis=0) for values in found)


def refuse_more_than_fits(groups: Groups, names: list[str], slots: int, wanted: int) -> None:
    """Refuse so many slots where memory has no room for them, told of those that there are."""
    needed = sum(getattr(groups, name).nbytes for name in names) / slots * wanted
    if needed > physical_memory() // 2:
        raise MemoryError(
            f"Statistics of {wanted:,} clusters, of all particles together, need "
            f"{needed / 2**30:,.0f} GB of memory, too much for this machine; use fewer particles, "
            "or look at alpha and at the scales: a large alpha or clusters far too narrow ask for "
            "many clusters."
        )
