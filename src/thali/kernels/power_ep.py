r"""Power expectation propagation for X = Z A + E, Z of 0 and 1, a_kd ≥ 0 (Ding and others 2010).

A factor f of the model is stood for by a message f̃ of the family of q. With a power η,

    cavity  q \ f̃^η,    tilted  ∝ (q \ f̃^η) f^η,    f̃ ← f̃ · (tilted's moments in q's form / q)^{1/η}

q has a normal a_kd (natural parameters P, H), a Bernoulli z_nk (log odds L) and a Beta π_k (b, c).

An entry: f = N(x; s, σ_x²), s = Σ_j z_j a_j, so that f^η ∝ N(x; s, σ_x²/η). Feature k is taken
together with its z exactly, and the sum of the others, y apart from x, as normal: with (m, v) and p
of the cavity and w = σ_x²/η + Σ_{j≠k} Var(z_j a_j),

    P(z=1) ∝ p N(y; m, v + w),   P(z=0) ∝ (1 − p) N(y; 0, w),
    a | z=1 ~ N(m', v'),  1/v' = 1/v + 1/w,  m' = v'(m/v + y/w),    a | z=0 ~ N(m, v).

A sign: f = 1(a ≥ 0), and the tilted a is truncated normal. A frequency: f = π^z (1 − π)^{1−z}; its
message to z is b/c of the cavity, and the mixture of Beta(b+1, c) and Beta(b, c+1) that π becomes
is brought to a Beta with its mean and variance. Both with power one.
"""

import math

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.truncated_normal import mean, variance

LEAST = 1e-6  # of the prior's precision: a cavity with less is no distribution to speak of


@helper
def logistic(u):
    if u >= 0.0:
        return 1.0 / (1.0 + math.exp(-u))
    return math.exp(u) / (1.0 + math.exp(u))


@helper
def log_ratio(y, m, v, w):
    """log N(y; m, v + w) − log N(y; 0, w)."""
    wide = v + w
    return 0.5 * (y * y / w - (y - m) * (y - m) / wide - math.log(wide / w))


@helper
def entry(x, P, H, L, tau, eta, odds, least, noise, power, step, hold, work):
    """The messages of one entry to all features and bits of its row, and q with them.

    ``hold`` leaves the features as they are. Returns False where a cavity is no distribution.
    """
    k = P.shape[0]
    total, spread = 0.0, 0.0
    for i in range(k):
        precision = P[i] - power * tau[i]
        if precision <= least:
            return False
        v = 1.0 / precision
        m = (H[i] - power * eta[i]) * v
        u = L[i] - power * odds[i]
        p = logistic(u)
        first = p * m
        second = p * (v + m * m) - first * first
        total += first
        spread += second
        work[0, i], work[1, i], work[2, i] = m, v, u
        work[3, i], work[4, i] = first, second
    for i in range(k):
        m, v, u = work[0, i], work[1, i], work[2, i]
        y = x - (total - work[3, i])
        w = noise / power + max(spread - work[4, i], 0.0)
        on = log_ratio(y, m, v, w)
        r = logistic(u + on)
        new_odds = odds[i] + step * (on / power - odds[i])
        L[i] += new_odds - odds[i]
        odds[i] = new_odds
        if hold:
            continue
        v1 = 1.0 / (1.0 / v + 1.0 / w)
        m1 = v1 * (m / v + y / w)
        average = m + r * (m1 - m)
        var = v + r * (v1 - v) + r * (1.0 - r) * (m1 - m) * (m1 - m)
        new_tau = tau[i] + step * ((1.0 / var - 1.0 / v) / power - tau[i])
        new_eta = eta[i] + step * ((average / var - m / v) / power - eta[i])
        if P[i] + new_tau - tau[i] > least:
            P[i] += new_tau - tau[i]
            H[i] += new_eta - eta[i]
            tau[i], eta[i] = new_tau, new_eta
    return True


@helper
def frequency(L, b, c, i, odds, of_b, of_c, step, hold):
    """The messages of one bit's prior to it and to its feature's frequency, and q with them."""
    one, other = b[i] - of_b[i], c[i] - of_c[i]
    if one <= 0.0 or other <= 0.0:
        return
    u = L[i] - odds[i]
    new_odds = odds[i] + step * (math.log(one / other) - odds[i])
    L[i] = u + new_odds
    odds[i] = new_odds
    if hold:
        return
    r = logistic(u + math.log(one / other))
    s = one + other
    on, off = one + r, other + 1.0 - r  # (s + 1) times the means of π and of 1 − π
    inside = (r * (one + 1.0) * other + (1.0 - r) * one * (other + 1.0)) / (s + 2.0)
    size = (on * off / (inside + r * (1.0 - r)) - 1.0) / (s + 1.0)
    new_b = of_b[i] + step * (on * size - one - of_b[i])
    new_c = of_c[i] + step * (off * size - other - of_c[i])
    b[i] += new_b - of_b[i]
    c[i] += new_c - of_c[i]
    of_b[i], of_c[i] = new_b, new_c


@kernel
def pass_rows(X, q, rows, least, noise, power, step, hold):
    """One pass over the entries of each row, and its bits' priors; NaN was not observed.

    ``q`` is (P, H, b, c) with P and H (D, K); ``rows`` is (L, tau, eta, odds, prior_odds, of_b,
    of_c). Returns how many entries were left out for want of a cavity.
    """
    P, H, b, c = q
    L, tau, eta, odds, prior_odds, of_b, of_c = rows
    work = np.empty((5, P.shape[1]))
    skipped = 0
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            x = X[n, d]
            if math.isnan(x):
                continue
            if not entry(
                x, P[d], H[d], L[n], tau[n, d], eta[n, d], odds[n, d],
                least, noise, power, step, hold, work,
            ):  # fmt: skip
                skipped += 1
        for i in range(P.shape[1]):
            frequency(L[n], b, c, i, prior_odds[n], of_b[n], of_c[n], step, hold)
    return skipped


@kernel
def pass_signs(P, H, tau, eta, least, step):
    """The messages of a ≥ 0 to all features, and q with them."""
    for d in range(P.shape[0]):
        for i in range(P.shape[1]):
            precision = P[d, i] - tau[d, i]
            if precision <= least:
                continue
            m, s = (H[d, i] - eta[d, i]) / precision, math.sqrt(1.0 / precision)
            average, var = mean(m, s), variance(m, s)
            new_tau = tau[d, i] + step * (1.0 / var - precision - tau[d, i])
            new_eta = eta[d, i] + step * (average / var - m * precision - eta[d, i])
            if P[d, i] + new_tau - tau[d, i] > least:
                P[d, i] += new_tau - tau[d, i]
                H[d, i] += new_eta - eta[d, i]
                tau[d, i], eta[d, i] = new_tau, new_eta
