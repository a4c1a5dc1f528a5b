"""The distribution of single entries of a table with columns of different kinds.

Each entry belongs to a latent y ~ N(v, σ²) of its column (``latent_columns``). The entries of a
column with levels are their indicators: 1 with the probability of the level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtr

from thali.likelihoods.entries import BinaryEntries, EntryDistribution, NormalEntries
from thali.likelihoods.latent_columns import (
    HALF,
    LEVELED,
    NODES,
    WEIGHTS,
    Layout,
    Link,
    log_between,
)
from thali.likelihoods.latent_draws import chances_of_levels

COUNTED = 40  # counts up to this are summed one by one


@dataclass(frozen=True)
class LatentEntries(EntryDistribution):
    """Entries of ``latent`` columns, the last axis, with means v of latents and their noise."""

    layout: Layout
    latent: np.ndarray  # (entries,)
    v: np.ndarray  # (…, entries)
    sd: np.ndarray  # (…, entries)
    chance: np.ndarray  # (…, entries), of the level; 0 for columns without
    cutpoints: np.ndarray  # (…, C), first axes as of v, or none
    within: bool = False  # whether exponentials end where what was observed ends

    @classmethod
    def of(cls, layout: Layout, mean: np.ndarray, noise: np.ndarray, cutpoints: np.ndarray) -> Self:
        """Of whole rows: all L latents along the last axis."""
        chance = np.zeros(mean.shape)
        for d in layout.leveled:
            own = slice(layout.first[d], layout.first[d + 1])
            chance[..., own] = chances_of_levels(mean[..., own])
        sd = np.broadcast_to(noise, mean.shape)
        return cls(layout, np.arange(layout.n_latents), mean, sd, chance, cutpoints)

    @classmethod
    def some(
        cls,
        layout: Layout,
        mean: np.ndarray,
        noise: np.ndarray,
        cutpoints: np.ndarray,
        where: tuple[np.ndarray, np.ndarray],
    ) -> Self:
        """Those at these rows and latents, of the means of whole rows, (N, L)."""
        rows, latent = (np.asarray(each) for each in where)
        chance = np.zeros(len(rows))
        for d in layout.leveled:
            first, end = layout.first[d], layout.first[d + 1]
            own = np.flatnonzero((latent >= first) & (latent < end))
            asked, place = np.unique(rows[own], return_inverse=True)
            chance[own] = chances_of_levels(mean[asked, first:end])[place, latent[own] - first]
        sd = np.asarray(noise, float)[latent]
        return cls(layout, latent, mean[rows, latent], sd, chance, cutpoints)

    def at(self, where: tuple[np.ndarray, ...]) -> LatentEntries:
        """Those at these rows and columns, of whole rows."""
        latent = np.asarray(where[-1])
        shape = np.broadcast_shapes(*(np.shape(each) for each in where))
        if latent.ndim > 1 or len(shape) > 1:
            if not np.array_equal(latent.ravel(), self.latent):
                raise ValueError("entries: ask for whole rows, or for a list of entries")
            latent = self.latent
        v, sd, chance = (part[where] for part in (self.v, self.sd, self.chance))
        return LatentEntries(self.layout, latent, v, sd, chance, self.cutpoints)

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        one = parts[0]
        v, sd, chance, cutpoints = (
            np.array([getattr(part, name) for part in parts])
            for name in ("v", "sd", "chance", "cutpoints")
        )
        return cls(one.layout, one.latent, v, sd, chance, cutpoints)

    def within_range(self) -> Self:
        """The same, numbers with a long tail taken no farther than what was observed of them."""
        return replace(self, within=True)

    def _by_latent(self) -> Iterator[tuple[int, str, np.ndarray]]:
        """Each latent that there is, its kind, and its entries."""
        for j in np.unique(self.latent):
            yield int(j), str(self.layout.kinds[j]), np.flatnonzero(self.latent == j)

    def _edges(self, j: int) -> np.ndarray:
        """Bounds between the levels of an ordinal column, from 0 on, (…, levels − 1)."""
        own = next(own for latent, own, _ in self.layout.ordinal if latent == j)
        inner = self.cutpoints[..., own]
        zero = np.zeros((*inner.shape[:-1], 1))
        return np.concatenate([zero, inner], axis=-1)

    def _above(self, j: int, at: np.ndarray) -> np.ndarray:
        """P(x > r) for r = 0, 1, … of an ordinal or binary column, (…, entries, levels − 1)."""
        v = self.v[..., at]
        if self.layout.kinds[j] == "binary":
            return ndtr(v)[..., None]
        edges = self._edges(j)
        edges = edges[..., None, :] if edges.ndim > 1 else edges
        return np.asarray(ndtr(v[..., None] - edges))

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.empty(self.v.shape), np.empty(self.v.shape)
        for j, kind, at in self._by_latent():
            v, sd = self.v[..., at], self.sd[..., at]
            m, s = self.layout.m[j], self.layout.s[j]
            if kind == LEVELED:
                p = self.chance[..., at]
                mean[..., at], variance[..., at] = p, p * (1.0 - p)
            elif kind in ("binary", "ordinal"):
                above = self._above(j, at)
                first = above.sum(axis=-1)
                odd = 2.0 * np.arange(above.shape[-1]) + 1.0  # Σ (2r + 1) P(x > r) = E[x²]
                mean[..., at], variance[..., at] = first, above @ odd - first**2
            elif kind == "count":
                moments = count_moments(self.layout.link(j), m + s * v, s * sd, *self._ends(j))
                mean[..., at], variance[..., at] = moments
            elif kind == "positive":
                moments = exponential_moments(m + s * v, s * sd, *self._ends(j))
                mean[..., at], variance[..., at] = moments
            else:
                mean[..., at], variance[..., at] = m + s * v, np.square(s * sd)
        return mean, np.maximum(variance, 0.0)

    def _ends(self, j: int) -> tuple[float, float]:
        """The ends of what t may be, where an exponential makes the column of it."""
        d, free = self.layout.column[j], not self.within or not self.layout.links
        if free or self.layout.links[d] != "log":
            return -np.inf, np.inf
        return self.layout.least[d], self.layout.most[d]

    @property
    def mean(self) -> np.ndarray:  # type: ignore[override]
        return self._moments[0]

    @property
    def variance(self) -> np.ndarray:
        return self._moments[1]

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Whole rows: of a column with levels one of them is 1."""
        layout = self.layout
        if not np.array_equal(self.latent, np.arange(layout.n_latents)):
            raise ValueError("draw: levels of a column are drawn together, for whole rows")
        y = self.v + self.sd * rng.standard_normal(self.v.shape)
        X = np.empty(y.shape)
        for j, kind, _ in self._by_latent():
            m, s = layout.m[j], layout.s[j]
            if kind == "binary":
                X[..., j] = y[..., j] > 0.0
            elif kind == "ordinal":
                X[..., j] = (y[..., j, None] > self._edges(j)).sum(axis=-1)
            elif kind != LEVELED:
                X[..., j] = self._own(j, kind, m + s * y[..., j])
        for d in layout.leveled:
            own = slice(layout.first[d], layout.first[d + 1])
            largest = y[..., own].argmax(axis=-1)
            X[..., own] = largest[..., None] == np.arange(layout.width[d])
        return X

    def _own(self, j: int, kind: str, t: np.ndarray) -> np.ndarray:
        """Latents in the column's own values."""
        x = self.layout.link(j).to_number(np.clip(t, *self._ends(j)))
        return np.floor(x) if kind == "count" else x

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Of an indicator the log probability where it is 1, and nothing where it is 0: the levels
        of a column are one entry."""
        values = np.asarray(values, float)
        found = np.empty(np.broadcast_shapes(values.shape, self.v.shape))
        values = np.broadcast_to(values, found.shape)
        for j, kind, at in self._by_latent():
            x, v, sd = values[..., at], self.v[..., at], self.sd[..., at]
            m, s, column = (
                self.layout.m[j],
                self.layout.s[j],
                self.layout.columns[self.layout.column[j]],
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                if kind == LEVELED:
                    log = np.where(x > 0.5, np.log(self.chance[..., at]), 0.0)
                elif kind == "binary":
                    log = log_between(np.where(x > 0.5, -v, -np.inf), np.where(x > 0.5, np.inf, -v))
                elif kind == "ordinal":
                    log = self._log_level(j, x, v)
                elif kind == "count":
                    to_latent = self.layout.link(j).to_latent
                    low, high = ((to_latent(x + i) - m) / s for i in (0.0, 1.0))
                    log = log_between((low - v) / sd, (high - v) / sd)
                else:
                    t = np.log(x) if kind == "positive" else x
                    e = ((t - m) / s - v) / sd
                    log = -0.5 * np.square(e) - np.log(sd * s) - 0.5 * np.log(2.0 * np.pi)
                    log = log - t if kind == "positive" else log
                    if kind == "censored":
                        beyond = log_between(e, np.full(e.shape, np.inf))
                        below = log_between(np.full(e.shape, -np.inf), e)
                        log = np.where(x >= column.high, beyond, log)
                        log = np.where(x <= column.low, below, log)
            found[..., at] = log
        return found

    def _log_level(self, j: int, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        edges = self._edges(j)
        ends = np.full((*edges.shape[:-1], 1), np.inf)
        edges = np.concatenate([-ends, edges, ends], axis=-1)
        level = np.clip(x, 0, edges.shape[-1] - 2).astype(np.int64)
        if edges.ndim == 1:
            return log_between(edges[level] - v, edges[level + 1] - v)
        edges = np.broadcast_to(edges[..., None, :], (*level.shape, edges.shape[-1]))
        low, high = (np.take_along_axis(edges, level[..., None] + i, -1)[..., 0] for i in (0, 1))
        return log_between(low - v, high - v)

    def mixed_quantile(self, p: float) -> np.ndarray:
        found = np.empty(self.v.shape[1:])
        for j, kind, at in self._by_latent():
            if kind == LEVELED:
                found[at] = BinaryEntries(self.chance[:, at]).mixed_quantile(p)
            elif kind in ("binary", "ordinal"):
                below = 1.0 - self._above(j, at).mean(axis=0)  # P(x ≤ r)
                found[at] = (below < p).sum(axis=-1)
            else:
                y = NormalEntries(self.v[:, at], self.sd[:, at]).mixed_quantile(p)
                found[at] = self._own(j, kind, self.layout.m[j] + self.layout.s[j] * y)
        return found


def count_moments(
    link: Link, mean: np.ndarray, sd: np.ndarray, least: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of ⌊g(t)⌋, t ~ N(mean, sd²) cut at both ends: small counts one by one,
    larger ones by quadrature, as if they were not whole."""
    bounds = link.to_latent(np.arange(1.0, COUNTED + 1.0))
    above = ndtr((mean[..., None] - bounds) / sd[..., None])
    above = np.where(bounds <= least, 1.0, np.where(bounds > most, 0.0, above))
    first = above.sum(axis=-1)
    second = above @ (2.0 * np.arange(1.0, COUNTED + 1.0) - 1.0)
    t = np.clip(mean[..., None] + sd[..., None] * NODES, least, most)
    size = np.maximum(link.to_number(t) - HALF, COUNTED)
    first = first + (size - COUNTED) @ WEIGHTS
    second = second + (np.square(size) - COUNTED**2) @ WEIGHTS
    return first, second - np.square(first)


def exponential_moments(
    mean: np.ndarray, sd: np.ndarray, least: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of exp(t), t ~ N(mean, sd²) cut at both ends: E e^{pt} is that of the
    normal in between, N(mean + p sd², sd²) there, and the ends with what is beyond."""
    low, high = ((end - mean) / sd for end in (least, most))

    def power(p: float) -> np.ndarray:
        inside = np.maximum(ndtr(high - p * sd) - ndtr(low - p * sd), 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            found = np.exp(p * mean + 0.5 * (p * sd) ** 2 + np.log(inside))
        if np.isfinite(most):
            found = found + np.exp(p * least) * ndtr(low) + np.exp(p * most) * ndtr(-high)
        return np.asarray(found)

    first = power(1.0)
    return first, power(2.0) - np.square(first)
