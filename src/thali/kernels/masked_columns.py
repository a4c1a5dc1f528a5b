r"""A given Z and the observed entries, column by column, with A integrated out or drawn.

With o the observed rows of a column, n_o their number, and M = (Z_oᵀZ_o + rI)⁻¹, r = σ_x²/σ_a²:

    a_d | x_d, Z ~ N(M Z_oᵀx_o, σ_x² M)
    log p(x_o | Z) = −n_o/2 log 2π − (n_o−K) log σ_x − K log σ_a − ½ log|M⁻¹|
                     − (‖x_o‖² − ‖L⁻¹Z_oᵀx_o‖²) / 2σ_x²,      M⁻¹ = L Lᵀ
    x_nd | x_o, Z ~ N(z_n E[a_d], σ_x²(1 + ‖L⁻¹z_nᵀ‖²))       where it is missing

Columns that miss the same rows share L: P patterns cost P·K³/3 and each column K² more.
Z_oᵀZ_o is ZᵀZ less the missing rows, exactly, since these are whole numbers.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel


@helper
def factor(Z, C, missing, r):
    """L with L Lᵀ = C + rI − Σ z zᵀ over the missing rows."""
    k = C.shape[0]
    system = C.copy()
    on = np.zeros(k, np.int64)
    for n in missing:
        count = 0
        for i in range(k):
            if Z[n, i]:
                on[count] = i
                count += 1
        for a in range(count):
            row = system[on[a]]
            for b in range(count):
                row[on[b]] -= 1.0
    for i in range(k):
        system[i, i] += r
    return np.linalg.cholesky(system)


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
    A = np.zeros((k, d))
    half_log_det = np.zeros(d)
    explained = np.zeros(d)
    order = np.argsort(of_column, kind="mergesort")
    v = np.zeros(k)
    at = -1
    L = np.zeros((k, k))
    log_det = 0.0
    for c in order:
        p = of_column[c]
        if p != at:
            L = factor(Z, C, rows[start[p] : start[p + 1]], r)
            log_det = 0.0
            for i in range(k):
                log_det += np.log(L[i, i])
            at = p
        for i in range(k):
            v[i] = T[i, c]
        solve_lower(L, v)
        for i in range(k):
            explained[c] += v[i] * v[i]
            v[i] += noise[i, c]
        solve_upper(L, v)
        for i in range(k):
            A[i, c] = v[i]
        half_log_det[c] = log_det
    return A, half_log_det, explained


@kernel
def variances(Z, C, start, rows, r):
    """‖L⁻¹z_nᵀ‖² of every missing row of every pattern, in the order of ``rows``."""
    out = np.zeros(len(rows))
    v = np.zeros(C.shape[0])
    for p in range(len(start) - 1):
        L = factor(Z, C, rows[start[p] : start[p + 1]], r)
        for at in range(start[p], start[p + 1]):
            for i in range(len(v)):
                v[i] = Z[rows[at], i]
            solve_lower(L, v)
            for i in range(len(v)):
                out[at] += v[i] * v[i]
    return out


@kernel
def inverses(Z, C, start, rows, r):
    """M = (Z_oᵀZ_o + rI)⁻¹ of every pattern, (P, K, K)."""
    k = C.shape[0]
    out = np.zeros((len(start) - 1, k, k))
    v = np.zeros(k)
    for p in range(len(start) - 1):
        L = factor(Z, C, rows[start[p] : start[p + 1]], r)
        for i in range(k):
            v[:] = 0.0
            v[i] = 1.0
            solve_lower(L, v)
            solve_upper(L, v)
            out[p, i] = v
    return out
