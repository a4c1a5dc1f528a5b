r"""What a rate of its own adds to a count: the sum over how many of x come from it, and draws.

x ~ Poisson(μ(λ + g)) with g ~ Gamma(σ, r) is y + (x − y), y of which come from g. As a multiple of
its probability without g,

    P(x | σ) / P(x | g = 0) = (r/(r+μ))^σ S,      S = Σ_y t_y,   t_y = C(x,y) (σ)_y q^{−y},
    q = λ(r + μ),      P(y | x) = t_y / S,      g | y ~ Gamma(σ + y, r + μ),

with (σ)_y = Γ(σ+y)/Γ(σ). Terms rise to the largest, t_m, and fall beyond it (where σ < 1 they may
rise again towards y = 0, of which t_0 is nearly all there is), so that sums begin at m, go up and
down as far as it matters, and take about √x terms. All are multiples of t_m: nothing overflows.

S is a Charlier polynomial in −σ, whose zeros are real and not negative: log S is concave in σ ≥ 0,
by which a sum over the number of features of one row knows its end (``kernels/poisson``).
"""

import math

import numpy as np

from thali.kernels.compiling import helper

LOST = 1e-20  # of the sum so far: terms smaller than this end it


@helper
def largest_term(x, sigma, q):
    """m: the last y at which t_y is a maximum.

    t_{y+1} ≥ t_y where y² − b y − (xσ − q) ≤ 0, b = x − σ − q.
    """
    b, c = x - sigma - q, x * sigma - q
    if b < 0.0:
        if c < 0.0:
            return 0.0
        root = 2.0 * c / (math.sqrt(b * b + 4.0 * c) - b)
    else:
        square = b * b + 4.0 * c
        if square < 0.0:
            return 0.0
        root = 0.5 * (b + math.sqrt(square))
    return max(0.0, min(x, math.floor(root) + 1.0))


@helper
def log_term(x, sigma, q, y):
    """log t_y."""
    if y == 0.0:
        return 0.0
    ways = math.lgamma(x + 1.0) - math.lgamma(y + 1.0) - math.lgamma(x - y + 1.0)
    return ways + math.lgamma(sigma + y) - math.lgamma(sigma) - y * math.log(q)


@helper
def walk(x, sigma, q, m, target):
    """S/t_m and −1; or, where the sum comes to pass ``target`` on its way, that y."""
    total = 1.0
    if total > target:
        return total, m
    t, y = 1.0, m
    while y < x:
        t *= (x - y) * (sigma + y) / ((y + 1.0) * q)
        y += 1.0
        total += t
        if total > target:
            return total, y
        if t < LOST * total:
            break
    t, y = 1.0, m
    while y > 0.0:
        t *= y * q / ((x - y + 1.0) * (sigma + y - 1.0))
        y -= 1.0
        total += t
        if total > target:
            return total, y
        if t < LOST * total:
            break
    if y > 0.0:
        total += math.exp(-log_term(x, sigma, q, m))
        if total > target:
            return total, 0.0
    return total, -1.0


@helper
def log_sum(x, sigma, q):
    """log S."""
    m = largest_term(x, sigma, q)
    total, _ = walk(x, sigma, q, m, np.inf)
    return log_term(x, sigma, q, m) + math.log(total)


@helper
def draw_part(rng, x, sigma, q):
    """y given x."""
    m = largest_term(x, sigma, q)
    total, _ = walk(x, sigma, q, m, np.inf)
    _, y = walk(x, sigma, q, m, rng.random() * total)
    return y if y >= 0.0 else m
