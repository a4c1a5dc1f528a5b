r"""Clusters of Gaussian columns, each with its own mean and variance, both integrated out.

    x_nd | cluster ~ N(μ_d, 1/τ_d),   μ_d | τ_d ~ N(m_d, 1/(κτ_d)),   τ_d ~ Gamma(a, (a−1)(s w_d)²)

so that a column's variance within a cluster is expected to be (s w_d)², w being ``spread`` and s
``scale``. Columns are independent given the cluster: missing entries are no factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from thali.data import Data
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.cluster_families import Family
from thali.likelihoods.clusters import ExpectedClusters, Groups, IntegratesGaps, sums_by_label
from thali.likelihoods.gaussian_clusters import KAPPA, SCALE, Column, GaussianClusters, Sums
from thali.registry import LIKELIHOODS
from thali.settings import check_settings, hyperparameter, setting

if TYPE_CHECKING:
    from thali.kernels.cluster_scales import Nearness, Widths


@LIKELIHOODS.register("normal_gamma")
@dataclass(frozen=True)
class NormalGamma(GaussianClusters, IntegratesGaps, ExpectedClusters):
    """Gaussian clusters whose columns are independent of each other (a diagonal covariance).

    Parameters
    ----------
    kappa : float or hyperprior, default Gamma(0.25, 0.025)
        How near to each other the clusters' means are: a mean varies 1/κ times as much as rows
        within the cluster do.
    scale : float or hyperprior, default InverseGamma(1, 0.03)
        How wide a cluster is, in units of ``spread``.
    shape : float, default 2.0
        How alike the widths of clusters are: above 1; the larger, the more alike.
    mean, spread : "auto", or a number for each column
        Where clusters lie and what widths are measured by: means and standard deviations of the
        columns of X. A column of spread 0, as a constant one is, has no say.

    Notes
    -----
    A number is fixed; a hyperprior means that it is inferred. Missing entries are integrated out.

    Examples
    --------
    >>> import numpy as np
    >>> lik = NormalGamma(kappa=0.1, scale=1.0, mean=0.0, spread=1.0)
    >>> X = np.array([[0.0], [0.1], [5.0]])
    >>> lik.log_marginal(X, [0, 0, 1]) > lik.log_marginal(X, [0, 0, 0])
    True
    """

    kappa: float | Hyperprior = hyperparameter(
        KAPPA, symbol="κ", words="how near to each other clusters are"
    )
    scale: float | Hyperprior = hyperparameter(SCALE, symbol="s", words="how wide clusters are")
    shape: float = setting(2.0, help="How alike the widths of clusters are")
    mean: Column = "auto"
    spread: Column = "auto"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.shape <= 1.0:
            raise ValueError(f"NormalGamma: shape must be above 1, not {self.shape!r}.")
        self._check()

    def rates(self, d: int, scale: float) -> np.ndarray:
        """The rates of the gamma distributions of precisions, (d,)."""
        return np.asarray((self.shape - 1.0) * np.square(scale * self.widths(d)))

    def groups(self, data: Data, room: int) -> Groups:
        from thali.kernels.normal_gamma import NormalGammaGroups
        from thali.kernels.normal_gamma_gaps import GappyNormalGammaGroups

        own, data = self.varying(data)
        d, kappa = data.d, self.number("kappa")
        rate = own.rates(d, self.number("scale"))
        Y, gammas = data.zeroed - own.center(d), log_gammas(self.shape, data.n)
        mean, b = np.zeros((room, d)), np.zeros((room, d))
        if data.observed is None:
            prior = (kappa, self.shape, rate, gammas)
            return NormalGammaGroups(Y, *prior, mean, b, np.zeros((room, d)), *np.zeros((2, room)))
        seen = np.zeros((room, d), np.int64)
        return GappyNormalGammaGroups(
            Y, data.observed, kappa, self.shape, rate, gammas, mean, b, seen
        )

    def family(self, data: Data) -> Family:
        from thali.likelihoods.gaussian_families import ColumnGaussian, of_columns

        gaps, columns = data.observed is not None, self.widths(data.d) > 0.0
        own, data = self.varying(data)
        return of_columns(ColumnGaussian(own, data.d, gaps), columns)

    def sums_of(self, data: Data, labels: np.ndarray) -> Sums:
        observed, Y = data.observed, data.zeroed - self.center(data.d)
        if observed is None:
            seen = np.repeat(np.bincount(labels).astype(float)[:, None], data.d, axis=1)
        else:
            Y[~observed] = 0.0
            seen = sums_by_label(observed.astype(float), labels)
        means = sums_by_label(Y, labels) / np.maximum(seen, 1.0)
        Y -= means[labels]
        if observed is not None:
            Y[~observed] = 0.0
        return Sums(seen, means, sums_by_label(np.square(Y), labels))

    def width_terms(self, sums: Sums, kappa: float) -> Widths:
        from thali.kernels.cluster_scales import Widths

        n, means, scatter = sums
        unit = self.rates(means.shape[1], 1.0)
        values = 0.5 * (scatter + kappa * n / (kappa + n) * np.square(means)) / unit
        powers = (self.shape + 0.5 * n).ravel()
        return Widths(self.shape * means.size, powers, values.ravel())

    def nearness_terms(self, sums: Sums, scale: float) -> Nearness:
        from thali.kernels.cluster_scales import Nearness

        n, means, scatter = sums
        rate = self.rates(means.shape[1], scale)
        values = 0.5 * np.square(means) / (rate + 0.5 * scatter)
        sizes = n.ravel()
        return Nearness(sizes, np.full(len(sizes), 0.5), self.shape + 0.5 * sizes, values.ravel())

    def log_marginal_of(self, data: Data, labels: np.ndarray) -> Callable[[Values], float]:
        own, data = self.varying(data)
        d, (seen, means, scatter) = data.d, own.sums_of(data, labels)
        known = (gammaln(self.shape + 0.5 * seen) - gammaln(self.shape)).sum()
        known -= 0.5 * np.log(2.0 * np.pi) * seen.sum()

        def log_marginal(hyper: Values) -> float:
            kappa, rate = hyper["kappa"], own.rates(d, hyper["scale"])
            after = rate + 0.5 * (scatter + kappa * seen / (kappa + seen) * np.square(means))
            found = known + 0.5 * np.log(kappa / (kappa + seen)).sum()
            found += len(means) * self.shape * np.log(rate).sum()
            return float(found - ((self.shape + 0.5 * seen) * np.log(after)).sum())

        return log_marginal


@lru_cache(maxsize=16)
def log_gammas(shape: float, n: int) -> np.ndarray:
    """log Γ(a + i/2), i = 0 … n + 1."""
    return np.asarray(gammaln(shape + 0.5 * np.arange(n + 2)))
