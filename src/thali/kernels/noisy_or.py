r"""Bits, states y and new features of the noisy-or model, through counts and a table of logarithms.

    P(x_it = 1 | c) = 1 − (1−ε)(1−λ)^c,   c_it = z_i·y_t active features of node i in trial t

An entry is kept as its code e_it = 2 c_it + x_it, and the table

    gain[2c + x] = log P(x | c + 1) − log P(x | c)

has all that one more active feature can change: turning a bit z_ik sums it over the trials in which
feature k is active, turning y_kt over the nodes that have feature k, and no loop takes a logarithm.
An entry that was not observed has a code 2(K+1) + 2 c_it, where the table is zero: no step looks at
what such entries might be.

A step of a chain is two calls, ``sweep_bits_and_own`` and ``sweep_states``: on small data a call
that takes a generator costs more than its look-ups, and so does one that takes the prior's tables
as a tuple: of these it takes λ_1, the room and θ. Codes are made afresh where they are needed,
which costs a small part of these.

j features that only node i has, their y ~ Bernoulli(p) summed out, multiply (1−λ)^c by (1−λp)^j, as
each of them does nothing (1−p) or is active and fails to act p(1−λ); the number is drawn
exactly (``count_own_features``) and their y given x one after the other (``draw_own_states``).
"""

from math import log1p
from typing import NamedTuple

import numpy as np

from thali.kernels.bit_prior import accepts, is_held, prior_log_odds
from thali.kernels.compiling import helper, kernel
from thali.kernels.copying import put, put_matrix
from thali.kernels.new_features import NewFeatures, draw, factor_of, room_left
from thali.kernels.row_potentials import count_on, row_step

ANY_NUMBER = int(np.iinfo(np.int64).max)  # of new features: a node may well ask for many


class Rates(NamedTuple):
    """ε, λ and p as the kernels read them, with log(1−λ) and log(1−λp)."""

    epsilon: float
    lam: float
    p: float
    log_fails: float  # log(1−λ): an active feature fails to act
    log_idle: float  # log(1−λp): a feature of unknown state does nothing


class RowTally(NamedTuple):
    """The factor of new features; how many entries are 1, by active features, goes beside it."""

    off: int  # how many are 0
    rates: Rates
    fall: float  # off · log(1−λp): what one more does to the zeros alone


def rates_at(epsilon: float, lam: float, p: float) -> Rates:
    """The numbers with their logarithms."""
    return Rates(epsilon, lam, p, log1p(-lam), log1p(-lam * p))


@helper
def chance_on(rates, c, j):
    """P(x = 1 | c active features, j of unknown state), exact for the smallest ε and λ."""
    quiet = -np.expm1(c * rates.log_fails + j * rates.log_idle)
    return rates.epsilon + (1.0 - rates.epsilon) * quiet


@helper
def log_on(rates, c, j):
    """log P(x = 1 | c active features, j of unknown state)."""
    return np.log(chance_on(rates, c, j))


@kernel
def codes(X, seen, Z, Y):
    """The code of every entry; ``seen`` is True where one was observed, (0, 0) where all were."""
    n, k = Z.shape
    E = np.empty(X.shape, np.int32)
    doubled = np.empty(Y.shape, np.int32)
    for f in range(k):
        for t in range(Y.shape[1]):
            doubled[f, t] = 2 * Y[f, t]
    for i in range(n):
        e = E[i]
        for t in range(X.shape[1]):
            e[t] = X[i, t]
        if seen.shape[0]:
            for t in range(X.shape[1]):
                if not seen[i, t]:
                    e[t] = 2 * (k + 1)
        for f in range(k):
            if Z[i, f]:
                for t in range(X.shape[1]):
                    e[t] += doubled[f, t]
    return E


@helper
def tally(e, counts):
    """Add up how often each code occurs, in the four rows of ``counts`` by turns.

    One row alone would make an entry wait for the one before it whenever their codes are equal.
    """
    whole = e.shape[0] - e.shape[0] % 4
    for t in range(0, whole, 4):
        counts[0, e[t]] += 1
        counts[1, e[t + 1]] += 1
        counts[2, e[t + 2]] += 1
        counts[3, e[t + 3]] += 1
    for t in range(whole, e.shape[0]):
        counts[0, e[t]] += 1


