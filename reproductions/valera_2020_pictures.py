"""Pictures of `valera_2020.py`: how columns are distributed in rows with each pattern of features.

Bars and lines are the model's, at the posterior means; grey is what was observed in all rows. A
positive column, or one to which 1 was added, has a logarithmic axis and a density on it.
"""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from valera_2020_tables import PLUS, Example, plain

from thali.plots.style import CHAINS
from thali.results.own_values import OwnValues

GRID = 300
BINS = 40
ALL, NONE = "0.82", "0.25"  # colours of all rows, and of those without features
TICKS = np.array([s * 10.0**e for e in range(-1, 6) for s in (1, 2, 5)])


def entries_of(model: Any, Z: np.ndarray) -> Any:
    """The entries of rows with these features, at the posterior means."""
    likelihood = model.fit_.model.likelihood_at(model.fit_.mean_hyper())
    return likelihood.entries_at(likelihood.latent_mean(Z, model.components_))


def density(entries: Any, j: int, x: np.ndarray) -> np.ndarray:
    """Of one latent's column at numbers x, (x, rows)."""
    values = np.ones((len(x), 1, entries.v.shape[-1]))
    values[..., j] = x[:, None]
    return np.exp(entries.log_density(values)[..., j])


def picture(
    example: Example, model: Any, Z: np.ndarray, labels: list[str], numbers: list[np.ndarray]
) -> Figure:
    """A panel for each column that is not one of many levels, and one of how many features."""
    entries, layout = entries_of(model, Z), model.likelihood_.known
    whole, columns = OwnValues.whole(entries), list(example.frame)
    shown = [d for d in range(len(columns)) if len(layout.columns[d].levels) <= 10]
    wide = 3 if len(shown) < 6 else 4
    high = math.ceil((len(shown) + 1) / wide)
    figure = Figure(figsize=(4.1 * wide, 3.1 * high + 0.5), layout="constrained")
    axes = list(figure.subplots(high, wide, squeeze=False).flat)
    colors = [NONE if not z.any() else CHAINS[i % len(CHAINS)] for i, z in enumerate(Z, start=-1)]
    for ax, d in zip(axes, shown, strict=False):
        name = columns[d]
        ax.set_title(plain(name), fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        seen = example.frame[name].dropna()
        if whole.has_levels(d):
            levels(ax, seen, layout.columns[d].levels, whole.probabilities(d), colors, labels)
        else:
            numbers_of(ax, name, seen.to_numpy(float), layout, d, entries, colors, labels)
    how_many(axes[len(shown)], numbers)
    for ax in axes[len(shown) + 1 :]:
        ax.set_visible(False)
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, texts, loc="outside lower center", ncols=min(6, len(texts)), frameon=False
    )
    return figure


def levels(
    ax: Axes, seen: Any, names: Any, p: np.ndarray, colors: list[str], labels: list[str]
) -> None:
    """Bars for each level: all rows, then each pattern."""
    shares = [(seen == name).mean() for name in names]
    width = 0.85 / (len(p) + 1)
    at = np.arange(len(names)) - 0.425 + width / 2.0
    ax.bar(at, shares, width, color=ALL, label="all rows")
    for i, (row, color, label) in enumerate(zip(p, colors, labels, strict=True), start=1):
        ax.bar(at + i * width, row, width, color=color, label=label)
    words = [fill(str(name), 11) for name in names]
    ax.set_xticks(np.arange(len(names)), words, fontsize=8)


def numbers_of(
    ax: Axes,
    name: str,
    x: np.ndarray,
    layout: Any,
    d: int,
    entries: Any,
    colors: list[str],
    labels: list[str],
) -> None:
    """Lines of a density over a histogram of all rows."""
    column, j = layout.columns[d], int(layout.first[d])
    if column.kind == "positive":
        t = np.linspace(np.log(x.min()) - 0.1, np.log(x.max()) + 0.1, GRID)
        lines = density(entries, j, np.exp(t)) * np.exp(t)[:, None]
        ax.hist(np.log(x), BINS, density=True, color=ALL, label="all rows")
        most = np.histogram(np.log(x), BINS, density=True)[0]
        told = np.concatenate([[0.0] if name.endswith(PLUS) else [], TICKS])
        places = np.log(told + name.endswith(PLUS))
        at: list[int] = []
        for i in np.flatnonzero((t[0] <= places) & (places <= t[-1])):
            if not at or places[i] - places[at[-1]] > 0.1 * (t[-1] - t[0]):
                at.append(int(i))
        ax.xaxis.set_major_locator(FixedLocator(places[at]))
        ax.set_xticklabels([f"{x:g}" for x in told[at]], fontsize=8)
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        whole = column.kind == "count"
        t = np.arange(0.0, x.max() + 1.0) if whole else np.linspace(x.min(), x.max(), GRID)
        lines = density(entries, j, t)
        ax.hist(x, BINS, density=True, color=ALL, label="all rows")
        most = np.histogram(x, BINS, density=True)[0]
    for line, color, label in zip(lines.T, colors, labels, strict=True):
        ax.plot(t, line, color=color, linewidth=1.5, label=label)
    ax.set(yticks=[], ylim=(0.0, 1.15 * max(np.sort(most)[-2], np.quantile(lines, 0.995))))


def how_many(ax: Axes, numbers: list[np.ndarray]) -> None:
    """The posterior of the number of features: of all, and of those that count."""
    ax.set_title("number of features", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    kinds = (ALL, "all"), (CHAINS[0], "in 3% of rows or more")
    for values, (color, label) in zip(numbers, kinds, strict=True):
        at, counts = np.unique(values, return_counts=True)
        ax.bar(at, counts / counts.sum(), 0.8, color=color, label=label, alpha=0.9)
    ax.legend(frameon=False, fontsize=8)
    ax.set_yticks([])
