"""Slow, obviously right answers for sparse factors X = (Z ⊙ S) A + E on tiny data.

Every left-ordered class with K ≤ cap is enumerated, and for each the amounts s of its entries are
integrated by Gauss–Legendre quadrature, panel by panel, over all entries at once:

    P(X | Z) = ∫ ∏ p(s) N(X; 0, σ_x² I + σ_a² WW') dS,  W = Z ⊙ S     (each column independently)

A is integrated out by the plain multivariate normal density.  Flipping the signs of a whole column
of S changes nothing, so the first entry of each column is taken positive, with twice the weight.

Nothing here imports the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from oracles.features import Floats, PriorSpec, classes, histories

PANELS = (0.0, 0.7, 2.0, 5.0, 11.0, 25.0)


def half_nodes(slab: str, points: int) -> tuple[Floats, Floats]:
    """Nodes s > 0 and weights of ∫₀^∞ f(s) p(s) ds, ``points`` in each panel."""
    x, w = np.polynomial.legendre.leggauss(points)
    s = np.concatenate([0.5 * (b - a) * x + 0.5 * (a + b) for a, b in pairwise(PANELS)])
    weight = np.concatenate([0.5 * (b - a) * w for a, b in pairwise(PANELS)])
    return s, weight * (stats.laplace if slab == "laplace" else stats.norm).pdf(s)


def gram_of(Z: NDArray, slab: str, points: int) -> tuple[Floats, Floats]:
    """WW' on the grid of all entries' amounts, (nodes, N, N), and the grid's weights."""
    n = len(Z)
    s, w = half_nodes(slab, points)
    signed, weights = np.concatenate([-s[::-1], s]), np.concatenate([w[::-1], w])
    G, weight = np.zeros((1, n, n)), np.ones(1)
    for column in Z.T:
        on = np.flatnonzero(column)
        W, here = np.zeros((1, n)), np.ones(1)
        for i, row in enumerate(on):
            nodes, mass = (s, 2.0 * w) if i == 0 else (signed, weights)
            W = np.repeat(W, len(nodes), axis=0)
            W[:, row] = np.tile(nodes, len(here))
            here = np.outer(here, mass).ravel()
        outer = W[:, :, None] * W[:, None, :]
        G = (G[:, None] + outer[None]).reshape(-1, n, n)
        weight = np.outer(weight, here).ravel()
    return G, weight


def density(X: NDArray, G: Floats, sigma_x: float, sigma_a: float) -> Floats:
    """N(X; 0, σ_x² I + σ_a² G) for every G, columns of X independent; N ≤ 3 by cofactors."""
    n, d = X.shape
    C = sigma_x**2 * np.eye(n) + sigma_a**2 * G
    if n == 2:
        det = C[:, 0, 0] * C[:, 1, 1] - C[:, 0, 1] ** 2
        a, b, c = (X[0] ** 2).sum(), (X[0] * X[1]).sum(), (X[1] ** 2).sum()
        form = (C[:, 1, 1] * a - 2 * C[:, 0, 1] * b + C[:, 0, 0] * c) / det
    else:
        det = np.linalg.det(C)
        form = np.einsum("gij,ij->g", np.linalg.inv(C), X @ X.T)
    return np.exp(-0.5 * form) * ((2 * np.pi) ** n * det) ** (-0.5 * d)


def shapes(G: Floats) -> Floats:
    """Bounded functions of WW' whose means are compared: 1/(1+g) and g/(1+g²)."""
    diagonal = np.eye(G.shape[-1], dtype=bool)
    return np.where(diagonal, 1.0 / (1.0 + np.abs(G)), G / (1.0 + G**2))


@dataclass(frozen=True)
class SparseExact:
    """What enumeration says given X and K ≤ cap."""

    k_probabilities: Floats
    gram: Floats  # E[ZZ']
    shapes: Floats  # E[shapes(WW')]
    evidence: float


def enumerate_sparse(
    prior: PriorSpec,
    X: NDArray,
    sigma_x: float,
    sigma_a: float,
    slab: str,
    cap: int,
    points: int = 6,
) -> SparseExact:
    """P(K|X), E[ZZ'|X] and E[shapes(WW')|X], all given K ≤ cap."""
    n = len(X)
    counts = classes(n, cap)
    p = np.zeros(len(counts))
    gram, shape = np.zeros((n, n)), np.zeros((n, n))
    log_prior, _ = prior.log_classes(counts, n)
    for c, row in enumerate(counts):
        Z = np.repeat(histories(n), row, axis=0).T
        G, weight = gram_of(Z, slab, points)
        weight = np.exp(log_prior[c]) * weight * density(X, G, sigma_x, sigma_a)
        p[c] = weight.sum()
        gram += p[c] * (Z @ Z.T)
        shape += np.einsum("g,gij->ij", weight, shapes(G))
    total = p.sum()
    k = np.bincount(counts.sum(axis=1), p / total, minlength=cap + 1)
    return SparseExact(k, gram / total, shape / total, float(total))


def log_ratio_by_quadrature(p: float, q: float, slab: str) -> float:
    """log ∫ slab(s) e^{qs − ps²/2} ds, adaptively, about the integrand's two highest places."""
    peaks = [(q - 1) / p, 0.0, (q + 1) / p] if slab == "laplace" else [q / (1 + p)]
    law = stats.laplace if slab == "laplace" else stats.norm

    def log_f(s: float) -> float:
        return float(law.logpdf(s) + q * s - 0.5 * p * s * s)

    top = max(log_f(s) for s in peaks)
    width = 1.0 / np.sqrt(p + (slab == "gaussian"))
    cuts = sorted({0.0, *(c + t * width for c in peaks for t in (-9, -3, -1, 0, 1, 3, 9))})
    cuts = [cuts[0] - 40 * width, *cuts, cuts[-1] + 40 * width]
    pieces = [
        integrate.quad(lambda s: np.exp(log_f(s) - top), a, b, epsabs=0, epsrel=1e-11)[0]
        for a, b in pairwise(cuts)
        if b > a
    ]
    return float(top + np.log(sum(pieces)))
