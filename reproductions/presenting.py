"""What the reproductions share: reading outside data, tables, figures, parts of a report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

__all__ = ["Section", "Skipped", "legend", "log_axis", "panels", "read", "table"]


class Section(NamedTuple):
    """A part of the report: its title, its lines of Markdown, and pictures by file name."""

    title: str
    lines: list[str]
    pictures: dict[str, Figure]


class Skipped(Exception):
    """Says in one sentence which data are not there and why."""


def read(file: str) -> dict[str, np.ndarray]:
    """The arrays of a file in the folder that THALI_DATA names."""
    folder = os.environ.get("THALI_DATA")
    if not folder:
        raise Skipped(f"Skipped: THALI_DATA is not set (the folder with {file}).")
    path = Path(folder) / file
    if not path.is_file():
        raise Skipped(f"Skipped: the folder in THALI_DATA has no {file}.")
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table in Markdown, numbers to the right."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return [
        "| " + " | ".join(head) + " |",
        rule,
        *("| " + " | ".join(map(str, row)) + " |" for row in rows),
    ]


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side, and room for one legend below."""
    figure = Figure(figsize=(4.6 * count, 4.1), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def log_axis(ax: Axes, which: str, subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """A logarithmic axis with plain numbers, at 1, 2 and 5 if not told otherwise."""
    ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, ax: Axes, columns: int = 3) -> None:
    """One legend for all panels, below them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )
