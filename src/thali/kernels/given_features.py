r"""Bits and own dishes of X = Z A + E with A given, through XAᵀ and AAᵀ alone.

With B = X Aᵀ, G = A Aᵀ and R = B − Z G, turning bit k of row n changes ‖x − zA‖² by

    ± : −2 R_k·s + G_kk,  s = +1 on, −1 off,

and R by −s G_k: a bit that stays costs O(1), one that turns O(K), and no step touches D.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thali.kernels.bit_prior import accepts, prior_log_odds
from thali.kernels.collapsed_rows import draw_new_dishes


@njit(cache=True, nogil=True)
def turn_bits(rng, R, G, Z, prior, sigma_x):
    """One pass over all bits given A; Z, R and the prior's counts change in place."""
    precision = 0.5 / (sigma_x * sigma_x)
    n_rows, k = Z.shape
    for n in range(n_rows):
        z = Z[n]
        r = R[n]
        for i in range(k):
            odds = prior_log_odds(prior, i, z[i])
            if np.isnan(odds):
                continue
            sign = -1.0 if z[i] else 1.0
            log_ratio = precision * (2.0 * sign * r[i] - G[i, i]) + sign * odds
            if accepts(rng, log_ratio):
                for j in range(k):
                    r[j] -= sign * G[i, j]
                if z[i]:
                    z[i] = 0
                    prior.m[i] -= 1
                else:
                    z[i] = 1
                    prior.m[i] += 1


@njit(cache=True, nogil=True)
def count_own_dishes(rng, B, R, G, squares, Z, m, law):
    """Draw for each row the number of dishes of its own, their A integrated out: (N,).

    Row n's own dishes are those with m = 1; without them x ~ N(zA, σ_x² I), and j of them add jσ_a²
    to the variance. None of them touches another row, so the rows' draws are independent but for a
    finite prior's room.
    """
    n_rows, k = Z.shape
    r2 = (law.sigma_x / law.sigma_a) ** 2
    used = k
    own = np.zeros(n_rows, np.int64)
    shared = np.empty(k)
    for n in range(n_rows):
        z = Z[n]
        has = 0
        total = 0.0
        for i in range(k):
            shared[i] = 0.0
            if z[i]:
                if m[i] == 1:
                    has += 1
                else:
                    shared[i] = 1.0
                    total += B[n, i] + R[n, i]
        if has:
            total = 0.0
            for i in range(k):
                if shared[i]:
                    total += 2.0 * B[n, i]
                    for j in range(k):
                        if shared[j]:
                            total -= G[i, j]
        rho = max(squares[n] - total, 0.0)
        free = -1 if law.capacity < 0 else law.capacity - (used - has)
        own[n] = draw_new_dishes(rng, rho, 1.0, r2, free, law)
        used += own[n] - has
    return own
