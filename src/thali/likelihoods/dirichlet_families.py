r"""Clusters of categories and of counts as exponential families, with Dirichlet parameters.

    categories   φ = (1, 1[x_d = v] for all d, v),      q(θ_d) = Dirichlet(w_dv + N_dv)
    counts       φ = (1, x_1 … x_D, log m!/∏ x_d!),     q(θ) = Dirichlet(w + Σ x_d)

so that E[log θ_v] = ψ(w_v + N_v) − ψ(Σ_v w_v + N_v). A missing category is no feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

from thali.data import Data
from thali.likelihoods.cluster_families import Family, Numbers

if TYPE_CHECKING:
    from thali.likelihoods.category_clusters import CategoryClusters


class Categories(Family):
    """Columns with a few values each; P = 1 + values of all columns."""

    def __init__(self, likelihood: CategoryClusters, data: Data) -> None:
        self.likelihood, self.levels = likelihood, likelihood.levels_of(data)
        sizes = [len(own) for own in self.levels]
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
        self.column = np.repeat(np.arange(len(sizes)), sizes)

    def features(self, data: Data) -> np.ndarray:
        codes = self.likelihood.codes_of(data).T
        F = np.zeros((1 + len(self.column), data.n))
        F[0] = 1.0
        for first, own, values in zip(self.first, codes, self.levels, strict=True):
            for v in range(len(values)):
                F[1 + first + v] = own == v
        return F

    def log_evidence(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        w, after, totals = self._posterior(S, at)
        found = (gammaln(after) - gammaln(w)).sum(axis=1)
        first = np.add.reduceat(w, self.first)
        return np.asarray(found + (gammaln(first) - gammaln(totals)).sum(axis=1))

    def weights(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        _, after, totals = self._posterior(S, at)
        return self._beside_one(digamma(after) - digamma(totals)[:, self.column])

    def log_predictive(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        _, after, totals = self._posterior(S, at)
        logs = np.log(after) - np.log(totals)[:, self.column]
        return np.asarray(self._beside_one(logs) @ self.features(data))

    def arrays(self, S: np.ndarray, at: Numbers) -> dict[str, np.ndarray]:
        """The weights of the values of all columns, one column after the other."""
        return {"weights": self._posterior(S, at)[1]}

    def _posterior(self, S: np.ndarray, at: Numbers) -> tuple[np.ndarray, ...]:
        """Weights before, and after, and their sums by column."""
        w = self.likelihood.weights_of(dict(at), self.levels)
        after = w + np.maximum(S[:, 1:], 0.0)
        return w, after, np.add.reduceat(after, self.first, axis=1)

    def _beside_one(self, logs: np.ndarray) -> np.ndarray:
        return np.hstack([np.zeros((len(logs), 1)), logs])


class Counts(Family):
    """Rows of counts; P = D + 2."""

    def features(self, data: Data) -> np.ndarray:
        from thali.likelihoods.dirichlet_multinomial import coefficients

        return np.vstack([np.ones(data.n), data.X.T, coefficients(data.X)])

    def log_evidence(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        after, w = self._posterior(S, at), at["concentration"]
        d, totals = after.shape[1], after.sum(axis=1)
        found = S[:, -1] + (gammaln(after) - gammaln(w)).sum(axis=1)
        return np.asarray(found + gammaln(d * w) - gammaln(totals))

    def weights(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        after = self._posterior(S, at)
        logs = digamma(after) - digamma(after.sum(axis=1))[:, None]
        return np.hstack([np.zeros((len(S), 1)), logs, np.ones((len(S), 1))])

    def log_predictive(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        from thali.likelihoods.dirichlet_multinomial import coefficients

        after, X = self._posterior(S, at), data.X
        totals = after.sum(axis=1)[:, None]
        found = coefficients(X) + gammaln(totals) - gammaln(totals + X.sum(axis=1))
        rows, columns = np.nonzero(X)
        for k, own in enumerate(after):
            logs = gammaln(own[columns] + X[rows, columns]) - gammaln(own[columns])
            found[k] += np.bincount(rows, logs, minlength=data.n)
        return np.asarray(found)

    def arrays(self, S: np.ndarray, at: Numbers) -> dict[str, np.ndarray]:
        """The weights of the columns."""
        return {"weights": self._posterior(S, at)}

    def _posterior(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        return np.asarray(at["concentration"] + np.maximum(S[:, 1:-1], 0.0))
