"""Doshi-Velez, Miller, Van Gael and Teh (2009), "Variational inference for the Indian buffet
process": their experiments, with `thali.Variational` beside the samplers.

    figure 2  the truncation's error and its bound       figure 4  time against the truncation K
    figure 3  held-out log likelihood against time       figure 5  time against log likelihood
    table 1   faces                                      table 2   speech, ten microphones

As in the paper: a third of the columns, drawn afresh for each row, is hidden in the last half of
the rows; synthetic data come from the truncated stick-breaking prior; α and the scales are given,
from the truth for synthetic data (the paper does not say) and, for speech, from an initial run of
the Gibbs sampler (the scales only). Other than in the paper: the scales of faces are inferred;
every fit is made from a random start, as there, and from the library's raced start, since the start
decides; only `CollapsedGibbs` and `Variational` could be tempered, so nothing is. The particle
filters are left out: `ParticleFilter` takes no missing entries, and complete rows would be another
test.

Without --full all is smaller, two to three minutes on two cores: 100×100 with 10 features in
figure 3, a coarse grid, faces of 8×8 pixels and no K = 25. --full has the paper's sizes and takes
hours. Faces and speech are read from the folder that the variable THALI_DATA names
(yaleb_ext_32x32.npz, speech_cmuarctic_5src.npz); without it the tables are skipped.

    python reproductions/doshi_velez_2009.py [--out doshi_velez_2009] [--seed 0] [--full]
        [--only figure_2 figure_3 figures_4_5 table_1 table_2] [--repeats 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from doshi_velez_2009_fits import (
    METHODS,
    STARTS,
    VARIATIONAL,
    Fit,
    Method,
    Task,
    fit,
    warm_up,
)  # fmt: skip
from doshi_velez_2009_tables import table_1, table_2
from matplotlib.axes import Axes
from presenting import Section, legend, log_axis, panels, parser_of, table, write_report

import thali
from thali import plots
from thali.evaluation import holdout

ALPHA, SIGMA_X, SIGMA_A = 5.0, 0.5, 1.0  # of the synthetic data; the paper does not give its own


def planted(n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X = Z A + noise with Z of the truncated stick-breaking prior, and its mean Z A."""
    rng = np.random.default_rng(seed)
    pi = np.cumprod(rng.beta(ALPHA, 1.0, k))
    mean = (rng.random((n, k)) < pi) @ (SIGMA_A * rng.standard_normal((k, d)))
    return mean + SIGMA_X * rng.standard_normal((n, d)), mean


def synthetic(n: int, d: int, k: int, seed: int) -> tuple[Task, float]:
    """Held-out data of this size, and the mean log density at the planted features."""
    X, mean = planted(n, d, k, seed)
    test = holdout(X, 1 / 3, "last_half", random_state=seed)
    z = (test.values - mean[test.where_hidden]) / SIGMA_X
    best = float(np.mean(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi * SIGMA_X**2)))
    return Task(test, thali.LinearGaussian(SIGMA_X, SIGMA_A), ALPHA), best


# figure 2


def figure_2(options: argparse.Namespace) -> Section:
    n, alpha = 30, 5.0
    prior = thali.IBP(alpha)

    def below(error: Callable[[int, int], float], chance: float) -> int:
        return next(k for k in range(1, 1000) if error(n, k) < chance)

    lines = [f"N = {n}, α = {alpha:g}."]
    for chance in (0.5, 0.01):
        promised = below(prior.truncation_bound, chance)
        true = below(prior.truncation_error, chance)
        lines.append(
            f"- The chance of a feature beyond K falls below {chance:g} at K = {true}; the bound "
            f"of equation 6 promises that from K = {promised} on."
        )
    ax = plots.truncation(n, alpha, random_state=options.seed)
    return Section("Figure 2. The truncation's error", lines, {"figure_2.png": ax.figure})


# figure 3


