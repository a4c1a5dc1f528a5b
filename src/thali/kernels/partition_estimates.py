r"""Moves of single rows that lower the mean distance of a partition from many.

With S draws, N[k, s, j] rows that cluster k of the estimate shares with cluster j of draw s, and
f as in ``structures/partition_losses``, row i in cluster k costs

    f(n_k + 1) − f(n_k) − (2/S) Σ_s [f(N + 1) − f(N)],      N = N[k, s, label of i in draw s],

n_k and N counted without it: O(S) a cluster, and no pair of rows is ever looked at.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel


@helper
def cheapest(row, sizes, shared, step, used, most):
    """The cluster in which a row costs least, an empty one at ``used`` among them if there is room;
    ties go to the first."""
    draws = len(row)
    best, at = np.inf, 0
    for k in range(min(used + 1, most)):
        cost = 0.0
        for s in range(draws):
            cost += step[shared[k, s, row[s]]]
        cost = step[sizes[k]] - 2.0 * cost / draws
        if cost < best - 1e-12:
            best, at = cost, k
    return at


@helper
def put(labels, i, k, row, sizes, shared, change):
    """Row i goes into cluster k (change 1) or out of it (change −1)."""
    labels[i] = k
    sizes[k] += change
    for s in range(len(row)):
        shared[k, s, row[s]] += change


@helper
def close_gap(labels, k, last, sizes, shared):
    """The last cluster takes the place of the empty one k."""
    if k != last:
        for i in range(len(labels)):
            if labels[i] == last:
                labels[i] = k
        sizes[k] = sizes[last]
        sizes[last] = 0
        shared[k] = shared[last]
        shared[last] = 0


@kernel
def allocate(draws, order, step, most, labels, sizes, shared):
    """Put rows one after the other, in this order, where each costs least; returns K."""
    used = 0
    for i in order:
        k = cheapest(draws[i], sizes, shared, step, used, most)
        used = max(used, k + 1)
        put(labels, i, k, draws[i], sizes, shared, 1)
    return used


@kernel
def sweeten(draws, order, step, most, labels, sizes, shared, used):
    """Take each row out and put it where it costs least; returns K and how many moved."""
    moved = 0
    for i in order:
        before = labels[i]
        put(labels, i, before, draws[i], sizes, shared, -1)
        if sizes[before] == 0:
            used -= 1
            labels[i] = -1
            close_gap(labels, before, used, sizes, shared)
            before = used  # an empty cluster again
        k = cheapest(draws[i], sizes, shared, step, used, most)
        used = max(used, k + 1)
        put(labels, i, k, draws[i], sizes, shared, 1)
        if k != before:
            moved += 1
    return used, moved


@kernel
def together(draws, labels, sizes, shared, out):
    """For each row the share of its cluster's other rows that it is with, on average over draws."""
    n, count = draws.shape
    for i in range(n):
        k = labels[i]
        total = 0.0
        for s in range(count):
            total += shared[k, s, draws[i, s]] - 1
        out[i] = total / (count * (sizes[k] - 1)) if sizes[k] > 1 else 1.0


@kernel
def overlaps(draws, labels, shared):
    """Count N[k, s, j] of given labels into ``shared``."""
    n, count = draws.shape
    for i in range(n):
        for s in range(count):
            shared[labels[i], s, draws[i, s]] += 1
