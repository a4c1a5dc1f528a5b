r"""The linear-Gaussian likelihood X = Z A + E, A ~ N(0, σ_a²), E ~ N(0, σ_x²).

With M = (ZᵀZ + rI)⁻¹, r = σ_x²/σ_a²:

    A | X, Z ~ N(M ZᵀX, σ_x² M) in each column
    log P(X|Z) = −ND/2 log 2π − (N−K)D log σ_x − KD log σ_a − D/2 log|M⁻¹|
                 − tr(Xᵀ(I − Z M Zᵀ)X) / 2σ_x²
    x | z, Z, X ~ N(z M ZᵀX, σ_x²(1 + z M zᵀ) I)

Where entries of X are missing (NaN) each column has its own M, of the rows observed there, and the
same holds column by column (``kernels/masked_columns.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from thali.data import Data, blocks
from thali.hyperparameters import Law, as_number
from thali.likelihoods.base import (
    ExpectedBits,
    GaussianRows,
    GibbsUpdates,
    MaskedCollapsed,
    Parameters,
    Place,
    SearchRows,
    TakesSparse,
)
from thali.likelihoods.entries import NormalEntries
from thali.likelihoods.gaussian_scales import (
    check_scales,
    resolve_scales,
    scales_without_features,
    start_scales,
)
from thali.likelihoods.masked_columns import MaskedColumns
from thali.likelihoods.observed_rows import (
    dimensions,
    observed_products,
    observed_residual,
    own_features,
)
from thali.settings import Settings
from thali.sparse import cross as sparse_cross
from thali.sparse import is_sparse, size_of, squared_residual, sum_of_squares
from thali.structures import FeatureTables, as_binary_matrix
from thali.variational.features import GaussianFeatures


@dataclass(frozen=True)
class LinearGaussian(
    Settings, MaskedCollapsed, GibbsUpdates, GaussianRows, SearchRows, ExpectedBits, TakesSparse
):
    """Noise scale ``sigma_x`` and feature scale ``sigma_a``: numbers, laws, or "auto".

    "auto" infers the scale under a weak law centred on the data:
    σ_x² ~ InverseGamma(1, v/100) and σ_a² ~ InverseGamma(2, v), v the mean square of the data.

    >>> import numpy as np
    >>> lik = LinearGaussian(sigma_x=0.5, sigma_a=1.0)
    >>> round(lik.log_marginal(np.zeros((1, 1)), np.zeros((1, 0))), 4)  # N(0; 0, 0.25)
    -0.2258
    """

    sigma_x: float | Law | str = "auto"
    sigma_a: float | Law | str = "auto"

    axes: ClassVar[dict[str, int]] = {"A": 0}

    def __post_init__(self) -> None:
        check_scales(self)

    def at(self, **numbers: float) -> Self:
        return self.replace(**numbers)

    def resolve(self, data: Data) -> Self:
        return self.replace(**resolve_scales(self, data))

    def start(self, data: Data) -> dict[str, float]:
        return start_scales(self, data)

    def feature_law(self, k: int, d: int, sigma_a: float, joint: bool) -> GaussianFeatures:
        return GaussianFeatures.prior(k, d, sigma_a, joint)

    # sampling and densities with A kept

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self._sigma_a * rng.standard_normal((k, d))

    def sample(self, rng: np.random.Generator, Z: Any, A: Any) -> np.ndarray:
        mean = np.asarray(Z, float) @ np.asarray(A, float)
        return mean + self._sigma_x * rng.standard_normal(mean.shape)

    def log_likelihood(self, X: Any, Z: Any, A: Any) -> float:
        return log_noise(X, Z, A, self._sigma_x)

    # A integrated out

    def log_marginal(self, X: Any, Z: Any) -> float:
        X, Z = _pair(X, Z)
        sigma_x, sigma_a = self._sigma_x, self._sigma_a
        (n, d), k = X.shape, Z.shape[1]
        if has_gaps(X):
            masked = MaskedColumns(X)
            found = masked.solve(Z, self._r, np.zeros((k, d)))
            return masked.log_evidence(found[1], found[2], k, sigma_x, sigma_a)
        value = (
            -0.5 * n * d * np.log(2.0 * np.pi)
            - (n - k) * d * np.log(sigma_x)
            - k * d * np.log(sigma_a)
        )
        explained = 0.0
        if k:
            L, lower = self._factor(Z)
            half = solve_triangular(L, cross(Z, X), lower=lower)  # L⁻¹ZᵀX
            explained = np.square(half).sum()
            value -= d * np.log(np.diagonal(L)).sum()
        return float(value - 0.5 * (sum_of_squares(X) - explained) / sigma_x**2)

    def features(self, X: Any, Z: Any) -> np.ndarray:
        """E[A | X, Z] = M ZᵀX."""
        X, Z = _pair(X, Z)
        if Z.shape[1] == 0:
            return np.zeros((0, X.shape[1]))
        if has_gaps(X):
            return MaskedColumns(X).solve(Z, self._r, np.zeros((Z.shape[1], X.shape[1])))[0]
        return cho_solve(self._factor(Z), cross(Z, X))

    def draw_features(self, rng: np.random.Generator, X: Any, Z: Any) -> np.ndarray:
        """A draw of A | X, Z: its mean plus σ_x L⁻ᵀ ε, since M = L⁻ᵀ L⁻¹."""
        X, Z = _pair(X, Z)
        if Z.shape[1] == 0:
            return np.zeros((0, X.shape[1]))
        noise = rng.standard_normal((Z.shape[1], X.shape[1]))
        if has_gaps(X):
            return MaskedColumns(X).solve(Z, self._r, self._sigma_x * noise)[0]
        L, lower = self._factor(Z)
        mean = cho_solve((L, lower), cross(Z, X))
        return mean + self._sigma_x * np.linalg.solve(L.T, noise)

    # missing entries

    def entries(
        self, Z: Any, parameters: Parameters, where: tuple[np.ndarray, ...]
    ) -> NormalEntries:
        """x_nd ~ N(z_n a_d, σ_x²)."""
        return normal_entries(np.asarray(Z, float), parameters["A"], self._sigma_x, where)

    def missing_entries(self, X: Any, Z: Any) -> NormalEntries:
        """x_nd ~ N(z_n E[a_d], σ_x²(1 + z_n M_d z_nᵀ)), in the order of ``np.nonzero(isnan(X))``.

        >>> lik = LinearGaussian(sigma_x=1.0, sigma_a=1.0)
        >>> law = lik.missing_entries([[2.0], [np.nan]], [[1], [1]])
        >>> law.mean.round(6).tolist(), law.variance.round(6).tolist()
        ([1.0], [1.5])
        """
        X, Z = _pair(X, Z)
        missing = np.isnan(X)
        n, d = np.nonzero(missing)
        if Z.shape[1] == 0 or len(n) == 0:
            return NormalEntries(np.zeros(len(n)), np.full(len(n), self._sigma_x))
        masked = MaskedColumns(X)
        A = masked.solve(Z, self._r, np.zeros((Z.shape[1], X.shape[1])))[0]
        spread = np.zeros(X.shape)
        spread.T[missing.T] = masked.spreads(Z, self._r)
        mean = np.einsum("ik,ki->i", Z[n], A[:, d])
        return NormalEntries(mean, self._sigma_x * np.sqrt(1.0 + spread[n, d]))

    # Gibbs updates with A kept

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: dict[str, float]
    ) -> Parameters:
        return {"A": hyper["sigma_a"] * rng.standard_normal((k, data.d))}

    def update_bits(self, rng: np.random.Generator, place: Place, bits: Any) -> Any:
        """Given A and what was observed of each row."""
        return turn_bits_given_features(rng, place, bits), bits.m

    def update_own(
        self, rng: np.random.Generator, place: Place, tables: FeatureTables, work: Any
    ) -> None:
        """Their A integrated out, and then drawn given what was observed of the row.

        Of complete data ``update_parameters`` draws A whole, and nothing looks at it before.
        """
        from thali.kernels.gaussian_row import Scales
        from thali.kernels.given_features import count_own_features, left_by_shared
        from thali.kernels.row_potentials import other_features

        data, hyper, mask, A = place.data, place.hyper, place.mask, place.parameters["A"]
        scales = Scales(hyper["sigma_x"], hyper["sigma_a"], float(data.d))
        found, m = work
        others = other_features(tables.row_potentials, place.bits, m)
        if mask is None:
            B, R, G = found
            rho, has = left_by_shared(B, R, G, data.squares, place.bits, m)
        else:
            has = place.bits[:, m == 1].sum(axis=1, dtype=np.int64)
            left = observed_residual(place, place.bits * (m != 1), A)
            rho = np.square(left).sum(axis=1)
        own = count_own_features(rng, rho, has, others, dimensions(place), len(m), tables, scales)
        place.bits, shared = with_own_features(place.bits, m, own)
        if mask is None:
            new = self.new_parameters(rng, data, int(own.sum()), hyper)["A"]
        else:
            rows = np.repeat(np.arange(data.n), own)
            new = own_features(rng, left, mask, rows, np.ones(len(rows)), hyper)
        place.parameters = {"A": np.concatenate([A[shared], new])}

    def update_parameters(self, rng: np.random.Generator, place: Place, hold: bool) -> float:
        """Scales given Z with A integrated out, then A given Z and the scales."""
        evidence, A = scales_then_features(rng, self, place, place.bits, hold)
        place.parameters = {"A": A}
        return evidence

    def log_density(self, place: Place) -> float:
        A, hyper = place.parameters["A"], place.hyper
        given = self.at(sigma_x=hyper["sigma_x"]).log_likelihood(place.data.X, place.bits, A)
        return given + log_normal(A, hyper["sigma_a"])

    def rows(self, X: Any, Z: Any) -> PredictiveRows:
        """The predictive form of complete data (with missing entries S differs by column)."""
        X, Z = _pair(X, Z)
        k = Z.shape[1]
        S = cho_solve(self._factor(Z), np.eye(k)) if k else np.zeros((0, 0))
        return PredictiveRows(S, S @ cross(Z, X), self._sigma_x, self._sigma_a)

    def _factor(self, Z: np.ndarray) -> tuple[np.ndarray, bool]:
        """The Cholesky factor L of ZᵀZ + rI."""
        L, lower = cho_factor(Z.T @ Z + self._r * np.eye(Z.shape[1]), lower=True)
        return np.tril(L), lower

    @property
    def _r(self) -> float:
        return (self._sigma_x / self._sigma_a) ** 2

    @property
    def _sigma_x(self) -> float:
        return as_number("LinearGaussian", "sigma_x", self.sigma_x)

    @property
    def _sigma_a(self) -> float:
        return as_number("LinearGaussian", "sigma_a", self.sigma_a)


@dataclass
class PredictiveRows:
    """S = (ZᵀZ + rI)⁻¹ and μ = S ZᵀX; a row leaves or returns at O(K² + KD)."""

    S: np.ndarray
    mu: np.ndarray
    sigma_x: float
    sigma_a: float

    def remove(self, x: np.ndarray, z: np.ndarray) -> None:
        s = self.S @ z
        self._shift(s, x - z @ self.mu, -1.0 / (1.0 - z @ s))

    def add(self, x: np.ndarray, z: np.ndarray) -> None:
        s = self.S @ z
        self._shift(s, x - z @ self.mu, 1.0 / (1.0 + z @ s))

    def log_density(self, x: np.ndarray, z: np.ndarray, new_dishes: int = 0) -> float:
        """log p(x | z, j new dishes): the new ones only add j/r to the variance factor."""
        r = (self.sigma_x / self.sigma_a) ** 2
        variance = self.sigma_x**2 * (1.0 + z @ self.S @ z + new_dishes / r)
        residual = x - z @ self.mu
        return float(
            -0.5 * len(x) * np.log(2.0 * np.pi * variance) - 0.5 * residual @ residual / variance
        )

    def _shift(self, s: np.ndarray, residual: np.ndarray, weight: float) -> None:
        self.S -= weight * np.outer(s, s)
        self.mu += weight * np.outer(s, residual)


def products(
    X: np.ndarray, Z: np.ndarray, A: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B = XAᵀ, R = B − ZG and G = AAᵀ, all that the bits' kernel reads of X and A."""
    B, G = X @ A.T, A @ A.T
    return B, B - Z.astype(float) @ G, G


