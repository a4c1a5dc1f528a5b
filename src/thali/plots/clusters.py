"""Clusters as pictures: their sizes, who is with whom, what they are like, where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_partition import LatentPartition

from . import style, tiles
from .cluster_reading import (
    Plane,
    SizeSpread,
    plane,
    profile_table,
    profile_words,
    size_spread,
    together,
)
from .reading import column_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLUSTERS = 20
MOST_COLUMNS = 30
MOST_PAIRED = 600  # rows of the matrix of pairs
MOST_POINTS = 2000
MOST_NUMBERS = 60  # cells that have their numbers written in them
MOST_MARKED = 12  # clusters whose numbers are written among the points
LONGEST_NAME = 20  # letters of a column name
LIGHT = "#fdfdfd"  # not the paper's white, which the report turns dark on dark paper
MARKERS = "os^DvP"  # of each eight clusters, which have eight colors


def color_of(cluster: int) -> str:
    """The color of a cluster; every ninth has the same, and another marker."""
    return style.CHAINS[cluster % len(style.CHAINS)]


def cluster_sizes(
    model: LatentPartition, ax: Axes | None = None, *, max_clusters: int = MOST_CLUSTERS
) -> Axes:
    """Rows of each cluster of `labels_` as a bar, and how large its rows' clusters are in draws.

    In every draw a row is in a cluster of some size. The dot is the median of these sizes over all
    draws and all rows of the cluster, and 90% of them lie on the line. Where the line is short and
    its dot at the end of the bar, the draws agree with `labels_`; where it reaches to larger sizes,
    they merge the cluster with others, and where to smaller ones, they split it.

    Examples
    --------
    >>> import thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> thali.plots.cluster_sizes(model).get_ylabel()
    'cluster'
    """
    check_is_fitted(model)
    k = model.n_clusters_
    shown = min(k, max_clusters)
    ax = style.given_or_new(ax, 4.2, 1.1 + 0.24 * max(shown, 4))
    spread = SizeSpread(*(part[:shown] for part in size_spread(model)))
    colors = style.tidy(ax, "Rows in each cluster", _of(shown, k))
    y = np.arange(shown)
    bars = [color_of(i) for i in range(shown)]
    ax.barh(y, spread.rows, height=0.72, color=bars, alpha=0.45, linewidth=0)
    ax.hlines(y, spread.low, spread.high, color=colors.ink, linewidth=1.4, zorder=3)
    ax.scatter(spread.median, y, s=16, color=colors.ink, linewidths=0, zorder=4)
    n, ends = len(model.labels_), np.maximum(spread.high, spread.rows)
    # Room for the words: their share of the width is not the bars'.
    words = [f"{rows:,} · {style.percent(rows / n)}" for rows in spread.rows]
    room = min(0.6, (0.07 * max(map(len, words)) + 0.1) / (0.8 * style.inches(ax)[0]))
    right = float(ends.max()) / (1 - room)
    for i, text in enumerate(words):
        ax.annotate(
            text, (ends[i], i), (5, 0), textcoords="offset points", va="center",
            fontsize=8 if shown <= 14 else 7, color=colors.quiet,
        ).set_in_layout(False)  # fmt: skip
    ax.set_yticks(y, [str(i) for i in y])
    ax.set_ylim(shown - 0.4 + max(0, 3 - shown) * 0.4, -0.6 - max(0, 3 - shown) * 0.4)
    ax.set_xlim(0, right)
    ax.tick_params(axis="y", length=0)
    style.label(ax, x="rows; line: 90% of sizes in the draws, dot: median", y="cluster")
    return ax


def co_clustering(
    model: LatentPartition, ax: Axes | None = None, *, max_rows: int = MOST_PAIRED
) -> Axes:
    """The share of draws in which two rows are together, rows in the order of their clusters.

    Within a cluster rows are in the order of a hierarchical clustering (average linkage). Of more
    than `max_rows` rows so many are shown, evenly chosen along the clusters.

    Examples
    --------
    >>> import thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> thali.plots.co_clustering(model).get_title(loc="left")
    'Together in the draws'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.8, 4.2)
    rows, shares = together(model, max_rows)
    n, labels = len(rows), model.labels_[rows]
    some = "" if n == len(model.labels_) else f"{n:,} of {len(model.labels_):,} rows, evenly chosen"
    colors = style.tidy(ax, "Together in the draws", some)
    for spine in ax.spines.values():
        spine.set_visible(True)
    artist = ax.imshow(
        shares, style.color_map(signed=False), vmin=0, vmax=1, interpolation="nearest"
    )
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    for edge in starts[1:] - 0.5 if len(starts) <= 60 else ():
        ax.axhline(edge, color=colors.rule, linewidth=0.7)
        ax.axvline(edge, color=colors.rule, linewidth=0.7)
    ends = np.append(starts[1:], n)
    wide = (ends - starts) * style.inches(ax)[1] / n > 0.13  # inches that a number needs
    middles = ((starts + ends - 1) / 2)[wide]
    names = [str(k) for k in labels[starts][wide]]
    ax.set_yticks(middles, names)
    ax.set_xticks(middles, names)
    ax.tick_params(length=0)
    style.label(ax, x="rows by cluster", y="rows by cluster")
    tiles.color_bar(ax, artist, "share of draws")
    return ax


