r"""A sweep of collapsed Gibbs sampling over the rows of a partition (Neal 2000, algorithm 3).

Each row is taken out, and joins cluster k of n_k others with log weight join[n_k] + log p(x | its
rows), or opens one beside K others with open[K] + log p(x). Clusters are kept in slots: ``active``
lists all of them, the K in use first, so that opening and closing one moves no row.

There may be more labels than rows of data: rows to come, of which nothing is known yet. They count
for the prior and have no density. ``alone`` has log p(x_i) of each row of data by itself, so that
its length tells how many there are.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.groups import add, clear, log_marginal, log_predictives, remove

NOTHING = 37.0  # a log weight so far below another adds nothing to it in double precision


class Slots(NamedTuple):
    """Labels of rows are slots. By slot: all its rows, and those with data. All slots, those in
    use first, and where each is."""

    labels: np.ndarray
    sizes: np.ndarray
    seen: np.ndarray
    active: np.ndarray
    place: np.ndarray


@helper(borrows=True)
def close(slots, k, slot):
    """The slot is not in use any more: it changes places with the last of K; returns K − 1."""
    last = slots.active[k - 1]
    at = slots.place[slot]
    slots.active[at], slots.active[k - 1] = last, slot
    slots.place[last], slots.place[slot] = at, k - 1
    return k - 1


@helper(borrows=True)
def take_out(groups, slots, slot, i, rows):
    """Row i is not in a slot any more."""
    slots.sizes[slot] -= 1
    if i < rows:
        slots.seen[slot] -= 1
        remove(groups, slot, i, slots.seen[slot])


@helper(borrows=True)
def put_in(groups, slots, slot, i, rows):
    """Row i is in a slot."""
    slots.sizes[slot] += 1
    if i < rows:
        slots.seen[slot] += 1
        add(groups, slot, i, slots.seen[slot])


@helper(borrows=True)
def weigh(groups, slots, which, count, i, rows, join, out, nothing):
    """The log weights of slots that row i may join, of which it is in none."""
    for j in range(count):
        out[j] = join[slots.sizes[which[j]]]
    if i < rows:
        log_predictives(groups, which, slots.seen, count, i, out, nothing)


@helper(borrows=True, fastmath={"nnan", "nsz", "reassoc"})
def largest(logs, count):
    """Of the first so many: several at once, as none of them is NaN."""
    top = logs[0]
    for j in range(1, count):
        top = max(top, logs[j])
    return top


@helper(borrows=True)
def draw(rng, logs, count, places):
    """A place by its log weight; ``logs`` and ``places``, to work in, are overwritten."""
    top = largest(logs, count)
    some = 0
    for j in range(count):  # those with a chance, brought together without a branch
        log = logs[j]
        places[some], logs[some] = j, log
        some += log > top - NOTHING
    total = 0.0
    for j in range(some):
        total += np.exp(logs[j] - top)
        logs[j] = total
    u = total * rng.random()
    j = 0
    while j < some - 1 and logs[j] <= u:
        j += 1
    return places[j]


@kernel
def in_order(labels, room):
    """Labels below ``room`` in the order in which they first appear, without gaps."""
    place, found, used = np.full(room, -1), np.empty(len(labels), np.int64), 0
    for i in range(len(labels)):
        if place[labels[i]] < 0:
            place[labels[i]] = used
            used += 1
        found[i] = place[labels[i]]
    return found


@kernel
def fill(groups, slots, rows):
    """Statistics of all clusters, afresh from the labels."""
    for slot in range(len(slots.sizes)):
        clear(groups, slot)
        slots.sizes[slot] = 0
        slots.seen[slot] = 0
    for i in range(len(slots.labels)):
        put_in(groups, slots, slots.labels[i], i, rows)


@helper(borrows=True)
def visit(rng, groups, slots, k, alone, join, opening, i, logs, places):
    """Take row i out and draw where it goes; returns K. There must be a slot left."""
    rows = len(alone)
    slot = slots.labels[i]
    take_out(groups, slots, slot, i, rows)
    if slots.sizes[slot] == 0:
        k = close(slots, k, slot)
    weigh(groups, slots, slots.active, k, i, rows, join, logs, NOTHING)
    logs[k] = opening[k] + (alone[i] if i < rows else 0.0)
    at = draw(rng, logs, k + 1, places)
    slot = slots.active[at]
    slots.labels[i] = slot
    put_in(groups, slots, slot, i, rows)
    return k + (at == k)


@kernel
def sweep(rng, groups, slots, k, alone, join, opening, first):
    """Labels from ``first`` on; returns K and the one at which there is no slot left, n at the end.

    ``join`` and ``opening`` are the prior's tables.
    """
    n, room = len(slots.labels), len(slots.sizes)
    logs, places = np.empty(room + 1), np.empty(room + 1, np.int64)
    for i in range(first, n):
        if k == room:
            return k, i
        k = visit(rng, groups, slots, k, alone, join, opening, i, logs, places)
    return k, n


@kernel
def uncertainty(groups, slots, k, alone, join, opening):
    """Σ over rows of the entropy of where a row goes, all others being where they are.

    Rows go back where they were; a row that is alone is weighed beside the K − 1 others.
    """
    rows, total = len(alone), 0.0
    logs, others = np.empty(k + 1), np.empty(k, np.int64)
    for i in range(len(slots.labels)):
        slot = slots.labels[i]
        take_out(groups, slots, slot, i, rows)
        count = 0
        for j in range(k):
            others[count] = slots.active[j]
            count += slots.sizes[slots.active[j]] > 0
        weigh(groups, slots, others, count, i, rows, join, logs, NOTHING)
        logs[count] = opening[count] + (alone[i] if i < rows else 0.0)
        put_in(groups, slots, slot, i, rows)
        top, mass, mean = np.max(logs[: count + 1]), 0.0, 0.0
        for j in range(count + 1):
            if logs[j] > top - NOTHING:
                weight = np.exp(logs[j] - top)
                mass += weight
                mean += weight * (logs[j] - top)
        total += np.log(mass) - mean / mass
    return total


@kernel
def visit_one(rng, groups, slots, k, alone, join, opening, i):
    """One row alone, where the tables depend on the other clusters; returns K."""
    room = len(slots.sizes)
    logs, places = np.empty(room + 1), np.empty(room + 1, np.int64)
    return visit(rng, groups, slots, k, alone, join, opening, i, logs, places)


@kernel
def log_marginals(groups, slots, k):
    """Σ over clusters of log p(their rows)."""
    total = 0.0
    for j in range(k):
        slot = slots.active[j]
        total += log_marginal(groups, slot, slots.seen[slot])
    return total


@kernel
def log_alone(groups, empty, out):
    """log p(x_i) of each row by itself, by a slot without rows."""
    which, sizes, one = np.full(1, empty), np.zeros(empty + 1, np.int64), np.zeros(1)
    for i in range(len(out)):
        one[0] = 0.0
        log_predictives(groups, which, sizes, 1, i, one, np.inf)
        out[i] = one[0]


@kernel
def log_rows(groups, slots, k, first, out):
    """Add log p(x_i | the rows of a cluster) of rows from ``first`` on, in none, to (m, K)."""
    for i in range(out.shape[0]):
        log_predictives(groups, slots.active, slots.seen, k, first + i, out[i], np.inf)


@kernel
def prior_sweeps(rng, labels, join, opening, sweeps):
    """The sizes of clusters, (n,), after sweeps of the prior that begin at canonical labels."""
    n = len(labels)
    at, logs, places = labels.copy(), np.empty(n + 1), np.empty(n + 1, np.int64)
    sizes, active, place = np.zeros(n, np.int64), np.arange(n), np.arange(n)
    k = 0
    for i in range(n):
        sizes[at[i]] += 1
        k = max(k, at[i] + 1)
    slots = Slots(at, sizes, sizes, active, place)
    for _ in range(sweeps):
        for i in range(n):
            slot = at[i]
            sizes[slot] -= 1
            if sizes[slot] == 0:
                k = close(slots, k, slot)
            for j in range(k):
                logs[j] = join[sizes[active[j]]]
            logs[k] = opening[k]
            drawn = draw(rng, logs, k + 1, places)
            at[i] = active[drawn]
            sizes[at[i]] += 1
            k += drawn == k
    return sizes
