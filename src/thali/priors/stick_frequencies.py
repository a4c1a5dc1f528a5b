r"""The sticks' distribution q, for the Indian buffet process (Doshi-Velez and others 2009, 3.2).

    π_k = ∏_{m≤k} v_m,  v_m ~ Beta(α, 1),  q(v_m) = Beta(τ_m1, τ_m2),  π_k = 0 beyond K

E[log π_k] is a sum of digammas; E[log(1 − ∏ v_m)] has no closed form and is bounded from below.

``Sticks``, section 3.3: for any distribution q_k of y ≤ k, by Jensen's inequality and
1 − ∏_{m≤k} v_m = Σ_{y≤k} (1 − v_y) ∏_{m<y} v_m,

    E[log(1 − π_k)] ≥ Σ_y q_k(y) (w_y − log q_k(y)),   w_y = E[log(1 − v_y)] + Σ_{m<y} E[log v_m],

at best, with q_k(y) ∝ e^{w_y}, equal to log Σ_{y≤k} e^{w_y}. Given all q_k the best τ are

    τ_k1 = α + Σ_{m≥k} n_m + Σ_{m>k} (N − n_m) Σ_{i=k+1..m} q_m(i)
    τ_k2 = 1 + Σ_{m≥k} (N − n_m) q_m(k).

``TaylorSticks``: the first J terms of log(1 − x) = −Σ_j x^j/j exactly, and Jensen for the rest.
As Σ_{j>J} x^j/j ≤ −x^J log(1 − x), and E[π^J f(v)] = E[π^J] E[f(ṽ)], ṽ_m ~ Beta(τ_m1 + J, τ_m2),

    E[log(1 − π_k)] ≥ −Σ_{j≤J} E[π_k^j]/j + E[π_k^J] log Σ_{y≤k} e^{w̃_y}.

J = 0 is the bound above; where that is the higher of the two (always for k = 1, where it is exact)
it is taken. No τ is best in closed form; they are found by L-BFGS on log τ.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, polygamma

from thali.priors.frequencies import Frequencies, gain_of_betas, log_means

ROUNDS = 20  # of q_k and τ in turn, at most
SAME = 1e-8  # relative change of τ at which they end
TERMS = 200  # J of the Taylor bound
LARGEST_LOG = 40.0  # of τ in the search


@dataclass(frozen=True)
class Sticks(Frequencies):
    """q(v_k) = Beta(τ_k1, τ_k2), E[log(1 − π_k)] by the multinomial bound.

    >>> q = Sticks.prior(alpha=2.0, k=3)
    >>> (q.log_off() < 0).all()
    np.True_
    """

    ordered = True

    @classmethod
    def prior(cls, alpha: float, k: int) -> Self:
        return cls(np.column_stack([np.full(k, alpha), np.ones(k)]))

    def log_on(self) -> np.ndarray:
        return np.cumsum(log_sticks(self.tau)[0])

    def log_off(self) -> np.ndarray:
        return np.logaddexp.accumulate(first_breaks(self.tau))

    def mean(self) -> np.ndarray:
        return np.cumprod(self.tau[:, 0] / self.tau.sum(axis=1))

    def updated(self, counts: np.ndarray, n: float, alpha: float) -> Self:
        """q_k and τ in turn until they stay; no turn lowers the bound."""
        return replace(self, tau=self.turned(counts, n, alpha, ROUNDS))

    def turned(self, counts: np.ndarray, n: float, alpha: float, rounds: int) -> np.ndarray:
        """τ after so many turns: the q_k that are best at τ, and the best τ given these."""
        from thali.kernels.sticks import best_sticks

        tau = self.tau.copy()
        best_sticks(tau, self.padded(counts), float(n), float(alpha), rounds, SAME)
        return tau

    def gain_of_mass(self, alpha: float) -> float:
        return gain_of_betas(self.tau, alpha)

    def slope_of_mass(self) -> float:
        return float(log_means(self.tau).sum())


@dataclass(frozen=True)
class TaylorSticks(Sticks):
    """The same with the Taylor bound of E[log(1 − π_k)], J terms: tighter, and slower.

    >>> tau = np.array([[3.0, 1.0], [5.0, 2.0], [2.0, 6.0]])
    >>> bool((TaylorSticks(tau).log_off() >= Sticks(tau).log_off()).all())
    True
    """

    terms: int = TERMS

    def log_off(self) -> np.ndarray:
        return np.asarray(np.maximum(Sticks.log_off(self), self._series()[1]))

    def updated(self, counts: np.ndarray, n: float, alpha: float) -> Self:
        """The best τ near the present ones, by L-BFGS; never worse than these."""
        counts = self.padded(counts)

        def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
            q = replace(self, tau=np.exp(u).reshape(-1, 2))
            return -q.gain(counts, n, alpha), -q.slopes(counts, n, alpha).ravel() * np.exp(u)

        begin = np.log(self.tau).ravel()
        bounds = [(-LARGEST_LOG, LARGEST_LOG)] * len(begin)
        found = minimize(
            objective, begin, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 200, "ftol": 1e-15, "gtol": 1e-9},
        )  # fmt: skip
        better = found.fun < objective(begin)[0]
        return replace(self, tau=np.exp(found.x).reshape(-1, 2)) if better else self

    def slopes(self, counts: np.ndarray, n: float, alpha: float) -> np.ndarray:
        """The derivatives of ``gain`` by τ, (K, 2)."""
        tau, off = self.tau, n - counts
        both = polygamma(1, tau.sum(axis=1))
        later = np.cumsum(counts[::-1])[::-1]  # E[log v_m] stands in E[log π_k] of all k ≥ m
        found: np.ndarray = later[:, None] * np.column_stack(
            [polygamma(1, tau[:, 0]) - both, -both]
        )
        found += beta_slopes(tau, alpha)
        powers, series, rest = self._series()
        by_series = series > Sticks.log_off(self)
        found += break_slopes(tau, np.where(by_series, 0.0, off))
        off = np.where(by_series, off, 0.0)
        found += break_slopes(self._tilted(), off * powers[:, -1])
        # E[v_m^j] stands in E[π_k^j] of all k ≥ m
        j = np.arange(1, self.terms + 1)
        weight = -off[:, None] * powers / j
        weight[:, -1] += off * powers[:, -1] * rest
        weight = np.cumsum(weight[::-1], axis=0)[::-1]
        total = tau.sum(axis=1)[:, None]
        of_sum = digamma(total) - digamma(total + j)
        of_one = digamma(tau[:, :1] + j) - digamma(tau[:, :1]) + of_sum
        found += np.column_stack([(weight * each).sum(axis=1) for each in (of_one, of_sum)])
        return found

    def _series(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E[π_k^j] for j = 1 … J, the bound by J terms, and the bounded rest's factor."""
        j = np.arange(1, self.terms + 1)
        one, total = self.tau[:, :1], self.tau.sum(axis=1)[:, None]
        each = gammaln(one + j) - gammaln(one) + gammaln(total) - gammaln(total + j)
        powers = np.exp(np.cumsum(each, axis=0))
        rest = np.logaddexp.accumulate(first_breaks(self._tilted()))
        return powers, -(powers / j).sum(axis=1) + powers[:, -1] * rest, rest

    def _tilted(self) -> np.ndarray:
        return np.asarray(self.tau + np.array([float(self.terms), 0.0]))


