"""The two tables of `valera_2020.py`, from the folder that the variable THALI_DATA names, with the
columns that the authors' examples keep and the transforms that they make.

Patients: five columns of sixteen. Counties: eleven of nineteen, the two ages of 65 and more added
up. Where the examples model log(1 + x), or log(101 − x) of the percentage that is white, the column
here is 1 + x, or 1 + (100 − x), of kind "positive", and its name ends in PLUS. All other kinds are
those of the files, but for age and votes in percent: the examples have softplus there, which so far
from 0 is a straight line all but exactly, and no logarithm, so that these columns are "real".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from presenting import read

PLUS = " + 1"
KINDS = {"c": "categorical", "o": "ordinal", "n": "count", "p": "positive", "g": "real"}
DEATHS = {
    "alive": "alive",
    "vascular": "heart or vessels",
    "prostatic ca": "prostate cancer",
    "others": "other causes",
}


class Example(NamedTuple):
    """A table, the kinds of its columns, and what the authors' script says of its answer."""

    title: str
    frame: pd.DataFrame
    types: dict[str, Any]
    told: str
    patterns_of: int | None  # of how many features patterns are looked at; None: of all that count
    single: bool  # whether the picture has one feature at a time, and not patterns


def raw(file: str) -> tuple[pd.DataFrame, dict[str, str], dict[str, list[str]]]:
    """A file's columns, their kinds, and the names of levels where it has them."""
    found = read(file)
    names = found["columns"].tolist()
    kinds = dict(zip(names, (KINDS[letter] for letter in str(found["types"])), strict=True))
    levels = dict(zip(names, (text.split(";") for text in found["cat_labels"]), strict=True))
    return pd.DataFrame(found["X"], columns=names), kinds, levels


def named(x: pd.Series, levels: list[str]) -> pd.Series:
    """Levels by name: the smallest number is the first."""
    place = {value: levels[i] for i, value in enumerate(np.sort(x.dropna().unique()))}
    return x.map(place)


def patients() -> Example:
    """Of the prostate cancer trial: 502 men, treated with four doses of an oestrogen."""
    X, kinds, levels = raw("prostate_glfm.npz")
    doses, deaths = ["0 or 0.2 mg", "1 mg", "5 mg"], [DEATHS[word] for word in levels["status"]]
    frame = pd.DataFrame(
        {
            "stage": named(X["stage"], levels["stage"]),
            "dose": named(X["rx"], doses),
            "status": named(X["status"], deaths),
            "tumour": X["sz"],
            "phosphatase" + PLUS: X["ap"] + 1.0,
        }
    )
    types: dict[str, Any] = dict(
        zip(frame, (kinds[name] for name in ("stage", "rx", "status", "sz", "ap")), strict=True)
    )
    types["dose"] = {"kind": types["dose"], "levels": doses}
    types["status"] = {"kind": types["status"], "levels": deaths}
    told = "four features beside the bias that 3% of the rows or more have"
    return Example("Prostate cancer trial", frame, types, told, None, True)


def counties() -> Example:
    """Of the United States, with their vote for president in 1992."""
    X, kinds, levels = raw("counties_glfm.npz")
    own = {
        "state": named(X["state"], levels["state"]),
        "density" + PLUS: X["pop.density"] + 1.0,
        "age 65": X["age6574"] + X["age75"],
        "college" + PLUS: X["college"] + 1.0,
        "income": X["income"],
        "farm" + PLUS: X["farm"] + 1.0,
        "Democrat": X["democrat"],
        "Republican": X["republican"],
        "Perot": X["Perot"],
        "not white" + PLUS: 101.0 - X["white"],
        "black" + PLUS: X["black"] + 1.0,
    }
    types: dict[str, Any] = dict.fromkeys(own, "positive")
    types |= dict.fromkeys(("age 65", "Democrat", "Republican", "Perot"), "real")
    types["state"] = {"kind": kinds["state"], "levels": levels["state"]}
    told = "patterns of the three most frequent features, five of which more than 240 counties have"
    return Example("US counties", pd.DataFrame(own), types, told, 3, False)


EXAMPLES = {"prostate": patients, "counties": counties}


def make(name: str, quick: bool) -> Example:
    """An example, or a part of its rows, or `Skipped` with the reason."""
    example = EXAMPLES[name]()
    if not quick:
        return example
    return example._replace(
        frame=example.frame.sample(min(120, len(example.frame)), random_state=0)
    )


def plain(column: str) -> str:
    """The name of what a column is made of."""
    return column.removesuffix(PLUS)


def own(column: str, value: Any) -> Any:
    """A value of a column in the units of what it is made of."""
    return value - 1.0 if column.endswith(PLUS) else value
