"""How well Z A + mean explains the rows: residuals in blocks, since Z A may not fit in memory.

Missing entries have no residual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.data.sparse import is_sparse, row_squares, size_of
from thali.plots.reading import reconstruct

if TYPE_CHECKING:
    from thali.estimators.latent_features import LatentFeatures

BLOCK = 2**22  # entries of X looked at in one go


class Fit(NamedTuple):
    """What the features explain."""

    explained: float  # 1 - |X - ZA - mean|² / |X - mean|²
    left_over: float  # root mean square of X - ZA - mean
    worst: int  # row with the largest residual


def fit_of(model: LatentFeatures) -> Fit:
    """Residual sums of squares over all rows."""
    if is_sparse(model.X_):
        return _fit_of_sparse(model)
    X = model.X_
    n, d = X.shape
    residual = np.empty(n)
    total, seen = 0.0, 0
    # Squares of numbers near 1e200 overflow: measure in units of the largest entry.
    unit = float(max(abs(np.nanmax(X)), abs(np.nanmin(X)))) or 1.0
    step = max(1, BLOCK // d)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        block = np.asarray(X[rows], dtype=float)
        residual[rows] = np.nansum(np.square((block - reconstruct(model, rows)) / unit), axis=1)
        total += float(np.nansum(np.square((block - model.mean_) / unit)))
        seen += int(np.isfinite(block).sum())
    left = float(residual.sum())
    explained = 1.0 - left / total if total > 0 else np.nan
    return Fit(explained, unit * float(np.sqrt(left / seen)), int(residual.argmax()))


def _fit_of_sparse(model: LatentFeatures) -> Fit:
    """The same from products: ‖x − zA‖² = ‖x‖² − 2 xAᵀzᵀ + zAAᵀzᵀ. Sparse data are not centered."""
    X, Z, A = model.X_, model.Z_.astype(float), model.components_
    squares = row_squares(X)
    residual = squares + ((Z @ (A @ A.T) - 2.0 * (X @ np.ascontiguousarray(A.T))) * Z).sum(axis=1)
    total, left = float(squares.sum()), max(float(residual.sum()), 0.0)
    explained = 1.0 - left / total if total > 0 else float("nan")
    return Fit(explained, float(np.sqrt(left / size_of(X))), int(residual.argmax()))
