r"""``normal_gamma`` where entries are missing: each column counts the rows that show it.

A column of a cluster with n_d rows seen has κ = κ₀ + n_d, a = a₀ + n_d/2 and b as there. The powers
of columns differ, so that each needs a logarithm of its own.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.groups import groups_of

LOG_2PI = np.log(2.0 * np.pi)


class GappyNormalGammaGroups(NamedTuple):
    """Rows Y and where they were seen, the prior, and by slot and column: sums and counts."""

    Y: np.ndarray  # (n, D)
    observed: np.ndarray  # (n, D) bool
    kappa: float
    shape: float
    rate: np.ndarray  # (D,) b₀
    gammas: np.ndarray  # log Γ(a₀ + n/2), n = 0 … N + 1
    mean: np.ndarray  # (slots, D)
    b: np.ndarray  # (slots, D)
    seen: np.ndarray  # (slots, D) int64


@helper(borrows=True)
def add(groups, k, i, size):
    """Row i enters slot k."""
    for d in range(groups.Y.shape[1]):
        if groups.observed[i, d]:
            kappa = groups.kappa + groups.seen[k, d]
            apart = groups.Y[i, d] - groups.mean[k, d]
            groups.b[k, d] += 0.5 * kappa / (kappa + 1.0) * apart * apart
            groups.mean[k, d] += apart / (kappa + 1.0)
            groups.seen[k, d] += 1


@helper(borrows=True)
def remove(groups, k, i, size):
    """Row i leaves slot k; a column without rows is exactly empty."""
    for d in range(groups.Y.shape[1]):
        if groups.observed[i, d]:
            groups.seen[k, d] -= 1
            if groups.seen[k, d] == 0:
                groups.mean[k, d] = 0.0
                groups.b[k, d] = groups.rate[d]
            else:
                kappa = groups.kappa + groups.seen[k, d]
                groups.mean[k, d] -= (groups.Y[i, d] - groups.mean[k, d]) / kappa
                apart = groups.Y[i, d] - groups.mean[k, d]
                left = groups.b[k, d] - 0.5 * kappa / (kappa + 1.0) * apart * apart
                groups.b[k, d] = max(left, groups.rate[d])


@helper(borrows=True)
def clear(groups, k):
    """Slot k has no rows."""
    for d in range(groups.Y.shape[1]):
        groups.mean[k, d] = 0.0
        groups.b[k, d] = groups.rate[d]
        groups.seen[k, d] = 0


@helper(borrows=True)
def log_predictives(groups, which, sizes, count, i, out, nothing):
    """log p(what was seen of x_i | the rows of a slot), of each slot."""
    Y, observed, mean, b = groups.Y, groups.observed, groups.mean, groups.b
    seen, gammas = groups.seen, groups.gammas
    for j in range(count):
        k = which[j]
        total = 0.0
        for d in range(Y.shape[1]):
            if observed[i, d]:
                n = seen[k, d]
                kappa = groups.kappa + n
                wide = 2.0 * b[k, d] * (kappa + 1.0) / kappa
                apart = Y[i, d] - mean[k, d]
                total += gammas[n + 1] - gammas[n] - 0.5 * np.log(np.pi * wide)
                total -= (groups.shape + 0.5 * n + 0.5) * np.log(1.0 + apart * apart / wide)
        out[j] += total


@helper(borrows=True)
def log_marginal(groups, k, size):
    """log p(what was seen of the rows of slot k)."""
    total = 0.0
    for d in range(groups.Y.shape[1]):
        n = groups.seen[k, d]
        kappa = groups.kappa + n
        total += groups.shape * np.log(groups.rate[d])
        total -= (groups.shape + 0.5 * n) * np.log(groups.b[k, d])
        total += groups.gammas[n] - groups.gammas[0] - 0.5 * n * LOG_2PI
        total += 0.5 * (np.log(groups.kappa) - np.log(kappa))
    return total


groups_of(
    GappyNormalGammaGroups,
    add=add,
    remove=remove,
    log_predictives=log_predictives,
    log_marginal=log_marginal,
    clear=clear,
    laws=("kappa", "rate"),
)
