r"""A given Z and the observed entries, column by column, with A integrated out or drawn.

With o the observed rows of a column, n_o their number, and M = (Z_oᵀZ_o + rI)⁻¹, r = σ_x²/σ_a²:

    a_d | x_d, Z ~ N(M Z_oᵀx_o, σ_x² M)
    log p(x_o | Z) = −n_o/2 log 2π − (n_o−K) log σ_x − K log σ_a − ½ log|M⁻¹|
                     − (‖x_o‖² − ‖L⁻¹Z_oᵀx_o‖²) / 2σ_x²,      M⁻¹ = L Lᵀ
    x_nd | x_o, Z ~ N(z_n E[a_d], σ_x²(1 + ‖L⁻¹z_nᵀ‖²))       where it is missing

Columns that miss the same rows share L: P patterns cost P·K³/3 and each column K² more. Z_oᵀZ_o is
counted, 64 rows at a time: P·K²·N/128 words. Z_oᵀX_o of completed data is T = ZᵀX less what is
missing.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.maintained_rows import FAST

WORD = 64  # rows of a word of bits


class Bits(NamedTuple):
    """The features of each row, in order, and the rows of each feature, as bits of words."""

    first: np.ndarray  # (N + 1,): row n has on[first[n]:first[n + 1]]
    on: np.ndarray
    words: np.ndarray  # (K + 1, N/64): row n is bit n % 64 of word n // 64; the last is spare


@helper
def bits_of(Z, k):
    """Those of the first k columns."""
    n_rows = Z.shape[0]
    first = np.zeros(n_rows + 1, np.int64)
    on = np.empty(n_rows * k, np.int64)
    words = np.zeros((k + 1, (n_rows + WORD - 1) // WORD), np.uint64)
    at = 0
    for n in range(n_rows):
        for i in range(k):
            on[at] = i
            at += Z[n, i]
            words[i, n // WORD] |= np.uint64(Z[n, i]) << np.uint64(n % WORD)
        first[n + 1] = at
    return Bits(first, on, words)


@helper(borrows=True)
def count_ones(word):
    """The number of ones of 64 bits: of pairs, of fours, of eights, and then of all."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@helper(borrows=True)
