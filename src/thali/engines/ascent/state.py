r"""Where an optimization is, and one iteration of it: a local step, then a global one.

Rows and features are of the features in use, the most frequent first; frequencies also of the rest
up to the truncation. A feature that is not in use has ν = 0 and its prior as q, and adds nothing to
the bound but its frequency's part: a q that is allowed, and near the best, whose ν is a little
above zero where a feature drawn from the prior would hardly hurt.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from thali.backends.base import PASSES, Backend, Globals, Moments
from thali.backends.far import AnyBlock
from thali.backends.local import Local
from thali.backends.rows import Rows
from thali.engines.ascent.bound import best_mass, best_scale, log_fit
from thali.engines.ascent.counts import Counts
from thali.engines.base import inferred
from thali.hyperparameters import Values
from thali.likelihoods.feature_posteriors import FeaturePosterior, expected_squares
from thali.model import Model
from thali.priors.frequencies import Frequencies
from thali.structures.statistics import Statistics


@dataclass
class AscentState(ABC):
    """q of rows, features and frequencies, and what the last iteration found.

    ``hyper`` is the model's table of numbers; its parts' own are ``prior_hyper`` and ``scales``.
    """

    data: AnyBlock
    rows: Rows
    features: FeaturePosterior
    frequencies: Frequencies | Counts  # or the prior with these integrated out
    hyper: Values
    model: Model
    least: float = 0.0  # of σ_x, as a share of the data's scale and of σ_a
    hold_sigma: int = 0
    iteration: int = 0
    bound: float = -np.inf
    quiet: int = 0
    births: int = 0  # tries of new features in a row that were kept
    finished: bool = False
    found: Statistics | None = None  # of the last iteration
    backend: Backend = field(default_factory=Local)  # where the data are worked on

    @property
    def latent(self) -> np.ndarray:
        """The features more likely than not, those in use."""
        Z = self.rows.nu > 0.5
        return Z[:, Z.any(axis=0)]

    @property
    def reported(self) -> float:
        """The bound as people are told it, which no step lowers."""
        return self.bound

    def reported_of(self, order: np.ndarray) -> float:
        """The same of a state of ``only`` these features, whose rows are those of all."""
        return self.bound

    def advance(self) -> None:
        """An iteration that does not lower what is reported."""
        iterate(self)

    @property
    def k(self) -> int:
        """Features in use."""
        return self.rows.k

    @property
    def room(self) -> int:
        """How many more there could be."""
        return self.frequencies.k - self.k

    @property
    def prior_hyper(self) -> Values:
        """The prior's own hyperparameters: what is written here is written to ``hyper``."""
        return self.model.prior_values(self.hyper)

    @property
    def alpha(self) -> float:
        """The prior's mass; not a number where it has none, and then nothing reads it."""
        return float(self.prior_hyper.get("alpha", np.nan))

    @property
    def scales(self) -> Values:
        """The likelihood's own hyperparameters: what is written here is written to ``hyper``."""
        return self.model.likelihood_values(self.hyper)

    @property
    def sigmas(self) -> tuple[float, float]:
        """σ_x and σ_a."""
        return self.scales["sigma_x"], self.scales["sigma_a"]

    def copy(self) -> Self:
        """A state to try things on; the data are shared."""
        return replace(self, rows=self.rows.copied(), hyper=dict(self.hyper))

    def only(self, order: np.ndarray) -> Self:
        """A state to try with these features only; its rows are still those of all features, which
        are large, and few trials are kept."""
        assert self.found is not None
        found = self.found.taken(order)
        features = self.features.taken(order)
        return replace(self, features=features, found=found, hyper=dict(self.hyper))

    def take(self, order: np.ndarray) -> None:
        """Keep these features, in this order; what follows is not in use."""
        self.rows, self.features = self.rows.taken(order), self.features.taken(order)

    @abstractmethod
    def local_step(self, passes: int = PASSES) -> Statistics:
        """The rows given the rest; ``passes=0`` leaves them as they are."""

    @abstractmethod
    def fit_prior(self, found: Statistics) -> None:
        """The prior's part and its hyperparameters given the rows' statistics."""

    def row_draws(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Bits, packed along the rows, and amounts drawn from q(rows), without end; of a q that is
        a point, itself."""
        bits = np.packbits(self.rows.nu > 0.5, axis=0)
        while True:
            yield bits, None

    def fit_globals(self, found: Statistics, hold: bool = False) -> Statistics:
        """Frequencies, α, features and scales given the rows' statistics.

        Returns these, which are others where the data that rows see are latents.
        """
        self.fit_prior(found)
        scales, hyperpriors = self.scales, inferred(self.model.likelihood)
        self.features = self.features.updated(found, *self.sigmas)
        if hold or not hyperpriors.keys() & {"sigma_x", "sigma_a"}:
            return found
        if "sigma_x" in hyperpriors:
            left = expected_squares(found, self.features)
            sigma = best_scale(hyperpriors["sigma_x"], left, found.entries, scales["sigma_x"])
            scale = np.sqrt(found.squares / max(found.entries, 1.0))
            scales["sigma_x"] = max(sigma, self.least * max(scale, scales["sigma_a"]))
        if "sigma_a" in hyperpriors:
            (squares, total), size = self.features.of_scale(), float(self.features.phi.size)
            sigma = best_scale(hyperpriors["sigma_a"], squares, size, scales["sigma_a"], total)
            finest = scales["sigma_x"] / self.least if self.least else np.inf
            scales["sigma_a"] = min(sigma, finest) if "sigma_x" in hyperpriors else sigma
        self.features = self.features.updated(found, *self.sigmas)
        return found

    def value(self, found: Statistics) -> float:
        """The bound, with the log densities of the hyperparameters that have hyperpriors."""
        prior = self.frequencies.gain(found.counts, found.n, self.alpha)
        value = log_fit(found, self.features, *self.sigmas) + prior + float(found.gain.sum())
        hyperpriors = self.model.hyperpriors.items()
        return float(value + sum(each.log_density(self.hyper[name]) for name, each in hyperpriors))


@dataclass
class State(AscentState):
    """Mean-field: q(z_nk) is any coin, and features have frequencies."""

    frequencies: Frequencies

    def globals(self, block: AnyBlock | None = None) -> Globals:
        """What the rows are given, those of the data or of another block."""
        masked = self.data.masked if block is None else block.masked
        odds = self.frequencies.log_odds()[: self.k]
        return Globals(Moments.of(self.features, masked), odds, self.sigmas[0])

    def local_step(self, passes: int = PASSES) -> Statistics:
        """The rows given the rest; ``passes=0`` leaves them as they are."""
        found = self.backend.local_step(self.data, self.rows, self.globals(), passes)
        return in_order(self, found)

    def fit_prior(self, found: Statistics) -> None:
        """Frequencies and α given the rows' statistics."""
        self.frequencies = self.frequencies.updated(found.counts, found.n, self.alpha)
        hyperpriors = inferred(self.model.prior)
        if "alpha" in hyperpriors:
            best = best_mass(hyperpriors["alpha"], self.frequencies, self.alpha)
            self.prior_hyper["alpha"] = best

    def row_draws(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Bits, packed along the rows, and amounts drawn from q(rows), without end."""
        if self.rows.point:
            yield from super().row_draws(rng)
        given = self.globals()
        while True:
            yield self.backend.draw_rows(rng, self.data, self.rows, given)


def iterate(state: AscentState, passes: int = PASSES) -> float:
    """One local and one global step, and the bound after them."""
    found = state.local_step(passes)
    found = state.fit_globals(found, state.iteration < state.hold_sigma)
    state.iteration += 1
    state.found = found
    state.bound = state.value(found)
    return state.bound


def in_order(state: State, found: Statistics) -> Statistics:
    """Put features in the order of their frequency if the bound gains by it."""
    order = np.argsort(-found.counts, kind="stable")
    if not state.frequencies.ordered or (order == np.arange(len(order))).all():
        return found
    alpha, n = state.alpha, found.n
    before, after = found.counts, found.counts[order]
    now = state.frequencies.updated(before, n, alpha)
    then = now.updated(after, n, alpha)
    if then.gain(after, n, alpha) <= now.gain(before, n, alpha):
        return found
    state.take(order)
    state.frequencies = then
    return found.taken(order)
