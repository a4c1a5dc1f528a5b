"""Reed and Ghahramani (2013), "Scaling the Indian buffet process via submodular maximization":
their experiments, with `thali.MaximizationExpectation` beside the other engines and factorizations.

    figure 1  rows at their best             figure 4  held-out entries of real data, and a sampler
    figure 2  operations a row                         begun at the answer (meibp+aibp)
    figure 3  held-out entries over time     table 1   how the cost of an iteration grows
    figure_4_causes   centering, and Gaussian features for all

As in the paper: z ~ Bernoulli(0.4), binary features (of density 0.3, which the paper leaves open)
and unit noise; of the last half of the rows a fifth of the columns is hidden (a quarter in real
data; of faces, the lower half of five of each subject); α = 3, σ_x = σ_a = ¾ of the standard
deviation of the data; K features drawn from the finite prior to begin with, the same for every
engine; nonnegative features for maximization-expectation and uncollapsed Gibbs, Gaussian ones for
the others. Other than in the paper: hidden columns are drawn afresh for each row; data are neither
centered nor moved for the engines, since our nonnegative model takes entries of any sign; for the
factorizations they are moved to a least entry of 0, and these have a component more for that; the
density of hidden entries has σ_x for every method, so that what differs is what is predicted.
Beside them, in figure 3, stands maximization-expectation with the library's defaults. INMF
(`thali.evaluation.PowerEPNMF`, messages of power a half) is in figure 3, left, and table 1, and
left out after that, as in the paper: its messages take three numbers for each entry and feature,
which at the size of figure 3, right, are 120 GB. Beam search is left out.

Seconds are those of the fit, without compilation, and depend on the machine and what else it does.
Without --full all is smaller, about five minutes on two quiet cores; --full has the paper's sizes
and five repetitions, and takes hours. --quick is a smoke run. Figure 4 reads audio_vibeace_500x161,
mirflickr_tags and yaleb_ext_32x32 (.npz) from the folder that the variable THALI_DATA names;
without it, it is skipped.

    python reproductions/reed_ghahramani_2013.py [--out reed_ghahramani_2013] [--seed 0]
        [--quick | --full] [--only figure_1 figure_2 figure_3 figure_3_large figure_4 starts
        table_1 figure_4_causes] [--repeats 2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from presenting import Section, legend, log_axis, parser_of, table, write_report
from reed_ghahramani_2013_causes import figure_4_causes
from reed_ghahramani_2013_fits import (
    ALPHA,
    BUFFETS,
    INMF,
    METHODS,
    RACED,
    SAMPLERS,
    TRUNCATED,
    Point,
    Task,
    engine_of,
    evolution,
    panels,
    prior_of,
    warm_up,
)  # fmt: skip
from reed_ghahramani_2013_real import figure_4, starts, text_of
from reed_ghahramani_2013_rows import figure_1, figure_2
from threadpoolctl import threadpool_limits

import thali
from thali.data import Data
from thali.engines.ascent.state import iterate
from thali.evaluation import holdout
from thali.model import Model
from thali.plots import style
from thali.starts import Start

# Table 1: the order of an iteration.
PAPER_ORDERS = {
    "maximization-expectation": "N(K²D + K³ ln K)",
    "variational": "NK²D",
    "variational, finite": "NK²D",
    "collapsed Gibbs": "N(K² + KD)",
    "uncollapsed Gibbs": "NK²D",
    "INMF": "N(K³D + KD²)",
    "Bayesian NMF": "N(K² + KD)",
    "NMF of scikit-learn": "–",
}


# figure 3


def figure_3(options: argparse.Namespace) -> Section:
    n, d, k = (60, 40, 4) if options.quick else (500, 500, 20)
    budgets = (0.3, 0.6) if options.quick else (3.0, 8.0)
    if options.full:
        budgets = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    repeats = options.repeats or (1 if options.quick else 5 if options.full else 2)
    title, file = "Figure 3, left", "figure_3.png"
    return over_time(options, (n, d, k), budgets, repeats, title, file, INMF | TRUNCATED)


def figure_3_large(options: argparse.Namespace) -> Section:
    n, d, k = (100, 60, 5) if options.quick else (3000, 500, 30)
    budgets = (0.3, 0.6) if options.quick else (6.0,)
    repeats = 1
    if options.full:
        n, d, k, budgets, repeats = 100_000, 1000, 50, (600.0, 1200.0, 2400.0, 4800.0), 5
    repeats = options.repeats or repeats
    title, file = "Figure 3, right", "figure_3_large.png"
    return over_time(options, (n, d, k), budgets, repeats, title, file)


def over_time(
    options: argparse.Namespace, size: tuple[int, int, int], budgets: Sequence[float],
    repeats: int, title: str, file: str, more: Mapping[str, Any] = MappingProxyType({}),
) -> Section:  # fmt: skip
    n, d, k = size
    data = thali.datasets.noisy_nonnegative(n, d, k, random_state=options.seed)
    task = Task.of(holdout(data.X, 0.2, "last_half", options.seed))
    ideal = task.density((data.Z @ data.A)[task.test.where_hidden])
    methods = METHODS | dict(more) | (RACED if repeats > 1 or options.quick else {})
    warm_up(methods)
    seeds = range(options.seed, options.seed + repeats)
    found = {n: [evolution(task, n, k, seed, budgets) for seed in seeds] for n in methods}
    words = f"{size[0]}×{d}, K = {k}"
    figure, (ax,) = panels([words], 4.4)
    for name, method in methods.items():
        draw_evolution(ax, name, method, found[name])
    ax.axhline(ideal, color="0.6", linewidth=1, label="planted features")
    ends = {name: [points[-1] for points in each] for name, each in found.items()}
    low = min(np.mean([p.value for p in each]) for each in ends.values())
    ax.set_ylim(low - 0.4 * (ideal - low), ideal + 0.1 * (ideal - low))
    style.label(ax, "seconds", "mean test log likelihood")
    log_axis(ax, "x")
    legend(figure, ax, 3)
    lines = [
        f"{words} planted, {repeats} repetition(s) from other random starts. The last point of "
        f"each: it ended, or was cut at {budgets[-1]:g} s. At the planted features: {ideal:.3f}.",
        "", *table(["", "mean test log likelihood (s, features)", "spread"],
                   [[name, text_of(each), f"{np.std([p.value for p in each]):.3f}"]
                    for name, each in ends.items()]), "",
        *findings_3(ends),
    ]  # fmt: skip
    return Section(f"{title}. Held-out log likelihood over time", lines, {file: figure})


def draw_evolution(ax: Any, name: str, method: Any, found: list[list[Point]]) -> None:
    """A line for each repetition; a dot where it ended."""
    for i, points in enumerate(found):
        ax.plot([p.seconds for p in points], [p.value for p in points], method.dash,
                color=method.color, marker="." if len(points) > 1 else "D", markersize=5,
                linewidth=1.3,
                label=name if i == 0 else None)  # fmt: skip
        if points[-1].ended:
            ax.plot(*points[-1][:2], "o", color=method.color, markersize=6)


def findings_3(ends: dict[str, list[Point]]) -> list[str]:
    """What the last points say beside what the paper says."""
    value = {name: float(np.mean([p.value for p in each])) for name, each in ends.items()}
    order = ", ".join(sorted(value, key=lambda name: -value[name]))
    mine = value["maximization-expectation"]
    best = max(v for name, v in value.items() if "NMF" in name and name not in INMF)
    done = [name for name in BUFFETS if all(p.ended for p in ends[name])]
    first = min(done, key=lambda name: np.mean([p.seconds for p in ends[name]]), default="none")
    return [
        f"- Best to worst at the last point: {order}.",
        f"- Of the engines that end by themselves, first to end: {first} (the paper: "
        "maximization-expectation).",
        f"- Maximization-expectation against the better variational method: "
        f"{mine - max(value['variational'], value['variational, finite']):+.3f} an entry (the "
        "paper: above); against uncollapsed Gibbs: "
        f"{mine - value['uncollapsed Gibbs']:+.3f} (the paper: the same on the small data, above "
        f"on the large); against Bayesian NMF: {mine - value['Bayesian NMF']:+.3f} (the paper: "
        "above in the end); against collapsed Gibbs: "
        f"{mine - value['collapsed Gibbs']:+.3f}.",
        *(
            f"- Maximization-expectation against INMF: {mine - value[name]:+.3f} an entry, in "
            f"{seconds_of(ends, 'maximization-expectation') / seconds_of(ends, name):.2f} of its "
            "time (the paper: INMF took at least ten times as long as the others)."
            for name in INMF
            if name in value
        ),
        *(
            f"- With the library's defaults (raced start, scales and α inferred) "
            f"maximization-expectation ends {value[name] - mine:+.3f} an entry from where the "
            f"paper's settings led it, and {value[name] - best:+.3f} from the better factorization."
            for name in RACED
            if name in value
        ),
    ]  # fmt: skip


def seconds_of(ends: dict[str, list[Point]], name: str) -> float:
    return float(np.mean([p.seconds for p in ends[name]]))


# table 1


def seconds_of_iteration(name: str, n: int, d: int, k: int, times: int) -> float:
    """Processor seconds of an iteration near the planted features, the least of several."""
    data = thali.datasets.noisy_nonnegative(n, d, k, random_state=0)
    method = (METHODS | INMF)[name]
    if name not in BUFFETS:
        return seconds_of_factorization(method, data.X, k, times)
    rng = np.random.default_rng(1)
    model = Model(prior_of(method, k), method.likelihood(1.0, 0.55))
    table, engine = Data.of(data.X), engine_of(method, k, "prior")
    if name not in SAMPLERS:
        engine = engine.replace(n_init=2)  # of one restart, blocks of rows are on threads
    wrong = data.Z ^ (rng.random(data.Z.shape) < 0.05)
    took = []
    for _ in range(times + 1):  # the first compiles
        state = engine.begin(rng, model, table, Start("near", wrong, model.start(table)))
        began = time.process_time()
        if name in SAMPLERS:
            engine.step(rng, model, table, state)
        else:
            iterate(state, 1)
        took.append(time.process_time() - began)
    return min(took[1:])


def seconds_of_factorization(method: Any, X: np.ndarray, k: int, times: int) -> float:
    """The difference of a long fit and a short one, by their iterations."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    X = X - X.min()
    filled = method.engine is METHODS["NMF of scikit-learn"].engine

    def fit(iterations: int) -> float:
        limits = ({"max_iter": iterations, "tol": 0.0, "init": "random"} if filled
                  else {"max_iter": iterations, "tol": 1e-300})  # fmt: skip
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            method.engine(k, random_state=0, **limits).fit(X)
        return time.process_time() - began

    short, long = (min(fit(count) for _ in range(times)) for count in (2, 12))
    return max(long - short, 1e-6) / 10.0


