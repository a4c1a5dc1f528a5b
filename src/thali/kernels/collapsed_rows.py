r"""Sweeps of collapsed Gibbs sampling for the linear-Gaussian model, A integrated out.

With r = σ_x²/σ_a² the kernel maintains, for the K features in use,

    m = Zᵀ1,   C = ZᵀZ,   T = ZᵀX                exact counts and sums, changed by flips only
    M = (C + rI)⁻¹,   G = μμᵀ, μ = M T            changed by rank one as a row leaves and returns

Without row n:  x_n | z ~ N(zμ, σ_x² V I),  V = 1 + z M zᵀ, and with b = μ x_nᵀ

    log p(x_n | z) = −D/2 log V − (‖x_n‖² − 2 z b + z G zᵀ) / 2σ_x²V + const,

so a row costs one product T x_n (K·D) and a few K²; a bit that stays costs O(1), a flip O(K + D).
A feature that only row n has is a new one: without row n it has M_kk = 1/r, no μ, and j of them add
j/r to V. Their number is drawn given all else, exactly (``new_features``).

The prior's part of a bit's log odds is λ_{m+1} − λ_m + θ_{F+1} − θ_F, with m the other rows that
have the feature and F the row's other features, its own ones too; θ is absent from most priors.

Bits are visited in the order of the columns, so that order must not depend on what the columns
are: a new feature takes a random position, and of several own ones a random one goes. Appending at
the end, as textbooks do, couples age with position and shifts P(K) by a per cent or two.

How a row leaves is in ``leaving_rows``: its absence is mostly allowed for in the formulas, and only
written into M and G when the row returns changed.

Rank-one changes lose digits; M and G are made afresh from C and T at the start of a sweep, every
``refresh_every`` rows, and sooner where influential rows lose digits: leaving multiplies an error
in M by up to V², so Σ V² is held below ``LOST_DIGITS``.

Where entries are missing, a row's bits and its missing entries are drawn together given the other
rows; what differs then is in ``masked_rows``.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.between_sweeps import log_prior, pack, sum_afresh
from thali.kernels.compiling import helper, kernel
from thali.kernels.copying import put
from thali.kernels.gaussian_row import Scales, gaussian_row_at
from thali.kernels.hyperparameter_steps import draw_mass
from thali.kernels.leaving_rows import RISKY, SUNK, leave, take_out
from thali.kernels.maintained_rows import (
    clear_feature,
    dot_bits,
    dot_rows,
    drop_feature,
    flip,
    grow,
    rank_one,
    refresh,
    swap_features,
    times_bits,
)
from thali.kernels.masked_columns import complete, drawn_square
from thali.kernels.masked_rows import (
    NO_DIMENSION,
    add_entries,
    add_unseen,
    change_entries,
    choose,
    draw_missing,
    drop_mean,
    expect,
    full_square,
    look_away,
    means_afresh,
    means_without,
    more_means,
    observed_square,
    open_mean,
    put_into_means,
    room_for_means,
    take_out_of_means,
    turn_unseen,
)
from thali.kernels.new_features import MOST_NEW, NewFeatures, draw, likeliest, room_left
from thali.kernels.row_potentials import count_on, row_step
from thali.kernels.scale_steps import Seen, draw_scales

LOST_DIGITS = 3e4  # Σ V² of rows come and gone, in units of rounding, before M is made afresh
LEVEL = 1e-9  # of log odds, below which a climb leaves a bit as it is
SUMS_AFRESH = 64  # sweeps after which T = ZᵀX is summed again from the data
SURE = 23.1  # log odds beyond which a probability is within UNLIKELY of 0 or 1
UNLIKELY = 1e-10


class Report(NamedTuple):
    """What a sweep did: features now, flips, refreshes and the drift they found.

    ``refused`` is the row that asked for more than ``MOST_NEW`` features of its own, or −1.
    """

    n_components: int
    flips: int
    refreshes: int
    drift: float
    refused: int


class Plan(NamedTuple):
    """What a call is to do: so many sweeps, after ``first`` that were made before."""

    sweeps: int
    first: int
    keep: bool  # whether Z after each sweep is wanted
    refresh_every: int  # rows; 0 leaves it to the sweep


SCALARS = 7  # of each sweep: K, log P(X|Z), log P([Z]), α, σ_x, σ_a and the drift


@helper
def chance(rng, log_ratio):
    """Whether a thing with these log odds happens."""
    u = rng.random()
    if abs(log_ratio) > SURE and UNLIKELY < u < 1.0 - UNLIKELY:
        return log_ratio > 0.0
    return u * (1.0 + np.exp(-log_ratio)) < 1.0


@helper
def log_orders_ratio(rows, z, k, i):
    """log ∏_h K_h! as it is less what it is with bit i changed; m is without the row, C with it."""
    equal = 1.0
    other = 1.0
    for j in range(k):
        if j != i and rows.m[j] == rows.m[i]:
            both = 1.0 if z[i] and z[j] else 0.0
            if rows.C[i, j] - both == rows.m[i]:  # the same column, but for this row perhaps
                if z[i] == z[j]:
                    equal += 1.0
                else:
                    other += 1.0
    return np.log(equal / other)


@helper
def own_feature(m, which):
    """The position of the row's own feature number ``which``: no other row has it."""
    i = 0
    while m[i] != 0.0 or which > 0:
        if m[i] == 0.0:
            which -= 1
        i += 1
    return i


