r"""The rows that may follow a candidate of a search, scored: all of them, or a beam within the row.

A candidate is Z of the rows so far, with A integrated out. Columns that miss the same rows are a
group g, with M, G = μμᵀ and b = μ x of its own (one group, where nothing is missing). The next row
is  x_g | z, j ~ N(zμ_g, σ_x² V_g I),  V_g = 1 + z M_g zᵀ + j/r,  j the features it opens, and

    score(z, j) = rest + Σ_k z_k take_k + new(j) − ties(z, j) + Σ_g log N(x_g; zμ_g, σ_x² V_g I),

over the groups that it shows, where all but the densities is the prior's part (``search_scores``).
Equal columns are told apart by nothing: of rows that take equally many of them only the one that
takes the first is looked at, so that every class of matrices is reached once.

    every row     2^K of them in Gray-code order: one bit changes at a time, and O(1) numbers of
                  M z and G z with it, since bit i changes only when those below it are known
    within a row  the best rows found so far, each changed in one bit, until no change is among
                  the best: O(K²) a row that is kept, O(K) one that is looked at

and as much for every group.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.masked_row_posterior import log_density
from thali.kernels.search_heap import keep
from thali.kernels.search_scores import can_tie, later, next_new, parted_ties

CLOSE = 1e-9  # relative: scores that may be of the same row
TAIL = 25.0  # of log score, below the best number of new features, where further ones are left out


class Seen(NamedTuple):
    """What is known of the S groups of columns that a row shows, and what it shows of them."""

    M: np.ndarray  # (S, K, K)
    G: np.ndarray  # (S, K, K)
    b: np.ndarray  # (S, K)
    x2: np.ndarray  # (S,) ‖x‖²
    dims: np.ndarray  # (S,) how many columns


@helper(borrows=True)
def fit_of(seen, sums, groups):
    """Fill ρ and V of each group, by its z M zᵀ, z b and z G zᵀ."""
    for a in range(groups.shape[1]):
        groups[0, a] = max(seen.x2[a] - 2.0 * sums[1, a] + sums[2, a], 0.0)
        groups[1, a] = 1.0 + max(sums[0, a], 0.0)


@helper
def best_new(base, groups, row):
    """The highest score over the number of new features."""
    r, precision = row.noise
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
    """Keep z with every number of new features that is of use.

    Returns how many rows there are, and a bound of the scores that were let go. Where there is no
    floor, numbers far behind the best one are left out.
    """
    r, precision = row.noise
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
        # of all further numbers, once gains are losses
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
def out_of_order(z, same, k, i):
    """How many of the pairs of equal columns that i is in are not in the order of the rule."""
    count = 0
    if same[i] and z[i] > z[i - 1]:
        count += 1
    if i + 1 < k and same[i + 1] and z[i + 1] > z[i]:
        count += 1
    return count


@helper
def room_of(seen):
    """Room for ρ and V of each group, the numbers of columns in place."""
    groups = np.zeros((3, len(seen.dims)))
    groups[2] = seen.dims
    return groups


@kernel
def every_row(seen, k, row, found, whole):
    """Keep the best of all 2^K rows and their new features; returns their number, and a bound of
    the scores of all others. With ``whole``, −1 where there is no room for all above the floor.
    """
    M, G, b = seen.M, seen.G, seen.b
    z = np.zeros(k, np.uint8)
    s = np.zeros((len(b), k))  # Σ_{l>i} S_il z_l
    h = np.zeros((len(b), k))
    sums, groups = np.zeros((3, len(b))), room_of(seen)
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
            for g in range(len(b)):
                # just below bit i, one is set; the rest are not
                below_s = M[g, i, i - 1] if i > 0 else 0.0
                below_h = G[g, i, i - 1] if i > 0 else 0.0
                sums[0, g] += sign * (2.0 * (s[g, i] + below_s) + M[g, i, i])
                sums[1, g] += sign * b[g, i]
                sums[2, g] += sign * (2.0 * (h[g, i] + below_h) + G[g, i, i])
                for a in range(i):
                    s[g, a] += sign * M[g, i, a]
                    h[g, a] += sign * G[g, i, a]
            o += sign * row.take[i]
            wrong -= out_of_order(z, row.same, k, i)
            z[i] = 1 - z[i]
            wrong += out_of_order(z, row.same, k, i)
        if wrong > 0:
            continue
        base = row.rest + o
        if tied:
            base -= parted_ties(z, row, k)
        fit_of(seen, sums, groups)
        size, gone = keep_all_new(found, size, base, groups, row, z)
        if whole and size == found.score.shape[0]:
            return -1, lost
        lost = max(lost, gone)
    return size, lost


class Beam(NamedTuple):
    """The best rows of a search within a row; z M zᵀ, z b and z G zᵀ of each group in ``sums``."""

    z: np.ndarray  # (W, K) uint8
    s: np.ndarray  # (W, S, K) M z
    h: np.ndarray  # (W, S, K) G z
    sums: np.ndarray  # (W, 3, S)
    take: np.ndarray  # (W,) Σ take
    value: np.ndarray  # (W,)
    done: np.ndarray  # (W,) whether its changes have been looked at


@helper(borrows=True)
def changed_sums(seen, beam, w, i, sums):
    """Fill the sums of row w with bit i changed; these may be those of another row."""
    sign = -1.0 if beam.z[w, i] else 1.0
    for g in range(sums.shape[1]):
        sums[0, g] = beam.sums[w, 0, g] + 2.0 * sign * beam.s[w, g, i] + seen.M[g, i, i]
        sums[1, g] = beam.sums[w, 1, g] + sign * seen.b[g, i]
        sums[2, g] = beam.sums[w, 2, g] + 2.0 * sign * beam.h[w, g, i] + seen.G[g, i, i]


@helper
def changed_value(seen, k, row, tied, beam, w, i, trial, sums, groups):
    """The score of row w with bit i changed, at its best number of new features."""
    z = beam.z[w]
    changed_sums(seen, beam, w, i, sums)
    base = row.rest + beam.take[w] + (-row.take[i] if z[i] else row.take[i])
    if tied:
        for a in range(k):
            trial[a] = z[a]
        trial[i] = 1 - trial[i]
        base -= parted_ties(trial, row, k)
    fit_of(seen, sums, groups)
    return best_new(base, groups, row)


@helper
def change_into(seen, k, row, beam, w, i, to, value):
    """Write row w with bit i changed over row ``to``."""
    sign = -1.0 if beam.z[w, i] else 1.0
    changed_sums(seen, beam, w, i, beam.sums[to])
    beam.take[to] = beam.take[w] + sign * row.take[i]
    for g in range(len(seen.b)):
        for a in range(k):
            beam.s[to, g, a] = beam.s[w, g, a] + sign * seen.M[g, i, a]
            beam.h[to, g, a] = beam.h[w, g, a] + sign * seen.G[g, i, a]
    for a in range(k):
        beam.z[to, a] = beam.z[w, a]
    beam.z[to, i] = 1 - beam.z[to, i]
    beam.value[to] = value
    beam.done[to] = False


@helper
def known(beam, size, w, i, value, k):
    """Whether row w with bit i changed is in the beam already."""
    for p in range(size):
        if abs(beam.value[p] - value) <= CLOSE * (1.0 + abs(value)):
            equal = True
            for a in range(k):
                if beam.z[p, a] != (1 - beam.z[w, a] if a == i else beam.z[w, a]):
                    equal = False
                    break
            if equal:
                return True
    return False


@helper
def in_order_after(z, same, k, i):
    """Whether z with bit i changed takes the first of equal columns."""
    bit = 1 - z[i]
    if bit:
        return not (same[i] and not z[i - 1])
    return not (i + 1 < k and same[i + 1] and z[i + 1])


@kernel
def within_row(seen, k, row, found, width):
    """Keep the best rows that a beam of changes of one bit finds, from the empty row on."""
    size, shown = 1, len(seen.b)
    beam = Beam(
        np.zeros((width, k), np.uint8),
        np.zeros((width, shown, k)),
        np.zeros((width, shown, k)),
        np.zeros((width, 3, shown)),
        np.zeros(width),
        np.full(width, -np.inf),
        np.zeros(width, np.bool_),
    )
    sums, groups = np.zeros((3, shown)), room_of(seen)
    tied = can_tie(row, k)
    trial = np.zeros(k, np.uint8)
    base = row.rest
    if tied:
        base -= parted_ties(trial, row, k)
    fit_of(seen, beam.sums[0], groups)
    beam.value[0] = best_new(base, groups, row)
    # straight up from the empty row, so that the beam is not filled with what lies on the way
    while True:
        best = beam.value[0]
        which = -1
        for i in range(k):
            if in_order_after(beam.z[0], row.same, k, i):
                value = changed_value(seen, k, row, tied, beam, 0, i, trial, sums, groups)
                if value > best + CLOSE * (1.0 + abs(best)):
                    best = value
                    which = i
        if which < 0:
            break
        change_into(seen, k, row, beam, 0, which, 0, best)
    for _ in range(4 * width):
        w = -1
        for p in range(size):
            if not beam.done[p] and (w < 0 or beam.value[p] > beam.value[w]):
                w = p
        if w < 0:
            break
        beam.done[w] = True
        for i in range(k):
            if not in_order_after(beam.z[w], row.same, k, i):
                continue
            value = changed_value(seen, k, row, tied, beam, w, i, trial, sums, groups)
            low = size
            if size == width:
                low = int(np.argmin(beam.value))
                if value <= beam.value[low] or low == w:
                    continue
            if known(beam, size, w, i, value, k):
                continue
            change_into(seen, k, row, beam, w, i, low, value)
            size = max(size, low + 1)
    kept = 0
    for p in range(size):
        base = row.rest + beam.take[p]
        if tied:
            base -= parted_ties(beam.z[p], row, k)
        fit_of(seen, beam.sums[p], groups)
        kept, _ = keep_all_new(found, kept, base, groups, row, beam.z[p])
    return kept
