r"""Splits and merges of whole clusters (Jain and Neal 2004), for any likelihood of groups.

Two rows i and j are drawn. In one cluster, a split is proposed, i here and j there; in two, their
merger. The other rows of the cluster or clusters are first put to i or to j one after the
other, in a random order, each by its weight given those before (Dahl 2003); a few scans of Gibbs
sampling restricted to these two sides follow; the last scan makes the split, with probability q.
How rows were put before the last scan does not depend on where they are now, so that a merge has
the same q, of a last scan that ends where they are. A split is accepted with probability

    min(1, e^{g(K+1) − g(K)} e^{λ_a + λ_b − λ_n} p(side i) p(side j) / (p(all) q)),

a merge with its inverse; λ_m − λ_1 is a sum of the table ``join``. As q is at most one, most
mergers of clusters that lie apart are refused before any row is put to a side.
"""

import numpy as np

from thali.kernels.cluster_rows import close, put_in, take_out, weigh
from thali.kernels.compiling import helper, kernel
from thali.kernels.groups import clear, log_marginal


@helper(borrows=True)
def log_odds_of_first(groups, slots, sides, i, rows, join, two):
    """The log odds that row i, in neither, belongs to the first of two sides."""
    weigh(groups, slots, sides, 2, i, rows, join, two, np.inf)
    return two[0] - two[1]


@helper(borrows=True)
def choose(rng, odds, forced):
    """Side 0 or 1 by the log odds of 0, or the forced one if not −1; and its log probability."""
    side = forced
    if side < 0:
        side = 0 if np.log(1.0 / rng.random() - 1.0) < odds else 1
    own = odds if side == 0 else -odds
    return side, -np.log1p(np.exp(-own)) if own > -30.0 else own


@helper(borrows=True)
def allocate(rng, groups, slots, sides, members, side, rows, join, two):
    """Put rows to sides one after the other, in a random order; those at 0 and 1 are i and j."""
    for m in range(len(members) - 1, 2, -1):
        other = 2 + int(rng.random() * (m - 1))
        members[m], members[other] = members[other], members[m]
    for m in range(len(members)):
        at = m if m < 2 else -1
        if m >= 2:
            odds = log_odds_of_first(groups, slots, sides, members[m], rows, join, two)
            at, _ = choose(rng, odds, -1)
        side[m] = at
        put_in(groups, slots, sides[at], members[m], rows)


@helper(borrows=True)
def scan(rng, groups, slots, sides, members, side, rows, join, two, forced):
    """Take every row but i and j out and put it back; the log probability of where they end.

    ``forced`` has the sides to end at, or −1.
    """
    total = 0.0
    for m in range(2, len(members)):
        i = members[m]
        take_out(groups, slots, sides[side[m]], i, rows)
        odds = log_odds_of_first(groups, slots, sides, i, rows, join, two)
        at, log_probability = choose(rng, odds, forced[m])
        total += log_probability
        side[m] = at
        put_in(groups, slots, sides[at], i, rows)
    return total


@helper
def members_of(labels, a, b, i, j):
    """Rows of slots a and b, i and j first."""
    count = 0
    for label in labels:
        count += label in (a, b)
    found = np.empty(count, np.int64)
    found[0], found[1] = i, j
    at = 2
    for row in range(len(labels)):
        if labels[row] in (a, b) and row not in (i, j):
            found[at] = row
            at += 1
    return found


@helper(borrows=True)
def use(slots, k, slot):
    """A slot that has rows comes into use; returns K + 1."""
    other = slots.active[k]
    at = slots.place[slot]
    slots.active[k], slots.active[at] = slot, other
    slots.place[slot], slots.place[other] = k, at
    return k + 1


@helper(borrows=True)
def empty(groups, slots, slot):
    """A slot has no rows any more."""
    slots.sizes[slot] = 0
    slots.seen[slot] = 0
    clear(groups, slot)


@helper(borrows=True)
def drop(groups, slots, k, slot):
    """A slot goes out of use, with all its rows; returns K − 1."""
    empty(groups, slots, slot)
    return close(slots, k, slot)


@helper(borrows=True)
def log_weight(groups, slots, slot, growth):
    """What a cluster adds to the log joint: its rows' density, and λ of its size less λ_1."""
    return log_marginal(groups, slot, slots.seen[slot]) + growth[slots.sizes[slot]]


