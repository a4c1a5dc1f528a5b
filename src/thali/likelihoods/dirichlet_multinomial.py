r"""Clusters of rows of counts, the shares of their columns integrated out.

x_n | cluster ~ Multinomial(m_n, θ),    θ ~ Dirichlet(w, …, w),    m_n = Σ_d x_nd given
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
from scipy.special import gammaln

from thali.data import Data
from thali.hyperparameters import (
    Gamma,
    Hyperprior,
    Value,
    Values,
    as_number,
    check_hyperparameters,
)
from thali.likelihoods.cluster_families import Family
from thali.likelihoods.clusters import ExpectedClusters, Groups, ProfileWords, sums_by_label
from thali.registry import LIKELIHOODS
from thali.settings import Settings, hyperparameter


@LIKELIHOODS.register("dirichlet_multinomial")
@dataclass(frozen=True)
class DirichletMultinomial(Settings, ExpectedClusters):
    """Clusters of rows of counts: words of documents, reads of samples, things bought.

    X must be of whole numbers from zero on; how large a row is in all says nothing.

    Parameters
    ----------
    concentration : float or hyperprior, default Gamma(1, 1)
        The weight of each column: the smaller, the fewer columns a cluster has much of.

    Examples
    --------
    >>> import numpy as np
    >>> lik = DirichletMultinomial(concentration=1.0)
    >>> round(float(np.exp(lik.log_marginal(np.array([[2.0, 0.0]]), [0]))), 6)  # ½ · ⅔
    0.333333
    """

    concentration: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="w", words="how even the columns of a cluster are"
    )
    profile_words = ProfileWords("share of the counts", False)

    def __post_init__(self) -> None:
        check_hyperparameters(self)

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def check_data(self, data: Data) -> None:
        if data.observed is not None:
            i, j = (int(at[0]) for at in data.where_missing)
            raise ValueError(
                f"X has {data.missing} counts missing (NaN), the first at row {i}, column {j}, "
                "which DirichletMultinomial cannot deal with; drop those rows or columns."
            )
        wrong = (data.zeroed < 0.0) | (data.zeroed != np.rint(data.zeroed)) | (data.zeroed > 1e15)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"X has {data.X[i, j]:g} at row {i}, column {j}, where DirichletMultinomial needs "
                "counts 0, 1, 2, …; use another likelihood for numbers of another kind."
            )

    def resolve(self, data: Data) -> Self:
        self.check_data(data)
        return self

    def groups(self, data: Data, room: int) -> Groups:
        from thali.kernels.dirichlet_multinomial import MultinomialGroups

        X = data.X
        rows, values = np.nonzero(X)
        times, lengths = X[rows, values], X.sum(axis=1)
        ends = np.searchsorted(rows, np.arange(data.n + 1))
        made = [np.zeros((room, data.d)), np.zeros(room), np.zeros(room)]
        weight = as_number("DirichletMultinomial", "concentration", self.concentration)
        known = coefficients(X)
        return MultinomialGroups(ends, values, times, lengths, known, weight, *made)

    def family(self, data: Data) -> Family:
        from thali.likelihoods.dirichlet_families import Counts

        return Counts()

    def log_marginal_of(self, data: Data, labels: np.ndarray) -> Callable[[Values], float]:
        counts = sums_by_label(data.X, labels)
        totals, known, d = counts.sum(axis=1), coefficients(data.X).sum(), data.d
        some = counts[counts > 0.0]

        def log_marginal(hyper: Values) -> float:
            w = hyper["concentration"]
            found = known + (gammaln(w + some) - gammaln(w)).sum()
            return float(found + (gammaln(d * w) - gammaln(d * w + totals)).sum())

        return log_marginal

    def profiles(self, data: Data, labels: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
        """The expected share of each column in each cluster."""
        weight = as_number("DirichletMultinomial", "concentration", self.concentration)
        counts = sums_by_label(data.X, labels) + weight
        return pd.DataFrame(counts / counts.sum(axis=1, keepdims=True), columns=list(names))


def coefficients(X: np.ndarray) -> np.ndarray:
    """log m!/∏ x_d! of each row."""
    return np.asarray(gammaln(X.sum(axis=1) + 1.0) - gammaln(X + 1.0).sum(axis=1))
