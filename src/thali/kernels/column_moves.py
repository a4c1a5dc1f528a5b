r"""Metropolis–Hastings moves on whole columns, A integrated out.

A row-wise sampler seldom leaves a mode in which features are split, fused or doubled. These moves
change one to three columns at once, or one column and how its rows are coded without it. Over
matrices with K labeled columns, none empty, the target is

    π(Z) ∝ P(X | Z) · c_K / K! · ∏_k e^{λ_{m_k}} · ∏_n e^{θ_{F_n}},   c_K = 1 or K_max!/(K_max − K)!

the class's posterior shared evenly by its labelings: K!/∏_h K_h! of them, so the K_h! of
P([Z]) cancel and equal columns need no counting. One that is born takes one of K + 1 positions,
and one of K + 1 columns dies, so that only the 1/(K + 1) of π is left of all multiplicities.
(Even labels let each move take its column to the last position, and ``shuffle`` restores them.)

    turn       e ← e ⊕ d for one or two e; its own inverse, so the proposal is symmetric
    drop       turn none, one or two by d, then d dies;  inverse: d from the prior of one
               column.  With disjoint p, q, d it is the map (p, q, d) → (p ∪ d, q ∪ d)
    dissolve   d dies and each of its rows is coded anew by at most two flips, drawn by how well
               the others' features fit it;  inverse: d from that prior, flips from an urn
    residue    d is born around what a row's features leave unexplained;  inverse: d dies

Every attempt needs C = ZᵀZ and T = ZᵀX of the changed columns, then K³/6 + K²D/2 multiply-adds.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.column_proposals import code_anew, flips_from_urn, residue_column
from thali.kernels.compiling import helper, kernel
from thali.kernels.copying import put, put_matrix
from thali.kernels.maintained_rows import FAST, clear_feature, flip, grow, swap_features
from thali.kernels.new_features import is_full
from thali.kernels.row_potentials import count_on, sum_of_rows

TURN, DROP, DISSOLVE, RESIDUE = 0, 1, 2, 3
SHARES = np.array([0.4, 0.2, 0.2, 0.2])  # of the four kinds among the attempts
BIRTHS = (0.0, 0.1, 0.1, 0.5)  # of each kind, the share of attempts that add a column


class ColumnPrior(NamedTuple):
    """The prior of whole columns, as these moves read it."""

    potential: np.ndarray  # λ_m for m = 0 … N (λ_0 is not used)
    sums: np.ndarray  # cumulative weights C(N, m) e^{λ_m} of m = 1 … N, in some unit
    log_mass: float  # log Σ_m C(N, m) e^{λ_m}
    capacity: int
    theta: np.ndarray | None  # θ_0, θ_1, …; None where θ = 0


@helper(fastmath=FAST)
def log_evidence(C, T, k, scales):
    """log P(X | Z) but for what all Z have in common, from C = ZᵀZ and T = ZᵀX.

    K D log(σ_x/σ_a) − D/2 log|C + rI| + ‖L⁻¹T‖² / 2σ_x²,  C + rI = L Lᵀ
    """
    r = (scales.sigma_x / scales.sigma_a) ** 2
    d = T.shape[1]
    L = np.empty((k, k))
    Y = np.empty((k, d))
    log_det = explained = 0.0
    for i in range(k):
        put(Y[i], T[i])
        for j in range(i):
            total = C[i, j]
            for h in range(j):
                total -= L[i, h] * L[j, h]
            a = total / L[j, j]
            L[i, j] = a
            for c in range(d):
                Y[i, c] -= a * Y[j, c]
        total = C[i, i] + r
        for h in range(i):
            total -= L[i, h] * L[i, h]
        if not total > 0.0:
            return -np.inf
        log_det += np.log(total)
        root = np.sqrt(total)
        L[i, i] = root
        for c in range(d):
            Y[i, c] /= root
            explained += Y[i, c] * Y[i, c]
    return (
        k * scales.dimensions * np.log(scales.sigma_x / scales.sigma_a)
        - 0.5 * scales.dimensions * log_det
        + 0.5 * explained / (scales.sigma_x * scales.sigma_x)
    )


@helper
def draw_column(rng, prior, v):
    """Fill v from the prior of one column, e^{λ_m} over its mass; returns its log density."""
    n = v.shape[0]
    u = rng.random() * prior.sums[n - 1]
    left = 1
    while left < n and prior.sums[left - 1] <= u:
        left += 1
    log_density = prior.potential[left] - prior.log_mass
    for i in range(n):  # selection sampling: every subset of m rows is as likely as any other
        v[i] = 0
        if rng.random() * (n - i) < left:
            v[i] = 1
            left -= 1
    return log_density


@helper
def add_column(X, rows, k, v):
    """Append column v as number k to Z, m, C and T, for which there is room."""
    clear_feature(rows, k)  # M and G are made afresh by the next sweep
    t = rows.T[k]
    for n in range(X.shape[0]):
        z = rows.Z[n]
        z[k] = v[n]
        if v[n]:
            for j in range(k + 1):
                rows.C[k, j] += z[j]
            for c in range(X.shape[1]):
                t[c] += X[n, c]
    rows.m[k] = rows.C[k, k]
    for j in range(k + 1):
        rows.C[j, k] = rows.C[k, j]


@helper
def turn(X, rows, k, e, d):
    """Replace column e by e ⊕ d = e + d − 2 e∘d in Z, m, C and T."""
    both = np.zeros(k)
    shared = np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        z = rows.Z[n]
        if z[d]:
            if z[e]:
                for j in range(k):
                    both[j] += z[j]
                for c in range(X.shape[1]):
                    shared[c] += X[n, c]
            z[e] = 1 - z[e]
    m = rows.m[e] + rows.m[d] - 2.0 * both[e]
    for j in range(k):
        rows.C[e, j] += rows.C[d, j] - 2.0 * both[j]
    rows.C[e, e] = m
    for j in range(k):
        rows.C[j, e] = rows.C[e, j]
    rows.m[e] = m
    for c in range(X.shape[1]):
        rows.T[e, c] += rows.T[d, c] - 2.0 * shared[c]


@helper
def sum_again(X, rows, e):
    """T of column e from its rows: turns add sums to sums, and with them their errors, which would
    otherwise grow like Fibonacci's numbers."""
    t = rows.T[e]
    for c in range(X.shape[1]):
        t[c] = 0.0
    for n in range(X.shape[0]):
        if rows.Z[n, e]:
            for c in range(X.shape[1]):
                t[c] += X[n, c]


