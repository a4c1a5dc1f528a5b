r"""Least-squares bits: for each row the z that lowers ‖x − zA‖² by single flips, A fixed.

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
