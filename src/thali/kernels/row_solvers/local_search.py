r"""Local search (Feige, Mirrokni and Vondrák 2011; Reed and Ghahramani 2013, section 3.6).

Begin with the best single feature; put in the feature that adds most while one adds, then take one
out if that adds, and so on; return the better of the set and its complement. With S such that no
single change adds, 2 F(S) + F(S̄) ≥ max F if F is submodular and not negative, so that the answer
has at least a third of the maximum, counted from the minimum of F.

The complement costs O(K): Σ_{k<l∉S} pairs_kl = ½ Σ_{k∉S} (total_k − weights_k + slack_k).
"""

from thali.kernels.compiling import helper
from thali.kernels.row_solvers.row import added, begin, flip, removed, worth

LEAST = 1e-12  # of the weights' scale: an addition below it is rounding


@helper
def climb(row, z, slack, j):
    """Grow and prune until no single change adds; returns j."""
    k = len(z)
    scale = 1.0
    for i in range(k):
        scale = max(scale, abs(row.weights[i]))
    least = LEAST * scale
    while True:
        while True:  # grow
            best, at = least, -1
            for i in range(k):
                if not z[i]:
                    gain = added(row, slack, j, i)
                    if gain > best:
                        best, at = gain, i
            if at < 0:
                break
            j = flip(row, z, slack, j, at)
        best, at = least, -1  # prune one
        for i in range(k):
            if z[i]:
                gain = removed(row, slack, j, i)
                if gain > best:
                    best, at = gain, i
        if at < 0:
            return j
        j = flip(row, z, slack, j, at)


@helper
def complement_worth(row, z, slack, j):
    """F of the features that z does not have."""
    value, own = 0.0, 0
    for i in range(len(z)):
        if row.own[i]:
            own += 1
        if not z[i]:
            value += row.weights[i] - 0.5 * (row.total[i] - row.weights[i] + slack[i])
    return value + row.by_count[row.others + own - j] - row.by_count[row.others]


@helper
def local_search(rng, row, z, slack, upper):
    """At least a third of the best."""
    z[:] = False
    j = begin(row, z, slack)
    best, at = -1e300, 0
    for i in range(len(z)):
        alone = added(row, slack, j, i)
        if alone > best:
            best, at = alone, i
    j = flip(row, z, slack, j, at)
    j = climb(row, z, slack, j)
    if complement_worth(row, z, slack, j) > worth(row, z, slack, j):
        for i in range(len(z)):
            z[i] = not z[i]
        j = begin(row, z, slack)
    return j
