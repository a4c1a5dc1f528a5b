r"""Columns of a table as latent Gaussians: where each has them, and what an entry says of them.

An entry x of a column has a latent y ~ N(v, σ²), in standard units of the column:

    real         x = m + s y
    positive     log x = m + s y
    count        x = ⌊softplus(m + s y)⌋, or ⌊exp(m + s y)⌋ of one with a long tail: y is in an
                 interval
    censored     as real, but where x is at an end or beyond, y is that or farther
    binary       x = 1 where y > 0, σ = 1
    ordinal      x = r where c_r < y ≤ c_{r+1}, c_1 = 0, the others inferred, σ = 1
    categorical  one latent for each level, σ = 1; x is the level of the largest

m and s are the mean and the standard deviation of what was observed, on the latent's scale. Far
from that an exponential means nothing: ``least`` and ``most`` are where it ends. A table with
columns of these kinds is kept as a matrix with a column for each latent: the value itself, or 1 for
the level that an entry has and 0 for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from thali.data.column_kinds import has_long_tail
from thali.data.columns import Column, Columns

LEVELED = "categorical"  # has a latent for each of its levels
UNIT = ("binary", "ordinal", "categorical")  # kinds whose latents have noise of size one
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(48)  # for E f(e), e ~ N(0, 1)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
A_LEVEL = 0.8  # by how much log frequencies of levels lie apart, that is, their latents
RARE = 1e-4  # a level is taken to be no rarer
HALF = 0.5  # to the middle of a count
FLAT = 1e-12  # a spread below this share of the mean's size is none


def softplus(t: np.ndarray) -> np.ndarray:
    """log(1 + eᵗ)."""
    return np.logaddexp(0.0, t)


def softplus_inverse(x: np.ndarray) -> np.ndarray:
    """The t with softplus(t) = x: −∞ at 0."""
    x = np.asarray(x, float)
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-x)))


def logarithm(x: np.ndarray) -> np.ndarray:
    """log x: −∞ at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.asarray(x, float)))


def as_it_is(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, float)


class Link(NamedTuple):
    """How a number is made of its latent t = m + s y, and back."""

    to_number: Callable[[np.ndarray], np.ndarray]
    to_latent: Callable[[np.ndarray], np.ndarray]


LINKS = {
    "identity": Link(as_it_is, as_it_is),
    "log": Link(np.exp, logarithm),
    "softplus": Link(softplus, softplus_inverse),
}


