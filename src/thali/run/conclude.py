"""How a run ends: what is kept of its chains, for each kind of engine."""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from thali.data import Data
from thali.engines.base import BoundOptimizer, Sampler, Search, WeightedSampler
from thali.model import Model
from thali.results.trace import Kept
from thali.run.checkpoints import Chain

Extra = dict[str, np.ndarray]


@singledispatch
def conclude(engine: object, model: Model, data: Data, chains: Sequence[Chain]) -> Extra:
    """Keep what the engine ends with in the chains' traces; return what only its kind has."""
    raise TypeError(f"{type(engine).__name__} is no kind of engine that a run knows.")


@conclude.register(Sampler)
def _(engine: Sampler[object], model: Model, data: Data, chains: Sequence[Chain]) -> Extra:
    """A chain that was stopped in its burn-in keeps the later half of what it did."""
    for chain in chains:
        if not chain.trace.kept:
            chain.trace.keep_later_half(Kept(*engine.value_kept(model, chain.state)))
    return {}


@conclude.register(WeightedSampler)
def _(engine: WeightedSampler[object], model: Model, data: Data, chains: Sequence[Chain]) -> Extra:
    for chain in chains:
        chain.trace.keep_population(engine.population(chain.rng, model, data, chain.state))
    return {}


@conclude.register(BoundOptimizer)
def _(engine: BoundOptimizer[object], model: Model, data: Data, chains: Sequence[Chain]) -> Extra:
    """The restart with the highest bound, and draws of it with its record."""
    best = max(chains, key=lambda chain: chain.trace.scalars[-1][1])
    best.trace.keep_population(engine.population(best.rng, model, data, best.state))
    return engine.params(model, best.state)


@conclude.register(Search)
def _(engine: Search[object], model: Model, data: Data, chains: Sequence[Chain]) -> Extra:
    """The best answer alone, and what all restarts together know of it."""
    for chain in chains:
        chain.trace.keep_population(engine.population(chain.rng, model, data, chain.state))
    best, known = engine.together(model, [chain.state for chain in chains])
    for chain in (*chains[:best], *chains[best + 1 :]):  # nothing but the record of their steps
        trace = chain.trace
        trace.kept_at, trace.kept, trace.weights, trace.population = [], [], [], []
    return known
