"""The kind of a column: found from its values, or declared.

truth values                                  binary
ordered categories                            ordinal; binary if there are two
other categories, text                        categorical; binary if there are two
whole numbers   two different ones            binary; so are only zeros, and only ones
                a run of 3 to ``FEW`` that    ordinal
                begins at 1, 0 or below
                from 1 to at most ``STEPS``,  ordinal
                all used but one, the last
                by ``ROWS_A_LEVEL`` rows
                none negative                 count
                else                          real
other numbers   two different ones, of        binary
                ``SURE`` or more
                all positive, with a tail     positive
                over orders of magnitude that
                logarithms lose
                else                          real
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

import numpy as np

from thali.data.column_codes import KINDS, WITH_LEVELS, Column, codes_of
from thali.data.column_values import Values, plain
from thali.data.tables.text import MISSING, are_dates, means_numbers, numbers, plain_number
from thali.settings import shown

FEW = 5  # whole numbers one after another up to which they are steps of a scale, not a count
STEPS = 10  # of a scale that begins at 1; of a count that does the last is rare
SURE = 10  # numbers with fractions from which on two different ones are levels, and not few numbers
MANY = 50  # levels beyond which text looks like names or identifiers,
ROWS_A_LEVEL = 10  # unless so many rows have each of them
MOST = 300  # levels at all: each has a latent, in every row
SKEWED = 2.0  # skewness from which on the tail of positive numbers is long; exponential: 2
STRAIGHTENED = 0.5  # of that skewness, at most, that their logarithms may have
ORDERS = 10.0  # medians that one of a hundred is beyond: a shorter tail is as well left as it is

DECLARED = ("kind", "levels", "low", "high")  # what may be said of a column
WRITTEN = ("why", "dtype", "label")  # what is written beside it in a file, and read over here


# --------------------------------------------------------------------------------- kinds, found


def found(values: Values) -> Column:
    """The kind of a column by the rules above.

    >>> from thali.data.column_values import columns_of
    >>> columns, _ = columns_of([[0.2, 3, "no"], [0.9, 17, "yes"], [-1.5, 4, None]])
    >>> [found(column).kind for column in columns]
    ['real', 'count', 'binary']
    """
    if values.categories is not None:
        return of_categories(values)
    if values.form == "truth":
        why = "only True and False" if values.dtype == "object" else f"dtype {values.dtype}"
        return column(values, "binary", (False, True), why)
    if values.form == "mixed":
        raise refused_mixed(values)
    if values.form == "text":
        refuse_text_of_dates(values)
        levels = tuple(values.distinct)
        refuse_many(values, len(levels))
        why = f"text with {different(len(levels))}"
        if len(levels) == (~values.missing).sum() > 2:
            why += ", no two rows alike"
        return column(values, "binary" if len(levels) == 2 else "categorical", levels, why)
    whole = values.own.dtype.kind in "iu" or bool((values.distinct % 1 == 0).all())
    return of_whole_numbers(values) if whole else of_numbers(values)


def of_categories(values: Values) -> Column:
    """Of categories, unused ones included."""
    levels = values.categories or ()
    refuse_many(values, len(levels))
    kind = "ordinal" if values.ordered else "categorical"
    ordered = ", ordered" if values.ordered else ""
    why = f"dtype category{ordered}, {len(levels)} level{'s' * (len(levels) != 1)}"
    return column(values, "binary" if len(levels) == 2 else kind, levels, why)


def of_whole_numbers(values: Values) -> Column:
    """Of whole numbers, in whatever type they came."""
    different, low, high = values.distinct, values.distinct[0], values.distinct[-1]
    if low in (0, 1) and high <= 1:
        why = "only 0 and 1" if low < high else f"only {plain(low)}"
        return column(values, "binary", (0, 1), why)
    levels = tuple(plain(value) for value in different[:FEW])
    if len(different) == 2:
        return column(values, "binary", levels, f"only {levels[0]} and {levels[1]}")
    range_ = f"whole numbers from {plain(low)} to {plain(high)}"
    if 3 <= len(different) <= FEW and low <= 1 and high - low == len(different) - 1:
        return column(values, "ordinal", levels, range_)
    if is_scale(values):
        return column(values, "ordinal", tuple(range(1, plain(high) + 1)), range_ + ", a scale")
    why = f"{len(different)} {'different ' * (len(different) > 1)}{range_}"
    if len(different) == 1:
        why = f"only {plain(low)}"
    return column(values, "count" if low >= 0 else "real", (), why)


def is_scale(values: Values) -> bool:
    """Whether whole numbers are the steps of a scale from 1 to at most ``STEPS``.

    >>> from thali.data.column_values import columns_of
    >>> answers, children = np.arange(70) % 7 + 1, np.r_[np.arange(66) % 3 + 1, 4, 5, 6, 7]
    >>> columns, _ = columns_of(np.column_stack([answers, children]))
    >>> [is_scale(column) for column in columns]
    [True, False]
    """
    low, high = values.distinct[0], values.distinct[-1]
    last = (values.numbers[~values.missing] == high).sum()
    return bool(
        low == 1
        and FEW < high <= STEPS
        and len(values.distinct) >= high - 1
        and last >= ROWS_A_LEVEL
    )


def of_numbers(values: Values) -> Column:
    """Of numbers with fractions."""
    seen = values.numbers[~values.missing]
    if len(values.distinct) == 2 and len(seen) >= SURE:
        levels = tuple(plain(value) for value in values.distinct)
        return column(values, "binary", levels, f"only {levels[0]} and {levels[1]}")
    if seen.min() > 0.0 and len(values.distinct) > 2 and has_long_tail(seen):
        skew, log_skew = skewness(seen), skewness(np.log(seen))
        why = f"positive, skewness {skew:.1f}, of logarithms {log_skew:.1f}"
        return column(values, "positive", (), why)
    return column(values, "real", (), "numbers with fractions")


def has_long_tail(x: np.ndarray) -> bool:
    """Whether positive numbers spread over orders of magnitude, which their logarithms do not.

    >>> has_long_tail(np.exp(2.0 * np.random.default_rng(0).standard_normal(500)))
    True
    >>> has_long_tail(np.random.default_rng(0).exponential(size=500))
    False
    """
    skew = skewness(x)
    if skew <= SKEWED or np.quantile(x, 0.99) <= ORDERS * np.median(x):
        return False
    return abs(skewness(np.log(x))) <= STRAIGHTENED * skew


def skewness(x: np.ndarray) -> float:
    """Mean cube of the standardized values; 0 where all are equal.

    >>> round(skewness(np.array([0.0, 0.0, 0.0, 4.0])), 3), skewness(np.array([4.0, 4.0]))
    (1.155, 0.0)
    """
    scale = float(np.abs(x).max()) or 1.0  # cubes of large numbers overflow
    deviations = x / scale - np.mean(x / scale)
    variance = float(np.mean(deviations**2))
    if variance <= 1e-30:
        return 0.0
    return float(np.mean(deviations**3) / variance**1.5)


def column(
    values: Values,
    kind: str,
    levels: tuple[Any, ...],
    why: str,
    low: float = -inf,
    high: float = inf,
) -> Column:
    """The column with the type in which its values come back."""
    dtype = values.dtype
    if kind not in WITH_LEVELS and (values.form != "number" or values.categories is not None):
        dtype = "int64" if kind == "count" else "float64"
    return Column(values.name, kind, levels, low, high, why, dtype)


def different(n: int) -> str:
    return "one value" if n == 1 else f"{n} different values"


# ------------------------------------------------------------------------------ kinds, declared


def declared(values: Values, said: Mapping[str, Any]) -> Column:
    """The column as it is declared, if its values fit.

    >>> from thali.data.column_values import columns_of
    >>> (stage,), _ = columns_of([["mid"], ["low"], ["mid"]])
    >>> declared(stage, {"kind": "ordinal", "levels": ["low", "mid", "high"]}).levels
    ('low', 'mid', 'high')
    """
    name, kind = values.name, check_said(values.name, said)
    low, high = limits(name, kind, said)
    levels: tuple[Any, ...] = ()
    if kind in WITH_LEVELS:
        given = said.get("levels")
        levels = own_levels(values, kind) if given is None else given_levels(name, kind, given)
    made = column(values, kind, levels, "given", low, high)
    if np.isnan(codes_of(made, values)).all():  # of text such as "?", read as numbers
        raise ValueError(f"Column {name!r} has no number among its text; drop it.")
    return made


def check_said(name: str, said: Mapping[str, Any]) -> str:
    """The declared kind, after a look at what else is said."""
    for key in said:
        if key not in DECLARED + WRITTEN:
            raise ValueError(
                f"types: column {name!r} has {key!r}, which is none of {', '.join(DECLARED)}."
            )
    if "kind" not in said:
        raise ValueError(f"types: column {name!r} has no 'kind'; give one of {', '.join(KINDS)}.")
    kind = said["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        near = difflib.get_close_matches(str(kind), KINDS, n=1)
        hint = f"did you mean {near[0]!r}? Kinds" if near else "kinds"
        raise ValueError(
            f"types: column {name!r} has the unknown kind {shown(kind)}; "
            f"{hint} are {', '.join(KINDS)}."
        )
    if said.get("levels") and kind not in WITH_LEVELS:
        raise ValueError(
            f"types: column {name!r} is {kind} and has levels, which only binary, categorical and "
            "ordinal columns have."
        )
    return kind


def limits(name: str, kind: str, said: Mapping[str, Any]) -> tuple[float, float]:
    """Where a censored column ends below and above; ±∞ of others."""
    found = []
    for key, end in (("low", -inf), ("high", inf)):
        value = said.get(key)
        value = end if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"types: {key!r} of column {name!r} must be a number, not {value!r}.")
        found.append(float(value))
    low, high = found
    if kind != "censored":
        if isfinite(low) or isfinite(high):
            raise ValueError(
                f"types: column {name!r} is {kind} and has 'low' or 'high', which only censored "
                "columns have."
            )
        return -inf, inf
    if not (isfinite(low) or isfinite(high)):
        raise ValueError(
            f"types: column {name!r} is censored, but not said where: give 'low', 'high' or both, "
            f"such as {{'kind': 'censored', 'high': 100.0}}."
        )
    if not low < high:
        raise ValueError(
            f"types: column {name!r} has low = {low:g}, which is not below high = {high:g}."
        )
    return low, high


def given_levels(name: str, kind: str, given: Any) -> tuple[Any, ...]:
    """Levels that were declared, if they are different values, and two of a binary column."""
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"types: levels of column {name!r} must be a list of its values in order, not "
            f"{shown(given)}."
        )
    levels = []
    for value in given:
        number = isinstance(value, int | float | np.integer | np.floating) and isfinite(value)
        if not (number or isinstance(value, str | np.bool_)):
            raise TypeError(
                f"types: column {name!r} has {shown(value)} among its levels, which are text, "
                "finite numbers or truth values."
            )
        levels.append(plain(value))
    if len(set(levels)) < len(levels):
        twice = next(value for value in levels if levels.count(value) > 1)
        raise ValueError(f"types: column {name!r} has the level {twice!r} twice.")
    if not levels or (kind == "binary" and len(levels) != 2):
        need = "two levels" if kind == "binary" else "at least one level"
        raise ValueError(f"types: the {kind} column {name!r} needs {need}, not {len(levels)}.")
    return tuple(levels)


def own_levels(values: Values, kind: str) -> tuple[Any, ...]:
    """The levels of a column that was declared without them."""
    name, categories = values.name, values.categories
    if kind == "ordinal" and values.form in ("text", "mixed") and not values.ordered:
        some = ", ".join(shown(v) for v in values.distinct[:3])
        raise ValueError(
            f"Column {name!r} is declared ordinal, and the order of its text is not known; give "
            f"it: types={{{name!r}: {{'kind': 'ordinal', 'levels': [{some}, …]}}}}."
        )
    levels = tuple(plain(value) for value in values.distinct)
    if categories is not None and (kind != "binary" or len(categories) == 2):
        if kind == "ordinal" and not values.ordered:
            return tuple(sorted(categories))
        return categories
    if kind != "binary":
        return levels
    if len(levels) > 2:
        many = f"{', '.join(map(shown, levels[:3]))}{', …' * (len(levels) > 3)}"
        raise ValueError(
            f"Column {name!r} is declared binary and has {len(levels)} different values ({many}); "
            "declare it another kind, or make two values of them."
        )
    if values.form == "truth" or (values.form == "number" and set(levels) <= {0, 1}):
        return (False, True) if values.form == "truth" else (0, 1)
    if len(levels) == 1:
        raise ValueError(
            f"Column {name!r} is declared binary and has the one value {shown(levels[0])}; say "
            f"what the other may be: types={{{name!r}: {{'kind': 'binary', 'levels': [first, "
            "second]}}."
        )
    return levels


def refused_mixed(values: Values) -> ValueError:
    """What is said of numbers and text in one column."""
    text = np.array([isinstance(value, str) for value in values.own])
    i, j = (int(np.flatnonzero(~values.missing & which)[0]) for which in (text, ~text))
    return ValueError(
        f"Column {values.name!r} mixes text and numbers: {shown(values.own[i])} at row {i}, "
        f"{shown(values.own[j])} at row {j}. Make them one or the other, or declare the column: "
        f"types={{{values.name!r}: 'categorical'}}."
    )


def refuse_many(values: Values, levels: int) -> None:
    """Refuse text of very many different values, and categories of more than can be dealt with."""
    known = values.categories is not None or levels * ROWS_A_LEVEL <= (~values.missing).sum()
    if levels <= (MOST if known else MANY):
        return
    name, used = values.name, len(values.distinct)
    what = "looks like names or identifiers" if not known else "needs a latent for each of them"
    advice = f"drop it, or declare it: types={{{name!r}: 'categorical'}}"
    if values.categories is not None and used <= MANY:
        what = f"only {used} of them are used"
        advice = f"leave out the others with X[{name!r}].cat.remove_unused_categories()"
    elif (
        values.form == "text"
        and values.categories is None
        and means_numbers(values.distinct.tolist())
    ):
        what = "looks like numbers written as text"
        advice = as_numbers(values)
    raise ValueError(
        f"Column {name!r} has {levels} different values, more than {MOST if known else MANY}, and "
        f"{what}; {advice}."
    )


def refuse_text_of_dates(values: Values) -> None:
    """Refuse text that is dates: levels without order would be made of them."""
    if are_dates(values.distinct):
        name = values.name
        raise TypeError(
            f"Column {name!r} holds dates or times written as text, such as "
            f"{shown(values.distinct[0])}; convert them to numbers first, such as days since the "
            f"first, (day - day.min()).dt.days of day = pandas.to_datetime(X[{name!r}]), or drop "
            f"the column. If they are levels, declare it: types={{{name!r}: 'categorical'}}."
        )


def as_numbers(values: Values) -> str:
    """How to make numbers of text that is meant to be such."""
    name, cells = values.name, [str(value) for value in values.distinct]
    found, _ = numbers(cells)
    if not np.isnan(found).any():
        return f"convert it with X[{name!r}].astype(float)"
    odd = cells[int(np.isnan(found).argmax())]
    meant = plain_number(odd)
    if meant and odd.lower() not in MISSING:
        return f"write {shown(odd)} plainly ({meant}), and others like it"
    return (
        f"convert it with pandas.to_numeric(X[{name!r}], errors='coerce'), which leaves "
        f"{shown(odd)} missing"
    )


def all_numbers(values: Values) -> bool:
    """Whether text is numbers, but where it says that nothing is there."""
    return not numbers([str(value) for value in values.distinct])[1].any()
