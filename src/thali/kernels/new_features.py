r"""How many features a row has to itself: the weight of j of them, and sums and draws over j.

    w_0 = 1,   w_{j+1}/w_j = e^{λ_1 + θ_{F+j+1} − θ_{F+j}} / (j + 1),   times free − j if free ≥ 0,

and with free ≤ −2 none beyond j = −2 − free (how a ``capacity`` is written: ``FeatureTables``),

F being the number of the row's other features, and the weight of j is w_j f(j), with f(j) what they
do to the density of the row, their parameters integrated out. θ is None in most priors. A model
says what f is by a NamedTuple of its numbers, its *factor*, and by overloads for that type of

    log_factor(factor, entries, j)    log f(j)
    log_peak(factor, entries, j)      a bound: log f(j + i) ≤ log_peak(factor, entries, j) + i·fall

where factor.fall ≤ 0 and ``entries`` is an array that f needs besides, or None: within the tuple it
would be counted as a reference at every use, which takes longer than the use. So beyond any j the
weight left out is at most w_{j+1} e^{log_peak} times a geometric series (and e^{max θ}), and the
sum stops when that is below rounding.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from thali.kernels.compiling import helper
from thali.kernels.row_potentials import most_ahead, row_step

LOST_MASS = 1e-16  # the share of probability that may be left out of a sum over j
MOST_NEW = 1000  # features of one row's own, beyond which the scales cannot be meant


class NewFeatures(NamedTuple):
    """What the prior says of the number j of features that only one row has."""

    log_weight: float  # λ_1
    free: int  # how many there may be, written as the capacity of ``FeatureTables`` is
    others: int  # F, the row's other features, which only θ asks for
    most: int  # sums go no further than the number after this one


def log_factor(factor: Any, entries: Any, j: Any) -> Any:
    """log f(j); inside compiled code only, by overloads."""
    raise NotImplementedError


def log_peak(factor: Any, entries: Any, j: Any) -> Any:
    """A bound of log f from j on; inside compiled code only, by overloads."""
    raise NotImplementedError


def factor_of(kind: type, value: Any, peak: Any) -> None:
    """Let compiled code have ``value`` and ``peak`` as log_factor and log_peak of this type.

    They are plain functions of (factor, entries, j), put into the loops that call them.
    """
    for generic, specific in ((log_factor, value), (log_peak, peak)):
        _register(generic, kind, specific)


def _register(generic: Any, kind: type, specific: Any) -> None:
    @overload(generic, inline="always")
    def choose(factor, entries, j):
        if isinstance(factor, types.BaseNamedTuple) and factor.instance_class is kind:
            return specific
        return None


@helper
def room_left(capacity, k):
    """What k features leave of a capacity, written in the same way."""
    if capacity == -1:
        return -1
    return capacity - k if capacity >= 0 else capacity + k


@helper
def is_full(capacity, k):
    """Whether k features are all that there may be."""
    return k == capacity or k == -2 - capacity


@helper
def log_step(new, theta, j):
    """log w_{j+1} − log w_j."""
    room = 1.0 if new.free < 0 else float(new.free - j)
    step = new.log_weight + np.log(room / (j + 1.0))
    if theta is not None:
        step += row_step(theta, new.others + j)
    return step


@helper(inline="always")
def sum_up(new, theta, factor, entries, u):
    """Σ_j w_j f(j) as e^top · total, and the last j in it; 0 where a draw by u is surely 0."""
    top = log_factor(factor, entries, 0)
    total = 1.0
    log_w = 0.0
    weight = np.exp(new.log_weight + factor.fall)
    j = np.int64(0)  # a plain 0 is a type of its own to the compiler
    while not is_full(new.free, j) and j <= new.most:
        log_w += log_step(new, theta, j)
        # the tail of w from j+1 on is at most w_{j+1} / (1 − ratio), the ratio falling with j
        room = 1.0 if new.free < 0 else float(new.free - j)
        ratio = weight * room / (j + 2.0)
        if ratio < 1.0:
            highest = log_w + log_peak(factor, entries, j + 1)
            if theta is not None:
                highest += most_ahead(theta, new.others + j + 1)
            tail = np.exp(highest - top) / (1.0 - ratio)
            if j == 0 and u * (total + tail) < total:
                break
            if tail < LOST_MASS * total:
                break
        term = log_w + log_factor(factor, entries, j + 1)
        if term > top:
            total = total * np.exp(top - term) + 1.0
            top = term
        else:
            total += np.exp(term - top)
        j += 1
    return top, total, j


@helper(inline="always")
def invert(u, top, total, largest, new, theta, factor, entries):
    """The j at which the sum passes u of the whole."""
    remaining = u * total
    log_w = 0.0
    for j in range(largest + 1):
        if j > 0:
            log_w += log_step(new, theta, j - 1)
        remaining -= np.exp(log_w + log_factor(factor, entries, j) - top)
        if remaining < 0.0:
            return j
    return largest


@helper
def draw(rng, new, theta, factor, entries):
    """j from w_j f(j) over its sum; more than ``new.most`` where there is no summing on."""
    u = rng.random()
    top, total, largest = sum_up(new, theta, factor, entries, u)
    if largest == 0:
        return 0
    return invert(u, top, total, largest, new, theta, factor, entries)


@helper
def log_sum(new, theta, factor, entries):
    """log Σ_j w_j f(j)."""
    top, total, _ = sum_up(new, theta, factor, entries, np.inf)
    return top + np.log(total)


@helper
def likeliest(new, theta, factor, entries):
    """The j with the largest w_j f(j), f having a bound that does not fall (factor.fall = 0)."""
    best = log_factor(factor, entries, 0)
    which = 0
    log_w = 0.0
    j = np.int64(0)  # a plain 0 is a type of its own to the compiler
    while j <= new.most and not is_full(new.free, j):
        step = log_step(new, theta, j)
        log_w += step
        highest = log_w + log_peak(factor, entries, j + 1)
        if theta is not None:
            step -= row_step(theta, new.others + j)
            highest += most_ahead(theta, new.others + j + 1)
        j += 1
        if step < 0.0 and highest <= best:  # but for θ, steps fall with j
            break
        term = log_w + log_factor(factor, entries, j)
        if term > best:
            best = term
            which = j
    return which
