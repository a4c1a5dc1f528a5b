"""How well are hidden entries of tables predicted, beside other ways to fill holes?

One entry in ten is hidden at random, by the same masks for all methods, and predicted from the
others. Entries missing from the start stay so and are not scored. Tables are those of
``hidden_sets.py``, the others those of ``imputers.py``:

    yes/no and category       log loss, nats an entry
    all others                root of the mean square error, an error counted in standard deviations
                              of its column; of counts and positive numbers on the scale log(1 + x)

The others see numbers: indicators of yes and no and of each level, places of ordered levels,
log(1 + x) of counts and positive numbers, all standardized. Their settings are those that best
predict a further tenth, hidden from what is left: one setting for probabilities, one for numbers.
What they say of an indicator is brought into [ε, 1 − ε], with an ε tuned too, and levels share one.
All are judged on the scale that they are asked about: of counts and positive numbers thali gives
its medians, and of others its means.

thali is ``LatentFeatures(random_state=0)``, given the frame as it is. Where it takes no such frame,
it is given the numbers that the others see, and what it says is read the same way with ε = 0.01
(``fit_thali`` and ``read_thali``, the only two functions that know of it). ``--standardized`` adds
it with these numbers on every table. Coverage is of its 90% intervals, over entries that are
numbers. Seconds are of the clock, tuning included; the best of the others is what a ratio is to.

    THALI_DATA=… python benchmarks/hidden_entries.py [--tables iris votes] [--masks 5]
        [--only-peers | --only-thali] [--standardized] [--time-budget SECONDS]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import real_data
from hidden_sets import DISCRETE, GROUPS, NAMES, Hidden, Table, hide, make
from imputers import METHODS, Method
from tables import markdown
from threadpoolctl import threadpool_limits

import thali

CLIPS = (0.001, 0.01, 0.03)
THALI_CLIP = 0.01
INTERVAL = 0.9
ON_LOG_SCALE = ("count", "positive")
INSIDE = 10_000  # added to the seed of the entries that are hidden for tuning

Predictions = dict[str, np.ndarray]  # of a column: N numbers, or N×L probabilities


class Coded(NamedTuple):
    """A table as standardized numbers, Y = (number − mean) / scale, NaN where it has none."""

    Y: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    slices: dict[str, slice]  # where each column of the table is

    def plain(self, filled: np.ndarray) -> Predictions:
        """What a filled Y says of each column, in the numbers of ``numbers``."""
        values = filled * self.scale + self.mean
        return {name: values[:, at] for name, at in self.slices.items()}


class Losses(NamedTuple):
    """Of each hidden entry: the square of an error, or a log loss."""

    squares: np.ndarray
    logs: np.ndarray

    def rmse(self) -> float:
        return float(np.sqrt(self.squares.mean())) if len(self.squares) else np.nan

    def log_loss(self) -> float:
        return float(self.logs.mean()) if len(self.logs) else np.nan


class Result(NamedTuple):
    rmse: float
    log_loss: float
    seconds: float
    coverage: float = np.nan
    found: str = ""  # the likelihood, features, and what is told of a degenerate fit


# tables as numbers


def numbers(column: pd.Series, kind: str) -> np.ndarray:
    """N×1 numbers of a column, or N×L indicators of its levels; NaN where it has no entry."""
    if kind in ("category", "ordinal"):
        codes = column.cat.codes.to_numpy().astype(float)
        codes[codes < 0] = np.nan
        if kind == "ordinal":
            return codes[:, None]
        levels = np.arange(len(column.cat.categories))
        return np.where(np.isnan(codes)[:, None], np.nan, codes[:, None] == levels)
    x = column.astype("Float64").to_numpy(float, na_value=np.nan)[:, None]
    return np.log1p(x) if kind in ON_LOG_SCALE else x


def coded(table: Table) -> Coded:
    parts, slices, at = [], {}, 0
    for name, kind in table.kinds.items():
        parts.append(numbers(table.frame[name], kind))
        slices[name] = slice(at, at := at + parts[-1].shape[1])
    X = np.hstack(parts)
    mean, scale = np.nan_to_num(np.nanmean(X, axis=0)), np.nanstd(X, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return Coded((X - mean) / scale, mean, scale, slices)


def losses(said: Predictions, full: Table, where: np.ndarray, clip: float) -> Losses:
    """Of the entries that ``where`` has, by what is said of them."""
    squares, logs = [np.empty(0)], [np.empty(0)]
    for j, (name, kind) in enumerate(full.kinds.items()):
        truth, rows = numbers(full.frame[name], kind), where[:, j]
        guess = said[name].reshape(len(truth), -1)[rows]
        if kind not in DISCRETE:
            squares.append(((guess - truth[rows]) / np.nanstd(truth))[:, 0] ** 2)
            continue
        if kind == "yes/no":
            guess, truth = np.hstack([1.0 - guess, guess]), np.hstack([1.0 - truth, truth])
        chance = np.clip(guess, clip, 1.0 - clip)
        chance /= chance.sum(axis=1, keepdims=True)
        logs.append(-np.log(chance[truth[rows] == 1.0]))
    return Losses(np.concatenate(squares), np.concatenate(logs))


# the others


def peer(method: Method, task: Hidden, full: Table, seed: int) -> Result:
    """Tuned inside, once for numbers and once for probabilities, and then fitted to all."""
    began = time.perf_counter()
    inner = hide(task.table, INSIDE + seed)
    held, settings = coded(inner.table), method.settings(coded(task.table).Y.shape[1])
    tried = [held.plain(filled) for filled in method.fill(held.Y, settings)]
    found = [[losses(said, task.table, inner.where, clip) for clip in CLIPS] for said in tried]
    squares = [each[0].rmse() for each in found]
    chances = np.array([[one.log_loss() for one in each] for each in found])
    outer = coded(task.table)
    rmse = log_loss = np.nan
    answers: dict[int, Predictions] = {}

    def answer(i: int) -> Predictions:
        if i not in answers:
            answers[i] = outer.plain(method.fill(outer.Y, [settings[i]])[0])
        return answers[i]

    if not np.isnan(squares).all():
        rmse = losses(answer(int(np.argmin(squares))), full, task.where, CLIPS[0]).rmse()
    if not np.isnan(chances).all():
        i, c = np.unravel_index(np.argmin(chances), chances.shape)
        log_loss = losses(answer(int(i)), full, task.where, CLIPS[c]).log_loss()
    return Result(rmse, log_loss, time.perf_counter() - began)


# thali


def fit_thali(table: Table, seconds: float | None, standardized: bool) -> tuple[Any, Coded | None]:
    """A model of the frame as it is, or of its numbers where it takes no such frame."""
    if not standardized:
        model = thali.LatentFeatures(random_state=0, progress=False)
        try:
            return model.fit(table.frame, time_budget=seconds), None
        except (TypeError, ValueError) as error:
            print(f"  not as it is: {error}", file=sys.stderr)
    numbered = coded(table)
    model = thali.LatentFeatures(random_state=0, progress=False)
    return model.fit(numbered.Y, time_budget=seconds), numbered


def read_thali(
    model: Any, table: Table, numbered: Coded | None
) -> tuple[Predictions, list[Predictions], float]:
    """What it says of each column, the two ends of its intervals, and the ε that suits."""
    frames = model.impute(interval=INTERVAL)
    if numbered is not None:
        said, *ends = (numbered.plain(np.asarray(filled)) for filled in frames)
        return said, list(ends), THALI_CLIP
    said, *ends = (read(filled, table) for filled in frames)
    if any(kind in ON_LOG_SCALE for kind in table.kinds.values()):
        typical = read(model.impute(strategy="median"), table)
        said |= {name: typical[name] for name, kind in table.kinds.items() if kind in ON_LOG_SCALE}
    if not hasattr(model, "impute_proba"):
        return said, list(ends), THALI_CLIP
    for name, chances in model.impute_proba().items():  # of the missing entries of a column alone
        holes, chances = table.frame[name].isna().to_numpy(), np.asarray(chances)
        kind, values = table.kinds[name], said[name]
        if kind == "yes/no":
            values[holes, 0] = chances if chances.ndim == 1 else chances[:, -1]
        elif kind == "category":
            values[holes] = chances
        elif kind == "ordinal":
            values[holes, 0] = chances @ np.arange(chances.shape[1])
    return said, list(ends), 1e-6


def read(filled: pd.DataFrame, table: Table) -> Predictions:
    """A filled frame in the numbers of ``numbers``, whatever types its columns came back with."""
    said = {}
    for name, kind in table.kinds.items():
        column = filled[name]
        if kind in ("category", "ordinal"):
            column = column.astype(table.frame[name].dtype)
        elif kind in ON_LOG_SCALE:  # a mean, or an end of an interval, may be below 0
            column = column.astype(float).clip(lower=0.0)
        said[name] = numbers(column, kind).astype(float)
    return said


def covered(ends: list[Predictions], full: Table, where: np.ndarray) -> float:
    """The share of hidden numbers within their intervals."""
    inside = [np.empty(0, bool)]
    for j, (name, kind) in enumerate(full.kinds.items()):
        if kind not in DISCRETE:
            truth = numbers(full.frame[name], kind)
            low, high = (end[name].reshape(len(truth), -1) for end in ends)
            inside.append(((low <= truth) & (truth <= high))[where[:, j], 0])
    inside = np.concatenate(inside)
    return float(inside.mean()) if len(inside) else np.nan


def own(task: Hidden, full: Table, seconds: float | None, standardized: bool) -> Result:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the budget ended a fit is what the seconds tell
        model, numbered = fit_thali(task.table, seconds, standardized)
        said, ends, clip = read_thali(model, task.table, numbered)
    taken = time.perf_counter() - began
    found = losses(said, full, task.where, clip)
    coverage = covered(ends, full, task.where)
    return Result(found.rmse(), found.log_loss(), taken, coverage, in_short(model))


def in_short(model: Any) -> str:
    """Which model it is, how many features it has, and which findings."""
    told = [finding.kind.__name__ for finding in model.findings_]
    name = type(model.likelihood_).__name__
    return " ".join([name, f"K={model.n_components_}", *told])


# what is told


def run(
    name: str, methods: list[str], masks: int, seconds: float | None, full: Table | None = None
) -> dict[str, list[Result]]:
    """Every method on every mask of a table."""
    full = make(name) if full is None else full
    found = {method: [] for method in methods}
    for seed in range(masks):
        task = hide(full, seed)
        for method in methods:
            if method.startswith("thali"):
                result = own(task, full, seconds, method != "thali")
            else:
                with threadpool_limits(1):
                    result = peer(METHODS[method], task, full, seed)
            found[method].append(result)
            print(
                f"{name} mask {seed} {method}: RMSE {result.rmse:.4f}, log loss "
                f"{result.log_loss:.4f}, coverage {result.coverage:.3f}, {result.seconds:.1f} s "
                f"{result.found}",
                file=sys.stderr,
                flush=True,
            )
    return found


def cell(results: list[Result], measure: str, best: bool) -> str:
    """The mean over masks ± its standard error, and seconds."""
    values = np.array([getattr(result, measure) for result in results])
    text = f"{values.mean():.4f}"
    if len(values) > 1:
        text += f" ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"
    seconds = np.mean([result.seconds for result in results])
    return (f"**{text}**" if best else text) + f", {seconds:.1f} s"


def rows(name: str, found: dict[str, list[Result]]) -> list[list[str]]:
    """A row for each measure that the table has."""
    table = []
    for measure, word in (("log_loss", "log loss"), ("rmse", "RMSE")):
        means = {k: np.mean([getattr(r, measure) for r in v]) for k, v in found.items()}
        if np.isnan(list(means.values())).all():
            continue
        best = min(means, key=lambda k: means[k])
        row = [name, word, *(cell(v, measure, k == best) for k, v in found.items())]
        rivals = [mean for k, mean in means.items() if not k.startswith("thali")]
        for method in (k for k in found if k.startswith("thali")):
            row.append(f"{means[method] / min(rivals):.3f}" if rivals else "")
            inside = np.mean([result.coverage for result in found[method]])
            row.append(f"{inside:.3f}" if measure == "rmse" else "")
        table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=NAMES, metavar="TABLE", help=" ".join(NAMES))
    parser.add_argument("--masks", type=int, default=5)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only-peers", action="store_true", help="without thali")
    which.add_argument("--only-thali", action="store_true", help="without the others")
    parser.add_argument("--standardized", action="store_true", help="thali with numbers also")
    parser.add_argument("--time-budget", type=float, help="seconds of a fit of thali; no end else")
    options = parser.parse_args()
    methods = [] if options.only_thali else list(METHODS)
    if not options.only_peers:
        methods += ["thali", "thali, standardized"] if options.standardized else ["thali"]
        few = make("iris")
        own(hide(few, 0), few, 1.0, True)  # compiled before the clock runs
    for group, names in GROUPS.items():
        table = []
        for name in names:
            if options.tables and name not in options.tables:
                continue
            try:
                table += rows(name, run(name, methods, options.masks, options.time_budget))
            except real_data.Skipped as reason:
                print(reason, file=sys.stderr)
        heads = ["table", "measure", *methods]
        for method in (m for m in methods if m.startswith("thali")):
            heads += [f"{method} / best", "coverage"]
        if table:
            print(f"\n{group}\n\n{markdown(heads, table)}", flush=True)


if __name__ == "__main__":
    main()
