"""Rows of numbers as pictures: images set side by side in one axes, or one band of stems each."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.image import AxesImage

LARGEST_SIDE = 240  # pixels of one image; larger ones are averaged down
MOST_STEMS = 60  # more columns than this lose the dots on their stems
MOST_BARS = 400  # more columns than this are drawn as one filled line
LONGEST_NAME = 16  # letters of a column name
MOST_NAMES = 40  # more columns than this are not all named


def shrink(images: np.ndarray, largest: int = LARGEST_SIDE) -> np.ndarray:
    """(n, h, w) images averaged over blocks until no side is above `largest`."""
    return style.block_means(style.block_means(images, largest, 1), largest, 2)


class Scale(NamedTuple):
    """Numbers to colors: `signed` about zero, `rising` from zero, `photo` from black to white."""

    low: float
    high: float
    kind: str

    def colors(self) -> Colormap:
        """The matplotlib color map."""
        from matplotlib import colormaps

        if self.kind == "photo":
            return colormaps["gray"]
        return style.color_map(self.kind == "signed")


def scale_of(values: np.ndarray, photo: bool = False) -> Scale:
    """Symmetric about zero, or from zero up when nothing is below it (then as a photo, if asked).

    >>> scale_of(np.array([0.0, 2.0])), scale_of(np.array([-3.0, 2.0]))
    (Scale(low=0.0, high=1.99, kind='rising'), Scale(low=-2.995, high=2.995, kind='signed'))
    """
    finite = values[np.isfinite(values)]
    # One wild entry in two hundred may saturate, rather than pale all the others.
    top = float(np.quantile(np.abs(finite), 0.995)) if finite.size else 0.0
    top = top or (float(np.abs(finite).max()) if finite.size else 0.0) or 1.0
    if finite.size and finite.min() < 0:
        return Scale(-top, top, "signed")
    return Scale(0.0, top, "photo" if photo else "rising")


def scales_of_rows(data: np.ndarray, made: np.ndarray) -> tuple[Scale, Scale]:
    """Scales of data with their reconstructions, and of what is left over."""
    left = data - made
    if data.size and not (data < 0).any():
        return scale_of(data, photo=True), scale_of(np.concatenate([left, -left]))
    shared = scale_of(np.concatenate([data, made, left]))
    return shared, shared


def draw_images(
    ax: Axes, images: np.ndarray, columns: int, groups: Sequence[tuple[slice, Scale]]
) -> tuple[AxesImage, np.ndarray]:
    """Images in reading order, `columns` a line; each group of them has its own scale.

    Returns the first group's artist and the (n, 2) corners of the tiles.
    """
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    images = shrink(images)
    n, h, w = images.shape
    lines = ceil(n / columns)
    gap_x, gap_y = max(1, round(0.12 * w)), max(1, round(0.30 * max(h, 0.6 * w)))
    size = lines * (h + gap_y) - gap_y, columns * (w + gap_x) - gap_x
    tiles = np.arange(n)
    corners = np.stack([tiles % columns * (w + gap_x), tiles // columns * (h + gap_y)], axis=1)
    artists = []
    for which, scale in groups:
        canvas = np.full(size, np.nan)
        for i in tiles[which]:
            left, top = corners[i]
            canvas[top : top + h, left : left + w] = images[i]
        limits = Normalize(scale.low, scale.high)
        artists.append(ax.imshow(canvas, scale.colors(), limits, interpolation="nearest"))
    rule = style.inks(ax).rule
    for x, y in corners - 0.5:
        ax.add_patch(Rectangle((x, y), w, h, fill=False, edgecolor=rule, linewidth=0.8))
    # Room above the first line for its captions.
    ax.set_xlim(-1.0, size[1])
    ax.set_ylim(size[0], -0.9 * gap_y)
    ax.set_anchor("NW")
    return artists[0], corners


def best_columns(n: int, h: int, w: int, ax: Axes) -> int:
    """Tiles a line for which the tiles come out largest in the axes."""
    wide, tall = style.inches(ax)
    sizes = [min(wide / (c * 1.12 * w), tall / (ceil(n / c) * 1.3 * h)) for c in range(1, n + 1)]
    columns = 1 + sizes.index(max(sizes))
    return ceil(n / ceil(n / columns))  # the same number of lines, evenly filled


def caption(ax: Axes, corner: np.ndarray, width: int, text: str, size: float = 8) -> None:
    """A small line above a tile."""
    middle = corner[0] + (min(width, LARGEST_SIDE) - 1) / 2
    ax.annotate(
        text, (middle, corner[1] - 0.5), (0, 2.5), textcoords="offset points", ha="center",
        va="bottom", annotation_clip=False, fontsize=size, color=style.inks(ax).quiet,
        family=style.fonts([text]),
    ).set_in_layout(False)  # fmt: skip


def color_bar(ax: Axes, artist: AxesImage, words: str) -> None:
    """A slim scale beside the axes, in figures that make room for it."""
    from matplotlib.ticker import MaxNLocator

    colors = style.inks(ax)
    bar = ax.figure.colorbar(artist, ax=ax, fraction=0.04, pad=0.02, shrink=0.6, aspect=18)
    assert bar.solids is not None
    bar.solids.set_rasterized(True)  # else 256 rectangles with seams between them
    bar.outline.set(edgecolor=colors.rule, linewidth=0.8)
    bar.ax.tick_params(length=0, labelsize=7.5, labelcolor=colors.quiet)
    bar.locator = MaxNLocator(4)
    bar.update_ticks()
    bar.set_label(words, fontsize=8, color=colors.quiet)


def draw_bands(
    ax: Axes, values: np.ndarray, labels: Sequence[str], data: np.ndarray | None = None
) -> None:
    """One band a row: stems (few columns) or a filled line of `values`, beside `data` where given.

    All bands share one scale, set by the largest size in sight.
    """
    n, d = values.shape
    stacked = values if data is None else np.concatenate([values, data])
    finite = np.abs(stacked[np.isfinite(stacked)])
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    signed = bool((stacked < 0).any())
    scale = (0.45 if signed else 0.85) / top
    bases = -np.arange(n, dtype=float) - (0.0 if signed else 0.45)
    ax.hlines(bases, -0.5, d - 0.5, color=style.inks(ax).rule, linewidth=0.8, zorder=1)
    for i, base in enumerate(bases):
        y = values[i] * scale
        if data is None:
            (_stems if d <= MOST_BARS else _filled)(ax, y, base)
        elif d <= MOST_STEMS:
            _strokes(ax, y, data[i] * scale, base)
        else:
            _two_lines(ax, y, data[i] * scale, base)
    ax.set_xlim(-0.5 - 0.01 * d, d - 0.5 + 0.01 * d)
    ax.set_ylim(-n + 0.45, 0.55)
    ax.set_yticks(bases, labels, fontsize=8, family=style.fonts(labels))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _stems(ax: Axes, y: np.ndarray, base: float) -> None:
    x = np.arange(len(y))
    colors = [style.VERMILLION if v < 0 else style.BLUE for v in y]
    width = min(1.6, 250 / len(y))
    ax.vlines(x, base, base + y, colors=colors, linewidth=width, zorder=2)
    if len(y) <= MOST_STEMS:
        ax.scatter(x, base + y, s=18 if len(y) <= 25 else 9, c=colors, linewidths=0, zorder=3)


def _filled(ax: Axes, y: np.ndarray, base: float) -> None:
    x, part = style.envelope(y, most=500)
    above, below = np.maximum(part, 0), np.minimum(part, 0)
    ax.fill_between(x, base, base + above, color=style.BLUE, linewidth=0.3, zorder=2)
    ax.fill_between(x, base, base + below, color=style.VERMILLION, linewidth=0.3, zorder=2)


def _strokes(ax: Axes, y: np.ndarray, data: np.ndarray, base: float) -> None:
    """A column's reconstruction as a flat stroke, its datum as a dot: they meet where it fits."""
    x = np.arange(len(y))
    half = min(0.36, 0.018 * len(y) + 0.1)
    ax.hlines(base + y, x - half, x + half, color=style.BLUE, linewidth=2.2, zorder=2)
    size = 14 if len(y) <= 25 else 7
    ax.scatter(x, base + data, s=size, c=style.inks(ax).ink, linewidths=0, alpha=0.75, zorder=3)


