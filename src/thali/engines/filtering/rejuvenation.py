r"""Rows that particles have seen, looked at again by a step that leaves their posterior invariant.

A filter lets each row join and is done with it. A feature that a single early row asked for, by its
noise, then stays in every descendant, however little later rows say for it. So after some rows each
particle makes moves on whole columns and a sweep of collapsed Gibbs sampling over all rows so far,
its hyperparameters held (resample-move, Gilks and Berzuini 2001). With S such a step and π the
posterior given the rows so far, πS = π: particles that are weighted for π are so after it, with the
same weights.

After which rows that is follows from their number alone, and not from what the particles are like.
Let h(Z) be the mean of the weights to come of a particle with Z. h and Sh have the same mean under
π and are not the same, so steps that are made only where particles look a certain way would let the
estimate of P(X) err to one side. (Resampling may look at them: it changes no mean.)
"""

from __future__ import annotations

from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, cast

import numpy as np

from thali.data import Data
from thali.engines.collapsed_gibbs import CollapsedGibbs
from thali.engines.features.columns import attempt
from thali.engines.features.planning import moves_every
from thali.engines.features.state import FINEST
from thali.engines.filtering.genealogy import Genealogy
from thali.engines.filtering.particles import BLOCK, State, empty_particles
from thali.priors.base import PredictsRow
from thali.starts import Start
from thali.stopping import stopped
from thali.structures.features import FeatureTables

if TYPE_CHECKING:
    from thali.kernels.masked_particle_rows import MaskedParticles

GROWTH = 1.5  # of the rows from one rejuvenation to the next: all are as three sweeps of all rows


def is_due(row: int, rows: int, growth: float = GROWTH) -> bool:
    """Whether it is after this row of all: the last, and so on back by division, down to one.

    >>> [row for row in range(1, 101) if is_due(row, 100)]
    [1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 45, 67, 100]
    """
    at = rows
    while at > row:
        at = min(at - 1, ceil(at / growth))
    return at == row


def rejuvenate(rng: np.random.Generator, state: State, sweeps: int) -> None:
    """So many sweeps of every particle over the rows so far, or none where a stop is asked for.

    M and G are left to be made afresh.
    """
    if not isinstance(state.model.prior, PredictsRow):
        return
    count, seen = len(state.log_weights), state.data.rows(slice(state.row))
    seeds = rng.integers(2**63, size=-(-count // BLOCK))
    before = list(state.genealogy.matrices(state.particles.k, np.arange(count)))
    sigma_x, sigma_a = state.sigmas
    movable = (state.log_weights > -np.inf) & (sigma_x >= FINEST * sigma_a)  # A is integrated out
    kind = OfComplete if state.gaps is None else OfObserved

    def work(first: int, last: int) -> list[np.ndarray]:
        step, found = kind(np.random.default_rng(seeds[first // BLOCK]), state, seen), []
        for p in range(first, last):
            Z = before[p]
            if movable[p] and not stopped():
                whole = np.unpackbits(Z, axis=0, count=state.row)
                with suppress(ValueError, ZeroDivisionError):  # double precision ends: it stays
                    Z = np.packbits(step.swept(p, whole, sweeps), axis=0)
            found.append(Z)
        return found

    after = [Z for part in state.in_blocks(work, BLOCK) for Z in part]
    if not stopped():
        put(state, after)


class OfComplete:
    """Sweeps over complete rows: compiled code and little else, since they are short and many."""

    def __init__(self, rng: np.random.Generator, state: State, seen: Data) -> None:
        n = state.row
        self.rng, self.state, self.attempts = rng, state, moves_every(seen)
        self.X, self.squares = np.asarray(state.data.reduced[:n]), state.data.squares[:n]
        self.sigmas, self.hyper = state.sigmas, state.model.own_values("prior", state.hyper)
        self.tables: dict[tuple[float, ...], FeatureTables] = {}

    def tables_of(self, p: int) -> FeatureTables:
        """Those of the prior at the particle's numbers, which many particles may share."""
        numbers = {name: float(values[p]) for name, values in self.hyper.items()}
        key = tuple(numbers.values())
        if key not in self.tables:
            prior = cast(PredictsRow, self.state.model.prior.at(**numbers))
            self.tables[key] = prior.tables(self.state.row)
        return self.tables[key]

    def swept(self, p: int, Z: np.ndarray, sweeps: int) -> np.ndarray:
        """Z of particle p after its sweeps."""
        from thali.kernels import collapsed_rows as kernel
        from thali.kernels.gaussian_row import Scales
        from thali.kernels.hyperparameter_steps import ELSEWHERE
        from thali.kernels.maintained_rows import rows_of

        rng, X, k, tables = self.rng, self.X, Z.shape[1], self.tables_of(p)
        sigma_x, sigma_a = (float(each[p]) for each in self.sigmas)
        scales = Scales(sigma_x, sigma_a, float(self.state.data.d))
        # the order of columns tells how old they are, and a sweep wants one that tells nothing
        rows = rows_of(Z[:, rng.permutation(k)], X)
        plan = kernel.Plan(1, 1, False, 0)
        for _ in range(sweeps):
            rows, k = attempt(rng, X, rows, k, tables, scales, self.attempts)
            rows, report, _, _ = kernel.sweeps(
                rng, X, self.squares, None, rows, k, tables, scales, ELSEWHERE, plan, None
            )
            k = int(report.n_components)
            if report.refused >= 0:  # a row wants more new features than a filter would give it
                return Z
        return np.asarray(rows.Z[:, :k])


class OfObserved:
    """Sweeps over rows with gaps, which are filled by draws for a sweep and forgotten again."""

    def __init__(self, rng: np.random.Generator, state: State, seen: Data) -> None:
        self.rng, self.state, self.seen = rng, state, seen
        self.gibbs = CollapsedGibbs(sweeps=1, chains=1)

    def swept(self, p: int, Z: np.ndarray, sweeps: int) -> np.ndarray:
        """Z of particle p after its sweeps."""
        numbers = {name: float(values[p]) for name, values in self.state.hyper.items()}
        model, start = self.state.model.at(numbers), Start("particle", Z.astype(bool), numbers)
        at = self.gibbs.begin(self.rng, model, self.seen, start)
        for _ in range(sweeps):
            self.gibbs.step(self.rng, model, self.seen, at)
        return at.latent


def put(state: State, matrices: list[np.ndarray]) -> None:
    """Let the particles be these matrices, packed: m, C, T, and rows without ancestors."""
    n, gaps = state.row, state.gaps
    widest = max(Z.shape[1] for Z in matrices)
    if widest > state.particles.m.shape[1]:
        groups = 0 if gaps is None else gaps.groups
        shape = len(matrices), widest + widest // 4 + 2, state.particles.T.shape[2]
        state.particles = empty_particles(*shape, groups)
    particles = state.particles
    X = state.data.reduced[:n] if gaps is None else gaps.X[:n]
    for p, packed in enumerate(matrices):
        k, Z = packed.shape[1], np.unpackbits(packed, axis=0, count=n).astype(float)
        particles.k[p] = k
        particles.C[p, :k, :k] = Z.T @ Z
        particles.m[p, :k] = Z.sum(axis=0)
        particles.T[p, :k] = Z.T @ X
        if gaps is not None:
            for g in range(gaps.groups):
                there = Z[gaps.shown[:n, g]]
                cast("MaskedParticles", particles).C_g[p, g, :k, :k] = there.T @ there
    state.genealogy = Genealogy.of(matrices, n)
