r"""Clusters of columns that each have a few values, their probabilities integrated out.

    P(x_nd = v | cluster) = θ_dv,    θ_d ~ Dirichlet(w_d),    binary columns being Beta(w_d1, w_d0)

With c_dv of the cluster's rows at v and n_d that were seen at all, the next row has v in column d
with probability (w_dv + c_dv)/(w_d + n_d), w_d = Σ_v w_dv. A missing entry (code −1) is no factor.
Factors are multiplied, so that a cluster takes a logarithm or a few.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper
from thali.kernels.groups import groups_of

TINY, HUGE = 1e-140, 1e140  # products beyond which logarithms are taken before the next factor


class CategoryGroups(NamedTuple):
    """Codes of rows, the prior, and by slot: counts of codes and of entries that were seen."""

    codes: np.ndarray  # (n, D) int64, −1 where missing
    first: np.ndarray  # (D + 1,) where the values of each column begin
    weights: np.ndarray  # (values,) w_dv of all columns
    totals: np.ndarray  # (D,) w_d
    counts: np.ndarray  # (slots, values)
    seen: np.ndarray  # (slots, D)


@helper(borrows=True)
def shift(groups, k, i, by):
    """Count row i in slot k, or out of it."""
    for d in range(groups.codes.shape[1]):
        code = groups.codes[i, d]
        if code >= 0:
            groups.counts[k, groups.first[d] + code] += by
            groups.seen[k, d] += by


@helper(borrows=True)
def add(groups, k, i, size):
    """Row i enters slot k."""
    shift(groups, k, i, 1.0)


@helper(borrows=True)
def remove(groups, k, i, size):
    """Row i leaves slot k."""
    shift(groups, k, i, -1.0)


@helper(borrows=True)
def clear(groups, k):
    """Slot k has no rows."""
    groups.counts[k] = 0.0
    groups.seen[k] = 0.0


@helper(borrows=True)
def log_predictives(groups, which, sizes, count, i, out, nothing):
    """log P(x_i | the rows of a slot), of each slot."""
    codes, first, weights, totals = groups.codes, groups.first, groups.weights, groups.totals
    counts, seen = groups.counts, groups.seen
    for j in range(count):
        k = which[j]
        total, above, below = 0.0, 1.0, 1.0
        for d in range(codes.shape[1]):
            code = codes[i, d]
            if code >= 0:
                at = first[d] + code
                above *= weights[at] + counts[k, at]
                below *= totals[d] + seen[k, d]
                if above < TINY or above > HUGE or below < TINY or below > HUGE:
                    total += np.log(above) - np.log(below)
                    above, below = 1.0, 1.0
        out[j] += total + np.log(above / below)


@helper(borrows=True)
def log_marginal(groups, k, size):
    """log P(the rows of slot k)."""
    found = 0.0
    for d in range(groups.codes.shape[1]):
        found += lgamma(groups.totals[d]) - lgamma(groups.totals[d] + groups.seen[k, d])
    for at in range(len(groups.weights)):
        if groups.counts[k, at] > 0.0:
            found += lgamma(groups.weights[at] + groups.counts[k, at]) - lgamma(groups.weights[at])
    return found


groups_of(
    CategoryGroups,
    add=add,
    remove=remove,
    log_predictives=log_predictives,
    log_marginal=log_marginal,
    clear=clear,
    laws=("weights", "totals"),
)
