"""Welling, Porteous and Kurihara (2012), "Flexible priors for infinite mixture models": figure 5.

How fast the number of features K is forgotten in noisy-or models (ε = .01, λ = .9, p = .1), by the
Gibbs sampler of the Indian buffet process and by single Metropolis moves (algorithm 2), which any
prior can have. The paper's three settings of N rows, K planted features, T trials and α.

The paper takes a sample after each update of one z and one y, and counts the new features of a row
as one update. Here a step of the Gibbs sampler is NK + N updates of Z, one of each bit and one of
the new features of each row, and then one of each y; a step of the Metropolis sampler is as many
moves as the former has updates on average, and then one of each y. So the y change more often than
in the paper, in both samplers alike, and times are given in updates of Z. New features come with y
from its prior, as in the paper, and as the library does by default: with y summed out.

    python reproductions/welling_2012.py [--out welling_2012] [--seed 0] [--full]

Figure 1, on partitions, is benchmarks/flexible_partitions.py.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from presenting import Section, legend, panels, parser_of, table, write_report

import thali
from thali.data import Data
from thali.evaluation import autocorrelation
from thali.model import Model
from thali.starts import Start

RATES = {"epsilon": 0.01, "lam": 0.9, "p": 0.1}
PAPER = "Welling, Porteous and Kurihara (2012), section VIII"
SETTINGS = [(10, 8, 2.0, 50), (5, 16, 3.0, 60), (15, 8, 3.0, 20)]  # N, K, α, T
SAMPLERS = {
    "Gibbs": thali.UncollapsedGibbs(),
    "Metropolis, y from its prior": thali.Metropolis(new_features="prior"),
    "Metropolis, y summed out": thali.Metropolis(),
}


class Memory(NamedTuple):
    """What a sampler forgets: the autocorrelation of K by steps, and updates of Z in a step."""

    correlation: np.ndarray
    updates: float

    @property
    def time(self) -> float:
        """The integrated autocorrelation time in updates, up to the first lag that is below 0."""
        end = np.append(np.flatnonzero(self.correlation < 0.0), len(self.correlation))[0]
        return float(self.updates * (2.0 * self.correlation[:end].sum() - 1.0))


def network(rng: np.random.Generator, n: int, k: int, t: int) -> np.ndarray:
    """Data of k planted features, each in half of the rows on average and in one at least."""
    likelihood = thali.NoisyOr(**RATES)
    Z = rng.random((n, k)) < 0.5
    Z[rng.integers(n, size=k), np.arange(k)] = True
    return likelihood.sample(rng, Z, likelihood.sample_features(rng, k, t))


def chain(engine: object, alpha: float, X: np.ndarray, steps: int, seed: int) -> np.ndarray:
    """K after each step; a fifth of them are made before."""
    rng, data = np.random.default_rng(seed), Data.of(X)
    model = Model(thali.IBP(alpha=alpha), thali.NoisyOr(**RATES))
    start = Start("empty", np.zeros((data.n, 0), bool), model.start(data))
    state = engine.begin(rng, model, data, start)
    found = [engine.step(rng, model, data, state).n_components for _ in range(steps + steps // 5)]
    return np.array(found[steps // 5 :], float)


def memories(setting: tuple[int, int, float, int], seed: int, steps: int) -> dict[str, Memory]:
    """Of each sampler on one data set."""
    n, k, alpha, t = setting
    X = network(np.random.default_rng([seed, n]), n, k, t)
    K = chain(SAMPLERS["Gibbs"], alpha, X, steps, seed)
    updates = n * (K.mean() + 1.0)
    lags = steps // 10
    found = {"Gibbs": Memory(autocorrelation(K, lags), updates)}
    moves = max(1, round(updates))
    for name, engine in list(SAMPLERS.items())[1:]:
        K = chain(engine.replace(moves=moves), alpha, X, steps, seed)
        found[name] = Memory(autocorrelation(K, lags), moves)
    return found


def figure_5(options: argparse.Namespace) -> Section:
    sets, steps = (10, 40_000) if options.full else (1, 60) if options.quick else (4, 20_000)
    figure, axes = panels(len(SETTINGS))
    rows = []
    for ax, setting in zip(axes, SETTINGS, strict=True):
        n, k, alpha, t = setting
        found = [memories(setting, options.seed + s, steps) for s in range(sets)]
        times = {name: np.array([one[name].time for one in found]) for name in SAMPLERS}
        ratios = [times[name] / times["Gibbs"] for name in list(SAMPLERS)[1:]]
        rows.append(
            [f"{n}, {k}, {alpha:g}, {t}"]
            + [f"{np.median(each):,.0f}" for each in times.values()]
            + [f"{np.median(r):.1f} ({r.min():.1f} to {r.max():.1f})" for r in ratios]
        )
        for name in SAMPLERS:
            one = found[0][name]
            x = one.updates * np.arange(len(one.correlation))
            shown = x <= 4.0 * max(each[0] for each in times.values())
            ax.plot(x[shown], one.correlation[shown], label=name, linewidth=1.4)
        ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        ax.set(title=f"N = {n}, K = {k}, α = {alpha:g}, T = {t}", xlabel="updates of Z")
    axes[0].set_ylabel("autocorrelation of K")
    legend(figure, axes[0])
    head = ["N, K, α, T", *SAMPLERS, "prior / Gibbs", "summed out / Gibbs"]
    lines = [
        f"Integrated autocorrelation times of K in updates of Z, medians over {sets} data sets of "
        f"{steps:,} steps each, and ratios (least to largest). The paper: Gibbs is faster by a "
        "factor of 2 to 4.",
        "",
        *table(head, rows),
    ]
    return Section("Figure 5: how fast K is forgotten", lines, {"figure_5.png": figure})


PARTS = {"figure_5": figure_5}


def main() -> None:
    parser = parser_of("welling_2012", __doc__, PARTS, "ten data sets, twice as many steps")
    parser.add_argument("--quick", action="store_true", help="a minute or less, for a look")
    options = parser.parse_args()
    caution = "Times are medians of noisy estimates: see the ranges."
    write_report(PAPER, PARTS, options, caution)


if __name__ == "__main__":
    main()