def cluster_profiles(
    model: LatentPartition,
    ax: Axes | None = None,
    *,
    max_clusters: int = MOST_CLUSTERS,
    max_columns: int = MOST_COLUMNS,
) -> Axes:
    """`cluster_profiles_` as a heat map, the columns in which clusters differ most first.

    Means are colored by their distance from the mean of the column, in its standard deviations;
    probabilities and shares as they are. Where there is room the numbers themselves are written.

    Examples
    --------
    >>> import thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> thali.plots.cluster_profiles(model).get_title(loc="left")
    'What clusters are like'
    """
    check_is_fitted(model)
    table = profile_table(model)
    k, d = min(model.n_clusters_, max_clusters), min(len(table.names), max_columns)
    names = [style.drawable(name, LONGEST_NAME) for name in table.names[:d]]
    height = 1.2 + 0.28 * max(k, 3) + 0.075 * max(map(style.width_of, names))
    ax = style.given_or_new(ax, min(9.0, max(4.2, 2.0 + 0.24 * d)), height)
    words, notes = profile_words(model), [_of(k, model.n_clusters_)]
    if d < len(table.names):
        notes.append(f"the {d} of {len(table.names):,} columns that differ most")
    far = "colored by distance from the mean" if words.has_units else ""
    style.tidy(ax, "What clusters are like", "; ".join(filter(None, notes)) or far)
    shown = table.shown[:k, :d]
    scale = tiles.scale_of(shown)
    artist = ax.imshow(
        shown, scale.colors(), vmin=scale.low, vmax=scale.high, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    if k * d <= MOST_NUMBERS and d <= 1.9 * style.inches(ax)[0]:
        _write_numbers(ax, table.values[:k, :d], np.abs(shown) / max(scale.high, 1e-300))
    ax.set_yticks(np.arange(k), [str(i) for i in range(k)], fontsize=8 if k <= 14 else 7)
    ax.tick_params(length=0)
    ax.set_xticks(
        range(d), names, fontsize=8 if d <= 20 else 7, family=style.fonts(names),
        rotation=0 if _fit_side_by_side(ax, names) else 90,
    )  # fmt: skip
    style.label(ax, y="cluster")
    tiles.color_bar(ax, artist, "standard deviations" if words.has_units else words.number)
    return ax


def _fit_side_by_side(ax: Axes, names: list[str]) -> bool:
    """Whether names have room below their columns without being turned."""
    return 0.06 * max(map(style.width_of, names)) < 0.85 * style.inches(ax)[0] / len(names)


def _write_numbers(ax: Axes, values: np.ndarray, depth: np.ndarray) -> None:
    """The numbers in their cells, light where the cell is dark, on any paper."""
    for (i, j), value in np.ndenumerate(values):
        ax.text(
            j, i, f"{value:.3g}", ha="center", va="center", fontsize=8,
            color=LIGHT if depth[i, j] > 0.6 else style.inks(ax).ink,
        )  # fmt: skip


def cluster_map(model: LatentPartition, ax: Axes | None = None) -> Axes:
    """Rows as points: color and number tell the cluster, faint ones are in doubt (`membership_`).

    Two columns are drawn as they are; more are drawn by their first two principal components,
    columns in their standard deviations. Of more than 2000 rows so many are drawn, evenly chosen.

    Examples
    --------
    >>> import thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> thali.plots.cluster_map(model).get_xlabel()
    'x0'
    """
    check_is_fitted(model)
    ax = style.given_or_new(ax, 4.8, 4.0)
    given = column_names(model) or [f"x{j}" for j in range(model.n_features_in_)]
    found = plane(model, MOST_POINTS, given)
    n = len(model.labels_)
    some = "" if len(found.rows) == n else f"{len(found.rows):,} of {n:,}, evenly chosen; "
    colors = style.tidy(ax, "Rows", f"{some}faint: in doubt")
    _draw_points(ax, model, found)
    names = [style.drawable(axis, 40) for axis in found.axes]
    style.label(ax, *names)
    for axis, name in ((ax.xaxis, names[0]), (ax.yaxis, names[1])):
        axis.label.set_fontfamily(style.fonts([name]))
    if found.principal:
        ax.set_xticks([])
        ax.set_yticks([])
        for spine in ax.spines.values():
            spine.set(visible=True, color=colors.rule)
    else:
        ax.ticklabel_format(useOffset=False, scilimits=(-3, 5))
    ax.margins(0.06)
    return ax


def _draw_points(ax: Axes, model: LatentPartition, found: Plane) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patheffects import withStroke

    labels, sure = model.labels_[found.rows], model.membership_[found.rows]
    size = float(np.clip(9000 / len(found.rows), 7, 26))
    inks = style.inks(ax)
    for k in np.unique(labels):
        own = labels == k
        face = np.tile(to_rgba(color_of(k)), (int(own.sum()), 1))
        face[:, 3] = 0.12 + 0.78 * np.clip(sure[own], 0.0, 1.0) ** 2
        marker = MARKERS[k // len(style.CHAINS) % len(MARKERS)]
        x, y = found.points[own].T
        ax.scatter(x, y, s=size, c=face, marker=marker, linewidths=0)
    for k in np.unique(labels)[:MOST_MARKED]:
        own = labels == k
        above = 9 if own.sum() < 4 else 0  # points: a few rows would be hidden
        ax.annotate(
            str(k), np.median(found.points[own], axis=0), (0, above), textcoords="offset points",
            ha="center", va="center", fontsize=10, fontweight="bold", color=inks.ink,
            path_effects=[withStroke(linewidth=2.5, foreground=inks.paper)],
        )  # fmt: skip


def _of(shown: int, k: int) -> str:
    return "" if shown == k else f"the {shown} largest of {k}"
