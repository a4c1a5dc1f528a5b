r"""What a row adds to a candidate's score, but for its density.

    rest + Σ_k z_k take_k + new(j) − ties(z, j)

of a row that takes the features z and opens j, where ``rest``, ``take`` and ``new`` come from a
bound of what the prior can be in the end (``engines/search/prior_bounds.py``) and from a guess of
what later rows add, and equal columns lose what they cannot but tie.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper


class Noise(NamedTuple):
    """The scales of a Gaussian row: r = (σ_x/σ_a)² and 1/2σ_x²."""

    r: float
    precision: float


class RowScore(NamedTuple):
    """What a row adds to a candidate's score, but for its density; ``noise`` is None where that is
    not Gaussian."""

    take: np.ndarray  # (K,) of taking each feature
    same: np.ndarray  # (K,) uint8: column i has been equal to column i − 1 so far
    rest: float  # of everything else, no tie counted
    new: float  # of each new feature
    future: np.ndarray  # of features that later rows open: by how many are free, or one number
    free: int  # features that may still be opened, −1 for any number
    most_new: int
    floor: float  # scores below it are of no use
    ties_left: int  # rows that may still part equal columns: all that are left, or 0
    slack_take: np.ndarray  # (K,) of each feature if it is taken: see ``parting``
    slack_stay: np.ndarray  # (K,) and if not
    slack_new: float
    noise: Noise | None = None


@helper
def ties(count, left):
    """Σ_h log c_h! of equal columns that ``left`` rows part as evenly as they can."""
    if count < 2 or left > 30:
        return 0.0
    cells = 1 << left
    if count <= cells:
        return 0.0
    each = count // cells
    more = count - each * cells
    return more * lgamma(each + 2.0) + (cells - more) * lgamma(each + 1.0)


@helper
def parting(count, left, slack):
    r"""What equal columns lose at least, of the most that each of them may be worth by itself.

    The ties of columns parted evenly; or, since Σ_c ∏_h W_h^{c_h}/c_h! over all ways to give their
    histories h is (Σ_h W_h)^c / c!, no way has more than c log W − log c!. ``slack`` is what
    log W = log Σ_h W_h, of all histories, is above the largest of them.
    """
    return max(ties(count, left), lgamma(count + 1.0) - count * slack) if count > 1 else 0.0


@helper
def parted_ties(z, row, k):
    """What all old columns that are equal lose, once the row has taken those of z."""
    same, left = row.same, row.ties_left
    total = 0.0
    i = 0
    while i < k:
        ones = 0
        size = 0
        while True:
            ones += z[i]
            size += 1
            i += 1
            if i >= k or not same[i]:
                break
        total += parting(ones, left, row.slack_take[i - 1])
        total += parting(size - ones, left, row.slack_stay[i - 1])
    return total


@helper
def can_tie(row, k):
    """Whether equal columns may lose anything; if all of a group do not, no part of it does."""
    size = 1
    for i in range(1, k):
        size = size + 1 if row.same[i] else 1
        slack = min(row.slack_take[i], row.slack_stay[i])
        if parting(size, row.ties_left, slack) > 0.0:
            return True
    return False


@helper
def later(row, j):
    """What features opened by later rows may add, once this row has opened j."""
    return row.future[0] if row.free < 0 else row.future[row.free - j]


@helper
def next_new(row, j):
    """What the (j + 1)-th new feature adds to the prior's bound, its tie with the others too."""
    left, slack = row.ties_left, row.slack_new
    gain = row.new - parting(j + 1, left, slack) + parting(j, left, slack)
    return gain if row.free < 0 else gain + np.log(float(row.free - j))
