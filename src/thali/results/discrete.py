r"""A hint where Gaussian noise was asked for, and the columns are discrete: what was seen, and what
suits them better.

A column says so if it varies, and what was observed in some rows is

    bits     0 and 1 alone
    whole    whole numbers, few different ones or counts: none negative, with a mean of at most
             ``COUNTED``, up to which a Poisson law differs from a normal one

and the hint is given where at least half of the columns that vary do. The fit may be healthy all
the same, which ``findings`` look at: so it is no ``DegenerateFit``.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Likelihood, Scaled
from thali.likelihoods.column_noise import ColumnNoise
from thali.results.findings import FEWEST_ROWS, is_few, some_columns

COUNTED = 10.0


class DiscreteData(UserWarning):
    """Gaussian noise was asked for by name, and the columns hold 0 and 1, or whole numbers."""


class Discrete(NamedTuple):
    """How many columns were looked at and vary, how many of these hold bits or other whole numbers,
    and the ends of all that are discrete."""

    columns: int
    bits: int
    whole: int
    low: float
    high: float


def hint(likelihood: Likelihood, data: Data) -> str:
    """What is to be said of these data under a likelihood that was named, in a sentence, or "".

    >>> from thali.likelihoods import LinearGaussian
    >>> marks = np.arange(60).reshape(30, 2) % 5 + 1.0
    >>> print(hint(LinearGaussian(), Data.of(marks)))
    2 of 2 columns hold whole numbers from 1 to 5, which Gaussian noise does not suit:
    likelihood='mixed' takes levels and counts, 'poisson' counts alone, and 'auto' chooses by the
    columns.
    >>> hint(LinearGaussian(), Data.of(marks + 0.5))
    ''
    """
    if not isinstance(likelihood, Scaled | ColumnNoise) or data.n < FEWEST_ROWS:
        return ""
    seen = discrete(data)
    count = seen.bits + seen.whole
    if not count or 2 * count < seen.columns:
        return ""
    if not seen.whole:
        what, suits = "only 0 and 1", "likelihood='probit' and 'noisy_or' are made for these"
    else:
        what = f"whole numbers from {seen.low:g} to {seen.high:g}"
        suits = "likelihood='mixed' takes levels and counts"
        suits += ", 'poisson' counts alone" if seen.low >= 0.0 else ""
    rest = ", of a dense matrix" if data.sparse else ", and 'auto' chooses by the columns"
    return (
        f"{count} of {seen.columns} columns hold {what}, which Gaussian noise does not suit: "
        f"{suits}{rest}."
    )


def discrete(data: Data) -> Discrete:
    """What some columns hold in some rows."""
    columns = bits = whole = 0
    low, high = np.inf, -np.inf
    for x in some_columns(data):
        if not len(x) or x.min() == x.max():
            continue
        columns += 1
        if (x != np.rint(x)).any():
            continue
        ends = float(x.min()), float(x.max())
        if ends == (0.0, 1.0):
            bits += 1
        elif is_few(len(np.unique(x)), len(x)) or (ends[0] >= 0.0 and x.mean() <= COUNTED):
            whole += 1
        else:
            continue
        low, high = min(low, ends[0]), max(high, ends[1])
    return Discrete(columns, bits, whole, low, high)


def warn_of_hint(told: str, stacklevel: int = 2) -> None:
    """One warning, where there is something to say."""
    if told:
        warnings.warn(told, DiscreteData, stacklevel=stacklevel + 1)
