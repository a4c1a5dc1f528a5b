r"""Figure 2 of Doshi-Velez and others (2009): the L1 distance that a truncation at K makes; see
`doshi_velez_2009.py`.

Of the laws of the class [Z] of N rows: the Indian buffet process, P_∞, and the same with no
features but the K most frequent, P_K. Data tell at most what Z tells, so

    ∫ |m_K(X) − m_∞(X)| dX  ≤  Σ_[Z] |P_K([Z]) − P_∞([Z])|  =  2 E_∞[ (1 − P_K/P_∞)₊ ],

with equality where X shows Z; the mean is over draws of the process, as in the paper. The
frequencies are a Poisson process of rate α/π on (0, 1). Given the K-th largest, t, with
−log t ~ Gamma(K, α), the K − 1 larger ones are independent with density 1/(π log 1/t), and

    q(h) = ∫_t^1 π^m (1−π)^(N−m) dπ / (π log 1/t),        p(h) = t^m (1−t)^(N−m)

are the chances that one of them, or the K-th, has the column h of m ones. So P_K([Z] | t) is a sum
over what column the K-th has of multinomial probabilities, and one integral over t is left.
"""

from __future__ import annotations

import argparse

import numpy as np
from presenting import Section, table
from scipy.special import betainc, betaln, gammaln, logsumexp
from scipy.stats import gamma

import thali
from thali import plots

POINTS = 400  # of the integral over t, at equal shares of its distribution
DRAWS = 1000  # of the paper's simulations


class Truncated:
    """P_K over P_∞ for N rows, by K."""

    def __init__(self, n: int, alpha: float, k: int) -> None:
        shares = (np.arange(POINTS) + 0.5) / POINTS
        u = gamma(k, scale=1.0 / alpha).ppf(shares)[:, None]  # −log t
        m = np.arange(1, n + 1)
        self.n, self.alpha, self.k = n, alpha, k
        self.last = -m * u + (n - m) * np.log(-np.expm1(-u))  # log p, (POINTS, n)
        self.last_zero = n * np.log(-np.expm1(-u[:, 0]))
        above = betainc(n - m + 1, m, -np.expm1(-u))  # 1 − I_t(m, n − m + 1)
        with np.errstate(divide="ignore"):
            self.any = np.log(above) + betaln(m, n - m + 1) - np.log(u)  # log q
        zero = -np.expm1(logsumexp(self.any + chosen(n, m), axis=1))  # 1 − Σ_m C(n, m) q
        with np.errstate(divide="ignore"):
            self.any_zero = np.log(np.maximum(zero, 0.0))

    def log_probability(self, Z: np.ndarray) -> float:
        """log P_K([Z]), by the numbers of ones in its columns and how many columns are equal."""
        kept = Z[:, Z.any(axis=0)]
        columns, counts = np.unique(kept, axis=1, return_counts=True)
        m, used = columns.sum(axis=0) - 1, int(counts.sum())
        if used > self.k:
            return float("-inf")
        same = gammaln(counts + 1.0).sum()
        fits = self.any[:, m] @ counts  # log Π q(h)^{K_h}
        terms = []
        if used < self.k:  # the K-th is empty
            spare = self.k - 1 - used
            ways = gammaln(self.k) - gammaln(spare + 1.0) - same
            terms.append(ways + fits + times(spare, self.any_zero) + self.last_zero)
        spare = self.k - used
        ways = gammaln(self.k) - gammaln(spare + 1.0) - same
        for h, count in zip(m, counts, strict=True):  # the K-th is one of these
            others = fits - self.any[:, h] + np.log(count)
            terms.append(ways + others + times(spare, self.any_zero) + self.last[:, h])
        return float(logsumexp(np.stack(terms)) - np.log(POINTS))


def chosen(n: int, m: np.ndarray) -> np.ndarray:
    """log C(n, m)."""
    return gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0)


def times(count: int, log_chance: np.ndarray) -> np.ndarray:
    """log of chance^count, where 0⁰ = 1."""
    return count * log_chance if count else np.zeros_like(log_chance)


def distance(
    n: int, alpha: float, k: int, drawn: list[np.ndarray], logs: np.ndarray
) -> tuple[float, float]:
    """Σ |P_K − P_∞| from these draws of P_∞ with these log probabilities, and its error."""
    truncated = Truncated(n, alpha, k)
    ratio = np.exp([truncated.log_probability(Z) for Z in drawn] - logs)
    short = np.maximum(1.0 - ratio, 0.0)
    return 2.0 * float(short.mean()), 2.0 * float(short.std() / np.sqrt(len(short)))


def figure_2(options: argparse.Namespace) -> Section:
    n, alpha = 30, 5.0
    prior = thali.IBP(alpha)
    rng = np.random.default_rng(options.seed)
    drawn = [prior.sample(rng, n) for _ in range(100 if options.quick else DRAWS)]
    logs = np.array([prior.log_prob(Z) for Z in drawn])
    ks = (10, 30) if options.quick else (5, 10, 15, 20, 25, 30, 40, 50, 60)
    found = [distance(n, alpha, k, drawn, logs) for k in ks]
    rows = []
    for k, (value, error) in zip(ks, found, strict=True):
        chance, bound = prior.truncation_error(n, k), prior.truncation_bound(n, k)
        rows.append([k, f"{value:.3f} ± {error:.3f}", f"{2 * chance:.3f}", f"{4 * bound:.3f}",
                     f"{4 * bound / max(value, 1e-12):.1f}"])  # fmt: skip
    lines = [
        f"N = {n}, α = {alpha:g}; L1 distance of the laws of Z, from {len(drawn)} draws of the "
        "process (± a standard error). Equation 6 bounds a quarter of it. A distance is 2 at most.",
        "",
        *table(["K", "L1 distance", "twice the chance of a feature beyond K",
                "four times the bound of equation 6", "bound / distance"], rows), "",
        *promises(prior, n),
    ]  # fmt: skip
    ax = plots.truncation(n, alpha, random_state=options.seed)
    ax.plot(ks, [value / 4.0 for value, _ in found], "s", markersize=4, color="black",
            label="a quarter of the L1 distance")  # fmt: skip
    ax.legend(frameon=False, fontsize=8)
    return Section("Figure 2. The truncation's error", lines, {"figure_2.png": ax.figure})


def promises(prior: thali.IBP, n: int) -> list[str]:
    """From which K the bound promises what, and from which it is so."""
    lines = []
    for chance in (0.5, 0.01):
        promised, true = (
            next(k for k in range(1, 1000) if error(n, k) < chance)
            for error in (prior.truncation_bound, prior.truncation_error)
        )
        lines.append(
            f"- The chance of a feature beyond K falls below {chance:g} at K = {true}; the bound "
            f"of equation 6 promises that from K = {promised} on."
        )
    return lines
