r"""The rows that may follow a candidate of a search where binary parameters Y are at their best.

    P(x_it | z_i, y_t) depends on c = z_i·y_t alone,   y_kt ~ Bernoulli(p)

Columns t are independent given Z, and those with one history of x so far are alike. For each such
group a candidate has a list of settings y of its K features, the best first, with

    V(y) = Σ_{i so far} log P(x_i | z_i·y) + log P(y),

all 2^K of them while there is room; ``dropped`` is the highest value of those that were left out.
The next row z, which opens j features (a of them active), makes the best of a group

    max_y [V(y) + h_j(x, z·y)],   h_j(x, c) = max_a [log P(a of j) + log P(x | c + a)],

and as h_j ≤ 0, looking along the list stops as soon as V itself is too low. A setting left out
comes to at most dropped + max_c h_j(x, c), which is counted wherever it is higher than what was
found: a score is never below the best over all Y.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.search_heap import keep
from thali.kernels.search_rows import CLOSE, TAIL, in_order_after
from thali.kernels.search_scores import can_tie, later, next_new, parted_ties


class Lists(NamedTuple):
    """Settings of Y for each group of columns, as bits of a number, the best first."""

    value: np.ndarray  # (G, S) V(y), log P(y) less its highest value
    state: np.ndarray  # (G, S) int64
    dropped: np.ndarray  # (G,) no setting that is left out has more


class Groups(NamedTuple):
    """Groups of columns once a row is in: of which group before, its x there, and how many."""

    parent: np.ndarray
    x: np.ndarray
    weight: np.ndarray


class Entries(NamedTuple):
    """log P(x | c) by c and x, and log P(y) of an active feature and an idle one, the higher 0."""

    table: np.ndarray
    on: float
    off: float


class Fits(NamedTuple):
    """h_j(x, c) of every number of new features, then its bound over all j, and max over c."""

    h: np.ndarray  # (J + 2, 2, K + 1)
    most: np.ndarray  # (J + 2, 2)


@helper
def count_bits(a):
    """How many bits of a number are set."""
    count = 0
    while a:
        a &= a - 1
        count += 1
    return count


@kernel
def fits_of(entries, k, most_new):
    """h_j for j = 0 … most_new, and what no h_j is above: more active features never help x = 0."""
    h = np.zeros((most_new + 2, 2, k + 1))
    for x in range(2):
        for c in range(k + 1):
            for j in range(most_new + 1):
                best = -np.inf
                for a in range(j + 1):
                    of = a * entries.on + (j - a) * entries.off + entries.table[c + a, x]
                    best = max(best, of)
                h[j, x, c] = best
            h[most_new + 1, x, c] = 0.0 if x else entries.table[c, 0]
    most = np.full((most_new + 2, 2), -np.inf)
    for j in range(most_new + 2):
        for x in range(2):
            for c in range(k + 1):
                most[j, x] = max(most[j, x], h[j, x, c])
    return Fits(h, most)


@helper
def best_fit(z, lists, groups, h, most):
    """Σ over columns of the best over Y, the next row being z (as bits)."""
    total = 0.0
    for g in range(groups.parent.shape[0]):
        x = groups.x[g]
        values = lists.value[groups.parent[g]]
        states = lists.state[groups.parent[g]]
        best = lists.dropped[groups.parent[g]] + most[x]
        for s in range(values.shape[0]):
            if values[s] + most[x] <= best:
                break
            best = max(best, values[s] + h[x, count_bits(states[s] & z)])
        total += groups.weight[g] * best
    return total


@kernel
def fits_of_rows(z, new, lists, groups, fits):
    """``best_fit`` of several rows, each with its number of new features."""
    found = np.zeros(z.shape[0])
    for a in range(z.shape[0]):
        found[a] = best_fit(z[a], lists, groups, fits.h[new[a]], fits.most[new[a]])
    return found


@helper
def scores_by_new(base, z, lists, groups, fits, row, low, behind, scores):
    """Fill scores[j] for j = 0, 1, … new features, while they may reach ``low`` and be no more than
    ``behind`` the best; returns how many there are, and a bound of the scores of all further."""
    prior = base
    best = -np.inf
    peak = np.nan
    j = 0
    while True:
        fit = best_fit(z, lists, groups, fits.h[j], fits.most[j])
        scores[j] = prior + later(row, j) + fit
        best = max(best, scores[j])
        if j == row.free:
            return j + 1, -np.inf
        gain = next_new(row, j)
        prior += gain
        if gain <= 0.0:
            if np.isnan(peak):
                peak = best_fit(z, lists, groups, fits.h[-1], fits.most[-1])
            tail = prior + later(row, j + 1) + peak
            if tail < max(low, best - behind) or j >= row.most_new:
                return j + 1, tail
        elif j >= row.most_new:
            return j + 1, np.inf
        j += 1


@helper
def keep_all_new(found, size, base, z, bits, lists, groups, fits, row, scores):
    """Keep z with every number of new features that is of use; how many rows there are, and a bound
    of the scores that were let go."""
    low = found.score[0] if size == found.score.shape[0] else -np.inf
    low = max(low, row.floor)
    behind = TAIL if row.floor == -np.inf else np.inf
    count, lost = scores_by_new(base, z, lists, groups, fits, row, low, behind, scores)
    for j in range(count):
        if scores[j] >= row.floor:
            size, gone = keep(found, size, scores[j], bits, j)
            lost = max(lost, gone)
        else:
            lost = max(lost, scores[j])
    return size, lost


@helper
def write_bits(z, bits):
    for i in range(bits.shape[0]):
        bits[i] = (z >> i) & 1


@helper
def in_order(bits, same):
    """Whether of equal columns the first ones are taken."""
    wrong = 0
    for i in range(1, bits.shape[0]):
        wrong += same[i] and bits[i] > bits[i - 1]
    return wrong == 0


@helper
def base_of(bits, row, tied):
    """The score of a row but for its new features and its fit."""
    k = bits.shape[0]
    base = row.rest
    for i in range(k):
        base += bits[i] * row.take[i]
    if tied:
        base -= parted_ties(bits, row, k)
    return base


@kernel
def every_row(k, lists, groups, fits, row, found, whole):
    """Keep the best of all 2^K rows and their new features; returns their number, and a bound of
    the scores of all others. With ``whole``, −1 where there is no room for all above the floor.
    """
    bits = np.zeros(k, np.uint8)
    scores = np.zeros(row.most_new + 1)
    tied = can_tie(row, k)
    size = 0
    lost = -np.inf
    for z in range(1 << k):
        write_bits(z, bits)
        if not in_order(bits, row.same):
            continue
        if whole and size + row.most_new + 1 > found.score.shape[0]:
            return -1, lost
        base = base_of(bits, row, tied)
        size, gone = keep_all_new(found, size, base, z, bits, lists, groups, fits, row, scores)
        lost = max(lost, gone)
    return size, lost


@helper
def value_of(z, bits, lists, groups, fits, row, tied, scores):
    """The score of a row at its best number of new features."""
    write_bits(z, bits)
    base = base_of(bits, row, tied)
    count, _ = scores_by_new(base, z, lists, groups, fits, row, -np.inf, 0.0, scores)
    return scores[:count].max()


@kernel
def within_row(k, lists, groups, fits, row, found, width):
    """Keep the best rows that a beam of changes of one bit finds, from the empty row on."""
    bits = np.zeros(k, np.uint8)
    trial = np.zeros(k, np.uint8)
    scores = np.zeros(row.most_new + 1)
    tied = can_tie(row, k)
    rows = np.zeros(width, np.int64)
    values = np.full(width, -np.inf)
    done = np.zeros(width, np.bool_)
    values[0] = value_of(0, trial, lists, groups, fits, row, tied, scores)
    climbing = True  # straight up, so that the beam is not filled with what lies on the way
    while climbing:
        climbing = False
        write_bits(rows[0], bits)
        z = rows[0]
        for i in range(k):
            if in_order_after(bits, row.same, k, i):
                at = z ^ (1 << i)
                value = value_of(at, trial, lists, groups, fits, row, tied, scores)
                if value > values[0] + CLOSE * (1.0 + abs(values[0])):
                    values[0] = value
                    rows[0] = at
                    climbing = True
    size = 1
    for _ in range(4 * width):
        w = -1
        for p in range(size):
            if not done[p] and (w < 0 or values[p] > values[w]):
                w = p
        if w < 0:
            break
        done[w] = True
        z = rows[w]
        write_bits(z, bits)
        for i in range(k):
            at = z ^ (1 << i)
            if not in_order_after(bits, row.same, k, i) or (rows[:size] == at).any():
                continue
            value = value_of(at, trial, lists, groups, fits, row, tied, scores)
            low = size
            if size == width:
                low = int(np.argmin(values))
                if value <= values[low]:
                    continue
            rows[low] = at
            values[low] = value
            done[low] = False
            size = max(size, low + 1)
    kept = 0
    for p in range(size):
        write_bits(rows[p], bits)
        base = base_of(bits, row, tied)
        kept, _ = keep_all_new(found, kept, base, rows[p], bits, lists, groups, fits, row, scores)
    return kept


@kernel
def follow(lists, groups, z, k, new, entries, most, room):
    """The lists once the row z is in, with ``new`` features more: the best ``room`` settings."""
    size = lists.value.shape[1] << new
    kept = min(size, room)
    count = groups.parent.shape[0]
    found = Lists(np.empty((count, kept)), np.empty((count, kept), np.int64), np.empty(count))
    values = np.empty(size)
    states = np.empty(size, np.int64)
    for g in range(count):
        x = groups.x[g]
        parent = groups.parent[g]
        at = 0
        for s in range(lists.value.shape[1]):
            state = lists.state[parent, s]
            c = count_bits(state & z)
            for own in range(1 << new):
                a = count_bits(own)
                values[at] = lists.value[parent, s] + entries.table[c + a, x]
                values[at] += a * entries.on + (new - a) * entries.off
                states[at] = state | (own << k)
                at += 1
        order = np.argsort(-values)
        for s in range(kept):
            found.value[g, s] = values[order[s]]
            found.state[g, s] = states[order[s]]
        found.dropped[g] = lists.dropped[parent] + most[x]
        if kept < size:
            found.dropped[g] = max(found.dropped[g], values[order[kept]])
    return found
