r"""Clusters of Gaussian rows with a mean and a covariance of their own, both integrated out.

    x_n | cluster ~ N(μ, Σ),   μ | Σ ~ N(m, Σ/κ),   Σ ~ inverse Wishart(ν, (ν−D−1) diag(s w)²)

so that a cluster's covariance is expected to be diag(s w)², w being ``spread`` and s ``scale``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import gammaln

from thali.data import Data
from thali.hyperparameters import (
    Above,
    Hyperprior,
    InverseGamma,
    Values,
    check_hyperparameter,
)
from thali.likelihoods.cluster_families import Family
from thali.likelihoods.clusters import DrawsGaps, ExpectedClusters, Groups, sums_by_label
from thali.likelihoods.gaussian_clusters import (
    KAPPA,
    SCALE,
    Checked,
    Column,
    GaussianClusters,
    Sums,
)
from thali.registry import LIKELIHOODS
from thali.settings import hyperparameter

if TYPE_CHECKING:
    from thali.kernels.cluster_scales import Law, Nearness, Widths


DEGREES = InverseGamma(1.0, 1.0)  # of ν above D + 1; of one it makes D + 2


@LIKELIHOODS.register("normal_wishart")
@dataclass(frozen=True)
class NormalWishart(GaussianClusters, DrawsGaps, ExpectedClusters):
    """Gaussian clusters of any shape (a full covariance).

    Parameters
    ----------
    kappa : float or hyperprior, default Gamma(0.25, 0.025)
        How near to each other the clusters' means are: a mean varies 1/κ times as much as rows
        within the cluster do.
    scale : float or hyperprior, default InverseGamma(1, 0.03)
        How wide a cluster is, in units of ``spread``.
    degrees : float or hyperprior, optional
        How alike the covariances of clusters are: a number above D + 1, or a hyperprior of what it
        is above D + 1; the larger, the more alike. By default InverseGamma(1, 1) where ``scale`` is
        inferred, and D + 2 where that is a number.
    mean, spread : "auto", or a number for each column
        Where clusters lie and what widths are measured by: means and standard deviations of the
        columns of X. A column of spread 0, as a constant one is, has no say.

    Notes
    -----
    A number is fixed; a hyperprior means that it is inferred. Missing entries are drawn along with
    the clusters, and log densities are then those of the rows as they were completed.

    Examples
    --------
    >>> import numpy as np
    >>> lik = NormalWishart(kappa=0.1, scale=1.0, mean=0.0, spread=1.0)
    >>> X = np.array([[0.0, 0.2], [0.1, 0.0], [5.0, 5.0]])
    >>> lik.log_marginal(X, [0, 0, 1]) > lik.log_marginal(X, [0, 0, 0])
    True
    """

    kappa: float | Hyperprior = hyperparameter(
        KAPPA, symbol="κ", words="how near to each other clusters are"
    )
    scale: float | Hyperprior = hyperparameter(SCALE, symbol="s", words="how wide clusters are")
    degrees: float | Hyperprior | None = hyperparameter(
        None, symbol="ν", words="how alike the shapes of clusters are"
    )
    mean: Column = "auto"
    spread: Column = "auto"

    def __post_init__(self) -> None:
        self._check()
        if self.degrees is not None:
            check_hyperparameter("NormalWishart", "degrees", self.degrees)

    def degrees_for(self, d: int) -> float:
        """ν, above D + 1."""
        if self.degrees is None:
            return d + 2.0
        degrees = self.number("degrees")
        if degrees <= d + 1.0:
            raise ValueError(
                f"NormalWishart: degrees={self.degrees!r} must be above D + 1 = {d + 1} for X of "
                f"{d} columns."
            )
        return degrees

    def resolve(self, data: Data) -> Self:
        resolved, given = super().resolve(data), self.degrees
        d = int((resolved.widths(data.d) > 0.0).sum())
        if given is None and isinstance(self.scale, Hyperprior):
            given = DEGREES
        if isinstance(given, Hyperprior) and not isinstance(given, Above):
            return resolved.replace(degrees=Above(given, d + 1.0))
        if given is None:
            return resolved.replace(degrees=d + 2.0)
        if not isinstance(given, Hyperprior):
            self.degrees_for(d)
        return resolved

    def work(self, data: Data, n_components: int) -> float:
        """With what updates of L take, and of hyperparameters by eigenvalues of each scatter."""
        k, squares = n_components, float(data.d) ** 2
        return data.n * (0.5 * k + 4.0) * squares + 20.0 * k * squares * data.d

    def expected(self, d: int, scale: float) -> np.ndarray:
        """The square roots of the diagonal of Ψ₀, (d,)."""
        return np.asarray(np.sqrt(self.degrees_for(d) - d - 1.0) * scale * self.widths(d))

    def groups(self, data: Data, room: int) -> Groups:
        from thali.kernels.normal_wishart import NormalWishartGroups

        self._refuse_gaps(data)
        own, data = self.varying(data)
        d, degrees = data.d, self.degrees_for(data.d)
        factor = np.diag(own.expected(d, self.number("scale")))
        sums, L, work = np.zeros((room, d)), np.zeros((room, d, d)), np.zeros((room, d))
        prior = (self.number("kappa"), degrees, factor)
        Y, constant = data.X - own.center(d), np.zeros(room)
        return NormalWishartGroups(Y, *prior, sums, L, np.zeros(room), constant, work)

    def family(self, data: Data) -> Family:
        from thali.likelihoods.gaussian_families import FullGaussian, of_columns

        self._refuse_gaps(data)
        columns = self.widths(data.d) > 0.0
        own, data = self.varying(data)
        return of_columns(FullGaussian(own, data.d), columns)

    def sums_of(self, data: Data, labels: np.ndarray) -> Sums:
        self._refuse_gaps(data)
        Y, sizes = data.X - self.center(data.d), np.bincount(labels).astype(float)
        means = sums_by_label(Y, labels) / sizes[:, None]
        return Sums(sizes, means, scatters(Y - means[labels], labels))

    def width_terms(self, sums: Sums, kappa: float) -> Widths:
        from thali.kernels.cluster_scales import Widths

        n, means, scatter = sums
        d = means.shape[1]
        unit = self.expected(d, 1.0)
        scaled = means * np.sqrt(kappa * n / (kappa + n))[:, None] / unit
        inside = scatter / np.outer(unit, unit) + scaled[:, :, None] * scaled[:, None, :]
        values = np.maximum(np.linalg.eigvalsh(inside), 0.0)
        degrees = self.degrees_for(d)
        powers = np.repeat(0.5 * (degrees + n), d)
        return Widths(0.5 * degrees * means.size, powers, values.ravel())

    def nearness_terms(self, sums: Sums, scale: float) -> Nearness:
        from thali.kernels.cluster_scales import Nearness

        n, means, scatter = sums
        d = means.shape[1]
        inside = scatter + np.diag(np.square(self.expected(d, scale)))
        values = np.einsum("kd,kd->k", means, np.linalg.solve(inside, means[:, :, None])[:, :, 0])
        powers = 0.5 * (self.degrees_for(d) + n)
        return Nearness(n, np.full(len(n), 0.5 * d), powers, np.maximum(values, 0.0))

    def resample_degrees(
        self, rng: np.random.Generator, hyper: Values, sums: Sums, law: Law
    ) -> None:
        from thali.kernels.cluster_scales import Likeness, draw_likeness

        d = sums.means.shape[1]
        one = self.at(degrees=d + 2.0)  # Ψ₀ is then the expected covariance
        values = one.width_terms(sums, hyper["kappa"]).values.reshape(-1, d)
        terms = Likeness(hyper["scale"] ** 2, sums.sizes, values)
        excess = draw_likeness(rng, hyper["degrees"] - d - 1.0, terms, law)
        hyper["degrees"] = d + 1.0 + float(excess)

    def log_marginal_of(self, data: Data, labels: np.ndarray) -> Callable[[Values], float]:
        own, data = self.varying(data)
        d = data.d
        sizes, means, scatter = own.sums_of(data, labels)
        outer = means[:, :, None] * means[:, None, :]

        def log_marginal(hyper: Values) -> float:
            at = own.replace(degrees=hyper["degrees"])
            degrees = at.degrees_for(d)
            half = 0.5 * (degrees - np.arange(d))
            known = (gammaln(half + 0.5 * sizes[:, None]) - gammaln(half)).sum()
            known -= 0.5 * data.n * d * np.log(np.pi)
            kappa, root = hyper["kappa"], at.expected(d, hyper["scale"])
            weight = kappa * sizes / (kappa + sizes)
            after = scatter + weight[:, None, None] * outer
            after[:, np.arange(d), np.arange(d)] += np.square(root)
            signs, logs = np.linalg.slogdet(after)
            if not (signs > 0.0).all():
                return -np.inf
            found = known + 0.5 * d * np.log(kappa / (kappa + sizes)).sum()
            found += len(sizes) * degrees * np.log(root).sum()
            return float(found - 0.5 * ((degrees + sizes) * logs).sum())

        return log_marginal

    def restricted(self, columns: np.ndarray) -> Self:
        """A part of Σ is inverse Wishart too, with fewer degrees."""
        used = self.widths(len(columns)) > 0.0
        d, kept = int(used.sum()), int((used & columns).sum())
        own = {k: Checked(self._column(k, len(columns))[columns]) for k in ("mean", "spread")}
        return self.replace(degrees=self.degrees_for(d) - d + kept, **own)

    def redraw(
        self,
        rng: np.random.Generator,
        groups: Groups,
        slots: Any,
        data: Data,
        observed: np.ndarray,
    ) -> np.ndarray:
        from thali.kernels.normal_wishart import redraw

        columns = self.widths(data.d) > 0.0
        redraw(rng, groups, slots, np.ascontiguousarray(observed[:, columns]))
        X = np.broadcast_to(self.center(data.d), data.X.shape).copy()
        X[:, columns] += groups.Y
        return np.where(observed, data.X, X)

    def _refuse_gaps(self, data: Data) -> None:
        if data.observed is not None:
            raise ValueError(
                "NormalWishart cannot integrate missing entries out: CollapsedGibbs draws them. "
                "Use NormalGamma for the density of what was observed."
            )


def scatters(away: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Σ xxᵀ over the rows of each label, (K, D, D)."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))
    rows = away[order]
    return np.stack([rows[a:b].T @ rows[a:b] for a, b in pairwise(ends)])