@kernel
def sweeps(rng, X, squares, gaps, rows, k, tables, scales, laws, plan, climb):
    """Several passes over all rows, each followed by an update of the hyperparameters.

    Every bit and number of own features is drawn given the rest or, unless ``climb`` is None, set
    where that probability is highest. ``gaps`` says where entries are missing, None where none
    are; these are drawn too, in X, and ``squares``, ‖x‖² of complete rows, are None.
    (What None rules out is not compiled.) Returns the arrays (grown if need be), a report, the
    scalars of every sweep and, packed one after the other, the matrices Z.
    """
    n_rows = X.shape[0]
    log_odds = tables.log_odds
    theta = tables.row_potentials
    has_theta = theta is not None
    F = 0  # features of the row, where θ asks for them
    flips = 0
    refreshes = 0
    drift = worst = 0.0
    cap = rows.m.shape[0]
    b, y, s, h = np.zeros(cap), np.zeros(cap), np.zeros(cap), np.zeros(cap)
    u, v = np.zeros(cap), np.zeros(cap)
    since = 0
    lost = 0.0
    made = 0
    scalars = np.zeros((plan.sweeps, SCALARS))
    packed = np.zeros(0, np.uint8)
    used = packed.shape[0]
    alpha = laws.alpha
    new_log_weight = tables.new_log_weight if laws.shape == 0.0 else laws.unit + np.log(alpha)
    beyond = np.zeros(n_rows + 1)  # λ_m − λ_1
    for m in range(1, n_rows):
        beyond[m + 1] = beyond[m] + log_odds[m]
    r = half_d = precision = 0.0
    refresh_every = plan.refresh_every
    if gaps is not None:
        means = room_for_means(cap, X.shape[1])
        first = gaps.first
    for visit in range(plan.sweeps * n_rows + min(plan.sweeps, 1)):
        n = visit % n_rows
        if n == 0:  # between two sweeps
            if visit > 0:
                drift = max(drift, refresh(rows, k, r))
                refreshes += 1
                evidence = prior = np.nan
                if laws.here:
                    alpha = draw_mass(rng, alpha, k, laws)
                    if laws.shape > 0.0:
                        new_log_weight = laws.unit + np.log(alpha)
                    C, T, held = rows.C[:k, :k].copy(), rows.T[:k], made < laws.held
                    total = laws.squares
                    if gaps is not None:
                        total = gaps.squares + drawn_square(X, gaps)
                    seen = Seen(n_rows, total, scales.dimensions)
                    sigma_x, sigma_a, evidence = draw_scales(
                        rng, C, T, seen, scales.sigma_x, scales.sigma_a, laws.scales, held
                    )
                    scales = Scales(sigma_x, sigma_a, scales.dimensions)
                    if gaps is not None:
                        evidence = complete(rng, X, gaps, rows, k, scales)
                    constant = -alpha * laws.total if laws.total > 0.0 else laws.constant
                    prior = log_prior(rows, k, tables, beyond, new_log_weight, constant)
                worst = max(worst, drift)
                record = scalars[made]
                record[0], record[1], record[2] = k, evidence, prior
                record[3], record[4], record[5] = alpha, scales.sigma_x, scales.sigma_a
                record[6] = drift
                if plan.keep:
                    packed = pack(packed, used, rows.Z, k)
                    used += (n_rows + 7) // 8 * k
                made += 1
                if made == plan.sweeps:
                    break
            if plan.first + made > 0 and (plan.first + made) % SUMS_AFRESH == 0:
                sum_afresh(X, rows, k)
            r = (scales.sigma_x / scales.sigma_a) ** 2
            half_d = 0.5 * scales.dimensions
            precision = 0.5 / (scales.sigma_x * scales.sigma_x)
            refresh(rows, k, r)
            if gaps is not None:
                means_afresh(means, rows, k)
            refreshes += 1
            drift = lost = 0.0
            since = 0
            refresh_every = plan.refresh_every if plan.refresh_every > 0 else max(256, 8 * k)
        x = X[n]
        z = rows.Z[n]
        x2 = 0.0 if squares is None else squares[n]
        # b = μ x = M (T x), with row n still in
        if gaps is not None:
            gone = gaps.columns[first[n] : first[n + 1]]
            x2 = full_square(x)
            put(means.before, z[:k])
            dot_rows(means.mu, x, k, b)
        else:
            dot_rows(rows.T, x, k, y)
            dot_rows(rows.M, y[:k], k, b)
        own, V_left, c0, c1, c2 = leave(rows, x, z, b, x2, k, r, u, v, s, h)
        others, M, G = rows.m, rows.M, rows.G
        if gaps is not None:  # of the row, only what was observed has a say
            if c0 == 0.0:
                means_without(means, rows, x, s, k)
            aside, fewer = 0, True
            half_d = 0.5 * max(scales.dimensions - len(gone), NO_DIMENSION)
            if len(gone) > 0:
                x2 = observed_square(x, gaps.seen[n])
                aside, fewer = choose(means.at, gaps.seen[n], gone)
                expect(means, means.at, aside, x, z, others, k, u, c0)
                look_away(means, G, aside, fewer, k, others, b, h, u, v, c0, c1, c2)
        # the row's bits, one by one: s = M z, h = G z, q = z M z = V − 1, c = z b, g = z G z
        stays = c0 != 0.0
        q = max(dot_bits(z, s, k), 0.0)
        c = dot_bits(z, b, k)
        g = dot_bits(z, h, k)
        log_V = np.log(1.0 + q)
        misfit = (x2 - 2.0 * c + g) / (1.0 + q)
        if has_theta:
            F = count_on(z, k)
        for i in range(k):
            m = others[i]
            if m == 0.0:
                continue
            sign = -1.0 if z[i] else 1.0
            q_new = max(q + 2.0 * sign * s[i] + M[i, i] + c0 * u[i] * u[i], 0.0)
            c_new = c + sign * b[i]
            square = G[i, i] + (2.0 * c1 * v[i] + c2 * u[i]) * u[i]
            if gaps is not None:  # noqa: SIM102 - a test of None is compiled away if it is alone
                if aside > 0 or not fewer:
                    square = means.diagonal[i]
            g_new = g + 2.0 * sign * h[i] + square
            V_new = 1.0 + q_new
            log_V_new = np.log(V_new)
            misfit_new = (x2 - 2.0 * c_new + g_new) / V_new
            log_ratio = (
                half_d * (log_V - log_V_new)
                + precision * (misfit - misfit_new)
                + sign * log_odds[int(m)]
            )
            if has_theta:
                log_ratio += sign * row_step(theta, F - z[i])
            if climb is not None:  # on classes [Z], and not on matrices: equal columns count once
                changes = log_ratio + log_orders_ratio(rows, z, k, i) > LEVEL
            else:
                changes = chance(rng, log_ratio)
            if changes:
                flips += 1
                stays = False
                F += -1 if z[i] else 1
                flip(rows, n, x, k, i)
                if gaps is not None:
                    turn_unseen(means, G, i, sign, aside, fewer, k, h, u, v, c1, c2)
                else:
                    for j in range(k):
                        h[j] += sign * (G[i, j] + c1 * v[i] * u[j] + (c1 * v[j] + c2 * u[j]) * u[i])
                for j in range(k):
                    s[j] += sign * (M[i, j] + c0 * u[i] * u[j])
                q, c, g = q_new, c_new, g_new
                log_V, misfit = log_V_new, misfit_new
        # features that only this row has
        free = room_left(tables.capacity, k - own)
        rho = max(x2 - 2.0 * c + g, 0.0)
        V_shared = max(1.0 + q - own / r, 1.0)  # it is, but for rounding
        weights = NewFeatures(new_log_weight, free, F - own, MOST_NEW)
        row = gaussian_row_at(rho, V_shared, r, half_d, precision)
        if climb is not None:
            new = likeliest(weights, theta, row, None)
        else:
            new = draw(rng, weights, theta, row, None)
        if stays and new == own:  # no bit changed, and M and G were never touched
            if gaps is not None:  # noqa: SIM102
                if len(gone) > 0:
                    if not fewer:
                        expect(means, gone, len(gone), x, z, others, k, u, c0)
                    sigma = scales.sigma_x * np.sqrt(1.0 + q)
                    _, change2 = draw_missing(rng, means.along, x, gone, sigma, means.e)
                    add_entries(rows.T, means.e, z, k, gone)
                    change_entries(means, G, u, change2, k, gone, h)
                    since += 1
            for i in range(k):
                others[i] += z[i]
            continue
        if c0 != 0.0:
            take_out(rows, u, v, c0, c1, c2, k, r)
            if gaps is not None:
                take_out_of_means(means, x, others, k, u, c0)
        if new > MOST_NEW:
            return rows, Report(k, flips, refreshes, worst, n), scalars, packed
        while own > new:
            i = own_feature(rows.m, int(rng.random() * own))
            flip(rows, n, x, k, i)
            drop_feature(rows, k, i)
            if gaps is not None:
                drop_mean(means, k, i)
            b[i] = b[k - 1]
            k -= 1
            own -= 1
            flips += 1
        if k + new - own > cap:
            rows = grow(rows, k + new - own)
            cap = rows.m.shape[0]
            wider = np.zeros(cap)
            put(wider, b)
            b, y, s, h = wider, np.zeros(cap), np.zeros(cap), np.zeros(cap)
            u, v = np.zeros(cap), np.zeros(cap)
            if gaps is not None:
                means = more_means(means, cap)
            z = rows.Z[n]
        while own < new:
            clear_feature(rows, k)
            rows.M[k, k] = 1.0 / r
            b[k] = 0.0
            k += 1
            own += 1
            flip(rows, n, x, k, k - 1)
            flips += 1
            at = int(rng.random() * k)
            if gaps is not None:
                open_mean(means, k - 1, at)
            if at != k - 1:
                swap_features(rows, k, at, k - 1)
                b[at], b[k - 1] = b[k - 1], b[at]
        # the row returns
        times_bits(rows.M, z, k, s)
        V = 1.0 + max(dot_bits(z, s, k), 0.0)
        if gaps is not None:  # noqa: SIM102
            if len(gone) > 0:
                expect(means, gone, len(gone), x, z, rows.m, k, u, 0.0)
                sigma = scales.sigma_x * np.sqrt(V)
                x2 += draw_missing(rng, means.along, x, gone, sigma, means.e)[0]
                add_entries(rows.T, means.e, z, k, gone)
                add_unseen(means, x, k, gone, b)
        times_bits(rows.G, z, k, h)
        rho = x2 - 2.0 * dot_bits(z, b, k) + dot_bits(z, h, k)
        if gaps is not None:
            put_into_means(means, x, z, k, s, V)
        for i in range(k):
            h[i] = b[i] - h[i]
            rows.m[i] += z[i]
        rank_one(rows.M, rows.G, s, h, -1.0 / V, 1.0 / V, rho / (V * V), k)
        since += 1
        sunk = V >= SUNK
        afresh = False
        V -= own / r
        lost += V * V if V_left >= RISKY else max(V, V_left) ** 2
        if sunk or V >= RISKY:  # what its return cost is mended at once, before it is ever used
            refresh(rows, k, r)
            refreshes += 1
            lost = 0.0
            afresh = True
        if since >= refresh_every or lost > LOST_DIGITS:
            drift = max(drift, refresh(rows, k, r))
            refreshes += 1
            since = 0
            lost = 0.0
            afresh = True
        if gaps is not None:  # noqa: SIM102
            if afresh:
                means_afresh(means, rows, k)
    return rows, Report(k, flips, refreshes, worst, -1), scalars, packed
