r"""Bits, own features and rates of counts whose rates add up.

    x_nd ~ Poisson(μ_d λ_nd),   λ_nd = b_d + Σ_k z_nk a_kd,   a_kd ~ Gamma(s, r)

Of the log density, Σ x log λ is of the entries above zero alone, which ``Counts`` lists, and what a
feature adds to the sum of the rates is known beforehand, M_nk = Σ_d μ_d a_kd over what was observed
of row n. So turning a bit costs a logarithm for each entry of the row that is not zero:

    log P(x_n | z_k = 1) − log P(x_n | z_k = 0) = Σ_d x_nd log(λ¹_nd/λ⁰_nd) − M_nk

j features that only row n has add rates whose sum is Gamma(j s, r) in every column: summed out
(``added_counts``) they multiply the density of the row, with B_n = Σ_d log(r/(r+μ_d)) over what was
observed of it, by

    f(j) = e^{j s B_n} ∏_{d: x > 0} S(x_nd; j s, λ_nd (r + μ_d)),

which is log-concave in j. Their number is drawn from w_j f(j) (``new_features``), then their sums
column by column, then their shares of these, which data say nothing of: Dirichlet(s, …, s).

Given Z and the rates, each x splits into parts that come from b and from each active feature:
multinomial; and rates given the parts are gamma distributed.
"""

import math
from typing import NamedTuple

import numpy as np

from thali.kernels.added_counts import draw_part, log_sum
from thali.kernels.bit_prior import accepts, is_held, prior_log_odds
from thali.kernels.compiling import helper, kernel
from thali.kernels.copying import put, put_matrix
from thali.kernels.logarithms import quick_log
from thali.kernels.new_features import (
    LOST_MASS,
    MOST_NEW,
    NewFeatures,
    is_full,
    log_step,
    room_left,
)
from thali.kernels.row_potentials import count_on, most_ahead, row_step

LEAST = 1e-100  # of a rate: a gamma of small shape underflows
CLOSE = 0.01  # a rate falling below this share of itself is added up afresh, for the digits' sake
FEW = 4  # counts that are split one by one


class Counts(NamedTuple):
    """The observed entries above zero: those of row n are at start[n]:start[n + 1]."""

    start: np.ndarray  # (N + 1,)
    column: np.ndarray
    x: np.ndarray  # float64


class Gammas(NamedTuple):
    """The prior of the features' rates, and the units of the columns."""

    shape: float  # s
    rate: float  # r
    units: np.ndarray  # μ, (D,)


@helper
def add_rates(counts, n, base, A, z, rates):
    """λ of the entries of row n that are above zero."""
    first = counts.start[n]
    size = counts.start[n + 1] - first
    for i in range(size):
        rates[i] = base[counts.column[first + i]]
    for k in range(A.shape[0]):
        if z[k]:
            for i in range(size):
                rates[i] += A[k, counts.column[first + i]]


@helper
def rate_without(base, A, z, k, d):
    """λ of an entry, feature k left out."""
    total = base[d]
    for j in range(A.shape[0]):
        if z[j] and j != k:
            total += A[j, d]
    return total


@helper
def rates_turned(counts, n, base, A, z, k, rates, other):
    """λ as it would be with bit k turned."""
    first = counts.start[n]
    for i in range(counts.start[n + 1] - first):
        d = counts.column[first + i]
        if not z[k]:
            other[i] = rates[i] + A[k, d]
        else:
            other[i] = rates[i] - A[k, d]
            if other[i] < CLOSE * rates[i]:
                other[i] = rate_without(base, A, z, k, d)


@helper
def log_ratio(counts, n, rates, other):
    """Σ x log(other/λ)."""
    first = counts.start[n]
    total = 0.0
    for i in range(counts.start[n + 1] - first):
        total += counts.x[first + i] * quick_log(other[i] / rates[i])
    return total


