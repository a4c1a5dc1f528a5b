r"""Bits, amounts and own features of X = W A + E given A, of rows of which entries are missing.

A row's missing entries are integrated out: with o its observed columns, and W = Z or Z ⊙ S,

    G_o = A_o A_oᵀ,   R_n = (x_o − w A_o) A_oᵀ

stand for G = AAᵀ and for the row of R that rows without gaps have, and all else is as
there. R and the diagonals of G_o are products of whole matrices, made before; G_o itself is made
only of rows in which something may turn, from G by taking the missing columns away, or from A_o
where fewer columns were observed than not: K²·min(D_o, D − D_o).

A birth or a death of a nonnegative own feature looks at the observed columns alone, and the
feature is drawn from its prior in the others.
"""

import numpy as np
from numba import njit

from thali.kernels.given_features import is_decided, odds_of_column, turn_row
from thali.kernels.nonnegative_features import own_features
from thali.kernels.sparse_factor import turn_row as turn_row_of_entries


@njit(cache=True, nogil=True)
def columns_of(A, which):
    """A's columns ``which``, (K, len(which))."""
    part = np.empty((A.shape[0], len(which)))
    for i in range(A.shape[0]):
        for c in range(len(which)):
            part[i, c] = A[i, which[c]]
    return part


@njit(cache=True, nogil=True)
def observed_gram(G, diagonal, A, seen):
    """G_o = A_o A_oᵀ of a row that shows the columns where ``seen`` is true."""
    there = np.flatnonzero(seen)
    gone = np.flatnonzero(~seen)
    if len(gone) == 0:
        return G
    if len(gone) < len(there):
        part = columns_of(A, gone)
        found = G - part @ part.T
    else:
        part = columns_of(A, there)
        found = part @ part.T
    for i in range(len(diagonal)):  # no digits lost, where nearly all of a feature is missing
        found[i, i] = diagonal[i]
    return found


@njit(cache=True, nogil=True)
def turn_observed_bits(rng, R, diagonals, G, A, mask, Z, prior, sigma_x):
    """One pass over all bits, as ``given_features.turn_bits``; Z, R and counts change in place."""
    twice = 1.0 / (sigma_x * sigma_x)
    n_rows, k = Z.shape
    on = np.full(k, np.inf)
    off = np.full(k, np.nan)
    for i in range(k):
        odds_of_column(prior, i, on, off)
    has_theta = prior.theta is not None
    for n in range(n_rows):
        g = 0.5 * twice * diagonals[n]
        if has_theta or not is_decided(R[n], g, Z[n], on, off, twice):
            G_o = observed_gram(G, diagonals[n], A, mask[n])
            turn_row(rng, R[n], G_o, g, Z[n], prior, on, off, twice)


@njit(cache=True, nogil=True)
def turn_observed_entries(rng, R, diagonals, G, A, mask, Z, S, prior, sigma_x, laplace):
    """One pass over all entries (z, s), as ``sparse_factor.turn_entries``."""
    precision = 1.0 / (sigma_x * sigma_x)
    for n in range(Z.shape[0]):
        G_o = observed_gram(G, diagonals[n], A, mask[n])
        turn_row_of_entries(rng, R[n], G_o, Z[n], S[n], prior, precision, laplace)


@njit(cache=True, nogil=True)
def own_observed_features(rng, E, mask, Z, m, A, others, tables, scales, steps):
    """Births and deaths, as ``nonnegative_features.own_features``, of one row after the other."""
    n_rows, d = E.shape
    used = Z.shape[1]
    stays = np.ones(used, np.bool_)
    owners = [0]
    features = [np.empty(d)]
    for n in range(n_rows):
        own = np.flatnonzero((m == 1) & (Z[n] == 1))
        there = np.flatnonzero(mask[n])
        j = len(own)
        free = -1 if tables.capacity < 0 else tables.capacity - (used - j)
        e = E[n][there].reshape(1, len(there))
        alone = np.ones((1, j), np.uint8)
        part = columns_of(A[own], there)
        one, F = np.ones(j, np.int64), others[n : n + 1]
        stay, _, born = own_features(rng, e, alone, one, part, F, tables, free, scales, steps)
        stays[own] = stay
        used += stay.sum() - j + len(born)
        for b in range(len(born)):
            feature = scales.sigma_a * np.abs(rng.standard_normal(d))
            feature[there] = born[b]
            owners.append(n)
            features.append(feature)
    found = np.empty((len(features) - 1, d))
    for b in range(len(found)):
        found[b] = features[b + 1]
    return stays, np.array(owners[1:]), found
