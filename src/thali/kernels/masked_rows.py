r"""What a sweep of collapsed Gibbs sampling does where some entries of X are missing.

X is complete: its missing entries hold their last draws. But a row's own missing entries are no
reason to keep its bits as they are, since they were drawn given those bits, and a row of which
little was observed would hardly move. So bits and missing entries of a row are drawn together,
given all other rows: with o the row's observed columns and D_o their number,

    x_o | z ~ N(zμ_o, σ_x²(1 + z M zᵀ) I)                    the bits and the number of new features
    x_m | z ~ N(zμ_m, σ_x²(1 + z M zᵀ) I)                    then its missing entries

where M and μ = M T of the other rows are as in ``collapsed_rows``. Beside M and G = μμᵀ the sweep
maintains μ itself. Of the columns w, the missing ones or the observed ones if these are fewer, μ_w
without the row is set side by side; b_o = μ_o x_o, μ_oμ_oᵀz and the diagonal of μ_oμ_oᵀ follow from
it, or from it and what G and b = μ x have of all columns. Of μ_oμ_oᵀ no more is ever made than the
rows of the features whose bits turn. A row that keeps its bits leaves M as it was, and changes μ
and G by its new entries; one that changes takes itself out of μ and comes back to it, K·D each.

So a row costs a few times K·min(D_o, D − D_o) more than one without missing entries, and
K·(D − D_o) for what is drawn.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.copying import put, put_matrix
from thali.kernels.maintained_rows import FAST, multiply

NO_DIMENSION = 1e-300  # D_o of a row of which nothing was observed; a divisor, so not quite 0


class Gaps(NamedTuple):
    """Where entries are missing: of each row, one after the other, and of each pattern of columns
    (``masked_columns``)."""

    seen: np.ndarray  # (N, D) bool
    first: np.ndarray  # (N + 1,): row n misses columns[first[n]:first[n + 1]]
    columns: np.ndarray  # unsigned, as are all numbers of columns here: there is none below zero
    of_column: np.ndarray  # (D,) the pattern of each column
    start: np.ndarray  # (P + 1,)
    rows: np.ndarray
    squares: float  # Σx² of what was observed


class Means(NamedTuple):
    """μ = M T as M has it, and of some columns what it is without the row that is visited."""

    mu: np.ndarray  # (cap, D)
    part: np.ndarray  # (cap, D): of the columns in ``at``, side by side
    at: np.ndarray  # (D,)
    x: np.ndarray  # (D,) the row there
    e: np.ndarray  # (D,) x − zμ
    along: np.ndarray  # (D,) zμ without the row
    diagonal: np.ndarray  # (cap,) of μ_oμ_oᵀ
    before: np.ndarray  # (cap,) the bits that the row came with


@helper
def room_for_means(cap, d):
    """Room for that many features."""
    flat = np.zeros((4, d))
    return Means(
        np.zeros((cap, d)),
        np.zeros((cap, d)),
        np.zeros(d, np.uint64),
        flat[0],
        flat[1],
        flat[2],
        np.zeros(cap),
        np.zeros(cap, np.uint8),
    )


@helper
def means_afresh(means, rows, k):
    """μ = M T."""
    if k > 0:
        put_matrix(means.mu, multiply(rows.M, rows.T, k))


@helper
def means_without(means, rows, x, s, k):
    """μ without the row whose x is in T still, but which has left M; s = M z."""
    means_afresh(means, rows, k)
    for i in range(k):
        if rows.m[i] == 0.0:
            means.mu[i] = 0.0
    for i in range(k):
        if rows.m[i] == 0.0:
            continue
        for c in range(x.shape[0]):
            means.mu[i, c] -= s[i] * x[c]


@helper(borrows=True, fastmath=FAST)
def observed_square(x, seen):
    """‖x_o‖², exactly zero where nothing was observed."""
    total = 0.0
    for c in range(x.shape[0]):
        total += x[c] * x[c] * seen[c]
    return total


@helper(borrows=True, fastmath=FAST)
def full_square(x):
    total = 0.0
    for c in range(x.shape[0]):
        total += x[c] * x[c]
    return total


@helper(borrows=True)
def choose(at, seen, gone):
    """Put the numbers of the missing columns into ``at``, or of the observed ones where these are
    fewer; returns how many, and whether it is the missing ones."""
    count = gone.shape[0]
    if 2 * count <= seen.shape[0]:
        for j in range(count):
            at[j] = gone[j]
        return count, True
    count = 0
    for c in range(seen.shape[0]):
        if seen[c]:
            at[count] = c
            count += 1
    return count, False


@helper(borrows=True, fastmath=FAST)
def expect(means, at, count, x, z, m, k, u, c0):
    """zμ without the row, of ``count`` columns in ``at``, into ``along``, and x − zμ into e.

    μ may have the row in, as ``leave`` tells by u and c₀: without it, it is μ − c₀u(x − zμ).
    """
    xs, e, along = means.x, means.e, means.along
    for j in range(count):
        xs[j] = e[j] = x[at[j]]
        along[j] = 0.0
    step = 0.0
    for i in range(k):
        row = means.mu[i]
        if z[i] and m[i] == 0.0:
            for j in range(count):
                e[j] -= row[at[j]]
        elif z[i]:
            step += c0 * u[i]
            for j in range(count):
                along[j] += row[at[j]]
    for j in range(count):
        e[j] -= along[j]
        along[j] -= step * e[j]


@helper(borrows=True, fastmath=FAST)
def look_away(means, G, count, fewer, k, m, b, h, u, v, c0, c1, c2):
    """b = μ_o x_o and h = μ_oμ_oᵀz in place of those of all columns, and the diagonal of μ_oμ_oᵀ.

    ``expect`` was asked of what is missing, where that is ``fewer``, or else of what was observed;
    μ of these columns without the row is set aside.
    """
    at, xs, e, along = means.at, means.x, means.e, means.along
    for i in range(k):
        row, part, step = means.mu[i], means.part[i], c0 * u[i]
        to_x = to_z = square = 0.0
        if m[i] == 0.0:  # no other row has it
            for j in range(count):
                part[j] = 0.0
        else:
            for j in range(count):
                value = row[at[j]] - step * e[j]
                part[j] = value
                to_x += value * xs[j]
                to_z += value * along[j]
                square += value * value
        if fewer:
            b[i] -= to_x
            h[i] -= to_z
            square = G[i, i] + (2.0 * c1 * v[i] + c2 * u[i]) * u[i] - square
        else:
            b[i] = to_x
            h[i] = to_z
        means.diagonal[i] = square


@helper(borrows=True, fastmath=FAST)
def turn_unseen(means, G, i, sign, count, fewer, k, h, u, v, c1, c2):
    """h += ± row i of μ_oμ_oᵀ."""
    mine = means.part[i]
    away = -sign if fewer else sign
    for o in range(k):
        part, total = means.part[o], 0.0
        for j in range(count):
            total += mine[j] * part[j]
        h[o] += away * total
        if fewer:
            h[o] += sign * (G[i, o] + c1 * v[i] * u[o] + (c1 * v[o] + c2 * u[o]) * u[i])


@helper
def draw_missing(rng, along, x, gone, sigma, e):
    """Draw the row's missing entries from N(zμ, σ²) into x; e has their changes Δ.

    Returns the sum of their squares and that of their changes.
    """
    x2 = change2 = 0.0
    for j in range(gone.shape[0]):
        c = gone[j]
        new = along[j] + sigma * rng.standard_normal()
        change = new - x[c]
        e[j] = change
        x[c] = new
        x2 += new * new
        change2 += change * change
    return x2, change2


@helper(borrows=True, fastmath=FAST)
def add_entries(T, e, z, k, gone):
    """T of a row's new entries."""
    for i in range(k):
        if z[i]:
            row = T[i]
            for j in range(gone.shape[0]):
                row[gone[j]] += e[j]


