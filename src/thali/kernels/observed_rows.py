r"""Bits and amounts of X = W A + E given A, of rows of which entries are missing.

A row's missing entries are integrated out: with o its observed columns, and W = Z or Z ⊙ S,

    G_o = A_o A_oᵀ,   R_n = (x_o − w A_o) A_oᵀ

stand for G = AAᵀ and for the row of R that rows without gaps have, and all else is as
there. R and the diagonals of G_o are products of whole matrices, made before; G_o itself is made
only of rows in which something may turn, from G by taking the missing columns away, or from A_o
where fewer columns were observed than not: K²·min(D_o, D − D_o).
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper


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
