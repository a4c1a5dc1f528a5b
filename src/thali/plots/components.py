"""What was found: A = E[A | X, Z] as images or stems, and how many rows have each feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_features import LatentFeatures

from . import style, tiles
from .reading import column_names, compared_features, image_shape_of, is_scaled, shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def frequencies(model: LatentFeatures, ax: Axes | None = None, *, max_features: int = 20) -> Axes:
    """Posterior mean number of rows with each feature, and their share of all rows.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.frequencies(model).get_ylabel()
    'feature'
    """
    check_is_fitted(model)
    n, k = model.Z_.shape
    shown = min(k, max_features)
    ax = style.given_or_new(ax, 4.2, 1.1 + 0.24 * max(shown, 4))
    title = "Rows with each feature"
    if k == 0:
        return style.say(ax, title, style.NO_FEATURES)
    share = shares(model)[:shown]
    colors = style.tidy(ax, title, _of(shown, k))
    y = np.arange(shown)
    bars = ax.barh(y, share, height=0.72, color=style.BLUE, linewidth=0)
    words = [f"{_amount(s * n)} · {s:.0%}" if s >= 0.005 else _amount(s * n) for s in share]
    size = 8 if shown <= 14 else 7
    for text in ax.bar_label(bars, words, padding=4, fontsize=size, color=colors.quiet):
        text.set_in_layout(False)
    ax.set_yticks(y, [str(i + 1) for i in y])
    ax.set_ylim(shown - 0.4 + max(0, 3 - shown) * 0.4, -0.6 - max(0, 3 - shown) * 0.4)
    # Room for the words: their share of the width is not the bars'.
    room = min(0.6, (0.07 * max(map(len, words)) + 0.1) / (0.8 * style.inches(ax)[0]))
    ax.set_xlim(0, max(share.max(), 1e-3) / (1 - room))
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    style.label(ax, x=f"mean number · share of {n:,} row{'s' * (n != 1)}", y="feature")
    return ax


def features(
    model: LatentFeatures,
    ax: Axes | None = None,
    *,
    image_shape: tuple[int, int] | None = None,
    max_features: int | None = None,
) -> Axes:
    """The rows of `components_`: images if `image_shape` says so, otherwise stems over the columns.

    Without names and with a square number of columns (16 or more) images are taken for granted.
    Stems of columns that were scaled for the fit are over their scales, so that columns compare. At
    most `max_features` are drawn, the most frequent first (24 images, 10 bands of stems).

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> thali.plots.features(model, image_shape=(6, 6)).get_title(loc="left")
    'Features'
    """
    check_is_fitted(model)
    shape = image_shape_of(model, image_shape)
    k, d = model.components_.shape
    shown = min(k, max_features or (24 if shape else 10))
    if k == 0:
        return style.say(style.given_or_new(ax, 4.2, 2.4), "Features", style.NO_FEATURES)
    A = model.components_[:shown]
    percent = [style.percent(s) for s in shares(model)[:shown]]
    if shape is None:
        names, A = column_names(model), compared_features(model)[:shown]
        ax = tiles.given_or_new_bands(ax, shown, d, names)
        top, scaled = np.abs(A).max(), "columns scaled" if is_scaled(model) else ""
        said = "; ".join(filter(None, [_of(shown, k), f"largest {top:.3g}", scaled]))
        style.tidy(ax, "Features", said)
        tiles.draw_bands(ax, A, [f"{i + 1} · {p}" for i, p in enumerate(percent)])
        tiles.name_columns(ax, names, d)
        return ax
    own = ax is None
    ax = style.given_or_new(ax, 6.4, 1.0 + 1.5 * -(-shown // 6))
    style.bare(ax, "Features", _of(shown, k))
    images = A.reshape(shown, *shape)
    columns = tiles.best_columns(shown, *shape, ax)
    artist, corners = tiles.draw_images(ax, images, columns, [(slice(None), tiles.scale_of(A))])
    for i, corner in enumerate(corners):
        tiles.caption(ax, corner, shape[1], f"{i + 1} · {percent[i]}")
    if own:
        tiles.color_bar(ax, artist, "")
    return ax


def _amount(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 9.95 or rows == round(rows) else f"{rows:.1f}"


def _of(shown: int, k: int) -> str:
    return "" if shown == k else f"the {shown} most frequent of {k}"
