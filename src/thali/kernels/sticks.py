r"""The best sticks given how many rows have each feature (``priors/stick_frequencies.py``).

A turn takes K steps, not K²: with w_y = E[log(1 − v_y)] + Σ_{m<y} E[log v_m] the shares are
q_m(y) = e^{w_y − t_m}, t_m = log Σ_{y≤m} e^{w_y}, and so

    Σ_{m≥y} (N − n_m) q_m(y) = exp(w_y + log Σ_{m≥y} (N − n_m) e^{−t_m}).
"""

import numpy as np

from thali.kernels.compiling import helper, kernel

SERIES_FROM = 10.0  # where seven terms of the digamma function's series leave less than rounding


@helper
def digamma(x):
    """The derivative of log Γ, of a positive number."""
    below = 0.0
    while x < SERIES_FROM:
        below += 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    rest = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (
        1.0 / 132.0 - z * (691.0 / 32760.0 - z / 12.0)
    )))))  # fmt: skip
    return np.log(x) - 0.5 / x - rest - below


@helper
def log_add(a, b):
    """log(eᵃ + eᵇ)."""
    low, high = min(a, b), max(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@kernel
def best_sticks(tau, counts, n, alpha, rounds, same):
    """The shares and τ in turn, in place, until τ moves by less than ``same`` of itself."""
    k = len(tau)
    w, total = np.empty(k), np.empty(k)
    for _ in range(rounds):
        passed, last = 0.0, -np.inf  # Σ_{m<y} E[log v_m], and t of the feature before
        for y in range(k):
            both = digamma(tau[y, 0] + tau[y, 1])
            w[y] = digamma(tau[y, 1]) - both + passed
            passed += digamma(tau[y, 0]) - both
            last = log_add(last, w[y])
            total[y] = last
        later, beyond, moved = -np.inf, 0.0, 0.0
        for y in range(k - 1, -1, -1):
            without = n - counts[y]
            if without > 0.0:
                later = log_add(later, np.log(without) - total[y])
            off = np.exp(w[y] + later)
            first, second = alpha + beyond + counts[y], 1.0 + off
            beyond += counts[y] + off
            moved = max(moved, abs(first / tau[y, 0] - 1.0), abs(second / tau[y, 1] - 1.0))
            tau[y, 0], tau[y, 1] = first, second
        if moved < same:
            break
