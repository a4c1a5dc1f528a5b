r"""Particle filtering: the rows one by one, in many weighted particles (Wood and Griffiths 2007).

Of partitions it is in ``engines/clusters/filter.py``; here it is of a feature matrix.

A particle is Z of the rows so far, with A integrated out. For each row, every particle proposes
its bits and new features and is weighted by

    w = P(z, j | rows before) p(x | z, j, rows before) / q(z, j),

and where the effective size 1/ΣW² falls below a share of the particles, they are drawn again by
their weights (systematic resampling). The average weights multiply to an unbiased estimate of the
evidence P(X), and the weighted particles approximate the posterior; both hold for any number of
particles in the first case, and as their number grows in the second.

Hyperparameters with hyperpriors are each particle's own. They begin as draws from these (scales
half of the time from a bell around a guess, and weighted for it), and now and then take a step that
leaves their posterior given the rows so far invariant (``filtering/hyperparameters.py``). So the
target is the joint posterior of Z and hyperparameters, and the evidence is integrated over those
that are inferred. The rows so far take such steps too (``filtering/rejuvenation.py``): it is
resample-move, of Gilks and Berzuini (2001).

Where entries of X are missing p(x | …) is the density of what was observed of the row
(``kernels/masked_particle_rows.py``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thali.data import Data
from thali.engines.base import Drawn, Info, Needs, Population, WeightedSampler
from thali.engines.clusters import filter as clusters
from thali.engines.clusters.particles import FilterState
from thali.engines.collapsed_gibbs import CollapsedGibbs
from thali.engines.features import gibbs as features
from thali.engines.filtering.gaps import Gaps
from thali.engines.filtering.genealogy import Genealogy, effective_size
from thali.engines.filtering.hyperparameters import GROWTH, move_numbers, scale_laws_of
from thali.engines.filtering.particles import (
    BLOCK,
    Draws,
    State,
    empty_particles,
    log_sum,
    zero_particles,
)
from thali.engines.filtering.rejuvenation import is_due, rejuvenate
from thali.hyperparameters import Hyperprior
from thali.likelihoods.base import Collapsed, GaussianRows, MaskedCollapsed
from thali.likelihoods.clusters import ConjugateClusters
from thali.model import Model
from thali.priors.base import Sequential
from thali.priors.partition import ConsistentPartition
from thali.registry import ENGINES
from thali.settings import Settings, check_settings, setting
from thali.starts import Start
from thali.structures.partitions import PARTITIONS

PROPOSALS = ("conditional", "prior")
FEWEST = 20  # particles with which a filter that was stopped goes through the remaining rows
A_MOMENT = 0.1  # seconds for which it does
CODED = 5  # particles that are left where the rest of the rows is coded all at once
BELL = 0.7  # the standard deviation of log σ around its guess


@ENGINES.register("particle_filter")
@dataclass(frozen=True)
class ParticleFilter(Settings, WeightedSampler[State | FilterState]):
    """A filter of weighted particles through the rows, in their order.

    Of feature matrices Z, or of partitions under a prior that is consistent (``DirichletProcess``,
    ``PitmanYor``).

    The estimate of P(X), integrated over every hyperparameter that is inferred, is unbiased with
    any number of particles; ``log_evidence_`` is its logarithm. That the weighted particles have
    the joint posterior of Z, or of the partition, and of those hyperparameters is an
    approximation, which becomes exact as particles grow in number.

    A filter that is stopped keeps 20 particles, by weight, and goes through the remaining
    rows with them: a filter still, only a rougher one. Rows that it does not come to in a moment
    are coded given the features that 5 of them have so far, or put to the most probable of their
    clusters, and ``log_evidence_`` is then NaN.

    Entries of X may be missing under ``LinearGaussian``: weights and the evidence are those of what
    was observed. Memory and time grow with the number of groups of columns that miss the same rows.

    Parameters
    ----------
    n_particles : int, default 500
        How many particles go through the rows.
    proposal : {"conditional", "prior"}, default "conditional"
        How a particle proposes its next row: given the row's data (a label then has exactly its
        distribution given the row and the rows before), or without looking at them (Wood and
        Griffiths 2007), which needs many more particles.
    resample_below : float, default 0.5
        Particles are resampled where their effective size is below this share of their number.
    passes : int, default 1
        Each pass beyond the first gives every particle one collapsed Gibbs sweep over all rows,
        inferred hyperparameters included. A sweep leaves the posterior invariant, so the weighted
        particles approximate it before and after, and each is nearer to a draw of it.
    rejuvenate : int, default 1
        Each time that rows have become half as many again, and after the last, every particle makes
        so many sweeps of collapsed Gibbs sampling over its rows so far, moves on whole columns
        included. Features that only the noise of early rows asked for go, and the estimate of P(X)
        varies much less and stays unbiased. All of this takes two to three times as long as the
        rest; 0 leaves it out. Of partitions no rows are looked at again.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=30, random_state=0).X
    >>> engine = ParticleFilter(n_particles=100)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> bool(model.log_evidence_ < 0.0)
    True
    """

    n_particles: int = setting(500, help="Particles of the filter", minimum=1)
    proposal: str = setting("conditional", help="How a particle proposes a row", choices=PROPOSALS)
    resample_below: float = setting(
        0.5, help="Share of the particles below which they are resampled", minimum=0.0
    )
    passes: int = setting(1, help="Passes over the rows", minimum=1)
    rejuvenate: int = setting(
        1, help="Sweeps of each particle over its rows where these have grown by half", minimum=0
    )

    needs_prior: ClassVar[Needs] = ((Sequential, ConsistentPartition),)
    needs_likelihood: ClassVar[Needs] = (
        (Collapsed, ConjugateClusters),
        (GaussianRows, ConjugateClusters),
    )
    masked: ClassVar[bool] = True
    gaps_need: ClassVar[type] = MaskedCollapsed
    unit: ClassVar[str] = "row"
    races: ClassVar[bool] = False
    chains: ClassVar[int] = 1
    init: ClassVar[str] = "empty"
    for_features: ClassVar[tuple[str, ...]] = ("rejuvenate",)

    def __post_init__(self) -> None:
        share = self.resample_below
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(
                f"ParticleFilter: resample_below must be a share between 0 and 1, not {share!r}."
            )
        check_settings(self)

    def steps(self, data: Data) -> int:
        """One for each row, and one for each further pass."""
        return data.n + self.passes - 1

    # beginning

    def begin(
        self, rng: np.random.Generator, model: Model, data: Data, start: Start
    ) -> State | FilterState:
        """Particles without rows, their hyperparameters drawn."""
        if model.structure == PARTITIONS:
            self.refuse_what_features_need()
            return clusters.begin(rng, model, data, start, self.n_particles)
        return self._begin(rng, model, data, start)

    def rehearsals(self, model: Model) -> tuple[str, ...]:
        sweeps = self.rejuvenate > 0 and model.structure != PARTITIONS
        return ("sweeps", "rows", "moves") if sweeps else ("rows",)

    def rehearse(self, part: str, model: Model, missing: bool) -> None:
        if model.structure == PARTITIONS:
            clusters.rehearse(model)
        elif part == "rows":
            rng, data = np.random.default_rng(0), Data.of([[np.nan if missing else 0.0, 1.0]] * 2)
            start = Start("rehearsal", np.zeros((data.n, 0), bool), model.start(data))
            state = self._begin(rng, model, data, start)
            for _ in range(data.n):
                self._take_row(rng, state, True, 0)
        else:
            features.rehearse(part, model, missing, "slice")

    def _begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        laws = scale_laws_of(model, data)  # says at once which hyperpriors it does not know
        count = self.n_particles
        gaps = gaps_of(data)
        if gaps is None:
            particles = empty_particles(count, 4, data.reduced.shape[1])  # or a refusal, at once
        else:
            particles = empty_particles(count, 4, data.d, gaps.groups)
        hyper, log_weights = {}, np.zeros(count)
        for name, value in start.hyper.items():
            hyper[name] = np.full(count, value)
            if name in model.hyperpriors:
                guess = value if name in model.labels["likelihood"].values() else None
                hyper[name], log_weight = draw_numbers(rng, model.hyperpriors[name], guess, count)
                log_weights += log_weight
        scales = model.likelihood_values(hyper)
        sigma_x, sigma_a = scales["sigma_x"], scales["sigma_a"]
        with np.errstate(over="ignore"):
            usable = np.isfinite(np.square(sigma_x / sigma_a))
        usable &= sigma_x >= np.maximum(laws.lowest, laws.least * sigma_a)
        log_weights[~usable] = -np.inf
        total = log_sum(log_weights)
        evidence = float(total - np.log(count))
        return State(model, data, particles, hyper, log_weights - total, evidence, gaps=gaps)

    # a step

    def several(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State | FilterState,
        most: int,
        keep: bool = True,
    ) -> list[Drawn]:
        """Of partitions, rows up to the next resampling in one call of compiled code."""
        if isinstance(state, FilterState) and state.row < data.n:
            settings = self._for_partitions(data)
            infos = clusters.take_rows(rng, state, min(most, data.n - state.row), *settings)
            return [Drawn(info, None, {}) for info in infos]
        return super().several(rng, model, data, state, most, keep)

    def _for_partitions(self, data: Data) -> tuple[float, bool, int]:
        """When particles are resampled, how they propose, and the row after which they are not."""
        last = data.n - 1 if self.passes == 1 else data.n
        return self.resample_below, self.proposal == "conditional", last

    def step(
        self, rng: np.random.Generator, model: Model, data: Data, state: State | FilterState
    ) -> Info:
        """One row, or once all are seen one Gibbs sweep of every particle."""
        if isinstance(state, FilterState):
            if state.row < data.n:
                return clusters.take_rows(rng, state, 1, *self._for_partitions(data))[0]
            return clusters.rejuvenate(rng, state)
        if state.row < data.n:
            last = state.row + 1 == data.n and self.passes == 1
            return self._take_row(rng, state, not last, self.rejuvenate)
        return self._rejuvenate(rng, state, state.drawn())

    def _take_row(
        self, rng: np.random.Generator, state: State, may_resample: bool, sweeps: int
    ) -> Info:
        uniforms = rng.random((len(state.log_weights), state.particles.m.shape[1] + 1))
        proposals = state.propose(uniforms, self.proposal == "conditional")
        drift = state.extend(proposals)
        state.weigh(proposals.log_weight)
        weights = np.exp(state.log_weights)
        heaviest = int(weights.argmax())
        if may_resample and effective_size(weights) < self.resample_below * len(weights):
            state.resample(rng, weights)
        moves = bool(sweeps) and is_due(state.row, state.data.n)
        if moves:
            rejuvenate(rng, state, sweeps)
        if moves or (state.model.hyperpriors and is_due(state.row, state.data.n, GROWTH)):
            move_numbers(rng, state, afresh=moves)
        return state.describe(heaviest, drift)

    def _rejuvenate(self, rng: np.random.Generator, state: State, draws: Draws) -> Info:
        """One collapsed Gibbs sweep of every particle, hyperparameters included."""
        gibbs, model, data = CollapsedGibbs(sweeps=1, chains=1), state.model, state.data
        seeds = rng.integers(2**63, size=-(-len(draws.Z) // BLOCK))

        def sweep(first: int, last: int) -> float:
            own = np.random.default_rng(seeds[first // BLOCK])
            drift = 0.0
            for i in range(first, last):
                numbers = {name: float(values[i]) for name, values in draws.hyper.items()}
                Z = np.unpackbits(draws.Z[i], axis=0, count=data.n).astype(bool)
                at = gibbs.begin(own, model, data, Start("particle", Z, numbers))
                info = gibbs.step(own, model, data, at)
                draws.Z[i] = np.packbits(at.latent, axis=0)
                draws.log_joints[i] = info.log_joint
                for name, value in info.hyper.items():
                    draws.hyper[name][i] = value
                drift = max(drift, info.drift)
            return drift

        drift = max(state.in_blocks(sweep, BLOCK))
        return draws.describe(int(state.log_weights.argmax()), drift)

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: State | FilterState
    ) -> Population:
        """The weighted draws; a filter stopped early goes on with a few particles first."""
        if isinstance(state, FilterState):
            return clusters.population(rng, state, self._for_partitions(data))
        if state.row < data.n:
            state.shrink(rng, min(FEWEST, len(state.log_weights)))
            until = time.monotonic() + A_MOMENT
            while state.row < data.n and time.monotonic() < until:
                self._take_row(rng, state, state.row + 1 < data.n, 0)
        if state.row < data.n:
            state.shrink(rng, min(CODED, len(state.log_weights)))
            state.code_the_rest()
        draws = state.drawn()
        k = [Z.shape[1] for Z in draws.Z]
        scalars = np.column_stack([k, draws.log_joints, *draws.hyper.values()])
        return Population(np.exp(state.log_weights), scalars, draws.Z, state.log_evidence)

    # files

    def to_arrays(self, state: State | FilterState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if isinstance(state, FilterState):
            return clusters.to_arrays(state)
        arrays = {f"hyper_{name}": values.copy() for name, values in state.hyper.items()}
        arrays["log_weights"] = state.log_weights.copy()
        numbers: dict[str, Any] = {"row": state.row, "log_evidence": state.log_evidence}
        if state.draws is None:
            arrays |= {f"particles_{f}": a.copy() for f, a in state.particles._asdict().items()}
            arrays |= state.genealogy.to_arrays()
        else:
            arrays |= {f"draws_{name}": v.copy() for name, v in state.draws.hyper.items()}
            arrays["draws_log_joints"] = state.draws.log_joints.copy()
            arrays["draws_k"] = np.array([Z.shape[1] for Z in state.draws.Z])
            arrays["draws_Z"] = np.concatenate(state.draws.Z, axis=1)
        return arrays, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State | FilterState:
        from thali.kernels.masked_particle_rows import MaskedParticles
        from thali.kernels.particle_rows import Particles

        if model.structure == PARTITIONS:
            return clusters.from_arrays(model, data, arrays, numbers)
        hyper = {k.removeprefix("hyper_"): v for k, v in arrays.items() if k.startswith("hyper_")}
        whole = (hyper, arrays["log_weights"], numbers["log_evidence"], numbers["row"])
        gaps = gaps_of(data)
        if "draws_Z" not in arrays:
            kind = Particles if gaps is None else MaskedParticles
            particles = kind(*(arrays[f"particles_{f}"] for f in kind._fields))
            genealogy = Genealogy.from_arrays(arrays)
            return State(model, data, particles, *whole, genealogy, gaps=gaps)
        ends = np.cumsum(arrays["draws_k"])
        draws = Draws(
            np.split(arrays["draws_Z"], ends[:-1], axis=1),
            {name: arrays[f"draws_{name}"] for name in hyper},
            arrays["draws_log_joints"],
        )
        return State(model, data, zero_particles(0, 0, data.d), *whole, draws=draws, gaps=gaps)


def gaps_of(data: Data) -> Gaps | None:
    """The data by groups of columns, where entries are missing."""
    return None if data.observed is None else Gaps.of(data)


# ---- hyperparameters --------------------------------------------------------------------------


def draw_numbers(
    rng: np.random.Generator, hyperprior: Hyperprior, guess: float | None, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws from a hyperprior, half of them from a bell around a guess, and log p/q of each.

    q = p/2 + bell/2 ≥ p/2, so that no weight exceeds 2.
    """
    values = np.array([hyperprior.sample(rng) for _ in range(count)])
    if guess is None:
        return values, np.zeros(count)
    near = guess * np.exp(BELL * rng.standard_normal(count))
    values = np.where(rng.random(count) < 0.5, near, values)
    log_p = np.array([hyperprior.log_density(value) for value in values])
    apart = (np.log(values) - np.log(guess)) / BELL
    log_bell = -0.5 * apart**2 - np.log(BELL * np.sqrt(2.0 * np.pi)) - np.log(values)
    return values, log_p - (np.logaddexp(log_p, log_bell) - np.log(2.0))
