r"""log P(X | Z, σ_x, σ_a) for many scales at once, from the eigenvalues of ZᵀZ.

With ZᵀZ = U diag(d) Uᵀ and t_i = ‖(UᵀZᵀX)_i‖²: |ZᵀZ + rI| = ∏(d_i + r) and
tr(XᵀZ M ZᵀX) = Σ t_i/(d_i + r), so that after one decomposition each evaluation costs O(K).
"""

import numpy as np

from thali.kernels.compiling import kernel
from thali.kernels.maintained_rows import dot, multiply


@kernel
def spectrum(C, T):
    """Eigenvalues d of C = ZᵀZ and squared lengths t of UᵀT, T = ZᵀX: every P(X|Z,σ) follows."""
    d, U = np.linalg.eigh(C)
    k = T.shape[0]
    turned = multiply(np.ascontiguousarray(U.T), T, k)
    t = np.zeros(k)
    for i in range(k):
        d[i] = max(d[i], 0.0)
        t[i] = dot(turned[i], turned[i], T.shape[1])
    return d, t


@kernel
def log_evidence(d, t, squares, n, dimensions, sigma_x, sigma_a):
    """log P(X | Z, σ_x, σ_a) from the spectrum: O(K).

    −ND/2 log 2π − (N−K)D log σ_x − KD log σ_a − D/2 Σ log(d+r) − [tr XᵀX − Σ t/(d+r)] / 2σ_x²
    """
    r = (sigma_x / sigma_a) ** 2
    k = d.shape[0]
    log_det = 0.0
    explained = 0.0
    for i in range(k):
        log_det += np.log(d[i] + r)
        explained += t[i] / (d[i] + r)
    return (
        -0.5 * n * dimensions * np.log(2.0 * np.pi)
        - (n - k) * dimensions * np.log(sigma_x)
        - k * dimensions * np.log(sigma_a)
        - 0.5 * dimensions * log_det
        - 0.5 * (squares - explained) / (sigma_x * sigma_x)
    )
