r"""Bits and amounts of X = W A + E given A, of rows of which entries are missing.

A row's missing entries are integrated out: with o its observed columns, and W = Z or Z ⊙ S,

    G_o = A_o A_oᵀ,   R_n = (x_o − w A_o) A_oᵀ

stand for G = AAᵀ and for the row of R that rows without gaps have, and all else is as
there. R and the diagonals of G_o are products of whole matrices, made before; of G_o itself a row
is made when its feature turns, from G by taking the missing columns away, or from A_o where fewer
columns were observed than not: K·min(D_o, D − D_o). With amounts all of it is, of rows in which
something may turn.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.maintained_rows import FAST


class Gaps(NamedTuple):
    """What G_o of a row is made from: A, which entries were observed, and the diagonals of G_o."""

    A: np.ndarray  # (K, D)
    mask: np.ndarray  # (N, D)
    diagonals: np.ndarray  # (N, K)


@helper
def observed_gram(G, gaps, n):
    """G_o = A_o A_oᵀ of row n."""
    there, gone = np.flatnonzero(gaps.mask[n]), np.flatnonzero(~gaps.mask[n])
    if len(gone) == 0:
        return G
    if len(gone) < len(there):
        part = gaps.A[:, gone]
        found = G - part @ part.T
    else:
        part = gaps.A[:, there]
        found = part @ part.T
    for i in range(len(found)):  # no digits lost, where nearly all of a feature is missing
        found[i, i] = gaps.diagonals[n, i]
    return found


@helper(borrows=True)
def shorter_list(seen, at):
    """Put the numbers of the missing columns into ``at``, or of the observed ones where these are
    fewer; returns how many, and whether it is the missing ones."""
    missing = 0
    for c in range(seen.shape[0]):
        missing += not seen[c]
    fewer = 2 * missing <= seen.shape[0]
    count = 0
    for c in range(seen.shape[0]):
        if seen[c] != fewer:
            at[count] = c
            count += 1
    return count, fewer


@helper(borrows=True, fastmath=FAST)
def take_row(r, sign, G, gaps, n, i, at, count, fewer):
    """r −= ± row i of G_o, through the columns in ``at``."""
    mine = gaps.A[i]
    for j in range(r.shape[0]):
        other, total = gaps.A[j], 0.0
        for o in range(count):
            total += mine[at[o]] * other[at[o]]
        if fewer:
            total = G[i, j] - total
        if i == j:  # no digits lost, where nearly all of a feature is missing
            total = gaps.diagonals[n, i]
        r[j] -= sign * total


@kernel
def observed_squares(X, seen, Z, A, shared):
    """‖x_o − zA_o‖² of each row, of the features that are ``shared``."""
    found, e = np.zeros(X.shape[0]), np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        found[n] = square_left(X[n], seen[n], Z[n], A, shared, e)
    return found


@helper(borrows=True, fastmath=FAST)
def square_left(x, seen, z, A, shared, e):
    """The same of one row."""
    for c in range(x.shape[0]):
        e[c] = x[c]
    for i in range(z.shape[0]):
        if z[i] and shared[i]:
            a = A[i]
            for c in range(x.shape[0]):
                e[c] -= a[c]
    total = 0.0
    for c in range(x.shape[0]):
        total += e[c] * e[c] if seen[c] else 0.0
    return total
