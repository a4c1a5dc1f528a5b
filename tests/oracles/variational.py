"""The variational lower bound the slow, obvious way, from the model and the laws of q.

    log P(X) ≥ E_q[log P(X | Z, A) + log P(Z | v) + log p(v) + log p(A) + log p(S)] + H[q]

    q(Z, S, A, v) = ∏ Bernoulli(z; ν) q(s | z = 1) · q(A) · ∏ Beta(v_k; τ_k)

E[log P(X | Z, A)] is a sum over all 2^K rows z, entry by entry, observed entries only (NaN is
missing). q(a_d) is N(φ_d, V_d), or of independent normals cut off below zero, whose moments and
entropy are integrated numerically; so are those of q(s | z = 1) ∝ p(s) exp(bs − as²/2).

The sticks π_k = ∏_{m≤k} v_m of the infinite prior have E[log(1 − π_k)] by Jensen's inequality with
an explicit law q_k(y) of y ≤ k, or as a number that is given; ``mean_log_off`` is the truth.

Nothing here imports the library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy import integrate, stats
from scipy.special import betaln, digamma, logsumexp, roots_jacobi, xlogy

from oracles.features import Floats


@dataclass(frozen=True)
class Law:
    """q, the model's numbers, and the data; what a case does not have is None."""

    X: Floats
    nu: Floats
    tau: Floats
    alpha: float
    sigma_x: float
    sigma_a: float
    phi: Floats | None = None  # (K, D) and (D, K, K): normal features
    V: Floats | None = None
    mu: Floats | None = None  # (K, D) each: features cut off below zero
    s: Floats | None = None
    first: Floats | None = None  # (N, K) each: E[s], E[s²] given z = 1, and KL(q ‖ p)
    second: Floats | None = None
    divergence: Floats | None = None
    exponential: bool = False  # the prior of features cut off below zero, √2/σ_a its rate
    infinite: bool = True
    shares: Floats | None = None  # q_k(y), the best ones where it is None
    log_off: Floats | None = None  # E[log(1 − π_k)] or a bound of it, in place of Jensen's

    def but(self, **changes) -> Law:
        return replace(self, **changes)


# ---- laws of one number -------------------------------------------------------------------------
PANELS = np.array([0.0, 0.02, 0.1, 0.25, 0.5, 1.0])


def panels(points: int = 30) -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1], closer together near zero."""
    x, w = leggauss(points)
    width = np.diff(PANELS)
    nodes = PANELS[:-1, None] + 0.5 * width[:, None] * (x + 1.0)
    return nodes.ravel(), (0.5 * width[:, None] * w).ravel()


def truncated(mu: Floats, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, second moment and entropy of N(μ, s²) cut off below zero, by quadrature."""
    mu, s = np.broadcast_arrays(np.asarray(mu, float), np.asarray(s, float))
    low = np.maximum(0.0, mu - 12.0 * s)
    reach = np.where(mu > 0.0, mu - low + 12.0 * s, 12.0 * s / (1.0 + np.abs(mu / s) / 4.0))
    t, w = panels()
    a = low[..., None] + reach[..., None] * t
    log_f = (mu[..., None] - 0.5 * a) * a / s[..., None] ** 2  # without large terms where μ ≪ −s
    top = log_f.max(axis=-1, keepdims=True)
    mass = np.exp(log_f - top) * w * reach[..., None]
    total = mass.sum(axis=-1)
    p = mass / total[..., None]
    entropy = -(p * (log_f - top)).sum(axis=-1) + np.log(total)
    return (p * a).sum(axis=-1), (p * a * a).sum(axis=-1), entropy


def log_slab(s: Floats, slab: str) -> Floats:
    return (stats.laplace if slab == "laplace" else stats.norm).logpdf(s)


def amounts(a: Floats, b: Floats, slab: str) -> tuple[Floats, Floats, Floats]:
    """E[s], E[s²] and KL(q ‖ p) of q ∝ p(s) exp(bs − as²/2), each side of zero by itself."""
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    sides = []
    t, w = panels(40)
    for sign in (1.0, -1.0):
        slope = sign * b - (1.0 if slab == "laplace" else 0.0)
        precision = a + (0.0 if slab == "laplace" else 1.0)
        root, climb = np.sqrt(precision), np.maximum(slope, 0.0)
        peak = np.divide(climb, precision, out=np.zeros_like(root), where=climb > 0.0)
        back = np.divide(12.0, root, out=np.zeros_like(root), where=climb > 0.0)
        low = np.maximum(0.0, peak - back)
        reach = peak - low + 12.0 / (root + 0.25 * np.maximum(-slope, 0.0))
        s = sign * (low[..., None] + reach[..., None] * t)
        sides.append((s, w * reach[..., None]))
    s, w = (np.concatenate(each, axis=-1) for each in zip(*sides, strict=True))
    tilt = b[..., None] * s - 0.5 * a[..., None] * s * s
    log_q = log_slab(s, slab) + tilt + np.log(w)
    log_total = logsumexp(log_q, axis=-1)
    q = np.exp(log_q - log_total[..., None])
    divergence = (q * (tilt - log_total[..., None])).sum(axis=-1)
    return (q * s).sum(axis=-1), (q * s * s).sum(axis=-1), divergence


