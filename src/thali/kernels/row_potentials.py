r"""θ_F, what a prior gives to a row for the number F of its features.

    log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} − Σ_h log K_h! + const

``theta`` holds θ_0, θ_1, …, of which the last is that of all larger F too; it is None where θ = 0.
None is a type of its own to the compiler, so that ``theta is not None`` is decided as a kernel is
compiled: one for a prior without θ has no trace of θ left in it.
"""

import numpy as np

from thali.kernels.compiling import helper


@helper
def row_step(theta, F):
    """θ_{F+1} − θ_F: what one more feature is worth to a row with F others."""
    if theta is None:
        return 0.0
    last = theta.shape[0] - 1
    return theta[min(F + 1, last)] - theta[min(F, last)]


@helper
def most_ahead(theta, F):
    """max_{i≥F} θ_i − θ_F: the most that any number of further features can be worth."""
    if theta is None:
        return 0.0
    last = theta.shape[0] - 1
    here = theta[min(F, last)]
    most = here
    for i in range(F + 1, last + 1):
        most = max(most, theta[i])
    return most - here


@helper
def count_on(z, k):
    """F: how many of the first k bits of a row are on."""
    total = 0
    for i in range(k):
        total += z[i]
    return total


@helper
def sum_of_rows(theta, Z, k):
    """Σ_n θ_{F_n} of the first k columns of Z; 0 where θ is absent."""
    if theta is None:
        return 0.0
    last = theta.shape[0] - 1
    total = 0.0
    for n in range(Z.shape[0]):
        total += theta[min(count_on(Z[n], k), last)]
    return total


def other_features(theta: np.ndarray | None, Z: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Of each row the number of features that are not its own (m > 1), (N,); (0,) without θ."""
    if theta is None:
        return np.zeros(0, np.int64)
    return np.asarray(Z[:, m > 1].sum(axis=1, dtype=np.int64))
