r"""The distribution q of the features' frequencies, and what the bound has of it.

With n_k = Σ_n ν_nk of N rows, the prior's part of the bound is

    Σ_k n_k E[log π_k] + (N − n_k) E[log(1 − π_k)] + Σ_k E[log p(· | α)] + H[q].

Finite (``Frequencies``): π_k ~ Beta(α/K, 1), q(π_k) = Beta(τ_k1, τ_k2), all in closed form:

    τ_k1 = α/K + n_k,   τ_k2 = 1 + N − n_k.

Infinite (``stick_frequencies.py``): π_k = ∏_{m≤k} v_m, v_m ~ Beta(α, 1), and q is one of v.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import betaln, digamma


@dataclass(frozen=True)
class Frequencies:
    """q(π_k) = Beta(τ_k1, τ_k2) for each of K features, ``tau`` (K, 2).

    >>> q = Frequencies.prior(alpha=2.0, k=4)
    >>> q.updated(np.array([3.0, 0, 0, 0]), 5.0, 2.0).tau[0].tolist()
    [3.5, 3.0]
    """

    tau: np.ndarray

    ordered = False  # whether features must come in order of their frequencies

    @classmethod
    def prior(cls, alpha: float, k: int) -> Self:
        """The prior itself."""
        return cls(np.column_stack([np.full(k, alpha / k), np.ones(k)]))

    @property
    def k(self) -> int:
        return len(self.tau)

    def log_on(self) -> np.ndarray:
        """E[log π_k]."""
        return log_means(self.tau)

    def log_off(self) -> np.ndarray:
        """E[log(1 − π_k)], or the bound of it."""
        return log_means(self.tau[:, ::-1])

    def log_odds(self) -> np.ndarray:
        return np.asarray(self.log_on() - self.log_off())

    def mean(self) -> np.ndarray:
        """E[π_k]."""
        return np.asarray(self.tau[:, 0] / self.tau.sum(axis=1))

    def updated(self, counts: np.ndarray, n: float, alpha: float) -> Self:
        """The best q given ν, through n_k."""
        counts = self.padded(counts)
        tau = np.column_stack([alpha / self.k + counts, 1.0 + n - counts])
        return replace(self, tau=tau)

    def padded(self, counts: np.ndarray) -> np.ndarray:
        """n_k of all features: zero for those after the ones that are given."""
        return np.concatenate([counts, np.zeros(self.k - len(counts))])

    def gain(self, counts: np.ndarray, n: float, alpha: float) -> float:
        """The prior's part of the bound."""
        counts = self.padded(counts)
        return float(counts @ self.log_on() + (n - counts) @ self.log_off()) + self.gain_of_mass(
            alpha
        )

    def gain_of_mass(self, alpha: float) -> float:
        """Σ_k E[log p(· | α)] + H[q], all of it that depends on α."""
        return gain_of_betas(self.tau, alpha / self.k)

    def slope_of_mass(self) -> float:
        """c, where ``gain_of_mass`` is K log α + c α and what does not depend on α."""
        return float(log_means(self.tau).sum()) / self.k


def log_means(tau: np.ndarray) -> np.ndarray:
    """E[log v] of v ~ Beta(τ)."""
    return np.asarray(digamma(tau[:, 0]) - digamma(tau.sum(axis=1)))


def gain_of_betas(tau: np.ndarray, a: float) -> float:
    """Σ_k E[log Beta(v_k; a, 1)] + H[Beta(τ_k)]: minus the divergence of q from the prior."""
    one, two = tau[:, 0], tau[:, 1]
    both = digamma(one + two)
    log_v, log_rest = digamma(one) - both, digamma(two) - both
    entropy = betaln(one, two) - (one - 1.0) * log_v - (two - 1.0) * log_rest
    return float((np.log(a) + (a - 1.0) * log_v + entropy).sum())