@kernel
def sweep_bits(rng, counts, base, A, mass, Z, prior):
    """One pass over all bits given the rates; Z and the prior's counts change in place.

    ``mass`` is M, (N, K); (1, K) where all was observed.
    """
    n_rows, k_all = Z.shape
    rates, other = np.empty(A.shape[1]), np.empty(A.shape[1])
    has_theta = prior.theta is not None
    for n in range(n_rows):
        z = Z[n]
        M = mass[min(n, mass.shape[0] - 1)]
        add_rates(counts, n, base, A, z, rates)
        F = count_on(z, k_all) if has_theta else 0
        for k in range(k_all):
            odds = prior_log_odds(prior, k, z[k])
            if np.isnan(odds) or is_held(prior.order, n, k):
                continue
            if has_theta:
                odds += row_step(prior.theta, F - z[k])
            sign = -1.0 if z[k] else 1.0
            rates_turned(counts, n, base, A, z, k, rates, other)
            if accepts(rng, sign * (odds - M[k]) + log_ratio(counts, n, rates, other)):
                rates, other = other, rates
                if z[k]:
                    z[k] = 0
                    prior.m[k] -= 1
                    F -= 1
                else:
                    z[k] = 1
                    prior.m[k] += 1
                    F += 1


# ---- features that one row alone has ------------------------------------------------------------
@helper
def log_own(counts, n, rates, gammas, quiet, j):
    """log f(j), ``quiet`` being B_n."""
    sigma = j * gammas.shape
    total = sigma * quiet
    first = counts.start[n]
    for i in range(counts.start[n + 1] - first):
        q = rates[i] * (gammas.rate + gammas.units[counts.column[first + i]])
        total += log_sum(counts.x[first + i], sigma, q)
    return total


@helper
def draw_number(rng, new, theta, counts, n, rates, gammas, quiet, logs):
    """j from w_j f(j) over its sum.

    f being log-concave, a step of its logarithm is at most the last one, so that terms beyond j are
    below a geometric series.
    """
    u = rng.random()
    log_w, before, top, total = 0.0, 0.0, 0.0, 1.0
    logs[0] = 0.0
    j = np.int64(0)
    while not is_full(new.free, j) and j <= new.most:
        log_w += log_step(new, theta, j)
        j += 1
        log_f = log_own(counts, n, rates, gammas, quiet, j)
        term = log_w + log_f
        logs[j] = term
        if term > top:
            total = total * np.exp(top - term) + 1.0
            top = term
        else:
            total += np.exp(term - top)
        room = 1.0 if new.free < 0 else float(new.free - j)
        ratio = np.exp(new.log_weight + log_f - before) * room / (j + 1.0)
        before = log_f
        if ratio < 0.5:
            ahead = most_ahead(theta, new.others + j)
            tail = np.exp(term + ahead - top) * ratio / (1.0 - ratio)
            if u * (total + tail) < np.exp(-top):
                return 0
            if tail < LOST_MASS * total:
                break
    left = u * total
    for i in range(j + 1):
        left -= np.exp(logs[i] - top)
        if left < 0.0:
            return i
    return j


@helper
def draw_own_rates(rng, counts, n, rates, gammas, seen, own):
    """The rates of a row's own features given the row, (j, D), into ``own``.

    Shares first, those of independent gammas; where x > 0 their sum is then drawn given x.
    """
    j = own.shape[0]
    for d in range(own.shape[1]):
        unit = gammas.units[d]
        if seen.shape[0] and not seen[n, d]:
            unit = 0.0
        for a in range(j):
            own[a, d] = rng.standard_gamma(gammas.shape) / (gammas.rate + unit)
    first = counts.start[n]
    for i in range(counts.start[n + 1] - first):
        d = counts.column[first + i]
        precision = gammas.rate + gammas.units[d]
        sigma = j * gammas.shape
        y = draw_part(rng, counts.x[first + i], sigma, rates[i] * precision)
        total = 0.0
        for a in range(j):
            total += own[a, d]
        factor = rng.standard_gamma(sigma + y) / precision / max(total, LEAST)
        for a in range(j):
            own[a, d] *= factor
    for a in range(j):
        for d in range(own.shape[1]):
            own[a, d] = max(own[a, d], LEAST)


