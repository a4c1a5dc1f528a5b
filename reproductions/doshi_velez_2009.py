"""Doshi-Velez, Miller, Van Gael and Teh (2009), "Variational inference for the Indian buffet
process": their experiments, with `thali.Variational` beside the samplers.

    figure 2  the truncation's error and its bound       figure 4  time against the truncation K
    figure 3  held-out log likelihood against time       figure 5  time against log likelihood
    table 1   faces                                      table 2   speech, ten microphones
    figures_causes, table_1_causes   what has to be changed for what the paper found

As in the paper: a third of the columns, drawn afresh for each row, is hidden in the last half of
the rows; synthetic data come from the truncated stick-breaking prior; α and the scales are given,
from the truth for synthetic data (the paper does not say) and, for speech, from an initial run of
the Gibbs sampler (the scales only). Other than in the paper: the scales of faces are inferred;
every fit is made from a random start, as there, and from what the library does by itself (a raced
start; for speech, where nothing is raced, a sparse ICA), since the start decides; the particle
filter has no start, proposes bits given the row where theirs draws them from the prior, and looks
at rows again; nothing is tempered but in figures_causes.

Without --full all is smaller, some minutes on two quiet cores: 100×100 with 10 features in figure
3, a coarse grid, faces of 8×8 pixels and no K = 25. --full has the paper's sizes and takes hours.
--quick is a smoke run. Faces and speech are read from the folder that the variable THALI_DATA names
(yaleb_ext_32x32.npz, speech_cmuarctic_5src.npz); without it the tables are skipped.

    python reproductions/doshi_velez_2009.py [--out doshi_velez_2009] [--seed 0]
        [--quick | --full] [--only figure_2 figure_3 figures_4_5 table_1 table_2
        figures_causes table_1_causes] [--repeats 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from doshi_velez_2009_causes import figures_causes, table_1_causes
from doshi_velez_2009_fits import (
    FILTERS,
    METHODS,
    STARTS,
    VARIATIONAL,
    Fit,
    Method,
    fit,
    fit_filter,
    synthetic,
    warm_up,
)  # fmt: skip
from doshi_velez_2009_tables import table_1, table_2
from doshi_velez_2009_truncation import figure_2
from matplotlib.axes import Axes
from presenting import Section, legend, log_axis, panels, parser_of, table, write_report

# figure 3


def figure_3(options: argparse.Namespace) -> Section:
    side, k, budgets = (500, 20, (8, 16, 32, 64)) if options.full else (100, 10, (0.5, 1, 2))
    if options.quick:
        side, k, budgets = 24, 3, (0.1, 0.2)
    task, best = synthetic(side, side, k, options.seed)
    warm_up(task, METHODS)
    fit_filter(task, 2, 0, 5.0)  # likewise
    seeds = range(options.seed, options.seed + options.repeats)
    found: dict[tuple[str, str], list[list[Fit]]] = {}
    for start in STARTS:
        for name in METHODS:
            fits = [[fit(task, name, k, start, seed, budget=b) for seed in seeds] for b in budgets]
            found[start, name] = fits
    filters = {
        name: [fit_filter(task, count, seed, 20 * budgets[-1]) for seed in seeds]
        for name, count in FILTERS.items()
    }
    figure, axes = panels(len(STARTS))
    for ax, (start, words) in zip(axes, STARTS.items(), strict=True):
        for name, method in METHODS.items():
            draw_evolution(ax, method, name, found[start, name])
        for (name, fits), mark in zip(filters.items(), "v^", strict=True):
            x, y = ([f[i] for f in fits] for i in (0, 1))
            ax.plot(x, y, mark, color="#c2609a", markersize=6, label=name)
        ax.axhline(best, color="0.6", linewidth=1, label="planted features")
        ax.set(title=words, xlabel="seconds", ylabel="mean test log likelihood")
        log_axis(ax, "x")
    low = min(np.mean([f.value for f in fits[-1]]) for fits in found.values())
    room = best - low
    for ax in axes:  # what the first seconds of the slowest do must not hide the rest
        ax.set_ylim(low - 0.3 * room, best + 0.1 * room)
    legend(figure, axes[0])
    last = {key: fits[-1] for key, fits in found.items()}
    cells = [[name, *(text_of(last[start, name]) for start in STARTS)] for name in METHODS]
    cells += [[name, text_of(fits), "–"] for name, fits in filters.items()]
    lines = [
        f"{side}×{side}, {k} features planted, two chains or restarts each; fits with the "
        f"same seed that end after {', '.join(f'{b:g}' for b in budgets)} s, drawn at the seconds "
        "they took: a fit ends with the step it is in, and a race is not cut within one; "
        "a line that stays at one place had converged. "
        f"{options.repeats} repetition(s). At the planted features: {best:.3f}.", "",
        *table(["mean test log likelihood (s, K)", *STARTS.values()], cells), "",
        *findings_3(last),
        "A particle filter says nothing before its last row, so that it has a point and no line "
        "(as in the paper); it is cut after twenty times the longest of those seconds.",
    ]  # fmt: skip
    return Section("Figure 3. Held-out log likelihood over time", lines, {"figure_3.png": figure})


def draw_evolution(ax: Axes, method: Method, name: str, fits: list[list[Fit]]) -> None:
    seconds = [np.mean([f.seconds for f in each]) for each in fits]
    values = np.array([[f.value for f in each] for each in fits])
    mean = values.mean(axis=1)
    spread = np.array([mean - values.min(axis=1), values.max(axis=1) - mean])
    bars = spread if values.shape[1] > 1 else None
    ax.errorbar(
        seconds, mean, bars, color=method.color, linestyle=method.dash, marker="o",
        markersize=3, linewidth=1.4, capsize=2, label=name,
    )  # fmt: skip


def text_of(fits: list[Fit]) -> str:
    value, seconds = (np.mean([f[i] for f in fits]) for i in (1, 0))
    return f"{value:.3f} ({seconds:.1f}, {np.mean([f.n_components for f in fits]):.0f})"


def findings_3(last: dict[tuple[str, str], list[Fit]]) -> list[str]:
    """What the last points say, start by start, and what the start was worth."""
    lines = []
    for start, words in STARTS.items():
        at = {name: float(np.mean([f.value for f in last[start, name]])) for name in METHODS}
        order = sorted(at, key=lambda name: -at[name])
        soft, hard = max(at[n] for n in VARIATIONAL), at["finite uncollapsed Gibbs"]
        lines.append(
            f"- From a {words}, best to worst at the last point: {', '.join(order)}. Finite "
            f"uncollapsed Gibbs ends {abs(soft - hard):.3f} {'below' if hard < soft else 'above'} "
            f"the better variational method (in the paper: below)."
        )
    gains = {n: np.mean([f.value for f in last["race", n]])
             - np.mean([f.value for f in last["prior", n]]) for n in METHODS}  # fmt: skip
    most = max(gains, key=lambda name: gains[name])
    lines.append(
        f"- The raced start is worth {min(gains.values()):+.3f} to {max(gains.values()):+.3f} an "
        f"entry, the most to {most}."
    )
    return [*lines, ""]


# figures 4 and 5

GRID = ("infinite variational", "finite variational", "finite uncollapsed Gibbs",
        "finite collapsed Gibbs")  # fmt: skip
UNBOUNDED = ("uncollapsed Gibbs", "collapsed Gibbs")  # they and the filter know no truncation
FILTER = "particle filter"
SIMPLE = [*GRID, *UNBOUNDED, FILTER]


class Grid(NamedTuple):
    """The sizes of figures 4 and 5, and how long the fits are."""

    sizes: tuple[int, ...]
    truncations: tuple[int, ...]
    shown: int
    sweeps: int
    chains: int
    particles: int
    budget: float


def grid_of(options: argparse.Namespace) -> Grid:
    if options.full:
        sizes = 5, 10, 50, 100, 500, 1000
        return Grid(sizes, (5, 10, 15, 20, 25), 20, 1000, 3, 500, 120.0)
    if options.quick:
        return Grid((6, 12), (2, 3), 3, 5, 1, 10, 2.0)
    return Grid((10, 100), (5, 10), 10, 100, 2, 100, 10.0)


def figures_4_5(options: argparse.Namespace) -> Section:
    grid = grid_of(options)
    sizes, truncations, shown = grid.sizes, grid.truncations, grid.shown
    tasks = {(n, d): synthetic(n, d, shown, options.seed)[0] for n in sizes for d in sizes}
    warm_up(tasks[sizes[-1], sizes[-1]], [*GRID, *UNBOUNDED])
    fit_filter(tasks[sizes[-1], sizes[-1]], 2, 0, 5.0)  # compiles, or loads
    own: dict[str, Any] = {"sweeps": grid.sweeps, "chains": grid.chains, "tol": 1e-4}
    found = {
        (name, n, d, k): fit(
            tasks[n, d], name, k, "prior", options.seed, budget=grid.budget, **own
        )
        for name in GRID for n in sizes for d in sizes for k in truncations
    }  # fmt: skip
    for nd, task in tasks.items():
        for name in UNBOUNDED:
            one = fit(task, name, 0, "prior", options.seed, budget=grid.budget, **own)
            found |= {(name, *nd, k): one for k in truncations}
        one = fit_filter(task, grid.particles, options.seed, grid.budget)
        found |= {(FILTER, *nd, k): one for k in truncations}

    def seconds(name: str, k: int) -> float:
        return float(np.exp(np.mean([np.log(found[name, *nd, k].seconds) for nd in tasks])))

    times, (ax,) = panels(1)
    for name in SIMPLE:
        line = [seconds(name, k) for k in truncations]
        ax.plot(truncations, line, marker="o", markersize=4, label=name, **look(name))
    ax.set(xlabel="K, the truncation", ylabel="seconds, geometric mean over N and D")
    log_axis(ax, "y")
    ax.set_xticks(truncations)
    legend(times, ax, 2)
    interplay, axes = panels(2)
    for ax, n in zip(axes, (sizes[0], sizes[-1]), strict=True):
        for name in SIMPLE:
            fits = [found[name, n, d, shown] for d in sizes]
            x, y = [f.seconds for f in fits], [f.value for f in fits]
            ax.plot(x, y, marker="o", markersize=3, label=name, **look(name))
            ax.plot(x[:1], y[:1], "o", color=look(name)["color"], markersize=9)
        words = f"N = {n}, K = {shown}"
        ax.set(title=words, xlabel="seconds", ylabel="mean test log likelihood")
        log_axis(ax, "x")
    legend(interplay, axes[0])
    cut = {name: sum(found[name, *nd, k].cut for nd in tasks for k in truncations)
           for name in SIMPLE}  # fmt: skip
    lines = [
        f"N and D of {', '.join(map(str, sizes))}; {shown} features planted, random start; "
        f"samplers with {grid.chains} chains of {grid.sweeps} sweeps; {grid.particles} particles; "
        f"variational ones end at a gain below 1e-4 of the bound. {sum(cut.values())} of "
        f"{len(found)} fits were cut at {grid.budget:g} s ("
        + (", ".join(f"{name} {count}" for name, count in cut.items() if count) or "none")
        + "). What knows no truncation was fitted once.", "",
        *table(["seconds, geometric mean", *(f"K = {k}" for k in truncations)],
               [[name, *(f"{seconds(name, k):.3f}" for k in truncations)] for name in SIMPLE]), "",
        *table(
            [f"mean test log likelihood (s), K = {shown}",
             *(f"N = {n}, D = {d}" for n in (sizes[0], sizes[-1]) for d in sizes)],
            [[name, *(f"{found[name, n, d, shown].value:.3f} "
                      f"({found[name, n, d, shown].seconds:.2f})"
                      for n in (sizes[0], sizes[-1]) for d in sizes)] for name in SIMPLE],
        ), "",
        *findings_5(found, sizes, shown),
        "In figure 5 the large dot is the smallest D, those after it larger ones.",
    ]  # fmt: skip
    pictures = {"figure_4.png": times, "figure_5.png": interplay}
    return Section("Figures 4 and 5. Time, truncation and log likelihood", lines, pictures)


def look(name: str) -> dict[str, str]:
    if name == FILTER:
        return {"color": "#c2609a", "linestyle": "-"}
    return {"color": METHODS[name].color, "linestyle": METHODS[name].dash}


def findings_5(found: dict[Any, Fit], sizes: Sequence[int], k: int) -> list[str]:
    """Soft against hard assignments, at the least and the most rows."""
    lines = []
    for n in (sizes[0], sizes[-1]):

        def mean(names: Iterable[str], at: int, n: int = n) -> float:
            return float(np.mean([found[name, n, d, k][at] for name in names for d in sizes]))

        hard = [name for name in GRID if name not in VARIATIONAL]
        less = mean(VARIATIONAL, 1) - mean(hard, 1)
        lines.append(
            f"- N = {n}: over all D the variational methods are {abs(less):.3f} an entry "
            f"{'below' if less < 0 else 'above'} the samplers (in the paper: "
            f"{'below for 5 rows' if n == sizes[0] else 'comparable for 1000 rows'}), and take "
            f"{mean(VARIATIONAL, 0) / mean(hard, 0):.2f} times their seconds."
        )
    return [*lines, ""]


CAUTION = (
    "Where a fit was made once, no spread was measured: another seed can turn small differences."
)
PARTS = {
    "figure_2": figure_2,
    "figure_3": figure_3,
    "figures_4_5": figures_4_5,
    "table_1": table_1,
    "table_2": table_2,
    "figures_causes": figures_causes,
    "table_1_causes": table_1_causes,
}


def main() -> None:
    parser = parser_of("doshi_velez_2009", __doc__, PARTS, "the paper's sizes: hours")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--repeats", type=int, help="of figure 3 (1; with --full 5)")
    options = parser.parse_args()
    if options.repeats is None:
        options.repeats = 5 if options.full else 1
    write_report("Doshi-Velez and others (2009)", PARTS, options, CAUTION)


if __name__ == "__main__":
    main()