@dataclass(frozen=True)
class Layout:
    """The latents of a table's columns, L in all, and the units that they are measured in."""

    table: Columns
    links: tuple[str, ...] = ()  # how each column is made of its latent
    location: tuple[float, ...] = ()  # m of each column
    scale: tuple[float, ...] = ()  # s of each column
    middle: tuple[float, ...] = ()  # where each latent is, by how often its column has what
    edges: tuple[float, ...] = ()  # and cutpoints of ordinal columns
    least: tuple[float, ...] = ()  # the ends of what was observed of each column, as latents t
    most: tuple[float, ...] = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.table)

    @cached_property
    def width(self) -> np.ndarray:
        """How many latents each column has, (D,)."""
        return np.array([latents_of(column) for column in self.columns], np.int64)

    @cached_property
    def first(self) -> np.ndarray:
        """The first latent of each column, and L, (D + 1,)."""
        return np.concatenate([[0], np.cumsum(self.width)])

    @property
    def n_latents(self) -> int:
        return int(self.first[-1])

    @cached_property
    def column(self) -> np.ndarray:
        """The column of each latent, (L,)."""
        return np.repeat(np.arange(len(self.columns)), self.width)

    @cached_property
    def kinds(self) -> np.ndarray:
        """The kind of the column of each latent, (L,)."""
        return np.array([kind_of(self.columns[d]) for d in self.column], dtype=object)

    @cached_property
    def unit(self) -> np.ndarray:
        """Which latents have noise of size one, (L,)."""
        return np.isin(self.kinds.astype(str), UNIT)

    @cached_property
    def leveled(self) -> list[int]:
        """The columns that have a latent for each level."""
        return [d for d, column in enumerate(self.columns) if kind_of(column) == LEVELED]

    @cached_property
    def ordinal(self) -> list[tuple[int, slice, int]]:
        """Latent, where its cutpoints are among all, and levels, of each ordinal column."""
        found, at = [], 0
        for d, column in enumerate(self.columns):
            if kind_of(column) == "ordinal":
                levels = len(column.levels)
                found.append((int(self.first[d]), slice(at, at + levels - 2), levels))
                at += levels - 2
        return found

    @property
    def n_cutpoints(self) -> int:
        return sum(levels - 2 for _, _, levels in self.ordinal)

    @cached_property
    def names(self) -> list[str]:
        """What each latent is called: a column, or a column and a level."""
        found = []
        for column in self.columns:
            if kind_of(column) == LEVELED:
                found += [f"{column.name}={level}" for level in column.levels]
            else:
                found.append(column.name)
        return found

    # values

    def expand(self, codes: np.ndarray) -> np.ndarray:
        """Codes of a table, (N, D), with a column for each latent, (N, L)."""
        X = np.empty((len(codes), self.n_latents))
        for d in range(len(self.columns)):
            own = slice(self.first[d], self.first[d + 1])
            if d in self.leveled:
                levels = np.arange(self.width[d])
                X[:, own] = (codes[:, d, None] == levels).astype(float)
                X[np.isnan(codes[:, d]), own] = np.nan
            else:
                X[:, own] = codes[:, d, None]
        return X

    def measured(self, X: np.ndarray) -> Layout:
        """The same with location and scale of what was observed in X, (N, L), and with the biases
        and cutpoints that columns without features would have."""
        d = len(self.columns)
        location, scale, least, most = np.zeros(d), np.ones(d), np.zeros(d), np.zeros(d)
        middle, edges, links = np.zeros(self.n_latents), [np.zeros(0)], []
        for d, column in enumerate(self.columns):
            own = X[:, self.first[d] : self.first[d + 1]]
            own, kind, first = own[~np.isnan(own[:, 0])], kind_of(column), self.first[d]
            links.append(link_of(kind, own[:, 0]))
            if kind in UNIT:
                middle[first : first + own.shape[1]], bounds = frequent(kind, own, column)
                edges.append(bounds)
            elif len(own):
                y = LINKS[links[-1]].to_latent(own[:, 0] + HALF * (kind == "count"))
                location[d], spread = float(y.mean()), float(y.std())
                scale[d] = spread if spread > FLAT * max(1.0, abs(location[d])) else 1.0
                least[d], most[d] = y.min(), y.max()
        told = (location, scale, middle, np.concatenate(edges), least, most)
        numbers = (tuple(each.tolist()) for each in told)
        return Layout(self.table, tuple(links), *numbers)

    @cached_property
    def m(self) -> np.ndarray:
        """Location by latent, (L,)."""
        return np.array(self.location)[self.column]

    @cached_property
    def s(self) -> np.ndarray:
        """Scale by latent, (L,)."""
        return np.array(self.scale)[self.column]

    def link(self, j: int) -> Link:
        """Of the column of latent j; by its kind, where nothing was measured."""
        d = int(self.column[j])
        name = self.links[d] if self.links else link_of(kind_of(self.columns[d]), np.zeros(0))
        return LINKS[name]

    def bounds(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What entries say of their latents, (N, L): y is between; −∞ and ∞ where X is missing,
        NaN in columns with levels, ordered or not."""
        low, high = np.full(X.shape, -np.inf), np.full(X.shape, np.inf)
        for j, kind in enumerate(self.kinds):
            x, column = X[:, j], self.columns[self.column[j]]
            seen = ~np.isnan(x)
            if kind in (LEVELED, "ordinal"):
                low[:, j] = high[:, j] = np.nan
            elif kind == "binary":
                low[seen & (x > 0.5), j], high[seen & (x < 0.5), j] = 0.0, 0.0
            elif kind == "count":
                low[seen, j] = (self.link(j).to_latent(x[seen]) - self.m[j]) / self.s[j]
                high[seen, j] = (self.link(j).to_latent(x[seen] + 1.0) - self.m[j]) / self.s[j]
            else:
                y = (self.link(j).to_latent(x[seen]) - self.m[j]) / self.s[j]
                low[seen, j] = high[seen, j] = y
                if kind == "censored":
                    low[seen & (x <= column.low), j] = -np.inf
                    high[seen & (x >= column.high), j] = np.inf
        return low, high

    def log_units(self, X: np.ndarray, known: np.ndarray) -> float:
        """Σ log dx/dy over the entries whose latent is ``known``, x = m + s y or the like."""
        found = float((known * np.log(self.s)).sum())
        for j in np.flatnonzero(self.kinds == "positive"):
            found += float(np.log(X[known[:, j], j]).sum())
        return found

    def levels(self, X: np.ndarray, d: int) -> np.ndarray:
        """The level that each row has in column d, −1 where it is missing, (N,)."""
        own = X[:, self.first[d] : self.first[d + 1]]
        return np.where(np.isnan(own[:, 0]), -1, own.argmax(axis=1))

    def guess(self, X: np.ndarray) -> np.ndarray:
        """Latents that starts look at, (N, L): what is expected of them between their bounds in
        columns without features, NaN where X is missing."""
        low, high = self.bounds(X)
        middle, cutpoints = np.array(self.middle), self.first_cutpoints()
        for j, own, _ in self.ordinal:
            edges = np.concatenate([[-np.inf, 0.0], cutpoints[own], [np.inf]])
            seen = ~np.isnan(X[:, j])
            level = X[seen, j].astype(np.int64)
            low[seen, j], high[seen, j] = edges[level], edges[level + 1]
        for d in self.leveled:  # as if each level were a yes or no
            own = slice(self.first[d], self.first[d + 1])
            share = np.nanmean(X[:, own], axis=0) if len(X) else np.zeros(self.width[d])
            edge = middle[own] - ndtri(np.clip(share, RARE, 1.0 - RARE))
            low[:, own] = np.where(X[:, own] > 0.5, edge, -np.inf)
            high[:, own] = np.where(X[:, own] < 0.5, edge, np.inf)
        exact = low == high
        Y = np.where(exact, low, middle + between_bounds(low - middle, high - middle))
        Y[np.isnan(X)] = np.nan
        return Y

    def first_cutpoints(self) -> np.ndarray:
        """Those of columns without features; one apart, where none were measured."""
        if len(self.edges) == self.n_cutpoints:
            return np.array(self.edges, float)
        return np.concatenate([1.0 + np.arange(levels - 2) for _, _, levels in self.ordinal])


def frequent(kind: str, own: np.ndarray, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Where the latents of a column with levels are, and its cutpoints, by how frequent levels are
    in ``own``, (n, latents): as if there were one more row, in equal parts of all levels."""
    levels = max(2, len(column.levels))
    if kind == LEVELED:
        share = (own.sum(axis=0) + 1.0 / levels) / (len(own) + 1.0)
        return A_LEVEL * (np.log(share) - np.log(share).mean()), np.zeros(0)
    counts = np.bincount(own[:, 0].astype(np.int64), minlength=levels)
    below = np.cumsum(counts + 1.0 / levels)[:-1] / (len(own) + 1.0)
    edges = ndtri(below)
    return -edges[:1], edges[1:] - edges[0]


def between_bounds(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """E[e | low < e < high] of a standard normal."""
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    mass = ndtr(b) - ndtr(a)
    found = (np.exp(-0.5 * a * a) - np.exp(-0.5 * b * b)) / np.sqrt(2.0 * np.pi)
    found = np.clip(np.where(mass > 0.0, found / np.maximum(mass, 1e-300), b), a, b)
    return np.asarray(np.where(flip, -found, found))


def kind_of(column: Column) -> str:
    """Its kind; one with two levels or fewer is binary."""
    if column.kind in ("categorical", "ordinal") and len(column.levels) <= 2:
        return "binary"
    return column.kind


def latents_of(column: Column) -> int:
    """How many latents a column has."""
    return len(column.levels) if kind_of(column) == LEVELED else 1


def link_of(kind: str, x: np.ndarray) -> str:
    """By the kind, and what was observed, how a column is made of its latent."""
    if kind == "count":
        return "log" if len(x) and has_long_tail(x + HALF) else "softplus"
    return "log" if kind == "positive" else "identity"


# ---- probabilities -------------------------------------------------------------------------------


def log_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log P(low < e < high) of a standard normal, by the tail where both bounds are."""
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(b), log_ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = top + np.log1p(-np.exp(np.minimum(bottom - top, 0.0)))
    return np.asarray(np.where(b > a, found, -np.inf))
