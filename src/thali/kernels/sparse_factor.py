r"""Entries and own features of X = (Z ⊙ S) A + E given A, s_nk from a slab of unit scale.

One entry, all others given: with b = (x − Σ_{j≠k} w_j a_j)·a_k and g = a_k·a_k, the likelihood of
w = s against w = 0 is e^{qs − ps²/2}, p = g/σ_x², q = b/σ_x², and with s integrated out

    Gaussian slab   (1 + p)^{−1/2} exp(q²/2(1 + p)),       s ~ N(q/(1 + p), 1/(1 + p))
    Laplace slab    [M(u) + M(v)] / 2√p,   u = (q − 1)/√p,  v = (−q − 1)/√p

where M(u) = ∫₀^∞ e^{ut − t²/2} dt: two half-normals, s > 0 with weight M(u) and s < 0 with M(v),
each drawn by rejection that is exact however far in the tail. The model is that of Knowles and
Ghahramani (2007). All through B = XAᵀ and G = AAᵀ: O(K) an entry, never D.

Own features of a row, their a integrated out: j of them with weights s_1 … s_j make the residual
e ~ N(0, (σ_x² + σ_a² V) I), V = Σ s², so the row's target is w_j ∏ p(s_i) N(e; V). Births, deaths
and changes of s propose from q(s) ∝ (mass of s's bin) · N(e; V + mid²): close to the exact one.
"""

import math

import numpy as np

from thali.kernels.bit_prior import accepts, is_held, prior_log_odds
from thali.kernels.compiling import helper, kernel
from thali.kernels.copying import put
from thali.kernels.gaussian_row import Scales
from thali.kernels.new_features import MOST_NEW, NewFeatures, is_full, log_step, room_left
from thali.kernels.observed_rows import observed_gram
from thali.kernels.row_potentials import count_on, row_step

# bins of |s| for proposals: fine where slabs have their mass, the last one open
EDGES = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0])
MOVES = 2  # births or deaths proposed to each row in a pass
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@helper
def log_mills(u):
    """log M(u), M(u) = ∫₀^∞ e^{ut − t²/2} dt = √2π e^{u²/2} Φ(u), exact in both tails."""
    if u < -30.0:
        x = 1.0 / (u * u)
        series = 1.0 - x * (1.0 - 3.0 * x * (1.0 - 5.0 * x * (1.0 - 7.0 * x * (1.0 - 9.0 * x))))
        return math.log(series) - math.log(-u)
    return HALF_LOG_2PI + 0.5 * u * u + math.log(0.5 * math.erfc(-u * math.sqrt(0.5)))


@helper
def log_add(a, b):
    top = max(a, b)
    return top + math.log1p(math.exp(min(a, b) - top))


@helper
def log_slab_ratio(p, q, laplace):
    """log ∫ slab(s) e^{qs − ps²/2} ds: the evidence for the entry being on, s integrated out."""
    if not laplace:
        return 0.5 * q * q / (1.0 + p) - 0.5 * math.log1p(p)
    if p < 1e-290:  # a feature of zeros says nothing
        return 0.0
    root = math.sqrt(p)
    both = log_add(log_mills((q - 1.0) / root), log_mills((-q - 1.0) / root))
    return both - math.log(2.0 * root)


@helper
def draw_excess(rng, u):
    """A draw of t > 0 with density ∝ e^{ut − t²/2}: a normal of mean u, cut at zero."""
    if u > -0.5:
        while True:
            t = u + rng.standard_normal()
            if t > 0.0:
                return t
    # an exponential of the best rate λ (Robert 1995): accepted with e^{−(t − (λ + u))²/2}
    rate = 0.5 * (math.sqrt(u * u + 4.0) - u)
    while True:
        t = rng.standard_exponential() / rate
        away = t - (rate + u)
        if rng.random() < math.exp(-0.5 * away * away):
            return t


@helper
def draw_slab(rng, p, q, laplace):
    """A draw of s with density ∝ slab(s) e^{qs − ps²/2}."""
    if not laplace:
        return q / (1.0 + p) + rng.standard_normal() / math.sqrt(1.0 + p)
    if p < 1e-290:
        s = rng.standard_exponential()
        return s if rng.random() < 0.5 else -s
    root = math.sqrt(p)
    u, v = (q - 1.0) / root, (-q - 1.0) / root
    if accepts(rng, log_mills(u) - log_mills(v)):
        return draw_excess(rng, u) / root
    return -draw_excess(rng, v) / root


@kernel
def turn_entries(rng, R, G, gaps, Z, S, prior, sigma_x, laplace):
    """One pass over all entries (z, s) given A, where R = XAᵀ − SG; S is zero where Z is.

    z with s integrated out, then s given z = 1; Z, S, R and the prior's counts change in place.
    ``gaps`` are as in ``given_features.turn_bits``.
    """
    precision = 1.0 / (sigma_x * sigma_x)
    G_n = G
    for n in range(Z.shape[0]):
        if gaps is not None:
            G_n = observed_gram(G, gaps, n)
        turn_row(rng, R[n], G_n, Z[n], S[n], prior, n, precision, laplace)


