r"""How often a new row of a table has each feature, where rows have features in amounts.

Given features A, noise σ, biases b and cutpoints: Y given bits z and amounts s, which lies between
its bounds, and of a column with levels the largest is known; then (z, s) given X' = (Y − b)/σ, each
bit with its amount integrated out and the amount given the bit (``sparse_factor``), in turn. A few
copies of the row are walked side by side; shares of their bits are averaged.
"""

import numpy as np

from thali.kernels.compiling import kernel
from thali.kernels.latent_columns import between, draw_levels_of_row
from thali.kernels.sparse_factor import turn_row


@kernel
def shares_of_row(rng, low, high, first, end, level, A, noise, biases, prior, laplace, plan):
    """P(z_k = 1 | x), (K,): ``plan`` are copies, sweeps before those that count, and these.

    ``low`` and ``high`` are of the latents that were seen, NaN for those of columns with levels,
    which lie from ``first`` to ``end``; ``level`` has the largest one of each.
    """
    copies, burn_in, sweeps = plan
    k, n_latents = A.shape
    G = A @ A.T
    total = np.zeros(k)
    z = np.zeros(k, np.uint8)
    s = np.zeros(k)
    r = np.empty(k)
    mean, y, x = np.empty(n_latents), np.empty(n_latents), np.empty(n_latents)
    for _ in range(copies):
        for i in range(k):
            z[i] = 1 if rng.random() < prior.pi[i] else 0
            s[i] = rng.standard_normal() if z[i] else 0.0
        for j in range(n_latents):
            y[j] = biases[j]
        for sweep in range(burn_in + sweeps):
            for j in range(n_latents):
                effect = 0.0
                for i in range(k):
                    effect += s[i] * A[i, j]
                mean[j] = biases[j] + noise[j] * effect
                a, b = low[j], high[j]
                if a == b:
                    y[j] = a
                elif a < b:
                    y[j] = mean[j] + noise[j] * between(
                        rng, (a - mean[j]) / noise[j], (b - mean[j]) / noise[j]
                    )
            for c in range(first.shape[0]):
                draw_levels_of_row(rng, mean, first[c], end[c], level[c], y)
            for j in range(n_latents):
                x[j] = (y[j] - biases[j]) / noise[j]
            for i in range(k):
                r[i] = 0.0
                for j in range(n_latents):
                    r[i] += A[i, j] * x[j]
                for j in range(k):
                    r[i] -= G[i, j] * s[j]
            turn_row(rng, r, G, z, s, prior, 1.0, laplace)
            if sweep >= burn_in:
                for i in range(k):
                    total[i] += z[i]
    return total / (copies * sweeps)
