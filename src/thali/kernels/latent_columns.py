r"""Latent Gaussians of tables: normal draws within bounds, and of levels of which one is largest.

A latent y ~ N(v, σ²) is known to lie between two bounds, which the entry in the table says: a yes
is y > 0, a count an interval, a number the two bounds in one. Of a column with levels each has a
latent of its own, with σ = 1, and the one seen is the largest.

Draws between bounds a < b of a standard normal are exact: normal ones until one is there where both
lie far enough apart around zero; uniform ones, taken with probability φ(x)/max φ, where they are
near; and exponential ones (Robert 1995) in a tail.

log P(a < e < b) is exact in both tails. The probability that one of several latents is the largest
is a trapezoid sum over products of Φ, which a table of Φ and φ interpolates to 1e-10 (cubic
Hermite); where they are small they are computed.
"""

import math

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.maintained_rows import FAST
from thali.kernels.sparse_factor import log_mills

TRIED = 60  # latents drawn to try all levels of a row at once, before one after the other
ROOT_HALF = math.sqrt(0.5)
WIDE = 2.5  # from which on normal draws between bounds around zero are soon there
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
FAR, A_UNIT = 8.5, 64  # the table of Φ ends at ±FAR, beyond which it is 0 or 1, with so many a unit
BELOW_ZERO = -2.3  # x below which log Φ(x) is not taken from it: it is known to 1e-8 above
NOTHING = 1e-12  # a share of a probability that does not count
LEAST = -6.5  # from which on to FAR the noise e of the largest of several latents is looked at,
FINE = 16  # in steps of so many knots: a quarter, of a density with a standard deviation near 0.5
STEP = FINE / A_UNIT
NODES = int((FAR - LEAST) / STEP) + 1
BEHIND = 4.0  # how far behind another a latent may be so that the table is good enough
IDLE = 1e-14  # a share of the term UP steps above, which can only become smaller
UP = 8
HOPELESS = 20.0  # behind another latent by so much, none is the largest: P < 1e-44