def figure_3(options: argparse.Namespace) -> Section:
    side, k, budgets = (500, 20, (8, 16, 32, 64)) if options.full else (100, 10, (0.5, 1, 2))
    task, best = synthetic(side, side, k, options.seed)
    warm_up(task, METHODS)
    seeds = range(options.seed, options.seed + options.repeats)
    found: dict[tuple[str, str], list[list[Fit]]] = {}
    for start in STARTS:
        for name in METHODS:
            fits = [[fit(task, name, k, start, seed, budget=b) for seed in seeds] for b in budgets]
            found[start, name] = fits
    figure, axes = panels(len(STARTS))
    for ax, (start, words) in zip(axes, STARTS.items(), strict=True):
        for name, method in METHODS.items():
            draw_evolution(ax, method, name, found[start, name])
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
    lines = [
        f"{side}×{side}, {k} features planted, two chains or restarts each; fits with the "
        f"same seed that end after {', '.join(f'{b:g}' for b in budgets)} s, drawn at the seconds "
        "they took: a fit ends with the step it is in, and a race is not cut within one; "
        "a line that stays at one place had converged. "
        f"{options.repeats} repetition(s). At the planted features: {best:.3f}.", "",
        *table(["mean test log likelihood (s, K)", *STARTS.values()], cells), "",
        *findings_3(last),
        "The particle filters of the paper are left out: `ParticleFilter` takes no missing "
        "entries, and a fit to complete rows would be another test.",
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


def figures_4_5(options: argparse.Namespace) -> Section:
    sizes = (5, 10, 50, 100, 500, 1000) if options.full else (10, 50, 100)
    truncations = (5, 10, 15, 20, 25) if options.full else (5, 10)
    shown = 20 if options.full else 10
    sweeps, chains, budget = (1000, 3, 120.0) if options.full else (100, 2, 10.0)
    tasks = {(n, d): synthetic(n, d, shown, options.seed)[0] for n in sizes for d in sizes}
    warm_up(tasks[sizes[-1], sizes[-1]], GRID)
    found = {
        (name, n, d, k): fit(
            tasks[n, d], name, k, "prior", options.seed,
            sweeps=sweeps, chains=chains, tol=1e-4, budget=budget,
        )
        for name in GRID for n in sizes for d in sizes for k in truncations
    }  # fmt: skip

    def seconds(name: str, k: int) -> float:
        return float(np.exp(np.mean([np.log(found[name, *nd, k].seconds) for nd in tasks])))

    times, (ax,) = panels(1)
    for name in GRID:
        line = [seconds(name, k) for k in truncations]
        color, dash = METHODS[name].color, METHODS[name].dash
        ax.plot(truncations, line, dash, color=color, marker="o", markersize=4, label=name)
    ax.set(xlabel="K, the truncation", ylabel="seconds, geometric mean over N and D")
    log_axis(ax, "y")
    ax.set_xticks(truncations)
    legend(times, ax, 2)
    interplay, axes = panels(2)
    for ax, n in zip(axes, (sizes[0], sizes[-1]), strict=True):
        for name in GRID:
            fits = [found[name, n, d, shown] for d in sizes]
            x, y = [f.seconds for f in fits], [f.value for f in fits]
            color, dash = METHODS[name].color, METHODS[name].dash
            ax.plot(x, y, dash, color=color, marker="o", markersize=3, label=name)
            ax.plot(x[:1], y[:1], "o", color=color, markersize=9)
        words = f"N = {n}, K = {shown}"
        ax.set(title=words, xlabel="seconds", ylabel="mean test log likelihood")
        log_axis(ax, "x")
    legend(interplay, axes[0])
    cut = sum(f.cut for f in found.values())
    lines = [
        f"N and D of {', '.join(map(str, sizes))}; {shown} features planted, random start; "
        f"samplers of K features with {chains} chains of {sweeps} sweeps; variational ones end at "
        f"a gain below 1e-4 of the bound. {cut} of {len(found)} fits were cut at {budget:g} s.", "",
        *table(["seconds, geometric mean", *(f"K = {k}" for k in truncations)],
               [[name, *(f"{seconds(name, k):.3f}" for k in truncations)] for name in GRID]), "",
        *findings_5(found, sizes, shown),
        "In figure 5 the large dot is the smallest D, those after it larger ones.",
    ]  # fmt: skip
    pictures = {"figure_4.png": times, "figure_5.png": interplay}
    return Section("Figures 4 and 5. Time, truncation and log likelihood", lines, pictures)


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
PARTS = {part.__name__: part for part in (figure_2, figure_3, figures_4_5, table_1, table_2)}


def main() -> None:
    parser = parser_of("doshi_velez_2009", __doc__, PARTS, "the paper's sizes: hours")
    parser.add_argument("--repeats", type=int, help="of figure 3 (1; with --full 5)")
    options = parser.parse_args()
    if options.repeats is None:
        options.repeats = 5 if options.full else 1
    write_report("Doshi-Velez and others (2009)", PARTS, options, CAUTION)


if __name__ == "__main__":
    main()
