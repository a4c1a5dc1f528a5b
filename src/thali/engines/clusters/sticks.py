r"""Sticks of a partition prior under q, and the prior's hyperparameters.

    v_k ~ Beta(1 − d, α + k d),  π_k = v_k ∏_{j<k} (1 − v_j);      q(v_k) = Beta(τ_k1, τ_k2)
    τ_k1 = 1 − d + N_k,   τ_k2 = E[α] + k d + N_{>k}               N_{>k} = Σ_{j>k} N_j

q puts no row in clusters beyond the K that it has, and sticks beyond have their prior (nested
truncation, Kurihara, Welling and Vlassis 2007): what follows bounds the evidence of the whole
process, whatever K, so that K may change from step to step.

The mass of a Dirichlet process with a gamma hyperprior has a q(α) of its own,
Gamma(a + K, b − Σ_k E[log(1 − v_k)]). Other inferred hyperparameters are numbers, at which bound
and log hyperprior together are highest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, cast

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaln

from thali.engines.base import inferred
from thali.hyperparameters import Gamma, Hyperprior, Values
from thali.priors.partition import BreaksSticks
from thali.priors.pitman_yor import DirichletProcess

ROUNDS = 5  # of τ and q(α) in turn
REACH = 4.0  # how far a step goes on the scale of logarithms, or of log odds, to either side


class MassLaw(NamedTuple):
    """q(α)."""

    shape: float
    rate: float


@dataclass(frozen=True)
class Sticks:
    """q(v), q(α) where it is gamma, and the prior with numbers for its hyperparameters.

    ``values`` are those numbers; that of α is its mean where it has a distribution.
    """

    prior: BreaksSticks
    values: dict[str, float]
    tau: np.ndarray
    mass: MassLaw | None = None

    @classmethod
    def of(cls, prior: BreaksSticks, values: Values) -> Self:
        """No stick yet."""
        own = {name: float(values[name]) for name in prior.start()}
        gamma = isinstance(prior, DirichletProcess) and isinstance(prior.alpha, Gamma)
        law = MassLaw(own["alpha"], 1.0) if gamma else None
        return cls(prior, own, np.zeros((0, 2)), law)

    def updated(self, counts: np.ndarray) -> Self:
        """The best τ and q(α), in turn, given how many rows clusters have."""
        found = replace(self, tau=self._best_tau(counts))
        if self.mass is None:
            return found
        hyperprior = cast(Gamma, cast(DirichletProcess, self.prior).alpha)
        for _ in range(ROUNDS):
            rate = hyperprior.rate - found.log_means()[1].sum()
            law = MassLaw(hyperprior.shape + len(counts), float(rate))
            found = replace(found, mass=law, values={"alpha": law.shape / law.rate})
            found = replace(found, tau=found._best_tau(counts))
        return found

    def with_numbers(self, counts: np.ndarray) -> Sticks:
        """The best of those hyperparameters that are numbers and inferred, one after the other."""
        found: Sticks = self
        for name, hyperprior in self._points().items():
            found = found._with_best(name, hyperprior, counts)
        return found

    def value(self, counts: np.ndarray) -> float:
        """What the bound has of sticks and hyperparameters."""
        first, after = self._laws(len(counts)), self._after(counts)
        on, off = self.log_means()
        found = (betaln(*self.tau.T) - betaln(*first.T)).sum()
        found += ((after[:, 0] - self.tau[:, 0]) * on + (after[:, 1] - self.tau[:, 1]) * off).sum()
        for name, hyperprior in self._points().items():
            found += hyperprior.log_density(self.values[name])
        if self.mass is not None:
            shape, rate = self.mass
            log_alpha = digamma(shape) - np.log(rate)
            found += len(counts) * (log_alpha - np.log(shape / rate))
            found -= self._divergence(shape, rate, float(log_alpha))
        return float(found)

    def log_means(self) -> tuple[np.ndarray, np.ndarray]:
        """E[log v] and E[log(1 − v)]."""
        both = digamma(self.tau.sum(axis=1))
        return digamma(self.tau[:, 0]) - both, digamma(self.tau[:, 1]) - both

    def log_weights(self) -> np.ndarray:
        """E[log π_k]."""
        on, off = self.log_means()
        return np.asarray(on + np.cumsum(off) - off)

    def mean_weights(self) -> np.ndarray:
        """E[π_k], and the expected weight of all clusters beyond, (K + 1,)."""
        return mean_weights(self.tau)

    # parts

    def _laws(self, k: int) -> np.ndarray:
        return self.prior.at(**self.values).sticks(k)

    def _after(self, counts: np.ndarray) -> np.ndarray:
        beyond = counts[::-1].cumsum()[::-1] - counts
        return self._laws(len(counts)) + np.column_stack([counts, np.maximum(beyond, 0.0)])

    def _best_tau(self, counts: np.ndarray) -> np.ndarray:
        return self._after(counts)

    def _points(self) -> dict[str, Hyperprior]:
        """The inferred hyperparameters that are numbers."""
        return {} if self.mass is not None else inferred(self.prior)

    def _with_best(self, name: str, hyperprior: Hyperprior, counts: np.ndarray) -> Sticks:
        chance = hyperprior.probability

        def at(u: float) -> Sticks:
            value = float(1.0 / (1.0 + np.exp(-u)) if chance else np.exp(u))
            other = replace(self, values=self.values | {name: value})
            return replace(other, tau=other._best_tau(counts))

        here = self.values[name]
        middle = float(np.log(here) - (np.log1p(-here) if chance else 0.0))
        u = best_number(lambda u: at(u).value(counts), middle)
        return self if u is None else at(u)

    def _divergence(self, shape: float, rate: float, log_alpha: float) -> float:
        """KL(q(α) ‖ p(α))."""
        hyperprior = cast(Gamma, cast(DirichletProcess, self.prior).alpha)
        a, b = hyperprior.shape, hyperprior.rate
        own = shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * log_alpha - shape
        theirs = a * np.log(b) - gammaln(a) + (a - 1.0) * log_alpha - b * shape / rate
        return float(own - theirs)


def best_number(value: Callable[[float], float], middle: float) -> float | None:
    """Where a function is highest within ``REACH`` of a number; None where it is highest there."""
    low, high = max(middle - REACH, -30.0), min(middle + REACH, 30.0)
    found = minimize_scalar(lambda u: -value(u), bounds=(low, high), method="bounded")
    return float(found.x) if -found.fun > value(middle) else None


def mean_weights(tau: np.ndarray) -> np.ndarray:
    """E[π_k] of sticks with q(v_k) = Beta(τ_k), and what is left beyond, (K + 1,).

    >>> mean_weights(np.array([[1.0, 1.0], [1.0, 2.0]])).round(4).tolist()
    [0.5, 0.1667, 0.3333]
    """
    v = tau[:, 0] / tau.sum(axis=1)
    left = np.cumprod(np.append(1.0, 1.0 - v))
    return np.append(v * left[:-1], left[-1])
