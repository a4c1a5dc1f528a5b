r"""The rows that may follow a candidate of a search, scored: all of them, or a beam within the row.

A candidate is Z of the rows so far, with A integrated out. Columns that miss the same rows are a
group g, with M, G = μμᵀ and b = μ x of its own (one group, where nothing is missing). The next row
is  x_g | z, j ~ N(zμ_g, σ_x² V_g I),  V_g = 1 + z M_g zᵀ + j/r,  j the features it opens, and

    score(z, j) = rest + Σ_k z_k take_k + new(j) − ties(z, j) + Σ_g log N(x_g; zμ_g, σ_x² V_g I),

over the groups that it shows, where ``rest``, ``take`` and ``new`` come from a bound of what the
prior can be in the end (``engines/search/prior_bounds.py``) and from a guess of what later rows
add. Equal columns are told apart by nothing: of rows that take equally many of them only the one
that takes the first is looked at, so that every class of matrices is reached once.

    every row     2^K of them in Gray-code order: one bit changes at a time, and O(1) numbers of
                  M z and G z with it, since bit i changes only when those below it are known
    within a row  the best rows found so far, each changed in one bit, until no change is among
                  the best: O(K²) a row that is kept, O(K) one that is looked at

and as much for every group.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.masked_row_posterior import log_density

CLOSE = 1e-9  # relative: scores that may be of the same row
TAIL = 25.0  # of log score, below the best number of new features, where further ones are left out


class Noise(NamedTuple):
    """The scales of a Gaussian row: r = (σ_x/σ_a)² and 1/2σ_x²."""

    r: float
    precision: float


class Seen(NamedTuple):
    """What is known of the S groups of columns that a row shows, and what it shows of them."""

    M: np.ndarray  # (S, K, K)
    G: np.ndarray  # (S, K, K)
    b: np.ndarray  # (S, K)
    x2: np.ndarray  # (S,) ‖x‖²
    dims: np.ndarray  # (S,) how many columns


class RowScore(NamedTuple):
    """What a row adds to a candidate's score, but for its density; ``noise`` is None where that is
    not Gaussian."""

    take: np.ndarray  # (K,) of taking each feature
    same: np.ndarray  # (K,) uint8: column i has been equal to column i − 1 so far
    rest: float  # of everything else, no tie counted
    new: float  # of each new feature
    future: np.ndarray  # of features that later rows open: by how many are free, or one number
    free: int  # features that may still be opened, −1 for any number
    most_new: int
    floor: float  # scores below it are of no use
    ties_left: int  # rows that may still part equal columns: all that are left, or 0
    slack_take: np.ndarray  # (K,) of each feature if it is taken: see ``parting``
    slack_stay: np.ndarray  # (K,) and if not
    slack_new: float
    noise: Noise | None = None


class Found(NamedTuple):
    """Room for the rows that are kept, a heap with the lowest score first."""

    score: np.ndarray  # (room,)
    bits: np.ndarray  # (room, K) uint8
    new: np.ndarray  # (room,) int64


@helper
def ties(count, left):
    """Σ_h log c_h! of equal columns that ``left`` rows part as evenly as they can."""
    if count < 2 or left > 30:
        return 0.0
    cells = 1 << left
    if count <= cells:
        return 0.0
    each = count // cells
    more = count - each * cells
    return more * lgamma(each + 2.0) + (cells - more) * lgamma(each + 1.0)


@helper
def parting(count, left, slack):
    r"""What equal columns lose at least, of the most that each of them may be worth by itself.

    The ties of columns parted evenly; or, since Σ_c ∏_h W_h^{c_h}/c_h! over all ways to give their
    histories h is (Σ_h W_h)^c / c!, no way has more than c log W − log c!. ``slack`` is what
    log W = log Σ_h W_h, of all histories, is above the largest of them.
    """
    return max(ties(count, left), lgamma(count + 1.0) - count * slack) if count > 1 else 0.0


@helper
def parted_ties(z, row, k):
    """What all old columns that are equal lose, once the row has taken those of z."""
    same, left = row.same, row.ties_left
    total = 0.0
    i = 0
    while i < k:
        ones = 0
        size = 0
        while True:
            ones += z[i]
            size += 1
            i += 1
            if i >= k or not same[i]:
                break
        total += parting(ones, left, row.slack_take[i - 1])
        total += parting(size - ones, left, row.slack_stay[i - 1])
    return total


@helper
def can_tie(row, k):
    """Whether equal columns may lose anything; if all of a group do not, no part of it does."""
    size = 1
    for i in range(1, k):
        size = size + 1 if row.same[i] else 1
        slack = min(row.slack_take[i], row.slack_stay[i])
        if parting(size, row.ties_left, slack) > 0.0:
            return True
    return False


@helper
def later(row, j):
    """What features opened by later rows may add, once this row has opened j."""
    return row.future[0] if row.free < 0 else row.future[row.free - j]


@helper
def next_new(row, j):
    """What the (j + 1)-th new feature adds to the prior's bound, its tie with the others too."""
    left, slack = row.ties_left, row.slack_new
    gain = row.new - parting(j + 1, left, slack) + parting(j, left, slack)
    return gain if row.free < 0 else gain + np.log(float(row.free - j))


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
def sift(found, size, i):
    """Restore the heap below position i."""
    while True:
        low = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < size and found.score[child] < found.score[low]:
                low = child
        if low == i:
            return
        swap(found, i, low)
        i = low


@helper
def swap(found, a, b):
    found.score[a], found.score[b] = found.score[b], found.score[a]
    found.new[a], found.new[b] = found.new[b], found.new[a]
    for i in range(found.bits.shape[1]):
        found.bits[a, i], found.bits[b, i] = found.bits[b, i], found.bits[a, i]


@helper
def put(found, i, score, z, j):
    found.score[i], found.new[i] = score, j
    for a in range(found.bits.shape[1]):
        found.bits[i, a] = z[a]


@helper
def keep(found, size, score, z, j):
    """Keep a row while there is room, or in place of the lowest; returns how many there are and
    the score that was let go."""
    room = found.score.shape[0]
    if size < room:
        put(found, size, score, z, j)
        i = size
        while i > 0 and found.score[i] < found.score[(i - 1) // 2]:
            swap(found, i, (i - 1) // 2)
            i = (i - 1) // 2
        return size + 1, -np.inf
    lost = found.score[0]
    if score <= lost:
        return size, score
    put(found, 0, score, z, j)
    sift(found, size, 0)
    return size, lost


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
