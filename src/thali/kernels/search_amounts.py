r"""Amounts of one row at their best, A integrated out: X = (Z ⊙ S) A + E.

Given all other rows, with W = Z ⊙ S, M = (WᵀW + rI)⁻¹, μ = M WᵀX, G = μμᵀ and b = μ x,

    F(s) = −D/2 log V − ρ/2σ_x²V + Σ_{z_k = 1} log p(s_k)
    V = 1 + s M sᵀ,   ρ = ‖x‖² − 2 s·b + s G sᵀ

and a feature that no other row has is one of M = 1/r, G = b = 0. Along one s_k, V and ρ are
parabolas: F is looked at on a grid, finer near zero, and then by golden sections around its best;
one entry after the other, until none gains. It ends where no change of one entry is for the better,
which need not be the highest of all: it is tried from zero and from the ridge regression of x.
"""

import numpy as np

from thali.kernels.climb_kept import prior_change
from thali.kernels.compiling import helper, kernel

HALF = np.array([0.05, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0, 9.0, 14.0, 22.0])
GRID = np.concatenate([-HALF[::-1], np.zeros(1), HALF])
GOLDEN = 0.6180339887498949
CLOSE = 1e-7  # of s
ROUNDS = 200
LOG_2 = np.log(2.0)
HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@helper
def log_slab(s, laplace):
    return -abs(s) - LOG_2 if laplace else -0.5 * s * s - HALF_LOG_2PI


@helper
def along(s, v, p, dimensions, variance, laplace):
    """F of one entry, the others held: V = v_0 + v_1 s + v_2 s², and ρ likewise."""
    V = max(v[0] + s * (v[1] + s * v[2]), 1e-300)
    rho = max(p[0] + s * (p[1] + s * p[2]), 0.0)
    fit = -0.5 * dimensions * np.log(V) - 0.5 * rho / (variance * V)
    return fit + log_slab(s, laplace)


@helper
def best_entry(now, v, p, dimensions, variance, laplace):
    """The best s of one entry; ``now`` where none is better."""
    last = GRID.shape[0] - 1
    best = now
    value = along(now, v, p, dimensions, variance, laplace)
    width = 0.2 + 0.2 * abs(now)
    low = now - width
    high = now + width
    for a in range(last + 1):
        here = along(GRID[a], v, p, dimensions, variance, laplace)
        if here > value:
            value = here
            best = GRID[a]
            low = GRID[a - 1] if a > 0 else 3.0 * best
            high = GRID[a + 1] if a < last else 3.0 * best
    x = high - GOLDEN * (high - low)
    y = low + GOLDEN * (high - low)
    of_x = along(x, v, p, dimensions, variance, laplace)
    of_y = along(y, v, p, dimensions, variance, laplace)
    while high - low > CLOSE * (1.0 + abs(best)):
        if of_x > of_y:
            high, y, of_y = y, x, of_x
            x = high - GOLDEN * (high - low)
            of_x = along(x, v, p, dimensions, variance, laplace)
        else:
            low, x, of_x = x, y, of_y
            y = low + GOLDEN * (high - low)
            of_y = along(y, v, p, dimensions, variance, laplace)
    middle = 0.5 * (low + high)
    here = along(middle, v, p, dimensions, variance, laplace)
    return middle if here > value else best


@helper
def settle(M, G, b, x2, z, s, dimensions, variance, laplace):
    """s of the features in z at its best from s on, in place; returns F."""
    k = z.shape[0]
    v = np.empty(3)
    p = np.empty(3)
    last = -np.inf
    value = -np.inf
    for turn in range(ROUNDS + 1):
        slab = 0.0
        for i in range(k):
            if z[i]:
                slab += log_slab(s[i], laplace)
        for i in range(-1, k):
            if i >= 0 and not z[i]:
                continue
            v[:] = 0.0
            p[:] = 0.0
            v[0] = 1.0
            p[0] = x2
            for j in range(k):
                if j == i or not z[j]:
                    continue
                p[0] -= 2.0 * s[j] * b[j]
                for h in range(k):
                    if h != i and z[h]:
                        v[0] += s[j] * M[j, h] * s[h]
                        p[0] += s[j] * G[j, h] * s[h]
                if i >= 0:
                    v[1] += 2.0 * M[i, j] * s[j]
                    p[1] += 2.0 * G[i, j] * s[j]
            if i < 0:  # what it all comes to before this round
                value = -0.5 * dimensions * np.log(max(v[0], 1e-300))
                value += slab - 0.5 * max(p[0], 0.0) / (variance * max(v[0], 1e-300))
                if turn == ROUNDS or value < last + 1e-10 * (1.0 + abs(value)):
                    return value
                last = value
                continue
            v[2] = M[i, i]
            p[1] -= 2.0 * b[i]
            p[2] = G[i, i]
            s[i] = best_entry(s[i], v, p, dimensions, variance, laplace)
    return value