# ---- the parts of the bound ---------------------------------------------------------------------
def moments(law: Law) -> tuple[Floats, Floats]:
    """E[A], (K, D), and E[a_d a_dᵀ], (D, K, K)."""
    if law.mu is None:
        return law.phi, law.V + law.phi.T[:, :, None] * law.phi.T[:, None, :]
    first, second, _ = truncated(law.mu, law.s)
    whole = first.T[:, :, None] * first.T[:, None, :]
    k = np.arange(len(first))
    whole[:, k, k] = second.T
    return first, whole


def expected_log_likelihood(law: Law) -> Floats:
    """Σ over a row's observed entries of E[log N(x; w a, σ_x²)], all z one after the other."""
    mean, outer = moments(law)
    n, k = law.nu.shape
    first = np.ones((n, k)) if law.first is None else law.first
    second = np.ones((n, k)) if law.second is None else law.second
    seen = ~np.isnan(law.X)
    X = np.where(seen, law.X, 0.0)
    total = np.zeros(n)
    for z in product((0.0, 1.0), repeat=k):
        z = np.array(z)
        chance = np.where(z > 0.0, law.nu, 1.0 - law.nu).prod(axis=1)
        w = z * first
        ww = w[:, :, None] * w[:, None, :]  # E[w wᵀ] given z
        ww[:, np.arange(k), np.arange(k)] = z * second
        square = np.einsum("nkl,dkl->nd", ww, outer)
        error = X**2 - 2.0 * X * (w @ mean) + square
        density = -0.5 * np.log(2.0 * np.pi * law.sigma_x**2) - 0.5 * error / law.sigma_x**2
        total += chance * np.where(seen, density, 0.0).sum(axis=1)
    return total


def log_means(tau: Floats) -> tuple[Floats, Floats]:
    """E[log v] and E[log(1 − v)] of Beta(τ)."""
    return digamma(tau[:, 0]) - digamma(tau.sum(1)), digamma(tau[:, 1]) - digamma(tau.sum(1))


def breaks(tau: Floats) -> Floats:
    """E[log (1 − v_y) ∏_{m<y} v_m]: that the product first breaks at y."""
    on, off = log_means(tau)
    return np.array([off[y] + on[:y].sum() for y in range(len(tau))])


def best_shares(tau: Floats) -> Floats:
    """q_k(y) that makes Jensen's bound highest."""
    w, found = breaks(tau), np.zeros((len(tau), len(tau)))
    for k in range(len(tau)):
        found[k, : k + 1] = np.exp(w[: k + 1] - logsumexp(w[: k + 1]))
    return found


def jensen(tau: Floats, shares: Floats) -> Floats:
    """Σ_y q_k(y) E[log (1 − v_y) ∏_{m<y} v_m] + H[q_k], for each k."""
    w = breaks(tau)
    return np.array(
        [
            sum(shares[k, y] * w[y] - xlogy(shares[k, y], shares[k, y]) for y in range(k + 1))
            for k in range(len(tau))
        ]
    )


def mean_log_off(tau: Floats, terms: int = 20_000) -> Floats:
    """E[log(1 − π_k)] = −Σ_j E[π_k^j]/j, the far terms by an integral (Euler and Maclaurin)."""

    def log_power(j, k):
        one, two = tau[: k + 1, 0], tau[: k + 1, 1]
        return (betaln(one + np.asarray(j)[..., None], two) - betaln(one, two)).sum(axis=-1)

    j = np.arange(1.0, terms + 1)
    found = []
    for k in range(len(tau)):
        near = (np.exp(log_power(j, k)) / j).sum()
        # E[π^j] falls like j to the power of −Σ τ_m2
        low, reach = np.log(terms + 0.5), 40.0 / tau[: k + 1, 1].sum()
        far = integrate.quad(lambda u, k=k: np.exp(log_power(np.exp(u), k)), low, low + reach)[0]
        found.append(-near - far)
    return np.array(found)


