r"""What a sweep of collapsed Gibbs sampling does where some entries of X are missing.

X is complete: its missing entries hold their last draws. But a row's own missing entries are no
reason to keep its bits as they are, since they were drawn given those bits, and a row of which
little was observed would hardly move. So bits and missing entries of a row are drawn together,
given all other rows: with o the row's observed columns and D_o their number,

    x_o | z ~ N(zμ_o, σ_x²(1 + z M zᵀ) I)                    the bits and the number of new features
    x_m | z ~ N(zμ_m, σ_x²(1 + z M zᵀ) I)                    then its missing entries

where M and μ = M T of the other rows are as in ``collapsed_rows``. Of the columns w, the missing
ones or the observed ones if these are fewer, μ_w = M T_w is made, column by column; b_o = μ_o x_o
and G_o = μ_oμ_oᵀ follow from it, or from it and b = μ x and G = μμᵀ. A row that keeps its bits
leaves M as it was, and changes G by its new entries. A row costs K·(K + 1)·min(D_o, D − D_o) more
than one without missing entries, and one that misses nothing costs what it always does.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.maintained_rows import FAST, dot, dot_rows

NO_DIMENSION = 1e-300  # D_o of a row of which nothing was observed; a divisor, so not quite 0


class Gaps(NamedTuple):
    """The missing columns of each row, one row after the other, and ‖x_o‖²."""

    first: np.ndarray  # (N + 1,)
    columns: np.ndarray
    squares: np.ndarray  # (N,)


@helper
def gaps_of(X, mask):
    """What is missing where, looked for once."""
    n, d = X.shape
    first = np.zeros(n + 1, np.int64)
    squares = np.zeros(n)
    for i in range(n):
        seen = 0
        for c in range(d):
            if mask[i, c]:
                seen += 1
                squares[i] += X[i, c] * X[i, c]
        first[i + 1] = first[i] + d - seen
    columns = np.empty(first[n], np.int64)
    at = 0
    for i in range(n):
        for c in range(d):
            if not mask[i, c]:
                columns[at] = c
                at += 1
    return Gaps(first, columns, squares)


@helper
def project(rows, x, x2, z, k, out, y):
    """out = μ x without the row: M(T x − z‖x‖²), own features having no μ."""
    dot_rows(rows.T, x, k, y)
    for i in range(k):
        if rows.m[i] == 0.0:
            y[i] = 0.0
        elif z[i]:
            y[i] -= x2
    for i in range(k):
        out[i] = dot(rows.M[i], y, k)


@helper(fastmath=FAST)
def leave_G(G, u, v, c1, c2, k, out):
    """out = G + c₁(uvᵀ + vuᵀ) + c₂uuᵀ."""
    for i in range(k):
        along_v = c1 * u[i]
        along_u = c1 * v[i] + c2 * u[i]
        for j in range(k):
            out[i, j] = G[i, j] + along_v * v[j] + along_u * u[j]


@helper(fastmath=FAST)
def add_column(M, u, c0, t, weight, x, k, mu, b, G):
    """μ_c = (M + c₀uuᵀ) t of one column of X; b += w μ_c x and G += w μ_cμ_cᵀ."""
    along_u = c0 * dot(u, t, k)
    for i in range(k):
        mu[i] = along_u * u[i]
    for j in range(k):
        part = t[j]
        for i in range(k):
            mu[i] += part * M[j, i]
    for i in range(k):
        part = weight * mu[i]
        b[i] += part * x
        for j in range(k):
            G[i, j] += part * mu[j]


@helper
def leave_unseen(rows, x, seen, gone, z, k, b, u, v, c0, c1, c2, t, mu, G):
    """b = μ_o x_o in place of μ x, and G = μ_oμ_oᵀ, through the shorter list of columns.

    M and the maintained G may have the row in, as ``leave`` tells by u, v and c₀, c₁, c₂.
    """
    fewer = 2 * len(gone) <= len(x)
    weight = -1.0 if fewer else 1.0
    if fewer:
        leave_G(rows.G, u, v, c1, c2, k, G)
    else:
        b[:k] = 0.0
        G[:k, :k] = 0.0
    for c in gone if fewer else np.flatnonzero(seen):
        for i in range(k):
            t[i] = 0.0
            if rows.m[i] != 0.0:
                t[i] = rows.T[i, c] - (x[c] if z[i] else 0.0)
        add_column(rows.M, u, c0, t, weight, x[c], k, mu, b, G)


@helper
def draw_missing(rng, rows, x, z, k, gone, s, sigma, y):
    """Draw the row's missing entries from N(zμ, σ²), s = M z, and put them into x and T.

    Returns the sum of their squares and that of their changes Δ; y = T Δ with T as it was.
    """
    x2 = change2 = 0.0
    y[:k] = 0.0
    for c in gone:
        mean = 0.0
        for i in range(k):
            if rows.m[i] != 0.0:
                mean += s[i] * (rows.T[i, c] - (x[c] if z[i] else 0.0))
        change = mean + sigma * rng.standard_normal() - x[c]
        x[c] += change
        x2 += x[c] * x[c]
        change2 += change * change
        for i in range(k):
            y[i] += rows.T[i, c] * change
            if z[i]:
                rows.T[i, c] += change
    return x2, change2


@helper(fastmath=FAST)
def change_entries(rows, u, y, change2, k, w):
    """G where a row in it has new entries and its old bits: μ has become μ + uΔᵀ, u = M z, so

    G ← G + u(M y)ᵀ + (M y)uᵀ + ‖Δ‖² uuᵀ,   y = T Δ.
    """
    for i in range(k):
        w[i] = dot(rows.M[i], y, k)
    for i in range(k):
        along_w = u[i]
        along_u = w[i] + change2 * u[i]
        for j in range(k):
            rows.G[i, j] += along_w * w[j] + along_u * u[j]