@helper(borrows=True)
def log_proposal(rng, groups, slots, sides, members, side, rows, join, two, forced, scans, now):
    """Rows put to sides, and q of where the last scan leaves them.

    That is where they are, those of slot ``now`` on the first side, unless it is −1.
    """
    allocate(rng, groups, slots, sides, members, side, rows, join, two)
    for _ in range(scans):
        scan(rng, groups, slots, sides, members, side, rows, join, two, forced)
    if now >= 0:
        for m in range(len(members)):
            forced[m] = 0 if slots.labels[members[m]] == now else 1
    return scan(rng, groups, slots, sides, members, side, rows, join, two, forced)


@helper(borrows=True)
def put_all(groups, slots, slot, members, rows):
    """All of these rows are in a slot, which had none."""
    for i in members:
        put_in(groups, slots, slot, i, rows)


@helper(borrows=True)
def exchange(groups, slots, i, j, rows):
    """Rows i and j, of different clusters, change places."""
    a, b = slots.labels[i], slots.labels[j]
    put_in(groups, slots, b, i, rows)
    put_in(groups, slots, a, j, rows)
    take_out(groups, slots, a, i, rows)
    take_out(groups, slots, b, j, rows)
    slots.labels[i], slots.labels[j] = b, a


@kernel
def split_or_merge(rng, groups, slots, k, rows, join, opening, scans, attempts):
    """Try so many splits and merges; returns K and how many were accepted.

    It needs two slots that are not in use, and makes no attempt without. The first ``rows`` labels
    are of rows with data.
    """
    n, room = len(slots.labels), len(slots.sizes)
    growth = np.zeros(n + 1)  # λ_m − λ_1
    for m in range(1, n):
        growth[m + 1] = growth[m] + join[m]
    accepted = 0
    sides, two = np.zeros(2, np.int64), np.zeros(2)
    for _ in range(attempts):
        if n < 2 or k + 2 > room:
            break
        i = int(rng.random() * n)
        j = int(rng.random() * (n - 1))
        j += j >= i
        a, b = slots.labels[i], slots.labels[j]
        members = members_of(slots.labels, a, b, i, j)
        side, forced = np.empty(len(members), np.int64), np.full(len(members), -1)
        sides[0], sides[1] = slots.active[k], slots.active[k + 1]
        first, second = sides
        level = np.log(1.0 - rng.random())
        if a == b:
            log_q = log_proposal(
                rng, groups, slots, sides, members, side, rows, join, two, forced, scans, -1
            )
            apart = log_weight(groups, slots, first, growth)
            apart += log_weight(groups, slots, second, growth)
            together = log_weight(groups, slots, a, growth)
            if level < opening[k] + apart - together - log_q:
                for m in range(len(members)):
                    slots.labels[members[m]] = sides[side[m]]
                k = use(slots, use(slots, k, first), second)
                k = drop(groups, slots, k, a)
                accepted += 1
            else:
                empty(groups, slots, first)
                empty(groups, slots, second)
            continue
        apart = log_weight(groups, slots, a, growth) + log_weight(groups, slots, b, growth)
        put_all(groups, slots, first, members, rows)
        gain = log_weight(groups, slots, first, growth) - (opening[k - 1] + apart)
        empty(groups, slots, first)
        if level < gain:  # else refused, whatever q is
            gain += log_proposal(
                rng, groups, slots, sides, members, side, rows, join, two, forced, scans, a
            )
            empty(groups, slots, first)
            empty(groups, slots, second)
            if level < gain:
                put_all(groups, slots, first, members, rows)
                for m in range(len(members)):
                    slots.labels[members[m]] = first
                k = use(slots, k, first)
                k = drop(groups, slots, drop(groups, slots, k, a), b)
                accepted += 1
    return k, accepted


@kernel
def swap_rows(rng, groups, slots, rows, attempts):
    """Try to let two rows of different clusters change places; returns how often that was accepted.

    Sizes stay as they are, so that this is all that a prior of few sizes may leave.
    """
    n, accepted = len(slots.labels), 0
    for _ in range(attempts):
        i, j = int(rng.random() * n), int(rng.random() * n)
        a, b = slots.labels[i], slots.labels[j]
        if a == b:
            continue
        before = log_marginal(groups, a, slots.seen[a]) + log_marginal(groups, b, slots.seen[b])
        exchange(groups, slots, i, j, rows)
        after = log_marginal(groups, a, slots.seen[a]) + log_marginal(groups, b, slots.seen[b])
        if np.log(1.0 - rng.random()) < after - before:
            accepted += 1
        else:
            exchange(groups, slots, i, j, rows)
    return accepted
