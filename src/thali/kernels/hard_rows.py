r"""A sweep over rows that are points, not distributions: each at its best given the rest.

Row n adds to the bound, with P = E[AAᵀ]/σ_x² and c_k = (E[a_k] x_n − ½ E[a_k²])/σ_x²,

    Σ_k z_k (c_k + prior_k) − Σ_{k<l} z_k z_l P_kl + by_count[K₋ₙ + j] − by_count[K₋ₙ]

where prior_k is the log odds of a feature that m₋ₙ other rows have, and of one that no other has
its weight when new plus what its q(A) costs; j counts the latter.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.row_solvers.combined import solve
from thali.kernels.row_solvers.row import Row


class RowPrior(NamedTuple):
    """``log_odds`` by count, ``own`` (K,) of features that no other row has, ``by_count`` of K."""

    log_odds: np.ndarray
    own: np.ndarray
    by_count: np.ndarray


@helper
def pair_costs(q, precision, pairs, total):
    """P without its diagonal, and the sums of its rows, into the last two."""
    k = len(total)
    for i in range(k):
        total[i] = 0.0
        for l in range(k):  # noqa: E741
            pairs[i, l] = precision * q[i, l]
        pairs[i, i] = 0.0
        for l in range(k):  # noqa: E741
            total[i] += pairs[i, l]


@helper
def weigh(b, q, precision, prior, m, bits, likely, weights, own):
    """c_k, c_k + prior_k and whether no other row has k, into the last three; returns K₋ₙ."""
    others = 0
    for i in range(len(weights)):
        count = m[i] - 1 if bits[i] > 0.5 else m[i]
        likely[i] = precision * (b[i] - 0.5 * q[i, i])
        own[i] = count == 0
        if own[i]:
            weights[i] = likely[i] + prior.own[i]
        else:
            weights[i] = likely[i] + prior.log_odds[count]
            others += 1
    return others


@kernel
def solve_rows(rng, B, Q, precision, prior, solver, m, Z, follow):
    """Improve the rows Z (0 and 1) in place; returns what the likelihood's part of F gained.

    Q is (1, K, K) for all rows or (rows, K, K). The counts m change along if ``follow``, else they
    stay as they are given, whatever other rows of the block do.
    """
    rows, k = Z.shape
    pairs, total = np.empty((k, k)), np.empty(k)
    weights, likely, slack, spare, upper = (
        np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k),
    )  # fmt: skip
    own, z, trial = np.empty(k, np.bool_), np.empty(k, np.bool_), np.empty(k, np.bool_)
    gained = 0.0
    if k == 0:
        return gained
    if Q.shape[0] == 1:
        pair_costs(Q[0], precision, pairs, total)
    for n in range(rows):
        q = Q[n if Q.shape[0] > 1 else 0]
        if Q.shape[0] > 1:
            pair_costs(q, precision, pairs, total)
        others = weigh(B[n], q, precision, prior, m, Z[n], likely, weights, own)
        for i in range(k):
            z[i] = Z[n, i] > 0.5
        row = Row(weights, pairs, total, own, prior.by_count, others)
        solve(rng, row, solver, z, slack, trial, spare, upper)
        gained += _write(row, likely, z, slack, spare, Z[n], m, follow)
    return gained


@helper
def _write(row, likely, z, slack, before, out, m, follow):
    """Write z where ``out`` was, and counts if they follow; the likelihood's gain."""
    k = len(z)
    changed = False
    for i in range(k):
        if z[i] != (out[i] > 0.5):
            changed = True
    if not changed:
        return 0.0
    old = new = 0.0
    for i in range(k):
        before[i] = row.weights[i]
    for i in range(k):
        if out[i] > 0.5:
            for l in range(k):  # noqa: E741
                before[l] -= row.pairs[i, l]
    for i in range(k):  # ½(weights + slack) − prior, with prior = weights − likely
        if out[i] > 0.5:
            old += likely[i] + 0.5 * (before[i] - row.weights[i])
        if z[i]:
            new += likely[i] + 0.5 * (slack[i] - row.weights[i])
    for i in range(k):
        if follow:
            m[i] += int(z[i]) - int(out[i] > 0.5)
        out[i] = 1.0 if z[i] else 0.0
    return new - old
