"""Figure 3 of Rai and Daumé III (2011): Gibbs sampling from the search's answer; see
`rai_daume_2011.py`."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from presenting import Section, Skipped, legend, log_axis, panels
from rai_daume_2011_fits import (
    Task,
    alone,
    ecoli,
    fit_engine,
    synthetic,
    warm_up,
)  # fmt: skip

import thali
from thali.data import Data
from thali.registry import STARTS
from thali.starts import given_start


def figure_3(options: argparse.Namespace) -> Section:
    warm_up()
    tasks = {"synthetic, 200×100": synthetic(options.seed, 50 if options.quick else 200)}
    if options.quick:
        tasks = {"synthetic, 50×100": tasks.popitem()[1]}
    lines = [
        "Chains of Gibbs sampling from the answer of the inadmissible search, polished, and from a "
        "draw of the prior: log P(X, Z) at every sweep against the time since the search, or the "
        "chain, began.", "",
    ]  # fmt: skip
    try:
        tasks["E. coli, 50×100"] = ecoli(options.seed)
    except Skipped as reason:
        lines += [f"E. coli. {reason}", ""]
    seconds = 0.5 if options.quick else 10.0 if options.full else 3.0
    figure, axes = panels(len(tasks))
    samplers = {
        "uncollapsed": (thali.UncollapsedGibbs(sweeps=1, chains=1), "#2078b4", 3.5),
        "collapsed": (thali.CollapsedGibbs(sweeps=1, chains=1, moves=0), "#d55e00", 1.4),
    }
    for ax, (kind, task) in zip(axes, tasks.items(), strict=True):
        search = fit_engine(task, alone("inadmissible", 10, polish=True), options.seed)
        for name, (sampler, color, wide) in samplers.items():
            walk(task, sampler, None, 0.2, options.seed)  # compiles, or loads
            warm = walk(task, sampler, search.model.Z_, seconds, options.seed)
            cold = walk(task, sampler, None, seconds, options.seed)
            warm = warm[0] + search.seconds, warm[1]
            ax.plot(*warm, "-", color=color, linewidth=wide, label=f"{name}, from the search")
            ax.plot(*cold, ":", color=color, linewidth=1.4, label=f"{name}, from the prior")
            lines.append(f"- {kind}, {name}. {ahead(warm, cold, search.seconds)}")
        ax.axvline(search.seconds, color="0.6", linewidth=1)
        ax.set(title=kind, xlabel="seconds, the search counted in", ylabel="log P(X, Z)")
        log_axis(ax, "x")
    legend(figure, axes[0], 2)
    lines += ["", "The gray line is the end of the search."]
    return Section("Figure 3. The answer as a start", lines, {"figure_3.png": figure})


Walk = tuple[np.ndarray, np.ndarray]


def walk(task: Task, sampler: Any, Z: np.ndarray | None, seconds: float, seed: int) -> Walk:
    """The log joint after every sweep, and the seconds it took to get there."""
    data = Data.of(task.X)
    model = task.model.resolve(data)
    rng = np.random.default_rng(seed)
    began = time.perf_counter()
    start = STARTS["prior"](rng, model, data) if Z is None else given_start(Z, model, data)
    state = sampler.begin(rng, model, data, start)
    times, values = [], []
    while not times or times[-1] < seconds:
        info = sampler.step(rng, model, data, state)
        times.append(time.perf_counter() - began)
        values.append(info.log_joint)
    return np.array(times), np.array(values)


def ahead(warm: Walk, cold: Walk, searched: float) -> str:
    """Whether the chain from the search is ahead whenever both have come to a sweep."""
    both = cold[0] >= warm[0][0]
    level = np.maximum.accumulate(warm[1])[np.searchsorted(warm[0], cold[0][both], "right") - 1]
    best = np.maximum.accumulate(cold[1])[both]
    behind = best > level + 1e-6
    words = (
        "The chain from the search is ahead or level at every sweep of the other since then"
        if not behind.any()
        else f"The other is ahead at {100 * behind.mean():.1f}% of its sweeps since then, the "
        f"first at {cold[0][both][behind][0]:.2f} s"
    )
    return (
        f"The search took {searched:.2f} s. {words} (the highest log joint so far of each). "
        f"In the end {warm[1].max():.0f} and {cold[1].max():.0f}."
    )