def table_1(options: argparse.Namespace) -> Section:
    base = {"N": 60, "D": 20, "K": 4} if options.quick else {"N": 1000, "D": 200, "K": 20}
    factors, times = ((1, 2), 1) if options.quick else ((1, 2, 4), 3)
    if options.full:
        base = {"N": 5000, "D": 500, "K": 20}
    rows = []
    with threadpool_limits(limits=1, user_api="blas"):
        for name in METHODS | INMF:
            first, slopes = 0.0, []
            for which in base:
                took = [seconds_of_iteration(name, *({**base, which: f * base[which]}).values(),
                                             times) for f in factors]  # fmt: skip
                first = took[0]
                slopes.append(float(np.polyfit(np.log(factors), np.log(took), 1)[0]))
            rows.append([name, PAPER_ORDERS[name], f"{1e3 * first:.2f}",
                         *(f"{s:.2f}" for s in slopes)])  # fmt: skip
    sizes = ", ".join(f"{which} = {value}" for which, value in base.items())
    lines = [
        f"Processor time of an iteration at {sizes}, complete data, near the planted features, and "
        f"the exponents fitted when each is multiplied by {', '.join(map(str, factors))} and the "
        "others stay.", "",
        *table(["", "order in the paper", "ms", "N", "D", "K"], rows), "",
        "- Exponents of sums lie between those of their terms, and what is done once an iteration "
        "(features, scales) lowers that of N. The paper has K²D for maximization-expectation, the "
        "variational methods and uncollapsed Gibbs; ours read the data in two products with K "
        "columns, KD a row, and then need K² a row or less: the same answers for less.",
    ]  # fmt: skip
    return Section("Table 1. The cost of an iteration", lines, {})


CAUTION = (
    "Seconds were measured once, on a machine that may have had other work, and small differences "
    "between few repetitions can turn with another seed."
)
PARTS: dict[str, Callable[[argparse.Namespace], Section]] = {
    part.__name__: part
    for part in (
        figure_1,
        figure_2,
        figure_3,
        figure_3_large,
        figure_4,
        starts,
        table_1,
        figure_4_causes,
    )
}


def main() -> None:
    parser = parser_of("reed_ghahramani_2013", __doc__, PARTS, "the paper's sizes: hours")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--repeats", type=int, help="of figure 3 (2; with --full 5)")
    options = parser.parse_args()
    write_report("Reed and Ghahramani (2013)", PARTS, options, f"α = {ALPHA:g}. {CAUTION}")


if __name__ == "__main__":
    main()
