"""The particle filter as one would first write it: a loop over rows, particles and bits, in NumPy.

Row by row, each particle proposes its bits one after the other given the bits before (later ones
as they are at a mode found by single flips), and its new dishes from their exact law; it carries
M = (ZᵀZ + rI)⁻¹ and μ = M ZᵀX, changed by rank one, so that nothing is inverted again. The proposal
and the weights are those of the library (``thali.ParticleFilter``); the code is not.
It shares no code with the library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

LEAST = 1e-4  # of the probability with which a bit is proposed
TIE = 1e-9  # gains closer than this are equal columns, of which the first is taken


@dataclass
class Particle:
    """Z so far, the counts of its dishes, and the predictive form."""

    Z: list[NDArray]
    m: NDArray
    M: NDArray
    mu: NDArray

    def copy(self) -> Particle:
        return Particle(list(self.Z), self.m.copy(), self.M.copy(), self.mu.copy())


@dataclass(frozen=True)
class Numbers:
    alpha: float
    sigma_x: float
    sigma_a: float

    @property
    def r(self) -> float:
        return (self.sigma_x / self.sigma_a) ** 2


def log_density(p: Particle, x: NDArray, z: NDArray, j: int, numbers: Numbers) -> float:
    """log N(x; zμ, σ_x²(1 + z M zᵀ + j/r) I)."""
    e = x - z @ p.mu
    v = numbers.sigma_x**2 * (1.0 + z @ p.M @ z + j / numbers.r)
    return float(-0.5 * len(x) * np.log(2.0 * np.pi * v) - 0.5 * (e @ e) / v)


def mode(p: Particle, x: NDArray, odds: NDArray, numbers: Numbers) -> NDArray:
    """Flip the best bit until none pays, the variance of the features left out of account."""
    z = np.zeros(len(p.m))
    precision = 0.5 / numbers.sigma_x**2
    for _ in range(2 * len(z)):
        e = x - z @ p.mu
        sign = 1.0 - 2.0 * z
        gain = sign * odds + precision * (2.0 * sign * (p.mu @ e) - (p.mu**2).sum(axis=1))
        best, which = 0.0, -1
        for i, value in enumerate(gain):
            if value > best + TIE:
                best, which = value, i
        if which < 0:
            break
        z[which] = 1.0 - z[which]
    return z


def propose(
    u: NDArray, p: Particle, x: NDArray, n: int, numbers: Numbers
) -> tuple[NDArray, int, float]:
    """Bits, new dishes and the log weight for row n (from 1), from len(m) + 1 uniform numbers."""
    odds = np.log(p.m / (n - p.m))
    z = mode(p, x, odds, numbers)
    log_w = np.log(numbers.alpha / n)

    def value(z: NDArray) -> float:
        one = log_w + log_density(p, x, z, 1, numbers)
        return float(np.logaddexp(log_density(p, x, z, 0, numbers), one))

    log_ratio = 0.0
    for i in range(len(z)):
        on, off = z.copy(), z.copy()
        on[i], off[i] = 1.0, 0.0
        chance = 1.0 / (1.0 + np.exp(-np.clip(value(on) - value(off) + odds[i], -600, 600)))
        chance = np.clip(chance, LEAST, 1.0 - LEAST)
        prior = p.m[i] / n
        taken = u[i] < chance
        z = on if taken else off
        log_ratio += np.log(prior / chance) if taken else np.log((1.0 - prior) / (1.0 - chance))
    j = np.arange(40)
    logs = j * log_w - gammaln(j + 1.0) - numbers.alpha / n
    logs = logs + np.array([log_density(p, x, z, int(i), numbers) for i in j])
    total = logsumexp(logs)
    new = int(np.searchsorted(np.cumsum(np.exp(logs - total)), u[len(z)]))
    return z, new, float(log_ratio + total)


def extend(p: Particle, x: NDArray, z: NDArray, new: int, numbers: Numbers) -> None:
    """The row joins: new dishes have M_kk = 1/r and no μ, then a rank-one change."""
    k = len(p.m)
    M = np.zeros((k + new, k + new))
    M[:k, :k] = p.M
    M[range(k, k + new), range(k, k + new)] = 1.0 / numbers.r
    mu = np.vstack([p.mu, np.zeros((new, len(x)))])
    z = np.concatenate([z, np.ones(new)])
    s = M @ z
    V = 1.0 + z @ s
    p.mu = mu + np.outer(s, x - z @ mu) / V
    p.M = M - np.outer(s, s) / V
    p.m = np.concatenate([p.m, np.zeros(new)]) + z
    p.Z.append(z)


def numpy_filter(
    rng: np.random.Generator,
    X: NDArray,
    particles: int,
    numbers: Numbers,
    resample_below: float = 0.5,
) -> tuple[list[Particle], NDArray, float]:
    """The particles, their weights and the estimate of log P(X) under the IBP.

    >>> rng = np.random.default_rng(0)
    >>> found, weights, _ = numpy_filter(rng, rng.normal(size=(5, 2)), 4, Numbers(1.0, 1.0, 1.0))
    >>> len(found), len(found[0].Z), round(float(weights.sum()), 6)
    (4, 5, 1.0)
    """
    none = np.zeros((0, 0))
    found = [Particle([], np.zeros(0), none, np.zeros((0, X.shape[1]))) for _ in range(particles)]
    log_weights = np.full(particles, -np.log(particles))
    log_evidence = 0.0
    for n, x in enumerate(X, start=1):
        for i, p in enumerate(found):
            u = rng.random(len(p.m) + 1)
            z, new, weight = propose(u, p, x, n, numbers)
            extend(p, x, z, new, numbers)
            log_weights[i] += weight
        total = logsumexp(log_weights)
        log_evidence += float(total)
        log_weights -= total
        weights = np.exp(log_weights)
        if 1.0 / (weights**2).sum() < resample_below * particles and n < len(X):
            points = (rng.random() + np.arange(particles)) / particles
            chosen = np.minimum(np.searchsorted(np.cumsum(weights), points), particles - 1)
            found = [found[i].copy() for i in chosen]
            log_weights = np.full(particles, -np.log(particles))
    return found, np.exp(log_weights), log_evidence
