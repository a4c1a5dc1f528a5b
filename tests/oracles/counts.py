r"""Exact posteriors of counts x_nd ~ Poisson(μ_d (b_d + Σ_k z_nk a_kd)) on tiny data.

Equal columns of Z act through the sum of their rates alone, g_h ~ Gamma(K_h s, r). Each x_n is the
sum of the parts that come from the base rate and from each history h that row n belongs to, and the
parts y that one source with g ~ Gamma(σ, r) has in rows R have, with Y = Σ y, probability

    E ∏_{n ∈ R} (μg)^{y_n} e^{−μg}/y_n!  =  (∏ μ^{y_n}/y_n!) (σ)_Y r^σ / (r + μ|R|)^{σ+Y}.

So P(x) is the convolution of these tables, a finite sum. The mean of a rate follows from the
evidence, E[μ_d λ_nd | X] = (x_nd + 1) P(X + e_nd)/P(X). Nothing here imports the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.signal import convolve
from scipy.special import gammaln

from oracles import features as oracles


@cache
def source(rows, sizes, sigma, rate, unit, power=0):
    """Probabilities of the parts of one source in all rows, times g^power: an array up to
    ``sizes``; ``rows`` are those that have it."""
    table = np.zeros(sizes)
    for y in product(*(range(size) for size in sizes)):
        if any(part and n not in rows for n, part in enumerate(y)):
            continue
        total = sum(y)
        log = total * np.log(unit) - gammaln(np.array(y) + 1.0).sum()
        log += gammaln(sigma + total + power) - gammaln(sigma) + sigma * np.log(rate)
        table[y] = np.exp(log - (sigma + total + power) * np.log(rate + unit * len(rows)))
    return table


@cache
def fixed_source(sizes, base, unit):
    """The same of a known rate that all rows have."""
    table = np.ones(sizes)
    for y in product(*(range(size) for size in sizes)):
        mean = base * unit
        table[y] = np.prod([np.exp(part * np.log(mean) - mean - gammaln(part + 1)) for part in y])
    return table


def column(counts, n, sizes, size, shape, base, unit, power=0):
    """P(x) of one column, for all x up to ``sizes``; ``base`` is a number, or None if it is
    exponential. With ``power``, E[b^power; x]."""
    everyone = tuple(range(n))
    if base is None:
        table = source(everyone, sizes, 1.0, 1.0, unit, power)
    else:
        table = base**power * fixed_source(sizes, base, unit)
    for h, k in zip(oracles.histories(n).astype(int), counts, strict=True):
        if k:
            rows = tuple(np.flatnonzero(h).tolist())
            own = source(rows, sizes, k * shape, shape / size, unit)
            table = convolve(table, own, method="direct")[tuple(slice(0, s) for s in sizes)]
    return table


@dataclass(frozen=True)
class Exact:
    """The posterior given X and K ≤ cap."""

    k_probabilities: np.ndarray
    gram: np.ndarray  # E[ZZ']
    rates: np.ndarray  # E[μ(b + ZA)]
    alpha: float
    size: float
    base: np.ndarray  # E[b]
    log_evidence: float


def enumerate_counts(prior, X, size, shape, base, cap, units=None):
    """Sum over all classes; ``size`` is a number, or a Gamma law as a pair, by quadrature."""
    X = np.asarray(X, float)
    n, d = X.shape
    cap = min(cap, prior.n_components) if prior.kind == "finite" else cap
    classes = oracles.classes(n, cap)
    log_prior, alpha_of_class = prior.log_classes(classes, n)
    units = np.ones(d) if units is None else units
    nodes = nodes_of(size) if isinstance(size, tuple) else [(size, 0.0)]
    total = np.zeros(len(classes))
    up, bases, mean_size = np.zeros((n, d)), np.zeros(d), 0.0
    for at, log_weight in nodes:
        for c, counts in enumerate(classes):
            weight = np.exp(log_prior[c] + log_weight)
            found = [of_column(counts, x, at, shape, base, units[i]) for i, x in enumerate(X.T)]
            P = np.array([p for p, _, _ in found])
            for i, (_, more, with_base) in enumerate(found):
                rest = weight * np.prod(np.delete(P, i))
                up[:, i] += rest * more
                bases[i] += rest * with_base
            total[c] += weight * P.prod()
            mean_size += at * weight * P.prod()
    p = total / total.sum()
    h = oracles.histories(n)
    return Exact(
        np.bincount(classes.sum(axis=1), p, minlength=cap + 1),
        np.einsum("c,ch,hi,hj->ij", p, classes, h, h),
        up / total.sum(),
        float(p @ alpha_of_class),
        float(mean_size / total.sum()),
        bases / total.sum(),
        float(np.log(total.sum())),
    )


def of_column(counts, x, size, shape, base, unit):
    """P(x), (x_n + 1) P(x + e_n) of each row, and E[b; x], missing rows left out."""
    seen = np.flatnonzero(~np.isnan(x))
    told = x[seen].astype(int)
    few = np.zeros(2 ** len(seen) - 1, int)  # histories of the rows that were seen
    short = [tuple(h) for h in oracles.histories(len(seen)).astype(int).tolist()]
    for h, k in zip(oracles.histories(len(x)).astype(int), counts, strict=True):
        if h[seen].any():
            few[short.index(tuple(h[seen].tolist()))] += k
    sizes = tuple((told + 2).tolist())
    table = column(few, len(seen), sizes, size, shape, base, unit)
    more = np.full(len(x), np.nan)
    for i, n in enumerate(seen):
        higher = told + np.eye(len(seen), dtype=int)[i]
        more[n] = (told[i] + 1) * table[tuple(higher)]
    at = tuple(told)
    return table[at], more, column(few, len(seen), sizes, size, shape, base, unit, 1)[at]


def nodes_of(law, points=24):
    """Nodes and log weights of ∫ f(θ) Gamma(θ; shape, rate) dθ, Gauss–Laguerre."""
    from scipy.special import roots_genlaguerre

    shape, rate = law
    t, w = roots_genlaguerre(points, shape - 1.0)
    return list(zip(t / rate, np.log(w) - gammaln(shape), strict=True))