@kernel
def count_codes(E, most):
    """n_cx: how many observed entries have c ≤ ``most`` active features and value x."""
    counts = np.zeros((4, 4 * (most + 1)), np.int64)
    for i in range(E.shape[0]):
        tally(E[i], counts)
    total = np.zeros((most + 1, 2), np.int64)
    for e in range(2 * (most + 1)):
        for row in range(4):
            total[e // 2, e % 2] += counts[row, e]
    return total


@kernel
def log_likelihood_of(counts, rates):
    """log P(X | Z, Y) from n_cx, how many entries have c active features and value x."""
    log_leak = np.log1p(-rates.epsilon)
    value = 0.0
    for c in range(counts.shape[0]):
        value += counts[c, 0] * (log_leak + c * rates.log_fails)
        if counts[c, 1]:
            value += counts[c, 1] * log_on(rates, float(c), 0.0)
    return value


@kernel
def gains(rates, most):
    """gain[2c + x] for c = 0 … most, and as many zeros for the entries that were not observed."""
    table = np.zeros(4 * (most + 1))
    before = log_on(rates, 0.0, 0.0)
    for c in range(most + 1):
        after = log_on(rates, c + 1.0, 0.0)
        table[2 * c] = rates.log_fails
        table[2 * c + 1] = after - before
        before = after
    return table


@helper
def active_trials(Y):
    """The trials in which each feature is active: those of k are trials[at[k]:at[k + 1]]."""
    k, t = Y.shape
    at = np.zeros(k + 1, np.int64)
    trials = np.empty(Y.size, np.int32)
    end = 0
    for i in range(k):
        for j in range(t):
            trials[end] = j
            end += Y[i, j]
        at[i + 1] = end
    return at, trials


@helper
def sum_of_gains(e, trials, start, stop, has, gain):
    """Σ gain[e_t − has] over trials[start:stop], in four sums that do not wait for each other."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = stop - (stop - start) % 4
    for t in range(start, whole, 4):
        a += gain[e[trials[t]] - has]
        b += gain[e[trials[t + 1]] - has]
        c += gain[e[trials[t + 2]] - has]
        d += gain[e[trials[t + 3]] - has]
    for t in range(whole, stop):
        a += gain[e[trials[t]] - has]
    return (a + b) + (c + d)


@kernel
def sweep_bits(rng, X, seen, Z, Y, rates, prior):
    """One pass over all bits given Y; Z and the prior's counts change in place."""
    turn_bits(rng, codes(X, seen, Z, Y), Z, Y, gains(rates, Y.shape[0]), prior)


@helper
def turn_bits(rng, E, Z, Y, gain, prior):
    """One pass over all bits given Y; Z, the codes E and the prior's counts change in place."""
    at, trials = active_trials(Y)
    n, k = Z.shape
    has_theta = prior.theta is not None
    for i in range(n):
        z = Z[i]
        e = E[i]
        F = count_on(z, k) if has_theta else 0
        for f in range(k):
            odds = prior_log_odds(prior, f, z[f])
            if np.isnan(odds) or is_held(prior.order, i, f):
                continue
            if has_theta:
                odds += row_step(prior.theta, F - z[f])
            odds += sum_of_gains(e, trials, at[f], at[f + 1], 2 * z[f], gain)
            if accepts(rng, -odds if z[f] else odds):
                step = -2 if z[f] else 2
                for a in range(at[f], at[f + 1]):
                    e[trials[a]] += step
                if z[f]:
                    z[f] = 0
                    prior.m[f] -= 1
                    F -= 1
                else:
                    z[f] = 1
                    prior.m[f] += 1
                    F += 1


@helper
def score_states(E, Z, y, f, gain, log_odds, step, score):
    """Fill score[t] with the log odds of y_ft given all else, and step[t] with 2 y_ft."""
    score[:] = log_odds
    for j in range(y.shape[0]):
        step[j] = 2 * y[j]
    for i in range(Z.shape[0]):
        if Z[i, f]:
            e = E[i]
            for j in range(y.shape[0]):
                score[j] += gain[e[j] - step[j]]


@kernel
def single_entropies(E, Z, Y, gain, log_odds):
    """Σ_kt of the entropy of y_kt given all else, in nats."""
    score = np.empty(Y.shape[1])
    step = np.empty(Y.shape[1], np.int32)
    total = 0.0
    for f in range(Y.shape[0]):
        score_states(E, Z, Y[f], f, gain, log_odds, step, score)
        for s in score:
            a = abs(s)  # H = log(1 + e^{−a}) + a/(1 + e^a), the same for s and −s
            if a < 700.0:
                total += np.log1p(np.exp(-a)) + a / (1.0 + np.exp(a))
    return total


@helper
def turn_states(rng, E, Z, Y, gain, log_odds):
    """One pass over all y_kt given Z, a feature at a time: its trials are independent."""
    n, k = Z.shape
    t = Y.shape[1]
    score = np.empty(t)
    step = np.empty(t, np.int32)
    for f in range(k):
        y = Y[f]
        score_states(E, Z, y, f, gain, log_odds, step, score)
        for j in range(t):
            new = 1 if accepts(rng, score[j]) else 0
            step[j] = 2 * new - step[j]
            y[j] = new
        for i in range(n):
            if Z[i, f]:
                e = E[i]
                for j in range(t):
                    e[j] += step[j]


@kernel
def sweep_states(rng, X, seen, Z, Y, rates, log_odds):
    """One pass over all y_kt given Z, Y in place; then n_cx, Σ y and log P(X | Z, Y)."""
    E = codes(X, seen, Z, Y)
    turn_states(rng, E, Z, Y, gains(rates, Y.shape[0]), log_odds)
    counts = count_codes(E, Y.shape[0])
    return counts, Y.sum(), log_likelihood_of(counts, rates)


@kernel
def log_row(off, on, rates, j):
    """log P(x_i | j features of its own), their y summed out, up to what j does not change."""
    value = off * j * rates.log_idle
    for c in range(on.shape[0]):
        if on[c]:
            value += on[c] * log_on(rates, float(c), float(j))
    return value


def row_with(factor, entries, j):
    """log P(x_i | j features of its own) of a ``RowTally``."""
    return log_row(factor.off, entries, factor.rates, j)


def most_with(factor, entries, j):
    """Every P(x = 1) is at most one, so it is at most (1−λp)^{j·off}."""
    return float(j) * factor.off * factor.rates.log_idle


factor_of(RowTally, row_with, most_with)


@helper
def count_own_features(rng, E, has, Z, used, new_log_weight, capacity, theta, rates):
    """Draw for each node the number of features of its own, their y summed out: (N,).

    E has the codes of the shared features alone, and Z their bits; ``has`` is how many of its own
    each node has now, ``used`` how many features there are. None of a node's own touches another
    one, so the draws are independent but for a finite prior's room.
    """
    shared = Z.shape[1]
    own = np.zeros(E.shape[0], np.int64)
    counts = np.empty((4, 4 * (shared + 1)), np.int64)
    on = np.empty(shared + 1, np.int64)
    for i in range(E.shape[0]):
        counts[:] = 0
        tally(E[i], counts)
        off = 0
        on[:] = 0
        for a in range(4):
            for c in range(shared + 1):
                off += counts[a, 2 * c]
                on[c] += counts[a, 2 * c + 1]
        free = room_left(capacity, used - has[i])
        F = count_on(Z[i], shared) if theta is not None else 0
        new = NewFeatures(new_log_weight, free, F, ANY_NUMBER)
        own[i] = draw(rng, new, theta, RowTally(off, rates, off * rates.log_idle), on)
        used += own[i] - has[i]
    return own


@helper
def draw_own_states(rng, E, own, shared, rates):
    """Draw y of the nodes' own features given x, (Σ own, T): each with the later ones summed out.

    Where x = 0 they are independent, active with odds p(1−λ) : 1−p; where x was not observed,
    p : 1−p.
    """
    Y = np.zeros((own.sum(), E.shape[1]), np.uint8)
    p = rates.p
    silent = p * (1.0 - rates.lam) / (p * (1.0 - rates.lam) + 1.0 - p)
    first = 0
    for i in range(E.shape[0]):
        if own[i] == 0:
            continue
        for t in range(E.shape[1]):
            c = float(E[i, t] >> 1)
            for a in range(own[i]):
                if E[i, t] >= 2 * (shared + 1):
                    chance = p
                elif E[i, t] & 1:
                    later = own[i] - a - 1.0
                    active = p * chance_on(rates, c + 1.0, later)
                    idle = (1.0 - p) * chance_on(rates, c, later)
                    chance = active / (active + idle)
                else:
                    chance = silent
                if rng.random() < chance:
                    Y[first + a, t] = 1
                    c += 1.0
        first += own[i]
    return Y


@kernel
def renew_own_features(rng, X, seen, Z, Y, m, new_log_weight, capacity, theta, rates):
    """Draw anew the features that one node alone has: Z and Y, shared features first."""
    n, t = X.shape
    old = np.flatnonzero(m > 1)
    shared = old.shape[0]
    has = np.zeros(n, np.int64)
    Zs, Ys = np.empty((n, shared), np.uint8), np.empty((shared, t), np.uint8)
    for f in range(shared):
        put(Ys[f], Y[old[f]])
    for i in range(n):
        for f in range(shared):
            Zs[i, f] = Z[i, old[f]]
        for f in range(m.shape[0]):
            if m[f] == 1:
                has[i] += Z[i, f]
    E = codes(X, seen, Zs, Ys)
    own = count_own_features(rng, E, has, Zs, m.shape[0], new_log_weight, capacity, theta, rates)
    new = draw_own_states(rng, E, own, shared, rates)
    Z = np.zeros((n, shared + new.shape[0]), np.uint8)
    put_matrix(Z, Zs)
    first = shared
    for i in range(n):
        Z[i, first : first + own[i]] = 1
        first += own[i]
    return Z, np.concatenate((Ys, new))


@kernel
def sweep_bits_and_own(rng, X, seen, Z, Y, rates, prior, new_log_weight, capacity):
    """``sweep_bits``, then ``renew_own_features``: half the calls of a step on small data."""
    sweep_bits(rng, X, seen, Z, Y, rates, prior)
    m, theta = prior.m, prior.theta
    return renew_own_features(rng, X, seen, Z, Y, m, new_log_weight, capacity, theta, rates)