def turn_bits_given_features(rng: np.random.Generator, place: Place, bits: Any) -> Any:
    """One pass over the bits of X = ZA + E; of complete data, B, R and G for the own features."""
    A, sigma_x = place.parameters["A"], place.hyper["sigma_x"]
    if place.mask is None:
        from thali.kernels.given_features import turn_bits

        B, R, G = products(place.data.X, place.bits, A)
        turn_bits(rng, R, G, place.bits, bits, sigma_x)
        return B, R, G
    from thali.kernels.observed_rows import turn_observed_bits

    R, diagonals, G = observed_products(place, place.bits, A)
    turn_observed_bits(rng, R, diagonals, G, A, place.mask, place.bits, bits, sigma_x)
    return None


def scales_then_features(
    rng: np.random.Generator, likelihood: Any, place: Place, W: np.ndarray, hold: bool
) -> tuple[float, np.ndarray]:
    """Draw the scales given W (Z, or amounts) with A integrated out, then A; and log P(X | W).

    The law of σ_x is cut off at a share of what was observed: drawn entries are none of its law.
    """
    data, hyper, real = place.data, place.hyper, W.astype(float)
    C, T = real.T @ real, real.T @ data.X
    squares, scale = float(data.squares.sum()), None
    if place.mask is not None:
        scale = float(np.sqrt(np.mean(np.square(data.X[place.mask]))))
    evidence = scales_without_features(
        rng, likelihood, C, T, squares, data.n, data.d, hyper, hold=hold, scale=scale
    )
    sigma_x = hyper["sigma_x"]
    L = np.linalg.cholesky(C + (sigma_x / hyper["sigma_a"]) ** 2 * np.eye(len(C)))
    mean = cho_solve((L, True), T)
    noise = solve_triangular(L, rng.standard_normal(T.shape), lower=True, trans="T")
    return evidence, mean + sigma_x * noise


