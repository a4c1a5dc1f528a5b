"""Which rows have which features (Z, with probabilities), and what features make of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.data import sparse
from thali.estimators.latent_features import LatentFeatures

from . import style, tiles
from .reading import (
    column_names,
    compared,
    image_shape_of,
    reconstruct,
    row_codes,
    row_name,
    telling_rows,
    units_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 500  # rows of the drawn matrix; more rows of Z are averaged in their sorted order
MOST_ROW_NAMES = 30


def assignments(model: LatentFeatures, ax: Axes | None = None) -> Axes:
    """P(z_nk = 1) as a matrix: features by frequency, rows sorted so that equal rows touch.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.assignments(model).get_xlabel()
    'feature'
    """
    check_is_fitted(model)
    n, k = model.Z_.shape
    ax = style.given_or_new(ax, 4.2, 4.2)
    title = "Assignments"
    if k == 0:
        return style.say(ax, title, style.NO_FEATURES)
    order = np.argsort(row_codes(model.Z_), kind="stable")
    P = np.asarray(model.assignment_probabilities_, dtype=float)[order]
    style.tidy(ax, title)
    for spine in ax.spines.values():
        spine.set_visible(True)
    P, colors = style.block_means(P, MOST_LINES, axis=0), style.color_map(signed=False)
    artist = ax.imshow(P, colors, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if n <= MOST_ROW_NAMES:
        names = [style.drawable(row_name(model, i), 16) for i in order]
        ax.set_yticks(range(n), names, fontsize=8 if n <= 20 else 7, family=style.fonts(names))
    else:
        ax.set_yticks([])
        style.label(ax, y=f"{n:,} rows, sorted by their features")
    columns = style.ticks(k, 16)
    ax.set_xticks(columns, [str(j + 1) for j in columns])
    for edge in range(1, k) if k <= 40 else ():
        ax.axvline(edge - 0.5, color=style.inks(ax).rule, linewidth=0.6)
    ax.tick_params(length=0)
    style.label(ax, x="feature", y=ax.get_ylabel())
    tiles.color_bar(ax, artist, "probability")
    return ax


def reconstructions(
    model: LatentFeatures,
    ax: Axes | None = None,
    *,
    rows: Sequence[int] | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Axes:
    """Rows of the data beside what the model makes of them, Z_ A + mean_.

    Columns of different kinds are each measured from their mean, in units of their standard
    deviation; columns that were scaled for the fit as they were for it.

    `rows` are numbers counted from 0; without them one row is taken for each of the commonest
    combinations of features (8 images, 6 bands).

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.reconstructions(model, rows=[0, 3]).get_title(loc="left")
    'Reconstructions'
    """
    check_is_fitted(model)
    shape = image_shape_of(model, image_shape)
    chosen = _checked(model, rows, 8 if shape else 6)
    data, made = sparse.rows(model.X_, chosen), reconstruct(model, chosen)
    n, d = data.shape
    if shape is not None:
        ax = style.given_or_new(ax, max(2.6, 1.0 + 0.95 * n), 1.2 + 2.9 * shape[0] / shape[1])
        style.bare(ax, "Reconstructions")
        _image_rows(ax, model, chosen, data, made, shape)
        return ax
    names = column_names(model)
    ax = tiles.given_or_new_bands(ax, n, d, names)
    said = "gray: data · blue: reconstruction"
    if (units := units_of(model)) is not None:
        data, made = compared(model, data), compared(model, made)
        said += f" · columns {units.words}"
    style.tidy(ax, "Reconstructions", said)
    words = [style.drawable(_row_words(model, i), 40) for i in chosen]
    tiles.draw_bands(ax, made, words, data)
    tiles.name_columns(ax, names, d)
    return ax


def _checked(model: LatentFeatures, rows: Sequence[int] | None, most: int) -> np.ndarray:
    n = model.Z_.shape[0]
    if rows is None:
        return telling_rows(model, most)
    chosen = np.atleast_1d(np.asarray(rows))
    if chosen.ndim != 1 or not chosen.size or not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(f"rows must be a list of numbers from 0 to {n - 1}, not {rows!r}.")
    if chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"rows must lie between 0 and {n - 1}: the model was fitted to {n} rows.")
    return chosen


def _row_words(model: LatentFeatures, n: int) -> str:
    present = np.flatnonzero(model.Z_[n]) + 1
    listed = " ".join(map(str, present[:4])) + (f" +{len(present) - 4}" if len(present) > 4 else "")
    return f"{style.plain(row_name(model, n), 14)}: {listed or 'none'}"


def _image_rows(
    ax: Axes,
    model: LatentFeatures,
    chosen: np.ndarray,
    data: np.ndarray,
    made: np.ndarray,
    shape: tuple[int, int],
) -> None:
    """Three lines of tiles: the data, the reconstruction, what is left over."""
    n = len(chosen)
    images = np.concatenate([data, made, data - made]).reshape(3 * n, *shape)
    rows, left = tiles.scales_of_rows(data, made)
    groups = [(slice(0, 2 * n), rows), (slice(2 * n, 3 * n), left)]
    _, corners = tiles.draw_images(ax, images, n, groups)
    height = min(shape[0], tiles.LARGEST_SIDE)
    for i, above, below in zip(chosen, corners, corners[n:], strict=False):
        tiles.caption(ax, above, shape[1], style.drawable(row_name(model, i), 10), 7.5)
        present = np.flatnonzero(model.Z_[i]) + 1
        words = " + ".join(map(str, present)) if len(present) <= 3 else f"{len(present)} features"
        tiles.caption(ax, below, shape[1], words or "none", 7.5)
    for line, words in enumerate(("data", "rebuilt", "left over")):
        ax.annotate(
            words, (corners[line * n][0] - 0.5, corners[line * n][1] + height / 2), (-6, 0),
            textcoords="offset points", ha="right", va="center", rotation=90, fontsize=8,
            color=style.inks(ax).ink, annotation_clip=False,
        )  # fmt: skip
