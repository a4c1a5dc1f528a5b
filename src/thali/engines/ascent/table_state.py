r"""Where the optimization of a table with columns of any kind is: q(Y) beside q(rows), q(features).

The data that rows and features see are X' = (E[Y] − b)/σ, made anew whenever q(Y), b or σ change;
what the table shows of Y stays. A global step ends with q(Y) at its best, so that for each entry
the bound has log P(x | v), v the mean of its latent, less half the variance of W A there.

The global step goes around a few times: bias, noise, σ_a and features given q(Y), then cutpoints
and q(Y) given these. A round costs as much as a pass over the rows.
"""

from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from thali.backends.block import Block
from thali.backends.rows import BLOCK, pieces_of
from thali.data import Data
from thali.engines.ascent.bound import best_scale
from thali.engines.ascent.state import State
from thali.engines.base import inferred
from thali.likelihoods.latent_draws import Shown
from thali.likelihoods.latent_moments import (
    LatentMoments,
    Units,
    begin_moments,
    climb_cutpoints,
    expect,
    in_units,
    log_density_of_cutpoints,
)
from thali.likelihoods.table import TableLikelihood, cutpoints_of, is_auto
from thali.structures.statistics import Statistics

ROUNDS = 2  # of features given latents, and latents given features


@dataclass
class TableState(State):
    """A state whose data are latents; ``data`` is X' of the present q(Y), bias and noise."""

    data: Block
    shown: Shown | None = None
    latents: LatentMoments | None = None

    @classmethod
    def begun(cls, state: State, data: Data, dtype: str) -> Self:
        """A state of these data with the parts of another, and the q(Y) that belongs to them."""
        likelihood = cast(TableLikelihood, state.model.likelihood)
        shown, latents = Shown.of(likelihood.known, data), begin_moments(likelihood.known, data)
        empty = Block(np.zeros((0, data.d), dtype), data.observed, np.zeros(0))
        parts = vars(state) | {"data": empty}
        made = cls(**parts, shown=shown, latents=latents)
        made.see_latents()
        return made

    @property
    def likelihood(self) -> TableLikelihood:
        return cast(TableLikelihood, self.model.likelihood)

    @property
    def sigmas(self) -> tuple[float, float]:
        """In units of the noise."""
        return 1.0, self.scales["sigma_a"]

    @property
    def known(self) -> tuple[Shown, LatentMoments]:
        assert self.shown is not None
        assert self.latents is not None
        return self.shown, self.latents

    def only(self, order: np.ndarray) -> Self:
        """The rows go along, since q(Y) is made of them."""
        return replace(super().only(order), rows=self.rows.taken(order))

    def fit_globals(self, found: Statistics, hold: bool = False) -> Statistics:
        """Frequencies, α, bias, noise, features, σ_a, cutpoints and q(Y) given the rows."""
        self.fit_prior(found)
        for _ in range(ROUNDS):
            found = self.fit_units(found, hold)
            self.features = self.features.updated(found, *self.sigmas)
            self.fit_scale(hold)
            self.features = self.features.updated(found, *self.sigmas)
            self.fit_cutpoints()
            found = self.fit_latents(found)
        return found

    def fit_units(self, found: Statistics, hold: bool = False) -> Statistics:
        """Bias and noise, features at their best for them; the statistics in the new units."""
        old, (_, latents) = Units.of(self.likelihood, self.scales, hold), self.known
        if old.fixed:
            return found
        m = self._sums_of_rows()
        T = found.T * old.noise + old.biases * m.T
        new = old.updated(latents, found.C, T, m, self.sigmas[1] ** -2)
        self.scales["noise"], self.scales["biases"] = new.noise, new.biases
        T, squares = in_units(found, latents, m, old, new)
        self._see(latents, new)
        return replace(found, T=T, squares=squares)

    def fit_scale(self, hold: bool = False) -> None:
        """σ_a given the features."""
        hyperprior = inferred(self.likelihood).get("sigma_a")
        if hyperprior is not None and not hold:
            (squares, _), size = self.features.of_scale(), float(self.features.phi.size)
            now = self.scales["sigma_a"]
            self.scales["sigma_a"] = best_scale(hyperprior, squares, size, now)

    def fit_cutpoints(self) -> None:
        """Cutpoints given the means of latents; q(Y) must be made anew after it."""
        shown, _ = self.known
        if is_auto(self.likelihood.cutpoints) and shown.ordered:
            center = self._center(slice(0, self.rows.n))
            self.scales["cutpoints"] = climb_cutpoints(shown, center, self.scales)

    def fit_latents(self, found: Statistics) -> Statistics:
        """q(Y) given all else, and the statistics with it."""
        self.see_latents()
        T = np.zeros(found.T.shape)
        for piece in pieces_of(self.rows.n, BLOCK):
            T += self.data.part(piece).cross(self.rows.part(piece).weights())
        return replace(found, T=T, squares=float(self.data.squares.sum()))

    def see_latents(self) -> None:
        """q(Y) given all else."""
        (shown, before), units = self.known, Units.of(self.likelihood, self.scales)
        zero = np.zeros(len(units.noise))
        latents = replace(before, Y=np.zeros(before.Y.shape), spread=zero, entropy=zero.copy())
        for piece in pieces_of(self.rows.n, BLOCK):
            center = self._center(piece)
            expect(shown, piece, center, units.noise, cutpoints_of(self.scales), latents)
        self.latents = latents
        self._see(latents, units)

    def value(self, found: Statistics) -> float:
        """The bound, with the log densities of all that is a number and inferred."""
        (shown, latents), units = self.known, Units.of(self.likelihood, self.scales)
        value = super().value(found) + latents.gain(units.noise) + units.log_density()
        if is_auto(self.likelihood.cutpoints):
            value += log_density_of_cutpoints(shown, cutpoints_of(self.scales))
        return value

    def _center(self, rows: slice) -> np.ndarray:
        """The means of latents, b + σ E[W]E[A]."""
        W, own = self.rows.part(rows).weights(), self.scales
        return np.asarray(W @ self.features.phi * own["noise"] + own["biases"])

    def _sums_of_rows(self) -> np.ndarray:
        """Σ E[w] over the rows seen of each column, (L, K)."""
        mask, total = self.data.mask, np.zeros((self.features.phi.shape[1], self.k))
        for piece in pieces_of(self.rows.n, BLOCK):
            W = self.rows.part(piece).weights()
            total += W.sum(axis=0) if mask is None else mask[piece].T.astype(float) @ W
        return total

    def _see(self, latents: LatentMoments, units: Units) -> None:
        """X' in these units."""
        X = latents.inside(units.noise, units.biases).astype(self.data.X.dtype, copy=False)
        squares = np.einsum("nl,nl->n", X, X, dtype=float)
        self.data = Block(X, self.data.mask, squares)
