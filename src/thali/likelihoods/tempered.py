r"""Likelihoods that can be let in by degrees, from β = 0 (nothing is seen) to β = 1 (all is).

A path of targets P(Z) P(parameters | Z) f_β with f_0 = 1 and f_1 = P(X | Z, parameters), each of
which the same steps leave invariant at other numbers. For Gaussian noise f_β = N(X; μ, σ_x²)^β,

    N(x; μ, σ²)^β = N(x; μ, σ²/β) · (2πσ²/β)^{1/2} (2πσ²)^{−β/2},

so that the noise falls from ∞ to σ_x. Annealed importance sampling goes along such a path. So do
steps that lead a start from where next to nothing is worth a feature (``starts/anneal``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.gibbs_updates import GibbsState, GibbsUpdates

Densities = Callable[[Values], float]  # a log density by the likelihood's hyperparameters
Cooling = Callable[[float], dict[str, float]]  # numbers by the share of the way that was gone


class AtTemperature(NamedTuple):
    """The numbers at which steps leave the target of β invariant, and log f_β less the log density
    at these numbers."""

    hyper: dict[str, float]
    log_factor: float


class Tempered(GibbsUpdates):
    """There is a path of targets from the prior to the posterior, with steps all along it."""

    @abstractmethod
    def tempered(self, data: Data, hyper: Values, beta: float) -> AtTemperature:
        """What stands for β, 0 < β ≤ 1, at these hyperparameters."""

    @abstractmethod
    def cooling(self, data: Data, hyper: Values) -> Cooling:
        """The way from where next to nothing is worth a feature, at share 0, to these numbers, at
        share 1: those that stand for a β that rises to 1."""

    def log_densities(self, data: Data, state: GibbsState) -> Densities:
        """log P(X_obs, parameters | Z) of a state, by the hyperparameters.

        Parameters that can be integrated out given the others are not among them.
        """
        return lambda hyper: self.log_density(replace(state, data=data, hyper=hyper))

    def redrawn(self, rng: np.random.Generator, data: Data, state: GibbsState) -> Parameters:
        """The parameters, those that ``log_densities`` integrates out drawn anew given the rest and
        what was observed. Needed where the parameters are kept at all."""
        return state.parameters
