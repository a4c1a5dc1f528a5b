r"""Gaussian clusters as exponential families: normal–Wishart and normal–gamma.

In units y = (x − mean)/spread, so that features are of order one,

    any shape   φ = (1, y, y_i y_j for i ≤ j),   q(μ, Λ) = N(μ; m, (κ_N Λ)⁻¹) Wishart(Λ; ν_N, Ψ⁻¹)
                κ_N = κ + N,  m = Σy/κ_N,  ν_N = ν + N,  Ψ = (ν−D−1)s² I + Σyyᵀ − κ_N m mᵀ
    columns     φ = (1, y, y²),                  q(μ, τ) = N(μ; m, 1/(κ_N τ)) Gamma(τ; a_N, b)
                a_N = a + N/2,  b = (a−1)s² + (Σy² − κ_N m²)/2

Where entries may be missing, columns have features 1[seen] of their own, which count them. Sums of
squares lose (distance/width)² of the 16 digits: a cluster a million of its widths from the mean of
the data keeps four of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

from thali.data import Data
from thali.likelihoods.cluster_families import Family, Numbers
from thali.likelihoods.gaussian_clusters import part_of

if TYPE_CHECKING:
    from thali.likelihoods.normal_gamma import NormalGamma
    from thali.likelihoods.normal_wishart import NormalWishart

LOG_PI, LOG_2PI = float(np.log(np.pi)), float(np.log(2.0 * np.pi))


def of_columns(family: Family, columns: np.ndarray) -> Family:
    """The family of some of the columns of the data that it is given."""
    return family if columns.all() else SomeColumns(family, columns)


class SomeColumns(Family):
    """A family that looks at some of the columns, all others having no say."""

    def __init__(self, own: Family, columns: np.ndarray) -> None:
        self.own, self.columns = own, columns

    def features(self, data: Data) -> np.ndarray:
        return self.own.features(part_of(data, self.columns))

    def log_predictive(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        return self.own.log_predictive(S, at, part_of(data, self.columns))

    def log_evidence(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        return self.own.log_evidence(S, at)

    def weights(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        return self.own.weights(S, at)

    def arrays(self, S: np.ndarray, at: Numbers) -> dict[str, np.ndarray]:
        return self.own.arrays(S, at)


class FullGaussian(Family):
    """Clusters with a covariance each; P = 1 + D + D(D+1)/2."""

    def __init__(self, likelihood: NormalWishart, d: int) -> None:
        self.likelihood, self.d = likelihood, d
        self.center, self.spread = likelihood.center(d), likelihood.widths(d)
        self.log_spread = float(np.log(self.spread).sum())
        self.upper = np.triu_indices(d)

    def features(self, data: Data) -> np.ndarray:
        d = self.d
        F = np.empty((1 + d + len(self.upper[0]), data.n))
        F[0] = 1.0
        Y = F[1 : 1 + d]
        np.subtract(data.X.T, self.center[:, None], out=Y)
        Y /= self.spread[:, None]
        at = 1 + d
        for i in range(d):
            np.multiply(Y[i], Y[i:], out=F[at : at + d - i])
            at += d - i
        return F

    def log_evidence(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        d, nu, n = self.d, float(at["degrees"]), S[:, 0]
        half = 0.5 * (nu + n[:, None] - np.arange(d))
        gammas = gammaln(half).sum(axis=1) - gammaln(0.5 * (nu - np.arange(d))).sum()
        log_det = np.linalg.slogdet(self._posterior(S, at)[3])[1]
        found = gammas - n * (0.5 * d * LOG_PI + self.log_spread)
        found += 0.5 * nu * d * np.log(self._first(at)) - 0.5 * (nu + n) * log_det
        return np.asarray(found + 0.5 * d * np.log(at["kappa"] / (at["kappa"] + n)))

    def weights(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        d = self.d
        kappa, mean, degrees, Psi = self._posterior(S, at)
        log_det = np.linalg.slogdet(Psi)[1]
        log_precision = digamma(0.5 * (degrees[:, None] - np.arange(d))).sum(axis=1)
        log_precision += d * np.log(2.0) - log_det
        W = self._squares(mean, degrees[:, None, None] * np.linalg.inv(Psi))
        W[:, 0] += 0.5 * (log_precision - d * LOG_2PI - d / kappa) - self.log_spread
        return W

    def log_predictive(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        """A Student t of ν_N − D + 1 degrees, of the columns that were seen."""
        if data.observed is not None:
            return self._of_what_was_seen(S, at, data)
        d = self.d
        kappa, mean, degrees, Psi = self._posterior(S, at)
        df = degrees - d + 1.0
        wide = Psi * ((kappa + 1.0) / (kappa * df))[:, None, None]
        U = self._squares(mean, np.linalg.inv(wide))
        away = np.maximum(-2.0 * (U @ self.features(data)), 0.0)
        known = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * (LOG_PI + np.log(df))
        known -= 0.5 * np.linalg.slogdet(wide)[1] + self.log_spread
        away /= df[:, None]
        return np.asarray(known[:, None] - (0.5 * (df + d))[:, None] * np.log1p(away))

    def arrays(self, S: np.ndarray, at: Numbers) -> dict[str, np.ndarray]:
        """κ_N, the means m in the units of X, ν_N, and Ψ in those units."""
        kappa, mean, degrees, Psi = self._posterior(S, at)
        means = self.center + mean * self.spread
        Psi = Psi * np.outer(self.spread, self.spread)
        return {"kappas": kappa, "means": means, "degrees": degrees, "Psi": Psi}

    def _of_what_was_seen(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        """Rows that show the same columns together, in the model of these alone."""
        found = np.zeros((len(S), data.n))
        i, j = self.upper
        for rows, columns in data.alike():
            if columns.any():
                kept = int(columns.sum())
                fixed = self.likelihood.at(degrees=at["degrees"])
                part = FullGaussian(fixed.restricted(columns), kept)
                fewer = {**at, "degrees": at["degrees"] - self.d + kept}
                own = np.concatenate([[True], columns, columns[i] & columns[j]])
                seen = Data(data.X[np.ix_(rows, np.flatnonzero(columns))])
                found[:, rows] = part.log_predictive(S[:, own], fewer, seen)
        return found

    def _first(self, at: Numbers) -> float:
        """The diagonal of Ψ without rows."""
        return float((at["degrees"] - self.d - 1.0) * at["scale"] ** 2)

    def _posterior(self, S: np.ndarray, at: Numbers) -> tuple[np.ndarray, ...]:
        """κ_N, m, ν_N and Ψ, in units of the spread."""
        d, n = self.d, S[:, 0]
        kappa = at["kappa"] + n
        mean = S[:, 1 : 1 + d] / kappa[:, None]
        Psi = np.empty((len(S), d, d))
        i, j = self.upper
        Psi[:, i, j] = Psi[:, j, i] = S[:, 1 + d :] - kappa[:, None] * mean[:, i] * mean[:, j]
        Psi[:, np.arange(d), np.arange(d)] += self._first(at)
        return kappa, mean, at["degrees"] + n, Psi

    def _squares(self, mean: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """−½ (y − m)ᵀ P (y − m) as weights of features."""
        i, j = self.upper
        along = np.einsum("kij,kj->ki", precision, mean)
        whole = np.einsum("ki,ki->k", along, mean)
        twice = np.where(i == j, -0.5, -1.0) * precision[:, i, j]
        return np.column_stack([-0.5 * whole, along, twice])


class ColumnGaussian(Family):
    """Clusters with a variance for each column; P = 1 + 2D, or 1 + 3D with gaps."""

    def __init__(self, likelihood: NormalGamma, d: int, gaps: bool) -> None:
        self.d, self.shape, self.gaps = d, likelihood.shape, gaps
        self.center, self.spread = likelihood.center(d), likelihood.widths(d)

    def features(self, data: Data) -> np.ndarray:
        Y = np.ascontiguousarray((data.zeroed - self.center).T) / self.spread[:, None]
        one = np.ones((1, data.n))
        if not self.gaps:
            return np.concatenate([one, Y, np.square(Y)])
        seen = data.seen.T.astype(float)
        Y *= seen
        return np.concatenate([one, seen, Y, np.square(Y)])

    def log_evidence(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        n, kappa, _, shape, rate = self._posterior(S, at)
        found = gammaln(shape) - gammaln(self.shape) + self.shape * np.log(self._first(at))
        found -= shape * np.log(rate) + n * (0.5 * LOG_2PI + np.log(self.spread))
        return np.asarray((found + 0.5 * np.log(at["kappa"] / kappa)).sum(axis=1))

    def weights(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        _, kappa, mean, shape, rate = self._posterior(S, at)
        precision = shape / rate
        known = 0.5 * (digamma(shape) - np.log(rate) - LOG_2PI - 1.0 / kappa)
        known -= np.log(self.spread) + 0.5 * precision * np.square(mean)
        if self.gaps:
            return np.hstack([np.zeros((len(S), 1)), known, precision * mean, -0.5 * precision])
        return np.hstack([known.sum(axis=1)[:, None], precision * mean, -0.5 * precision])

    def log_predictive(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        """A Student t of 2a_N degrees in every column that was seen."""
        _, kappa, mean, shape, rate = self._posterior(S, at)
        wide = rate * (kappa + 1.0) / (shape * kappa)
        known = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2.0 * shape * np.pi * wide)
        known -= np.log(self.spread)
        Y, seen = ((data.zeroed - self.center) / self.spread).T, data.seen.T
        found = np.zeros((len(S), data.n))
        for i in range(self.d):  # nothing of size K × n × D is made
            away = np.square(Y[i] - mean[:, i, None]) / (2.0 * shape * wide)[:, i, None]
            own = known[:, i, None] - (shape[:, i, None] + 0.5) * np.log1p(away)
            found += own if data.observed is None else np.where(seen[i], own, 0.0)
        return found

    def arrays(self, S: np.ndarray, at: Numbers) -> dict[str, np.ndarray]:
        """κ_N, the means m, the shapes and rates of precisions, in the units of X."""
        _, kappa, mean, shape, rate = self._posterior(S, at)
        means = self.center + mean * self.spread
        rates = rate * np.square(self.spread)
        return {"kappas": kappa, "means": means, "shapes": shape, "rates": rates}

    def _first(self, at: Numbers) -> float:
        """The rate of a precision without rows."""
        return float((self.shape - 1.0) * at["scale"] ** 2)

    def _posterior(self, S: np.ndarray, at: Numbers) -> tuple[np.ndarray, ...]:
        """Rows seen, κ_N, m, a_N and b, each (K, D), in units of the spread."""
        d = self.d
        n = S[:, 1 : 1 + d] if self.gaps else np.repeat(S[:, :1], d, axis=1)
        first, second = S[:, -2 * d : -d], S[:, -d:]
        kappa = at["kappa"] + n
        mean = first / kappa
        inside = np.maximum(second - kappa * np.square(mean), 0.0)
        return n, kappa, mean, self.shape + 0.5 * n, self._first(at) + 0.5 * inside
