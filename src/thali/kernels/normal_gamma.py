r"""Clusters of Gaussian columns, each with its own mean and variance, both integrated out.

    x_nd | cluster ~ N(μ_d, 1/τ_d),    μ_d | τ_d ~ N(0, 1/(κ₀ τ_d)),    τ_d ~ Gamma(a₀, b₀_d)

(x measured from the prior's mean). With n rows a column has κ = κ₀ + n, a mean m, a = a₀ + n/2 and
a rate b; a row that comes adds ½ κ/(κ+1) (x − m)² to b and (x − m)/(κ+1) to m, one that goes takes
that away, so that rows far from the prior's mean lose no digits. The next row is Student's t:

    log p(x) = log Γ(a + ½) − log Γ(a) − ½ log(2π b (κ+1)/κ) − (a + ½) log(1 + κ(x − m)²/(2b(κ+1))).

The power a + ½ is that of all columns, so that their product needs one logarithm a cluster.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.groups import groups_of
from thali.kernels.logarithms import quick_log

LOG_2PI = np.log(2.0 * np.pi)
HUGE = 1e150  # a product beyond which its logarithm is taken before the next factor


class NormalGammaGroups(NamedTuple):
    """Rows Y, the prior, and by slot: means, rates, and what the density is made of."""

    Y: np.ndarray  # (n, D)
    kappa: float
    shape: float
    rate: np.ndarray  # (D,) b₀
    gammas: np.ndarray  # log Γ(a₀ + n/2), n = 0 … N + 1
    mean: np.ndarray  # (slots, D) m
    b: np.ndarray  # (slots, D)
    narrow: np.ndarray  # (slots, D) κ/(2b(κ+1))
    constant: np.ndarray  # (slots,) log density at the mean
    products: np.ndarray  # (slots,) to work in


@helper(borrows=True)
def renew(groups, k, size):
    """What the density of the next row is made of."""
    dimensions = groups.Y.shape[1]
    kappa = groups.kappa + size
    wide = 2.0 * (kappa + 1.0) / kappa
    total, product = 0.0, 1.0
    for d in range(dimensions):
        spread = wide * groups.b[k, d]
        groups.narrow[k, d] = 1.0 / spread
        product *= spread
        if product > HUGE or product < 1.0 / HUGE:
            total += np.log(product)
            product = 1.0
    total += np.log(product)
    steps = groups.gammas[size + 1] - groups.gammas[size]
    groups.constant[k] = dimensions * (steps - 0.5 * np.log(np.pi)) - 0.5 * total


@helper(borrows=True)
def add(groups, k, i, size):
    """Row i enters slot k."""
    kappa = groups.kappa + (size - 1.0)
    for d in range(groups.Y.shape[1]):
        apart = groups.Y[i, d] - groups.mean[k, d]
        groups.b[k, d] += 0.5 * kappa / (kappa + 1.0) * apart * apart
        groups.mean[k, d] += apart / (kappa + 1.0)
    renew(groups, k, size)


@helper(borrows=True)
def remove(groups, k, i, size):
    """Row i leaves slot k; one without rows is exactly empty."""
    if size == 0:
        clear(groups, k)
        return
    kappa = groups.kappa + size
    for d in range(groups.Y.shape[1]):
        groups.mean[k, d] -= (groups.Y[i, d] - groups.mean[k, d]) / kappa
        apart = groups.Y[i, d] - groups.mean[k, d]
        left = groups.b[k, d] - 0.5 * kappa / (kappa + 1.0) * apart * apart
        groups.b[k, d] = max(left, groups.rate[d])
    renew(groups, k, size)


@helper(borrows=True)
def clear(groups, k):
    """Slot k has no rows."""
    for d in range(groups.Y.shape[1]):
        groups.mean[k, d] = 0.0
        groups.b[k, d] = groups.rate[d]
    renew(groups, k, 0)


@helper(borrows=True, fastmath={"contract", "nnan", "nsz"})
def log_predictives(groups, which, sizes, count, i, out, nothing):
    """log p(x_i | the rows of a slot), of each slot."""
    Y, mean, narrow, constant = groups.Y, groups.mean, groups.narrow, groups.constant
    dimensions, products, top = Y.shape[1], groups.products, -np.inf
    for j in range(count):
        k = which[j]
        product = 1.0
        for d in range(dimensions):
            apart = Y[i, d] - mean[k, d]
            product *= 1.0 + narrow[k, d] * apart * apart
        products[j] = product
        top = max(top, product)
    if top > HUGE:
        for j in range(count):
            k = which[j]
            total, product = 0.0, 1.0
            for d in range(dimensions):
                apart = Y[i, d] - mean[k, d]
                product *= 1.0 + narrow[k, d] * apart * apart
                if product > HUGE:
                    total += np.log(product)
                    product = 1.0
            power = groups.shape + 0.5 * sizes[k] + 0.5
            out[j] += constant[k] - power * (total + np.log(product))
        return
    for j in range(count):
        products[j] = quick_log(products[j])
    for j in range(count):
        k = which[j]
        power = groups.shape + 0.5 * sizes[k] + 0.5
        out[j] += constant[k] - power * products[j]


@helper(borrows=True)
def log_marginal(groups, k, size):
    """log p(the rows of slot k)."""
    kappa = groups.kappa + size
    shape = groups.shape + 0.5 * size
    total = 0.0
    for d in range(groups.Y.shape[1]):
        total += groups.shape * np.log(groups.rate[d]) - shape * np.log(groups.b[k, d])
    each = groups.gammas[size] - groups.gammas[0] - 0.5 * size * LOG_2PI
    each += 0.5 * (np.log(groups.kappa) - np.log(kappa))
    return total + groups.Y.shape[1] * each


groups_of(
    NormalGammaGroups,
    add=add,
    remove=remove,
    log_predictives=log_predictives,
    log_marginal=log_marginal,
    clear=clear,
    laws=("kappa", "rate"),
)
