r"""The distribution q(Y) of the latents of a table, and bias, noise and cutpoints given it.

Given the means v = b + σ E[W]E[A], the best q(Y) is N(v, σ²) cut off where an entry says so; a
number is known, of levels the one seen is the largest, and a missing entry has no latent at all:
what it could be is summed out. With X' = (E[Y] − b)/σ the bound of log P(X) has, beside that of
X' = W A + E with noise one,

    Σ H[q(y)] − log σ − ½ Var[y]/σ²  over latents between bounds,   −Σ log σ dx/dy  over numbers.

Of bias and noise, which are numbers, the best ones given q(W) and q(Y) are found with E[A] at its
best for them: with m = Σ E[w] over the rows seen, C = Σ E[w wᵀ], T = Σ E[w] E[y] and r = 1/σ_a²,

    (b, σE[A]) = M⁻¹ t,   M = [n + 1/τ²  mᵀ; m  C + rI],   t = (Σ E[y], T),
    σ² = (2s + Σ E[y²] − tᵀM⁻¹t)/(n + 2a + 2),

for b | σ ~ N(0, τ²σ²) and σ² ~ InverseGamma(a, s), as a density of σ. The covariance of A in units
of the noise knows nothing of b and σ. Cutpoints climb with q(Y) at its best for them, where the
bound has Σ log P(level), by Newton's steps, cut until they gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from thali.data import Data
from thali.hyperparameters import Gamma, Values
from thali.likelihoods.latent_draws import GAPS, Ordered, Shown, edges_of
from thali.likelihoods.table import BIAS, NOISE, cutpoints_of, is_auto

if TYPE_CHECKING:
    from thali.likelihoods.latent_columns import Layout
    from thali.likelihoods.table import TableLikelihood
    from thali.structures.statistics import Statistics

HALVINGS = 20  # of a step of the cutpoints, before they stay


@dataclass(frozen=True)
class LatentMoments:
    """q(Y) of all rows: ``Y`` its means, 0 where nothing was seen, and sums over rows.

    Of levels ``entropy`` has half of the variances less, and ``spread`` nothing: their noise is 1.
    """

    Y: np.ndarray  # (N, L)
    seen: np.ndarray | None  # (N, L); None where all was
    count: np.ndarray  # (L,) entries seen
    spread: np.ndarray  # (L,) Σ Var[y]
    entropy: np.ndarray  # (L,) Σ H[q(y)] of latents between bounds
    log_units: float  # Σ log dx/dy of numbers

    def gain(self, noise: np.ndarray) -> float:
        """What the bound has beside that of X' = W A + E."""
        own = self.entropy - self.count * np.log(noise) - 0.5 * self.spread / np.square(noise)
        return float(own.sum()) - self.log_units

    def inside(self, noise: np.ndarray, biases: np.ndarray) -> np.ndarray:
        """X', 0 where nothing was seen."""
        X = (self.Y - biases) / noise
        if self.seen is not None:
            X[~self.seen] = 0.0
        return X


def begin_moments(layout: Layout, data: Data) -> LatentMoments:
    """What there is of q(Y) before anything is known of its means."""
    shown, n = Shown.of(layout, data), data.n
    seen = None if data.observed is None else data.observed
    count = np.full(data.d, float(n)) if seen is None else seen.sum(axis=0, dtype=float)
    zero = np.zeros(data.d)
    return LatentMoments(np.zeros((n, data.d)), seen, count, zero, zero, shown.log_units)


def expect(
    shown: Shown,
    rows: slice,
    center: np.ndarray,
    noise: np.ndarray,
    cutpoints: np.ndarray,
    into: LatentMoments,
) -> None:
    """The best q(Y) of some rows, whose means are ``center`` (rows, L): its means put into, its
    sums added to ``into``."""
    from thali.kernels.latent_moments import expect_between, expect_levels, expect_ordinal

    found = into.Y[rows], into.spread, into.entropy
    expect_between(center, noise, shown.low[rows], shown.high[rows], *found)
    for one in shown.ordered:
        expect_ordinal(center, one.latent, one.level[rows], edges_of(cutpoints[one.own]), *found)
    for column in shown.unordered:
        at = column.level[rows], column.first, column.end
        expect_levels(center, *at, into.Y[rows], into.entropy)


