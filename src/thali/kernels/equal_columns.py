"""Column sums m_k and the multiplicities K_h of equal columns of a binary matrix."""

import numpy as np

from thali.kernels.compiling import helper, kernel


@kernel
def count_columns(Z):
    """m (K,) as floats, and how often each distinct column occurs, in the order of their first.

    Two columns are compared only where their sums are equal, and up to the first row in which they
    differ.
    """
    n, k = Z.shape
    m = np.zeros(k)
    for i in range(n):
        for f in range(k):
            m[f] += Z[i, f]
    times = np.ones(k, np.int64)  # 0: equal to an earlier column
    for f in range(k):
        if times[f] == 0:
            continue
        for g in range(f + 1, k):
            if times[g] and m[f] == m[g] and equal(Z, f, g):
                times[f] += 1
                times[g] = 0
    return m, times[times > 0]


@helper
def equal(Z, f, g):
    """Whether columns f and g are the same."""
    for i in range(Z.shape[0]):  # noqa: SIM110 kernels have no generators
        if Z[i, f] != Z[i, g]:
            return False
    return True
