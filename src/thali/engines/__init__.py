"""Engines: how a model's state is walked or optimized (one file an engine)."""

from thali.engines.beam_search import BeamSearch
from thali.engines.collapsed_gibbs import CollapsedGibbs
from thali.engines.maximization_expectation import MaximizationExpectation
from thali.engines.particle_filter import ParticleFilter
from thali.engines.uncollapsed_gibbs import UncollapsedGibbs
from thali.engines.variational import Variational
from thali.registry import import_family

import_family(__name__, __path__)

__all__ = [
    "BeamSearch",
    "CollapsedGibbs",
    "MaximizationExpectation",
    "ParticleFilter",
    "UncollapsedGibbs",
    "Variational",
]
