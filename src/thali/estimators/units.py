"""The units in which a model is fitted, X' = (X − mean)/scale column by column, and the way back.

``mean`` is that of what was observed, or 0; ``scale`` is its standard deviation, or 1. A density of
X is that of X' less Σ log scale over what was observed. Features A' of X' are A = A'·scale of X.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.elsewhere import Source
from thali.data.matrix import blocks
from thali.data.missing import observed_means
from thali.data.sparse import is_sparse, means
from thali.likelihoods.base import Likelihood

if TYPE_CHECKING:
    from thali.estimators.base import LatentModel

ROUNDING = 8.0 * np.finfo(float).eps  # of the largest value: a column that varies less is constant


def check(estimator: LatentModel, likelihood: Likelihood) -> None:
    """Refuse a choice that is none, or one that the likelihood cannot have."""
    for name in ("center", "scale"):
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be True or False, not {value!r}.")
    if estimator.scale and not likelihood.any_units:
        raise ValueError(
            "scale=True is for numbers in units that could be others; "
            f"{type(likelihood).__name__} takes the data as they are."
        )


def changed(estimator: LatentModel) -> bool:
    """Whether the model is to be fitted to other numbers than those given."""
    return bool(estimator.center or estimator.scale)


def found(estimator: LatentModel, X: np.ndarray | csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the scale of each column, as far as the estimator asks for them."""
    if isinstance(X, Source):
        mean = X.survey.means if estimator.center else np.zeros(X.shape[1])
        return mean, far_deviations(X) if estimator.scale else np.ones(X.shape[1])
    mean = observed_means(X) if estimator.center else np.zeros(X.shape[1])
    return mean, deviations(X) if estimator.scale else np.ones(X.shape[1])


def deviations(X: np.ndarray | csr_array) -> np.ndarray:
    """The standard deviation of what was observed in each column, 1 where that is 0.

    >>> deviations(np.array([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan]])).tolist()
    [1.0, 1.0, 1.0]
    """
    return _varying(*(_sparse_spread(X) if is_sparse(X) else _spread(X)))


def _varying(low: np.ndarray, high: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The spread of columns, 1 where all is the same but for rounding."""
    varies = high - low > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return np.where(varies & (spread > 0.0), spread, 1.0)


def far_deviations(X: Source) -> np.ndarray:
    """The same of rows that are read by blocks."""
    known = X.survey
    squares = reduce(add, X.each(partial(_squares, known.means)))
    low, high = (np.where(known.seen > 0, end, 0.0) for end in (known.low, known.high))
    return _varying(low, high, np.sqrt(squares / np.maximum(known.seen, 1)))


def _squares(mean: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Σ (x − mean)² of what was observed in each column of a block."""
    return np.asarray(np.nansum(np.square(X - mean), axis=0))


def _spread(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least, the largest and the standard deviation of each column, by blocks of rows."""
    d = X.shape[1]
    low, high, total, squares = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d), np.zeros(d)
    count = np.zeros(d)
    for block in blocks(X):
        seen = ~np.isnan(X[block])
        low = np.fmin(low, np.where(seen, X[block], np.inf).min(axis=0))
        high = np.fmax(high, np.where(seen, X[block], -np.inf).max(axis=0))
        total += np.where(seen, X[block], 0.0).sum(axis=0)
        count += seen.sum(axis=0)
    some = np.maximum(count, 1.0)
    mean = total / some
    for block in blocks(X):
        squares += np.where(np.isnan(X[block]), 0.0, np.square(X[block] - mean)).sum(axis=0)
    low, high = (np.where(count > 0.0, ends, 0.0) for ends in (low, high))
    return low, high, np.sqrt(squares / some)


def _sparse_spread(X: csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a sparse matrix, whose absent entries are zeros."""
    (n, d), mean = X.shape, means(X)
    low, high = (np.ravel(ends.toarray()) for ends in (X.min(axis=0), X.max(axis=0)))
    squares = np.bincount(X.indices, np.square(X.data - mean[X.indices]), d)
    squares += (n - np.bincount(X.indices, minlength=d)) * np.square(mean)
    return low, high, np.sqrt(squares / n)


def put_into(X: Any, mean: np.ndarray, scale: np.ndarray) -> Any:
    """X', in the place of X, an array or a sparse matrix."""
    if isinstance(X, Source):
        return X.put_into(mean, scale)
    if is_sparse(X):  # whose mean is 0: others would make it dense
        if _matters(scale):
            X.data /= scale[X.indices]
        return X
    if mean.any():
        np.subtract(X, mean, out=X)
    return np.divide(X, scale, out=X) if _matters(scale) else X


def on_device(X: Any, mean: np.ndarray, scale: np.ndarray) -> Any:
    """X' of an array of CuPy: X itself where they do not differ, else another beside it."""
    if not (mean.any() or _matters(scale)):
        return X
    import cupy

    dtype = X.dtype if X.dtype.kind == "f" else float
    return (X - cupy.asarray(mean, dtype)) / cupy.asarray(scale, dtype)


def undone(X: Any, mean: np.ndarray, scale: np.ndarray) -> Any:
    """X of X': itself where they do not differ."""
    if isinstance(X, Source):
        return X.told
    if is_sparse(X):
        if not _matters(scale):
            return X
        return csr_array((X.data * scale[X.indices], X.indices, X.indptr), shape=X.shape)
    X = X * scale if _matters(scale) else X
    return X + mean if mean.any() else X


def in_own(A: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Features in the units of X, of such as were found in those of X'."""
    return np.asarray(A * scale) if _matters(scale) else A


def log_scales(scale: np.ndarray, data: Data) -> np.ndarray:
    """Σ log dx/dx' over what is observed of each row, (n,)."""
    if not _matters(scale):
        return np.zeros(data.n)
    logs = np.log(scale)
    return np.full(data.n, logs.sum()) if data.sparse else np.asarray(data.seen @ logs)


def _matters(scale: np.ndarray) -> bool:
    return bool((scale != 1.0).any())
