"""Expected numbers of things by their size, from 1 to n: a prior's line and a posterior's dots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DOTS = 300
LEAST_SPAN = 0.5  # of potentials: less is rounding, or as good as nothing


def draw(ax: Axes, prior: np.ndarray | None, posterior: np.ndarray) -> None:
    """E[m_i] before and after the data, i = 1 … n, on logarithmic axes; one of them has to be > 0.

    More than ``MOST_DOTS`` dots are thinned to means over neighbors.
    """
    n = len(posterior)
    i, dots = _thinned(posterior, MOST_DOTS)
    known = dots if len(dots) or prior is None else prior[prior > 0.0]
    least = float(known.min())
    low, high = least / 3, float(known.max())
    if prior is not None:
        middle = np.median(prior[prior > 0.0]) if prior.any() else 0.0
        low = float(np.clip(middle, least / 1e3, least)) / 3
        some = prior > low / 1e3
        ax.plot(
            np.arange(1, n + 1)[some], prior[some], color=style.BLUE, linewidth=1.6,
            marker="o" if n <= 2 else None,
        )  # fmt: skip
        high = max(high, float(prior[some].max(initial=low)))
    ax.vlines(i, low, dots, color=style.VERMILLION, linewidth=0.8, alpha=0.3)
    ax.plot(i, dots, "o", color=style.VERMILLION, markersize=3.4, markeredgewidth=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(low, 2.2 * high)
    ax.set_xlim(0.85, 1.18 * n)
    plain_sizes(ax, n)
    _plain_numbers(ax, np.log10(2.2 * high / low))


def draw_potentials(ax: Axes, own: np.ndarray, mass: float) -> None:
    """Potentials of sizes 1 … n, and the same of a process, whose are log α at every size."""
    n = len(own)
    ax.plot(
        np.arange(1, n + 1), np.where(np.isfinite(own), own, np.nan), color=style.BLUE,
        linewidth=1.6, marker="o" if n <= 40 else None, markersize=3.4,
    )  # fmt: skip
    ax.plot(
        [1, max(n, 2)], [np.log(mass)] * 2, color=style.VERMILLION, linewidth=1.2, linestyle="--"
    )
    ax.set_xscale("log")
    ax.set_xlim(0.85, 1.18 * n)
    ends = np.append(own[np.isfinite(own)], np.log(mass))
    room = max(0.15 * float(np.ptp(ends)), 0.5 * (LEAST_SPAN - float(np.ptp(ends))))
    ax.set_ylim(ends.min() - room, ends.max() + room)
    plain_sizes(ax, n)


def gaps(own: np.ndarray) -> str:
    """How many sizes there never are, for the end of a label."""
    never = int((~np.isfinite(own)).sum())
    return f"; none of {never:,} sizes" if never else ""


def _thinned(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Places from 1 on and values of those above 0; of too many, means of ever wider blocks.

    >>> _thinned(np.array([0.5, 0.0, 2.0]), 2)[0].tolist()
    [1.0, 3.0]
    """
    n = len(values)
    starts = np.arange(1, n + 1)
    if np.count_nonzero(values) > most:
        starts = np.unique(np.geomspace(1, n + 1, most + 1).round().astype(int))[:-1]
    ends = np.append(starts[1:], n + 1)
    means = np.add.reduceat(values, starts - 1) / (ends - starts)
    seen = means > 0.0
    return np.sqrt(starts * (ends - 1.0))[seen], means[seen]


def plain_sizes(ax: Axes, n: int) -> None:
    """Sizes as people write them: 1, 10, 100, and the largest where it is far from these."""
    from matplotlib.ticker import NullFormatter

    powers = [10**p for p in range(12) if 10**p <= n]
    ticks = powers if n < 2.5 * powers[-1] else [*powers, n]
    if n < 10:
        ticks = list(range(1, n + 1))
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.xaxis.set_minor_formatter(NullFormatter())


def _plain_numbers(ax: Axes, decades: float) -> None:
    """Expected numbers without powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    subs = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6 * len(subs)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
