r"""Where an optimization is, and one iteration of it: a local step, then a global one.

Rows and features are of the features in use, the most frequent first; frequencies also of the rest
up to the truncation. A feature that is not in use has ν = 0 and its prior as law, and adds nothing
to the bound but its frequency's part: a law that is allowed, and near the best, whose ν is a little
above zero where a feature drawn from the prior would hardly hurt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from thali.backends.base import PASSES, Backend, Globals, Moments
from thali.backends.block import Block
from thali.backends.local import Local
from thali.backends.rows import Rows
from thali.engines.ascent.bound import best_mass, best_scale, lower_bound
from thali.hyperparameters import Hyperprior
from thali.likelihoods.feature_posteriors import FeaturePosterior, expected_squares
from thali.priors.frequencies import Frequencies
from thali.structures.statistics import Statistics


@dataclass
class State:
    """The laws of rows, features and frequencies, and what the last iteration found."""

    data: Block
    rows: Rows
    features: FeaturePosterior
    frequencies: Frequencies
    hyper: dict[str, float]
    laws: dict[str, Hyperprior]  # of the hyperparameters that are to be found
    least: float = 0.0  # of σ_x, as a share of the data's scale and of σ_a
    hold_sigma: int = 0
    iteration: int = 0
    bound: float = -np.inf
    quiet: int = 0
    finished: bool = False
    found: Statistics | None = None  # of the last iteration
    backend: Backend = field(default_factory=Local)  # where the data are worked on

    @property
    def latent(self) -> np.ndarray:
        """The features more likely than not, those in use."""
        Z = self.rows.nu > 0.5
        return Z[:, Z.any(axis=0)]

    @property
    def k(self) -> int:
        """Features in use."""
        return self.rows.nu.shape[1]

    @property
    def room(self) -> int:
        """How many more there could be."""
        return self.frequencies.k - self.k

    def copy(self) -> Self:
        """A state to try things on; the data are shared."""
        return replace(self, rows=self.rows.copied(), hyper=dict(self.hyper))

    def take(self, order: np.ndarray) -> None:
        """Keep these features, in this order; what follows is not in use."""
        self.rows, self.features = self.rows.taken(order), self.features.taken(order)

    def globals(self, block: Block | None = None) -> Globals:
        """What the rows are given, those of the data or of another block."""
        masked = self.data.masked if block is None else block.masked
        odds = self.frequencies.log_odds()[: self.k]
        return Globals(Moments.of(self.features, masked), odds, self.hyper["sigma_x"])

    def local_step(self, passes: int = PASSES) -> Statistics:
        """The rows' laws given the rest; ``passes=0`` leaves them as they are."""
        found = self.backend.local_step(self.data, self.rows, self.globals(), passes)
        return in_order(self, found)

    def fit_prior(self, found: Statistics) -> None:
        """Frequencies and α given the rows' statistics."""
        hyper, laws = self.hyper, self.laws
        self.frequencies = self.frequencies.updated(found.counts, found.n, hyper["alpha"])
        if "alpha" in laws:
            hyper["alpha"] = best_mass(laws["alpha"], self.frequencies, hyper["alpha"])

    def fit_globals(self, found: Statistics, hold: bool = False) -> None:
        """Frequencies, α, features and scales given the rows' statistics."""
        self.fit_prior(found)
        hyper, laws = self.hyper, self.laws
        self.features = self.features.updated(found, hyper["sigma_x"], hyper["sigma_a"])
        if hold or not laws.keys() & {"sigma_x", "sigma_a"}:
            return
        if "sigma_x" in laws:
            squares = expected_squares(found, self.features)
            sigma = best_scale(laws["sigma_x"], squares, found.entries, hyper["sigma_x"])
            scale = np.sqrt(found.squares / max(found.entries, 1.0))
            hyper["sigma_x"] = max(sigma, self.least * max(scale, hyper["sigma_a"]))
        if "sigma_a" in laws:
            squares, size = self.features.squares(), float(self.features.phi.size)
            sigma = best_scale(laws["sigma_a"], squares, size, hyper["sigma_a"])
            finest = hyper["sigma_x"] / self.least if self.least else np.inf
            hyper["sigma_a"] = min(sigma, finest) if "sigma_x" in laws else sigma
        self.features = self.features.updated(found, hyper["sigma_x"], hyper["sigma_a"])

    def value(self, found: Statistics) -> float:
        """The bound at these laws."""
        return lower_bound(found, self.features, self.frequencies, self.hyper, self.laws)


def iterate(state: State, passes: int = PASSES) -> float:
    """One local and one global step, and the bound after them."""
    found = state.local_step(passes)
    state.fit_globals(found, state.iteration < state.hold_sigma)
    state.iteration += 1
    state.found = found
    state.bound = state.value(found)
    return state.bound


def in_order(state: State, found: Statistics) -> Statistics:
    """Put features in the order of their frequency if the bound gains by it."""
    order = np.argsort(-found.counts, kind="stable")
    if not state.frequencies.ordered or (order == np.arange(len(order))).all():
        return found
    alpha, n = state.hyper["alpha"], found.n
    before, after = found.counts, found.counts[order]
    now = state.frequencies.updated(before, n, alpha)
    then = now.updated(after, n, alpha)
    if then.gain(after, n, alpha) <= now.gain(before, n, alpha):
        return found
    state.take(order)
    state.frequencies = then
    return found.taken(order)
