"""Valera, Pradier, Lomeli and Ghahramani (2020), "General latent feature models for heterogeneous
datasets": the two data explorations, a trial of a drug against prostate cancer and the counties of
the United States, by `MixedColumns`.

As in the scripts of the authors' package (demo_data_exploration_prostate and _counties): columns
and transforms (`valera_2020_tables.py`), a bias that all rows have, α = 1, features that fewer than
3% of the rows have left out of the answer, one feature at a time for patients, and for counties the
patterns of the three most frequent features. Other than there: the size of the effects is inferred
and not 1, the number of features has no bound (theirs: 10), latents of levels have noise of size 1,
positive numbers are modelled by their logarithm and not by softplus, and what is told is of the
second half of two chains, not of the last of 100 or 10,000 iterations. The scripts hold no numbers
of an answer but those that the report names.

    THALI_DATA=… python reproductions/valera_2020.py [--out valera_2020] [--full]

--full hides 10% to 50% of the entries, as the paper does with other tables, by five masks; else 10%
and 50%. benchmarks/hidden_entries.py compares other methods on both tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from presenting import Section, Skipped, parser_of, table, write_report
from valera_2020_hidden import CHAINS, compare, fitted
from valera_2020_pictures import picture
from valera_2020_tables import Example, make, own, plain

import thali
from thali.results.own_values import OwnValues

PAPER = "Valera, Pradier, Lomeli and Ghahramani (2020), data exploration"
LEAST = 0.03  # of the rows: features that fewer have are left out of the answer
SWEEPS = {"prostate": 1000, "counties": 300}
HIDDEN_SWEEPS = {"prostate": 300, "counties": 60}
MASKS = {"prostate": 3, "counties": 1}
DRAWS = 100
MOST = 8  # patterns that are told
OFTEN = 240 / 3141  # of the rows: patterns that more have are drawn
MANY = 10  # levels from which on a column is told by its likeliest


def explore(name: str, options: argparse.Namespace) -> Section:
    """What the features of a table are, and which rows have them."""
    try:
        example = make(name, options.quick)
    except Skipped as reason:
        return Section(name, [str(reason)], {})
    prior, sweeps = thali.IBP(alpha=1.0), 30 if options.quick else SWEEPS[name]
    model = fitted(example, example.frame, prior, sweeps, options.seed)
    kept = np.flatnonzero(model.Z_.mean(axis=0) >= LEAST)
    draws = list(model.draws())  # chain after chain
    numbers = [
        np.array([draw.Z.shape[1] for draw in draws]),
        np.array([(draw.Z.mean(axis=0) >= LEAST).sum() for draw in draws]),
    ]
    chains = np.median(numbers[1].reshape(CHAINS, -1), axis=1)
    lines = [
        f"{len(example.frame)} rows. Features that {LEAST:.0%} of the rows or more have: "
        f"{len(kept)} in the point estimate, {' and '.join(f'{n:.0f}' for n in chains)} in the "
        f"median draw of the chains; of any size {np.median(numbers[0]):.0f} in the median draw. "
        f"The authors' script: {example.told}. {model.convergence().headline}",
        "",
        "What is expected of a row with the bias alone, and of one with each feature alone:",
        "",
        *effects_table(example, model, kept),
        "",
        *words(model, kept),
    ]
    asked = kept if example.patterns_of is None else kept[: example.patterns_of]
    patterns, rows = patterns_of(model.Z_[:, asked])
    lines += ["", "Patterns, and the rows that have them (medians, and shares of levels):", ""]
    lines += patterns_table(example, patterns, rows)
    if name == "prostate":
        lines += ["", "Status by dose, observed, and as the model has it (mean over draws):", ""]
        lines += by_dose(example, model)
    Z, labels = shown(example, model, asked, patterns, rows)
    figure = picture(example, model, Z, labels, numbers)
    return Section(example.title, lines, {f"{name}.png": figure})


def shown(
    example: Example, model: Any, asked: np.ndarray, patterns: np.ndarray, rows: list[np.ndarray]
) -> tuple[np.ndarray, list[str]]:
    """The rows of the picture, whose other features are none, and what they are called."""
    often = [len(at) > OFTEN * len(model.Z_) for at in rows]
    some = np.eye(len(asked), dtype=np.uint8) if example.single else patterns[often]
    none = np.zeros((1, len(asked)), np.uint8)
    some = np.vstack([none, some[some.any(axis=1)]])
    Z = np.zeros((len(some), model.n_components_), np.uint8)
    Z[:, asked] = some
    if example.single:
        shares = model.Z_[:, asked].mean(axis=0)
        return Z, ["bias alone", *(f"F{k} ({p:.0%})" for k, p in enumerate(shares, start=1))]
    share = {tuple(p): len(at) / len(model.Z_) for p, at in zip(patterns, rows, strict=True)}
    return Z, [f"{told(z)} ({share.get(tuple(z), 0.0):.0%})" for z in some]


def told(pattern: np.ndarray) -> str:
    """The features of a pattern."""
    return "".join(f"F{k}" for k in np.flatnonzero(pattern) + 1) or "bias alone"


def effects_table(example: Example, model: Any, kept: np.ndarray) -> list[str]:
    """A column for each feature, a row for each column of the table, or level of it."""
    found = model.effects().astype({"level": object})
    head = ["", "bias alone", *(f"F{k}" for k in range(1, len(kept) + 1))]
    shares = [f"{p:.0%}" for p in model.Z_[:, kept].mean(axis=0)]
    lines = [["rows that have it", "", *shares]]
    many = found.groupby("column", sort=False)["level"].nunique() > MANY
    for (column, level), part in found.groupby(["column", "level"], sort=False, dropna=False):
        if many[column]:
            continue
        part = part.set_index("feature").loc[kept + 1]
        values = [part["without"].iloc[0], *part["with"]]
        if pd.isna(level):
            lines.append([plain(column), *(number(own(column, x)) for x in values)])
        else:
            lines.append([f"P({column} = {level})", *(f"{x:.0%}" for x in values)])
    return table(head, lines)


def words(model: Any, kept: np.ndarray) -> list[str]:
    """What each feature does most, in words; of columns of many levels the three that gain most."""
    found = model.effects()
    size, lines = np.abs(model.components_), []
    for k, feature in enumerate(kept, start=1):
        part = found[found["feature"] == feature + 1]
        many = part["level"].map(lambda level: level is not None) & (
            part.groupby("column")["level"].transform("size") > MANY
        )
        rest = part[~many]
        latent = [first_latent(model, column, level) for column, level in
                  zip(rest["column"], rest["level"], strict=True)]  # fmt: skip
        strongest = rest.iloc[np.argsort(-size[feature, latent])[:4]]["words"].tolist()
        strongest += part[many].nlargest(3, "effect")["words"].tolist()
        lines.append(f"- F{k}: {'; '.join(strongest)}.")
    return lines


def first_latent(model: Any, column: str, level: Any) -> int:
    """The latent of a column, or of a level where it has one for each."""
    layout = model.likelihood_.known
    d = list(layout.table.labels).index(column)
    own = layout.columns[d].levels.index(level) if d in layout.leveled else 0
    return int(layout.first[d]) + own


def patterns_of(Z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Patterns, the most frequent first, and their rows."""
    patterns, which, counts = np.unique(Z, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return patterns[order].astype(np.uint8), [np.flatnonzero(which.ravel() == i) for i in order]


def patterns_table(example: Example, patterns: np.ndarray, rows: list[np.ndarray]) -> list[str]:
    """What rows with a pattern are like: nothing of this is the model's."""
    frame, lines = example.frame, []
    head = ["pattern", "rows", "share", *(plain(column) for column in frame)]
    for pattern, at in list(zip(patterns, rows, strict=True))[:MOST]:
        cells = [told(pattern), len(at), f"{len(at) / len(frame):.0%}"]
        lines.append(cells + [typical(column, frame[column].iloc[at]) for column in frame])
    lines.append(["all", len(frame), "100%", *(typical(c, frame[c]) for c in frame)])
    return table(head, lines)


def number(x: float) -> str:
    """Three digits, or all before the point."""
    return f"{x:,.0f}" if abs(x) >= 100.0 else f"{x:.3g}"


def typical(column: str, x: pd.Series) -> str:
    """The median of numbers, or the commonest levels and their shares."""
    if pd.api.types.is_numeric_dtype(x):
        return number(own(column, x.median()))
    return ", ".join(f"{level} {p:.0%}" for level, p in x.value_counts(normalize=True)[:2].items())


def by_dose(example: Example, model: Any) -> list[str]:
    """P(status | dose): as it is, and of the model, Σ_n P(dose | z_n) P(status | z_n)."""
    layout, names = model.likelihood_.known, list(example.frame)
    a, b = names.index("dose"), names.index("status")
    doses, deaths = (layout.columns[d].levels for d in (a, b))
    each = []
    for draw in model.draws(DRAWS):
        likelihood = model.fit_.model.likelihood_at(draw.hyper)
        whole = OwnValues.whole(likelihood.entries_at(likelihood.latent_mean(draw.Z, draw.A)))
        joint = whole.probabilities(a).T @ whole.probabilities(b)
        each.append(joint / joint.sum(axis=1, keepdims=True))
    expected = np.mean(each, axis=0)
    seen = pd.crosstab(example.frame["dose"], example.frame["status"], normalize="index")
    seen = seen.reindex(index=doses, columns=deaths, fill_value=0.0).to_numpy()
    rows = [
        [dose, *(f"{x:.0%}, {y:.0%}" for x, y in zip(seen[i], expected[i], strict=True))]
        for i, dose in enumerate(doses)
    ]
    lines = [*table(["dose", *deaths], rows), ""]
    for j, death in enumerate(deaths):
        more = np.array([p[-1, j] - p[0, j] for p in each])
        low, high = np.quantile(more, [0.05, 0.95])
        lines.append(
            f"- {death}, {doses[-1]} less {doses[0]}: observed {seen[-1, j] - seen[0, j]:+.0%}, "
            f"by the model {more.mean():+.0%} ({low:+.0%} to {high:+.0%} in 90% of draws)."
        )
    return lines


def hidden(name: str, options: argparse.Namespace) -> Section:
    """How well hidden entries are predicted."""
    try:
        example = make(name, options.quick)
    except Skipped as reason:
        return Section(f"Hidden entries, {name}", [str(reason)], {})
    shares = (0.1, 0.2, 0.3, 0.4, 0.5) if options.full else (0.1, 0.5)
    sweeps = 10 if options.quick else HIDDEN_SWEEPS[name]
    masks = 1 if options.quick else 5 if options.full else MASKS[name]
    rows, lines = [], ["", "By column, features less by itself:", ""]
    for share in shares:
        found = [compare(example, share, sweeps, options.seed + m) for m in range(masks)]
        each = np.array([[np.average(s, weights=n) for s in rest] for n, *rest in found])
        more = each[:, 0] - each[:, 2]
        cells = [f"{x:.3f}" for x in each.mean(axis=0)]
        rows.append([f"{share:.0%}", *cells, f"{more.mean():.3f}", f"{more.min():.3f}"])
        gain = np.mean([one[1] - one[3] for one in found], axis=0)
        said = (f"{plain(c)} {g:+.2f}" for c, g in zip(example.frame, gain, strict=True))
        lines.append(f"- {share:.0%} hidden: {', '.join(said)}.")
    head = ["hidden", "features", "none", "by itself", "features less by itself", "least"]
    about = f"Mean log probability of a hidden entry in nats, masks: {masks}, sweeps: {sweeps}."
    title = f"Hidden entries. {example.title}"
    return Section(title, [about, "", *table(head, rows), *lines], {})


PARTS: dict[str, Callable[[argparse.Namespace], Section]] = {
    "prostate": partial(explore, "prostate"),
    "counties": partial(explore, "counties"),
    "prostate_hidden": partial(hidden, "prostate"),
    "counties_hidden": partial(hidden, "counties"),
}


def main() -> None:
    parser = parser_of("valera_2020", __doc__, PARTS, "five shares of hidden entries, five masks")
    parser.add_argument("--quick", action="store_true", help="some rows and few sweeps, for a look")
    options = parser.parse_args()
    caution = "Features are those of the point estimate; chains differ in the rarer ones."
    write_report(PAPER, PARTS, options, caution)


if __name__ == "__main__":
    main()
