"""Slow, obviously right answers on tiny data: enumerate every left-ordered class of Z.

A class is a multiset of non-zero binary columns of height N ("histories" h = 1 … 2^N − 1), so it is
a vector of counts K_h, and

    P(X) = Σ_[Z] P([Z]) N(X; 0, σ_x² I + σ_a² ZZ')          (each column of X independently)

The likelihood is the plain multivariate normal density of the columns of X, not the formula with
(Z'Z + rI)⁻¹ that the library uses, and depends on Z only through G = ZZ' = Σ_h K_h h h'.
Infinite priors are cut at K ≤ cap.  What is cut off is bounded, not guessed.  A density is at most
(2πσ_x²)^{−ND/2} |I + ZZ'σ_a²/σ_x²|^{−D/2}; given K the columns of these priors are iid draws
of histories, and one more column never lowers the determinant, so the mean of |·|^{−D/2} given any
K > cap is at most its mean given K = cap, which is enumerated.  `Exact.left_out` is that, times
P(K > cap), divided by the P(X) found: an upper bound of the posterior mass not enumerated.

Nothing here imports the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp, roots_jacobi

Floats = NDArray[np.float64]
Rng = np.random.Generator


# ---- left-ordered classes ---------------------------------------------------------------------
@cache
def histories(n: int) -> Floats:
    """All non-zero binary columns of height n, as rows: (2^n − 1, n)."""
    return np.array([h for h in product((0, 1), repeat=n) if any(h)], dtype=np.float64)


@cache
def classes(n: int, cap: int) -> NDArray[np.int64]:
    """Counts K_h of every left-ordered class with K = Σ_h K_h ≤ cap: (classes, 2^n − 1)."""
    counts = np.zeros((1, 0), dtype=np.int64)
    for _ in range(2**n - 1):
        room = cap - counts.sum(axis=1)
        rows = np.repeat(np.arange(len(counts)), room + 1)
        j = np.concatenate([np.arange(c + 1) for c in room])
        counts = np.column_stack([counts[rows], j])
    return counts


def class_of(Z: NDArray) -> tuple[int, ...]:
    """Counts K_h of one matrix, in the order of `histories`; empty columns are not counted."""
    Z = np.asarray(Z, dtype=np.int64)
    index = {tuple(h): i for i, h in enumerate(histories(len(Z)).astype(int).tolist())}
    counts = [0] * len(index)
    for column in Z.T.tolist():
        if any(column):
            counts[index[tuple(column)]] += 1
    return tuple(counts)


# ---- log P([Z]) in closed form ----------------------------------------------------------------
def harmonic(n: int, beta: float = 1.0) -> float:
    """Σ_{i≤n} β/(β+i−1): the expected number of dishes per unit of α."""
    return sum(beta / (beta + i) for i in range(n))


def log_column_weights(n: int, beta: float | None = None) -> Floats:
    """log w_h: a class has weight ∏_h (α w_h)^{K_h}/K_h!, with (N−m)!(m−1)!/N! for the IBP.

    With β, w_h = β B(m, N−m+β) = β Γ(m) Γ(N−m+β)/Γ(N+β), which is the former at β = 1.
    """
    m = histories(n).sum(axis=1)
    if beta is None:
        return gammaln(n - m + 1) + gammaln(m) - gammaln(n + 1)
    return np.log(beta) + gammaln(m) + gammaln(n - m + beta) - gammaln(n + beta)


def log_class_weight(counts: NDArray, n: int, beta: float | None = None) -> Floats:
    """Σ_h K_h log w_h − log K_h!: log P([Z]) less its K log α − α H_N."""
    return counts @ log_column_weights(n, beta) - gammaln(counts + 1.0).sum(axis=-1)


def log_prior_ibp(counts: NDArray, n: int, alpha: float) -> Floats:
    """log P([Z]) = K log α − Σ_h log K_h! − α H_N + Σ_k log (N−m_k)!(m_k−1)!/N!."""
    counts = np.asarray(counts)
    return log_class_weight(counts, n) + counts.sum(-1) * np.log(alpha) - alpha * harmonic(n)


def log_prior_two_parameter(counts: NDArray, n: int, alpha: float, beta: float) -> Floats:
    """log P([Z]) when row i takes Poisson(αβ/(β+i−1)) new dishes and an old one w.p. m/(β+i−1)."""
    counts = np.asarray(counts)
    return (
        log_class_weight(counts, n, beta)
        + counts.sum(-1) * np.log(alpha)
        - alpha * harmonic(n, beta)
    )


def log_prior_finite(counts: NDArray, n: int, alpha: float, n_components: int) -> Floats:
    """log P([Z]) of n_components columns with π ~ Beta(α/K, 1): a multinomial over histories.

    One column is the history h with probability p_m = (α/K) Γ(m+α/K) Γ(N−m+1)/Γ(N+1+α/K), m = |h|,
    and empty with p_0; the class counts the K!/(K_0! ∏ K_h!) orders of its columns.
    """
    counts = np.asarray(counts)
    a = alpha / n_components
    m = histories(n).sum(axis=1)
    log_p = np.log(a) + gammaln(m + a) + gammaln(n - m + 1) - gammaln(n + 1 + a)
    log_p0 = np.log(a) + gammaln(a) + gammaln(n + 1) - gammaln(n + 1 + a)
    empty = n_components - counts.sum(axis=-1)
    orders = gammaln(n_components + 1) - gammaln(empty + 1.0) - gammaln(counts + 1.0).sum(axis=-1)
    return orders + counts @ log_p + empty * log_p0


def log_prior_truncated(counts: NDArray, n: int, alpha: float, most: int) -> Floats:
    """log P([Z]) of the buffet given K ≤ most, by the Poisson law of K."""
    held = stats.poisson.logcdf(most, alpha * harmonic(n))
    within = np.asarray(counts).sum(axis=-1) <= most
    return np.where(within, log_prior_ibp(counts, n, alpha) - held, -np.inf)


# ---- the same priors by simulation, from their stories ----------------------------------------
def simulate_buffet(rng: Rng, n: int, alpha: float, beta: float = 1.0) -> NDArray[np.int64]:
    """Customers one after the other: old dishes w.p. m/(β+i−1), then Poisson(αβ/(β+i−1)) new."""
    dishes: list[list[int]] = []
    for i in range(n):
        for dish in dishes:
            dish.append(int(rng.uniform() < sum(dish) / (beta + i)))
        for _ in range(rng.poisson(alpha * beta / (beta + i))):
            dishes.append([0] * i + [1])
    return np.array(dishes, dtype=np.int64).reshape(len(dishes), n).T


def simulate_finite(rng: Rng, n: int, alpha: float, n_components: int) -> NDArray[np.int64]:
    """π_k ~ Beta(α/K, 1), z_nk ~ Bernoulli(π_k); empty columns kept."""
    pi = rng.beta(alpha / n_components, 1.0, size=n_components)
    return (rng.uniform(size=(n, n_components)) < pi).astype(np.int64)


def simulate_truncated(rng: Rng, n: int, alpha: float, most: int) -> NDArray[np.int64]:
    """The buffet, played again and again until it has few enough dishes."""
    while True:
        Z = simulate_buffet(rng, n, alpha)
        if Z.shape[1] <= most:
            return Z


# ---- likelihood -------------------------------------------------------------------------------
def log_marginal(X: NDArray, Z: NDArray, sigma_x: float, sigma_a: float) -> float:
    """log P(X|Z): the multivariate normal density of each column of X, A integrated out."""
    Z = np.asarray(Z, dtype=np.float64)
    covariance = sigma_x**2 * np.eye(len(X)) + sigma_a**2 * Z @ Z.T
    law = stats.multivariate_normal(np.zeros(len(X)), covariance)
    return float(sum(law.logpdf(column) for column in np.asarray(X).T))


def log_density_of_row(
    x: NDArray, z: NDArray, new: int, M: NDArray, mu: NDArray, sigma_x: float, sigma_a: float
) -> float:
    """log p(x | z, j new features) given M = (ZᵀZ + rI)⁻¹ and μ = M ZᵀX of the other rows."""
    variance = sigma_x**2 * (1.0 + z @ M @ z) + new * sigma_a**2
    return float(stats.norm.logpdf(x, z @ mu, np.sqrt(variance)).sum())


def posterior_of_features(
    X: NDArray, Z: NDArray, sigma_x: float, sigma_a: float
) -> tuple[Floats, Floats]:
    """Mean (K×D) and covariance (K×K, the same for each column) of A | X, Z.

    By conditioning the joint normal of a column (a, x): E = Σ_ax Σ_xx⁻¹ x and
    Cov = Σ_aa − Σ_ax Σ_xx⁻¹ Σ_xa, so through an N×N solve and not through (Z'Z + rI)⁻¹.
    """
    Z = np.asarray(Z, dtype=np.float64)
    cross = sigma_a**2 * Z.T
    gain = np.linalg.solve(sigma_x**2 * np.eye(len(X)) + sigma_a**2 * Z @ Z.T, cross.T).T
    return gain @ X, sigma_a**2 * np.eye(Z.shape[1]) - gain @ cross.T


def log_predictive_exact(
    X: NDArray, Z: NDArray, n: int, candidates: NDArray, sigma_x: float, sigma_a: float
) -> Floats:
    """log p(x_n | z, the other rows) of each candidate z, up to a constant, in exact fractions.

    M = (Z'Z + rI)⁻¹ and μ = M Z'X of the other rows are rational in the data, so no rounding
    happens until the last line: a judge of digits lost elsewhere.
    """
    K, D = Z.shape[1], X.shape[1]
    r = Fraction(sigma_x) ** 2 / Fraction(sigma_a) ** 2
    rest = [i for i in range(len(X)) if i != n]
    system = []
    for k in range(K):
        gram = [Fraction(int(sum(Z[i, k] and Z[i, j] for i in rest))) for j in range(K)]
        gram[k] += r
        sums = [sum((Fraction(X[i, d]) for i in rest if Z[i, k]), Fraction(0)) for d in range(D)]
        system.append(gram + sums + [Fraction(int(j == k)) for j in range(K)])
    solved = gauss_jordan(system)
    mu, M = [row[:D] for row in solved], [row[D:] for row in solved]
    values = []
    for z in candidates:
        on = [k for k in range(K) if z[k]]
        V = 1 + sum((M[i][j] for i in on for j in on), Fraction(0))
        residuals = [Fraction(X[n, d]) - sum((mu[k][d] for k in on), Fraction(0)) for d in range(D)]
        rho = sum((e * e for e in residuals), Fraction(0))
        values.append(-0.5 * D * np.log(float(V)) - float(rho / (2 * Fraction(sigma_x) ** 2 * V)))
    return np.array(values)


def gauss_jordan(system: list[list[Fraction]]) -> list[list[Fraction]]:
    """Solve [M | B] for M⁻¹B, by exact elimination."""
    for c in range(len(system)):
        pivot = next(i for i in range(c, len(system)) if system[i][c])
        system[c], system[pivot] = system[pivot], system[c]
        system[c] = [v / system[c][c] for v in system[c]]
        for i in range(len(system)):
            if i != c and system[i][c]:
                f = system[i][c]
                system[i] = [u - f * v for u, v in zip(system[i], system[c], strict=True)]
    return [row[len(system) :] for row in system]


@dataclass(frozen=True)
class Spectrum:
    """Distinct G = ZZ' of a list of classes, diagonalised: G = U diag(l) U'."""

    G: Floats  # (distinct, N, N)
    eigenvalues: Floats  # (distinct, N)
    rotated: Floats  # (distinct, N): ‖u_i' X‖²
    of_class: NDArray[np.int64]  # which distinct G each class has
    D: int

    @property
    def size(self) -> int:
        """How many entries were observed."""
        return self.G.shape[1] * self.D

    def log_likelihood(self, sigma_x: float, sigma_a: float) -> Floats:
        """log N(X; 0, σ_x² I + σ_a² G) of every distinct G."""
        v = sigma_x**2 + sigma_a**2 * self.eigenvalues
        return -0.5 * (self.D * np.log(2 * np.pi * v) + self.rotated / v).sum(axis=1)


@dataclass(frozen=True)
class MaskedSpectrum:
    """The same where entries are missing (NaN): each column has the G of its observed rows.

    ``D`` is 0, which leaves the determinant out of the bound of what is cut off: columns differ
    in it. The bound is then that of a density alone, (2πσ_x²)^{−size/2}, and so a loose one.
    """

    G: Floats
    columns: list[Spectrum]  # of each column's observed rows, G among them cut to those
    of_class: NDArray[np.int64]
    eigenvalues: Floats
    D: int = 0

    @property
    def size(self) -> int:
        return sum(column.size for column in self.columns)

    def log_likelihood(self, sigma_x: float, sigma_a: float) -> Floats:
        return sum(
            (column.log_likelihood(sigma_x, sigma_a) for column in self.columns),
            start=np.zeros(len(self.G)),
        )


def masked_spectrum(X: NDArray, cap: int) -> MaskedSpectrum:
    """The Gram matrices of all classes, decomposed for each column without its missing rows."""
    whole = spectrum(np.zeros(np.shape(X)), cap)
    columns = []
    for x in np.asarray(X, dtype=np.float64).T:
        seen = np.flatnonzero(~np.isnan(x))
        part = whole.G[:, seen[:, None], seen]
        eigenvalues, U = np.linalg.eigh(part)
        rotated = (np.einsum("gni,n->gi", U, x[seen])) ** 2
        columns.append(Spectrum(part, np.maximum(eigenvalues, 0.0), rotated, whole.of_class, 1))
    return MaskedSpectrum(whole.G, columns, whole.of_class, whole.eigenvalues)


def law_of_entry(
    X: NDArray, G: NDArray, n: int, d: int, sigma_x: float, sigma_a: float
) -> tuple[Floats, Floats]:
    """Mean and second moment of the missing x_nd for each G = ZZ', by conditioning the column."""
    x = np.asarray(X, dtype=np.float64)[:, d]
    seen = np.flatnonzero(~np.isnan(x))
    covariance = sigma_x**2 * np.eye(len(x)) + sigma_a**2 * G
    cross = covariance[:, n, seen]
    gain = np.linalg.solve(covariance[:, seen[:, None], seen], cross[:, :, None])[:, :, 0]
    mean = gain @ x[seen]
    variance = covariance[:, n, n] - np.einsum("gi,gi->g", gain, cross)
    return mean, variance + mean**2


def spectrum(X: NDArray, cap: int) -> Spectrum:
    """The Gram matrices of all classes with K ≤ cap, each distinct one decomposed once."""
    return _spectrum(tuple(map(tuple, np.asarray(X, dtype=np.float64).tolist())), cap)


@cache
def _spectrum(X: tuple[tuple[float, ...], ...], cap: int) -> Spectrum:
    data = np.array(X)
    N, D = data.shape
    counts = classes(N, cap)
    outer = np.einsum("hi,hj->hij", histories(N), histories(N))
    upper = np.triu_indices(N)
    key = counts @ outer[:, upper[0], upper[1]].astype(np.int64)
    packed = key @ (cap + 1) ** np.arange(key.shape[1])  # entries are at most K: exact in 64 bits
    _, first, of_class = np.unique(packed, return_index=True, return_inverse=True)
    G = (counts[first] @ outer.reshape(-1, N * N)).reshape(-1, N, N)
    eigenvalues, U = np.linalg.eigh(G)
    rotated = (np.einsum("gni,nd->gid", U, data) ** 2).sum(axis=2)
    return Spectrum(G, np.maximum(eigenvalues, 0.0), rotated, of_class.ravel(), D)


def spectrum_of(X: NDArray, cap: int) -> Spectrum | MaskedSpectrum:
    return masked_spectrum(X, cap) if np.isnan(X).any() else spectrum(X, cap)


# ---- exact posteriors -------------------------------------------------------------------------
@dataclass(frozen=True)
class Exact:
    """What enumeration says: the posterior given X, and a bound of the mass it left out."""

    k_probabilities: Floats  # P(K = 0 … cap | X)
    gram: Floats  # E[ZZ' | X]
    alpha: float  # E[α | X]
    log_evidence: float
    left_out: float
    log_sigma_x: float = float("nan")  # E[log σ_x | X], where σ is inferred
    log_sigma_a: float = float("nan")
    grams: Floats | None = None  # the distinct ZZ' and their probabilities, where σ is fixed
    gram_probabilities: Floats | None = None


@dataclass(frozen=True)
class PriorSpec:
    """A prior as the oracles see it; alpha is a number or the (shape, rate) of a Gamma law."""

    kind: str  # "ibp", "two_parameter", "finite" or "truncated"
    alpha: float | tuple[float, float]
    beta: float = 1.0
    n_components: int = 0

    def log_classes(self, counts: NDArray, n: int) -> tuple[Floats, Floats]:
        """log P([Z]) of each class with α integrated out, and E[α | Z] of each class.

        Infinite: ∫ α^K e^{−αH} Gamma(α; a, b) dα = b^a Γ(a+K) / (Γ(a) (b+H)^{a+K}), in closed form.
        Finite and truncated: by the trapezium rule on log α.
        """
        K = counts.sum(axis=1)
        if self.limited:
            return self._log_classes_limited(counts, n)
        beta = self.beta if self.kind == "two_parameter" else None
        H = harmonic(n, self.beta if self.kind == "two_parameter" else 1.0)
        weight = log_class_weight(counts, n, beta)
        if isinstance(self.alpha, tuple):
            a, b = self.alpha
            mixed = a * np.log(b) - gammaln(a) + gammaln(a + K) - (a + K) * np.log(b + H)
            return weight + mixed, (a + K) / (b + H)
        return weight + K * np.log(self.alpha) - self.alpha * H, np.full(len(K), self.alpha)

    @property
    def limited(self) -> bool:
        """Whether there are at most ``n_components`` features."""
        return self.kind in ("finite", "truncated")

    def _log_classes_limited(self, counts: NDArray, n: int) -> tuple[Floats, Floats]:
        log_prior = log_prior_finite if self.kind == "finite" else log_prior_truncated
        if not isinstance(self.alpha, tuple):
            log_p = log_prior(counts, n, self.alpha, self.n_components)
            return log_p, np.full(len(counts), self.alpha)
        nodes, log_weights = gamma_nodes(*self.alpha)
        per_node = np.stack(
            [
                log_prior(counts, n, a, self.n_components) + w
                for a, w in zip(nodes, log_weights, strict=True)
            ]
        )
        log_p = logsumexp(per_node, axis=0)
        return log_p, np.exp(per_node - log_p).T @ nodes

    def log_k_prior(self, n: int, k: NDArray) -> Floats:
        """log P(K = k) of an infinite prior: Poisson(α H), or a Gamma mixture of Poissons."""
        H = harmonic(n, self.beta if self.kind == "two_parameter" else 1.0)
        if isinstance(self.alpha, tuple):
            a, b = self.alpha
            return stats.nbinom.logpmf(k, a, b / (b + H))
        return stats.poisson.logpmf(k, self.alpha * H)


@cache
def gamma_nodes(shape: float, rate: float, points: int = 400) -> tuple[Floats, Floats]:
    """Nodes and log weights of ∫ f(α) Gamma(α; shape, rate) dα, on log α by the trapezium rule."""
    t = np.linspace(np.log(1e-14 / rate), np.log((shape + 60.0) / rate), points)
    log_w = stats.gamma.logpdf(np.exp(t), shape, scale=1.0 / rate) + t + np.log(t[1] - t[0])
    return np.exp(t), log_w


@dataclass(frozen=True)
class Tail:
    """The classes with K = cap, from which the mass of all K > cap is bounded."""

    log_tail: float  # log P(K > cap)
    log_share: Floats  # log P([Z] | K = cap) of each distinct G
    eigenvalues: Floats
    size: int  # N·D
    D: int

    def log_bound(self, sigma_x: float, sigma_a: float) -> float:
        """log of a bound of Σ_{K>cap} P([Z]) P(X|Z) (see the head of this file)."""
        log_determinant = np.log1p(self.eigenvalues * (sigma_a / sigma_x) ** 2).sum(axis=1)
        return (
            self.log_tail
            - 0.5 * self.size * float(np.log(2 * np.pi * sigma_x**2))
            + float(logsumexp(self.log_share - 0.5 * self.D * log_determinant))
        )


def tail(
    prior: PriorSpec, counts: NDArray, s: Spectrum | MaskedSpectrum, N: int, cap: int
) -> Tail | None:
    """None for priors with a limit, of which nothing is cut off."""
    if prior.limited:
        return None
    last = counts.sum(axis=1) == cap
    beta = prior.beta if prior.kind == "two_parameter" else None
    log_share = log_class_weight(counts[last], N, beta)
    which, inverse = np.unique(s.of_class[last], return_inverse=True)
    log_share = log_sum_by(log_share - logsumexp(log_share), inverse, len(which))
    log_tail = float(logsumexp(prior.log_k_prior(N, np.arange(cap + 1, cap + 2000))))
    return Tail(log_tail, log_share, s.eigenvalues[which], s.size, s.D)


def enumerate_posterior(
    prior: PriorSpec, X: NDArray, sigma_x: float, sigma_a: float, cap: int
) -> Exact:
    """P(K|X), E[ZZ'|X], E[α|X] with the σ's fixed, by summing over all classes with K ≤ cap."""
    cap = min(cap, prior.n_components) if prior.kind == "finite" else cap
    counts = classes(len(X), cap)
    log_prior, alpha_of_class = prior.log_classes(counts, len(X))
    s = spectrum_of(X, cap)
    cut = tail(prior, counts, s, len(X), cap)
    log_joint = log_prior + s.log_likelihood(sigma_x, sigma_a)[s.of_class]
    log_evidence = float(logsumexp(log_joint))
    p = np.exp(log_joint - log_evidence)
    per_gram = np.bincount(s.of_class, p, minlength=len(s.G))
    return Exact(
        k_probabilities=np.bincount(counts.sum(axis=1), p, minlength=cap + 1),
        gram=np.einsum("g,gij->ij", per_gram, s.G),
        alpha=float(p @ alpha_of_class),
        log_evidence=log_evidence,
        left_out=float(np.exp(cut.log_bound(sigma_x, sigma_a) - log_evidence)) if cut else 0.0,
        grams=s.G,
        gram_probabilities=per_gram,
    )


def sigma_nodes(shape: float, scale: float, points: int = 60) -> tuple[Floats, Floats]:
    """Nodes σ and log weights of ∫ f(σ) p(σ) dσ, σ² ~ InverseGamma(shape, scale).

    The trapezium rule on log σ: the integrand is smooth and falls off doubly exponentially on the
    left and like σ^{−2·shape} on the right, where the rule converges faster than any power.
    """
    law = stats.invgamma(shape, scale=scale)
    t = 0.5 * np.linspace(np.log(law.ppf(1e-13)), np.log(law.ppf(1 - 1e-10)), points)
    # density of t = log σ, with σ² = e^{2t}: p(σ²) dσ²/dt = p(e^{2t}) 2 e^{2t}
    log_w = law.logpdf(np.exp(2 * t)) + np.log(2.0) + 2 * t + np.log(t[1] - t[0])
    return np.exp(t), log_w


def enumerate_posterior_with_sigmas(
    prior: PriorSpec,
    X: NDArray,
    law_x: tuple[float, float],
    law_a: tuple[float, float],
    cap: int,
    points: int = 60,
) -> Exact:
    """As `enumerate_posterior`, with σ_x² and σ_a² ~ InverseGamma(shape, scale) on a grid."""
    cap = min(cap, prior.n_components) if prior.kind == "finite" else cap
    counts = classes(len(X), cap)
    K = counts.sum(axis=1)
    log_prior, alpha_of_class = prior.log_classes(counts, len(X))
    s = spectrum_of(X, cap)
    cut = tail(prior, counts, s, len(X), cap)
    log_x = log_a = evidence = left_out = 0.0
    # keeps exp in range
    shift = -0.5 * s.size * (np.log(2 * np.pi * np.nanmean(X**2)) + 1.0)
    sigma_xs, sigma_as = sigma_nodes(*law_x, points), sigma_nodes(*law_a, points)
    log_weight_of_gram = log_sum_by(log_prior, s.of_class, len(s.G))
    per_gram = np.zeros(len(s.G))
    for sigma_x, weight_x in zip(*sigma_xs, strict=True):
        for sigma_a, weight_a in zip(*sigma_as, strict=True):
            weight = weight_x + weight_a - shift
            likelihood = np.exp(s.log_likelihood(sigma_x, sigma_a) + weight)
            per_gram += likelihood
            mass = float(np.exp(log_weight_of_gram) @ likelihood)
            evidence += mass
            log_x += mass * np.log(sigma_x)
            log_a += mass * np.log(sigma_a)
            if cut is not None:
                left_out += np.exp(cut.log_bound(sigma_x, sigma_a) + weight)
    total = np.exp(log_prior) * per_gram[s.of_class] / evidence
    return Exact(
        k_probabilities=np.bincount(K, total, minlength=cap + 1),
        gram=np.einsum("g,gij->ij", np.bincount(s.of_class, total, minlength=len(s.G)), s.G),
        alpha=float(total @ alpha_of_class),
        log_evidence=float(np.log(evidence) + shift),
        left_out=float(left_out / evidence),
        log_sigma_x=float(log_x / evidence),
        log_sigma_a=float(log_a / evidence),
    )


def log_sum_by(log_values: Floats, group: NDArray, n_groups: int) -> Floats:
    """log Σ exp(log_values) within each group."""
    top = log_values.max()
    with np.errstate(divide="ignore"):
        return np.log(np.bincount(group, np.exp(log_values - top), minlength=n_groups)) + top


# ---- the noisy-or model -----------------------------------------------------------------------
def noisy_or_entry(x: int, c: float, epsilon: float, lam: float) -> float:
    """log P(x | c active causes), from the definition."""
    off = (1.0 - epsilon) * (1.0 - lam) ** c
    return float(np.log(1.0 - off if x else off))


def noisy_or_joint(
    X: NDArray, Z: NDArray, Y: NDArray, epsilon: float, lam: float, p: float
) -> float:
    """log P(X, Y | Z), entry by entry; NaN is an entry that was not observed."""
    C = np.asarray(Z, int) @ np.asarray(Y, int)
    value = sum(
        noisy_or_entry(int(x), int(c), epsilon, lam)
        for x, c in zip(np.ravel(X), np.ravel(C), strict=True)
        if not np.isnan(x)
    )
    return value + float(np.where(np.asarray(Y) == 1, np.log(p), np.log(1.0 - p)).sum())


def noisy_or_marginal(X: NDArray, counts: NDArray, epsilon: float, lam: float, p: float) -> Floats:
    """log P(X | [Z]) of each class, Y summed out, through the nodes that stay off.

    All nodes of a set U are off with probability (1−ε)^|U| Π_h (1 − p + p(1−λ)^{|h∩U|})^{K_h}, and
    by inclusion and exclusion P(x_t) = Σ_{S ⊆ on} (−1)^|S| P(off ∪ S is off).
    """
    X = np.asarray(X, int)
    n = len(X)
    H = histories(n)
    sets = np.array(list(product((0, 1), repeat=n)))
    idle = np.log(1.0 - p + p * (1.0 - lam) ** (H @ sets.T))  # (histories, sets)
    stays_off = np.exp(counts @ idle + sets.sum(axis=1) * np.log(1.0 - epsilon))
    total = np.zeros(len(counts))
    for x, times in zip(*np.unique(X.T, axis=0, return_counts=True), strict=True):
        contains = (sets >= 1 - x).all(axis=1)  # the sets off ∪ S
        sign = np.where((sets.sum(axis=1) - (1 - x).sum()) % 2 == 0, 1.0, -1.0)
        total += times * np.log(stays_off[:, contains] @ sign[contains])
    return total


@dataclass(frozen=True)
class ExactNoisyOr:
    """The posterior of a noisy-or model given K ≤ cap."""

    k_probabilities: Floats
    gram: Floats
    alpha: float
    rates: dict[str, float]  # E[ε | X], E[λ | X], E[p | X]


def beta_nodes(law: float | tuple[float, float], points: int) -> tuple[Floats, Floats]:
    """Nodes and weights of ∫ f(v) Beta(v; a, b) dv (Gauss–Jacobi), or the number itself."""
    if not isinstance(law, tuple):
        return np.array([law]), np.ones(1)
    nodes, weights = roots_jacobi(points, law[1] - 1.0, law[0] - 1.0)
    return 0.5 * (nodes + 1.0), weights / weights.sum()


def enumerate_noisy_or(
    prior: PriorSpec,
    X: NDArray,
    rates: Mapping[str, float | tuple[float, float]],
    cap: int,
    points: int = 10,
) -> ExactNoisyOr:
    """Sum over all classes with K ≤ cap, and over the rates where they have laws.

    The likelihood is a polynomial in each rate, smooth enough for a few points to give seven digits
    on the tiny data that this is for.
    """
    cap = min(cap, prior.n_components) if prior.kind == "finite" else cap
    counts = classes(len(X), cap)
    log_prior, alpha_of_class = prior.log_classes(counts, len(X))
    weight = np.zeros(len(counts))
    means = dict.fromkeys(rates, 0.0)
    grids = [list(zip(*beta_nodes(law, points), strict=True)) for law in rates.values()]
    for at in product(*grids):
        values = dict(zip(rates, (v for v, _ in at), strict=True))
        log_weight = float(np.log([w for _, w in at]).sum())
        here = np.exp(log_prior + noisy_or_marginal(X, counts, **values) + log_weight)
        weight += here
        for name, v in values.items():
            means[name] += v * here.sum()
    total = weight.sum()
    outer = np.einsum("hi,hj->hij", histories(len(X)), histories(len(X)))
    gram = np.einsum("c,ch,hij->ij", weight / total, counts, outer)
    return ExactNoisyOr(
        k_probabilities=np.bincount(counts.sum(axis=1), weight / total, minlength=cap + 1),
        gram=gram,
        alpha=float(weight @ alpha_of_class / total),
        rates={name: mean / total for name, mean in means.items()},
    )


# ---- laws of the hyperparameters --------------------------------------------------------------
def mean_of_gamma_by_quadrature(log_likelihood, shape: float, rate: float) -> float:
    """E[α | ·] for α ~ Gamma(shape, rate) and any log likelihood of α, by adaptive quadrature."""
    law = stats.gamma(shape, scale=1.0 / rate)
    top = max(log_likelihood(a) for a in law.ppf(np.linspace(0.01, 0.99, 99)))

    def weight(a: float) -> float:
        return float(np.exp(log_likelihood(a) - top) * law.pdf(a))

    upper = float(law.ppf(1 - 1e-15)) * 4
    mass = integrate.quad(weight, 0, upper, limit=400, epsabs=1e-14)[0]
    return integrate.quad(lambda a: a * weight(a), 0, upper, limit=400, epsabs=1e-14)[0] / mass
