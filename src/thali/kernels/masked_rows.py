r"""One sweep of collapsed Gibbs sampling where some entries of X are missing.

X is complete: its missing entries hold their last draws. But a row's own missing entries are no
reason to keep its bits as they are, since they were drawn given those bits, and a row of which
little was observed would hardly move. So bits and missing entries of a row are drawn together,
given all other rows: with o the row's observed columns and D_o their number,

    x_o | z ~ N(zμ_o, σ_x²(1 + z S zᵀ) I)                    the bits and the number of new features
    x_m | z ~ N(zμ_m, σ_x²(1 + z S zᵀ) I)                    then its missing entries

where S and μ = S T of the other rows are as in ``collapsed_rows``, and G_o = μ_oμ_oᵀ is had from
G = μμᵀ by taking the missing columns away, or from μ_o where fewer columns were observed than not.
A row costs K·(K + 1)·min(D_o, D − D_o) more than one without missing entries.
"""

import numpy as np
from numba import njit

from thali.kernels.collapsed_rows import (
    LOST_DIGITS,
    RISKY,
    SUNK,
    Report,
    leave,
    own_feature,
    take_out,
)
from thali.kernels.gaussian_row import Scales, gaussian_row
from thali.kernels.maintained_rows import (
    dot,
    dot_bits,
    dot_rows,
    drop_feature,
    flip,
    grow,
    rank_one,
    refresh,
    swap_features,
    times_bits,
)
from thali.kernels.new_features import MOST_NEW, NewFeatures, draw
from thali.kernels.row_potentials import count_on, row_step

NO_DIMENSION = 1e-300  # D_o of a row of which nothing was observed; a divisor, so not quite 0


@njit(cache=True, nogil=True)
def project(rows, x, z, k, out, y):
    """out = μ x without the row: S(T x − z‖x‖²), own features having no μ. ``x`` may have zeros."""
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
        out[i] = dot(rows.S[i], y, k)
    return x2


@njit(cache=True, nogil=True)
def products_of(rows, x, z, k, which):
    """μμᵀ over the columns ``which`` only, without the row."""
    T = np.zeros((k, len(which)))
    for i in range(k):
        if rows.m[i] != 0.0:
            for c in range(len(which)):
                T[i, c] = rows.T[i, which[c]] - (x[which[c]] if z[i] else 0.0)
    mu = np.ascontiguousarray(rows.S[:k, :k]) @ T
    return mu @ mu.T


@njit(cache=True, nogil=True)
def observed_products(rows, x, z, k, seen, gone, G):
    """G ← μ_oμ_oᵀ, through the shorter of the two lists of columns."""
    if len(gone) == 0:
        G[:k, :k] = rows.G[:k, :k]
    elif len(seen) == 0:
        G[:k, :k] = 0.0
    elif len(gone) <= len(seen):
        G[:k, :k] = rows.G[:k, :k] - products_of(rows, x, z, k, gone)
    else:
        G[:k, :k] = products_of(rows, x, z, k, seen)


@njit(cache=True, nogil=True)
def draw_missing(rng, rows, x, z, k, gone, s, sigma):
    """Draw the row's missing entries from N(zμ, σ²), s = S z, and put them into x and T."""
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


@njit(cache=True, nogil=True)
def draw_bits(rng, rows, n, x, x2, k, b, G, s, h, tables, scales):
    """The row's shared bits, one by one; fills s = S z and h = G z; returns zSz, ρ and flips."""
    half_d = 0.5 * scales.dimensions
    precision = 0.5 / (scales.sigma_x * scales.sigma_x)
    log_odds = tables.log_odds
    theta = tables.row_potentials
    has_theta = theta is not None
    z = rows.Z[n]
    times_bits(rows.S, z, k, s)
    times_bits(G, z, k, h)
    q = dot_bits(z, s, k)
    c = dot_bits(z, b, k)
    g = dot_bits(z, h, k)
    flips = 0
    F = count_on(z, k) if has_theta else 0
    for i in range(k):
        m = rows.m[i]
        if m == 0.0:
            continue
        sign = -1.0 if z[i] else 1.0
        q_new = max(q + 2.0 * sign * s[i] + rows.S[i, i], 0.0)
        c_new = c + sign * b[i]
        g_new = g + 2.0 * sign * h[i] + G[i, i]
        log_ratio = (
            -half_d * np.log((1.0 + q_new) / (1.0 + q))
            - precision
            * ((x2 - 2.0 * c_new + g_new) / (1.0 + q_new) - (x2 - 2.0 * c + g) / (1.0 + q))
            + sign * log_odds[int(m)]
        )
        if has_theta:
            log_ratio += sign * row_step(theta, F - z[i])
        if rng.random() * (1.0 + np.exp(-log_ratio)) < 1.0:
            flips += 1
            F += -1 if z[i] else 1
            flip(rows, n, x, k, i)
            for j in range(k):
                s[j] += sign * rows.S[i, j]
                h[j] += sign * G[i, j]
            q = q_new
            c = c_new
            g = g_new
    return q, max(x2 - 2.0 * c + g, 0.0), flips


