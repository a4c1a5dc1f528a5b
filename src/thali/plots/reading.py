"""What pictures read from a fitted model: names, image shapes, telling rows, what is left over."""

from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from thali.data.matrix import blocks
from thali.data.sparse import is_sparse, row_squares
from thali.estimators import new_rows, tables
from thali.estimators.base import LatentModel
from thali.estimators.latent_features import LatentFeatures
from thali.settings import Label
from thali.structures.base import evenly_spaced

MOST_ENTRIES = 4  # of an array of hyperparameters
OF_LATENTS = {"noise": "size of the noise", "biases": "bias"}


def labels_of(model: LatentModel) -> dict[str, Label]:
    """Symbols and words of the scalars that this model recorded, in the order of showing.

    The number of components, the hyperparameters that prior and likelihood declare, and the
    engine's measure. One that nobody declares is shown under its own name, before the measure.
    Of an array with many entries a few are shown, evenly chosen.
    """
    engine = model.fit_.engine
    count = Label("K", f"number of {model.structure.component}s")
    declared = {"n_components": count, **model.fit_.model.hyperparameters}
    fixed = _noise_of_one(model)
    names = [k for k in model.history_ if k not in {*declared, *fixed, engine.measure}]
    others = {name: _own_label(name, declared, model) for name in _few_entries(names)}
    known = {**declared, **others, engine.measure: engine.measure_label}
    return {name: label for name, label in known.items() if name in model.history_}


def label_of(model: LatentModel, name: str) -> Label:
    """The label of one recorded scalar, or one sentence that names those there are."""
    if name not in model.history_:
        known = ", ".join(_few_entries(list(model.history_)))
        raise ValueError(f"{name!r} is not recorded; this model has {known}.")
    declared = dict(model.fit_.model.hyperparameters)
    return labels_of(model).get(name) or _own_label(name, declared, model)


def _noise_of_one(model: LatentModel) -> set[str]:
    """Names of noise that is one whatever the data are: there is nothing to show."""
    layout = tables.layout_of(model)
    return set() if layout is None else {f"noise[{j}]" for j in np.flatnonzero(layout.unit)}


def _few_entries(names: list[str]) -> list[str]:
    """The names, but for most of those that are entries of one long array.

    >>> _few_entries(["tau", *(f"scales[{i}]" for i in range(10))])
    ['tau', 'scales[0]', 'scales[3]', 'scales[6]', 'scales[9]']
    """
    arrays: dict[str, list[str]] = {}
    for name in names:
        arrays.setdefault(name.partition("[")[0], []).append(name)
    few = (own[i] for own in arrays.values() for i in evenly_spaced(len(own), MOST_ENTRIES))
    return list(few)


def _own_label(name: str, declared: dict[str, Label], model: LatentModel) -> Label:
    """The label of one entry of an array, such as "scales[1]"; else the name itself."""
    whole, bracket, index = name.partition("[")
    if bracket and whole in declared:
        names = column_names(model) if whole in OF_LATENTS else None
        if names is not None:
            own = names[int(index.rstrip("]"))]
            return Label(f"{declared[whole].symbol}[{index}", f"{OF_LATENTS[whole]} of {own}")
        return Label(f"{declared[whole].symbol}[{index}", declared[whole].words)
    return Label(name, "")


def column_names(model: LatentModel) -> list[str] | None:
    """Names of the columns of ``X_``, where the data had names; of latents, where it has these."""
    if (layout := tables.layout_of(model)) is not None:
        return layout.names
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def row_name(model: LatentModel, n: int) -> str:
    """Name of row n, or its number counted from 1."""
    names = getattr(model, "row_names_", None)
    return f"row {n + 1}" if names is None else str(names[n])


def image_shape_of(
    model: LatentModel, image_shape: tuple[int, int] | None
) -> tuple[int, int] | None:
    """(h, w) when rows are to be drawn as images: asked for, or D a square >= 16 without names."""
    d, layout = model.n_features_in_, tables.layout_of(model)
    one_kind = layout is None or (layout.n_latents == d and len(set(layout.table.kinds)) == 1)
    if image_shape is not None and not one_kind:
        raise ValueError(
            f"image_shape={image_shape!r}: rows of a table with columns of different kinds are no "
            "images; leave it out."
        )
    if image_shape is not None:
        shape = tuple(int(side) for side in image_shape)
        if len(shape) != 2 or min(shape) < 1 or prod(shape) != d:
            raise ValueError(
                f"image_shape={image_shape!r} does not fit rows of {d} values: "
                f"give (height, width) with height x width = {d}."
            )
        return shape[0], shape[1]
    side = isqrt(d)
    named = column_names(model) is not None if layout is None else layout.table.labels is not None
    if d >= 16 and side * side == d and one_kind and not named:
        return side, side
    return None


def shares(model: LatentFeatures) -> np.ndarray:
    """(K,) posterior mean share of rows with each feature: mean_n P(z_nk = 1)."""
    return np.asarray(model.assignment_probabilities_.mean(axis=0), dtype=float)


def row_codes(Z: np.ndarray) -> np.ndarray:
    """One sortable value per row of Z: equal rows equal, rows with the first features first."""
    packed = np.ascontiguousarray(np.packbits(~np.asarray(Z, dtype=bool), axis=1))
    return packed.view(np.dtype((np.void, packed.shape[1]))).ravel()


