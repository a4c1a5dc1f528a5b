"""Every set of sizes that the clusters of n rows can have: the ways to write n as a sum."""

import numpy as np

from thali.kernels.compiling import helper, kernel


@helper
def next_sizes(sizes, ones_from, used):
    """The set after ``sizes[:used]``, which are ordered from the largest and are all one from
    ``ones_from`` on, in place: the last size above one is made smaller by one, and what that
    leaves, with the ones, becomes clusters of at most its new size. Returns both numbers anew."""
    last = ones_from - 1
    sizes[last] -= 1
    most, left = sizes[last], used - ones_from + 1
    at = last + 1
    while left >= most:
        sizes[at] = most
        at += 1
        left -= most
    if left > 0:
        sizes[at] = left
        at += 1
    ones = at
    while ones > 0 and sizes[ones - 1] == 1:
        ones -= 1
    return ones, at


@kernel
def size_sets(n, n_sets, n_pairs):
    """All sets in rows of a sparse matrix: how many clusters of which size, (starts, columns,
    values); column i − 1 is size i. The two numbers say how many rows and entries there are."""
    starts = np.zeros(n_sets + 1, np.int64)
    columns, values = np.empty(n_pairs, np.int32), np.empty(n_pairs)
    sizes = np.ones(n + 1, np.int64)
    sizes[0] = n
    ones_from, used, filled = (1 if n > 1 else 0), 1, 0
    for s in range(n_sets):
        i = 0
        while i < used:
            begin = i
            while i < used and sizes[i] == sizes[begin]:
                i += 1
            columns[filled], values[filled] = sizes[begin] - 1, i - begin
            filled += 1
        starts[s + 1] = filled
        if s + 1 < n_sets:
            ones_from, used = next_sizes(sizes, ones_from, used)
    return starts, columns, values