def log_sticks(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[log v] and E[log(1 − v)]."""
    both = digamma(tau.sum(axis=1))
    return digamma(tau[:, 0]) - both, digamma(tau[:, 1]) - both


def first_breaks(tau: np.ndarray) -> np.ndarray:
    """w_y = E[log(1 − v_y)] + Σ_{m<y} E[log v_m]."""
    log_v, log_rest = log_sticks(tau)
    return np.asarray(log_rest + np.cumsum(log_v) - log_v)


def shares(w: np.ndarray) -> np.ndarray:
    """q[k, y] ∝ e^{w_y} for y ≤ k, zero beyond; rows sum to one."""
    total = np.logaddexp.accumulate(w)
    with np.errstate(over="ignore"):
        return np.tril(np.exp(np.minimum(w[None, :] - total[:, None], 0.0)))


def break_slopes(tau: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The derivatives of Σ_k c_k log Σ_{y≤k} e^{w_y} by τ."""
    q = c[:, None] * shares(first_breaks(tau))
    own = q.sum(axis=0)  # weight of E[log(1 − v_m)], from y = m
    passed = (np.cumsum(q[:, ::-1], axis=1)[:, ::-1] - q).sum(axis=0)  # of E[log v_m], from y > m
    both = polygamma(1, tau.sum(axis=1))
    one, two = (polygamma(1, tau[:, i]) - both for i in (0, 1))
    return np.column_stack([passed * one - own * both, own * two - passed * both])


def beta_slopes(tau: np.ndarray, a: float) -> np.ndarray:
    """The derivatives of ``gain_of_betas`` by τ."""
    one, two, both = (polygamma(1, t) for t in (tau[:, 0], tau[:, 1], tau.sum(axis=1)))
    # gain = Σ log a + log B(τ) − (τ1 − a) E[log v] − (τ2 − 1) E[log(1 − v)]; the digammas cancel
    first, second = tau[:, 0] - a, tau[:, 1] - 1.0
    return np.column_stack(
        [second * both - first * (one - both), first * both - second * (two - both)]
    )