# ---- bias and noise ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Units:
    """Noise and biases of all latents, and which of them are inferred."""

    noise: np.ndarray
    biases: np.ndarray
    free: np.ndarray  # (L,) whether the noise is inferred
    infer_bias: bool
    tau: np.ndarray  # (L,) of the bias, in units of the noise

    @classmethod
    def of(cls, likelihood: TableLikelihood, hyper: Values, hold: bool = False) -> Units:
        """Those of a table of hyperparameters; the noise stays where ``hold`` says so."""
        unit = likelihood.known.unit
        return cls(
            np.asarray(hyper["noise"], float) + np.zeros(len(unit)),
            np.asarray(hyper["biases"], float) + np.zeros(len(unit)),
            ~unit & (is_auto(likelihood.noise) and not hold),
            is_auto(likelihood.biases) and likelihood.bias,
            np.where(unit, BIAS[True], BIAS[False]),
        )

    @property
    def fixed(self) -> bool:
        """Whether there is nothing to find."""
        return not self.infer_bias and not self.free.any()

    def log_density(self) -> float:
        """Of what is inferred, of b and of σ."""
        found = sum(NOISE.log_density(float(s)) for s in self.noise[self.free])
        if self.infer_bias:
            sd = self.tau * self.noise
            found -= float((0.5 * np.square(self.biases / sd) + np.log(sd)).sum())
            found -= 0.5 * len(sd) * np.log(2.0 * np.pi)
        return found

    def updated(
        self, latents: LatentMoments, C: np.ndarray, T: np.ndarray, m: np.ndarray, r: float
    ) -> Units:
        """The best ones given q(Y), C = Σ E[w wᵀ], (K, K) or (L, K, K), T = Σ E[w] E[y]ᵀ, (K, L),
        and m = Σ E[w] over the rows seen of each column, (L, K)."""
        (size, k), count, first = m.shape, latents.count, latents.Y.sum(axis=0)
        square = np.einsum("nl,nl->l", latents.Y, latents.Y) + latents.spread
        M, t = np.zeros((size, k + 1, k + 1)), np.concatenate([first[None], T]).T
        M[:, 1:, 1:] = C + r * np.eye(k)
        M[:, 0, 0] = count + 1.0 / self.tau**2
        M[:, 0, 1:] = M[:, 1:, 0] = m
        if not self.infer_bias:
            M, t = M[:, 1:, 1:], (T - self.biases * m.T).T
            square = square - 2.0 * self.biases * first + count * self.biases**2
        best = np.linalg.solve(M, t[..., None])[..., 0]
        left = np.maximum(square - np.einsum("lk,lk->l", t, best), 0.0)
        size_of = count + 2.0 * NOISE.shape + 1.0 + self.infer_bias
        noise = np.where(self.free, np.sqrt((left + 2.0 * NOISE.scale) / size_of), self.noise)
        biases = best[:, 0] if self.infer_bias else self.biases
        return Units(noise, biases, self.free, self.infer_bias, self.tau)


def in_units(
    found: Statistics, latents: LatentMoments, m: np.ndarray, old: Units, new: Units
) -> tuple[np.ndarray, float]:
    """T and Σ x'² of X' = (E[Y] − b)/σ in new units, from those in the old ones."""
    T = (found.T * old.noise + (old.biases - new.biases) * m.T) / new.noise
    first = latents.Y.sum(axis=0)
    square = np.einsum("nl,nl->l", latents.Y, latents.Y)
    square = square - 2.0 * new.biases * first + latents.count * np.square(new.biases)
    return T, float((square / np.square(new.noise)).sum())


# ---- cutpoints -----------------------------------------------------------------------------------


def log_density_of_cutpoints(shown: Shown, cutpoints: np.ndarray) -> float:
    """Of the gaps between them."""
    gaps = [np.diff(edges_of(cutpoints[one.own])[1:-1]) for one in shown.ordered]
    return float(sum(Gamma(*GAPS).log_density(float(gap)) for own in gaps for gap in own))


def climb_cutpoints(shown: Shown, center: np.ndarray, hyper: Values) -> np.ndarray:
    """A step of the cutpoints of each ordinal column, latents summed out given their means."""
    found = np.array(cutpoints_of(hyper))
    for one in shown.ordered:
        mean = np.ascontiguousarray(center[:, one.latent])
        found[one.own] = climbed(mean, one, found[one.own])
    return found


def climbed(mean: np.ndarray, one: Ordered, cutpoints: np.ndarray) -> np.ndarray:
    """Newton's step of one column, halved until log P(levels) + log p(cutpoints) does not fall."""
    value, step = slope_and_step(mean, one, cutpoints)
    for _ in range(HALVINGS):
        trial = cutpoints + step
        ordered = (np.diff(trial, prepend=0.0) > 0.0).all()
        if ordered and slope_and_step(mean, one, trial)[0] >= value:
            return trial
        step = 0.5 * step
    return cutpoints


def slope_and_step(
    mean: np.ndarray, one: Ordered, cutpoints: np.ndarray
) -> tuple[float, np.ndarray]:
    """log P(levels) + log p(cutpoints), which is concave, and Newton's step of the cutpoints."""
    from thali.kernels.latent_moments import edge_slopes

    edges = edges_of(cutpoints)
    slope, curve, beside = (np.zeros(len(edges)) for _ in range(3))
    value = edge_slopes(mean, one.level, edges, slope, curve, beside)
    gaps, (shape, rate) = np.diff(edges[1:-1]), GAPS
    value += float(((shape - 1.0) * np.log(gaps) - rate * gaps).sum())
    rise, bend = (shape - 1.0) / gaps - rate, (shape - 1.0) / np.square(gaps)
    slope[2:-1] += rise
    slope[1:-2] -= rise
    curve[2:-1] -= bend
    curve[1:-2] -= bend
    beside[1:-2] += bend
    free = slice(2, len(edges) - 1)
    H = np.diag(curve[free]) + np.diag(beside[2:-2], 1) + np.diag(beside[2:-2], -1)
    return float(value), np.linalg.solve(-H, slope[free])