@helper
def best_row(M, G, b, x2, z, s, dimensions, variance, laplace):
    """``settle`` from s on, and from the ridge regression; s is left at the better end."""
    k = z.shape[0]
    for i in range(k):
        if not z[i]:
            s[i] = 0.0
    best = settle(M, G, b, x2, z, s, dimensions, variance, laplace)
    used = np.flatnonzero(z)
    if used.shape[0] < 2:
        return best
    own = np.empty((used.shape[0], used.shape[0]))
    right = np.empty(used.shape[0])
    for i in range(used.shape[0]):
        right[i] = b[used[i]]
        for j in range(used.shape[0]):
            own[i, j] = G[used[i], used[j]]
        own[i, i] += variance
    other = np.zeros(k)
    other[used] = np.linalg.solve(own, right)
    value = settle(M, G, b, x2, z, other, dimensions, variance, laplace)
    if value > best:
        best = value
        s[:] = other
    return best


@helper
def of_others(C, T, r, x):
    """M, G and b."""
    k = C.shape[0]
    M = np.linalg.inv(C + r * np.eye(k))
    mu = M @ T
    return M, mu @ mu.T, mu @ x


@kernel
def worth_of_rows(C, T, x, bits, new, r, dimensions, variance, laplace):
    """F of rows with these bits and numbers of new features, and their amounts, those of the first
    new one among them: of several in one row alone, one has it all."""
    k = C.shape[0]
    more = np.zeros((k + 1, k + 1))
    more[:k, :k] = C
    T_more = np.zeros((k + 1, x.shape[0]))
    T_more[:k] = T
    M, G, b = of_others(more, T_more, r, x)
    found = np.empty(bits.shape[0])
    amounts = np.zeros((bits.shape[0], k + 1))
    z = np.zeros(k + 1, np.uint8)
    x2 = (x * x).sum()
    for row in range(bits.shape[0]):
        for i in range(k):
            z[i] = bits[row, i]
        z[k] = new[row] > 0
        s = amounts[row]
        s[k] = 0.5 * z[k]
        found[row] = best_row(M, G, b, x2, z, s, dimensions, variance, laplace)
        if new[row] > 1:
            found[row] += (new[row] - 1) * log_slab(0.0, laplace)
    return found, amounts


@helper
def put_row(C, T, x, s, sign):
    """Add a row to C = WᵀW and T = WᵀX, or take it out."""
    for i in range(s.shape[0]):
        if s[i] != 0.0:
            for j in range(s.shape[0]):
                C[i, j] += sign * s[i] * s[j]
            for c in range(x.shape[0]):
                T[i, c] += sign * s[i] * x[c]


@kernel
def settle_rows(X, Z, S, C, T, rows, r, dimensions, variance, laplace):
    """The amounts of some rows at their best, one after the other, in place."""
    for n in rows:
        put_row(C, T, X[n], S[n], -1.0)
        M, G, b = of_others(C, T, r, X[n])
        x2 = (X[n] * X[n]).sum()
        best_row(M, G, b, x2, Z[n], S[n], dimensions, variance, laplace)
        put_row(C, T, X[n], S[n], 1.0)


@kernel
def climb(X, Z, S, rows, potential, capacity, r, dimensions, variance, laplace):
    """Turn bits of rows while that is better, amounts at their best; Z and S change in place.

    Columns may be left empty; of those that are, one at a time is tried. Returns what was gained.
    """
    k = Z.shape[1]
    C = S.T @ S
    T = S.T @ X
    sums = np.zeros(k, np.int64)
    for f in range(k):
        for n in range(Z.shape[0]):
            sums[f] += Z[n, f]
    total = 0.0
    trial = np.empty(k)
    for n in rows:
        put_row(C, T, X[n], S[n], -1.0)
        M, G, b = of_others(C, T, r, X[n])
        x2 = (X[n] * X[n]).sum()
        trial[:] = S[n]
        now = 0.0
        for f in range(k):
            if Z[n, f]:
                now += log_slab(S[n, f], laplace)
        V = 1.0 + max(S[n] @ M @ S[n], 0.0)
        rho = max(x2 - 2.0 * (S[n] @ b) + S[n] @ G @ S[n], 0.0)
        now += -0.5 * dimensions * np.log(V) - 0.5 * rho / (variance * V)
        value = best_row(M, G, b, x2, Z[n], trial, dimensions, variance, laplace)
        if value > now:
            total += value - now
            now = value
            S[n] = trial
        better = True
        while better:
            better = False
            empty = False
            for f in range(k):
                if sums[f] == 0:
                    if empty:
                        continue
                    empty = True
                free = -1
                if capacity >= 0:
                    free = capacity - (sums > 0).sum()
                    if sums[f] == 0 and free == 0:
                        continue
                change = prior_change(Z, sums[f], f, n, potential, 0.0, free)
                Z[n, f] = 1 - Z[n, f]
                trial[:] = S[n]
                trial[f] = 0.5 * Z[n, f]
                value = best_row(M, G, b, x2, Z[n], trial, dimensions, variance, laplace)
                if value - now + change > 1e-8:
                    total += value - now + change
                    now = value
                    S[n] = trial
                    sums[f] += 1 if Z[n, f] else -1
                    better = True
                else:
                    Z[n, f] = 1 - Z[n, f]
        put_row(C, T, X[n], S[n], 1.0)
    return total
