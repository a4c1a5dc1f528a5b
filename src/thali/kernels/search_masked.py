r"""The rows that may follow a candidate of a search, where entries of X are missing.

As ``search_rows``, with the density of what the row shows (``masked_particle_rows``),

    score(z, j) = rest + Σ_k z_k take_k + new(j) − ties(z, j) + Σ_g log N(x_g; zμ_g, σ_x² V_g I),

over the S groups of columns that it shows. A row costs O(SK) for one bit that changes in the Gray
code, or S·K² for what a beam within the row follows, and then O(S) a change of it.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.masked_particle_rows import look, project, room_for
from thali.kernels.masked_row_posterior import log_density
from thali.kernels.search_rows import (
    CLOSE,
    TAIL,
    can_tie,
    in_order_after,
    keep,
    known,
    later,
    next_new,
    out_of_order,
    parted_ties,
)


@helper
def best_new(base, groups, row):
    """The highest score over the number of new features."""
    r, precision = row.noise.r, row.noise.precision
    prior = base
    best = -np.inf
    j = 0
    while True:
        best = max(best, prior + later(row, j) + log_density(groups, j / r, precision, False))
        if j == row.free or j >= row.most_new:
            return best
        gain = next_new(row, j)
        prior += gain
        if gain <= 0.0:
            peak = log_density(groups, (j + 1) / r, precision, True)
            if prior + later(row, j + 1) + peak <= best:
                return best
        j += 1


@helper
def keep_all_new(found, size, base, groups, row, z):
    """Keep z with every number of new features that is of use, as ``search_rows`` does."""
    r, precision = row.noise.r, row.noise.precision
    prior = base
    best = -np.inf
    lost = -np.inf
    j = 0
    while True:
        score = prior + later(row, j) + log_density(groups, j / r, precision, False)
        best = max(best, score)
        if score >= row.floor:
            size, gone = keep(found, size, score, z, j)
            lost = max(lost, gone)
        else:
            lost = max(lost, score)
        if j == row.free:
            return size, lost
        gain = next_new(row, j)
        prior += gain
        tail = prior + later(row, j + 1) + log_density(groups, (j + 1) / r, precision, True)
        if j >= row.most_new:
            return size, max(lost, tail if gain <= 0.0 else np.inf)
        low = found.score[0] if size == found.score.shape[0] else -np.inf
        if row.floor == -np.inf:
            low = max(low, best - TAIL)
        if gain <= 0.0 and (tail < row.floor or tail < low):
            return size, max(lost, tail)
        j += 1


@helper
def changed(M, G, view, i, sign, work):
    """ρ and V of each group with bit i changed, in ``work.other``."""
    for a in range(len(view.shown)):
        g = view.shown[a]
        rho = work.groups[0, a] + 2.0 * sign * (work.h[a, i] - work.b[a, i]) + G[g, i, i]
        V = work.groups[1, a] + 2.0 * sign * work.s[a, i] + M[g, i, i]
        work.other[0, a] = max(rho, 0.0)
        work.other[1, a] = max(V, 1.0)


@helper
def change(M, G, view, k, i, sign, work):
    """Change bit i."""
    changed(M, G, view, i, sign, work)
    for a in range(len(view.shown)):
        g = view.shown[a]
        work.groups[0, a], work.groups[1, a] = work.other[0, a], work.other[1, a]
        for j in range(k):
            work.s[a, j] += sign * M[g, i, j]
            work.h[a, j] += sign * G[g, i, j]


@kernel
def every_row(T, M, G, view, k, row, found, whole):
    """Keep the best of all 2^K rows and their new features; returns their number, and a bound of
    the scores of all others. With ``whole``, −1 where there is no room for all above the floor.
    """
    z = np.zeros(k, np.uint8)
    work = room_for(view, k)
    project(T, M, view, k, work)
    look(M, G, view, k, z, work)
    tied = can_tie(row, k)
    o = 0.0
    wrong = 0
    size = 0
    lost = -np.inf
    for t in range(1 << k):
        if t > 0:
            i = 0
            while not (t >> i) & 1:
                i += 1
            sign = -1.0 if z[i] else 1.0
            change(M, G, view, k, i, sign, work)
            o += sign * row.take[i]
            wrong -= out_of_order(z, row.same, k, i)
            z[i] = 1 - z[i]
            wrong += out_of_order(z, row.same, k, i)
        if wrong > 0:
            continue
        base = row.rest + o
        if tied:
            base -= parted_ties(z, row, k)
        size, gone = keep_all_new(found, size, base, work.groups, row, z)
        if whole and size == found.score.shape[0]:
            return -1, lost
        lost = max(lost, gone)
    return size, lost


class Beam(NamedTuple):
    """The best rows of a search within a row."""

    z: np.ndarray  # (W, K) uint8
    take: np.ndarray  # (W,) Σ take
    value: np.ndarray  # (W,)
    done: np.ndarray  # (W,) whether its changes have been looked at


@helper
def changed_value(M, G, view, k, row, tied, beam, w, i, trial, work):
    """The score of row w, that ``work`` is of, with bit i changed, at its best new features."""
    z = beam.z[w]
    sign = -1.0 if z[i] else 1.0
    changed(M, G, view, i, sign, work)
    base = row.rest + beam.take[w] + sign * row.take[i]
    if tied:
        for a in range(k):
            trial[a] = z[a]
        trial[i] = 1 - trial[i]
        base -= parted_ties(trial, row, k)
    return best_new(base, work.other, row)


@helper
def change_into(k, row, beam, w, i, to, value):
    """Write row w with bit i changed over row ``to``."""
    sign = -1.0 if beam.z[w, i] else 1.0
    beam.take[to] = beam.take[w] + sign * row.take[i]
    for a in range(k):
        beam.z[to, a] = beam.z[w, a]
    beam.z[to, i] = 1 - beam.z[to, i]
    beam.value[to] = value
    beam.done[to] = False


@kernel
def within_row(T, M, G, view, k, row, found, width):
    """Keep the best rows that a beam of changes of one bit finds, from the empty row on."""
    work = room_for(view, k)
    project(T, M, view, k, work)
    beam = Beam(
        np.zeros((width, k), np.uint8),
        np.zeros(width),
        np.full(width, -np.inf),
        np.zeros(width, np.bool_),
    )
    size = 1
    tied = can_tie(row, k)
    trial = np.zeros(k, np.uint8)
    base = row.rest
    if tied:
        base -= parted_ties(trial, row, k)
    look(M, G, view, k, beam.z[0], work)
    beam.value[0] = best_new(base, work.groups, row)
    while True:  # straight up from the empty row
        look(M, G, view, k, beam.z[0], work)
        best = beam.value[0]
        which = -1
        for i in range(k):
            if in_order_after(beam.z[0], row.same, k, i):
                value = changed_value(M, G, view, k, row, tied, beam, 0, i, trial, work)
                if value > best + CLOSE * (1.0 + abs(best)):
                    best = value
                    which = i
        if which < 0:
            break
        change_into(k, row, beam, 0, which, 0, best)
    for _ in range(4 * width):
        w = -1
        for p in range(size):
            if not beam.done[p] and (w < 0 or beam.value[p] > beam.value[w]):
                w = p
        if w < 0:
            break
        beam.done[w] = True
        look(M, G, view, k, beam.z[w], work)
        for i in range(k):
            if not in_order_after(beam.z[w], row.same, k, i):
                continue
            value = changed_value(M, G, view, k, row, tied, beam, w, i, trial, work)
            low = size
            if size == width:
                low = int(np.argmin(beam.value))
                if value <= beam.value[low] or low == w:
                    continue
            if known(beam, size, w, i, value, k):
                continue
            change_into(k, row, beam, w, i, low, value)
            size = max(size, low + 1)
    kept = 0
    for p in range(size):
        base = row.rest + beam.take[p]
        if tied:
            base -= parted_ties(beam.z[p], row, k)
        look(M, G, view, k, beam.z[p], work)
        kept, _ = keep_all_new(found, kept, base, work.groups, row, beam.z[p])
    return kept
