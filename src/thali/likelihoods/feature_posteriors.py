r"""The distribution q of the features A, and what the bound has of it.

    E‖X − WA‖² = Σx² − 2 tr(E[A]ᵀT) + Σ_d tr(C_d E[a_d a_dᵀ])

Gaussian features (``GaussianFeatures``), a_d ~ N(0, σ_a²): with r = σ_x²/σ_a² the best means are
φ_d = (C_d + rI)⁻¹ T_d whatever the covariances, and the best covariances

    joint       V_d = σ_x² (C_d + rI)⁻¹              one Gaussian over the K features of a column
    factorized  V_d = σ_x² / (diag C_d + r)          the paper's, one Gaussian for each entry.

Without gaps all columns share V. Nonnegative features (``NonnegativeFeatures``; those with an
exponential prior are in ``exponential_features.py``): q(a_kd) is the best one given the others, a
normal distribution cut off below zero,

    a_kd ~ TN((T_kd − Σ_{j≠k} C_kj E[a_jd]) / (C_kk + r),  σ_x²/(C_kk + r)),

one feature after the other.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpotrf, dpotri

from thali.structures.statistics import Statistics

LOG_2 = float(np.log(2.0))
PASSES = 2  # over the nonnegative features in an update


class FeaturePosterior(Protocol):
    """What the engine asks of a distribution of A, made from statistics."""

    @property
    def phi(self) -> np.ndarray:
        """E[A], (K, D)."""

    def updated(self, found: Statistics, sigma_x: float, sigma_a: float) -> Self:
        """The best q given the rows."""

    def gram(self) -> np.ndarray:
        """Σ_d E[a_d a_dᵀ], (K, K)."""

    def grams(self) -> np.ndarray:
        """E[a_d a_dᵀ] of each column, (D, K, K)."""

    def of_scale(self) -> tuple[float, float]:
        """s and l of the gain as a function of σ_a: −KD log σ_a − s/2σ_a² − l/σ_a."""

    def gain(self, sigma_a: float) -> float:
        """E[log p(A)] + H[q(A)]."""

    def gains(self, sigma_a: float) -> np.ndarray:
        """The same of each feature, (K,); where q is factorized."""

    def taken(self, order: np.ndarray) -> Self:
        """Some features, in this order."""

    def grown(
        self, found: Statistics | None = None, sigma_x: float = 1.0, sigma_a: float = 1.0
    ) -> Self:
        """One feature more, the last of ``found``: the best q of it given the others, and
        independent of them; without statistics, one that says nothing."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """A drawn from q."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The parameters of q, for files and for people."""

    def of_arrays(self, arrays: dict[str, np.ndarray]) -> Self:
        """The q that ``arrays`` describe, of this kind."""


def expected_squares(found: Statistics, q: FeaturePosterior) -> float:
    """E‖X − WA‖² over what was observed; a difference, that rounding must not take below zero."""
    quadratic = np.vdot(found.C, q.gram() if found.C.ndim == 2 else q.grams())
    cross = np.vdot(q.phi, found.T)
    return max(found.squares - 2.0 * float(cross) + float(quadratic), 0.0)


def left_for_last(
    found: Statistics | None, phi: np.ndarray, sigma_x: float, sigma_a: float
) -> tuple[np.ndarray, float | np.ndarray]:
    """Mean (D,) and variance of the last feature of ``found`` given the means of the others."""
    if found is None:
        return np.zeros(phi.shape[1]), sigma_a**2
    precision = found.C[..., -1, -1] + (sigma_x / sigma_a) ** 2
    C = found.C[..., -1, :-1]  # of each column where entries are missing
    others = C @ phi if C.ndim == 1 else np.einsum("dk,kd->d", C, phi)
    return (found.T[-1] - others) / precision, sigma_x**2 / precision


def inverse(C: np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray]:
    """(C + rI)⁻¹, symmetric to the last digit, and log det(C + rI); of one matrix or of a stack."""
    S = C + r * np.eye(C.shape[-1])
    if S.ndim == 2 and len(S):
        L, failed = dpotrf(S, lower=True)
        M, failed = dpotri(L, lower=True) if not failed else (S, failed)
        if not failed:
            M = M + M.T  # of which above the diagonal nothing was
            M.flat[:: len(M) + 1] *= 0.5
            return M, 2.0 * np.log(np.diagonal(L)).sum()
    M = np.linalg.inv(S)
    return 0.5 * (M + np.swapaxes(M, -1, -2)), np.linalg.slogdet(S)[1]


