r"""Bits of rows given features, by single flips: z that lowers ‖x − zA‖², or suits binary Y.

With P = XAᵀ and Q = AAᵀ a flip of bit k changes the residual by δ(δQ_kk + 2(zQ)_k − 2P_k), so a
row's K bits touch no D at all.
"""

import numpy as np

from thali.kernels.compiling import kernel


@kernel
def flip_rows(Z, P, Q, penalty):
    """Flip bits of Z in place until no single flip pays; a set bit costs ``penalty[k]`` more.

    Returns the number of flips made.
    """
    n, k = Z.shape
    flips = 0
    zq = np.zeros(k)
    for i in range(n):
        for j in range(k):
            zq[j] = 0.0
        for a in range(k):
            if Z[i, a]:
                for j in range(k):
                    zq[j] += Q[a, j]
        for _ in range(4 * k + 4):  # each flip lowers the residual, so this ends; a guard for ties
            best = -1e-12
            which = -1
            for j in range(k):
                sign = -1.0 if Z[i, j] else 1.0
                change = sign * (2.0 * zq[j] - 2.0 * P[i, j] + penalty[j]) + Q[j, j]
                if change < best:
                    best = change
                    which = j
            if which < 0:
                break
            sign = -1.0 if Z[i, which] else 1.0
            Z[i, which] = 1 - Z[i, which]
            for j in range(k):
                zq[j] += sign * Q[which, j]
            flips += 1
    return flips


@kernel
def flip_kept_rows(Z, X, Y, table, log_odds):
    """The same for binary X and parameters Y, where x depends on the count c of active features:
    flip bits of Z until no flip raises Σ_t table[c_t, x_t] plus the log odds of the bits that are
    on. ``table`` has counts up to K."""
    n, k = Z.shape
    c = np.zeros(X.shape[1], np.int64)
    for i in range(n):
        c[:] = 0
        for a in range(k):
            if Z[i, a]:
                for t in range(len(c)):
                    c[t] += Y[a, t]
        for _ in range(4 * k + 4):
            best, which = 1e-12, -1
            for a in range(k):
                by = -1 if Z[i, a] else 1
                gain = by * log_odds[a]
                for t in range(len(c)):
                    if Y[a, t]:
                        gain += table[c[t] + by, X[i, t]] - table[c[t], X[i, t]]
                if gain > best:
                    best, which = gain, a
            if which < 0:
                break
            by = -1 if Z[i, which] else 1
            Z[i, which] = 1 - Z[i, which]
            for t in range(len(c)):
                c[t] += by * Y[which, t]