def log_noise(X: Any, W: Any, A: Any, sigma: float) -> float:
    """Σ log N(x; wa, σ²) over the observed entries of X, or all of a sparse one: no second X is
    made."""
    W, A = np.asarray(W), np.asarray(A, float)
    if is_sparse(X):
        squares, count = squared_residual(X, W, A), size_of(X)
        return float(-0.5 * count * np.log(2.0 * np.pi * sigma**2) - 0.5 * squares / sigma**2)
    X, total = np.asarray(X, float), 0.0
    for block in blocks(X):
        left = X[block] - W[block].astype(float) @ A
        total += log_normal(left[~np.isnan(left)], sigma)
    return total


def log_normal(values: np.ndarray, sigma: float) -> float:
    """Σ log N(v; 0, σ²)."""
    return float(
        -0.5 * values.size * np.log(2.0 * np.pi * sigma**2)
        - 0.5 * np.square(values).sum() / sigma**2
    )


def normal_entries(
    W: np.ndarray, A: np.ndarray, sigma_x: float, where: tuple[np.ndarray, ...]
) -> NormalEntries:
    """N(w_n a_d, σ_x²) at the places (rows, columns)."""
    mean = (W @ A)[where]
    return NormalEntries(mean, np.full(mean.shape, sigma_x))


def with_own_features(
    Z: np.ndarray, m: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Z with its shared columns, then own[n] columns that only row n has; and which are shared."""
    shared = m > 1
    rows = np.repeat(np.arange(len(Z)), own)
    new = np.zeros((len(Z), len(rows)), np.uint8)
    new[rows, np.arange(len(rows))] = 1
    return np.ascontiguousarray(np.concatenate([Z[:, shared], new], axis=1)), shared


def has_gaps(X: Any) -> bool:
    """Whether entries are missing; a sparse matrix has none."""
    return not is_sparse(X) and bool(np.isnan(X).any())


def cross(Z: np.ndarray, X: Any) -> np.ndarray:
    """ZᵀX."""
    return sparse_cross(Z, X) if is_sparse(X) else np.asarray(Z.T @ X)


def _pair(X: Any, Z: Any) -> tuple[Any, np.ndarray]:
    """X and Z as float matrices with equal numbers of rows; a sparse X stays sparse."""
    X = X if is_sparse(X) else np.asarray(X, float)
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, not {X.ndim}.")
    return X, as_binary_matrix(Z, n=X.shape[0]).astype(float)