@dataclass(frozen=True)
class GaussianFeatures:
    """E[A] = ``phi`` and the covariance ``V`` of a column: (K, K) for all, or (D, K, K)."""

    phi: np.ndarray
    V: np.ndarray
    joint: bool = True

    @classmethod
    def prior(cls, k: int, d: int, sigma_a: float, joint: bool) -> Self:
        return cls(np.zeros((k, d)), sigma_a**2 * np.eye(k), joint)

    def updated(self, found: Statistics, sigma_x: float, sigma_a: float) -> Self:
        r = (sigma_x / sigma_a) ** 2
        M, log_det = inverse(found.C, r)
        phi = M @ found.T if M.ndim == 2 else np.einsum("dkl,ld->kd", M, found.T, optimize=True)
        if not self.joint:
            diagonal = np.diagonal(found.C, axis1=-2, axis2=-1) + r
            M, log_det = np.eye(len(phi)) / diagonal[..., None], np.log(diagonal).sum(axis=-1)
        best = type(self)(np.ascontiguousarray(phi), sigma_x**2 * M, self.joint)
        vars(best)["_log_det"] = 2.0 * len(phi) * np.log(sigma_x) - log_det
        return best

    def gram(self) -> np.ndarray:
        return self._gram

    @cached_property
    def _gram(self) -> np.ndarray:
        V = self.phi.shape[1] * self.V if self.V.ndim == 2 else self.V.sum(axis=0)
        return np.asarray(self.phi @ self.phi.T + V)

    @cached_property
    def _log_det(self) -> np.ndarray:
        """log det V, of each column where they have their own."""
        return np.asarray(np.linalg.slogdet(self.V)[1])

    def grams(self) -> np.ndarray:
        columns = self.phi.T
        return np.asarray(columns[:, :, None] * columns[:, None, :] + self.V)

    def squares(self) -> float:
        return float(np.trace(self._gram))

    def of_scale(self) -> tuple[float, float]:
        return self.squares(), 0.0

    def gain(self, sigma_a: float) -> float:
        log_det = self._over_columns(self._log_det)
        count = self.phi.size
        return 0.5 * (log_det + count - count * 2.0 * np.log(sigma_a) - self.squares() / sigma_a**2)

    def gains(self, sigma_a: float) -> np.ndarray:
        assert not self.joint, "a joint q is not a sum over features"
        v = np.diagonal(self.V, axis1=-2, axis2=-1)  # (K,), or (D, K)
        each = np.log(v / sigma_a**2) + 1.0 - v / sigma_a**2
        of_all = each.sum(axis=0) if each.ndim == 2 else self.phi.shape[1] * each
        squares = np.einsum("kd,kd->k", self.phi, self.phi)
        return np.asarray(0.5 * (of_all - squares / sigma_a**2))

    def taken(self, order: np.ndarray) -> Self:
        V = np.ascontiguousarray(self.V[..., order[:, None], order])
        return type(self)(np.ascontiguousarray(self.phi[order]), V, self.joint)

    def grown(
        self, found: Statistics | None = None, sigma_x: float = 1.0, sigma_a: float = 1.0
    ) -> Self:
        mean, variance = left_for_last(found, self.phi, sigma_x, sigma_a)
        k, d = self.phi.shape
        shape = (d, k + 1, k + 1) if self.V.ndim == 3 or np.ndim(variance) else (k + 1, k + 1)
        V = np.zeros(shape)
        V[..., :k, :k] = self.V
        V[..., k, k] = variance
        return type(self)(np.vstack([self.phi, mean]), V, self.joint)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        noise = rng.standard_normal(self.phi.shape)
        L = np.linalg.cholesky(self.V)
        if L.ndim == 2:
            return np.asarray(self.phi + L @ noise)
        return np.asarray(self.phi + np.einsum("dkl,ld->kd", L, noise))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"phi": self.phi, "V": self.V}

    def of_arrays(self, arrays: dict[str, np.ndarray]) -> Self:
        return type(self)(arrays["phi"], arrays["V"], self.joint)

    def _over_columns(self, values: ArrayLike) -> float:
        """A sum over columns of what all of them share, or each has of its own."""
        return float(np.sum(values) * (self.phi.shape[1] if self.V.ndim == 2 else 1.0))


