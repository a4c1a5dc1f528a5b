r"""Climb by exchanges too: one feature out for another in, where no single change adds any more.

A feature that is nearly another one, or the sum of two, stands in its place where single changes
lead; only an exchange corrects that. The end is still a local maximum of single changes, so that
with its complement it has at least a third of the best (``local_search.py``).
"""

from thali.kernels.compiling import helper
from thali.kernels.row_solvers.local_search import LEAST, climb
from thali.kernels.row_solvers.row import flip

NONE = -1e300


@helper
def climb_by_exchanges(row, z, slack, j, upper):
    """Until neither a single change nor an exchange adds; returns j."""
    scale = 1.0
    for i in range(len(z)):
        scale = max(scale, abs(row.weights[i]))
    while True:
        j = climb(row, z, slack, j)
        j, moved = _exchange(row, z, slack, j, upper, LEAST * scale)
        if not moved:
            return j


@helper
def _exchange(row, z, slack, j, upper, least):
    """A pass over the features that z has, each exchanged for the one that adds most, if any."""
    k = len(z)
    moved = False
    for i in range(k):
        upper[i] = NONE if z[i] else slack[i]
    for i in range(k):
        if not z[i]:
            continue
        pairs = row.pairs[i]
        left = row.others + (j - 1 if row.own[i] else j)  # features in use without i
        lost = slack[i] + row.by_count[row.others + j] - row.by_count[left]
        new = row.by_count[left + 1] - row.by_count[left]
        best, at = lost + least, -1
        for l in range(k):  # noqa: E741
            gain = upper[l] + pairs[l]
            if row.own[l]:
                gain += new
            if gain > best:
                best, at = gain, l
        if at >= 0:
            j = flip(row, z, slack, j, i)
            j = flip(row, z, slack, j, at)
            moved = True
            for l in range(k):  # noqa: E741
                upper[l] = NONE if z[l] else slack[l]
    return j, moved
