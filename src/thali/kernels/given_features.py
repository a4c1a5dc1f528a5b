r"""Bits and own features of X = Z A + E with A given, through XAᵀ and AAᵀ alone.

With B = X Aᵀ, G = A Aᵀ and R = B − Z G, turning bit k of row n changes ‖x − zA‖² by

    ± : −2 R_k·s + G_kk,  s = +1 on, −1 off,

and R by −s G_k: a bit that stays costs O(1), one that turns O(K), and no step touches D. A row with
gaps has a G and an R of its own (``observed_rows``).
"""

import numpy as np

from thali.kernels.bit_prior import accepts, is_held, prior_log_odds
from thali.kernels.compiling import helper, kernel
from thali.kernels.gaussian_row import Scales, gaussian_row
from thali.kernels.new_features import MOST_NEW, NewFeatures, draw, room_left
from thali.kernels.observed_rows import shorter_list, take_row
from thali.kernels.row_potentials import count_on, row_step

DECIDED = 37.0  # log odds beyond which a double cannot tell a probability from one
FAST = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered, so that they vectorize


@helper
def odds_of_column(prior, i, on, off):
    """The prior's log odds, but for θ, of feature i for a row that has it and one that has not.

    A row's own feature is not for this step: infinite odds for leaving it as it is. Where all rows
    have the feature, none asks for the odds of one that has not, and the table does not hold them.
    """
    if prior.m[i] > 0:
        value = prior_log_odds(prior, i, np.uint8(1))
        on[i] = np.inf if np.isnan(value) else value
    if prior.pi.shape[0] or prior.order is not None or prior.m[i] < prior.log_odds.shape[0]:
        off[i] = prior_log_odds(prior, i, np.uint8(0))


@helper(fastmath=FAST)
def is_decided(r, g, z, on, off, twice):
    """Whether no bit of the row could turn, all odds being beyond rounding."""
    least = np.inf
    for i in range(z.shape[0]):
        sign = 2.0 * z[i] - 1.0
        odds = on[i] if z[i] else off[i]
        least = min(least, sign * (twice * r[i] + odds) + g[i])
    return least > DECIDED


@kernel
def turn_bits(rng, R, G, gaps, Z, prior, sigma_x):
    """One pass over all bits given A; Z, R and the prior's counts change in place.

    ``gaps`` are the ``Gaps`` of rows with missing entries, None where all were observed.
    """
    twice = 1.0 / (sigma_x * sigma_x)
    n_rows, k = Z.shape
    g = np.empty(k)
    on = np.full(k, np.inf)
    off = np.full(k, np.nan)
    for i in range(k):
        g[i] = 0.5 * twice * G[i, i]
        odds_of_column(prior, i, on, off)
    has_theta = prior.theta is not None
    at = None if gaps is None else np.empty(gaps.A.shape[1], np.uint64)
    for n in range(n_rows):
        if gaps is not None:
            g = 0.5 * twice * gaps.diagonals[n]
        if has_theta or not is_decided(R[n], g, Z[n], on, off, twice):
            turn_row(rng, R[n], G, gaps, at, g, Z[n], prior, n, on, off, twice)


@helper
def turn_row(rng, r, G, gaps, at, g, z, prior, n, on, off, twice):
    """One pass over the bits of row n, g = G_kk/2σ_x²; z, r, counts and odds change in place.

    In ``at`` there is room for numbers of columns, where the row may have gaps.
    """
    k = z.shape[0]
    count, fewer = -1, True  # of columns to look at, once a bit turns
    has_theta = prior.theta is not None
    F = count_on(z, k) if has_theta else 0
    for i in range(k):
        if is_held(prior.order, n, i):
            continue
        sign = -1.0 if z[i] else 1.0
        odds = on[i] if z[i] else off[i]
        if has_theta:
            odds += row_step(prior.theta, F - z[i])
        if accepts(rng, sign * (twice * r[i] + odds) - g[i]):
            if gaps is not None:
                if count < 0:
                    count, fewer = shorter_list(gaps.mask[n], at)
                take_row(r, sign, G, gaps, n, i, at, count, fewer)
            else:
                for j in range(k):
                    r[j] -= sign * G[i, j]
            if z[i]:
                z[i] = 0
                prior.m[i] -= 1
                F -= 1
            else:
                z[i] = 1
                prior.m[i] += 1
                F += 1
            if prior.pi.shape[0] and prior.m[i] <= 1:  # the smallest frequency in use changed
                for j in range(k):
                    odds_of_column(prior, j, on, off)
            else:
                odds_of_column(prior, i, on, off)


@kernel
def left_by_shared(B, R, G, squares, Z, m):
    """ρ = ‖x − zA‖² of each row without its own features (m = 1), and how many of these it has."""
    n_rows, k = Z.shape
    single = np.empty(k)
    for i in range(k):
        single[i] = 1.0 if m[i] == 1 else 0.0
    rho = np.empty(n_rows)
    has = np.empty(n_rows, np.int64)
    for n in range(n_rows):
        has[n], total = explained(B[n], R[n], Z[n], single)
        if has[n]:
            total = explained_by_shared(B[n], G, Z[n], single)
        rho[n] = max(squares[n] - total, 0.0)
    return rho, has


@kernel
def count_own_features(rng, rho, has, others, dimensions, used, tables, scales):
    """Draw for each row the number of features of its own, their A integrated out: (N,).

    Without them x ~ N(zA, σ_x² I) in as many ``dimensions`` as were observed of the row, and j of
    them add jσ_a² to the variance. None of them touches another row, so the rows' draws are
    independent but for a finite prior's room; ``used`` is the number of features as rows ``has``.
    ``others`` are the numbers of the rows' other features, which only θ asks for.
    """
    r2 = (scales.sigma_x / scales.sigma_a) ** 2
    theta = tables.row_potentials
    own = np.zeros(len(rho), np.int64)
    for n in range(len(rho)):
        free = room_left(tables.capacity, used - has[n])
        F = others[n] if theta is not None else 0
        seen = Scales(scales.sigma_x, scales.sigma_a, dimensions[n])
        weights = NewFeatures(tables.new_log_weight, free, F, MOST_NEW)
        own[n] = draw(rng, weights, theta, gaussian_row(rho[n], 1.0, r2, seen), None)
        used += own[n] - has[n]
    return own


@helper(fastmath=FAST)
def explained(b, r, z, single):
    """The number of the row's own features, and ‖x‖² − ‖x − zA‖² = Σ z(b + r)."""
    has = 0.0
    total = 0.0
    for i in range(z.shape[0]):
        has += z[i] * single[i]
        total += z[i] * (b[i] + r[i])
    return int(has), total


@helper
def explained_by_shared(b, G, z, single):
    """‖x‖² − ‖x − zA‖² without the row's own features."""
    total = 0.0
    for i in range(z.shape[0]):
        if z[i] and not single[i]:
            total += 2.0 * b[i]
            for j in range(z.shape[0]):
                if z[j] and not single[j]:
                    total -= G[i, j]
    return total
