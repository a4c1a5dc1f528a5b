"""Engines: how a model's state is walked or optimized (one file an engine).

The registry imports them when one is first asked for: they are a third of the library.
"""

from typing import TYPE_CHECKING

from thali.registry import ENGINES

__all__ = [
    "BeamSearch",
    "CollapsedGibbs",
    "DirectAssignment",
    "Franchise",
    "MaximizationExpectation",
    "Metropolis",
    "ParticleFilter",
    "UncollapsedGibbs",
    "Variational",
]

if TYPE_CHECKING:
    from thali.engines.beam_search import BeamSearch
    from thali.engines.collapsed_gibbs import CollapsedGibbs
    from thali.engines.direct_assignment import DirectAssignment
    from thali.engines.franchise import Franchise
    from thali.engines.maximization_expectation import MaximizationExpectation
    from thali.engines.metropolis import Metropolis
    from thali.engines.particle_filter import ParticleFilter
    from thali.engines.uncollapsed_gibbs import UncollapsedGibbs
    from thali.engines.variational import Variational
else:

    def __getattr__(name):
        for engine in ENGINES.values() if name in __all__ else ():
            if engine.__name__ == name:
                return engine
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