@helper(borrows=True, fastmath=FAST)
def change_entries(means, G, u, change2, k, gone, w):
    """μ and G where a row in them has new entries and its old bits: with u = M z

    μ ← μ + uΔᵀ,   G ← G + u(μΔ)ᵀ + (μΔ)uᵀ + ‖Δ‖² uuᵀ.
    """
    e = means.e
    for i in range(k):
        row, total, step = means.mu[i], 0.0, u[i]
        for j in range(gone.shape[0]):
            total += row[gone[j]] * e[j]
            row[gone[j]] += step * e[j]
        w[i] = total
    for i in range(k):
        along_w = u[i]
        along_u = w[i] + change2 * u[i]
        for j in range(k):
            G[i, j] += along_w * w[j] + along_u * u[j]


@helper(borrows=True, fastmath=FAST)
def residual(means, x, z, k):
    """e = x − zμ of all columns."""
    e = means.e
    for c in range(x.shape[0]):
        e[c] = x[c]
    for i in range(k):
        if z[i]:
            row = means.mu[i]
            for c in range(x.shape[0]):
                e[c] -= row[c]


@helper(borrows=True, fastmath=FAST)
def take_out_of_means(means, x, m, k, u, c0):
    """μ without the row, which came with the bits ``before``; its own features have none."""
    residual(means, x, means.before, k)
    e = means.e
    for i in range(k):
        row = means.mu[i]
        if m[i] == 0.0:
            for c in range(x.shape[0]):
                row[c] = 0.0
        else:
            step = c0 * u[i]
            for c in range(x.shape[0]):
                row[c] -= step * e[c]


@helper(borrows=True, fastmath=FAST)
def put_into_means(means, x, z, k, s, V):
    """μ as the row returns, with bits z and s = M z without it: μ + s(x − zμ)/V."""
    residual(means, x, z, k)
    e = means.e
    for i in range(k):
        row, step = means.mu[i], s[i] / V
        for c in range(x.shape[0]):
            row[c] += step * e[c]


@helper(borrows=True, fastmath=FAST)
def add_unseen(means, x, k, gone, b):
    """b = μ x from b = μ_o x_o."""
    for i in range(k):
        row, total = means.mu[i], 0.0
        for j in range(gone.shape[0]):
            total += row[gone[j]] * x[gone[j]]
        b[i] += total


@helper
def drop_mean(means, k, gone):
    """Feature ``gone`` of k goes, the last one takes its place."""
    if gone != k - 1:
        put(means.mu[gone], means.mu[k - 1])


@helper
def open_mean(means, k, at):
    """A feature without μ takes place ``at`` of k + 1; what was there goes to the end."""
    for c in range(means.mu.shape[1]):
        means.mu[k, c] = means.mu[at, c]
        means.mu[at, c] = 0.0


@helper
def more_means(means, cap):
    """The same with room for more features."""
    wider = room_for_means(cap, means.mu.shape[1])
    put_matrix(wider.mu, means.mu)
    put(wider.before, means.before)
    return wider
