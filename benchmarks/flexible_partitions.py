"""Does a prior learned for large clusters find three of them better than Dirichlet processes do?

Figure 1 of Welling, Porteous and Kurihara, "Exchangeable inconsistent priors for Bayesian posterior
inference" (2012), section III, on many drawn data sets: 60 points in the plane, 20 each from unit
Gaussians around (3, 3), (9, 3) and (6, 6).

The learned prior has E[m_i] ∝ exp(−i²/(2·40²)), i = 1 … 60 (a normal distribution truncated to the
sizes there are), so that Σ i E[m_i] = 60; no penalty is needed, and none is used. Beside it are
Dirichlet processes with α = 2, 1, 0.5 and 0.1 (the paper prints 1 twice, its text says .1). Each is
sampled for 1000 sweeps, and for 1000 more, which count. The error of association of a data set is

    mean over pairs i < j of (t_ij − s_ij)²,

t_ij being 1 where both points were drawn from one Gaussian and 0 otherwise, and s_ij the share of
the 1000 draws that have them together. All hyperparameters are fixed. The paper does not give those
of its normal-Wishart prior; here, of μ | Σ ~ N((6, 4), Σ/κ) and Σ ~ inverse Wishart of ν degrees
with mean I,

    near     κ = 0.25, ν = 10     means vary as much as they do
    vague    κ = 0.05, ν = 4
    wide     κ = 0.01, ν = 4

and chains begin at a draw of the prior, with split–merge moves (2 a sweep) or without. The learned
prior is compared with the α whose mean error over the data sets is least, a choice that favours the
Dirichlet process, by Wilcoxon's signed ranks and by the paired t, both two-sided.

    python benchmarks/flexible_partitions.py [--quick] [--sets 20] [--only near] [--out FOLDER]

``--out`` names a folder for the figure: flexible_partitions.png, of the first setting, moves on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from scipy.stats import ttest_rel, wilcoxon
from tables import markdown

import thali
from thali.data import Data
from thali.model import Model
from thali.priors.base import Prior
from thali.run.loop import run as sample

CENTERS = np.array([[3.0, 3.0], [9.0, 3.0], [6.0, 6.0]])
EACH, N, WIDTH = 20, 60, 40.0
ALPHAS = (2.0, 1.0, 0.5, 0.1)
LEARNED = "learned"
SETTINGS = {"near": (0.25, 10.0), "vague": (0.05, 4.0), "wide": (0.01, 4.0)}
MOVES = (2, 0)


def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """60 points, and which Gaussian each is from."""
    labels = np.repeat(np.arange(3), EACH)
    return CENTERS[labels] + np.random.default_rng(seed).normal(size=(N, 2)), labels


def wished() -> np.ndarray:
    """E[m_i] of the learned prior, i = 1 … 60."""
    i = np.arange(1.0, N + 1.0)
    weights = np.exp(-0.5 * np.square(i / WIDTH))
    return N * weights / (i * weights).sum()


def priors() -> dict[str, thali.DirichletProcess | thali.FlexiblePartition]:
    """Those that are compared, by name."""
    found: dict[str, thali.DirichletProcess | thali.FlexiblePartition] = {
        f"α = {alpha:g}": thali.DirichletProcess(alpha=alpha) for alpha in ALPHAS
    }
    return found | {LEARNED: thali.FlexiblePartition.from_expectations(wished())}


class Run(NamedTuple):
    """One prior on one data set."""

    error: float
    size_counts: np.ndarray  # E[m_i] of the posterior
    clusters: float  # their mean number


def run(prior: Prior, setting: str, moves: int, seed: int, sweeps: int) -> Run:
    """Sample, and compare pairs of points."""
    X, truth = draw(seed)
    kappa, degrees = SETTINGS[setting]
    likelihood = thali.NormalWishart(
        kappa=kappa, scale=1.0, degrees=degrees, mean=(6.0, 4.0), spread=1.0
    )
    engine = thali.CollapsedGibbs(
        sweeps=sweeps, burn_in=sweeps // 2, chains=1, init="prior", moves=moves
    )
    fit = sample(seed, Model(prior, likelihood), engine, Data.of(X), progress=False)
    draws = [each.latent for each in fit.draws()]
    pairs = np.triu_indices(N, 1)
    same = (truth[:, None] == truth)[pairs]
    share = np.mean([(z[:, None] == z)[pairs] for z in draws], axis=0)
    sizes = np.mean([np.bincount(np.bincount(z), minlength=N + 1)[1:] for z in draws], axis=0)
    return Run(float(np.square(same - share).mean()), sizes, float(sizes.sum()))


Runs = dict[str, list[Run]]  # by prior, in the order of data sets


def errors(runs: Runs, name: str) -> np.ndarray:
    return np.array([each.error for each in runs[name]])


def best_alpha(runs: Runs) -> str:
    """The Dirichlet process of least mean error."""
    return min((n for n in runs if n != LEARNED), key=lambda n: errors(runs, n).mean())


def row(setting: str, moves: int, runs: Runs) -> list[str]:
    """Mean errors in thousandths, how often the learned prior is better, and two tests."""
    best, own = best_alpha(runs), errors(runs, LEARNED)
    gaps = own - errors(runs, best)
    each = np.min([errors(runs, n) for n in runs if n != LEARNED], axis=0)
    return [
        setting,
        "on" if moves else "off",
        *(f"{1e3 * errors(runs, name).mean():.1f}" for name in runs),
        best.removeprefix("α = "),
        f"{1e3 * gaps.mean():+.1f} ± {2e3 * gaps.std(ddof=1) / np.sqrt(len(gaps)):.1f}",
        f"{(gaps < 0).sum()}/{len(gaps)}",
        f"{wilcoxon(gaps).pvalue:.2g}",
        f"{ttest_rel(own, errors(runs, best)).pvalue:.2g}",
        f"{(own < each).sum()}/{len(gaps)}",
    ]


def clusters_row(setting: str, moves: int, runs: Runs) -> list[str]:
    """Mean numbers of clusters, and of those of five points or fewer."""
    small = [np.mean([r.size_counts[:5].sum() for r in each]) for each in runs.values()]
    many = [np.mean([r.clusters for r in each]) for each in runs.values()]
    both = zip(many, small, strict=True)
    return [setting, "on" if moves else "off", *(f"{k:.2f} ({s:.2f})" for k, s in both)]


def potentials(prior: thali.FlexiblePartition, alpha: float) -> np.ndarray:
    """λ_i of the learned prior, in the gauge λ_i + c·i nearest to the Dirichlet process's."""
    i = np.arange(1.0, N + 1.0)
    own, other = np.array(prior.potentials), np.log(alpha) + gammaln(i)
    return own + i * (i @ (other - own)) / (i @ i)


