r"""Metropolis moves of one bit, one birth or one death at a time (Welling and others 2012, alg. 2).

With K features in use: with probability K/(K+1) one of the N·K bits is picked, else a row.

    bit of a feature that other rows have    is turned with min(1, e^{Δ})
    bit that is its feature's only one       the feature goes, with min(1, (K+1)/K · e^{Δ})
    row                                      gets a feature of its own, min(1, (K+1)/(K+2) · e^{Δ})

Δ is what changes in log P([Z]) + Σ_h log K_h! and in the log density of the row. The factors are
those of columns without an order: K_h! cancels the number of equal columns that could go. Every
move is undone by another, and which one is tried does not depend on the past, so that any number of
moves together is reversible too: they may be one proposal for a prior that these tables are
not the whole of.

What moves do to the rows of a model is said by ``moving_rows``.
"""

import math
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import kernel
from thali.kernels.moving_rows import gain, loss, move, propose, turn_off, turn_on
from thali.kernels.new_features import is_full
from thali.kernels.row_potentials import row_step


class Matrix(NamedTuple):
    """Z with room for more features, and its sums."""

    Z: np.ndarray  # (N, room) uint8
    m: np.ndarray  # (room,) int64, rows that have each feature
    F: np.ndarray  # (N,) int64, features that each row has


@kernel
def make_moves(rng, rows, matrix, k, tables, moves, drawn):
    """So many moves, in place; returns the number of features, and of moves left for want of room.

    Features that go are replaced by the last one, so that those in use are the first k.
    """
    Z, m, F = matrix
    n_rows, room = Z.shape
    theta = tables.row_potentials
    for made in range(moves):
        if k == room:
            return k, moves - made
        n = int(rng.random() * n_rows)
        if rng.random() * (k + 1.0) < k:
            f = int(rng.random() * k)
            others = m[f] - Z[n, f]
            if others > 0:
                delta = tables.log_odds[others] + row_step(theta, F[n] - Z[n, f])
                delta += gain(rows, n, f, Z[n, f])
                sign = -1.0 if Z[n, f] else 1.0
                if math.log(1.0 - rng.random()) >= sign * delta:
                    continue
                if Z[n, f]:
                    turn_off(rows, n, f)
                    Z[n, f], m[f], F[n] = 0, m[f] - 1, F[n] - 1
                else:
                    turn_on(rows, rng, n, f, False)
                    Z[n, f], m[f], F[n] = 1, m[f] + 1, F[n] + 1
                continue
            free = 0.0 if tables.capacity < 0 else math.log(tables.capacity - k + 1.0)
            delta = tables.new_log_weight + free + row_step(theta, F[n] - 1)
            delta += loss(rows, n, f, drawn)
            if math.log(1.0 - rng.random()) < math.log((k + 1.0) / k) - delta:
                turn_off(rows, n, f)
                F[n] -= 1
                k -= 1
                move(rows, k, f)
                m[f], m[k] = m[k], 0
                for i in range(n_rows):
                    Z[i, f], Z[i, k] = Z[i, k], 0
        elif not is_full(tables.capacity, k):
            free = 0.0 if tables.capacity < 0 else math.log(float(tables.capacity - k))
            delta = tables.new_log_weight + free + row_step(theta, F[n])
            delta += propose(rows, rng, n, k, drawn)
            if math.log(1.0 - rng.random()) < math.log((k + 1.0) / (k + 2.0)) + delta:
                turn_on(rows, rng, n, k, True)
                Z[n, k], m[k], F[n] = 1, 1, F[n] + 1
                k += 1
    return k, 0
