"""The hyperparameters of particles: how they move given the rows so far.

Each step leaves its distribution given Z and the rows so far invariant. After which rows they are
made follows from the number of rows alone (``rejuvenation`` says why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from thali.data import Data
from thali.engines.base import inferred
from thali.engines.compiled_laws import scale_law, scale_laws
from thali.engines.filtering.particles import BLOCK, State
from thali.likelihoods.base import Scaled
from thali.likelihoods.gaussian_scales import FINEST
from thali.model import Model
from thali.structures.features import FeatureCounts

if TYPE_CHECKING:
    from thali.kernels.scale_steps import ScaleLaws

GROWTH = 1.1  # of the rows from one step to the next


def move_numbers(rng: np.random.Generator, state: State, afresh: bool) -> None:
    """A step of every inferred hyperparameter of every particle, given the rows so far.

    M and G are made afresh where a scale is inferred, or where that is asked for.
    """
    particles, model, n = state.particles, state.model, state.row
    if inferred(model.prior):
        hyper, none = model.prior_values(state.hyper), np.zeros(0)
        for p, k in enumerate(particles.k):  # microseconds each, and only now and then
            numbers = {name: float(hyper[name][p]) for name in model.labels["prior"]}
            model.prior.resample(rng, numbers, FeatureCounts(n, particles.m[p, :k], none))
            for name, value in numbers.items():
                hyper[name][p] = value
    laws = scale_laws_of(model, state.data)
    if not (afresh or laws.x.inferred or laws.a.inferred):
        return
    seeds = rng.integers(2**63, size=-(-len(state.log_weights) // BLOCK))

    def work(first: int, last: int) -> None:
        own = np.random.default_rng(seeds[first // BLOCK])
        for some in stretches(alive, first, last):  # scales of the others may be no numbers
            state.move_scales(own, laws, *some)

    alive = state.log_weights > -np.inf
    state.in_blocks(work, BLOCK)


def stretches(which: np.ndarray, first: int, last: int) -> list[tuple[int, int]]:
    """Where those that are true begin and end, from ``first`` to ``last``.

    >>> stretches(np.array([False, True, True, False, True]), 0, 5)
    [(1, 3), (4, 5)]
    """
    padded = np.concatenate([[False], which[first:last], [False]])
    edges = (first + np.flatnonzero(padded[1:] != padded[:-1])).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def scale_laws_of(model: Model, data: Data) -> ScaleLaws:
    """How σ_x and σ_a move, and where σ_x is cut off: as in sampling, or where rounding begins."""
    likelihood = cast(Scaled, model.likelihood)
    laws = scale_laws(likelihood, data, fixed=FINEST)
    if laws is None:
        given = (likelihood.sigma_x, likelihood.sigma_a)
        strange = next(each for each in given if scale_law(each) is None)
        raise ValueError(
            f"ParticleFilter infers scales under Gamma or InverseGamma, not {strange}; fix the "
            "scale at a number, or use CollapsedGibbs, which samples under any hyperprior."
        )
    return laws