def picture(runs: Runs, path: Path) -> None:
    """The four panels of the figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    best, known = best_alpha(runs), priors()
    alpha, i = float(best.removeprefix("α = ")), np.arange(1, N + 1)
    dashed: dict[str, str] = {"color": "tab:orange", "linestyle": "--", "label": "learned"}
    solid: dict[str, str] = {"color": "tab:blue", "label": f"Dirichlet process, {best}"}
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    a.semilogy(i, known[best].expected_size_counts(N), **solid)
    a.semilogy(i, known[LEARNED].expected_size_counts(N), **dashed)
    a.set(title="(a) prior", xlabel="size i of a cluster", ylabel=r"$E[m_i]$")
    for name, line in ((best, solid), (LEARNED, dashed)):
        b.plot(i, np.mean([each.size_counts for each in runs[name]], axis=0), **line)
    count = len(runs[best])
    b.set(title=f"(b) posterior, mean of {count} data sets", xlabel="size i of a cluster")
    b.set_ylabel(r"$E[m_i\,|\,X]$")
    c.plot(i, np.full(N, np.log(alpha)), **solid)
    c.plot(i, potentials(known[LEARNED], alpha) - gammaln(i), **dashed)
    c.set(title="(c) potentials", xlabel="size i of a cluster")
    c.set_ylabel(r"$\lambda_i - \log\,\Gamma(i)$")  # which hides all else, being 184 at 60
    own = errors(runs, LEARNED)
    means = [errors(runs, f"α = {value:g}").mean() for value in ALPHAS]
    bars = [2.0 * errors(runs, f"α = {v:g}").std(ddof=1) / np.sqrt(count) for v in ALPHAS]
    d.errorbar(
        ALPHAS, means, bars, marker="o", capsize=3, color="tab:blue", label="Dirichlet process"
    )
    d.axhline(own.mean(), **dashed)
    wide = 2.0 * own.std(ddof=1) / np.sqrt(count)
    d.axhspan(own.mean() - wide, own.mean() + wide, color="tab:orange", alpha=0.15)
    d.set(xscale="log", title="(d) error of association, ± 2 standard errors")
    d.set(xlabel=r"$\alpha$", ylabel="error", xticks=ALPHAS, xticklabels=[f"{v:g}" for v in ALPHAS])
    d.minorticks_off()
    a.legend(frameon=False)
    d.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 sets, 100 sweeps: a smoke run")
    parser.add_argument("--sets", type=int, help="data sets (default 20)")
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--out", type=Path, help="folder for the figure")
    options = parser.parse_args()
    sets, sweeps = options.sets or (3 if options.quick else 20), 100 if options.quick else 2000
    known, rows, counts, first = priors(), [], [], True
    for setting in options.only:
        for moves in MOVES:
            runs: Runs = {
                name: [run(prior, setting, moves, seed, sweeps) for seed in range(sets)]
                for name, prior in known.items()
            }
            rows.append(row(setting, moves, runs))
            counts.append(clusters_row(setting, moves, runs))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
            if first and options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                picture(runs, options.out / "flexible_partitions.png")
            first = False
    print("\nErrors of association in thousandths, means over data sets\n")
    tests = ["learned − best", "better", "Wilcoxon p", "t p", "better than every α"]
    print(markdown(["setting", "moves", *known, "best α", *tests], rows))
    print("\nMean number of clusters (those of five points or fewer)\n")
    print(markdown(["setting", "moves", *known], counts))


if __name__ == "__main__":
    main()
