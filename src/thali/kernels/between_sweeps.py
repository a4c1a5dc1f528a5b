"""What is done between two collapsed sweeps: sums made afresh, log P([Z]), and a copy of Z."""

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.copying import put
from thali.kernels.row_potentials import sum_of_rows


@helper
def log_orders(C, k):
    """Σ_h log K_h!, from C = ZᵀZ: columns i and j are equal just when C_ij = m_i = m_j."""
    total = 0.0
    for i in range(k):
        equal = 1.0
        for j in range(i):
            if C[i, j] == C[i, i] and C[j, j] == C[i, i]:
                equal += 1.0
        total += np.log(equal)
    return total


@helper
def sum_afresh(X, rows, k):
    """T = ZᵀX from the data: what flips add and take away leaves its rounding behind."""
    for i in range(k):
        for c in range(X.shape[1]):
            rows.T[i, c] = 0.0
    for n in range(X.shape[0]):
        for i in range(k):
            if rows.Z[n, i]:
                for c in range(X.shape[1]):
                    rows.T[i, c] += X[n, c]


@helper
def log_prior(rows, k, tables, beyond, new_log_weight, constant):
    """log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} − Σ_h log K_h! + const, from m = diag C; ``beyond``
    holds λ_m − λ_1."""
    total = constant - log_orders(rows.C, k)
    for i in range(k):
        total += new_log_weight + beyond[int(rows.C[i, i])]
        if tables.capacity >= 0:
            total += np.log(tables.capacity - float(i))
    if tables.row_potentials is not None:
        total += sum_of_rows(tables.row_potentials, rows.Z, k)
    return total


@helper
def pack(packed, used, Z, k):
    """Write Z to ``packed`` from position ``used`` on, eight rows to a byte, the first row highest;
    returns the array, longer if need be."""
    n_bytes = (Z.shape[0] + 7) // 8
    if used + n_bytes * k > packed.shape[0]:
        longer = np.zeros(2 * (used + n_bytes * k), np.uint8)
        put(longer, packed)
        packed = longer
    for n in range(Z.shape[0]):
        at, weight = used + (n >> 3) * k, 128 >> (n & 7)
        for i in range(k):
            packed[at + i] += weight * Z[n, i]
    return packed
