r"""A column of Z that is not there yet, grown around what the others leave unexplained.

With E = (I − ZMZᵀ)X and M = (ZᵀZ + rI)⁻¹, a column v beside Z changes log P(X, [Z]) by

    −D/2 log(s/r) + ‖w‖²/(2σ_x² s) + λ_m,     s = r + m − vᵀZMZᵀv,  w = vᵀE,  m = Σ v

(two columns that are equal apart). Rows are put in the order in which they go along with some
direction a, and the best of the columns {1}, {1, 2}, … of that order taken; its own w is the next
direction, until that gains nothing: O(N(D + K²)) a turn, and all the changes are exact.
"""

import numpy as np

from thali.kernels.compiling import kernel

TURNS = 5


@kernel
def grow_columns(E, Z, M, potential, scales, seeds):
    """The best column from each row among ``seeds``, whose E is the first direction, and what it
    changes the log joint by."""
    n, d = E.shape
    k = M.shape[0]
    variance = scales.sigma_x * scales.sigma_x
    r = variance / (scales.sigma_a * scales.sigma_a)
    found = np.zeros((seeds.shape[0], n), np.uint8)
    gains = np.full(seeds.shape[0], -np.inf)
    along = np.empty(n)
    a = np.empty(d)
    w = np.empty(d)
    u = np.empty(k)  # MZᵀv
    for which in range(seeds.shape[0]):
        for c in range(d):
            a[c] = E[seeds[which], c]
        for _ in range(TURNS):
            for i in range(n):
                along[i] = 0.0
                for c in range(d):
                    along[i] -= E[i, c] * a[c]
            order = np.argsort(along)
            w[:] = 0.0
            u[:] = 0.0
            spread = 0.0  # vᵀZMZᵀv
            best = -np.inf
            most = 0
            for m in range(1, n + 1):
                i = order[m - 1]
                for j in range(k):
                    if Z[i, j]:
                        spread += 2.0 * u[j] + M[j, j]
                        for h in range(k):
                            u[h] += M[j, h]
                length = 0.0
                for c in range(d):
                    w[c] += E[i, c]
                    length += w[c] * w[c]
                s = r + m - spread
                if not s > 0.0:
                    continue
                gain = potential[m] - 0.5 * scales.dimensions * np.log(s / r)
                gain += 0.5 * length / (variance * s)
                if gain > best:
                    best = gain
                    most = m
            if not best > gains[which] + 1e-9:
                break
            gains[which] = best
            found[which] = 0
            a[:] = 0.0
            for m in range(most):
                found[which, order[m]] = 1
                for c in range(d):
                    a[c] += E[order[m], c]
    return found, gains
