r"""The arrays that a collapsed sweep maintains, and every way they change.

m = Zᵀ1,   C = ZᵀZ,   T = ZᵀX            changed by ``flip``, exactly or nearly so
M = (C + rI)⁻¹,   G = μμᵀ with μ = M T    changed by ``rank_one``, made afresh by ``refresh``
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.copying import put, put_matrix

FAST = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered, so that they vectorize


class Rows(NamedTuple):
    """The maintained arrays; columns and rows beyond the K in use are spare room."""

    Z: np.ndarray  # (N, cap) uint8
    m: np.ndarray  # (cap,) float64
    C: np.ndarray  # (cap, cap) float64
    T: np.ndarray  # (cap, D') float64
    M: np.ndarray  # (cap, cap) float64
    G: np.ndarray  # (cap, cap) float64


def rows_of(Z: np.ndarray, X: np.ndarray) -> Rows:
    """The arrays for Z, with some spare room; M and G are zero until they are made afresh."""
    n, k = Z.shape
    cap = k + max(4, k // 2)
    bits = np.zeros((n, cap), np.uint8)
    bits[:, :k] = Z
    real = bits.astype(float)
    C = real.T @ real
    T = np.ascontiguousarray(real.T @ X)
    return Rows(bits, np.diagonal(C).copy(), C, T, np.zeros((cap, cap)), np.zeros((cap, cap)))


@helper(fastmath=FAST)
def dot_rows(T, x, k, out):
    """out = T[:k] x, four rows at a time so that x is read from memory once for them."""
    d = x.shape[0]
    i = 0
    while i + 4 <= k:
        a0 = a1 = a2 = a3 = 0.0
        for c in range(d):
            v = x[c]
            a0 += T[i, c] * v
            a1 += T[i + 1, c] * v
            a2 += T[i + 2, c] * v
            a3 += T[i + 3, c] * v
        out[i] = a0
        out[i + 1] = a1
        out[i + 2] = a2
        out[i + 3] = a3
        i += 4
    while i < k:
        a0 = 0.0
        for c in range(d):
            a0 += T[i, c] * x[c]
        out[i] = a0
        i += 1


@helper(fastmath=FAST)
def times_bits(matrix, z, k, out):
    """out = matrix z for symmetric matrix and binary z."""
    for i in range(k):
        out[i] = 0.0
    for a in range(k):
        if z[a]:
            for i in range(k):
                out[i] += matrix[a, i]


@helper(fastmath=FAST)
def dot(a, b, k):
    total = 0.0
    for i in range(k):
        total += a[i] * b[i]
    return total


@helper(fastmath=FAST)
def dot_bits(z, b, k):
    total = 0.0
    for i in range(k):
        if z[i]:
            total += b[i]
    return total


@helper(fastmath=FAST)
def rank_one(M, G, s, h, a, b, c, k):
    """M += a s sᵀ;  G += b (s hᵀ + h sᵀ) + c s sᵀ, on the leading k × k."""
    for i in range(k):
        si = s[i]
        hi = h[i]
        asi = a * si
        g1 = b * si
        g2 = b * hi + c * si
        for j in range(k):
            M[i, j] += asi * s[j]
            G[i, j] += g1 * h[j] + g2 * s[j]


@helper(fastmath=FAST)
def inverse(C, k, r):
    """M = (C + rI)⁻¹ of the leading k × k of C, through C + rI = L Lᵀ and M = L⁻ᵀL⁻¹.

    The error that it raises says that features are too nearly equal for so small an r.
    """
    L = np.zeros((k, k))
    M = np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            total = C[i, j] + (r if i == j else 0.0)
            for h in range(j):
                total -= L[i, h] * L[j, h]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0:
                L[i, i] = np.sqrt(total)
            else:
                raise np.linalg.LinAlgError("not positive definite")
    for i in range(k):  # L becomes its inverse, row by row: row i of L⁻¹ L = I, from the right
        for j in range(i):
            total = 0.0
            for h in range(j, i):
                total += L[i, h] * L[h, j]
            L[i, j] = -total / L[i, i]
        L[i, i] = 1.0 / L[i, i]
    for h in range(k):
        for i in range(h + 1):
            for j in range(i + 1):
                M[i, j] += L[h, i] * L[h, j]
    for i in range(k):
        for j in range(i):
            M[j, i] = M[i, j]
    return M


@helper(fastmath=FAST)
def multiply(W, T, k):
    """W T for W (k × k) and the first k rows of T, four of which are read for every pass."""
    width = T.shape[1]
    out = np.zeros((k, width))
    for i in range(k):
        row = out[i]
        j = 0
        while j + 4 <= k:
            w0, w1, w2, w3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
            t0, t1, t2, t3 = T[j], T[j + 1], T[j + 2], T[j + 3]
            for c in range(width):
                row[c] += w0 * t0[c] + w1 * t1[c] + w2 * t2[c] + w3 * t3[c]
            j += 4
        while j < k:
            w0, t0 = W[i, j], T[j]
            for c in range(width):
                row[c] += w0 * t0[c]
            j += 1
    return out


@helper
def products(mu, k):
    """G = μμᵀ of the first k rows."""
    G = np.zeros((k, k))
    for i in range(k):
        dot_rows(mu, mu[i], i + 1, G[i])
        for j in range(i):
            G[j, i] = G[i, j]
    return G


@helper
def refresh(rows, k, r):
    """Make M and G afresh in place; return the largest relative error they had."""
    if k == 0:
        return 0.0
    M = inverse(rows.C, k, r)
    G = products(multiply(M, rows.T, k), k)
    error_s = error_g = size_s = size_g = 0.0
    for i in range(k):
        for j in range(k):
            error_s = max(error_s, abs(rows.M[i, j] - M[i, j]))
            error_g = max(error_g, abs(rows.G[i, j] - G[i, j]))
            size_s = max(size_s, abs(M[i, j]))
            size_g = max(size_g, abs(G[i, j]))
            rows.M[i, j] = M[i, j]
            rows.G[i, j] = G[i, j]
    drift = error_s / size_s
    if size_g > 0.0:
        drift = max(drift, error_g / size_g)
    return drift


@helper
def grow(rows, needed):
    """Room for at least ``needed`` features: half as much again, everything copied."""
    old = rows.m.shape[0]
    cap = max(needed, old + old // 2 + 4)
    n, d = rows.Z.shape[0], rows.T.shape[1]
    Z = np.zeros((n, cap), np.uint8)
    put_matrix(Z, rows.Z)
    m = np.zeros(cap)
    put(m, rows.m)
    T = np.zeros((cap, d))
    put_matrix(T, rows.T)
    C, M, G = np.zeros((cap, cap)), np.zeros((cap, cap)), np.zeros((cap, cap))
    put_matrix(C, rows.C)
    put_matrix(M, rows.M)
    put_matrix(G, rows.G)
    return Rows(Z, m, C, T, M, G)


@helper
def clear_feature(rows, k):
    """Zeros in place number k, for which there is room, of every array but Z."""
    rows.m[k] = 0.0
    for c in range(rows.T.shape[1]):
        rows.T[k, c] = 0.0
    for i in range(k + 1):
        rows.C[k, i] = rows.C[i, k] = 0.0
        rows.M[k, i] = rows.M[i, k] = 0.0
        rows.G[k, i] = rows.G[i, k] = 0.0


@helper
def swap_features(rows, k, a, b):
    """Exchange features a and b of k in every array."""
    for n in range(rows.Z.shape[0]):
        rows.Z[n, a], rows.Z[n, b] = rows.Z[n, b], rows.Z[n, a]
    rows.m[a], rows.m[b] = rows.m[b], rows.m[a]
    for c in range(rows.T.shape[1]):
        rows.T[a, c], rows.T[b, c] = rows.T[b, c], rows.T[a, c]
    for matrix in (rows.C, rows.M, rows.G):
        for i in range(k):
            matrix[a, i], matrix[b, i] = matrix[b, i], matrix[a, i]
        for i in range(k):
            matrix[i, a], matrix[i, b] = matrix[i, b], matrix[i, a]


@helper
def drop_feature(rows, k, gone):
    """Remove feature ``gone`` of k by moving the last one there."""
    last = k - 1
    if gone != last:
        for n in range(rows.Z.shape[0]):
            rows.Z[n, gone] = rows.Z[n, last]
        rows.m[gone] = rows.m[last]
        put(rows.T[gone], rows.T[last])
        for matrix in (rows.C, rows.M, rows.G):
            put(matrix[gone], matrix[last, :k])
            for i in range(k):
                matrix[i, gone] = matrix[i, last]
            matrix[gone, gone] = matrix[last, last]
    for n in range(rows.Z.shape[0]):
        rows.Z[n, last] = 0


@helper(fastmath=FAST)
def flip(rows, n, x, k, which):
    """Change bit (n, which) in Z, C and T. C's diagonal is m of all rows, n included."""
    z = rows.Z[n]
    sign = -1.0 if z[which] else 1.0
    if sign > 0.0:
        z[which] = 1
    for i in range(k):
        if z[i]:
            rows.C[which, i] += sign
            if i != which:
                rows.C[i, which] += sign
    if sign < 0.0:
        z[which] = 0
    t = rows.T[which]
    for c in range(x.shape[0]):
        t[c] += sign * x[c]
