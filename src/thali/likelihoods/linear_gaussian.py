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
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrs, dtrtrs  # of small matrices most time goes to checks

from thali.data.matrix import Data, Table
from thali.data.sparse import cross as sparse_cross
from thali.hyperparameters import InverseGamma, Values
from thali.likelihoods import masked_columns
from thali.likelihoods.base import (
    ExpectedBits,
    GaussianRows,
    Likelihood,
    MaskedCollapsed,
    Parameters,
    Scale,
    Scaled,
    TakesSparse,
    Words,
)
from thali.likelihoods.entries import NormalEntries
from thali.likelihoods.feature_posteriors import GaussianFeatures
from thali.likelihoods.gaussian_scales import (
    GaussianScales,
    log_evidences,
    log_noise,
    log_normal,
    scales_without_features,
)
from thali.likelihoods.gibbs_updates import GibbsState, MovesSingly, Turned
from thali.likelihoods.moving_rows import gaussian_rows
from thali.likelihoods.observed_rows import (
    dimensions,
    observed_products,
    own_features,
)
from thali.likelihoods.search_rows import SearchRows
from thali.likelihoods.tempered import Densities, Tempered
from thali.registry import LIKELIHOODS
from thali.settings import check_settings, defined_together, hyperparameter, setting, shown
from thali.structures.features import FeatureTables, as_binary_matrix

if TYPE_CHECKING:
    from thali.kernels.bit_prior import BitPrior
    from thali.kernels.gaussian_moves import GaussianMoves

NOISES = ("shared", "column")


