"""Anand (2015), "Infinite latent feature models and the Indian buffet process": her experiment.

100 noisy 6×6 images of four features, 1,000 sweeps. The script draws her figures 1 to 6 and table 4
again, and sets her seconds (tables 1 to 3, and 7.1) beside ours:

    figure 1  the four features                  figure 4  the posterior of K, feature frequencies
    figure 2  the first four images              figure 5  the features found
    figure 3  traces of K, α, σ_x, σ_a           figure 6  the first four images, reconstructed
    table 4   which features the first four images have, and which were found
    tables 1 to 3   seconds of an inverse, of the likelihood, of 1,000 sweeps

As in the paper: one chain from a draw of the prior, α ~ Gamma(1, 1), uniform ±0.05 Metropolis
steps for σ_x and σ_a. Other than in the paper: a row's own features count among its new ones, their
number has no fixed cap, and σ² has a weak inverse-gamma law instead of none, so that the posterior
is proper. A second fit, with the library's defaults, stands beside it.

    python reproductions/anand_2015.py [--out anand_2015] [--seed 0] [--sweeps 1000 | --quick]
        [--slips 300]

--quick is a smoke run. --slips adds plain samplers with a slip, which have other modes of K: some
minutes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from anand_2015_slips import slips
from anand_2015_tables import table_1, table_2
from threadpoolctl import threadpool_limits

import thali
from thali import datasets, plots
from thali.evaluation import Matching, match_features

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Table 3 and section 7.1: seconds for 1,000 sweeps of one chain.
PAPER_SECONDS = {
    "Anand, naive": 343.536,
    "Anand, optimized": 296.066,
    "Anand, Cython": 299.768,
    "Yıldırım, MATLAB": 410.090,
}
SHOWN = range(4)  # the paper shows the first four images


class Fit(NamedTuple):
    """A fitted model, its seconds (compilation excluded) and its features matched to the truth."""

    model: thali.LatentFeatures
    seconds: float
    match: Matching


def fit(data: datasets.Dataset, engine: thali.CollapsedGibbs, seed: int) -> Fit:
    """Fit the images; one short fit before it compiles the kernels or loads them."""
    short = thali.CollapsedGibbs(sweeps=2, chains=1, init=engine.init, sigma_step=engine.sigma_step)
    thali.LatentFeatures(engine=short, random_state=seed, progress=False).fit(data.X)
    model = thali.LatentFeatures(engine=engine, random_state=seed, progress=False)
    began = time.perf_counter()
    model.fit(data.X)
    return Fit(model, time.perf_counter() - began, match_features(data.A, model.components_))


def picture_row(rows: np.ndarray, titles: list[str], shape: tuple[int, int]) -> Figure:
    """Rows as gray images side by side, as in the paper's figures 1 and 2."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 * len(rows), 1.8), layout="constrained")
    for ax, row, title in zip(figure.subplots(1, len(rows)), rows, titles, strict=True):
        ax.imshow(
            row.reshape(shape), cmap="gray", vmin=rows.min(), vmax=rows.max(),
            interpolation="nearest",
        )  # fmt: skip
        ax.set_title(title, fontsize=9)
        ax.set(xticks=[], yticks=[])
    return figure


def counts(model: thali.LatentFeatures) -> Figure:
    """Figure 4: the posterior of K beside the rows with each feature."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.feature_count(model, left)
    plots.frequencies(model, right)
    return figure


def draw(data: datasets.Dataset, model: thali.LatentFeatures, out: Path) -> dict[str, str]:
    """Write every figure; file name -> what it shows."""
    assert data.image_shape is not None
    shape = data.image_shape
    features = [f"F{k + 1}" for k in range(len(data.A))]
    images = [f"image {n + 1}" for n in SHOWN]
    figures: dict[str, tuple[Figure, str]] = {
        "figure_1.png": (
            picture_row(data.A, features, shape),
            "Figure 1. The features that made the data",
        ),
        "figure_2.png": (
            picture_row(data.X[: len(images)], images, shape),
            "Figure 2. The first four of the images",
        ),
        "figure_3.png": (plots.trace(model), "Figure 3. Every sweep: K, α, σ_x, σ_a, log joint"),
        "figure_4.png": (
            counts(model),
            "Figure 4. The posterior of K, and the rows with each feature",
        ),
        "figure_5.png": (
            plots.features(model, image_shape=shape).figure,
            "Figure 5. The features found",
        ),
        "figure_6.png": (
            plots.reconstructions(model, rows=list(SHOWN), image_shape=shape).figure,
            "Figure 6. The first four images and their reconstructions",
        ),
    }
    for name, (figure, _) in figures.items():
        figure.savefig(out / name, dpi=150)
    return {name: words for name, (_, words) in figures.items()}


def presence(data: datasets.Dataset, result: Fit) -> list[str]:
    """Table 4: the features of the first four images, planted / found."""
    partner = dict(result.match.pairs.tolist())
    lines = ["| | F1 | F2 | F3 | F4 | other features found |", "|---|---|---|---|---|---|"]
    for n in SHOWN:
        found = set(np.flatnonzero(result.model.Z_[n]).tolist())
        cells = [
            f"{int(data.Z[n, k])} / {int(partner.get(k, -1) in found)}" for k in range(len(data.A))
        ]
        others = len(found - set(partner.values()))
        lines.append(f"| image {n + 1} | " + " | ".join([*cells, str(others)]) + " |")
    return lines


def disagreement(data: datasets.Dataset, result: Fit) -> str:
    """How many bits of the matched features differ from the truth, over all images."""
    pairs = result.match.pairs
    wrong = int((data.Z[:, pairs[:, 0]] != result.model.Z_[:, pairs[:, 1]]).sum())
    return f"{wrong} of {data.Z.size}"


def seconds_table(as_paper: Fit, default: Fit, sweeps: int) -> list[str]:
    """Seconds for 1,000 sweeps of one chain, the paper's and ours, and the ratio."""
    ours = as_paper.seconds * 1000 / sweeps
    rows = {
        **PAPER_SECONDS,
        "thali, one chain as in the paper": ours,
        f"thali, default fit ({default.model.engine_.chains} chains and the race)": default.seconds,
    }
    lines = ["| program | seconds | times ours |", "|---|---:|---:|"]
    lines += [f"| {name} | {s:.2f} | {s / ours:.1f} |" for name, s in rows.items()]
    note = "The paper's seconds are of its own machine in 2015."
    there = "`benchmarks/collapsed_gibbs.py` runs a sampler of that kind and ours on one machine."
    return [*lines, "", f"{note} {there}"]


