r"""What the entries of a table say of their latents Y ~ N(v, σ²), and draws of Y that agree.

Numbers, counts and yes or no have bounds, low ≤ y ≤ high, equal where the latent is known. Ordered
levels have edges between them, −∞, 0, c_1, …, ∞; of other levels the one seen has the largest
latent. Then, with the latents integrated out,

    log P(X | v, σ) = Σ log N(y; v, σ²) + Σ log P(low < y < high) + Σ log P(level) − Σ log dx/dy

the last over numbers, which are measured in other units than their latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thali.data import Data
from thali.likelihoods.latent_columns import Layout

GAPS = 2.0, 2.0  # the gaps between cutpoints are Gamma with this shape and rate


class Ordered(NamedTuple):
    """An ordinal column: its latent, where its cutpoints are, and its rows' levels, −1 for none."""

    latent: int
    own: slice
    level: np.ndarray


class Unordered(NamedTuple):
    """A column with a latent for each level, from ``first`` to ``end``, and its rows' levels."""

    first: int
    end: int
    level: np.ndarray


@dataclass(frozen=True)
class Shown:
    """What a table shows of its latents, (N, L)."""

    low: np.ndarray  # NaN in columns with levels, ordered or not
    high: np.ndarray
    ordered: tuple[Ordered, ...]
    unordered: tuple[Unordered, ...]
    log_units: float  # Σ log dx/dy over numbers that are known

    @classmethod
    def of(cls, layout: Layout, data: Data) -> Shown:
        """Made once for the same data."""
        return data.once(("shown", layout), lambda: cls.made(layout, data.X))

    @classmethod
    def made(cls, layout: Layout, X: np.ndarray) -> Shown:
        """Of rows with a column for each latent."""
        low, high = layout.bounds(X)
        ordered = [
            Ordered(j, own, np.where(np.isnan(X[:, j]), -1.0, X[:, j]).astype(np.int64))
            for j, own, _ in layout.ordinal
        ]
        unordered = [
            Unordered(int(layout.first[d]), int(layout.first[d + 1]), layout.levels(X, d))
            for d in layout.leveled
        ]
        low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
        return cls(low, high, tuple(ordered), tuple(unordered), layout.log_units(X, low == high))

    def draw(
        self,
        rng: np.random.Generator,
        mean: np.ndarray,
        noise: np.ndarray,
        cutpoints: np.ndarray,
        Y: np.ndarray,
    ) -> None:
        """Latents given their means, into Y; those of levels may be drawn one by one, given Y."""
        from thali.kernels.latent_columns import draw_between, draw_levels, draw_ordinal

        draw_between(rng, mean, noise, self.low, self.high, Y)
        for one in self.ordered:
            draw_ordinal(rng, mean, one.latent, one.level, edges_of(cutpoints[one.own]), Y)
        for column in self.unordered:
            draw_levels(rng, mean, column.level, column.first, column.end, Y)

    def log_density(self, mean: np.ndarray, noise: np.ndarray, cutpoints: np.ndarray) -> float:
        """log P of what is shown, latents integrated out."""
        from thali.kernels.latent_columns import log_between, log_levels, log_ordinal

        found = log_between(mean, noise, self.low, self.high) - self.log_units
        for one in self.ordered:
            found += log_ordinal(mean, one.latent, one.level, edges_of(cutpoints[one.own]))
        for column in self.unordered:
            found += log_levels(mean, column.level, column.first, column.end)
        return float(found)

    def draw_cutpoints(
        self, rng: np.random.Generator, mean: np.ndarray, cutpoints: np.ndarray
    ) -> np.ndarray:
        """Gaps between the cutpoints of ordinal columns, one by one, latents integrated out."""
        from thali.kernels.latent_columns import draw_edges

        found = np.array(cutpoints)
        for one in self.ordered:
            edges = edges_of(found[one.own])
            draw_edges(rng, mean, one.latent, one.level, edges, *GAPS)
            found[one.own] = edges[2:-1]
        return found


def edges_of(cutpoints: np.ndarray) -> np.ndarray:
    """−∞, 0, the cutpoints, ∞."""
    return np.concatenate([[-np.inf, 0.0], cutpoints, [np.inf]])


def chances_of_levels(mean: np.ndarray) -> np.ndarray:
    """P(latent r is the largest) of independent N(mean_r, 1), over the last axis."""
    from thali.kernels.latent_columns import level_chances

    rows = np.ascontiguousarray(mean, float).reshape(-1, mean.shape[-1])
    found = np.empty(rows.shape)
    level_chances(rows, found)
    return found.reshape(mean.shape)
