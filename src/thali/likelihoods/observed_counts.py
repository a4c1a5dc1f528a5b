"""What the Poisson likelihood asks of a table of counts, made once; and which tables it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln

from thali.data import Data

if TYPE_CHECKING:
    from thali.kernels.poisson import Counts

LARGEST_COUNT = 1e9  # a sum over the parts of x takes about √x terms


class ObservedCounts(NamedTuple):
    """What is asked of the observed entries, made once."""

    listed: Counts
    rows: np.ndarray  # in how many rows each column was observed, (D,)
    totals: np.ndarray  # Σ x of each column, (D,)
    log_factorials: float


def observed_counts(data: Data) -> ObservedCounts:
    """Those of the data, or of the data that they complete."""
    given = data.given
    return given.once("observed counts", lambda: list_counts(given))


def list_counts(data: Data) -> ObservedCounts:
    from thali.kernels.poisson import Counts

    X = np.asarray(data.zeroed)
    rows, columns = np.nonzero(X)
    start = np.zeros(data.n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=data.n), out=start[1:])
    x = np.ascontiguousarray(X[rows, columns])
    n = np.full(data.d, float(data.n)) if data.observed is None else data.observed.sum(0, float)
    return ObservedCounts(
        Counts(start, columns.astype(np.int64), x), n, X.sum(axis=0), float(gammaln(x + 1.0).sum())
    )


def units_of(data: Data) -> tuple[float, ...]:
    """The mean of what was observed in each column, or one over its number where all of it is 0."""
    counts = observed_counts(data)
    return tuple((np.maximum(counts.totals, 1.0) / np.maximum(counts.rows, 1.0)).tolist())


def check_counts(data: Data) -> None:
    """Refuse all but whole numbers from 0 to a billion; the first offender is named."""
    X = np.asarray(data.zeroed)
    wrong = (X < 0.0) | (X != np.rint(X)) | (LARGEST_COUNT < X)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        advice = "this likelihood is of counts, whole numbers from 0 on"
        if X[i, j] > LARGEST_COUNT:
            advice = f"counts may be at most {LARGEST_COUNT:,.0f}; count in a larger unit"
        raise ValueError(f"X has {X[i, j]:.10g} at row {i}, column {j}: {advice}.")
