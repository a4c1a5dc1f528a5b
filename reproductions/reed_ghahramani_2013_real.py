"""Figure 4 of Reed and Ghahramani (2013), on data from the folder that the variable THALI_DATA
names, and its "meibp+aibp": a sampler begun at the answer of maximization-expectation; see
`reed_ghahramani_2013.py`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from presenting import Section, Skipped, legend, log_axis, read, table
from reed_ghahramani_2013_fits import (
    ALPHA,
    BUFFETS,
    METHODS,
    SHARE,
    Point,
    Task,
    evolution,
    panels,
    warm_up,
)  # fmt: skip

import thali
from thali.evaluation import Holdout, holdout
from thali.plots import style

FILES = {"audio": "audio_vibeace_500x161.npz", "tags": "mirflickr_tags.npz",
         "faces": "yaleb_ext_32x32.npz"}  # fmt: skip
AFTER = (1, 2, 5, 10)  # sweeps from the answer at which the log joint is noted
HIDDEN_FACES = 5  # of each subject, whose lower half is hidden


class Real(NamedTuple):
    """A data set: its table, entries held out as the paper has them, and what it is in words."""

    X: Any
    test: Holdout
    words: str


def audio(options: argparse.Namespace) -> Real:
    """For Piano: a spectrogram, unit variance."""
    X = read(FILES["audio"])["X"].astype(float)
    X = (X / X.std())[: 120 if options.quick else None]
    words = f"{X.shape[0]}×{X.shape[1]} magnitudes of ten seconds of jazz (the paper: 16000×161, "
    return Real(X, holdout(X, 0.25, "last_half", options.seed), words + "piano)")


def tags(options: argparse.Namespace) -> Real:
    """For Flickr: a dense part of the tags, or with --full all of them."""
    from scipy.sparse import csr_matrix

    found = read(FILES["tags"])
    parts = [found[f"X_{name}"] for name in ("data", "indices", "indptr")]
    whole = csr_matrix((parts[0].astype(float), *(p.astype(np.int32) for p in parts[1:])),
                       shape=tuple(found["X_shape"]))  # fmt: skip
    X = whole
    if not options.full:
        rows, columns = (200, 40) if options.quick else (2000, 200)
        frequent = np.sort(np.argsort(-np.asarray(whole.sum(axis=0)).ravel())[:columns])
        X = whole[:, frequent]
        X = X[np.flatnonzero(np.asarray(X.sum(axis=1)).ravel())]
        chosen = np.random.default_rng(options.seed).permutation(X.shape[0])[:rows]
        X = X[np.sort(chosen)]
    X = X.toarray()
    words = (
        f"{X.shape[0]}×{X.shape[1]} tags, {100 * X.mean():.2f}% of them given, "
        + ("dense" if options.full else "a dense part: the most frequent, and images that have any")
        + f" (of {whole.shape[0]}×{whole.shape[1]}; the paper: 25000×1500, 0.81%)"
    )
    return Real(X, holdout(X, 0.25, "last_half", options.seed), words)


def faces(options: argparse.Namespace) -> Real:
    """For Yale-BC: the lower half of five images of each subject is hidden."""
    found = read(FILES["faces"])
    side = 32 if options.full else 8
    images = found["X"].reshape(-1, 32, 32).transpose(0, 2, 1) / 255.0
    images = images.reshape(-1, side, 32 // side, side, 32 // side).mean(axis=(2, 4))
    people = found["y"]
    if options.quick:
        images, people = images[::12], people[::12]
    rng = np.random.default_rng(options.seed)
    mask = np.ones(images.shape, bool)
    for person in np.unique(people):
        where = np.flatnonzero(people == person)
        mask[rng.permutation(where)[:HIDDEN_FACES], side // 2 :] = False
    X, mask = images.reshape(len(images), -1), mask.reshape(len(images), -1)
    rows, columns = np.nonzero(~mask)
    test = Holdout(np.where(mask, X, np.nan), mask, rows, columns, X[~mask], "lower halves")
    words = f"{X.shape[0]} faces of {side}×{side} pixels (the paper: 2414×32256)"
    return Real(X, test, words)


DATA: dict[str, Callable[[argparse.Namespace], Real]] = {
    "audio": audio, "tags": tags, "faces": faces,
}  # fmt: skip


# figure 4


def figure_4(options: argparse.Namespace) -> Section:
    title = "Figure 4. Held-out entries of real data"
    sizes = (4,) if options.quick else (10, 25, 50) if options.full else (10, 25)
    budget = 0.3 if options.quick else 600.0 if options.full else 1.0
    seeds = range(options.seed, options.seed + (5 if options.full else 1))
    try:
        data = {name: make(options) for name, make in DATA.items()}
    except Skipped as reason:
        return Section(title, [str(reason)], {})
    warm_up(METHODS)
    found: dict[Any, list[Point]] = {}
    for what, real in data.items():
        task = Task.of(real.test)
        for name in METHODS:
            for k in sizes:
                found[what, name, k] = [
                    evolution(task, name, k, seed, (budget,))[-1] for seed in seeds
                ]
    figure, axes = panels([f"{what.capitalize()}" for what in data])
    for ax, what in zip(axes, data, strict=True):
        for name, method in METHODS.items():
            for i, k in enumerate(sizes):
                fits = found[what, name, k]
                x, y = (np.array([f[at] for f in fits]) for at in (0, 1))
                ax.errorbar(
                    x.mean(), y.mean(), y.std() if len(y) > 1 else None,
                    x.std() if len(x) > 1 else None, color=method.color, linestyle="none",
                    marker="o" if method.dash == "-" else "s", markersize=4 + 3 * i,
                    markerfacecolor=method.color if method.dash == "-" else "none",
                    label=name if i == 0 else None,
                )  # fmt: skip
        style.label(ax, "seconds", "mean test log likelihood")
        log_axis(ax, "x")
        shown = [np.mean([f.value for f in found[what, n, k]]) for n in BUFFETS for k in sizes]
        room = max(np.ptp(shown), 1e-3)  # what a factorization that overfits must not hide
        ax.set_ylim(min(shown) - 0.3 * room, max(shown) + 0.3 * room)
    legend(figure, axes[0], 4)
    lines = [
        f"α = {ALPHA:g}, σ_x = σ_a = ¾ of the standard deviation, random start of K features; "
        f"{len(seeds)} repetition(s); until an engine ends, or {budget:g} s. Larger markers have "
        f"larger K ({', '.join(map(str, sizes))}); samplers may go beyond it; "
        "factorizations far below the engines are in the table only.", "",
        *(f"- {what.capitalize()}: {real.words}; {len(real.test.values):,} entries hidden."
          for what, real in data.items()), "",
        *table(["mean test log likelihood (s, features)", *(f"{what}, K = {k}" for what in data
                                                            for k in sizes)],
               [[name, *(text_of(found[what, name, k]) for what in data for k in sizes)]
                for name in METHODS]), "",
        *findings(found, data, sizes),
    ]  # fmt: skip
    return Section(title, lines, {"figure_4.png": figure})


def text_of(fits: list[Point]) -> str:
    value, seconds, k = (np.mean([f[i] for f in fits]) for i in (1, 0, 2))
    cut = "" if all(f.ended for f in fits) else ", cut"
    return f"{value:.3f} ({seconds:.1f}{cut}, {k:.0f})"


def findings(found: dict[Any, list[Point]], data: dict[str, Real], sizes: Any) -> list[str]:
    """Best to worst at the largest K, data set by data set."""
    lines = []
    for what in data:
        at = {n: np.mean([f.value for f in found[what, n, sizes[-1]]]) for n in METHODS}
        order = ", ".join(sorted(at, key=lambda n: -at[n]))
        lines.append(f"- {what.capitalize()}, K = {sizes[-1]}, best to worst: {order}.")
    return lines


# meibp+aibp


class Answer(NamedTuple):
    """What maximization-expectation found, its seconds, and the log joints of sweeps from it."""

    seconds: float
    n_components: int
    log_joint: float
    logs: np.ndarray


def sampler(X: Any, prior: Any, sigma: float, init: Any, sweeps: int, seed: int, budget: float):
    """Log joints, sweep by sweep, of one chain, and the seconds of a sweep."""
    engine = thali.CollapsedGibbs(sweeps=sweeps, chains=1, init=init)
    model = thali.LatentFeatures(
        prior, thali.LinearGaussian(sigma, sigma), engine, random_state=seed, progress=False
    ).fit(X, time_budget=budget)
    logs = model.history_["log_joint"][0]
    return logs, model.seconds_ / len(logs)


def starts(options: argparse.Namespace) -> Section:
    title = "Figure 4, meibp+aibp. A sampler begun at the answer"
    k = 6 if options.quick else 25
    budget = 1.0 if options.quick else 600.0 if options.full else 8.0
    likelihoods = (thali.NonnegativeLinearGaussian, thali.LinearGaussian)
    figure, axes = panels([what.capitalize() for what in DATA])
    lines = [
        f"`CollapsedGibbs` of {k} features (α = {ALPHA:g}, scales ¾ of the standard deviation, "
        "linear-Gaussian) begun at the answer of `MaximizationExpectation`, itself begun at "
        "random, under either likelihood, and begun at random. For the log joint after so many "
        "sweeps from the answer: the sweeps that the random start needs for as much. The random "
        f"one is followed for {budget:g} s.", "",
    ]  # fmt: skip
    rows, ratios = [], {}
    for ax, (what, make) in zip(axes, DATA.items(), strict=True):
        try:
            X = make(options).X
        except Skipped as reason:
            return Section(title, [str(reason)], {})
        prior, sigma = thali.BetaBernoulli(ALPHA, k), SHARE * float(np.std(X))
        sampler(X[:40], prior, sigma, "prior", 2, 0, 60.0)  # compiles
        alone, a_sweep = sampler(X, prior, sigma, "prior", 20_000, options.seed, budget)
        reached = np.maximum.accumulate(alone)
        style.label(ax, "sweeps", "log joint")
        ax.plot(np.arange(1, len(alone) + 1), alone, color=style.BLUE, label="begun at random")
        for likelihood, color in zip(likelihoods, (style.VERMILLION, style.CHAINS[2]),
                                      strict=True):  # fmt: skip
            law = likelihood.__name__
            answer = begun_at_answer(X, prior, likelihood(sigma, sigma), sigma, options.seed)
            ax.plot(np.arange(1, 1 + len(answer.logs)), answer.logs, color=color,
                    label=f"begun at the answer under {law}")  # fmt: skip
            for after in AFTER:
                target = answer.logs[after - 1]
                at = int(np.searchsorted(reached, target)) + 1
                missed = at > len(alone)
                needs = f"> {len(alone)}, not reached" if missed else f"{at}"
                ratio = min(at, len(alone)) / after
                worth = answer.seconds / a_sweep
                ratios[what, law, after] = ratio, min(at, len(alone)) / (after + worth)
                rows.append([what, law, f"{answer.seconds:.1f} ({worth:.0f})",
                             answer.n_components, after, f"{target:.0f}", needs,
                             f"{'> ' if missed else ''}{ratio:.0f}"])  # fmt: skip
        log_axis(ax, "x", (1.0,))
        top = max(line.get_ydata().max() for line in ax.lines)
        low = min(alone[min(4, len(alone) - 1)], *(line.get_ydata().min() for line in ax.lines[1:]))
        ax.set_ylim(low, top + 0.1 * (top - low))
    legend(figure, axes[0], 3)
    head = ["data", "answer under", "its seconds (sweeps' worth)", "its K", "sweeps from it",
            "log joint", "sweeps from a random start", "times as many"]  # fmt: skip
    lines += [*table(head, rows), "", *verdicts(ratios)]
    return Section(title, lines, {"starts.png": figure})


def begun_at_answer(X: Any, prior: Any, likelihood: Any, sigma: float, seed: int) -> Answer:
    engine = thali.MaximizationExpectation(init="prior", n_init=1)
    thali.LatentFeatures(prior, likelihood, engine, random_state=seed, progress=False).fit(X[:40])
    model = thali.LatentFeatures(prior, likelihood, engine, random_state=seed, progress=False)
    began = time.perf_counter()
    model.fit(X)
    took = time.perf_counter() - began
    logs, _ = sampler(X, prior, sigma, model, max(AFTER), seed, 600.0)
    while len(logs) < max(AFTER):  # so slow that the seconds ended it: say what there is
        logs = np.append(logs, logs[-1])
    return Answer(took, model.n_components_, model.log_joint_, logs)


def verdicts(ratios: dict[Any, tuple[float, float]]) -> list[str]:
    """Whether at least ten times the sweeps are needed, data set by data set."""
    lines = []
    for what in DATA:
        mine = {key: both for key, both in ratios.items() if key[0] == what}
        if not mine:
            continue
        key = max(mine, key=lambda one: mine[one])
        sweeps, cost = mine[key]
        some = "at least ten times the" if sweeps >= 10.0 else "fewer than ten times the"
        lines.append(
            f"- {what.capitalize()}: a random start needs {some} sweeps: {sweeps:.0f} times or "
            f"more for the log joint after {key[2]} from the answer under {key[1]}; {cost:.1f} "
            "times or more if the seconds of the answer are counted as sweeps."
        )
        least = min(mine, key=lambda one: mine[one])
        if mine[least][0] < 10.0:
            lines.append(
                f"- Not so from the answer under {least[1]}: {mine[least][0]:.1f} times for the "
                f"log joint after {least[2]}."
            )
    return lines