@helper
def flip_members(X, rows, k, d, flips):
    """Make the flips of the rows that have d, in Z, C, T and m."""
    for n in range(X.shape[0]):
        if rows.Z[n, d]:
            for side in range(2):
                if flips[n, side] >= 0:
                    flip(rows, n, X[n], k, flips[n, side])
    for j in range(k):
        rows.m[j] = rows.C[j, j]


@helper
def undo(rows, d, first, second, recoded, flips):
    """The bits of Z as they were before turns and flips."""
    for n in range(rows.Z.shape[0]):
        z = rows.Z[n]
        if z[d]:
            if first >= 0:
                z[first] = 1 - z[first]
            if second >= 0:
                z[second] = 1 - z[second]
            if recoded:
                for side in range(2):
                    if flips[n, side] >= 0:
                        z[flips[n, side]] = 1 - z[flips[n, side]]


@helper
def pick_member(rng, Z, d, m):
    """A random one of the m rows that have d."""
    left = int(rng.random() * m)
    for n in range(Z.shape[0]):
        if Z[n, d]:
            if left == 0:
                return n
            left -= 1
    return -1


@helper
def log_prior(prior, rows, k):
    """Σ_k λ_{m_k} + Σ_n θ_{F_n} of the first k columns, or −∞ where a column is empty."""
    total = 0.0
    for j in range(k):
        if rows.m[j] == 0.0:
            return -np.inf
        total += prior.potential[int(rows.m[j])]
    if prior.theta is not None:
        total += sum_of_rows(prior.theta, rows.Z, k)
    return total