def frequencies(law: Law) -> tuple[Floats, Floats]:
    """E[log π_k] and E[log(1 − π_k)] (or a bound of it)."""
    on, off = log_means(law.tau)
    if not law.infinite:
        return on, off
    on = np.array([on[: k + 1].sum() for k in range(len(on))])
    if law.log_off is not None:
        return on, law.log_off
    return on, jensen(law.tau, best_shares(law.tau) if law.shares is None else law.shares)


def gain_of_sticks(law: Law) -> float:
    """E[log p(v | α)] + H[q(v)], v being the π themselves of the finite prior."""
    a = law.alpha if law.infinite else law.alpha / len(law.tau)
    on, _ = log_means(law.tau)
    log_prior = np.log(a) + (a - 1.0) * on  # of Beta(a, 1)
    return float((log_prior + stats.beta.entropy(law.tau[:, 0], law.tau[:, 1])).sum())


def gain_of_features(law: Law) -> float:
    """E[log p(A)] + H[q(A)]."""
    outer = moments(law)[1]
    squares = np.einsum("dkk->kd", outer)
    log_prior = -0.5 * np.log(2.0 * np.pi * law.sigma_a**2) - 0.5 * squares / law.sigma_a**2
    if law.exponential:
        first, _, entropy = truncated(law.mu, law.s)
        rate = np.sqrt(2.0) / law.sigma_a
        return float((np.log(rate) - rate * first + entropy).sum())
    if law.mu is not None:
        return float((np.log(2.0) + log_prior + truncated(law.mu, law.s)[2]).sum())
    entropy = sum(stats.multivariate_normal(cov=V).entropy() for V in law.V)
    return float(log_prior.sum() + entropy)


def of_rows(law: Law) -> Floats:
    """All that the bound has of each row."""
    on, off = frequencies(law)
    of_z = law.nu * on + (1.0 - law.nu) * off
    entropy = -xlogy(law.nu, law.nu) - xlogy(1.0 - law.nu, 1.0 - law.nu)
    slabs = 0.0 if law.divergence is None else law.nu * law.divergence
    return expected_log_likelihood(law) + (of_z + entropy - slabs).sum(axis=1)


def bound(law: Law) -> float:
    """The lower bound of log P(X)."""
    return float(of_rows(law).sum()) + gain_of_features(law) + gain_of_sticks(law)


def log_density_of_scale(sigma: float, kind: str, one: float, two: float) -> float:
    """σ ~ Gamma(shape, rate), or σ² ~ InverseGamma(shape, scale), as a density of σ."""
    if kind == "gamma":
        return float(stats.gamma.logpdf(sigma, one, scale=1.0 / two))
    return float(stats.invgamma.logpdf(sigma**2, one, scale=two) + np.log(2.0 * sigma))


# ---- the evidence by enumeration ----------------------------------------------------------------
def matrices(n: int, k: int):
    """All binary matrices, columns in order."""
    for bits in product((0, 1), repeat=n * k):
        yield np.array(bits).reshape(n, k)


def log_prior_of_sticks(counts: Floats, n: int, alpha: float, points: int = 40) -> Floats:
    """log P(Z) of ordered columns with sums ``counts`` (…, K): π_k = ∏_{m≤k} v_m, v ~ Beta(α, 1).

    The probability is a polynomial in v, so that Gauss–Jacobi quadrature is exact.
    """
    counts = np.atleast_2d(counts)
    k = counts.shape[1]
    x, w = roots_jacobi(points, 0.0, alpha - 1.0)
    v, w = 0.5 * (x + 1.0), w / w.sum()
    pi, weight = np.ones((1, 0)), np.ones(1)
    for _ in range(k):
        last = pi[:, -1] if pi.shape[1] else np.ones(1)
        pi = np.column_stack([np.repeat(pi, points, axis=0), np.outer(last, v).ravel()])
        weight = np.outer(weight, w).ravel()
    p = [(weight * (pi**m * (1.0 - pi) ** (n - m)).prod(axis=1)).sum() for m in counts]
    return np.log(p)


def log_prior_of_finite(counts: Floats, n: int, alpha: float) -> Floats:
    """log P(Z) of ordered columns, π_k ~ Beta(α/K, 1)."""
    counts = np.atleast_2d(counts)
    a = alpha / counts.shape[1]
    return (betaln(a + counts, 1.0 + n - counts) - betaln(a, 1.0)).sum(axis=1)


def log_evidence(X, k, log_prior, log_marginal) -> float:
    """log Σ_Z P(Z) P(X | Z) over all matrices of k columns."""
    every = list(matrices(len(X), k))
    counts = np.array([Z.sum(axis=0) for Z in every], float)
    return float(logsumexp(log_prior(counts) + [log_marginal(Z) for Z in every]))
