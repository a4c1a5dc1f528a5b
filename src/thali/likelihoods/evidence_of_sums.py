r"""log P(X | W) of X = W A + E, A integrated out, from sums over the rows alone.

    log P = −½M log 2π − (M − KD) log σ_x − KD log σ_a − Σ_d log|L_d|
            − (Σx² − Σ_d ‖L_d⁻¹t_d‖²)/2σ_x²

with M entries observed, L_dL_dᵀ = C_d + (σ_x/σ_a)² I, C_d = WᵀW over the rows that show column d
and t_d = Wᵀx_d: so that X may lie anywhere.
"""

import numpy as np

from thali.structures.statistics import Statistics


def log_evidence_of_sums(found: Statistics, sigma_x: float, sigma_a: float) -> float:
    """log P(X | W) from the statistics of rows that are points.

    >>> one = np.ones((1, 1))
    >>> found = Statistics(1.0, np.ones(1), one, 0.0 * one, 0.0, 1.0, np.zeros(1))
    >>> round(log_evidence_of_sums(found, 1.0, 1.0), 4)  # N(0; 0, 2)
    -1.2655
    """
    k, d = found.T.shape
    value = -0.5 * found.entries * np.log(2.0 * np.pi)
    value -= (found.entries - k * d) * np.log(sigma_x) + k * d * np.log(sigma_a)
    explained = 0.0
    if k:
        L = np.linalg.cholesky(found.C + (sigma_x / sigma_a) ** 2 * np.eye(k))
        logs = np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum()
        T = found.T if L.ndim == 2 else found.T.T[:, :, None]
        explained = float(np.square(np.linalg.solve(L, T)).sum())
        value -= d * logs if L.ndim == 2 else logs
    return float(value - 0.5 * (found.squares - explained) / sigma_x**2)
