r"""Double greedy (Buchbinder, Feldman, Naor and Schwartz 2012): one pass over the features.

Between a set that starts empty and one that starts full, feature after feature is put into the
first or taken out of the second, whichever adds more (a against b), until they meet. Counted from
the minimum of a submodular F the answer has at least a third of the maximum; half of it on average
if a feature is put in with probability a⁺/(a⁺ + b⁺), at random.
"""

from thali.kernels.compiling import helper
from thali.kernels.row_solvers.row import added, begin, removed


@helper
def double_greedy(rng, row, z, slack, upper, random):
    """At least a third of the best; if at ``random``, at least half of it on average."""
    k = len(z)
    z[:] = False
    low = begin(row, z, slack)
    high = 0  # own features of the set that starts full
    for i in range(k):
        upper[i] = row.weights[i] - row.total[i]
        if row.own[i]:
            high += 1
    for i in range(k):
        a = added(row, slack, low, i)
        b = removed(row, upper, high, i)
        if random:
            up, down = max(a, 0.0), max(b, 0.0)
            take = up + down == 0.0 or rng.random() * (up + down) < up
        else:
            take = a >= b
        pairs = row.pairs[i]
        if take:
            z[i] = True
            for l in range(k):  # noqa: E741
                slack[l] -= pairs[l]
            if row.own[i]:
                low += 1
        else:
            for l in range(k):  # noqa: E741
                upper[l] += pairs[l]
            if row.own[i]:
                high -= 1
    return low