@helper
def turn_row(rng, r, G, z, weights, prior, n, precision, laplace):
    """One pass over the entries of row n."""
    has_theta = prior.theta is not None
    F = count_on(z, z.shape[0]) if has_theta else 0
    for i in range(z.shape[0]):
        odds = prior_log_odds(prior, i, z[i])
        if np.isnan(odds) or is_held(prior.order, n, i):
            continue
        if has_theta:
            odds += row_step(prior.theta, F - z[i])
        p = G[i, i] * precision
        q = (r[i] + weights[i] * G[i, i]) * precision
        s = 0.0
        on = accepts(rng, odds + log_slab_ratio(p, q, laplace))
        if on:
            s = draw_slab(rng, p, q, laplace)
        if on != (z[i] == 1):
            prior.m[i] += 1 if on else -1
            F += 1 if on else -1
            z[i] = 1 if on else 0
        move(r, G, weights, i, s)


@kernel
def redraw_weights(rng, R, G, Z, S, sigma_x, laplace):
    """One pass over s given Z and A, in place; R = XAᵀ − SG."""
    precision = 1.0 / (sigma_x * sigma_x)
    n_rows, k = Z.shape
    for n in range(n_rows):
        for i in range(k):
            if Z[n, i]:
                q = (R[n, i] + S[n, i] * G[i, i]) * precision
                move(R[n], G, S[n], i, draw_slab(rng, G[i, i] * precision, q, laplace))


@helper
def move(r, G, weights, i, s):
    """Set weight i to s, and r to what the row's residual products then are."""
    change = s - weights[i]
    if change != 0.0:
        weights[i] = s
        for j in range(r.shape[0]):
            r[j] -= change * G[i, j]


@helper
def log_rescaled(u, power, size, length, p):
    """The log density of u = log c: power · u − size c^p − length/c²."""
    if not -300.0 < u < 300.0:
        return -np.inf
    return power * u - size * math.exp(p * u) - length * math.exp(-2.0 * u)


@kernel
def rescaling(rng, m, d, size, length, laplace):
    """Factors c of s_k → c s_k, a_k → a_k/c, which leave the likelihood alone: (K,).

    c has density ∝ p(c s_k) N(a_k/c; 0, σ_a²) c^{m_k − D} d log c, the power of c being the
    Jacobian of the map; a slice step on log c from c = 1. ``size`` is Σ|s_k| of a Laplace slab and
    Σs_k²/2 of a Gaussian one, ``length`` ‖a_k‖²/2σ_a².
    """
    factors = np.ones(m.shape[0])
    p = 1.0 if laplace else 2.0
    for k in range(m.shape[0]):
        power = float(m[k] - d)
        width = 1.0 / math.sqrt(m[k] + d)
        bar = log_rescaled(0.0, power, size[k], length[k], p) + math.log(1.0 - rng.random())
        left = -width * rng.random()
        right = left + width
        while log_rescaled(left, power, size[k], length[k], p) > bar:
            left -= width
        while log_rescaled(right, power, size[k], length[k], p) > bar:
            right += width
        while right - left > 1e-15:
            u = left + (right - left) * rng.random()
            if log_rescaled(u, power, size[k], length[k], p) >= bar:
                factors[k] = math.exp(u)
                break
            if u < 0.0:
                left = u
            else:
                right = u
    return factors


# own features


@helper
def log_residual(V, rho, scales):
    """log N(e; 0, (σ_x² + σ_a² V) I) up to a constant, ρ = ‖e‖²."""
    variance = scales.sigma_x * scales.sigma_x + scales.sigma_a * scales.sigma_a * V
    return -0.5 * scales.dimensions * math.log(variance) - 0.5 * rho / variance


@helper
def log_folded_slab(s, laplace):
    """log density of |s|."""
    return -s if laplace else math.log(2.0) - HALF_LOG_2PI - 0.5 * s * s


@helper
def fill_bins(V, rho, scales, laplace, bins):
    """Log weights of the proposal's bins given the other own features; returns their log total."""
    last = EDGES.shape[0] - 1
    total = -np.inf
    for i in range(last + 1):
        if i < last:
            middle = 0.5 * (EDGES[i] + EDGES[i + 1])
            width = EDGES[i + 1] - EDGES[i]
        else:
            middle, width = EDGES[i] + 1.0, 1.0
        bins[i] = (
            log_folded_slab(middle, laplace)
            + math.log(width)
            + log_residual(V + middle * middle, rho, scales)
        )
        total = log_add(total, bins[i])
    return total


@helper
def propose_weight(rng, bins, total):
    """|s| from the proposal: a bin by its weight, then uniform in it (exponential in the last)."""
    last = EDGES.shape[0] - 1
    left = rng.random()
    for i in range(last):
        left -= math.exp(bins[i] - total)
        if left < 0.0:
            return EDGES[i] + (EDGES[i + 1] - EDGES[i]) * rng.random()
    return EDGES[last] + rng.standard_exponential()


