r"""What single moves do to rows of X = (Z ⊙ S) A + E; S = 1 where rows have no amounts.

With e = x − wA, D_o entries of it observed, and σ² = σ_x², s the amount:

    bit given a        [2 e·(s a) − s² a·a]/2σ²;  where rows have amounts, s is integrated out
                       (``sparse_factor``)
    new feature        a integrated out, e ~ N(0, σ² + s²σ_a²) against N(0, σ²):
                       −D_o/2 log(1 + s²σ_a²/σ²) + ‖e‖²/2 [1/σ² − 1/(σ² + s²σ_a²)],
                       or, where a ≥ 0, log M(e) (``positive_entries``);
                       then a given e; where e was not observed, a from its prior
"""

import math
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.moving_rows import moves_are
from thali.kernels.positive_entries import Entries, draw_entry
from thali.kernels.sparse_factor import draw_slab, log_slab_ratio
from thali.kernels.truncated_normal import log_lifted_ndtr, sample

PLAIN, POSITIVE, AMOUNTS, LAPLACE = 0, 1, 2, 3  # A of any sign; not below zero; amounts, two slabs


class GaussianMoves(NamedTuple):
    """Rows without amounts, or with them: residuals, features, amounts, scales."""

    E: np.ndarray  # X − (Z ⊙ S) A
    A: np.ndarray  # (room, D)
    S: np.ndarray  # (N, room), or (0, 0)
    seen: np.ndarray  # (N, D) bool, or (0, 0) where all was observed
    sigma_x: float
    sigma_a: float
    kind: int
    law: Entries  # of entries that are not below zero


@helper
def is_seen(rows, n, d):
    return rows.seen.shape[0] == 0 or rows.seen[n, d]


@helper
def products(rows, n, f):
    """e·a and a·a of what was observed."""
    along = 0.0
    length = 0.0
    for d in range(rows.A.shape[1]):
        if is_seen(rows, n, d):
            along += rows.E[n, d] * rows.A[f, d]
            length += rows.A[f, d] * rows.A[f, d]
    return along, length


@helper
def gain_given(rows, n, f, s, on):
    """log density with feature f in the amount s, less that without it."""
    along, length = products(rows, n, f)
    if on:
        along += s * length
    return (s * along - 0.5 * s * s * length) / (rows.sigma_x * rows.sigma_x)


@helper
def gain_integrated(rows, n, f, s, on):
    """The same for a feature that no other row has, integrated out: whatever the feature is, which
    is looked at only to take it off the residual where it is ``on``."""
    noise = rows.sigma_x * rows.sigma_x
    wide = noise + s * s * rows.sigma_a * rows.sigma_a
    law = rows.law
    seen = 0.0
    total = 0.0
    for d in range(rows.A.shape[1]):
        if is_seen(rows, n, d):
            e = rows.E[n, d]
            if on:
                e += s * rows.A[f, d]
            seen += 1.0
            if rows.kind == POSITIVE:
                total += log_lifted_ndtr(law.slope * (e - law.pull))
            else:
                total += e * e
    if rows.kind == POSITIVE:
        return total + seen * law.log_each
    total *= 0.5 * (1.0 / noise - 1.0 / wide)
    return total - 0.5 * seen * math.log(wide / noise)


@helper
def draw_feature(rows, rng, n, f, s, drawn):
    """a from its prior, or given the residual of row n alone."""
    noise = rows.sigma_x * rows.sigma_x
    wide = noise + s * s * rows.sigma_a * rows.sigma_a
    share = s * rows.sigma_a * rows.sigma_a / wide
    scale = rows.sigma_x * rows.sigma_a / math.sqrt(wide)
    for d in range(rows.A.shape[1]):
        given = not drawn and is_seen(rows, n, d)
        if rows.kind == POSITIVE:
            if given:
                left = rows.E[n, d] - rows.law.pull
                rows.A[f, d] = sample(rng, rows.law.share * left, rows.law.scale)
            else:
                rows.A[f, d] = draw_entry(rng, rows.law)
        elif given:
            rows.A[f, d] = share * rows.E[n, d] + scale * rng.standard_normal()
        else:
            rows.A[f, d] = rows.sigma_a * rng.standard_normal()


@helper
def add_to_residual(rows, n, f, s):
    for d in range(rows.A.shape[1]):
        rows.E[n, d] += s * rows.A[f, d]


@helper
def amount(rows, n, f):
    return rows.S[n, f] if rows.kind >= AMOUNTS else 1.0


@helper
def slab(rows, n, f, on):
    """p and q of the amount s of one entry: its likelihood is e^{qs − ps²/2}."""
    along, length = products(rows, n, f)
    if on:
        along += rows.S[n, f] * length
    precision = 1.0 / (rows.sigma_x * rows.sigma_x)
    return length * precision, along * precision


def gain_of(rows, n, f, on):
    if rows.kind >= AMOUNTS:
        p, q = slab(rows, n, f, on)
        return log_slab_ratio(p, q, rows.kind == LAPLACE)
    return gain_given(rows, n, f, 1.0, on)


def propose_to(rows, rng, n, f, drawn):
    s = 1.0
    if rows.kind >= AMOUNTS:
        s = draw_slab(rng, 0.0, 0.0, rows.kind == LAPLACE)
        rows.S[n, f] = s
    draw_feature(rows, rng, n, f, s, drawn)
    if drawn:
        return gain_given(rows, n, f, s, False)
    return gain_integrated(rows, n, f, s, False)


def loss_of(rows, n, f, drawn):
    s = amount(rows, n, f)
    if drawn:
        return gain_given(rows, n, f, s, True)
    return gain_integrated(rows, n, f, s, True)


def turn_on_in(rows, rng, n, f, new):
    if rows.kind >= AMOUNTS and not new:
        p, q = slab(rows, n, f, False)
        rows.S[n, f] = draw_slab(rng, p, q, rows.kind == LAPLACE)
    add_to_residual(rows, n, f, -amount(rows, n, f))


def turn_off_in(rows, n, f):
    add_to_residual(rows, n, f, amount(rows, n, f))
    if rows.kind >= AMOUNTS:
        rows.S[n, f] = 0.0


def move_to(rows, f, g):
    for d in range(rows.A.shape[1]):
        rows.A[g, d] = rows.A[f, d]
    for n in range(rows.S.shape[0]):
        rows.S[n, g] = rows.S[n, f]
        if g != f:
            rows.S[n, f] = 0.0


moves_are(GaussianMoves, gain_of, propose_to, loss_of, turn_on_in, turn_off_in, move_to)