def telling_rows(model: LatentFeatures, n_rows: int) -> np.ndarray:
    """Rows that show most: one for each of the commonest combinations of features.

    When there are fewer combinations than that, other rows follow in their order.
    """
    n = model.Z_.shape[0]
    n_rows = min(n_rows, n)
    if model.Z_.shape[1] == 0:
        return np.arange(n_rows)
    _, first, count = np.unique(row_codes(model.Z_), return_index=True, return_counts=True)
    chosen = first[np.lexsort((first, -count))][:n_rows]
    others = np.setdiff1d(np.arange(min(n, 2 * n_rows)), chosen)[: n_rows - len(chosen)]
    return np.concatenate([np.sort(chosen), others]).astype(int)


def reconstruct(model: LatentFeatures, rows: np.ndarray | slice) -> np.ndarray:
    """What is expected of some rows only, since all of them may not fit in memory."""
    amounts = getattr(model, "amounts_", model.Z_)  # where the likelihood has them
    return new_rows.expected(model, amounts[rows])


class Units(NamedTuple):
    """Where the columns of ``X_`` begin and what they are measured in, when all are compared."""

    middle: np.ndarray
    size: np.ndarray
    words: str


def units_of(model: LatentModel) -> Units | None:
    """Means and standard deviations of what was observed, where columns are of different kinds;
    those of the fit, where columns were scaled for it."""
    if is_scaled(model):
        return Units(model.mean_, model.scale_, "scaled")
    if tables.layout_of(model) is None:
        return None
    size = np.nanstd(model.X_, axis=0)
    return Units(np.nanmean(model.X_, axis=0), np.where(size > 0.0, size, 1.0), "standardized")


def is_scaled(model: LatentModel) -> bool:
    """Whether columns were divided by their standard deviations before the fit."""
    return isinstance(model, LatentFeatures) and bool((model.scale_ != 1.0).any())


def compared_features(model: LatentFeatures) -> np.ndarray:
    """The features as their columns compare: over the scales of these, where they were scaled."""
    return model.components_ / model.scale_ if is_scaled(model) else model.components_


def compared(model: LatentModel, values: np.ndarray) -> np.ndarray:
    """Data or reconstructions as they are, or in units of columns of different kinds."""
    units = units_of(model)
    return values if units is None else (values - units.middle) / units.size


class Explained(NamedTuple):
    """What the features explain."""

    explained: float  # 1 - |X - ZA - mean|² / |X - mean|²
    left_over: float  # root mean square of X - ZA - mean
    worst: int  # row with the largest residual


def explained_by(model: LatentFeatures) -> Explained:
    """Residual sums of squares over all rows; of columns of different kinds in their own units."""
    if is_sparse(model.X_):
        return _explained_sparse(model)
    if model.fit_.data.far:
        return _explained_elsewhere(model)
    X = compared(model, model.X_)
    middle = 0.0 if units_of(model) is not None else model.mean_
    residual, total, seen = np.empty(len(X)), 0.0, 0
    # Squares of numbers near 1e200 overflow: measure in units of the largest entry.
    unit = float(max(abs(np.nanmax(X)), abs(np.nanmin(X)))) or 1.0
    for rows in blocks(X):
        left = (X[rows] - compared(model, reconstruct(model, rows))) / unit
        residual[rows] = np.nansum(np.square(left), axis=1)
        total += float(np.nansum(np.square((X[rows] - middle) / unit)))
        seen += int(np.isfinite(left).sum())
    return _explained(residual, total, seen, unit)


def _explained_elsewhere(model: LatentFeatures) -> Explained:
    """The same of rows that are read by blocks."""
    source: Any = model.fit_.data.X
    X, known = source.told, source.survey
    residual, total, seen = np.empty(len(X)), 0.0, 0
    unit = float(np.abs([known.low.min(), known.high.max()]).max()) or 1.0
    middle = 0.0 if units_of(model) is not None else model.mean_
    for rows in blocks(X):
        own = compared(model, X[rows])
        left = (own - compared(model, reconstruct(model, rows))) / unit
        residual[rows] = np.nansum(np.square(left), axis=1)
        total += float(np.nansum(np.square((own - middle) / unit)))
        seen += int(np.isfinite(left).sum())
    return _explained(residual, total, seen, unit)


def _explained_sparse(model: LatentFeatures) -> Explained:
    """The same from products: ‖x − zA‖² = ‖x‖² − 2 xAᵀzᵀ + zAAᵀzᵀ. Sparse data are not centered."""
    X, Z, A = model.fit_.data.X, model.Z_.astype(float), compared_features(model)
    squares = row_squares(X)
    residual = squares + ((Z @ (A @ A.T) - 2.0 * (X @ np.ascontiguousarray(A.T))) * Z).sum(axis=1)
    return _explained(residual, float(squares.sum()), prod(X.shape))


def _explained(residual: np.ndarray, total: float, seen: int, unit: float = 1.0) -> Explained:
    left = max(float(residual.sum()), 0.0)
    explained = 1.0 - left / total if total > 0 else np.nan
    return Explained(explained, unit * float(np.sqrt(left / seen)), int(residual.argmax()))
