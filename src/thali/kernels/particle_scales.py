r"""The scales of many particles: log P(X | Z, σ_x, σ_a) of each, and a slice step on log σ.

Both read a particle's C = ZᵀZ and T = ZᵀX only (``scale_steps``). A changed σ changes r, and M and
G are made afresh.
"""

import numpy as np

from thali.kernels.compiling import kernel
from thali.kernels.evidence import log_evidence, spectrum
from thali.kernels.maintained_rows import Rows, refresh
from thali.kernels.scale_steps import draw_scales


@kernel
def log_evidences(particles, seen, sigma_x, sigma_a, out, first, last):
    """Fill log P(X | Z, σ_x, σ_a) of each particle."""
    for p in range(first, last):
        k = particles.k[p]
        d, t = spectrum(particles.C[p, :k, :k].copy(), particles.T[p, :k])
        out[p] = log_evidence(d, t, seen.squares, seen.n, seen.dimensions, sigma_x[p], sigma_a[p])


@kernel
def move_scales(rng, particles, seen, laws, sigma_x, sigma_a, first, last):
    """Update σ_x and σ_a of each particle where they have priors; M and G follow."""
    no_bits = np.zeros((0, 0), np.uint8)  # of a particle Z is not asked for
    for p in range(first, last):
        k, C, T = particles.k[p], particles.C[p], particles.T[p]
        sigma_x[p], sigma_a[p], _ = draw_scales(
            rng, C[:k, :k].copy(), T[:k], seen, sigma_x[p], sigma_a[p], laws, False
        )
        rows = Rows(no_bits, particles.m[p], C, T, particles.M[p], particles.G[p])
        refresh(rows, k, (sigma_x[p] / sigma_a[p]) ** 2)
        particles.lost[p] = 0.0