@kernel
def renew_own_features(
    rng, counts, seen, base, Z, A, m, new_log_weight, capacity, theta, quiet, gammas
):
    """Draw anew the features that one row alone has: Z and A, shared features first.

    ``quiet`` is B, (N,), or (1,) where all was observed.
    """
    n_rows, d = Z.shape[0], A.shape[1]
    old = np.flatnonzero(m > 1)
    shared = old.shape[0]
    has = np.zeros(n_rows, np.int64)
    Zs, As = np.empty((n_rows, shared), np.uint8), np.empty((shared, d))
    for k in range(shared):
        put(As[k], A[old[k]])
    for n in range(n_rows):
        for k in range(shared):
            Zs[n, k] = Z[n, old[k]]
        for k in range(m.shape[0]):
            if m[k] == 1:
                has[n] += Z[n, k]
    own = np.zeros(n_rows, np.int64)
    used = m.shape[0]
    rates, logs = np.empty(d), np.empty(MOST_NEW + 3)
    for n in range(n_rows):
        add_rates(counts, n, base, As, Zs[n], rates)
        free = room_left(capacity, used - has[n])
        F = count_on(Zs[n], shared) if theta is not None else 0
        new = NewFeatures(new_log_weight, free, F, MOST_NEW)
        B = quiet[min(n, quiet.shape[0] - 1)]
        own[n] = draw_number(rng, new, theta, counts, n, rates, gammas, B, logs)
        used += own[n] - has[n]
    k = shared + own.sum()
    Z, A = np.zeros((n_rows, k), np.uint8), np.empty((k, d))
    put_matrix(Z, Zs)
    put_matrix(A, As)
    first = shared
    for n in range(n_rows):
        if own[n]:
            last = first + own[n]
            add_rates(counts, n, base, As, Zs[n], rates)
            draw_own_rates(rng, counts, n, rates, gammas, seen, A[first:last])
            Z[n, first:last] = 1
            first = last
    return Z, A


# ---- rates given Z ------------------------------------------------------------------------------
@helper
def split(rng, x, ahead, parts):
    """Split x: parts[i] in proportion to ahead[i] − ahead[i + 1]; ``ahead`` are sums from i on."""
    size = parts.shape[0]
    if x <= FEW:
        parts[:] = 0.0
        for _ in range(int(x)):
            left = rng.random() * ahead[0]
            i = size - 1
            while i > 0 and left >= ahead[i]:
                i -= 1
            parts[i] += 1.0
        return
    left = np.int64(x)
    for i in range(size - 1):
        part = np.int64(0)
        if left > 0:
            part = rng.binomial(left, min(1.0, max(0.0, 1.0 - ahead[i + 1] / ahead[i])))
        parts[i] = part
        left -= part
    parts[size - 1] = left


@kernel
def split_counts(rng, counts, base, A, Z):
    """Draw where counts come from: sums over rows of the parts from features (K, D), and b (D,)."""
    k_all, d_all = A.shape
    of_features, of_base = np.zeros((k_all, d_all)), np.zeros(d_all)
    active = np.empty(k_all, np.int64)
    ahead, parts = np.zeros(k_all + 2), np.empty(k_all + 1)
    for n in range(Z.shape[0]):
        F = 0
        for k in range(k_all):
            if Z[n, k]:
                active[F] = k
                F += 1
        for i in range(counts.start[n], counts.start[n + 1]):
            d = counts.column[i]
            if F == 0:
                of_base[d] += counts.x[i]
                continue
            ahead[F + 1] = 0.0
            ahead[F] = base[d]
            for f in range(F - 1, -1, -1):
                ahead[f] = ahead[f + 1] + A[active[f], d]
            split(rng, counts.x[i], ahead, parts[: F + 1])
            for f in range(F):
                of_features[active[f], d] += parts[f]
            of_base[d] += parts[F]
    return of_features, of_base


@kernel
def sum_of_logs(counts, base, A, Z):
    """Σ x log λ."""
    rates = np.empty(A.shape[1])
    total = 0.0
    for n in range(Z.shape[0]):
        add_rates(counts, n, base, A, Z[n], rates)
        first = counts.start[n]
        for i in range(counts.start[n + 1] - first):
            total += counts.x[first + i] * math.log(rates[i])
    return total
