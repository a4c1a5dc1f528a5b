r"""The scales of many particles where entries of X are missing (``particle_scales`` without gaps).

Columns are independent given Z, each with the eigenvalues d of its group's C_g. So the whole is
like one column of all observed entries, with the eigenvalues of every column one after the other:
K·D of them, and O(KD) an evaluation.
"""

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.evidence import log_evidence
from thali.kernels.maintained_rows import refresh
from thali.kernels.masked_particle_rows import rows_of_group
from thali.kernels.scale_steps import slice_scale


@helper
def spectra(particles, p, k, start):
    """Eigenvalues d and squares t of UᵀT, column after column."""
    width = particles.T.shape[2]
    d = np.zeros(k * width)
    t = np.zeros(k * width)
    for g in range(len(start) - 1):
        values, U = np.linalg.eigh(particles.C_g[p, g, :k, :k].copy())
        for c in range(start[g], start[g + 1]):
            for i in range(k):
                turned = 0.0
                for j in range(k):
                    turned += U[j, i] * particles.T[p, j, c]
                d[c * k + i] = max(values[i], 0.0)
                t[c * k + i] = turned * turned
    return d, t


@kernel
def log_evidences(particles, start, seen, sigma_x, sigma_a, out, first, last):
    """Fill log P(X_o | Z, σ_x, σ_a) of each particle; ``seen`` counts entries, in one dimension."""
    for p in range(first, last):
        d, t = spectra(particles, p, particles.k[p], start)
        out[p] = log_evidence(d, t, seen.squares, seen.n, seen.dimensions, sigma_x[p], sigma_a[p])


@kernel
def move_scales(rng, particles, start, seen, laws, sigma_x, sigma_a, first, last):
    """Update σ_x and σ_a of each particle where they have priors; M and G follow."""
    no_bits = np.zeros((0, 0), np.uint8)  # of a particle Z is not asked for
    for p in range(first, last):
        k = particles.k[p]
        d, t = spectra(particles, p, k, start)
        x, a = sigma_x[p], sigma_a[p]
        if laws.x.inferred:
            x = max(x, (1.0 + 1e-9) * max(laws.lowest, laws.least * a))
            width = min(1.0, 3.0 / np.sqrt(2.0 * max(seen.n, 1)))
            x = slice_scale(rng, True, x, a, d, t, seen, laws, width)
        if laws.a.inferred:
            width = min(1.0, 3.0 / np.sqrt(2.0 * (len(d) + 1)))
            a = slice_scale(rng, False, x, a, d, t, seen, laws, width)
        sigma_x[p], sigma_a[p] = x, a
        for g in range(len(start) - 1):
            refresh(rows_of_group(particles, p, g, start, no_bits), k, (x / a) ** 2)
            particles.lost[p, g] = 0.0
