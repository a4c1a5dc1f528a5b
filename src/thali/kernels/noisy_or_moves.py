r"""What single moves do to rows of the noisy-or model.

    P(x_it = 0 | c) = (1−ε)(1−λ)^c,   c_it = z_i·y_t

A new feature of one row has y ~ Bernoulli(p) summed out of its gain, trial by trial,

    log [(1−p) P(x | c) + p P(x | c+1)] − log P(x | c),

and then y given x; trials that were not observed have y from its prior.
"""

import math
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.moving_rows import moves_are


class NoisyOrMoves(NamedTuple):
    """Rows of 0 and 1: counts of active features, their states, and log P(x | c) by c and x."""

    C: np.ndarray  # (N, T) int64
    A: np.ndarray  # Y, (room, T) uint8
    X: np.ndarray  # (N, T) uint8
    seen: np.ndarray  # (N, T) bool, or (0, 0) where all was observed
    logs: np.ndarray  # (room + 2, 2)
    p: float


@helper
def step_at(rows, n, t, off):
    """log P(x | c + 1) − log P(x | c) of an entry, ``off`` taken from c; 0 where not observed."""
    if rows.seen.shape[0] and not rows.seen[n, t]:
        return 0.0
    c, x = rows.C[n, t] - off, rows.X[n, t]
    return rows.logs[c + 1, x] - rows.logs[c, x]


@helper
def gain_given(rows, n, f, on):
    total = 0.0
    for t in range(rows.A.shape[1]):
        if rows.A[f, t]:
            total += step_at(rows, n, t, on)
    return total


@helper
def gain_summed(rows, n, f, on):
    """y summed out; where the feature is ``on``, it is taken from the counts."""
    total = 0.0
    for t in range(rows.A.shape[1]):
        off = rows.A[f, t] if on else 0
        total += math.log1p(rows.p * math.expm1(step_at(rows, n, t, off)))
    return total


def gain_of(rows, n, f, on):
    return gain_given(rows, n, f, on)


def propose_to(rows, rng, n, f, drawn):
    total = gain_summed(rows, n, f, 0)
    for t in range(rows.A.shape[1]):
        odds = rows.p / (1.0 - rows.p)
        if not drawn:
            odds *= math.exp(step_at(rows, n, t, 0))
        rows.A[f, t] = 1 if rng.random() * (1.0 + odds) < odds else 0
    return gain_given(rows, n, f, 0) if drawn else total


def loss_of(rows, n, f, drawn):
    return gain_given(rows, n, f, 1) if drawn else gain_summed(rows, n, f, 1)


def turn_on_in(rows, rng, n, f, new):
    for t in range(rows.A.shape[1]):
        rows.C[n, t] += rows.A[f, t]


def turn_off_in(rows, n, f):
    for t in range(rows.A.shape[1]):
        rows.C[n, t] -= rows.A[f, t]


def move_to(rows, f, g):
    for t in range(rows.A.shape[1]):
        rows.A[g, t] = rows.A[f, t]


moves_are(NoisyOrMoves, gain_of, propose_to, loss_of, turn_on_in, turn_off_in, move_to)