@helper
def log_proposal(s, bins, total):
    """log q(|s|)."""
    last = EDGES.shape[0] - 1
    if s >= EDGES[last]:
        return bins[last] - total - (s - EDGES[last])
    i = 0
    while s >= EDGES[i + 1]:
        i += 1
    return bins[i] - total - math.log(EDGES[i + 1] - EDGES[i])


@helper
def log_gain(s, V, rho, scales, laplace, bins, total):
    """log p(s) N(e; V + s²) / q(s): what one more feature of weight s brings, over its proposal."""
    value = log_folded_slab(s, laplace) + log_residual(V + s * s, rho, scales)
    return value - log_proposal(s, bins, total)


@helper
def walk_own(rng, own, j, rho, new, theta, scales, laplace, bins):
    """Births and deaths of one row's own features, then a change of each; the new number of them.

    ``own[:j]`` holds |s|. A birth from j is accepted with the ratio
    (w_{j+1}/w_j) · p(s) N(e; V + s²) / q(s) N(e; V), with w as in ``new_features``: the j+1 of the
    target's unordered sets and that of the death's choice among j+1 of them cancel. A death has the
    inverse ratio.
    """
    for _ in range(MOVES):
        V = 0.0
        for i in range(j):
            V += own[i] * own[i]
        if rng.random() < 0.5:
            if j == own.shape[0] or is_full(new.free, j):
                continue
            total = fill_bins(V, rho, scales, laplace, bins)
            s = propose_weight(rng, bins, total)
            ratio = log_step(new, theta, j) - log_residual(V, rho, scales)
            ratio += log_gain(s, V, rho, scales, laplace, bins, total)
            if math.log(1.0 - rng.random()) < ratio:
                own[j] = s
                j += 1
        elif j > 0:
            i = int(rng.random() * j)
            s = own[i]
            V = max(V - s * s, 0.0)
            total = fill_bins(V, rho, scales, laplace, bins)
            ratio = log_step(new, theta, j - 1) - log_residual(V, rho, scales)
            ratio += log_gain(s, V, rho, scales, laplace, bins, total)
            if math.log(1.0 - rng.random()) < -ratio:
                own[i] = own[j - 1]
                j -= 1
    for i in range(j):
        V = 0.0
        for other in range(j):
            if other != i:
                V += own[other] * own[other]
        total = fill_bins(V, rho, scales, laplace, bins)
        s = propose_weight(rng, bins, total)
        ratio = log_gain(s, V, rho, scales, laplace, bins, total)
        ratio -= log_gain(own[i], V, rho, scales, laplace, bins, total)
        if math.log(1.0 - rng.random()) < ratio:
            own[i] = s
    return j


@kernel
def left_by_shared(B, R, G, squares, Z, S, m):
    """ρ = ‖x − wA‖² of each row without its own features (m = 1): ‖x‖² − w·(B + R), R = B − wG,
    where it has none."""
    n_rows, k = Z.shape
    left = np.empty(n_rows)
    shared = np.empty(k)
    for n in range(n_rows):
        rho = squares[n]
        own = False
        for i in range(k):
            rho -= S[n, i] * (B[n, i] + R[n, i])
            own = own or (Z[n, i] and m[i] == 1)
        if own:
            rho = squares[n]
            for i in range(k):
                shared[i] = S[n, i] if Z[n, i] and m[i] != 1 else 0.0
            for i in range(k):
                if shared[i] != 0.0:
                    rho -= 2.0 * shared[i] * B[n, i]
                    for j in range(k):
                        rho += shared[i] * shared[j] * G[i, j]
        left[n] = max(rho, 0.0)
    return left


@kernel
def move_own_features(rng, rho, dimensions, Z, S, m, others, tables, scales, laplace):
    """The number of own features of each row (N,), and their weights s, row after row.

    ``rho`` is what shared features leave of each row, in as many ``dimensions`` as were observed;
    ``others`` are the numbers of the rows' other features, which only θ asks for.
    """
    n_rows, k = Z.shape
    used = k
    counts = np.zeros(n_rows, np.int64)
    weights = np.empty(16)
    held = 0
    bins = np.empty(EDGES.shape[0])
    theta = tables.row_potentials
    for n in range(n_rows):
        own = np.empty(int((m[Z[n] == 1] == 1).sum()) + MOVES)  # room for every birth of a pass
        has = 0
        for i in range(k):
            if Z[n, i] and m[i] == 1:
                own[has] = abs(S[n, i])
                has += 1
        free = room_left(tables.capacity, used - has)
        F = others[n] if theta is not None else 0
        new = NewFeatures(tables.new_log_weight, free, F, MOST_NEW)
        seen = Scales(scales.sigma_x, scales.sigma_a, dimensions[n])
        now = walk_own(rng, own, has, rho[n], new, theta, seen, laplace, bins)
        used += now - has
        counts[n] = now
        if held + now > weights.shape[0]:
            longer = np.empty(2 * (held + now))
            put(longer, weights)
            weights = longer
        for i in range(now):
            weights[held] = own[i] if rng.random() < 0.5 else -own[i]
            held += 1
    return counts, weights[:held].copy()
