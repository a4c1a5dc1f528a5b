r"""A given Z and the observed entries, column by column, with A integrated out or drawn.

With o the observed rows of a column, n_o their number, and M = (Z_oᵀZ_o + rI)⁻¹, r = σ_x²/σ_a²:

    a_d | x_d, Z ~ N(M Z_oᵀx_o, σ_x² M)
    log p(x_o | Z) = −n_o/2 log 2π − (n_o−K) log σ_x − K log σ_a − ½ log|M⁻¹|
                     − (‖x_o‖² − ‖L⁻¹Z_oᵀx_o‖²) / 2σ_x²,      M⁻¹ = L Lᵀ
    x_nd | x_o, Z ~ N(z_n E[a_d], σ_x²(1 + ‖L⁻¹z_nᵀ‖²))       where it is missing

Columns that miss the same rows share L: P patterns cost P·K³/3 and each column K² more.
Z_oᵀZ_o is ZᵀZ less the missing rows, exactly, since these are whole numbers.
Z_oᵀX_o of completed data is T = ZᵀX less the same rows (``complete``).
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.maintained_rows import FAST


class Bits(NamedTuple):
    """The features of each row, in order: row n has on[first[n]:first[n + 1]]."""

    first: np.ndarray  # (N + 1,)
    on: np.ndarray


@helper
def bits_of(Z, k):
    """Those of the first k columns."""
    n_rows = Z.shape[0]
    first = np.zeros(n_rows + 1, np.int64)
    on = np.empty(n_rows * k, np.int64)
    at = 0
    for n in range(n_rows):
        for i in range(k):
            on[at] = i
            at += Z[n, i]
        first[n + 1] = at
    return Bits(first, on)


@helper(fastmath=FAST)
def factor(bits, C, k, missing, r, L):
    """Fill L with L Lᵀ = C + rI − Σ z zᵀ over the missing rows; above its diagonal nothing is read
    or written.

    The error that it raises says that features are too nearly equal for so small an r.
    """
    for i in range(k):
        for j in range(i + 1):
            L[i, j] = C[i, j]
    for n in missing:
        begin, end = bits.first[n], bits.first[n + 1]
        for a in range(begin, end):
            row = L[bits.on[a]]
            for b in range(begin, a + 1):
                row[bits.on[b]] -= 1.0
    for i in range(k):
        for j in range(i):
            total = L[i, j]
            for h in range(j):
                total -= L[i, h] * L[j, h]
            L[i, j] = total / L[j, j]
        total = L[i, i] + r
        for h in range(i):
            total -= L[i, h] * L[i, h]
        if not total > 0.0:
            raise np.linalg.LinAlgError("not positive definite")
        L[i, i] = np.sqrt(total)


@helper
def solve_lower(L, v):
    """v ← L⁻¹ v."""
    for i in range(len(v)):
        total = v[i]
        for j in range(i):
            total -= L[i, j] * v[j]
        v[i] = total / L[i, i]


@helper
def solve_upper(L, v):
    """v ← L⁻ᵀ v."""
    for i in range(len(v) - 1, -1, -1):
        v[i] /= L[i, i]
        for j in range(i):
            v[j] -= L[i, j] * v[i]


@kernel
def columns(Z, C, T, of_column, start, rows, r, noise):
    """A = M(T + L noise) in each column, log|L| and ‖L⁻¹T‖² of each, T = Z_oᵀX_o.

    ``noise`` is σ_x times standard normals for a draw of A, zeros for its mean.
    """
    k, d = T.shape
    A = noise.copy()
    half_log_det = np.zeros(d)
    explained = np.zeros(d)
    solve_columns(bits_of(Z, k), C, T, of_column, start, rows, r, A, half_log_det, explained)
    return A, half_log_det, explained


@helper
def solve_columns(bits, C, T, of_column, start, rows, r, A, half_log_det, explained):
    """The same; A holds the noise before."""
    k = T.shape[0]
    order = np.argsort(of_column, kind="mergesort")
    v = np.zeros(k)
    L = np.zeros((k, k))
    at = -1
    log_det = 0.0
    for c in order:
        p = of_column[c]
        if p != at:
            factor(bits, C, k, rows[start[p] : start[p + 1]], r, L)
            log_det = 0.0
            for i in range(k):
                log_det += np.log(L[i, i])
            at = p
        for i in range(k):
            v[i] = T[i, c]
        solve_lower(L, v)
        for i in range(k):
            explained[c] += v[i] * v[i]
            v[i] += A[i, c]
        solve_upper(L, v)
        for i in range(k):
            A[i, c] = v[i]
        half_log_det[c] = log_det


@helper
def drawn_square(X, gaps):
    """Σx² of the missing entries as they were drawn last."""
    total = 0.0
    for n in range(X.shape[0]):
        for c in gaps.columns[gaps.first[n] : gaps.first[n + 1]]:
            total += X[n, c] * X[n, c]
    return total


@helper
def add_missing(X, gaps, bits, sign, T):
    """T ± Z_mᵀX_m of the missing entries."""
    for n in range(X.shape[0]):
        gone = gaps.columns[gaps.first[n] : gaps.first[n + 1]]
        for i in bits.on[bits.first[n] : bits.first[n + 1]]:
            for c in gone:
                T[i, c] += sign * X[n, c]


@helper
def draw_entries(rng, X, gaps, bits, A, sigma):
    """Every missing entry from N(z_n a_d, σ²)."""
    mean = np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        gone = gaps.columns[gaps.first[n] : gaps.first[n + 1]]
        for j in range(len(gone)):
            mean[j] = 0.0
        for i in bits.on[bits.first[n] : bits.first[n + 1]]:
            for j in range(len(gone)):
                mean[j] += A[i, gone[j]]
        for j in range(len(gone)):
            X[n, gone[j]] = mean[j] + sigma * rng.standard_normal()


@helper
def complete(rng, X, gaps, rows, k, scales):
    """Draw A given Z and what was observed, and then every missing entry given Z and A, into X and
    T = ZᵀX; returns log P(X_obs | Z)."""
    n, d = X.shape
    sigma_x, sigma_a = scales.sigma_x, scales.sigma_a
    A = np.empty((k, d))
    for i in range(k):
        for c in range(d):
            A[i, c] = sigma_x * rng.standard_normal()
    T = rows.T[:k]
    bits = bits_of(rows.Z, k)
    half_log_det, explained = np.zeros(d), np.zeros(d)
    add_missing(X, gaps, bits, -1.0, T)
    ratio = sigma_x / sigma_a
    solve_columns(
        bits,
        rows.C,
        T,
        gaps.of_column,
        gaps.start,
        gaps.rows,
        ratio * ratio,
        A,
        half_log_det,
        explained,
    )
    draw_entries(rng, X, gaps, bits, A, sigma_x)
    add_missing(X, gaps, bits, 1.0, T)
    seen = float(n * d - len(gaps.columns))
    return (
        -0.5 * seen * np.log(2.0 * np.pi)
        - (seen - k * d) * np.log(sigma_x)
        - k * d * np.log(sigma_a)
        - half_log_det.sum()
        - 0.5 * (gaps.squares - explained.sum()) / (sigma_x * sigma_x)
    )


@kernel
def variances(Z, C, start, rows, r):
    """‖L⁻¹z_nᵀ‖² of every missing row of every pattern, in the order of ``rows``."""
    k = C.shape[0]
    out = np.zeros(len(rows))
    v = np.zeros(k)
    L = np.zeros((k, k))
    bits = bits_of(Z, k)
    for p in range(len(start) - 1):
        factor(bits, C, k, rows[start[p] : start[p + 1]], r, L)
        for at in range(start[p], start[p + 1]):
            for i in range(k):
                v[i] = Z[rows[at], i]
            solve_lower(L, v)
            for i in range(k):
                out[at] += v[i] * v[i]
    return out


@kernel
def inverses(Z, C, start, rows, r):
    """M = (Z_oᵀZ_o + rI)⁻¹ of every pattern, (P, K, K)."""
    k = C.shape[0]
    out = np.zeros((len(start) - 1, k, k))
    v = np.zeros(k)
    L = np.zeros((k, k))
    bits = bits_of(Z, k)
    for p in range(len(start) - 1):
        factor(bits, C, k, rows[start[p] : start[p + 1]], r, L)
        for i in range(k):
            v[:] = 0.0
            v[i] = 1.0
            solve_lower(L, v)
            solve_upper(L, v)
            out[p, i] = v
    return out