def knots(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Φ at x, and how much it rises from one knot to the next."""
    below = np.array([0.5 * math.erfc(-each * ROOT_HALF) for each in x])
    return below, np.exp(-0.5 * x * x - HALF_LOG_2PI) / A_UNIT


def by_step(table: np.ndarray) -> np.ndarray:
    """Row p has every knot that is p after a whole number of steps, p up to a step itself."""
    return np.array([table[p : len(table) - FINE + p : FINE] for p in range(FINE + 1)])


BELOW, RISE = knots(np.linspace(-FAR, FAR, int(2 * FAR * A_UNIT) + 1))
NOISE = LEAST + STEP * np.arange(NODES + int(BEHIND / STEP) + 1)
DENSITY = STEP * np.exp(-0.5 * NOISE * NOISE - HALF_LOG_2PI)
LONG = knots(np.arange(LEAST - BEHIND, 2.0 * FAR - LEAST + 1.0, 1.0 / A_UNIT))
BELOW_BY_STEP, RISE_BY_STEP = by_step(LONG[0]), by_step(LONG[1])


@helper
def between(rng, a, b):
    """A standard normal between a < b, either of which may be infinite."""
    if a <= 0.0 <= b:
        if b - a >= WIDE:
            while True:
                x = rng.standard_normal()
                if a <= x <= b:
                    return x
        while True:
            x = a + (b - a) * rng.random()
            if rng.random() < math.exp(-0.5 * x * x):
                return x
    if b < 0.0:
        return -in_tail(rng, -b, -a)
    return in_tail(rng, a, b)


@helper
def in_tail(rng, a, b):
    """A standard normal between 0 < a < b."""
    rate = 0.5 * (a + math.hypot(a, 2.0))
    if (b - a) * rate < 1.0:
        while True:
            x = a + (b - a) * rng.random()
            if rng.random() < math.exp(0.5 * (a - x) * (a + x)):
                return x
    while True:
        x = a + rng.standard_exponential() / rate
        gap = x - rate
        if x <= b and rng.random() < math.exp(-0.5 * gap * gap):
            return x


@helper(borrows=True)
def interpolated(x):
    """Φ(x) to 1e-10."""
    t = (x + FAR) * A_UNIT
    if t <= 0.0:
        return 0.0
    i = int(t)
    if i >= BELOW.shape[0] - 1:
        return 1.0
    t -= i
    u = 1.0 - t
    one = BELOW[i] * (1.0 + 2.0 * t) + RISE[i] * t
    other = BELOW[i + 1] * (3.0 - 2.0 * t) - RISE[i + 1] * u
    return one * u * u + other * t * t


@helper
def log_below(x):
    """log Φ(x)."""
    if x > BELOW_ZERO:
        return math.log(interpolated(x))
    return log_mills(x) - 0.5 * x * x - HALF_LOG_2PI


@helper
def log_mass(a, b):
    """log P(a < e < b) of a standard normal, by the tail in which both are."""
    if a > 0.0:
        a, b = -b, -a
    if a == -np.inf:
        return 0.0 if b == np.inf else log_below(b)
    if b <= 0.0:
        top = log_below(b)
        gap = log_below(a) - top
        return top + math.log(-math.expm1(gap)) if gap < 0.0 else -np.inf
    mass = 0.5 * (math.erfc(-b * ROOT_HALF) - math.erfc(-a * ROOT_HALF))
    return math.log(mass) if mass > 0.0 else -np.inf


@kernel
def draw_between(rng, mean, sd, low, high, Y):
    """Every entry of Y, (N, L), from N(mean, sd²) between its bounds; equal bounds are a value.

    NaN for a bound leaves an entry as it is.
    """
    for n in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            a, b, v, s = low[n, j], high[n, j], mean[n, j], sd[j]
            if a == b:
                Y[n, j] = a
            elif a < b:
                x = v + s * between(rng, (a - v) / s, (b - v) / s)
                Y[n, j] = min(max(x, a), b)


@kernel
def log_between(mean, sd, low, high):
    """Σ log P of what bounds say of N(mean, sd²), (N, L): a density where they are equal."""
    total = 0.0
    logs = np.log(sd) + HALF_LOG_2PI
    for n in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            a, b, v, s = low[n, j], high[n, j], mean[n, j], sd[j]
            if a == b:
                e = (a - v) / s
                total -= 0.5 * e * e + logs[j]
            elif a < b and (a > -np.inf or b < np.inf):
                total += log_mass((a - v) / s, (b - v) / s)
    return total


@kernel
def draw_ordinal(rng, mean, j, level, edges, Y):
    """Latent j of every row, with noise one, between the edges of its level; −1 is not known."""
    for n in range(Y.shape[0]):
        r, v = level[n], mean[n, j]
        a, b = (edges[r], edges[r + 1]) if r >= 0 else (-np.inf, np.inf)
        Y[n, j] = min(max(v + between(rng, a - v, b - v), a), b)


@kernel
def log_ordinal(mean, j, level, edges):
    """Σ log P(level) of latent j of every row, with noise one."""
    total = 0.0
    for n in range(mean.shape[0]):
        r, v = level[n], mean[n, j]
        if r >= 0:
            total += log_mass(edges[r] - v, edges[r + 1] - v)
    return total


@helper
def log_gap(u, i, edges, mean, j, level, shape, rate):
    """The log density of u = log of the gap between edges i and i + 1, given the rows' levels.

    Edges beyond move along with it; rows of levels below it are not concerned.
    """
    if not -700.0 < u < 700.0:
        return -np.inf
    gap = math.exp(u)
    shift = gap - (edges[i + 1] - edges[i])
    total = shape * u - rate * gap
    for n in range(mean.shape[0]):
        r = level[n]
        if r >= i:
            a = edges[r] + shift if r > i else edges[r]
            total += log_mass(a - mean[n, j], edges[r + 1] + shift - mean[n, j])
    return total


@kernel
def draw_edges(rng, mean, j, level, edges, shape, rate):
    """Gaps between the edges −∞, 0, c_1, …, ∞ of an ordinal latent, one by one: a slice step on the
    logarithm of each, which is Gamma(shape, rate), latents integrated out."""
    width = min(1.0, 3.0 / math.sqrt(1.0 + mean.shape[0]))
    for i in range(1, edges.shape[0] - 2):
        at = math.log(edges[i + 1] - edges[i])
        bar = log_gap(at, i, edges, mean, j, level, shape, rate)
        bar += math.log(1.0 - rng.random())
        left = at - width * rng.random()
        right = left + width
        while log_gap(left, i, edges, mean, j, level, shape, rate) > bar:
            left -= width
        while log_gap(right, i, edges, mean, j, level, shape, rate) > bar:
            right += width
        while right - left > 1e-15 * (1.0 + abs(at)):
            u = left + (right - left) * rng.random()
            if log_gap(u, i, edges, mean, j, level, shape, rate) >= bar:
                shift = math.exp(u) - (edges[i + 1] - edges[i])
                for beyond in range(i + 1, edges.shape[0] - 1):
                    edges[beyond] += shift
                break
            if u < at:
                left = u
            else:
                right = u


@helper
def draw_levels_of_row(rng, v, first, end, r, y):
    """Latents ``first`` to ``end`` of a row, with means v, of which r is the largest; −1 if that is
    not known. All at once until it is, and after some tries one given the others in y."""
    n_levels = end - first
    own = np.empty(n_levels)
    for _ in range(max(1, TRIED // n_levels)):
        largest = 0
        for j in range(n_levels):
            own[j] = v[first + j] + rng.standard_normal()
            if own[j] > own[largest]:
                largest = j
        if r < 0 or largest == r:
            for j in range(n_levels):
                y[first + j] = own[j]
            return
    bound = -np.inf
    for j in range(n_levels):
        if j != r:
            bound = max(bound, y[first + j])
    at = v[first + r]
    y[first + r] = at + between(rng, bound - at, np.inf)
    for j in range(n_levels):
        if j != r:
            top = y[first + r] - v[first + j]
            y[first + j] = v[first + j] + between(rng, -np.inf, top)


@kernel
def draw_levels(rng, mean, level, first, end, Y):
    """The latents of one column with levels, columns ``first`` to ``end`` of the mean and of Y.

    ``level`` is the one that each row has, −1 where it is not known: then every latent is free.
    """
    for n in range(Y.shape[0]):
        draw_levels_of_row(rng, mean[n], first, end, level[n], Y[n])


@helper(borrows=True)
def all_below(v, r, e):
    """φ(e) Π_j Φ(v_r − v_j + e): how much of the chance of level r is where its noise is e."""
    inside, at = math.exp(-0.5 * e * e - HALF_LOG_2PI), v[r] + e
    for j in range(v.shape[0]):
        if j != r:
            inside *= 0.5 * math.erfc((v[j] - at) * ROOT_HALF)
    return inside


@helper
def chance_of_rare_level(v, r, rival):
    """``chance_of_level`` where another latent is that far ahead: from half the way to it, below
    which the integrand falls, steps go up and down until they add nothing."""
    total = 0.0
    for way in (STEP, -STEP):
        e = 0.5 * rival + min(way, 0.0)
        before = 0.0
        while True:
            more = all_below(v, r, e)
            total += more
            if more <= NOTHING * total and (more < before or way < 0.0 or e > rival + FAR):
                break
            before = more
            e += way
    return total * STEP


@helper(borrows=True, fastmath=FAST)
def times_all(inside, first, x, below, rise):
    """inside_q Φ(x + q STEP) in place, from q = first on: all are the same share t of the way
    between two knots, p after a whole number of steps."""
    place = (x - LEAST + BEHIND) * A_UNIT
    i = int(place)
    p, k, t = i % FINE, i // FINE, place - i
    u = 1.0 - t
    a, b = (1.0 + 2.0 * t) * u * u, t * u * u
    c, d = (3.0 - 2.0 * t) * t * t, u * t * t
    begin, end = k + first, k + inside.shape[0]  # slices are read side by side, indices are not
    inside = inside[first:]
    below_here, below_next = below[p, begin:end], below[p + 1, begin:end]
    rise_here, rise_next = rise[p, begin:end], rise[p + 1, begin:end]
    for q in range(inside.shape[0]):
        here = a * below_here[q] + b * rise_here[q]
        inside[q] *= here + c * below_next[q] - d * rise_next[q]


@kernel
def chance_of_level(v, r, inside):
    """P(latent r is the largest) of independent N(v, 1): ∫ ``all_below`` de by the trapezoid rule,
    whose terms are put into ``inside``.

    It is log-concave in e, with its mode above half the way to the largest of the others.
    """
    rival = -np.inf
    for j in range(v.shape[0]):
        if j != r:
            rival = max(rival, v[j] - v[r])
    if rival > 2.0 * BEHIND:
        return chance_of_rare_level(v, r, rival)
    shift = int(max(0.5 * rival, 0.0) / STEP)
    least, first = LEAST + shift * STEP, 0
    for q in range(NODES):
        inside[q] = DENSITY[shift + q]
    for j in range(v.shape[0]):
        x = v[r] - v[j] + least
        if j == r or x > FAR:
            continue
        if v[j] - v[r] <= BEHIND:
            times_all(inside, first, x, BELOW_BY_STEP, RISE_BY_STEP)
        else:
            for q in range(first, NODES):
                inside[q] *= 0.5 * math.erfc(-(x + q * STEP) * ROOT_HALF)
        while inside[first] < IDLE * inside[first + UP] and first < NODES - UP - 1:
            first += 1
    total = 0.0
    for q in range(first, NODES):
        total += inside[q]
    return total


@kernel
def log_levels(mean, level, first, end):
    """Σ log P(latent ``level`` is the largest) of rows of N(mean, 1), −1 for one that is not known;
    latents are columns ``first`` to ``end``."""
    total, inside = 0.0, np.empty(NODES)
    for n in range(mean.shape[0]):
        if level[n] >= 0:
            chance = chance_of_level(mean[n, first:end], level[n], inside)
            total += math.log(max(chance, 1e-300))
    return total


@kernel
def level_chances(mean, found):
    """P(latent r is the largest) of rows of N(mean, 1), (rows, levels), summing to one.

    Σ_q φ(e_q + h_r)/Φ(e_q + h_r) Π_j Φ(e_q + h_j), e the noise of the latent with the highest mean
    and h how far behind it means are: the products serve all levels. Good to 1e-10.
    """
    n_levels = mean.shape[1]
    below, inside = np.empty((n_levels, NODES)), np.empty(NODES)
    for n in range(mean.shape[0]):
        top, total = mean[n].max(), 0.0
        inside[:] = DENSITY[:NODES]
        for r in range(n_levels):
            below[r] = 1.0
            if top - mean[n, r] + LEAST < FAR:
                times_all(below[r], 0, top - mean[n, r] + LEAST, BELOW_BY_STEP, RISE_BY_STEP)
                inside *= below[r]
        for r in range(n_levels):
            h, chance = top - mean[n, r], 0.0
            if h < HOPELESS:
                factor = math.exp(-0.5 * h * h - LEAST * h)  # φ(e + h) over φ(e)
                by_step = math.exp(-STEP * h)
                for q in range(NODES):
                    chance += inside[q] * factor / below[r, q]
                    factor *= by_step
            found[n, r] = max(chance, 1e-300)
            total += found[n, r]
        for r in range(n_levels):
            found[n, r] /= total
