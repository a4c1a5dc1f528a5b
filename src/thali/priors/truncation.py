r"""How many sticks of the Indian buffet process n rows need (Doshi-Velez and others 2009, 3.6).

The chance that any of n rows has a feature beyond the K most frequent ones is, with π_K the K-th
frequency and the smaller ones a Poisson process of intensity α/x on (0, π_K),

    1 − E[exp(−α h(π_K))],   h(p) = ∫₀^p (1 − (1−x)^n)/x dx = Σ_{i≤n} (1 − (1−p)^i)/i,

an integral over one number, as −log π_K ~ Gamma(K, rate α). Upper bounds of it, from h(p) ≤ np and
Jensen's inequality (h is concave):

    1 − exp(−α h(p̄)) ≤ 1 − exp(−nα p̄),   p̄ = E[π_K] = (α/(1+α))^K,

the right one being equation 6 of the paper. A quarter of the distance in total variation between
the distributions of the data with and without the cut is at most that chance.
"""

from bisect import bisect_left

import numpy as np
from scipy.integrate import quad
from scipy.special import exp1
from scipy.stats import gamma

FAR = 40.0  # standard deviations of −log π_K that are integrated over
EXACT = 10_000  # rows up to which h is summed
NEGLIGIBLE = 1e-6  # features expected beyond the last stick of a simulation
MOST = 2**17  # features that are looked through


def truncation_bound(n: int, alpha: float, k: int) -> float:
    """Equation 6: 1 − exp(−nα (α/(1+α))^K)."""
    return float(-np.expm1(-n * alpha * (alpha / (1.0 + alpha)) ** k))


def tight_truncation_bound(n: int, alpha: float, k: int) -> float:
    """1 − exp(−α h(p̄)), below equation 6 and above the truth.

    >>> truth, tight, loose = (f(30, 5.0, 20) for f in (
    ...     truncation_error, tight_truncation_bound, truncation_bound))
    >>> truth < tight < loose
    True
    """
    return float(-np.expm1(-alpha * expected_takers(n, (alpha / (1.0 + alpha)) ** k)))


def truncation_error(n: int, alpha: float, k: int) -> float:
    """The chance itself, by quadrature over u = −log π_K."""
    last = gamma(k, scale=1.0 / alpha)
    low, high = (max(0.0, last.mean() + s * FAR * last.std()) for s in (-1.0, 1.0))
    points = last.ppf([0.01, 0.5, 0.99])

    def integrand(u: float) -> float:
        return float(-np.expm1(-alpha * expected_takers(n, np.exp(-u))) * last.pdf(u))

    return float(quad(integrand, low, high, points=points, limit=200, epsabs=1e-12)[0])


def simulated_truncation_error(
    rng: np.random.Generator, n: int, alpha: float, ks: np.ndarray, draws: int
) -> np.ndarray:
    """The share of simulated matrices with a feature beyond the K most frequent, for each K.

    Frequencies by breaking sticks until the rest hardly matters, rows by coins.
    """
    beyond = np.zeros(len(ks))
    for _ in range(draws):
        pi = np.zeros(0)
        level = 1.0
        while level * n * alpha > NEGLIGIBLE:
            sticks = level * np.cumprod(rng.beta(alpha, 1.0, size=64))
            pi, level = np.concatenate([pi, sticks]), float(sticks[-1])
        taken = rng.binomial(n, pi) > 0
        last = int(np.flatnonzero(taken)[-1]) + 1 if taken.any() else 0
        beyond += last > np.asarray(ks)
    return beyond / draws


def least_truncation(n: int, alpha: float, error: float) -> int:
    """The smallest K whose ``tight_truncation_bound`` is at most ``error``; it falls with K."""
    return 1 + bisect_left(
        range(1, MOST), True, key=lambda k: tight_truncation_bound(n, alpha, k) <= error
    )


def expected_takers(n: int, p: float) -> float:
    """h(p) = Σ_{i=1..n} (1 − (1−p)^i)/i: features below p in use, on average, over α."""
    rate = -np.log1p(-min(p, 1.0 - 1e-16))
    if n <= EXACT:
        i = np.arange(1, n + 1)
        return float((-np.expm1(-i * rate) / i).sum())
    x = n * rate  # Σ_{i≤n} (1 − e^{−i·rate})/i up to a share of 1/n
    if x < 1e-6:
        return float(x)
    return float(np.log(x) + np.euler_gamma + exp1(x) + np.log(p / rate))
