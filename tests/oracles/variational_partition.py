"""The variational bound of clusters the slow, obvious way, from r, the sticks and the data.

    log p(X) ≥ E_q[log p(X | c, θ) + log P(c | v) + log p(v | α) + log p(α) + log p(θ)] + H[q]

    q = ∏_n r_n,c_n · ∏_k Beta(v_k; τ_k) · N(μ_k; m_k, (κ_k Λ_k)⁻¹) Wishart(Λ_k; ν_k, Ψ_k⁻¹) · q(α)

Every expectation is a term of its own, row by row and cluster by cluster. Columns with a variance
each are clusters of one column: Gamma(a, b) is Wishart(2a, 1/(2b)). Nothing here imports the
library, but for the list of all partitions that the evidence is summed over.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp, multigammaln, xlogy

from oracles.partitions import log_likelihood
from thali.structures.labels import all_partitions


def posterior(X, r, kappa, nu, psi):
    """κ_k, m_k, ν_k and Ψ_k of one cluster of rows X (around zero) with weights r."""
    d = X.shape[1]
    n, mean = 0.0, np.zeros(d)
    for i in range(len(X)):
        n += r[i]
        mean += r[i] * X[i]
    mean = mean / (kappa + n)
    Psi = np.eye(d) * psi + kappa * np.outer(mean, mean)
    for i in range(len(X)):
        Psi += r[i] * np.outer(X[i] - mean, X[i] - mean)
    return kappa + n, mean, nu + n, Psi


def log_constant(nu, Psi):
    """log of the factor before a Wishart density."""
    d = len(Psi)
    half = 0.5 * nu
    return half * np.linalg.slogdet(Psi)[1] - half * d * np.log(2.0) - multigammaln(half, d)


def of_cluster(X, r, kappa, nu, psi):
    """E[log p(X | c = k, θ)] + E[log p(θ)] + H[q(θ)] of one cluster."""
    d = X.shape[1]
    k, m, df, Psi = posterior(X, r, kappa, nu, psi)
    inverse = np.linalg.inv(Psi)
    log_det = sum(digamma(0.5 * (df - i)) for i in range(d)) + d * np.log(2.0)
    log_det -= np.linalg.slogdet(Psi)[1]
    found = 0.0
    for i in range(len(X)):
        away = d / k + df * (X[i] - m) @ inverse @ (X[i] - m)
        found += r[i] * 0.5 * (log_det - d * np.log(2.0 * np.pi) - away)
    found += 0.5 * (d * np.log(kappa / (2.0 * np.pi)) + log_det)
    found -= 0.5 * kappa * (d / k + df * m @ inverse @ m)
    found += log_constant(nu, psi * np.eye(d)) + 0.5 * (nu - d - 1.0) * log_det
    found -= 0.5 * df * psi * np.trace(inverse)
    found -= 0.5 * (d * np.log(k / (2.0 * np.pi)) + log_det - d)
    found -= log_constant(df, Psi) + 0.5 * (df - d - 1.0) * log_det - 0.5 * df * d
    return found


def of_sticks(r, tau, discount, alpha, mass=None, hyperprior=None):
    """E[log P(c | v) + log p(v | α) + log p(α)] + H[q(v)] + H[q(α)].

    ``mass`` is the shape and rate of q(α), ``hyperprior`` those of p(α); else α is a number.
    """
    n, k = r.shape
    log_v = digamma(tau[:, 0]) - digamma(tau.sum(axis=1))
    log_rest = digamma(tau[:, 1]) - digamma(tau.sum(axis=1))
    found = 0.0
    for i in range(n):
        for j in range(k):
            found += r[i, j] * (log_v[j] + sum(log_rest[:j]))
    for j in range(k):
        a, b = 1.0 - discount, alpha + (j + 1) * discount
        known = gammaln(a + b) - gammaln(a) - gammaln(b)
        if mass is not None:  # of Beta(1, α): E[log α]
            known = digamma(mass[0]) - np.log(mass[1])
            b = mass[0] / mass[1]
        found += known + (a - 1.0) * log_v[j] + (b - 1.0) * log_rest[j]
        found += stats.beta.entropy(*tau[j])
    if mass is not None:
        shape, rate = hyperprior
        log_alpha = digamma(mass[0]) - np.log(mass[1])
        found += shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * log_alpha
        found -= rate * mass[0] / mass[1]
        found += stats.gamma.entropy(mass[0], scale=1.0 / mass[1])
    return found


def bound(X, r, tau, scales, diagonal, discount, alpha, mass=None, hyperprior=None):
    """The lower bound; ``scales`` are κ, and ν and ψ, or 2a and 2b of columns if ``diagonal``."""
    kappa, nu, psi = scales
    found = -float(xlogy(r, r).sum())
    columns = [X[:, [d]] for d in range(X.shape[1])] if diagonal else [X]
    for k in range(r.shape[1]):
        for own in columns:
            found += of_cluster(own, r[:, k], kappa, nu, psi)
    return found + of_sticks(r, tau, discount, alpha, mass, hyperprior)


def log_prior(labels, alpha, discount):
    """log P(partition), row by row."""
    found, sizes = 0.0, []
    for i, k in enumerate(labels):
        if k == len(sizes):
            sizes.append(0)
            weight = alpha + discount * k if i else alpha
        else:
            weight = sizes[k] - discount
        found += np.log(weight / (alpha + i))
        sizes[k] += 1
    return found


def log_evidence(X, predictive, alpha, discount):
    """log p(X), a sum over all partitions."""
    logs = [
        log_prior(c, alpha, discount) + log_likelihood(X, np.array(c), predictive)
        for c in all_partitions(len(X))
    ]
    return float(logsumexp(logs))
