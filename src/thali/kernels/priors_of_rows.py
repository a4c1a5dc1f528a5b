"""What the prior's bound says of rows that may follow a candidate, whatever scores their data."""

import numpy as np

from thali.kernels.compiling import kernel
from thali.kernels.search_kept import base_of, in_order
from thali.kernels.search_scores import can_tie, later, next_new


@kernel
def priors_of_rows(bits, row):
    """The score of each row but for its new features and its fit; NaN where of equal columns not
    the first ones are taken."""
    tied = can_tie(row, bits.shape[1])
    found = np.empty(bits.shape[0])
    for a in range(bits.shape[0]):
        found[a] = base_of(bits[a], row, tied) if in_order(bits[a], row.same) else np.nan
    return found


@kernel
def priors_of_new(row):
    """What 0, 1, … ``most_new`` new features add, the rows to come with them; and a bound of what
    any number beyond adds, with no word of the fit."""
    most = row.most_new if row.free < 0 else min(row.most_new, row.free)
    found = np.empty(most + 1)
    total = 0.0
    for j in range(most + 1):
        found[j] = total + later(row, j)
        if j != row.free:
            gain = next_new(row, j)
            total += gain
    if most == row.free:
        return found, -np.inf
    return found, total + later(row, most + 1) if gain <= 0.0 else np.inf
