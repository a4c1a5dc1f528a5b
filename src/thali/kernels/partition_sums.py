r"""The normalizer of a linear flexible prior over partitions, in logarithms.

    Z_0 = 1,    Z_n = Σ_{i=1..n} C(n−1, i−1) e^{λ_i} Z_{n−i}

i is the size of the cluster of the first row. O(N²) for all of Z_0 … Z_N.
"""

import numpy as np

from thali.kernels.compiling import kernel


@kernel
def log_sums(potentials, log_factorial):
    """log Z_0 … log Z_N; ``potentials`` are λ_1 … λ_N, ``log_factorial`` log 0! … log N!."""
    n_most = len(potentials)
    out = np.full(n_most + 1, -np.inf)
    out[0] = 0.0
    # log Z_n − log n! without its 1/n: terms λ_i − log (i−1)! and log Z_{n−i} − log (n−i)!
    own = np.empty(n_most)
    for i in range(n_most):
        own[i] = potentials[i] - log_factorial[i]
    rest = np.full(n_most + 1, -np.inf)
    rest[0] = 0.0
    for n in range(1, n_most + 1):
        top = -np.inf
        for i in range(1, n + 1):
            term = own[i - 1] + rest[n - i]
            if term > top:
                top = term
        if top == -np.inf:
            continue
        total = 0.0
        for i in range(1, n + 1):
            total += np.exp(own[i - 1] + rest[n - i] - top)
        rest[n] = top + np.log(total) - np.log(n)
        out[n] = rest[n] + log_factorial[n]
    return out


@kernel
def draw_size_counts(rng, potentials, sums, log_factorial, count):
    """Size counts m of independent draws of the prior, (count, N), exactly.

    The first row's cluster has i of n rows with probability C(n−1, i−1) e^{λ_i} Z_{n−i}/Z_n.
    """
    n_most = len(potentials)
    out = np.zeros((count, n_most))
    ends = np.zeros((n_most + 1, n_most))  # cumulative probabilities of i, for each n
    for n in range(1, n_most + 1):
        total = 0.0
        for i in range(1, n + 1):
            logs = log_factorial[n - 1] - log_factorial[i - 1] - log_factorial[n - i]
            logs += potentials[i - 1] + sums[n - i] - sums[n]
            total += np.exp(logs) if sums[n] > -np.inf else 0.0
            ends[n, i - 1] = total
    for s in range(count):
        left = n_most
        while left > 0:
            u = rng.random() * ends[left, left - 1]
            i = np.searchsorted(ends[left, :left], u, side="right")
            i = min(i, left - 1)
            out[s, i] += 1.0
            left -= i + 1
    return out