def shared_rows(bits, k, rows, begin, end, out):
    """Z_oᵀZ_o on and below the diagonal, o all rows but those from ``begin`` to ``end`` in
    ``rows``: of each two features the rows that have both, 64 at a time."""
    words = bits.words
    seen, n_words = words[k], words.shape[1]
    for w in range(n_words):
        seen[w] = ~np.uint64(0)
    for at in range(begin, end):
        seen[rows[at] // WORD] &= ~(np.uint64(1) << np.uint64(rows[at] % WORD))
    for i in range(k):
        for j in range(i + 1):
            one, other, total = words[i], words[j], np.uint64(0)
            for w in range(n_words):
                total += count_ones(one[w] & other[w] & seen[w])
            out[i, j] = total


@helper(borrows=True, fastmath=FAST)
def factor(bits, k, rows, begin, end, r, L):
    """Fill L with L Lᵀ = Z_oᵀZ_o + rI, o all rows but those from ``begin`` to ``end`` in ``rows``;
    on its diagonal stands what L has there, inverted, and nothing above.

    Returns log|L|; NaN where features are too nearly equal for so small an r.
    """
    shared_rows(bits, k, rows, begin, end, L)
    log_det = 0.0
    for i in range(k):
        mine = L[i]
        left = mine[i] + r
        for j in range(i):
            other, total = L[j], mine[j]
            for h in range(j):
                total -= mine[h] * other[h]
            total *= other[j]
            mine[j] = total
            left -= total * total
        if not left > 0.0:
            return np.nan
        log_det += 0.5 * np.log(left)
        mine[i] = 1.0 / np.sqrt(left)
    return log_det


@helper
def check_factor(log_det):
    """Raise an error where there is no factor."""
    if np.isnan(log_det):
        raise np.linalg.LinAlgError("not positive definite")


@helper(borrows=True, fastmath=FAST)
def solve_lower(L, k, v):
    """v ← L⁻¹ v."""
    for i in range(k):
        row, total = L[i], v[i]
        for j in range(i):
            total -= row[j] * v[j]
        v[i] = total * row[i]


@helper(borrows=True, fastmath=FAST)
def solve_upper(L, k, v):
    """v ← L⁻ᵀ v."""
    for i in range(k - 1, -1, -1):
        row = L[i]
        v[i] *= row[i]
        for j in range(i):
            v[j] -= row[j] * v[i]


@kernel
def columns(Z, T, of_column, start, rows, r, noise):
    """A = M(T + L noise) in each column, log|L| and ‖L⁻¹T‖² of each, T = Z_oᵀX_o.

    ``noise`` is σ_x times standard normals for a draw of A, zeros for its mean.
    """
    k, d = T.shape
    A = noise.copy()
    half_log_det = np.zeros(d)
    explained = np.zeros(d)
    solve_columns(bits_of(Z, k), T, of_column, start, rows, r, A, half_log_det, explained)
    return A, half_log_det, explained


@helper
def solve_columns(bits, T, of_column, start, rows, r, A, half_log_det, explained):
    """The same; A holds the noise before."""
    k = T.shape[0]
    v, L = np.zeros(k), np.zeros((k, k))
    at = -1
    log_det = 0.0
    first = np.zeros(len(start) - 1, np.int64)  # patterns as they come: columns side by side are
    for c in range(len(of_column) - 1, -1, -1):  # mostly read one after the other
        first[of_column[c]] = c
    for c in np.argsort(first[of_column], kind="mergesort"):
        p = of_column[c]
        if p != at:
            log_det = factor(bits, k, rows, start[p], start[p + 1], r, L)
            check_factor(log_det)
            at = p
        half_log_det[c] = log_det
        explained[c] = solve_column(L, k, c, T, A, v)


@helper(borrows=True, fastmath=FAST)
def solve_column(L, k, c, T, A, v):
    """Column c of A, which holds its noise before; returns ‖L⁻¹T‖²."""
    for i in range(k):
        v[i] = T[i, c]
    solve_lower(L, k, v)
    explained = 0.0
    for i in range(k):
        explained += v[i] * v[i]
        v[i] += A[i, c]
    solve_upper(L, k, v)
    for i in range(k):
        A[i, c] = v[i]
    return explained


@helper(borrows=True, fastmath=FAST)
def drawn_square(X, gaps):
    """Σx² of the missing entries as they were drawn last."""
    total = 0.0
    for n in range(X.shape[0]):
        x = X[n]
        for at in range(gaps.first[n], gaps.first[n + 1]):
            value = x[gaps.columns[at]]
            total += value * value
    return total


@helper(borrows=True, fastmath=FAST)
def add_missing(X, gaps, bits, sign, T):
    """T ± Z_mᵀX_m of the missing entries."""
    for n in range(X.shape[0]):
        x, begin, end = X[n], gaps.first[n], gaps.first[n + 1]
        for a in range(bits.first[n], bits.first[n + 1]):
            row = T[bits.on[a]]
            for at in range(begin, end):
                row[gaps.columns[at]] += sign * x[gaps.columns[at]]


@helper(borrows=True, fastmath=FAST)
def means_of_missing(A, bits, n, columns, begin, end, mean):
    """z_n a_d of the missing entries of row n."""
    for at in range(begin, end):
        mean[at - begin] = 0.0
    for a in range(bits.first[n], bits.first[n + 1]):
        row = A[bits.on[a]]
        for at in range(begin, end):
            mean[at - begin] += row[columns[at]]


@helper
def draw_entries(rng, X, gaps, bits, A, sigma):
    """Every missing entry from N(z_n a_d, σ²)."""
    first, columns, mean = gaps.first, gaps.columns, np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        begin, end = first[n], first[n + 1]
        means_of_missing(A, bits, n, columns, begin, end, mean)
        for at in range(begin, end):
            X[n, columns[at]] = mean[at - begin] + sigma * rng.standard_normal()


@kernel
def fill(rng, X, gaps, Z, A, sigma):
    """The same of bits Z, into X."""
    draw_entries(rng, X, gaps, bits_of(Z, Z.shape[1]), A, sigma)


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
def variances(Z, start, rows, r):
    """‖L⁻¹z_nᵀ‖² of every missing row of every pattern, in the order of ``rows``."""
    k = Z.shape[1]
    out = np.zeros(len(rows))
    v = np.zeros(k)
    L = np.zeros((k, k))
    bits = bits_of(Z, k)
    for p in range(len(start) - 1):
        check_factor(factor(bits, k, rows, start[p], start[p + 1], r, L))
        for at in range(start[p], start[p + 1]):
            for i in range(k):
                v[i] = Z[rows[at], i]
            solve_lower(L, k, v)
            for i in range(k):
                out[at] += v[i] * v[i]
    return out


@kernel
def inverses(Z, start, rows, r):
    """M = (Z_oᵀZ_o + rI)⁻¹ of every pattern, (P, K, K)."""
    k = Z.shape[1]
    out = np.zeros((len(start) - 1, k, k))
    v = np.zeros(k)
    L = np.zeros((k, k))
    bits = bits_of(Z, k)
    for p in range(len(start) - 1):
        check_factor(factor(bits, k, rows, start[p], start[p + 1], r, L))
        for i in range(k):
            v[:] = 0.0
            v[i] = 1.0
            solve_lower(L, k, v)
            solve_upper(L, k, v)
            out[p, i] = v
    return out
