r"""The posterior of a new row's bits, and its predictive density, given features of others.

    p(x) = Σ_z P(z) Σ_j P(j) N(x; zμ, σ_x²(1 + z M zᵀ + j/r) I)

For each row a mode is found by single flips; the 2^w rows over the w = min(K, 10) features that are
least certain there are then summed in Gray-code order, which is exact for K ≤ 10. The others
count as independent of them and of each other, each with its odds at the mode: exact where they are
so, as in a row of which nothing was observed, and close where the data leave little doubt.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.gaussian_row import gaussian_row
from thali.kernels.new_features import log_sum

ENUMERATED = 10


@helper
def log_weight(sums, x2, r, new, scales):
    """log [P(z) Σ_j w_j N(x | z, j)] up to constants; sums are zMz, z b, zGz and Σ z log odds."""
    q, c, g, o = sums
    rho = max(x2 - 2.0 * c + g, 0.0)
    return o + log_sum(new, None, gaussian_row(rho, 1.0 + q, r, scales), None)


@helper(inline="always")
def try_flip(i, z, sums, s, h, b, M, G, odds):
    """The sums as they were if bit i were flipped."""
    q, c, g, o = sums
    sign = -1.0 if z[i] else 1.0
    q = q + 2.0 * sign * s[i] + M[i, i]
    g = g + 2.0 * sign * h[i] + G[i, i]
    return q, c + sign * b[i], g, o + sign * odds[i]


@helper(inline="always")
def do_flip(i, z, sums, s, h, b, M, G, odds):
    """Flip bit i, along with s = M z and h = G z; returns the new sums."""
    q, c, g, o = sums
    sign = -1.0 if z[i] else 1.0
    q += 2.0 * sign * s[i] + M[i, i]
    g += 2.0 * sign * h[i] + G[i, i]
    z[i] = not z[i]
    for j in range(len(z)):
        s[j] += sign * M[i, j]
        h[j] += sign * G[i, j]
    return q, c + sign * b[i], g, o + sign * odds[i]


@helper
def find_mode(z, b, x2, M, G, odds, r, new, scales, s, h):
    """Flip the best bit of z until none pays; returns the log weight and the sums there."""
    k = len(b)
    q, c, g, o = 0.0, 0.0, 0.0, 0.0
    s[:] = 0.0
    h[:] = 0.0
    for a in range(k):
        if z[a]:
            o += odds[a]
            c += b[a]
            for i in range(k):
                s[i] += M[a, i]
                h[i] += G[a, i]
    for a in range(k):
        if z[a]:
            q += s[a]
            g += h[a]
    sums = (q, c, g, o)
    at = log_weight(sums, x2, r, new, scales)
    for _ in range(4 * k + 4):
        best = at + 1e-10
        which = -1
        for i in range(k):
            value = log_weight(try_flip(i, z, sums, s, h, b, M, G, odds), x2, r, new, scales)
            if value > best:
                best = value
                which = i
        if which < 0:
            break
        sums = do_flip(which, z, sums, s, h, b, M, G, odds)
        at = best
    return at, sums


@helper(inline="always")
def count_in(value, top, total, z, marginal):
    """Add e^value to ``total``, and to ``marginal`` where z is on, both in units of e^top; returns
    the top, which is raised to the value if need be, and the total."""
    if value > top:
        shrink = np.exp(top - value)
        total *= shrink
        for j in range(len(z)):
            marginal[j] *= shrink
        top = value
    weight = np.exp(value - top)
    total += weight
    for j in range(len(z)):
        if z[j]:
            marginal[j] += weight
    return top, total


@helper
def sum_up_bits(z, doubt, enumerated, marginal, top, total):
    """Make probabilities of ``marginal``, those of bits that were not enumerated by their odds at
    the mode, and return the log of the sum. ``doubt`` is the log weight lost by a flip there."""
    for i in range(len(z)):
        marginal[i] /= total
    added = 0.0
    for i in np.argsort(doubt)[enumerated:]:
        other = np.exp(-doubt[i])
        marginal[i] = (1.0 if z[i] else other) / (1.0 + other)
        added += np.log1p(other)
    return top + np.log(total) + added


@helper
def one_row(b, x2, M, G, odds, r, new, scales, marginal):
    """Fill ``marginal`` with P(z_k = 1 | x) and return log Σ of the weights."""
    k = len(b)
    s = np.zeros(k)
    h = np.zeros(k)
    z = np.zeros(k, np.bool_)
    at, sums = find_mode(z, b, x2, M, G, odds, r, new, scales, s, h)
    # a second try from the bits that their own projection suggests
    other = np.zeros(k, np.bool_)
    for i in range(k):
        other[i] = b[i] > 0.5 * G[i, i]
    s2 = np.zeros(k)
    h2 = np.zeros(k)
    at2, sums2 = find_mode(other, b, x2, M, G, odds, r, new, scales, s2, h2)
    if at2 > at:
        at, sums, z, s, h = at2, sums2, other, s2, h2
    doubt = np.zeros(k)
    for i in range(k):
        flipped = try_flip(i, z, sums, s, h, b, M, G, odds)
        doubt[i] = at - log_weight(flipped, x2, r, new, scales)
        marginal[i] = 1.0 if z[i] else 0.0
    free_bits = np.argsort(doubt)[: min(k, ENUMERATED)]
    total = 1.0  # Σ e^{weight − top}
    top = at
    for code in range(1, 1 << len(free_bits)):
        low = 0
        while not (code >> low) & 1:
            low += 1
        sums = do_flip(free_bits[low], z, sums, s, h, b, M, G, odds)
        value = log_weight(sums, x2, r, new, scales)
        top, total = count_in(value, top, total, z, marginal)
    return sum_up_bits(z, doubt, len(free_bits), marginal, top, total)


@kernel
def row_posteriors(B, squares, M, G, odds, r, new, scales, marginals, logs):
    """Fill P(z_nk = 1 | x_n) and log Σ_z,j weights for every row; rows are independent."""
    for i in range(B.shape[0]):
        logs[i] = one_row(B[i], squares[i], M, G, odds, r, new, scales, marginals[i])
