r"""The linear-Gaussian likelihood X = Z A + E, A ~ N(0, σ_a²), E ~ N(0, σ_x²).

With M = (ZᵀZ + rI)⁻¹, r = σ_x²/σ_a²:

    A | X, Z ~ N(M ZᵀX, σ_x² M) in each column
    log P(X|Z) = −ND/2 log 2π − (N−K)D log σ_x − KD log σ_a − D/2 log|M⁻¹|
                 − tr(Xᵀ(I − Z M Zᵀ)X) / 2σ_x²
    x | z, Z, X ~ N(z M ZᵀX, σ_x²(1 + z M zᵀ) I)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from thali.data import Data
from thali.hyperparameters import InverseGamma, Law, as_number, check_hyperparameter
from thali.likelihoods.base import Collapsed, GaussianRows, GibbsUpdates, Parameters
from thali.likelihoods.gaussian_scales import scales_without_features
from thali.settings import Settings
from thali.structures import FeatureTables, as_binary_matrix

FINEST = 1e-6  # a noise below this share of the data's scale is lost in double precision


@dataclass(frozen=True)
class LinearGaussian(Settings, Collapsed, GibbsUpdates, GaussianRows):
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
        for name in ("sigma_x", "sigma_a"):
            if not isinstance(getattr(self, name), str) or getattr(self, name) != "auto":
                check_hyperparameter("LinearGaussian", name, getattr(self, name))

    def at(self, **numbers: float) -> Self:
        return self.replace(**numbers)

    def resolve(self, data: Data) -> Self:
        v = data.mean_square or 1.0  # data of zeros have no scale of their own
        for name in ("sigma_x", "sigma_a"):
            sigma = getattr(self, name)
            if not isinstance(sigma, Law | str) and sigma < FINEST * np.sqrt(data.mean_square):
                raise ValueError(
                    f"LinearGaussian: {name}={sigma} is less than a millionth of the data's scale "
                    f"({np.sqrt(v):.3g}), too fine for double precision; use a larger one."
                )
        fixed = [s for s in (self.sigma_x, self.sigma_a) if not isinstance(s, Law | str)]
        if len(fixed) == 2 and fixed[0] < FINEST * fixed[1]:
            raise ValueError(
                f"LinearGaussian: sigma_x={self.sigma_x} is less than a millionth of "
                f"sigma_a={self.sigma_a}, too fine for double precision; use closer ones."
            )
        return self.replace(
            sigma_x=InverseGamma(1.0, 0.01 * v) if self.sigma_x == "auto" else self.sigma_x,
            sigma_a=InverseGamma(2.0, v) if self.sigma_a == "auto" else self.sigma_a,
        )

    def start(self, data: Data) -> dict[str, float]:
        scale = float(np.sqrt(data.mean_square)) or 1.0
        numbers = {}
        for name, guess in (("sigma_x", 0.5 * scale), ("sigma_a", scale)):
            sigma = getattr(self, name)
            numbers[name] = guess if isinstance(sigma, Law | str) else float(sigma)
        return numbers

    # sampling and densities with A kept

    def sample_features(self, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
        return self._sigma_a * rng.standard_normal((k, d))

    def sample(self, rng: np.random.Generator, Z: Any, A: Any) -> np.ndarray:
        mean = np.asarray(Z, float) @ np.asarray(A, float)
        return mean + self._sigma_x * rng.standard_normal(mean.shape)

    def log_likelihood(self, X: Any, Z: Any, A: Any) -> float:
        residual = np.asarray(X, float) - np.asarray(Z, float) @ np.asarray(A, float)
        sigma = self._sigma_x
        return float(
            -0.5 * residual.size * np.log(2.0 * np.pi * sigma**2)
            - 0.5 * np.square(residual).sum() / sigma**2
        )

    # A integrated out

    def log_marginal(self, X: Any, Z: Any) -> float:
        X, Z = _pair(X, Z)
        sigma_x, sigma_a = self._sigma_x, self._sigma_a
        (n, d), k = X.shape, Z.shape[1]
        value = (
            -0.5 * n * d * np.log(2.0 * np.pi)
            - (n - k) * d * np.log(sigma_x)
            - k * d * np.log(sigma_a)
        )
        explained = 0.0
        if k:
            L, lower = self._factor(Z)
            half = solve_triangular(L, Z.T @ X, lower=lower)  # L⁻¹ZᵀX
            explained = np.square(half).sum()
            value -= d * np.log(np.diagonal(L)).sum()
        return float(value - 0.5 * (np.square(X).sum() - explained) / sigma_x**2)

    def features(self, X: Any, Z: Any) -> np.ndarray:
        """E[A | X, Z] = M ZᵀX."""
        X, Z = _pair(X, Z)
        if Z.shape[1] == 0:
            return np.zeros((0, X.shape[1]))
        return cho_solve(self._factor(Z), Z.T @ X)

    def draw_features(self, rng: np.random.Generator, X: Any, Z: Any) -> np.ndarray:
        """A draw of A | X, Z: its mean plus σ_x L⁻ᵀ ε, since M = L⁻ᵀ L⁻¹."""
        X, Z = _pair(X, Z)
        if Z.shape[1] == 0:
            return np.zeros((0, X.shape[1]))
        L, lower = self._factor(Z)
        noise = rng.standard_normal((Z.shape[1], X.shape[1]))
        mean = cho_solve((L, lower), Z.T @ X)
        return mean + self._sigma_x * np.linalg.solve(L.T, noise)

    # Gibbs updates with A kept

    def new_parameters(
        self, rng: np.random.Generator, data: Data, k: int, hyper: dict[str, float]
    ) -> Parameters:
        return {"A": hyper["sigma_a"] * rng.standard_normal((k, data.d))}

    def update_bits(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
        bits: Any,
    ) -> Any:
        from thali.kernels.given_features import turn_bits

        B, R, G = products(data.X, Z, parameters["A"])
        turn_bits(rng, R, G, Z, bits, hyper["sigma_x"])
        return B, R, G, bits.m

    def update_own(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
        tables: FeatureTables,
        work: Any,
    ) -> tuple[np.ndarray, Parameters]:
        """Their A integrated out; ``update_parameters`` then draws A whole."""
        from thali.kernels.collapsed_rows import Law as KernelLaw
        from thali.kernels.given_features import count_own_dishes

        law = KernelLaw(*tables, hyper["sigma_x"], hyper["sigma_a"], float(data.d))
        B, R, G, m = work
        own = count_own_dishes(rng, B, R, G, data.squares, Z, m, law)
        Z, shared = with_own_dishes(Z, m, own)
        new = self.new_parameters(rng, data, int(own.sum()), hyper)["A"]
        return Z, {"A": np.concatenate([parameters["A"][shared], new])}

    def update_parameters(
        self,
        rng: np.random.Generator,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, float],
        hold: bool,
    ) -> tuple[Parameters, float]:
        """Scales given Z with A integrated out, then A given Z and the scales."""
        real = Z.astype(float)
        C, T = real.T @ real, real.T @ data.X
        squares = float(data.squares.sum())
        evidence = scales_without_features(
            rng, self, C, T, squares, data.n, data.d, hyper, hold=hold
        )
        sigma_x = hyper["sigma_x"]
        L = np.linalg.cholesky(C + (sigma_x / hyper["sigma_a"]) ** 2 * np.eye(len(C)))
        mean = cho_solve((L, True), T)
        noise = solve_triangular(L, rng.standard_normal(T.shape), lower=True, trans="T")
        return {"A": mean + sigma_x * noise}, evidence

    def log_density(
        self, data: Data, Z: np.ndarray, parameters: Parameters, hyper: dict[str, float]
    ) -> float:
        A, sigma_a = parameters["A"], hyper["sigma_a"]
        prior = -0.5 * np.square(A / sigma_a).sum() - 0.5 * A.size * np.log(2 * np.pi * sigma_a**2)
        return self.at(sigma_x=hyper["sigma_x"]).log_likelihood(data.X, Z, A) + float(prior)

    def rows(self, X: Any, Z: Any) -> PredictiveRows:
        X, Z = _pair(X, Z)
        k = Z.shape[1]
        S = cho_solve(self._factor(Z), np.eye(k)) if k else np.zeros((0, 0))
        return PredictiveRows(S, S @ (Z.T @ X), self._sigma_x, self._sigma_a)

    def _factor(self, Z: np.ndarray) -> tuple[np.ndarray, bool]:
        """The Cholesky factor L of ZᵀZ + rI."""
        r = (self._sigma_x / self._sigma_a) ** 2
        L, lower = cho_factor(Z.T @ Z + r * np.eye(Z.shape[1]), lower=True)
        return np.tril(L), lower

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


def with_own_dishes(Z: np.ndarray, m: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Z with its shared columns, then own[n] columns that only row n has; and which are shared."""
    shared = m > 1
    rows = np.repeat(np.arange(len(Z)), own)
    new = np.zeros((len(Z), len(rows)), np.uint8)
    new[rows, np.arange(len(rows))] = 1
    return np.ascontiguousarray(np.concatenate([Z[:, shared], new], axis=1)), shared


def _pair(X: Any, Z: Any) -> tuple[np.ndarray, np.ndarray]:
    """X and Z as float matrices with equal numbers of rows."""
    X = np.asarray(X, float)
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, not {X.ndim}.")
    return X, as_binary_matrix(Z, n=X.shape[0]).astype(float)
