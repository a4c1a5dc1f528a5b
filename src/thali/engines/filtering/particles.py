"""The particles of a filter: their arrays, weights, resampling, and what they become at the end.

Everything here works on a whole population; the rows themselves are the kernels' business, and
what a particle proposes and how its hyperparameters move is the engine's (``particle_filter``).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from thali.data import Data
from thali.engines.base import Info
from thali.engines.filtering.coding import coded
from thali.engines.filtering.gaps import Gaps
from thali.engines.filtering.genealogy import Genealogy, parents_of, systematic
from thali.machine import cores, physical_memory
from thali.model import Model
from thali.priors.base import Prior, Sequential
from thali.structures.features import counts_from_gram

if TYPE_CHECKING:
    from thali.kernels.masked_particle_rows import MaskedParticles
    from thali.kernels.particle_rows import Particles, Proposals, RowNumbers
    from thali.kernels.scale_steps import ScaleLaws, Seen

    AnyParticles = Particles | MaskedParticles

Found = TypeVar("Found")
BLOCK = 64  # particles that share a generator; fixed, so that threads change nothing


@dataclass
class Draws:
    """The population once all rows are seen: Z packed, numbers, log joints."""

    Z: list[np.ndarray]
    hyper: dict[str, np.ndarray]
    log_joints: np.ndarray

    def describe(self, i: int, drift: float) -> Info:
        """K, the log joint and the numbers of one draw."""
        numbers = {name: float(values[i]) for name, values in self.hyper.items()}
        return Info(self.Z[i].shape[1], float(self.log_joints[i]), numbers, drift)


@dataclass
class State:
    """What the next row needs. There are no ``particles`` once there are ``draws`` of them."""

    model: Model
    data: Data
    particles: AnyParticles
    hyper: dict[str, np.ndarray]  # (P,) each
    log_weights: np.ndarray  # (P,) normalized
    log_evidence: float
    row: int = 0
    genealogy: Genealogy = field(default_factory=Genealogy)
    draws: Draws | None = None
    gaps: Gaps | None = None  # where entries of X are missing
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(cores()))

    @property
    def sigmas(self) -> tuple[np.ndarray, np.ndarray]:
        """σ_x and σ_a of each particle."""
        scales = self.model.likelihood_values(self.hyper)
        return scales["sigma_x"], scales["sigma_a"]

    @property
    def seen(self) -> Seen:
        """The rows so far as the kernels of scales read them: with gaps, entry by entry."""
        from thali.kernels.scale_steps import Seen

        if self.gaps is not None:
            entries = int(self.gaps.entries[: self.row].sum())
            return Seen(entries, float(self.gaps.squares[: self.row].sum()), 1.0)
        return Seen(self.row, float(self.data.squares[: self.row].sum()), float(self.data.d))

    def in_blocks(self, work: Callable[[int, int], Found], size: int | None = None) -> list[Found]:
        """``work(first, last)`` over all particles, in threads; results in order. What asks for a
        stop reaches them (``stopping``)."""
        count = len(self.log_weights)
        parts = max(1, min(2 * cores(), count // 32)) if size is None else -(-count // size)
        edges = np.linspace(0, count, parts + 1).astype(int)
        if size is not None:
            edges = np.minimum(np.arange(parts + 1) * size, count)
        if parts == 1 or cores() == 1:
            return [work(a, b) for a, b in pairwise(edges)]
        tasks = [(copy_context(), *ends) for ends in pairwise(edges)]
        return list(self.pool.map(lambda task: task[0].run(work, *task[1:]), tasks))

    # a row

    def row_numbers(self) -> RowNumbers:
        """Each particle's numbers for the next row."""
        from thali.kernels.particle_rows import RowNumbers

        hyper = dict(self.model.prior_values(self.hyper))
        row = cast(Sequential, self.model.prior).next_row(self.row + 1, hyper)
        offset, rest, new_log_weight = (
            np.ascontiguousarray(np.broadcast_to(np.asarray(value, float), self.log_weights.shape))
            for value in (row.offset, row.rest, row.new_log_weight)
        )
        sigmas, d = self.sigmas, float(self.data.d)
        return RowNumbers(offset, rest, new_log_weight, *sigmas, int(row.capacity), d)

    def propose(self, uniforms: np.ndarray, informed: bool) -> Proposals:
        """What each particle proposes for the next row, and room for it."""
        numbers, proposals = self.row_numbers(), no_proposals(self.particles)
        if self.gaps is None:
            from thali.kernels import particle_rows as kernel

            x, x2 = self.data.reduced[self.row], float(self.data.squares[self.row])
            self.in_blocks(
                lambda a, b: kernel.propose(
                    self.particles, numbers, x, x2, uniforms, informed, proposals, a, b
                )
            )
        else:
            from thali.kernels import masked_particle_rows as masked

            row = self.gaps.row(self.row)
            self.in_blocks(
                lambda a, b: masked.propose(
                    self.particles, numbers, row, uniforms, informed, proposals, a, b
                )
            )
        return self.make_room(proposals)

    def extend(self, proposals: Proposals) -> float:
        """Let the proposed row join; the largest relative error that was found."""
        numbers = self.row_numbers()
        if self.gaps is None:
            from thali.kernels import particle_rows as kernel

            x, x2 = self.data.reduced[self.row], float(self.data.squares[self.row])
            drift = self.in_blocks(
                lambda a, b: kernel.extend(self.particles, numbers, x, x2, proposals, a, b)
            )
        else:
            from thali.kernels import masked_particle_rows as masked

            row = self.gaps.row(self.row)
            drift = self.in_blocks(
                lambda a, b: masked.extend(self.particles, numbers, row, proposals, a, b)
            )
        self.genealogy.record(proposals.z)
        self.row += 1
        return float(max(drift))

    def make_room(self, proposals: Proposals) -> Proposals:
        """Arrays as wide as the proposals need, wider or (where far too wide) narrower."""
        old = self.particles
        lost = np.isnan(proposals.log_weight) & (self.log_weights > -np.inf)
        if lost.any():
            sigma_x, sigma_a = (each[int(lost.argmax())] for each in self.sigmas)
            raise FloatingPointError(
                f"The density of row {self.row} is not a number at sigma_x={sigma_x:.3g}, "
                f"sigma_a={sigma_a:.3g}; rescale the data, or give hyperpriors with less weight "
                "far from their scale."
            )
        alive = (proposals.log_weight > -np.inf) & (self.log_weights > -np.inf)
        proposals.log_weight[~alive] = -np.inf
        used = int(old.k.max())
        needed = max(used, int((old.k + proposals.new)[alive].max(initial=0)))
        cap = old.m.shape[1]
        if needed <= cap and not (cap > 16 and 3 * needed < cap):
            return proposals
        groups = 0 if self.gaps is None else self.gaps.groups
        new = empty_particles(len(old.k), needed + needed // 4 + 2, old.T.shape[2], groups)
        wide = no_proposals(new)
        pairs = *zip(old, new, strict=True), (proposals.z, wide.z), (proposals.b, wide.b)
        for ours, theirs in pairs:
            both = tuple(map(slice, np.minimum(ours.shape, theirs.shape)))
            theirs[both] = ours[both]
        self.particles = new
        return wide._replace(new=proposals.new, log_weight=proposals.log_weight)

    def weigh(self, log_weight: np.ndarray) -> None:
        """Multiply the weights; their average goes into the evidence."""
        self.log_weights = self.log_weights + log_weight
        total = log_sum(self.log_weights)
        if not np.isfinite(total):
            self._refuse_mass()
            sigma_x, sigma_a = map(np.median, self.sigmas)
            raise ValueError(
                f"Row {self.row - 1} is so far from what the particles can make (median sigma_x="
                f"{sigma_x:.3g}, sigma_a={sigma_a:.3g}) that none of them has any weight left; "
                "give larger scales, let them be inferred, or look at that row."
            )
        self.log_weights -= total
        self.log_evidence += float(total)

    def _refuse_mass(self) -> None:
        """Say so where it is the prior that asks for more features than a row can have."""
        from thali.kernels.new_features import MOST_NEW

        hyper = self.model.own_values("prior", self.hyper)
        row = cast(Sequential, self.model.prior).next_row(self.row, hyper)
        own = float(np.exp(np.median(row.new_log_weight)))
        if row.capacity < 0 and own > 0.1 * MOST_NEW:
            mass = ", ".join(f"{name}={np.median(value):.3g}" for name, value in hyper.items())
            raise ValueError(
                f"With {mass} the prior gives a row more than {own:.3g} features of its own; give "
                "a smaller alpha, or let it be inferred."
            )

    def resample(self, rng: np.random.Generator, weights: np.ndarray) -> None:
        """Systematic resampling: survivors stay, copies take the slots of the others."""
        if self.gaps is None:
            from thali.kernels.particle_rows import copy_particles
        else:
            from thali.kernels.masked_particle_rows import copy_particles

        parents = parents_of(systematic(rng.random(), weights, len(weights)))
        targets = np.flatnonzero(parents != np.arange(len(parents)))
        copy_particles(self.particles, parents[targets], targets)
        for values in self.hyper.values():
            values[targets] = values[parents[targets]]
        self.genealogy.resampled(parents)
        self.log_weights = np.full(len(weights), -np.log(len(weights)))

    def shrink(self, rng: np.random.Generator, size: int) -> None:
        """Resample to fewer particles."""
        counts = systematic(rng.random(), np.exp(self.log_weights), size)
        parents = np.repeat(np.arange(len(counts)), counts)
        self.particles = type(self.particles)(*(array[parents] for array in self.particles))
        self.hyper = {name: values[parents] for name, values in self.hyper.items()}
        if self.row:
            self.genealogy.follow(parents)
        self.log_weights = np.full(size, -np.log(size))

    # results

    def _coded(self, p: int, sigma_x: float) -> np.ndarray:
        """The bits of the rows to come given the features of a particle."""
        if self.gaps is not None:
            particles = cast("MaskedParticles", self.particles)
            return self.gaps.coded(particles, p, self.row, sigma_x)
        X = self.data.reduced[self.row :]
        return coded(X, cast("Particles", self.particles), p, self.row, sigma_x)

    def code_the_rest(self) -> None:
        """Give the rows to come bits, all at once; the weights stay, and nothing estimates P(X)."""
        slots = np.flatnonzero(self.log_weights > -np.inf)
        sigma_x, row = self.sigmas[0], self.row
        seen = list(self.genealogy.matrices(self.particles.k, slots))
        hyper = {name: values[slots] for name, values in self.hyper.items()}

        def whole(first: int, last: int) -> list[tuple[np.ndarray, float]]:
            found = []
            for i in range(first, last):
                p = int(slots[i])
                before = np.unpackbits(seen[i], axis=0, count=row).astype(bool)
                rest = self._coded(p, float(sigma_x[p]))
                Z = np.concatenate([before, rest])
                numbers = {name: float(values[i]) for name, values in hyper.items()}
                joint = self.model.at(numbers).log_joint(self.data, Z)
                found.append((np.packbits(Z, axis=0), joint))
            return found

        self.log_weights, parts = self.log_weights[slots], []
        for part in self.in_blocks(whole, 1):
            parts.extend(part)
        self.hyper, self.row, self.log_evidence = hyper, self.data.n, float("nan")
        self.particles, self.genealogy = zero_particles(0, 0, self.data.d), Genealogy()
        copies = {name: values.copy() for name, values in hyper.items()}
        self.draws = Draws([Z for Z, _ in parts], copies, np.array([joint for _, joint in parts]))

    def describe(self, p: int, drift: float) -> Info:
        """K, the log joint of the rows so far, and the numbers of one particle."""
        numbers = {name: float(values[p]) for name, values in self.hyper.items()}
        (log_joint,) = self.log_joints(np.array([p]), self.evidences(p, p + 1))
        return Info(int(self.particles.k[p]), log_joint, numbers, drift)

    def evidences(self, first: int, last: int) -> np.ndarray:
        """log P(X | Z) of the rows so far for some particles."""
        out = np.zeros(len(self.log_weights))
        rest = (self.seen, *self.sigmas, out, first, last)
        if self.gaps is None:
            from thali.kernels import particle_scales as kernel

            kernel.log_evidences(self.particles, *rest)
        else:
            from thali.kernels import masked_particle_scales as masked

            masked.log_evidences(self.particles, self.gaps.start, *rest)
        return out[first:last]

    def move_scales(self, rng: np.random.Generator, laws: ScaleLaws, first: int, last: int) -> None:
        """A step of σ_x and σ_a of some particles, written over the old ones."""
        rest = (self.seen, laws, *self.sigmas, first, last)
        if self.gaps is None:
            from thali.kernels import particle_scales as kernel

            kernel.move_scales(rng, self.particles, *rest)
        else:
            from thali.kernels import masked_particle_scales as masked

            masked.move_scales(rng, self.particles, self.gaps.start, *rest)

    def log_joints(self, slots: np.ndarray, evidence: np.ndarray) -> np.ndarray:
        """Left-ordered log P([Z]) + log P(X | Z) of the rows so far, for some particles."""
        hyper = self.model.own_values("prior", self.hyper)
        prior: Prior | None = None
        before: dict[str, float] = {}
        found = evidence.astype(float)
        for i, p in enumerate(slots):
            numbers = {name: float(values[p]) for name, values in hyper.items()}
            if prior is None or numbers != before:
                prior, before = self.model.prior.at(**numbers), numbers
            k = self.particles.k[p]
            counts = counts_from_gram(self.row, self.particles.C[p, :k, :k])
            found[i] += prior.log_prob_counts(counts)
        return found

    def drawn(self) -> Draws:
        """The population as draws, particles without weight left out; the arrays are let go."""
        if self.draws is None:
            slots = np.flatnonzero(self.log_weights > -np.inf)
            evidence = np.concatenate(self.in_blocks(self.evidences))
            joints = self.log_joints(slots, evidence[slots])
            Z = list(self.genealogy.matrices(self.particles.k, slots))
            self.log_weights = self.log_weights[slots]
            self.hyper = {name: values[slots] for name, values in self.hyper.items()}
            self.particles, self.genealogy = zero_particles(0, 0, self.data.d), Genealogy()
            copies = {name: values.copy() for name, values in self.hyper.items()}
            self.draws = Draws(Z, copies, joints)
        return self.draws


def log_sum(logs: np.ndarray) -> float:
    """log Σ e^x; −inf where there is nothing to sum (scipy's takes ten times as long)."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum())) if np.isfinite(top) else -np.inf


def empty_particles(count: int, cap: int, d: int, groups: int = 0) -> AnyParticles:
    """Particles without features, with room for ``cap``; refused where they would not fit.

    Where entries are missing there are ``groups`` of columns, each with its own arrays.
    """
    squares = 3 if groups == 0 else 3 * groups + 1
    needed = 8 * count * (squares * cap * cap + cap * d)
    if needed > physical_memory() // 2:
        gaps = f" in {groups:,} groups of columns that miss different rows" if groups else ""
        raise MemoryError(
            f"{count:,} particles of {cap:,} features{gaps} need {needed / 2**30:,.0f} GB of "
            "memory, too much for this machine; use fewer particles, or look at sigma_a and "
            "alpha: a small sigma_a or a large alpha asks for many features."
        )
    return zero_particles(count, cap, d) if groups == 0 else masked_zeros(count, cap, d, groups)


def zero_particles(count: int, cap: int, d: int) -> Particles:
    """Particles of zeros."""
    from thali.kernels.particle_rows import Particles

    each, square = (count, cap), (count, cap, cap)
    shapes = (each, square, (*each, d), square, square, count)  # of m, C, T, M, G, lost
    return Particles(np.zeros(count, np.int64), *(np.zeros(shape) for shape in shapes))


def masked_zeros(count: int, cap: int, d: int, groups: int) -> MaskedParticles:
    """The same where entries of X are missing."""
    from thali.kernels.masked_particle_rows import MaskedParticles

    each, square, own = (count, cap), (count, cap, cap), (count, groups, cap, cap)
    shapes = (each, square, (*each, d), own, own, own, (count, groups))  # m, C, T, C_g, M, G, lost
    return MaskedParticles(np.zeros(count, np.int64), *(np.zeros(shape) for shape in shapes))


def no_proposals(particles: AnyParticles) -> Proposals:
    """Room for a proposal of each particle."""
    from thali.kernels.particle_rows import Proposals

    count, each = len(particles.m), particles.m.shape
    z, new = np.zeros(each, np.uint8), np.zeros(count, np.int64)
    return Proposals(z, new, np.zeros(each), np.zeros(count))
