r"""A row's objective as a set function of its features, with looks in O(1) and flips in O(K).

    F(z) = Σ_k weights_k z_k − Σ_{k<l} pairs_kl z_k z_l + by_count[others + j] − by_count[others]

j is how many features z has that no other row has (``own``), ``others`` how many the other rows
have. F is submodular if no pair costs less than nothing and by_count is concave.

Along with z goes its slack, slack_k = weights_k − Σ_l pairs_kl z_l (pairs has a zero diagonal):
what feature k adds, or would add, to the rest.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper


class Row(NamedTuple):
    """The problem of one row; ``total`` are the sums of the rows of ``pairs``."""

    weights: np.ndarray
    pairs: np.ndarray
    total: np.ndarray
    own: np.ndarray
    by_count: np.ndarray
    others: int


@helper
def begin(row, z, slack):
    """The slack of z from nothing, and j."""
    k = len(z)
    j = 0
    for i in range(k):
        slack[i] = row.weights[i]
    for i in range(k):
        if z[i]:
            pairs = row.pairs[i]
            for l in range(k):  # noqa: E741 as in the formula
                slack[l] -= pairs[l]
            if row.own[i]:
                j += 1
    return j


@helper
def added(row, slack, j, i):
    """What feature i adds to a set without it that has j own features."""
    if row.own[i]:
        return slack[i] + row.by_count[row.others + j + 1] - row.by_count[row.others + j]
    return slack[i]


@helper
def removed(row, slack, j, i):
    """What taking feature i away adds, from a set that has it and j own features."""
    if row.own[i]:
        return row.by_count[row.others + j - 1] - row.by_count[row.others + j] - slack[i]
    return -slack[i]


@helper
def flip(row, z, slack, j, i):
    """Put feature i in, or take it out; returns the new j."""
    pairs = row.pairs[i]
    if z[i]:
        z[i] = False
        for l in range(len(z)):  # noqa: E741
            slack[l] += pairs[l]
        return j - 1 if row.own[i] else j
    z[i] = True
    for l in range(len(z)):  # noqa: E741
        slack[l] -= pairs[l]
    return j + 1 if row.own[i] else j


@helper
def worth(row, z, slack, j):
    """F(z): half of each pair is missing from the slack of either."""
    value = row.by_count[row.others + j] - row.by_count[row.others]
    for i in range(len(z)):
        if z[i]:
            value += 0.5 * (row.weights[i] + slack[i])
    return value
