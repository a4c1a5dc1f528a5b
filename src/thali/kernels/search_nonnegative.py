r"""Nonnegative features at their best: for rows that may follow, and for changes of bits.

    V(Z) = max_{A ≥ 0} −‖X − ZA‖² − r‖A‖² − 2 pull ΣA

with the ridge and the pull of the prior, r = σ_x²/σ_a² or pull = λσ_x² and r = 0. With C = ZᵀZ and
T = ZᵀX − pull this is −‖X‖² + max 2⟨T, A⟩ − ⟨A, (C + rI)A⟩, concave, so that setting one entry
after the other to its best, a_kd = max(0, (T_kd − Σ_{j≠k} C_kj a_jd)/(C_kk + r)), leads to the
maximum. It is at most ‖h‖²/r above a place with the slope 2h towards A ≥ 0, which says when to
stop. Without a ridge no a is above u = max(0, T_kd)/C_kk where it is best, as C and A have no
negative entries, and the maximum is at most Σ 2h(u − a) for h > 0 and −2ha else above that place.
Of j features that one row alone has only the sum s counts, with r‖s‖²/j: one column with a ridge of
its own.

A bit of feature f is tried with all of a_f at its best before and after: with e_i the residuals
without f and s = Σ_{i has f} e_i it is worth ‖max(0, s − pull)‖²/(m + r).
"""

import numpy as np

from thali.kernels.climb_kept import prior_change
from thali.kernels.compiling import helper, kernel

SWEEPS = 20_000
EVERY = 4  # sweeps between two looks at the slope
DIGITS = 4e-16


@helper
def slope(C, T, A, ridge):
    """What V is below its maximum at most."""
    total = 0.0
    for k in range(A.shape[0]):
        for c in range(A.shape[1]):
            h = T[k, c] - ridge[k] * A[k, c]
            for j in range(A.shape[0]):
                h -= C[k, j] * A[j, c]
            if ridge[k] == 0.0:
                total += 2.0 * h * ((max(0.0, T[k, c]) / C[k, k] if h > 0.0 else 0.0) - A[k, c])
            elif A[k, c] > 0.0 or h > 0.0:
                total += h * h / ridge[k]
    return total


@helper
def settle(C, T, A, ridge, close):
    """A at its best, in place; returns 2⟨T, A⟩ − ⟨A, (C + ridge)A⟩.

    It ends too where a sweep changes no more than the last digits of A.
    """
    k, d = A.shape
    for sweep in range(SWEEPS):
        moved = 0.0
        for f in range(k):
            whole = C[f, f] + ridge[f]
            for c in range(d):
                left = T[f, c]
                for j in range(k):
                    if j != f:
                        left -= C[f, j] * A[j, c]
                new = max(0.0, left / whole) if whole > 0.0 else 0.0
                moved = max(moved, abs(new - A[f, c]) - DIGITS * new)
                A[f, c] = new
        if moved <= 0.0 or (sweep % EVERY == 0 and slope(C, T, A, ridge) < close):
            break
    value = 0.0
    for f in range(k):
        for c in range(d):
            left = 2.0 * T[f, c] - ridge[f] * A[f, c]
            for j in range(k):
                left -= C[f, j] * A[j, c]
            value += A[f, c] * left
    return value


@kernel
def best_features(C, T, A, r, pull, close):
    """``settle`` with one ridge; T is ZᵀX."""
    ridge = np.full(A.shape[0], r)
    return settle(C, T - pull, A, ridge, close)


@kernel
def worth_of_rows(C, T, A, x, bits, new, r, pull, close):
    """2⟨T − pull, A⟩ − ⟨A, (C + rI)A⟩ at its best with each row, which opens ``new`` features,
    added; T is ZᵀX."""
    k, d = A.shape
    found = np.empty(bits.shape[0])
    for row in range(bits.shape[0]):
        size = k + (new[row] > 0)
        own_C = np.zeros((size, size))
        own_T = np.zeros((size, d))
        own_A = np.zeros((size, d))
        ridge = np.full(size, r)
        for i in range(k):
            for j in range(k):
                own_C[i, j] = C[i, j] + bits[row, i] * bits[row, j]
            for c in range(d):
                own_T[i, c] = T[i, c] + bits[row, i] * x[c] - pull
                own_A[i, c] = A[i, c]
        if new[row] > 0:
            own_C[k, k] = 1.0
            ridge[k] = r / new[row]
            for i in range(k):
                own_C[k, i] = own_C[i, k] = bits[row, i]
            own_T[k] = x - pull
        found[row] = settle(own_C, own_T, own_A, ridge, close)
    return found


@kernel
def climb(X, Z, A, potential, each, capacity, variance, r, pull):
    """One pass over all features, each with its bits and its own a; Z and A change in place.

    A column may be left empty, and is filled again only if that is better. Returns what was gained.
    """
    n, d = X.shape
    k = Z.shape[1]
    E = X.copy()
    sums = np.zeros(k, np.int64)
    for i in range(n):
        for f in range(k):
            if Z[i, f]:
                sums[f] += 1
                for c in range(d):
                    E[i, c] -= A[f, c]
    total = 0.0
    s = np.empty(d)
    for f in range(k):
        if sums[f] == 0:
            continue
        s[:] = 0.0
        for i in range(n):
            if Z[i, f]:
                for c in range(d):
                    E[i, c] += A[f, c]
                    s[c] += E[i, c]
        before = best = 0.0
        for c in range(d):
            s[c] -= pull
            before += A[f, c] * (2.0 * s[c] - (sums[f] + r) * A[f, c])
            best += max(0.0, s[c]) ** 2
        best /= 2.0 * variance * (sums[f] + r)
        total += best - before / (2.0 * variance)
        for i in range(n):
            sign = -1 if Z[i, f] else 1
            after = sums[f] + sign
            value = 0.0
            if after > 0:
                for c in range(d):
                    value += max(0.0, s[c] + sign * E[i, c]) ** 2
                value /= 2.0 * variance * (after + r)
            free = -1
            if capacity >= 0:
                free = capacity - (sums > 0).sum()
            if sums[f] == 0 and free == 0:
                continue
            change = prior_change(Z, sums[f], f, i, potential, each, free)
            if value - best + change > 1e-9:
                total += value - best + change
                best = value
                for c in range(d):
                    s[c] += sign * E[i, c]
                Z[i, f] = 1 - Z[i, f]
                sums[f] = after
        for c in range(d):
            A[f, c] = max(0.0, s[c]) / (sums[f] + r) if sums[f] > 0 else 0.0
        for i in range(n):
            if Z[i, f]:
                for c in range(d):
                    E[i, c] -= A[f, c]
    return total
