r"""How a row leaves what is maintained of all rows, before its bits are drawn given the others.

Of M = (C + rI)⁻¹ and G = μμᵀ with the row in (``collapsed_rows``), and V = 1/(1 − z M zᵀ), M and G
without it differ by rank one and two. A row that ends as it began, as most do, changes nothing: so
its absence is mostly allowed for in the formulas, and only written into M and G when the row
returns changed. A row with V beyond ``RISKY`` (without it, columns are nearly equal) does not leave
by rank one at all: M and G are made afresh without it.
"""

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.copying import put_matrix
from thali.kernels.maintained_rows import (
    dot_bits,
    dot_rows,
    inverse,
    multiply,
    products,
    rank_one,
    times_bits,
)

LAZY = 1e3  # V up to which a row's absence is allowed for and not written into M and G
RISKY = 150.0  # V beyond which a row leaves by making M and G afresh without it
SUNK = 1e6  # and V, own features counted, beyond which 1 − zMz has lost too many digits to tell V


@helper(inline="always")
def leave(rows, x, z, b, x2, k, r, u, v, s, h):
    """Take a row out of m and b, where b = μ x on entry, and see what M and G are without it.

    Fills s = M z and h = G z as they are without the row. M and G themselves are mostly left as
    they are: without the row they are M + c₀ uuᵀ and G + c₁(uvᵀ + vuᵀ) + c₂uuᵀ, with u, v filled
    too. Returns the row's number of own features, V of those it shares, and c₀, c₁, c₂, which are
    zero where M and G were changed at once for the sake of their digits.
    """
    own = 0
    m = rows.m  # every use of a field of a tuple counts a reference
    for i in range(k):
        if z[i]:
            m[i] -= 1.0
            if m[i] == 0.0:
                own += 1
    times_bits(rows.M, z, k, u)
    left = 1.0 - dot_bits(z, u, k)
    V = 1.0 / left if left > 0.0 else np.inf
    shared = V - own / r  # own features make V large harmlessly: M hardly changes then
    c0 = c1 = c2 = 0.0
    written = not (0.0 < shared < RISKY and V < SUNK)
    if written:
        leave_afresh(rows, x, z, b, k, r)
    else:
        times_bits(rows.G, z, k, h)
        zb = dot_bits(z, b, k)
        rho = x2 - 2.0 * zb + dot_bits(z, h, k)  # of the residual with the row in: V² times less
        gone = V * (x2 - zb)
        for i in range(k):
            v[i] = b[i] - h[i]
            b[i] = 0.0 if m[i] == 0.0 else b[i] - gone * u[i]
        c0, c1, c2 = V, -V, V * V * rho
        if V > LAZY:
            take_out(rows, u, v, c0, c1, c2, k, r)
            written = True
    if written:
        times_bits(rows.M, z, k, s)
        times_bits(rows.G, z, k, h)
        return own, shared, 0.0, 0.0, 0.0
    zu = dot_bits(z, u, k)
    zv = dot_bits(z, v, k)
    for i in range(k):
        if m[i] == 0.0:  # only this row has it: a new one, known exactly
            s[i] = 1.0 / r
            h[i] = 0.0
        else:
            s[i] = V * u[i]
            h[i] += c1 * (u[i] * zv + v[i] * zu) + c2 * u[i] * zu
    return own, shared, c0, c1, c2


@helper
def take_out(rows, u, v, c0, c1, c2, k, r):
    """Change M and G to what they are without the row; its own features are known exactly."""
    rank_one(rows.M, rows.G, u, v, c0, c1, c2, k)
    for i in range(k):
        if rows.m[i] == 0.0:
            for j in range(k):
                rows.M[i, j] = rows.M[j, i] = 0.0
                rows.G[i, j] = rows.G[j, i] = 0.0
            rows.M[i, i] = 1.0 / r


@helper
def leave_afresh(rows, x, z, b, k, r):
    """M, G and b = μ x without a row, from C − zzᵀ and T − zᵀx. Own features come out exactly."""
    C = rows.C[:k, :k].copy()
    T = rows.T[:k].copy()
    for i in range(k):
        if z[i]:
            if rows.m[i] == 0.0:
                for c in range(x.shape[0]):  # rounding aside it is so already
                    T[i, c] = 0.0
            else:
                for c in range(x.shape[0]):
                    T[i, c] -= x[c]
            for j in range(k):
                if z[j]:
                    C[i, j] -= 1.0
    M = inverse(C, k, r)
    mu = multiply(M, T, k)
    dot_rows(mu, x, k, b)
    put_matrix(rows.M, M)
    put_matrix(rows.G, products(mu, k))