@njit(cache=True, nogil=True)
def set_own_features(rng, rows, n, x, k, own, new, r):
    """Change the number of features that only row n has; a random one goes, a new one's position is
    random. Returns the arrays, grown if need be, and K."""
    while own > new:
        i = own_feature(rows.m, int(rng.random() * own))
        flip(rows, n, x, k, i)
        drop_feature(rows, k, i)
        k -= 1
        own -= 1
    if k + new - own > rows.m.shape[0]:
        rows = grow(rows, k + new - own)
    while own < new:
        rows.m[k] = 0.0
        rows.T[k] = 0.0
        for M in (rows.C, rows.S, rows.G):
            M[k, : k + 1] = 0.0
            M[: k + 1, k] = 0.0
        rows.S[k, k] = 1.0 / r
        k += 1
        own += 1
        flip(rows, n, x, k, k - 1)
        at = int(rng.random() * k)
        if at != k - 1:
            swap_features(rows, k, at, k - 1)
    return rows, k


@njit(cache=True, nogil=True)
def scratch(cap):
    """Room for μx, Tx, S z, G z, what left, and G_o."""
    return (
        np.zeros(cap),
        np.zeros(cap),
        np.zeros(cap),
        np.zeros(cap),
        np.zeros((2, cap)),
        np.zeros((cap, cap)),
    )


@njit(cache=True, nogil=True)
def masked_sweep(rng, X, mask, rows, k, tables, scales, refresh_every):
    """One pass over all rows, changing the missing entries of X as it goes."""
    n_rows, d = X.shape
    r = (scales.sigma_x / scales.sigma_a) ** 2
    theta = tables.row_potentials
    flips = 0
    refreshes = 1
    drift = 0.0
    refresh(rows, k, r)
    cap = rows.m.shape[0]
    b, y, s, h, out, G = scratch(cap)
    since = 0
    lost = 0.0
    for n in range(n_rows):
        x = X[n]
        z = rows.Z[n]
        seen = np.flatnonzero(mask[n])
        gone = np.flatnonzero(~mask[n])
        # the row leaves
        dot_rows(rows.T, x, k, y)
        for i in range(k):
            b[i] = dot(rows.S[i], y, k)
        own, V_left, c0, c1, c2 = leave(rows, x, z, b, dot(x, x, d), k, r, out, s, h)
        if c0 != 0.0:
            take_out(rows, out[0], out[1], c0, c1, c2, k, r)
        # its bits and its own features, given what was observed of it
        x2 = project(rows, x * mask[n], z, k, b, y)
        observed_products(rows, x, z, k, seen, gone, G)
        part = Scales(scales.sigma_x, scales.sigma_a, max(float(len(seen)), NO_DIMENSION))
        q, rho, changed = draw_bits(rng, rows, n, x, x2, k, b, G, s, h, tables, part)
        flips += changed
        free = -1 if tables.capacity < 0 else tables.capacity - (k - own)
        others = count_on(z, k) - own if theta is not None else 0
        weights = NewFeatures(tables.new_log_weight, free, others, MOST_NEW)
        row = gaussian_row(rho, max(1.0 + q - own / r, 1.0), r, part)
        new = draw(rng, weights, theta, row, None)
        if new > MOST_NEW:
            return rows, Report(k, flips, refreshes, drift, n)
        flips += abs(new - own)
        rows, k = set_own_features(rng, rows, n, x, k, own, new, r)
        if rows.m.shape[0] > cap:
            cap = rows.m.shape[0]
            b, y, s, h, out, G = scratch(cap)
        z = rows.Z[n]
        times_bits(rows.S, z, k, s)
        V = 1.0 + max(dot_bits(z, s, k), 0.0)
        # its missing entries, and the row returns
        draw_missing(rng, rows, x, z, k, gone, s, scales.sigma_x * np.sqrt(V))
        x2 = project(rows, x, z, k, b, y)
        times_bits(rows.G, z, k, h)
        rho = x2 - 2.0 * dot_bits(z, b, k) + dot_bits(z, h, k)
        for i in range(k):
            h[i] = b[i] - h[i]
            rows.m[i] += z[i]
        rank_one(rows.S, rows.G, s, h, -1.0 / V, 1.0 / V, rho / (V * V), k)
        since += 1
        sunk = V >= SUNK
        V -= new / r
        lost += V * V if V_left >= RISKY else max(V, V_left) ** 2
        if (
            sunk or V >= RISKY
        ):  # what the row's return cost is mended at once, before it is ever used
            refresh(rows, k, r)
            refreshes += 1
            lost = 0.0
        if since >= refresh_every or lost > LOST_DIGITS:
            drift = max(drift, refresh(rows, k, r))
            refreshes += 1
            since = 0
            lost = 0.0
    drift = max(drift, refresh(rows, k, r))
    return rows, Report(k, flips, refreshes, drift, -1)