@dataclass(frozen=True)
class NonnegativeFeatures:
    """q(a_kd) = TN(mu, s²): ``mu`` and ``s`` (K, D), with means, variances and entropies."""

    mu: np.ndarray
    s: np.ndarray
    phi: np.ndarray
    variance: np.ndarray
    entropy: np.ndarray

    @classmethod
    def of(cls, mu: np.ndarray, s: np.ndarray) -> Self:
        """From the parameters of the truncated normals."""
        from thali.kernels.truncated_normal import moments

        mu, s = np.ascontiguousarray(mu), np.ascontiguousarray(s)
        phi, variance, entropy = (np.empty(mu.shape) for _ in range(3))
        moments(mu.ravel(), s.ravel(), phi.ravel(), variance.ravel(), entropy.ravel())
        return cls(mu, s, phi, variance, entropy)

    @classmethod
    def prior(cls, k: int, d: int, sigma_a: float) -> Self:
        width, rate = cls.prior_law(sigma_a)
        return cls.of(np.full((k, d), 0.0 - rate * width * width), np.full((k, d), width))

    @staticmethod
    def prior_law(sigma_a: float) -> tuple[float, float]:
        """The prior p(a) ∝ e^{−rate a − a²/2 width²} of an entry."""
        return sigma_a, 0.0

    def updated(self, found: Statistics, sigma_x: float, sigma_a: float) -> Self:
        from thali.kernels.expected_features import expect_nonnegative

        width, rate = self.prior_law(sigma_a)
        r, pull = (sigma_x / width) ** 2, rate * sigma_x**2
        C = found.C if found.C.ndim == 3 else found.C[None]
        mu, s, phi = self.mu.copy(), self.s.copy(), self.phi.copy()
        expect_nonnegative(np.ascontiguousarray(C), found.T, mu, s, phi, sigma_x, r, pull, PASSES)
        return self.of(mu, s)

    def gram(self) -> np.ndarray:
        return np.asarray(self.phi @ self.phi.T + np.diag(self.variance.sum(axis=1)))

    def grams(self) -> np.ndarray:
        columns = self.phi.T
        whole = columns[:, :, None] * columns[:, None, :]
        k = np.arange(len(self.phi))
        whole[:, k, k] += self.variance.T
        return np.asarray(whole)

    def squares(self) -> float:
        return float(np.square(self.phi).sum() + self.variance.sum())

    def of_scale(self) -> tuple[float, float]:
        return self.squares(), 0.0

    def gain(self, sigma_a: float) -> float:
        return float(self.gains(sigma_a).sum())

    def gains(self, sigma_a: float) -> np.ndarray:
        constant = LOG_2 - 0.5 * np.log(2.0 * np.pi * sigma_a**2)
        squares = np.square(self.phi) + self.variance
        return np.asarray((constant - 0.5 * squares / sigma_a**2 + self.entropy).sum(axis=1))

    def taken(self, order: np.ndarray) -> Self:
        return type(self)(
            *(np.ascontiguousarray(getattr(self, f)[order]) for f in self.__dataclass_fields__)
        )

    def grown(
        self, found: Statistics | None = None, sigma_x: float = 1.0, sigma_a: float = 1.0
    ) -> Self:
        width, rate = self.prior_law(sigma_a)
        mean, variance = left_for_last(found, self.phi, sigma_x, width)
        s = np.broadcast_to(np.sqrt(variance), mean.shape)
        return self.of(np.vstack([self.mu, mean - rate * variance]), np.vstack([self.s, s]))

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        from thali.kernels.truncated_normal import sample_each

        out = np.empty(self.mu.shape)
        sample_each(rng, self.mu.ravel(), self.s.ravel(), out.ravel())
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mu": self.mu, "s": self.s, "phi": self.phi}

    def of_arrays(self, arrays: dict[str, np.ndarray]) -> Self:
        return self.of(arrays["mu"], arrays["s"])
