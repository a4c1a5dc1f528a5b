"""Exact, by looking at all 2^K sets in the order of a Gray code, each one flip from the last."""

from thali.kernels.compiling import helper
from thali.kernels.row_solvers.row import added, begin, flip, removed


@helper
def enumerate_sets(rng, row, z, slack, upper):
    """The best set there is."""
    k = len(z)
    z[:] = False
    j = begin(row, z, slack)
    value, best, best_code, code = 0.0, 0.0, 0, 0
    for step in range(1, 1 << k):
        i = 0
        while not (step >> i) & 1:
            i += 1
        value += removed(row, slack, j, i) if z[i] else added(row, slack, j, i)
        j = flip(row, z, slack, j, i)
        code ^= 1 << i
        if value > best:
            best, best_code = value, code
    for i in range(k):
        z[i] = (best_code >> i) & 1 == 1
    return begin(row, z, slack)
