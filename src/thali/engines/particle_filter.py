r"""Particle filtering: the rows of X one by one, in many weighted particles (Wood and Griffiths 2007).

A particle is Z of the rows so far, with A integrated out. For each row, every particle proposes its
bits and new dishes and is weighted by

    w = P(z, j | rows before) p(x | z, j, rows before) / q(z, j),

and where the effective size 1/ΣW² falls below a share of the particles, they are drawn again by
their weights (systematic resampling). The average weights multiply to an unbiased estimate of the
evidence P(X), and the weighted particles approximate the posterior; both hold for any number of
particles in the first case, and as their number grows in the second.

Hyperparameters with laws are each particle's own. They begin as draws from their laws (scales half
of the time from a bell around a guess, and weighted for it), and after every resampling take a step
that leaves their law given the rows so far invariant (resample-move, Gilks and Berzuini 2001). So
the target is the joint posterior of Z and hyperparameters, and the evidence is integrated over them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from thali.data import Data
from thali.engines.base import Engine, Info, Population
from thali.engines.collapsed_gibbs import CollapsedGibbs
from thali.engines.genealogy import Genealogy, effective_size, settle, systematic
from thali.hyperparameters import InverseGamma, Law
from thali.likelihoods.base import Collapsed, GaussianRows
from thali.likelihoods.linear_gaussian import FINEST
from thali.machine import cores, physical_memory
from thali.model import Model
from thali.priors.base import Sequential
from thali.settings import Settings, whole_number
from thali.starts import Start
from thali.structures import FeatureCounts, counts_from_gram

PROPOSALS = ("conditional", "prior")
BLOCK = 64  # particles that share a generator; fixed, so that threads change nothing
FEWEST = 20  # particles with which a filter that was stopped goes through the remaining rows
SPREAD = 0.7  # of the bell around the guess of log σ


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
    log_weights: np.ndarray  # (P,) normalised
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


@dataclass(frozen=True)
class ParticleFilter(Settings, Engine):
    """A filter of weighted particles through the rows, in their order.

    ``particles``, of which each proposes its next row: "conditional", given the row's data, or
    "prior", without looking, as Wood and Griffiths (2007), which needs many more particles.
    They are resampled where their effective size is below ``resample_below`` of their number.
    ``passes`` beyond the first give every particle one collapsed Gibbs sweep over all rows each
    (hyperparameters with laws included). A sweep leaves the posterior invariant, so the weighted
    particles approximate the same law before and after, and each is nearer to a draw of it.

    The weighted particles approximate the joint posterior of Z and of every hyperparameter that
    has a law, and ``log_evidence_`` estimates the logarithm of P(X), integrated over those laws.
    A filter that is stopped keeps 20 particles, by weight, and goes through the remaining
    rows with them: a filter still, only a rougher one.

    >>> import thali
    >>> X = thali.datasets.images(n=30, random_state=0).X
    >>> engine = ParticleFilter(particles=100)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> bool(model.log_evidence_ < 0.0)
    True
    """

    particles: int = 500
    proposal: str = "conditional"
    resample_below: float = 0.5
    passes: int = 1

    needs_prior: ClassVar[tuple[type, ...]] = (Sequential,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (Collapsed, GaussianRows)
    kind: ClassVar[str] = "weighted"
    # what the loop reads of every engine
    chains: ClassVar[int] = 1
    init: ClassVar[str] = "empty"
    burned: ClassVar[int] = 0
    unit: ClassVar[str] = "row"

    def __post_init__(self) -> None:
        whole_number("ParticleFilter", "particles", self.particles, 1)
        whole_number("ParticleFilter", "passes", self.passes, 1)
        if self.proposal not in PROPOSALS:
            raise ValueError(
                f"ParticleFilter: proposal must be 'conditional' or 'prior', not {self.proposal!r}."
            )
        share = self.resample_below
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(
                f"ParticleFilter: resample_below must be a share between 0 and 1, not {share!r}."
            )

    def steps(self, data: Data) -> int:
        """One for each row, and one for each further pass."""
        return data.n + self.passes - 1

    # beginning

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """Particles without rows, their hyperparameters drawn."""
        count = self.particles
        hyper, log_weights = {}, np.zeros(count)
        for name, value in start.hyper.items():
            law = law_of(model, name)
            if law is None:
                hyper[name] = np.full(count, value)
            else:
                guess = value if name in ("sigma_x", "sigma_a") else None
                hyper[name], log_weight = draw_numbers(rng, law, guess, count)
                log_weights += log_weight
        log_weights[hyper["sigma_x"] < FINEST * hyper["sigma_a"]] = -np.inf
        total = log_sum(log_weights)
        return State(
            empty_particles(count, 4, data.reduced.shape[1]),
            hyper,
            log_weights - total,
            float(total - np.log(count)),
        )

    # a step

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """One row, or once all are seen one Gibbs sweep of every particle."""
        if state.row < data.n:
            last = state.row + 1 == data.n and self.passes == 1
            return self._take_row(rng, model, data, state, may_resample=not last)
        if state.draws is None:
            state.draws = drawn(model, data, state)
        return self._rejuvenate(rng, model, data, state, state.draws)

    def _take_row(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State,
        may_resample: bool = True,
    ) -> Info:
        from thali.kernels import particle_rows as kernel

        x, x2 = data.reduced[state.row], float(data.squares[state.row])
        laws = row_laws(model, data, state)
        uniforms = rng.random((len(state.log_weights), state.particles.m.shape[1] + 1))
        proposals = no_proposals(state.particles)
        informed = self.proposal == "conditional"
        state.in_blocks(
            lambda a, b: kernel.propose(
                state.particles, laws, x, x2, uniforms, informed, proposals, a, b
            )
        )
        proposals = make_room(state, proposals)
        drift = max(
            state.in_blocks(
                lambda a, b: kernel.extend(state.particles, laws, x, x2, proposals, a, b)
            )
        )
        state.genealogy.record(proposals.z)
        state.row += 1
        weigh(state, proposals.log_weight)
        weights = np.exp(state.log_weights)
        heaviest = int(weights.argmax())
        if may_resample and effective_size(weights) < self.resample_below * len(weights):
            resample(rng, state, weights)
            move(rng, model, data, state)
        return describe(model, data, state, heaviest, drift)

    def _rejuvenate(
        self, rng: np.random.Generator, model: Model, data: Data, state: State, draws: Draws
    ) -> Info:
        """One collapsed Gibbs sweep of every particle, hyperparameters included."""
        gibbs = CollapsedGibbs(sweeps=1, chains=1)
        seeds = rng.integers(2**63, size=-(-len(draws.Z) // BLOCK))

        def sweep(first: int, last: int) -> float:
            own = np.random.default_rng(seeds[first // BLOCK])
            drift = 0.0
            for i in range(first, last):
                numbers = {name: float(values[i]) for name, values in draws.hyper.items()}
                Z = np.unpackbits(draws.Z[i], axis=0, count=data.n).astype(bool)
                at = gibbs.begin(own, model, data, Start("particle", Z, numbers))
                info = gibbs.step(own, model, data, at)
                draws.Z[i] = np.packbits(at.Z, axis=0)
                draws.log_joints[i] = info.log_joint
                for name, value in info.hyper.items():
                    draws.hyper[name][i] = value
                drift = max(drift, info.drift)
            return drift

        drift = max(state.in_blocks(sweep, BLOCK))
        heaviest = int(state.log_weights.argmax())
        numbers = {name: float(values[heaviest]) for name, values in draws.hyper.items()}
        log_joint = float(draws.log_joints[heaviest])
        return Info(draws.Z[heaviest].shape[1], log_joint, numbers, drift)

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: State
    ) -> Population:
        """The weighted draws; a filter stopped early goes on with a few particles first."""
        if state.row < data.n:
            shrink(rng, state, min(FEWEST, len(state.log_weights)))
            while state.row < data.n:
                last = state.row + 1 == data.n
                self._take_row(rng, model, data, state, may_resample=not last)
        if state.draws is None:
            state.draws = drawn(model, data, state)
        draws = state.draws
        k = [Z.shape[1] for Z in draws.Z]
        scalars = np.column_stack([k, draws.log_joints, *draws.hyper.values()])
        return Population(np.exp(state.log_weights), scalars, draws.Z, state.log_evidence)

    # files

    def freeze(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values."""
        arrays = {f"hyper_{name}": values.copy() for name, values in state.hyper.items()}
        arrays["log_weights"] = state.log_weights.copy()
        numbers: dict[str, Any] = {"row": state.row, "log_evidence": state.log_evidence}
        if state.draws is None:
            arrays |= {f"particles_{f}": a.copy() for f, a in state.particles._asdict().items()}
            arrays |= state.genealogy.freeze()
        else:
            arrays |= {f"draws_{name}": v.copy() for name, v in state.draws.hyper.items()}
            arrays["draws_log_joints"] = state.draws.log_joints.copy()
            arrays["draws_k"] = np.array([Z.shape[1] for Z in state.draws.Z])
            arrays["draws_Z"] = np.concatenate(state.draws.Z, axis=1)
        return arrays, numbers

    def thaw(self, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> State:
        """The state that ``freeze`` saved."""
        from thali.kernels.particle_rows import Particles

        hyper = {k.removeprefix("hyper_"): v for k, v in arrays.items() if k.startswith("hyper_")}
        whole = (hyper, arrays["log_weights"], numbers["log_evidence"], numbers["row"])
        if "draws_Z" not in arrays:
            particles = Particles(*(arrays[f"particles_{f}"] for f in Particles._fields))
            return State(particles, *whole, Genealogy.thaw(arrays))
        ends = np.cumsum(arrays["draws_k"])
        draws = Draws(
            np.split(arrays["draws_Z"], ends[:-1], axis=1),
            {name: arrays[f"draws_{name}"] for name in hyper},
            arrays["draws_log_joints"],
        )
        return State(None, *whole, draws=draws)


def log_sum(logs: np.ndarray) -> float:
    """log Σ e^x; −inf where there is nothing to sum (scipy's takes ten times as long)."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum())) if np.isfinite(top) else -np.inf


# ---- hyperparameters --------------------------------------------------------------------------


def law_of(model: Model, name: str) -> Law | None:
    """The law of a hyperparameter, or None where it is a number."""
    value = getattr(model.prior, name, None)
    value = getattr(model.likelihood, name, None) if value is None else value
    return value if isinstance(value, Law) else None


def draw_numbers(
    rng: np.random.Generator, law: Law, guess: float | None, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws from a law, half of them from a bell around a guess, and log p/q of each.

    q = p/2 + bell/2 ≥ p/2, so that no weight exceeds 2.
    """
    values = np.array([law.sample(rng) for _ in range(count)])
    if guess is None:
        return values, np.zeros(count)
    near = guess * np.exp(SPREAD * rng.standard_normal(count))
    values = np.where(rng.random(count) < 0.5, near, values)
    log_p = np.array([law.log_density(value) for value in values])
    apart = (np.log(values) - np.log(guess)) / SPREAD
    log_bell = -0.5 * apart**2 - np.log(SPREAD * np.sqrt(2.0 * np.pi)) - np.log(values)
    return values, log_p - (np.logaddexp(log_p, log_bell) - np.log(2.0))


def move(rng: np.random.Generator, model: Model, data: Data, state: State) -> None:
    """A step of every inferred hyperparameter of every particle, given the rows so far."""
    from thali.kernels import particle_scales as kernel

    particles, hyper, n = state.particles, state.hyper, state.row
    ours = [name for name in hyper if hasattr(model.prior, name)]
    if any(law_of(model, name) for name in ours):
        none = np.zeros(0)
        for p, k in enumerate(particles.k):  # microseconds each, and only after a resampling
            numbers = {name: float(hyper[name][p]) for name in ours}
            model.prior.resample(rng, numbers, FeatureCounts(n, particles.m[p, :k], none))
            for name in ours:
                hyper[name][p] = numbers[name]
    laws = [scale_law(law_of(model, name)) for name in ("sigma_x", "sigma_a")]
    if any(law.family != kernel.FIXED for law in laws):
        now = seen(data, n)
        seeds = rng.integers(2**63, size=-(-len(state.log_weights) // BLOCK))
        state.in_blocks(
            lambda a, b: kernel.move_scales(
                np.random.default_rng(seeds[a // BLOCK]),
                particles, now, *laws, hyper["sigma_x"], hyper["sigma_a"], a, b,
            ),
            BLOCK,
        )  # fmt: skip


def scale_law(law: Law | None) -> Any:
    """A law as the kernel reads it."""
    from thali.kernels import particle_scales as kernel

    if law is None:
        return kernel.ScaleLaw(kernel.FIXED, 0.0, 0.0)
    if isinstance(law, InverseGamma):
        return kernel.ScaleLaw(kernel.INVERSE_GAMMA, float(law.shape), float(law.scale))
    return kernel.ScaleLaw(kernel.GAMMA, float(law.shape), float(law.rate))


def seen(data: Data, n: int) -> Any:
    """The first n rows as the kernels of scales read them."""
    from thali.kernels.particle_scales import Seen

    return Seen(n, float(data.squares[:n].sum()), float(data.d))


def row_laws(model: Model, data: Data, state: State) -> Any:
    """Each particle's law of the next row."""
    from thali.kernels.particle_rows import RowLaws

    law = model.prior.next_row(state.row + 1, state.hyper)  # type: ignore[attr-defined]
    shape = state.log_weights.shape
    numbers = [
        np.ascontiguousarray(np.broadcast_to(np.asarray(value, float), shape))
        for value in (law.offset, law.rest, law.new_log_weight)
    ]
    scales = (state.hyper["sigma_x"], state.hyper["sigma_a"])
    return RowLaws(*numbers, *scales, int(law.capacity), float(data.d))


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
    (evidence,) = evidences(data, state, p, p + 1)
    (log_joint,) = log_joints(model, state, np.array([p]), np.array([evidence]))
    return Info(int(state.particles.k[p]), log_joint, numbers, drift)


def evidences(data: Data, state: State, first: int, last: int) -> np.ndarray:
    """log P(X | Z) of the rows so far for some particles."""
    from thali.kernels.particle_scales import log_evidences

    out = np.zeros(len(state.log_weights))
    scales = (state.hyper["sigma_x"], state.hyper["sigma_a"])
    log_evidences(state.particles, seen(data, state.row), *scales, out, first, last)
    return out[first:last]


def log_joints(model: Model, state: State, slots: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Left-ordered log P([Z]) + log P(X | Z) of the rows so far, for some particles."""
    hyper = {name: v for name, v in state.hyper.items() if hasattr(model.prior, name)}
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
    evidence = np.concatenate(state.in_blocks(lambda a, b: evidences(data, state, a, b)))
    joints = log_joints(model, state, slots, evidence[slots])
    Z = list(state.genealogy.matrices(state.particles.k, slots))
    state.log_weights = state.log_weights[slots]
    state.hyper = {name: values[slots] for name, values in state.hyper.items()}
    state.particles, state.genealogy = None, Genealogy()
    return Draws(Z, {name: values.copy() for name, values in state.hyper.items()}, joints)