def compared(data: datasets.Dataset, as_paper: Fit, default: Fit) -> list[str]:
    """What the two fits found, in one table."""

    def row(name: str, cells: list[str]) -> str:
        return f"| {name} | " + " | ".join(cells) + " |"

    fits = as_paper, default
    kept = [f.model.history_["n_components"][:, f.model.burn_in_ :].astype(int) for f in fits]
    modes = [int(np.bincount(k.ravel()).argmax()) for k in kept]
    return [
        "| | as in the paper | library's defaults |",
        "|---|---:|---:|",
        row("chains × sweeps",
            [" × ".join(map(str, f.model.history_["alpha"].shape)) for f in fits]),
        row("features in the point estimate", [str(f.model.n_components_) for f in fits]),
        row("mode, mean of K", [f"{m}, {k.mean():.2f}" for m, k in zip(modes, kept, strict=True)]),
        row("least correlation with a planted feature",
            [f"{f.match.correlations.min():.3f}" for f in fits]),
        row("planted bits found wrong", [disagreement(data, f) for f in fits]),
        row(f"σ_x (planted {data.sigma_x})", [f"{f.model.sigma_x_:.3f}" for f in fits]),
        row(f"σ_a (planted, root mean square {data.sigma_a:.3f})",
            [f"{f.model.sigma_a_:.3f}" for f in fits]),
        row("α", [f"{f.model.alpha_:.3f}" for f in fits]),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("anand_2015"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--slips", type=int, default=0, help="sweeps of each sampler with a slip")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    options = parser.parse_args()
    options.sweeps = 30 if options.quick else options.sweeps
    loops = 10 if options.quick else 1000
    data = datasets.images(n=100, sigma_x=0.5, random_state=options.seed)
    paper = thali.CollapsedGibbs(
        sweeps=options.sweeps, chains=1, init="prior", sigma_step="metropolis"
    )
    as_paper = fit(data, paper, options.seed)
    default = fit(data, thali.CollapsedGibbs(sweeps=options.sweeps), options.seed)

    options.out.mkdir(parents=True, exist_ok=True)
    captions = draw(data, as_paper.model, options.out)
    with threadpool_limits(limits=1):  # so little work is not worth a second thread
        inverse = table_1(data, as_paper.model, as_paper.seconds, loops)
        likelihood = table_2(data, loops)
    tables = {
        "Table 1. Inverse": inverse,
        "Table 2. Likelihood": likelihood,
        "Table 3. Seconds for 1,000 sweeps": seconds_table(as_paper, default, options.sweeps),
        "What was found": compared(data, as_paper, default),
        "Table 4. Features of the first four images: planted / found": presence(data, as_paper),
    }
    if options.slips:
        tables["Figure 4. Plain samplers with a slip"] = slips(data, options.seed, options.slips)
    text = ["# Anand (2015), reproduced", ""]
    text.append(f"{len(data.X)} images, {options.sweeps} sweeps, seed {options.seed}.")
    for title, lines in tables.items():
        text += ["", f"## {title}", "", *lines]
    for name, words in captions.items():
        text += ["", f"## {words}", "", f"![{words}]({name})"]
    (options.out / "summary.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    print("\n".join(line for title, lines in tables.items() for line in ("", title, "", *lines)))
    print(f"\nWritten: {options.out / 'summary.md'} and {len(captions)} pictures.")


if __name__ == "__main__":
    main()
