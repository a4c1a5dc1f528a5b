"""Tables of all kinds for benchmarks of hidden entries, as data frames with the types of columns.

A column is of one of six kinds, and has the type that says so:

    kind          type in the frame      number that it is for methods that know numbers alone
    yes/no        boolean                0 or 1
    category      category               an indicator of each level
    ordinal       ordered category       the place of its level, 0, 1, …
    count         Int64                  log(1 + x)
    positive      float64                log(1 + x)
    real          float64                itself

    name          rows   columns   from
    votes         435    16        THALI_DATA, house_votes84.npz; 392 entries missing
    animals       50     85        THALI_DATA, animals50_kemp.npz
    words         1000   100       THALI_DATA, 20news_w100.npz, rows with three words or more
    tags          1000   100       THALI_DATA, mirflickr_tags.npz, commonest tags, rows with two
    groceries     1000   60        THALI_DATA, groceries.npz, commonest items, rows with two
    pixels        500    143       THALI_DATA, mnist_binary_2000.npz, every other pixel each way
    iris          150    4         scikit-learn
    wine          178    13        scikit-learn
    cancer        569    30        scikit-learn
    digits        1797   54        scikit-learn, pixels that 20 images or more have
    sonar         208    60        THALI_DATA, sonar.npz
    expression    100    23        THALI_DATA, ecoli_nca.npz, genes × times
    spectrogram   500    161       THALI_DATA, audio_vibeace_500x161.npz
    diabetes      442    11        scikit-learn, own units, with the disease's progression
    prostate      502    16        THALI_DATA, prostate_glfm.npz (Valera and others 2020)
    counties      3141   16        THALI_DATA, counties_glfm.npz, without the county's name and the
                                   numbers of two areas, which are names too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import real_data
from sklearn import datasets

__all__ = ["DISCRETE", "GROUPS", "NAMES", "Hidden", "Table", "hide", "make"]

HIDDEN = 0.1
DISCRETE = ("yes/no", "category")  # these are given probabilities, others numbers
LETTERS = {"g": "real", "p": "positive", "n": "count", "o": "ordinal", "c": "category"}
GROUPS = {
    "yes/no": ("votes", "animals", "words", "tags", "groceries", "pixels"),
    "continuous": ("iris", "wine", "cancer", "digits", "sonar", "expression", "spectrogram"),
    "mixed": ("diabetes", "prostate", "counties"),
}
NAMES = tuple(name for names in GROUPS.values() for name in names)


class Table(NamedTuple):
    frame: pd.DataFrame
    kinds: dict[str, str]  # of each column


class Hidden(NamedTuple):
    """A table without some of its entries, and which they are."""

    table: Table
    where: np.ndarray  # N×D, of entries that were there


def yes_no(X: np.ndarray, names: np.ndarray | None = None) -> Table:
    """Of 0 and 1; anything below is missing. Columns that never vary are left out."""
    X = np.asarray(X, float)
    names = np.array([f"x{j}" for j in range(X.shape[1])]) if names is None else names
    vary = [len(np.unique(x[x >= 0])) == 2 for x in X.T]
    frame = pd.DataFrame(np.where(X >= 0, X, np.nan)[:, vary], columns=names[vary])
    return Table(frame.astype("boolean"), dict.fromkeys(frame.columns, "yes/no"))


def commonest(file: str, columns: int, least: int, rows: int = 1000) -> Table:
    """A random part of the rows with so many ones or more, and the commonest columns."""
    X = real_data.sparse(real_data.archive(file)).toarray()
    X = X[:, np.sort(np.argsort(-X.sum(axis=0), kind="stable")[:columns])]
    able = np.flatnonzero(X.sum(axis=1) >= least)
    return yes_no(X[np.sort(np.random.default_rng(0).permutation(able)[:rows])])


def votes() -> Table:
    found = real_data.archive("house_votes84.npz")
    return yes_no(found["X"], found["columns"])


def animals() -> Table:
    found = real_data.archive("animals50_kemp.npz")
    return yes_no(found["X"], found["features"])


def pixels() -> Table:
    found = real_data.archive("mnist_binary_2000.npz")
    X = np.unpackbits(found["X"], axis=1)[:500, : int(found["n_pixels"])]
    return yes_no(X.reshape(-1, 28, 28)[:, ::2, ::2].reshape(len(X), -1))


def real(X: np.ndarray) -> Table:
    X = np.asarray(X, float)[:, np.ptp(X, axis=0) > 0]
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return Table(frame, dict.fromkeys(frame.columns, "real"))


def digits() -> Table:
    """Without pixels that a few images have: one such entry would outweigh all others."""
    X = datasets.load_digits().data
    return real(X[:, (X != 0).sum(axis=0) >= 20])


def diabetes() -> Table:
    frame = datasets.load_diabetes(as_frame=True, scaled=False).frame
    kinds = dict.fromkeys(frame.columns, "real") | {"sex": "yes/no"}
    return Table(frame.astype(float).assign(sex=(frame["sex"] == 2).astype("boolean")), kinds)


def glfm(file: str, without: tuple[str, ...] = ()) -> Table:
    """A table of the General Latent Feature Model, by its string of types."""
    found, series, kinds = real_data.archive(file), {}, {}
    for name, letter, x in zip(
        found["columns"].tolist(), str(found["types"]), found["X"].T, strict=True
    ):
        if name not in without:
            series[name], kinds[name] = typed(x, LETTERS[letter])
    return Table(pd.DataFrame(series), kinds)


def typed(x: np.ndarray, kind: str) -> tuple[pd.Series, str]:
    """A column with its type; a category of two levels is a yes/no."""
    levels = np.unique(x[~np.isnan(x)])
    if kind == "category" and len(levels) == 2:
        yes = pd.Series(np.where(np.isnan(x), np.nan, x == levels[1]))
        return yes.astype("boolean"), "yes/no"
    if kind in ("category", "ordinal"):
        codes = np.where(np.isnan(x), -1, np.searchsorted(levels, x))
        words = [f"level {level:g}" for level in levels]
        return pd.Series(pd.Categorical.from_codes(codes, words, ordered=kind == "ordinal")), kind
    return pd.Series(x).astype("Int64") if kind == "count" else pd.Series(x), kind


SOURCES: dict[str, Callable[[], Table]] = {
    "votes": votes,
    "animals": animals,
    "words": lambda: commonest("20news_w100.npz", 100, 3),
    "tags": lambda: commonest("mirflickr_tags.npz", 100, 2),
    "groceries": lambda: commonest("groceries.npz", 60, 2),
    "pixels": pixels,
    "iris": lambda: real(datasets.load_iris().data),
    "wine": lambda: real(datasets.load_wine().data),
    "cancer": lambda: real(datasets.load_breast_cancer().data),
    "digits": digits,
    "sonar": lambda: real(real_data.archive("sonar.npz")["X"]),
    "expression": lambda: real(real_data.archive("ecoli_nca.npz")["expression"]),
    "spectrogram": lambda: real(real_data.archive("audio_vibeace_500x161.npz")["X"]),
    "diabetes": diabetes,
    "prostate": lambda: glfm("prostate_glfm.npz"),
    "counties": lambda: glfm("counties_glfm.npz", ("county", "msa", "pmsa")),
}


def make(name: str) -> Table:
    """A table, or `real_data.Skipped` with the reason."""
    return SOURCES[name]()


def hide(table: Table, seed: int) -> Hidden:
    """One entry of ten of those that are there, at random."""
    there = table.frame.notna().to_numpy()
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero(there))
    where = np.zeros(there.shape, bool)
    where.flat[chosen[: int(HIDDEN * len(chosen))]] = True
    return Hidden(Table(table.frame.mask(where), table.kinds), where)


if __name__ == "__main__":
    for name in NAMES:
        try:
            table = make(name)
        except real_data.Skipped as reason:
            print(reason)
        else:
            kinds = pd.Series(table.kinds).value_counts().to_dict()
            missing = int(table.frame.isna().sum().sum())
            print(f"{name}: {table.frame.shape}, {kinds}, {missing} missing")
