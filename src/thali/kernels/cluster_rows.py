r"""A sweep of collapsed Gibbs sampling over the rows of a partition (Neal 2000, algorithm 3).

Each row is taken out, and joins cluster k of n_k others with log weight join[n_k] + log p(x | its
rows), or opens one beside K others with open[K] + log p(x). Clusters are kept in slots: ``active``
lists all of them, the K in use first, so that opening and closing one moves no row.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.groups import add, clear, log_marginal, log_predictive, remove


class Slots(NamedTuple):
    """Labels of rows are slots; sizes by slot; all slots, those in use first, and where each is."""

    labels: np.ndarray
    sizes: np.ndarray
    active: np.ndarray
    place: np.ndarray


@helper
def close(slots, k, slot):
    """The slot is not in use any more: it changes places with the last of K; returns K − 1."""
    last = slots.active[k - 1]
    at = slots.place[slot]
    slots.active[at], slots.active[k - 1] = last, slot
    slots.place[last], slots.place[slot] = at, k - 1
    return k - 1


@helper
def leave(groups, slots, k, i):
    """Row i leaves its cluster; returns K."""
    slot = slots.labels[i]
    slots.sizes[slot] -= 1
    remove(groups, slot, i, slots.sizes[slot])
    return close(slots, k, slot) if slots.sizes[slot] == 0 else k


@helper
def enter(groups, slots, k, i, at):
    """Row i enters the cluster at a place of ``active``, a new one if that is K; returns K."""
    slot = slots.active[at]
    slots.labels[i] = slot
    slots.sizes[slot] += 1
    add(groups, slot, i, slots.sizes[slot])
    return k + 1 if at == k else k


@helper
def draw(rng, logs, count):
    """A place by its log weight; ``logs`` is overwritten."""
    top = logs[0]
    for j in range(1, count):
        top = max(top, logs[j])
    total = 0.0
    for j in range(count):
        total += np.exp(logs[j] - top)
        logs[j] = total
    u = total * rng.random()
    j = 0
    while j < count - 1 and logs[j] <= u:
        j += 1
    return j


@kernel
def fill(groups, slots):
    """Statistics of all clusters, afresh from the labels."""
    for slot in range(len(slots.sizes)):
        clear(groups, slot)
        slots.sizes[slot] = 0
    for i in range(len(slots.labels)):
        slot = slots.labels[i]
        slots.sizes[slot] += 1
        add(groups, slot, i, slots.sizes[slot])


@kernel
def sweep(rng, groups, slots, k, alone, join, opening, first):
    """Rows from ``first`` on; returns K and the row at which there is no slot left, n at the end.

    ``alone`` has log p(x_i) of each row by itself.
    """
    n, room = len(slots.labels), len(slots.sizes)
    logs = np.empty(room + 1)
    for i in range(first, n):
        if k == room:
            return k, i
        k = leave(groups, slots, k, i)
        for j in range(k):
            slot = slots.active[j]
            size = slots.sizes[slot]
            logs[j] = join[size] + log_predictive(groups, slot, i, size)
        logs[k] = opening[k] + alone[i]
        k = enter(groups, slots, k, i, draw(rng, logs, k + 1))
    return k, n


@kernel
def log_marginals(groups, slots, k):
    """Σ over clusters of log p(their rows)."""
    total = 0.0
    for j in range(k):
        slot = slots.active[j]
        total += log_marginal(groups, slot, slots.sizes[slot])
    return total


@kernel
def log_alone(groups, empty, out):
    """log p(x_i) of each row by itself, by a slot without rows."""
    for i in range(len(out)):
        out[i] = log_predictive(groups, empty, i, 0)