@kernel
def column_moves(rng, X, rows, k, prior, scales, attempts, shares):
    """A number of attempts; returns the arrays, K, and how many of each kind were taken.

    C and T are right afterwards, M and G are not. (One long function: what a kernel calls is
    compiled once more within it, and its callers.)
    """
    n_rows = X.shape[0]
    taken = np.zeros(4, np.int64)
    v = np.zeros(n_rows, np.uint8)
    flips = np.zeros((n_rows, 2), np.int64)
    now = log_evidence(rows.C, rows.T, k, scales)
    for _ in range(attempts):
        u = rng.random() - shares[TURN]
        kind = TURN
        while u >= 0.0 and kind < RESIDUE:
            kind += 1
            u -= shares[kind]
        born = rng.random() < BIRTHS[kind]
        if not born and k == 0:
            continue
        if born and is_full(prior.capacity, k):
            continue
        if k + 1 > rows.m.shape[0]:
            rows = grow(rows, k + 1)

        # the column that the move is about comes last, made new if it is born; log_q is the log of
        # [probability to undo ÷ probability to do] of all that was chosen
        before = log_prior(prior, rows, k)
        log_q = 0.0
        if born and kind == RESIDUE:
            seed = int(rng.random() * n_rows)
            log_q -= residue_column(rng, X, rows, k, scales, seed, v, born)
            log_q += np.log(n_rows / count_on(v, n_rows))  # one of N, and one of m on the way back
        elif born:
            log_q -= draw_column(rng, prior, v)
        else:
            swap_features(rows, k, int(rng.random() * k), k - 1)
            if kind in (DROP, DISSOLVE):
                log_q += prior.potential[int(rows.m[k - 1])] - prior.log_mass
        if born:
            add_column(X, rows, k, v)
        whole = k + 1 if born else k
        after = k if kind == TURN else (k + 1 if born else k - 1)
        d = whole - 1

        # what becomes of the other columns and, if it dies, of its rows
        C, T, m = rows.C[:whole, :whole].copy(), rows.T[:whole].copy(), rows.m[:whole].copy()
        first = second = -1
        possible = True
        if kind in (TURN, DROP):
            partners = 1 + int(2.0 * rng.random()) if kind == TURN else int(3.0 * rng.random())
            possible = partners <= d
            if possible and partners > 0:
                first = int(rng.random() * d)
                turn(X, rows, whole, first, d)
            if possible and partners > 1:
                second = int(rng.random() * (d - 1))
                second += second >= first
                turn(X, rows, whole, second, d)
        elif kind == DISSOLVE:  # dying, new codes follow their fit and the way back is the urn's
            if born:
                log_q -= flips_from_urn(rng, rows.Z, d, flips, born)
                flip_members(X, rows, whole, d, flips)
            change = code_anew(rng, X, rows, whole, scales, flips, not born)
            log_q += change if born else -change
            if not born:
                flip_members(X, rows, whole, d, flips)
                log_q += flips_from_urn(rng, rows.Z, d, flips, born)
        elif not born:
            seed = pick_member(rng, rows.Z, d, rows.m[d])
            for n in range(n_rows):
                v[n] = rows.Z[n, d]
            log_q += residue_column(rng, X, rows, d, scales, seed, v, born)
            log_q -= np.log(X.shape[0] / rows.m[d])

        log_ratio = log_prior(prior, rows, after) - before + log_q if possible else -np.inf
        if kind != TURN:
            free = 1.0 if prior.capacity < 0 else float(prior.capacity - d)
            odds = np.log(free / whole * (1.0 - BIRTHS[kind]) / BIRTHS[kind])
            log_ratio += odds if born else -odds
        there = now
        if log_ratio > -np.inf:
            there = log_evidence(rows.C, rows.T, after, scales)
            log_ratio += there - now
        gone = born
        if np.log(1.0 - rng.random()) < log_ratio:
            if first >= 0:
                sum_again(X, rows, first)
            if second >= 0:
                sum_again(X, rows, second)
            gone = after < whole
            k, now = after, there
            taken[kind] += 1
        else:
            undo(rows, d, first, second, kind == DISSOLVE, flips)
            put_matrix(rows.C, C)
            put_matrix(rows.T, T)
            put(rows.m, m)
        if gone:
            for n in range(n_rows):
                rows.Z[n, d] = 0
    for i in range(k - 1, 0, -1):  # a random order, which tells nothing of how columns came to be
        swap_features(rows, k, i, int(rng.random() * (i + 1)))
    return rows, k, taken
