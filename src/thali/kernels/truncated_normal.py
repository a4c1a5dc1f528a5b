r"""The normal distribution cut off below zero, TN(μ, σ²): draws, normalizer, moments, entropy.

With t = μ/σ, Φ and φ of the standard normal, and h(t) = φ(t)/Φ(t),

    log ∫₀^∞ N(a; μ, σ²) da = log Φ(t)
    mean     σ (t + h)
    variance σ² (1 − h(t + h))
    entropy  log σ + ½ log 2πe + log Φ(t) − ½ t h

For t < 0 these cancel (t + h ≈ 1/|t|), so with s = −t they are taken from Laplace's continued
fraction, h = s + g_1 and g_j = j/(s + g_{j+1}), in forms without large terms:

    mean σ g_1,   variance σ² g_1(g_2 − g_1),   entropy log σ + ½ + ½ s g_1 − log(s + g_1)

All are good to 12 digits or more for t from −1e8 to 1e8.

Draws are exact: for t ≥ 0 normal ones until one is not negative (at least every other is not); for
t < 0 by Robert (1995): exponential of rate λ = (s + √(s²+4))/2, taken with probability
exp(−½(a − 1/λ)²), at least 0.76. The exponential draw is the answer itself, so no tail is too far.
"""

import math

from thali.kernels.compiling import helper, kernel

FRACTION = 2.0  # the s from which the continued fraction serves; below it nothing cancels much
ROOT_HALF = math.sqrt(0.5)
LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)


@helper
def tail_fraction(s):
    """g_1 and g_2 of the continued fraction at s ≥ 2: g_j = j/(s + g_{j+1}).

    Its error falls like exp(−2s√(2n)) in the number of terms n.
    """
    g = 0.0
    for j in range(int(12.0 + 360.0 / (s * s)), 1, -1):
        g = j / (s + g)
    return 1.0 / (s + g), g


@helper
def erfcx(x):
    """e^{x²} erfc(x), the scaled complementary error function."""
    if x < FRACTION * ROOT_HALF:
        return math.exp(x * x) * math.erfc(x)
    s = x / ROOT_HALF
    return ROOT_2_OVER_PI / (s + tail_fraction(s)[0])


@helper
def hazard(t):
    """h(t) = φ(t)/Φ(t)."""
    if t <= -FRACTION:
        return -t + tail_fraction(-t)[0]
    return ROOT_2_OVER_PI * math.exp(-0.5 * t * t) / math.erfc(-t * ROOT_HALF)


@helper
def log_ndtr(t):
    """log Φ(t)."""
    if t > 0.0:
        return math.log1p(-0.5 * math.erfc(t * ROOT_HALF))
    if t > -FRACTION:
        return math.log(0.5 * math.erfc(-t * ROOT_HALF))
    return -0.5 * t * t - HALF_LOG_2PI - math.log(hazard(t))


@helper
def log_lifted_ndtr(t):
    """log 2Φ(t) + t²/2 = log erfcx(−t/√2), without overflow on the right."""
    if t > 0.0:
        return LOG_2 + 0.5 * t * t + math.log1p(-0.5 * math.erfc(t * ROOT_HALF))
    return math.log(erfcx(-t * ROOT_HALF))


@helper
def mean(mu, sigma):
    """E[a]."""
    t = mu / sigma
    if t <= -FRACTION:
        return sigma * tail_fraction(-t)[0]
    return sigma * (t + hazard(t))


@helper
def variance(mu, sigma):
    """E[a²] − E[a]²."""
    t = mu / sigma
    if t <= -FRACTION:
        g, g2 = tail_fraction(-t)
        return sigma * sigma * g * (g2 - g)
    h = hazard(t)
    return sigma * sigma * (1.0 - h * (t + h))


@helper
def entropy(mu, sigma):
    """−E[log p(a)]."""
    t = mu / sigma
    if t <= -FRACTION:
        g, _ = tail_fraction(-t)
        return math.log(sigma) + 0.5 - 0.5 * t * g - math.log(g - t)
    return math.log(sigma) + HALF_LOG_2PI + 0.5 + log_ndtr(t) - 0.5 * t * hazard(t)


@helper
def log_density(a, mu, sigma):
    """log p(a) for a ≥ 0, with the far tail's −t²/2 taken against the normal's own."""
    t, x = mu / sigma, a / sigma
    if t <= -FRACTION:  # −½(x − t)² − log Φ(t) − log √2π = −½x² + xt + log h(t)
        return -0.5 * x * x + x * t + math.log(hazard(t)) - math.log(sigma)
    return -0.5 * (x - t) ** 2 - HALF_LOG_2PI - log_ndtr(t) - math.log(sigma)


@helper
def sample(rng, mu, sigma):
    """A draw of TN(μ, σ²)."""
    t = mu / sigma
    if t >= 0.0:
        while True:
            a = t + rng.standard_normal()
            if a >= 0.0:
                return sigma * a
    rate = 0.5 * (math.hypot(t, 2.0) - t)
    while True:
        a = rng.standard_exponential() / rate
        gap = a - 1.0 / rate
        if rng.random() < math.exp(-0.5 * gap * gap):
            return sigma * a


@kernel
def sample_each(rng, mu, sigma, out):
    """Independent draws into ``out``, each with its own mean and σ."""
    for i in range(out.shape[0]):
        out[i] = sample(rng, mu[i], sigma[i])


@kernel
def moments(mu, sigma, means, variances, entropies):
    """Mean, variance and entropy of each TN(mu[i], sigma[i]²), into the last three arrays."""
    for i in range(mu.shape[0]):
        means[i] = mean(mu[i], sigma[i])
        variances[i] = variance(mu[i], sigma[i])
        entropies[i] = entropy(mu[i], sigma[i])
