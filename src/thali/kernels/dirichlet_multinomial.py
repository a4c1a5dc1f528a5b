r"""Clusters of rows of counts: words of a document, reads of a sample.

    x_n | cluster ~ Multinomial(m_n, θ),    θ ~ Dirichlet(w, …, w)

m_n, the sum of a row, is given. With c_v counts of v, T in all, in the cluster's rows, the next row
has probability

    m!/∏ x_v! · Γ(Dw + T)/Γ(Dw + T + m) · ∏_v Γ(w + c_v + x_v)/Γ(w + c_v),

a product over the values that the row has: rows are kept as these alone.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.groups import groups_of

HUGE = 1e250  # a product beyond which its logarithm is taken before the next factor
FEW = 4.0  # counts of one value up to which a quotient of gammas is a product


class MultinomialGroups(NamedTuple):
    """Rows by the values they have, the prior, and by slot: counts, their sums, coefficients."""

    ends: np.ndarray  # (n + 1,) where the values of each row begin
    values: np.ndarray  # of all rows, one after the other
    times: np.ndarray  # float, how often each is there
    lengths: np.ndarray  # (n,) float, the sums of rows
    coefficients: np.ndarray  # (n,) log m!/∏ x_v!
    weight: float  # w
    counts: np.ndarray  # (slots, D)
    totals: np.ndarray  # (slots,)
    known: np.ndarray  # (slots,) the sum of coefficients


@helper(borrows=True)
def shift(groups, k, i, by):
    """Count row i in slot k, or out of it."""
    for at in range(groups.ends[i], groups.ends[i + 1]):
        groups.counts[k, groups.values[at]] += by * groups.times[at]
    groups.totals[k] += by * groups.lengths[i]
    groups.known[k] += by * groups.coefficients[i]


@helper(borrows=True)
def add(groups, k, i, size):
    """Row i enters slot k."""
    shift(groups, k, i, 1.0)


@helper(borrows=True)
def remove(groups, k, i, size):
    """Row i leaves slot k; one without rows is exactly empty."""
    shift(groups, k, i, -1.0)
    if size == 0:
        groups.known[k] = 0.0


@helper(borrows=True)
def clear(groups, k):
    """Slot k has no rows."""
    groups.counts[k] = 0.0
    groups.totals[k] = 0.0
    groups.known[k] = 0.0


@helper(borrows=True)
def log_predictives(groups, which, sizes, count, i, out, nothing):
    """log P(x_i | the rows of a slot), of each slot."""
    values, times, counts, weight = groups.values, groups.times, groups.counts, groups.weight
    begin, end = groups.ends[i], groups.ends[i + 1]
    length, known = groups.lengths[i], groups.coefficients[i]
    for j in range(count):
        k = which[j]
        total, product = 0.0, 1.0
        for at in range(begin, end):
            now, more = weight + counts[k, values[at]], times[at]
            if more <= FEW:
                for m in range(int(more)):
                    product *= now + m
                if product > HUGE or product < 1.0 / HUGE:
                    total += np.log(product)
                    product = 1.0
            else:
                total += lgamma(now + more) - lgamma(now)
        whole = counts.shape[1] * weight + groups.totals[k]
        out[j] += total + lgamma(whole) - lgamma(whole + length) + np.log(product) + known


@helper(borrows=True)
def log_marginal(groups, k, size):
    """log P(the rows of slot k)."""
    dimensions = groups.counts.shape[1]
    whole = dimensions * groups.weight
    found = groups.known[k] + lgamma(whole) - lgamma(whole + groups.totals[k])
    for v in range(dimensions):
        if groups.counts[k, v] > 0.0:
            found += lgamma(groups.weight + groups.counts[k, v]) - lgamma(groups.weight)
    return found


groups_of(
    MultinomialGroups,
    add=add,
    remove=remove,
    log_predictives=log_predictives,
    log_marginal=log_marginal,
    clear=clear,
    laws=("weight",),
)