@LIKELIHOODS.register("linear_gaussian")
@dataclass(frozen=True)
class LinearGaussian(
    GaussianScales,
    MaskedCollapsed,
    MovesSingly,
    Tempered,
    GaussianRows,
    SearchRows,
    ExpectedBits,
    TakesSparse,
):
    """A row is the sum of its features and Gaussian noise.

    Parameters
    ----------
    sigma_x : float, hyperprior or "auto", default "auto"
        The size of the noise, a standard deviation.
    sigma_a : float, hyperprior or "auto", default "auto"
        The size of the features: the standard deviation of the entries of A.
    noise : {"shared", "column"}, default "shared"
        Whether all columns have the same noise, or each its own, with features in proportion to it,
        for columns in different units. Samplers run that alone.

    Notes
    -----
    A number is fixed; a hyperprior means that the scale is inferred. "auto" infers it under a weak
    prior centered on the data: σ_x² ~ InverseGamma(1, v/100) and σ_a² ~ InverseGamma(2, v), v the
    mean square of the data.

    With ``noise="column"`` a_kd ~ N(0, σ_a² σ_d²): ``sigma_a`` is in units of the noise, and
    ``sigma_x`` is "auto", σ_d² ~ InverseGamma(2, v_d/5) with v_d the mean square of column d, or an
    ``InverseGamma`` that every σ_d² has. A number is refused. ``noise_`` has the σ_d that were
    found, and ``components_`` are in the data's own units.

    Examples
    --------
    >>> import numpy as np
    >>> lik = LinearGaussian(sigma_x=0.5, sigma_a=1.0)
    >>> round(lik.log_marginal(np.zeros((1, 1)), np.zeros((1, 0))), 4)  # N(0; 0, 0.25)
    -0.2258
    """

    sigma_x: Scale = hyperparameter("auto", symbol="σₓ", words="size of the noise")
    sigma_a: Scale = hyperparameter("auto", symbol="σₐ", words="size of the features")
    noise: str = setting(
        "shared", help="One size of the noise, or one for each column", choices=NOISES
    )

    axes: ClassVar[dict[str, int]] = {"A": 0}
    words: ClassVar[Words] = Words(
        "Each feature is a pattern that is added to every row that has it, most frequent first.",
        "X = Z A + noise: a row of the data X is the sum of the features A that it has (Z says "
        "which: 1 or 0), plus noise.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "shared":  # a sweep makes it anew: no more than that
            return
        check_settings(self)
        if self.noise == "column" and not isinstance(self.sigma_x, str | InverseGamma):
            raise ValueError(
                f"LinearGaussian: sigma_x={shown(self.sigma_x)} is for noise='shared'; the noise "
                "of each column is found under sigma_x='auto', or a hyperprior such as "
                "thali.InverseGamma(2, 1) of every one."
            )

    def specialized(self) -> Likelihood:
        if self.noise == "shared":
            return self
        from thali.likelihoods.column_noise import ColumnNoise

        return ColumnNoise(sigma_a=self.sigma_a, law=cast(InverseGamma | str, self.sigma_x))

    def feature_posterior(self, k: int, d: int, sigma_a: float, joint: bool) -> GaussianFeatures:
        return GaussianFeatures.prior(k, d, sigma_a, joint)

    # sampling and densities with A kept

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self._sigma_a * rng.standard_normal((k, d))

    # A integrated out

    def log_marginal(self, X: Table, Z: ArrayLike) -> float:
        data, Z = _pair(X, Z)
        sigma_x, sigma_a = self._sigma_x, self._sigma_a
        n, d, k = data.n, data.d, Z.shape[1]
        if data.observed is not None:
            _, log_dets, explained = masked_columns.solve(data, Z, self._r, np.zeros((k, d)))
            return masked_columns.log_evidence(data, log_dets, explained, k, sigma_x, sigma_a)
        value = (
            -0.5 * n * d * np.log(2.0 * np.pi)
            - (n - k) * d * np.log(sigma_x)
            - k * d * np.log(sigma_a)
        )
        fitted = 0.0
        if k:
            L, lower = self._factor(Z)
            half = solve_triangular(L, cross(Z, data), lower=lower)  # L⁻¹ZᵀX
            fitted = np.square(half).sum()
            value -= d * np.log(np.diagonal(L)).sum()
        return float(value - 0.5 * (data.total_square - fitted) / sigma_x**2)

    def features(self, X: Table, Z: ArrayLike) -> np.ndarray:
        """E[A | X, Z] = M ZᵀX."""
        data, Z = _pair(X, Z)
        if Z.shape[1] == 0:
            return np.zeros((0, data.d))
        if data.observed is not None:
            return masked_columns.solve(data, Z, self._r, np.zeros((Z.shape[1], data.d)))[0]
        return cho_solve(self._factor(Z), cross(Z, data))

    def draw_features(self, rng: np.random.Generator, X: Table, Z: ArrayLike) -> np.ndarray:
        """A draw of A | X, Z: its mean plus σ_x L⁻ᵀ ε, since M = L⁻ᵀ L⁻¹."""
        data, Z = _pair(X, Z)
        if Z.shape[1] == 0:
            return np.zeros((0, data.d))
        noise = rng.standard_normal((Z.shape[1], data.d))
        if data.observed is not None:
            return masked_columns.solve(data, Z, self._r, self._sigma_x * noise)[0]
        L, lower = self._factor(Z)
        mean = cho_solve((L, lower), cross(Z, data))
        return mean + self._sigma_x * np.linalg.solve(L.T, noise)

    def draw_features_and_evidence(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Where entries are missing, given the others alone: one solution of every column."""
        given, k = data.given, Z.shape[1]
        if given.observed is None:
            return super().draw_features_and_evidence(rng, data, Z)
        sigma_x, sigma_a = self._sigma_x, self._sigma_a
        noise = sigma_x * rng.standard_normal((k, data.d))
        A, log_dets, explained = masked_columns.solve(given, Z, self._r, noise)
        return A, masked_columns.log_evidence(given, log_dets, explained, k, sigma_x, sigma_a)

    # missing entries

    def augment(
        self, rng: np.random.Generator, data: Data, Z: np.ndarray, parameters: Parameters
    ) -> Data:
        """The data with every missing entry drawn given Z and A."""
        if not defined_together(self, "augment", ("entries", "augments")):
            return super().augment(rng, data, Z, parameters)
        return masked_columns.completed(rng, data, Z, parameters["A"], self._sigma_x)

    def missing_entries(self, X: Table, Z: ArrayLike) -> NormalEntries:
        """x_nd ~ N(z_n E[a_d], σ_x²(1 + z_n M_d z_nᵀ)), in the order of ``data.where_missing``.

        >>> lik = LinearGaussian(sigma_x=1.0, sigma_a=1.0)
        >>> missing = lik.missing_entries([[2.0], [np.nan]], [[1], [1]])
        >>> missing.mean.round(6).tolist(), missing.variance.round(6).tolist()
        ([1.0], [1.5])
        """
        data, Z = _pair(X, Z)
        n, d = data.where_missing
        if Z.shape[1] == 0 or len(n) == 0:
            return NormalEntries(np.zeros(len(n)), np.full(len(n), self._sigma_x))
        A = masked_columns.solve(data, Z, self._r, np.zeros((Z.shape[1], data.d)))[0]
        by_features = np.zeros((data.n, data.d))
        by_features.T[~data.seen.T] = masked_columns.variances(data, Z, self._r)
        mean = np.einsum("ik,ki->i", Z[n], A[:, d])
        return NormalEntries(mean, self._sigma_x * np.sqrt(1.0 + by_features[n, d]))

    # Gibbs updates with A kept

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: Values
    ) -> Parameters:
        return {"A": hyper["sigma_a"] * rng.standard_normal((k, data.d))}

    def update_bits(self, rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
        """Given A and what was observed of each row."""
        return turn_bits_given_features(rng, state, bits)

    def update_own(
        self, rng: np.random.Generator, state: GibbsState, tables: FeatureTables, turned: Turned
    ) -> None:
        """Their A integrated out, and then drawn given what was observed of the row.

        Of complete data ``update_parameters`` draws A whole, and nothing looks at it before.
        """
        from thali.kernels.gaussian_row import Scales
        from thali.kernels.given_features import count_own_features, left_by_shared
        from thali.kernels.observed_rows import observed_squares
        from thali.kernels.row_potentials import other_features

        data, hyper, A = state.data, state.hyper, state.parameters["A"]
        scales = Scales(hyper["sigma_x"], hyper["sigma_a"], float(data.d))
        m = turned.m
        others = other_features(tables.row_potentials, state.bits, m)
        if state.observed is None:
            B, R, G = turned.products
            rho, has = left_by_shared(B, R, G, data.squares, state.bits, m)
        else:
            has = state.bits[:, m == 1].sum(axis=1, dtype=np.int64)
            rho = observed_squares(data.X, data.given.seen, state.bits, A, m != 1)
        own = count_own_features(rng, rho, has, others, dimensions(state), len(m), tables, scales)
        state.bits, shared = with_own_features(state.bits, m, own)
        if state.observed is None:
            new = self.new_parameters(rng, data, int(own.sum()), hyper)["A"]
        else:
            which = np.flatnonzero(own)
            left = data.X[which] - state.bits[which, : shared.sum()].astype(float) @ A[shared]
            rows, seen = np.repeat(np.arange(len(which)), own[which]), state.observed[which]
            new = own_features(rng, left, seen, rows, np.ones(len(rows)), hyper)
        state.parameters = {"A": np.concatenate([A[shared], new])}

    def moving_rows(self, state: GibbsState, room: int) -> GaussianMoves:
        from thali.kernels.gaussian_moves import PLAIN

        return gaussian_rows(state, room, PLAIN)

    def update_parameters(self, rng: np.random.Generator, state: GibbsState, hold: bool) -> float:
        """Scales given Z with A integrated out, then A given Z and the scales."""
        evidence, A = scales_then_features(rng, self, state, state.bits, hold)
        state.parameters = {"A": A}
        return evidence

    def log_density(self, state: GibbsState) -> float:
        A, hyper = state.parameters["A"], state.hyper
        given = log_noise(state.data, state.bits, A, hyper["sigma_x"])
        return given + log_normal(A, hyper["sigma_a"])

    def log_densities(self, data: Data, state: GibbsState) -> Densities:
        """log P(X_obs | Z), A integrated out."""
        if data.observed is None:
            return log_evidences(data, state.bits)
        names = ("sigma_x", "sigma_a")
        return lambda hyper: self.at(**{k: hyper[k] for k in names}).log_marginal(data, state.bits)

    def rows(self, X: Table, Z: ArrayLike) -> PredictiveRows:
        """The predictive form of complete data (with missing entries M differs by column)."""
        data, Z = _pair(X, Z)
        k = Z.shape[1]
        M = cho_solve(self._factor(Z), np.eye(k)) if k else np.zeros((0, 0))
        return PredictiveRows(M, M @ cross(Z, data))

    def _factor(self, Z: np.ndarray) -> tuple[np.ndarray, bool]:
        """The Cholesky factor L of ZᵀZ + rI."""
        L, lower = cho_factor(Z.T @ Z + self._r * np.eye(Z.shape[1]), lower=True)
        return np.tril(L), lower

    @property
    def _r(self) -> float:
        return (self._sigma_x / self._sigma_a) ** 2


class PredictiveRows(NamedTuple):
    """M = (ZᵀZ + rI)⁻¹ and μ = M ZᵀX."""

    M: np.ndarray
    mu: np.ndarray


def products(
    X: np.ndarray, Z: np.ndarray, A: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B = XAᵀ, R = B − ZG and G = AAᵀ, all that the bits' kernel reads of X and A."""
    B, G = X @ A.T, A @ A.T
    return B, B - Z.astype(float) @ G, G


def turn_bits_given_features(rng: np.random.Generator, state: GibbsState, bits: BitPrior) -> Turned:
    """One pass over the bits of X = ZA + E; of complete data, B, R and G for the own features."""
    from thali.kernels.given_features import turn_bits

    A, sigma_x = state.parameters["A"], state.hyper["sigma_x"]
    if state.observed is None:
        B, R, G = products(state.data.X, state.bits, A)
        turn_bits(rng, R, G, None, state.bits, bits, sigma_x)
        return Turned(bits.m, (B, R, G))
    turn_bits(rng, *observed_products(state, state.bits, A), state.bits, bits, sigma_x)
    return Turned(bits.m)


def scales_then_features(
    rng: np.random.Generator, likelihood: Scaled, state: GibbsState, W: np.ndarray, hold: bool
) -> tuple[float, np.ndarray]:
    """Draw the scales given W (Z, or amounts) with A integrated out, then A; and log P(X | W).

    The prior of σ_x is cut off at a share of what was observed: drawn entries say nothing of it.
    """
    data = state.data

    def sums(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        real = W[rows].astype(float)
        return real.T @ real, real.T @ data.X[rows]

    found = state.side_by_side(sums, state.pieces)
    C, T = (reduce(np.add, parts) for parts in zip(*found, strict=True))
    squares, scale = float(data.squares.sum()), None
    if state.observed is not None:
        scale = float(np.sqrt(data.given.mean_square))
    return scales_and_features(
        rng, likelihood, C, T, squares, data.n, data.d, state.hyper, hold, scale
    )


def scales_and_features(
    rng: np.random.Generator,
    likelihood: Scaled,
    C: np.ndarray,
    T: np.ndarray,
    squares: float,
    n: int,
    d: int,
    hyper: Values,
    hold: bool,
    scale: float | None = None,
) -> tuple[float, np.ndarray]:
    """The same from C = WᵀW, T = WᵀX and Σx²."""
    evidence = scales_without_features(
        rng, likelihood, C, T, squares, n, d, hyper, hold=hold, scale=scale
    )
    sigma_x = hyper["sigma_x"]
    if len(C) == 0:
        return evidence, np.zeros(T.shape)
    L = np.linalg.cholesky(C + (sigma_x / hyper["sigma_a"]) ** 2 * np.eye(len(C)))
    mean, _ = dpotrs(L, T, lower=True)
    noise, _ = dtrtrs(L.T, rng.standard_normal(T.shape))
    return evidence, mean + sigma_x * noise


def with_own_features(
    Z: np.ndarray, m: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Z with its shared columns, then own[n] columns that only row n has; and which are shared."""
    shared = m > 1
    rows = np.repeat(np.arange(len(Z)), own)
    new = np.zeros((len(Z), len(rows)), np.uint8)
    new[rows, np.arange(len(rows))] = 1
    return np.ascontiguousarray(np.concatenate([Z[:, shared], new], axis=1)), shared


def cross(Z: np.ndarray, data: Data) -> np.ndarray:
    """ZᵀX."""
    return sparse_cross(Z, data.X) if data.sparse or data.far else np.asarray(Z.T @ data.X)


def _pair(X: Table, Z: ArrayLike) -> tuple[Data, np.ndarray]:
    """X as data, and Z as real numbers with as many rows."""
    data = Data.of(X)
    return data, as_binary_matrix(Z, n=data.n).astype(float)
