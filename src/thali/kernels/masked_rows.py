r"""What a sweep of collapsed Gibbs sampling does where some entries of X are missing.

X is complete: its missing entries hold their last draws. But a row's own missing entries are no
reason to keep its bits as they are, since they were drawn given those bits, and a row of which
little was observed would hardly move. So bits and missing entries of a row are drawn together,
given all other rows: with o the row's observed columns and D_o their number,

    x_o | z ~ N(zμ_o, σ_x²(1 + z M zᵀ) I)                    the bits and the number of new features
    x_m | z ~ N(zμ_m, σ_x²(1 + z M zᵀ) I)                    then its missing entries

where M and μ = M T of the other rows are as in ``collapsed_rows``, and G_o = μ_oμ_oᵀ is had from
G = μμᵀ by taking the missing columns away, or from μ_o where fewer columns were observed than not.
A row costs K·(K + 1)·min(D_o, D − D_o) more than one without missing entries.
"""

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.maintained_rows import dot, dot_rows

NO_DIMENSION = 1e-300  # D_o of a row of which nothing was observed; a divisor, so not quite 0


@helper
def project(rows, x, z, k, out, y):
    """out = μ x without the row: M(T x − z‖x‖²), own features having no μ. ``x`` may have zeros."""
    x2 = 0.0
    for c in range(len(x)):
        x2 += x[c] * x[c]
    dot_rows(rows.T, x, k, y)
    for i in range(k):
        if rows.m[i] == 0.0:
            y[i] = 0.0
        elif z[i]:
            y[i] -= x2
    for i in range(k):
        out[i] = dot(rows.M[i], y, k)
    return x2


@helper
def products_of(rows, x, z, k, which):
    """μμᵀ over the columns ``which`` only, without the row."""
    T = np.zeros((k, len(which)))
    for i in range(k):
        if rows.m[i] != 0.0:
            for c in range(len(which)):
                T[i, c] = rows.T[i, which[c]] - (x[which[c]] if z[i] else 0.0)
    mu = np.ascontiguousarray(rows.M[:k, :k]) @ T
    return mu @ mu.T


@helper
def observed_products(rows, x, z, k, seen, gone):
    """μ_oμ_oᵀ, through the shorter of the two lists of columns."""
    if len(gone) == 0:
        return rows.G
    if len(seen) == 0:
        return np.zeros((k, k))
    if len(gone) <= len(seen):
        return rows.G[:k, :k] - products_of(rows, x, z, k, gone)
    return products_of(rows, x, z, k, seen)


@helper
def draw_missing(rng, rows, x, z, k, gone, s, sigma):
    """Draw the row's missing entries from N(zμ, σ²), s = M z, and put them into x and T."""
    for c in gone:
        mean = 0.0
        for i in range(k):
            if rows.m[i] != 0.0:
                mean += s[i] * (rows.T[i, c] - (x[c] if z[i] else 0.0))
        change = mean + sigma * rng.standard_normal() - x[c]
        x[c] += change
        for i in range(k):
            if z[i]:
                rows.T[i, c] += change
