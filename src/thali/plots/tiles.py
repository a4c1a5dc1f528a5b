"""Rows of numbers as pictures: images set side by side in one axes, or one band of stems each."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

LARGEST_SIDE = 240  # pixels of one image; larger ones are averaged down
MOST_STEMS = 60  # more columns than this are drawn as a line
LONGEST_NAME = 16  # letters of a column name
MOST_NAMES = 40  # more columns than this are not all named


def shrink(images: np.ndarray, largest: int = LARGEST_SIDE) -> np.ndarray:
    """(n, h, w) images averaged over blocks until no side is above `largest`."""
    for axis in (1, 2):
        size = images.shape[axis]
        if size > largest:
            starts = style.blocks(size, largest)
            widths = np.diff(np.append(starts, size))
            widths = widths.reshape([-1 if a == axis else 1 for a in range(3)])
            images = np.add.reduceat(images, starts, axis=axis) / widths
    return images


def limits(values: np.ndarray) -> tuple[float, float]:
    """Colour limits: symmetric about zero, or from zero up when nothing is below it."""
    finite = values[np.isfinite(values)]
    # One wild entry in two hundred may saturate, rather than pale all the others.
    top = float(np.quantile(np.abs(finite), 0.995)) if finite.size else 0.0
    top = top or (float(np.abs(finite).max()) if finite.size else 0.0) or 1.0
    return (0.0 if finite.size and finite.min() >= 0 else -top), top


def draw_images(
    ax: Axes, images: np.ndarray, columns: int, bounds: tuple[float, float]
) -> tuple[AxesImage, np.ndarray]:
    """Images in reading order, `columns` a line; returns the artist and the (n, 2) tile corners."""
    from matplotlib.patches import Rectangle

    images = shrink(images)
    n, h, w = images.shape
    lines = ceil(n / columns)
    gap_x, gap_y = max(1, round(0.12 * w)), max(1, round(0.30 * max(h, 0.6 * w)))
    canvas = np.full((lines * (h + gap_y) - gap_y, columns * (w + gap_x) - gap_x), np.nan)
    corners = np.empty((n, 2))
    rule = style.inks(ax).rule
    for i, image in enumerate(images):
        top, left = (i // columns) * (h + gap_y), (i % columns) * (w + gap_x)
        canvas[top : top + h, left : left + w] = image
        corners[i] = left, top
        ax.add_patch(
            Rectangle((left - 0.5, top - 0.5), w, h, fill=False, edgecolor=rule, linewidth=0.8)
        )
    colour_map = style.signed_map() if bounds[0] < 0 else style.probability_map()
    artist = ax.imshow(
        canvas, cmap=colour_map, vmin=bounds[0], vmax=bounds[1], interpolation="nearest",
        aspect="equal",
    )  # fmt: skip
    # Room above the first line for its captions.
    ax.set_xlim(-1.0, canvas.shape[1])
    ax.set_ylim(canvas.shape[0], -0.9 * gap_y)
    ax.set_anchor("NW")
    return artist, corners


def best_columns(n: int, h: int, w: int, ax: Axes) -> int:
    """Tiles a line for which the tiles come out largest in the axes."""
    wide, tall = style.inches(ax)

    def scale(columns: int) -> float:
        return min(wide / (columns * 1.12 * w), tall / (ceil(n / columns) * 1.3 * h))

    columns = max(range(1, n + 1), key=scale)
    return ceil(n / ceil(n / columns))  # the same number of lines, evenly filled


def caption(ax: Axes, corner: np.ndarray, width: int, text: str, **kwargs: Any) -> None:
    """A small line above a tile."""
    options: dict[str, Any] = {"fontsize": 8, "color": style.inks(ax).quiet, "ha": "center"}
    options.update(kwargs)
    ax.annotate(
        text, (corner[0] + (width - 1) / 2, corner[1] - 0.5), (0, 2.5),
        textcoords="offset points", va="bottom", annotation_clip=False, **options,
    ).set_in_layout(False)  # fmt: skip


def colour_bar(ax: Axes, artist: Any, words: str) -> None:
    """A slim scale beside the axes, in figures that make room for it."""
    from matplotlib.ticker import MaxNLocator

    colours = style.inks(ax)
    bar = ax.figure.colorbar(artist, ax=ax, fraction=0.04, pad=0.02, shrink=0.6, aspect=18)
    bar.solids.set_rasterized(True)  # else 256 rectangles with seams between them
    bar.outline.set_edgecolor(colours.rule)
    bar.outline.set_linewidth(0.8)
    bar.ax.tick_params(length=0, labelsize=7.5, labelcolor=colours.quiet)
    bar.locator = MaxNLocator(4)
    bar.update_ticks()
    bar.set_label(words, fontsize=8, color=colours.quiet)


def draw_bands(
    ax: Axes,
    values: np.ndarray,
    labels: Sequence[str],
    data: np.ndarray | None = None,
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
            (_stems if d <= MOST_STEMS else _filled)(ax, y, base)
        elif d <= MOST_STEMS:
            _strokes(ax, y, data[i] * scale, base)
        else:
            _two_lines(ax, y, data[i] * scale, base)
    ax.set_xlim(-0.5 - 0.01 * d, d - 0.5 + 0.01 * d)
    ax.set_ylim(-n + 0.45, 0.55)
    ax.set_yticks(bases)
    ax.set_yticklabels(labels, fontsize=8, family=style.fonts(list(labels)))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _stems(ax: Axes, y: np.ndarray, base: float) -> None:
    x = np.arange(len(y))
    colours = np.where(y < 0, style.VERMILLION, style.BLUE)
    ax.vlines(x, base, base + y, colors=colours, linewidth=1.6, zorder=2)
    ax.scatter(x, base + y, s=18 if len(y) <= 25 else 9, c=colours, linewidths=0, zorder=3)


def _filled(ax: Axes, y: np.ndarray, base: float) -> None:
    x, part = style.envelope(y)
    above, below = np.maximum(part, 0), np.minimum(part, 0)
    ax.fill_between(x, base, base + above, color=style.BLUE, linewidth=0.3, zorder=2)
    ax.fill_between(x, base, base + below, color=style.VERMILLION, linewidth=0.3, zorder=2)


def _strokes(ax: Axes, y: np.ndarray, data: np.ndarray, base: float) -> None:
    """The reconstruction as a flat stroke a column, the datum as a dot: a hit is a dot on a stroke."""
    x = np.arange(len(y))
    half = min(0.36, 0.018 * len(y) + 0.1)
    ax.hlines(base + y, x - half, x + half, color=style.BLUE, linewidth=2.2, zorder=2)
    size = 14 if len(y) <= 25 else 7
    ax.scatter(x, base + data, s=size, c=style.inks(ax).ink, linewidths=0, alpha=0.75, zorder=3)


def _two_lines(ax: Axes, y: np.ndarray, data: np.ndarray, base: float) -> None:
    """Many columns would hide one line behind the other: data above, reconstruction below."""
    for values, place, colour in (
        (data, 0.24, style.inks(ax).quiet),
        (y, -0.24, style.BLUE),
    ):
        x, part = style.envelope(values)
        ax.plot(x, base + place + 0.5 * part, color=colour, linewidth=0.7, zorder=2)


def name_columns(ax: Axes, names: Sequence[str] | None, d: int) -> None:
    """Column names below the bands; a few of them, evenly spread, when there are many."""
    if names is None:
        places = style.ticks(d, 10)
        ax.set_xticks(places, [str(p + 1) for p in places])
        style.label(ax, x="column")
        return
    shown = np.arange(d) if d <= MOST_NAMES else np.unique(np.linspace(0, d - 1, 12).astype(int))
    texts = [style.drawable(names[j], LONGEST_NAME) for j in shown]
    crowded = max(map(style.width_of, texts)) * len(texts) > 48
    ax.set_xticks(shown)
    ax.set_xticklabels(
        texts, fontsize=8 if len(texts) <= 25 else 7, family=style.fonts(texts),
        rotation=90 if crowded else 0,
    )  # fmt: skip
    if d > len(shown):
        style.label(ax, x=f"{len(shown)} of {d} columns named")


def room_for_names(names: Sequence[str] | None, d: int) -> float:
    """Inches that upright column names take below the bands."""
    if names is None:
        return 0.0
    longest = max(style.width_of(style.plain(name, LONGEST_NAME)) for name in names[:MOST_NAMES])
    return 0.075 * longest
