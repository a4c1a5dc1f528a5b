"""What the reproductions share: reading outside data, tables, figures, parts of a report."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

__all__ = [
    "Section",
    "Skipped",
    "legend",
    "log_axis",
    "panels",
    "parser_of",
    "read",
    "table",
    "write_report",
]


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


def parser_of(out: str, says: str, parts: Iterable[str], full: str) -> argparse.ArgumentParser:
    """The options that every reproduction has; ``full`` says what its --full is."""
    parser = argparse.ArgumentParser(description=says.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    return parser


def write_report(
    title: str,
    parts: Mapping[str, Callable[[argparse.Namespace], Section]],
    options: argparse.Namespace,
    caution: str,
) -> None:
    """Make the parts that are asked for, print them, and write summary.md with its pictures."""
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    text = [f"# {title}, reproduced"]
    for name in options.only:
        at = time.perf_counter()
        section = parts[name](options)
        lines = [*section.lines, "", f"({time.perf_counter() - at:.0f} s)"]
        text += ["", f"## {section.title}", "", *lines]
        for file, figure in section.pictures.items():
            figure.savefig(options.out / file, dpi=150)
            text += ["", f"![{section.title}]({file})"]
        print("\n".join(["", section.title, "", *lines]), flush=True)
    took = time.perf_counter() - began
    text += ["", f"Seed {options.seed}; {took:.0f} s in all. {caution}"]
    (options.out / "summary.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    print(f"\nWritten: {options.out / 'summary.md'}, after {took:.0f} s.")
