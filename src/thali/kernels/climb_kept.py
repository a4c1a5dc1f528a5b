r"""Changes of Z and binary parameters Y that raise P(X, Y, [Z]), where x depends on z·y alone.

Given all other rows of Y, the entries of row f are independent, and y_ft is at its best where

    s_t = log P(y=1)/P(y=0) + Σ_{i: z_if = 1} [log P(x_it | c_it + 1) − log P(x_it | c_it)] > 0,

c counting the others. So a bit z_if is tried with all y_f at their best before and after:
Σ_t max(0, s_t) changes as node i enters or leaves the sum, and the prior with the count and the
equal columns. ``best_states`` is the best Y given Z, by looking at all 2^K settings of a column.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.search_kept import count_bits


@helper
def equal_to(Z, f, i):
    """How many other columns equal column f, its bit i turned (no bit for i < 0)."""
    count = 0
    for g in range(Z.shape[1]):
        if g == f:
            continue
        equal = True
        for a in range(Z.shape[0]):
            bit = 1 - Z[a, f] if a == i else Z[a, f]
            if Z[a, g] != bit:
                equal = False
                break
        count += equal
    return count


@helper
def prior_change(Z, m, f, i, potential, each, free):
    """What log P([Z]), and ``each`` for every feature, change by as z_if turns.

    A feature that no row has is none. ``free`` more may be opened, −1 for any number.
    """
    after = m - 1 if Z[i, f] else m + 1
    change = potential[after] - potential[m]
    if m > 0:
        change += np.log(equal_to(Z, f, -1) + 1.0)
    else:
        change += each + (np.log(float(free)) if free >= 0 else 0.0)
    if after > 0:
        change -= np.log(equal_to(Z, f, i) + 1.0)
    else:
        change -= each + (np.log(free + 1.0) if free >= 0 else 0.0)
    return change


@kernel
def climb(X, Z, Y, table, on, off, potential, capacity):
    """One pass over all features, each with its bits and y; Z and Y change in place.

    A column may be left empty, and is filled again only if that is better. Returns what was gained.
    """
    n, k = Z.shape
    t = X.shape[1]
    C = np.zeros((n, t), np.int64)
    for i in range(n):
        for f in range(k):
            if Z[i, f]:
                for j in range(t):
                    C[i, j] += Y[f, j]
    sums = np.zeros(k, np.int64)
    for f in range(k):
        for i in range(n):
            sums[f] += Z[i, f]
    total = 0.0
    s = np.empty(t)
    for f in range(k):
        if sums[f] == 0:
            continue
        s[:] = on - off
        before = 0.0
        for i in range(n):
            if Z[i, f]:
                for j in range(t):
                    C[i, j] -= Y[f, j]
                    s[j] += table[C[i, j] + 1, X[i, j]] - table[C[i, j], X[i, j]]
        best = 0.0
        for j in range(t):
            before += s[j] * Y[f, j]
            best += max(0.0, s[j])
        total += best - before
        for i in range(n):
            sign = -1.0 if Z[i, f] else 1.0
            value = 0.0
            for j in range(t):
                gain = table[C[i, j] + 1, X[i, j]] - table[C[i, j], X[i, j]]
                value += max(0.0, s[j] + sign * gain)
            if sums[f] == 1 and Z[i, f]:
                value = 0.0  # there is no feature any more
            free = -1
            if capacity >= 0:
                free = capacity - (sums > 0).sum()
            if sums[f] == 0 and free == 0:
                continue
            change = prior_change(Z, sums[f], f, i, potential, t * off, free)
            if value - best + change > 1e-9:
                total += value - best + change
                best = value
                for j in range(t):
                    s[j] += sign * (table[C[i, j] + 1, X[i, j]] - table[C[i, j], X[i, j]])
                Z[i, f] = 1 - Z[i, f]
                sums[f] += 1 if Z[i, f] else -1
        for j in range(t):
            Y[f, j] = 1 if s[j] > 0.0 else 0
        for i in range(n):
            if Z[i, f]:
                for j in range(t):
                    C[i, j] += Y[f, j]
    return total


@kernel
def best_states(X, Z, table, on, off):
    """The Y (K×T) of highest P(X, Y | Z), all 2^K settings of each column looked at."""
    n, k = Z.shape
    rows = np.zeros(n, np.int64)
    for i in range(n):
        for f in range(k):
            rows[i] |= np.int64(Z[i, f]) << f
    counts = np.empty((1 << k, n), np.int64)
    prior = np.empty(1 << k)
    for y in range(1 << k):
        a = count_bits(y)
        prior[y] = a * on + (k - a) * off
        for i in range(n):
            counts[y, i] = count_bits(rows[i] & y)
    Y = np.zeros((k, X.shape[1]), np.uint8)
    for j in range(X.shape[1]):
        best = -np.inf
        which = 0
        for y in range(1 << k):
            value = prior[y]
            for i in range(n):
                value += table[counts[y, i], X[i, j]]
                if value <= best:
                    break
            if value > best:
                best = value
                which = y
        for f in range(k):
            Y[f, j] = (which >> f) & 1
    return Y