def _two_lines(ax: Axes, y: np.ndarray, data: np.ndarray, base: float) -> None:
    """Many columns would hide one line behind the other: data above, reconstruction below."""
    drawn = "steps-mid" if len(y) <= MOST_BARS else "default"
    for values, lift, color in ((data, 0.24, style.inks(ax).quiet), (y, -0.24, style.BLUE)):
        x, part = style.envelope(values, most=500)
        height = base + lift + 0.5 * part
        ax.plot(x, height, color=color, linewidth=0.7, zorder=2, drawstyle=drawn)


def name_columns(ax: Axes, names: Sequence[str] | None, d: int) -> None:
    """Column names below the bands; a few of them, evenly spaced, when there are many."""
    if names is None:
        columns = style.ticks(d, 10)
        ax.set_xticks(columns, [str(j + 1) for j in columns])
        style.label(ax, x="column")
        return
    shown = list(range(d)) if d <= MOST_NAMES else [round(j * (d - 1) / 11) for j in range(12)]
    texts = [style.drawable(names[j], LONGEST_NAME) for j in shown]
    upright = max(map(style.width_of, texts)) * len(texts) > 48
    ax.set_xticks(
        shown, texts, fontsize=8 if len(texts) <= 25 else 7, family=style.fonts(texts),
        rotation=90 if upright else 0,
    )  # fmt: skip
    if d > len(shown):
        style.label(ax, x=f"{len(shown)} of {d} columns named")


def given_or_new_bands(ax: Axes | None, bands: int, d: int, names: Sequence[str] | None) -> Axes:
    """`ax`, or one of a new figure with room for the bands, the columns and their upright names."""
    shown = [style.plain(name, LONGEST_NAME) for name in (names or ())[:MOST_NAMES]]
    height = 1.0 + 0.62 * bands + 0.075 * max(map(style.width_of, shown), default=0)
    return style.given_or_new(ax, min(9.0, max(4.2, 2.0 + 0.16 * d)), height)
