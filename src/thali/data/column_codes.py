"""A column and its codes: the values of a person's table as numbers, and back.

    binary                 0 and 1             the second of two levels is 1
    categorical, ordinal   0, 1, …, R − 1      the place among the levels
    real, positive, count, censored            the numbers themselves

NaN is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
import pandas as pd

from thali.data.column_values import Values, objects, plain
from thali.settings import shown

KINDS = ("real", "positive", "binary", "categorical", "ordinal", "count", "censored")
WITH_LEVELS = ("binary", "categorical", "ordinal")


@dataclass(frozen=True)
class Column:
    """One column of a table: what it holds, and how that is known.

    Attributes
    ----------
    name : str
        Its name, or its number from 0 on in a table without names.
    kind : str
        One of ``KINDS``.
    levels : tuple
        The values of a binary, categorical or ordinal column in order; value number r is coded r.
    low, high : float
        Of a censored column: a value at or beyond one of them is known to be that or more extreme,
        and no more.
    why : str
        How the kind was found.
    dtype : str
        The type in which values come back.
    """

    name: str
    kind: str
    levels: tuple[Any, ...] = ()
    low: float = -inf
    high: float = inf
    why: str = ""
    dtype: str = "float64"


# -------------------------------------------------------------------------- values into codes


def codes_of(column: Column, values: Values, new: bool = False) -> np.ndarray:
    """The values of a column as codes (N,) in float64, NaN where missing, if they fit its kind.

    ``new`` rows are others than those by which the column was found.
    """
    if column.kind in WITH_LEVELS:
        return level_codes(column, values, new)
    numbers = values.numbers
    with np.errstate(invalid="ignore"):
        wrong = {
            "count": (numbers < 0.0) | (numbers != np.rint(numbers)),
            "positive": numbers <= 0.0,
        }.get(column.kind)
    if wrong is not None and (wrong & ~np.isnan(numbers)).any():
        i = int((wrong & ~np.isnan(numbers)).argmax())
        need = "whole numbers from 0 on" if column.kind == "count" else "numbers above 0"
        real = f"types={{{column.name!r}: 'real'}}"
        advice = f"fit again with {real}" if new else f"declare it real, {real}"
        raise ValueError(
            f"Column {column.name!r} has {numbers[i]:g} at row {i}, where a {column.kind} column "
            f"has {need}; correct it, leave it missing (NaN), or {advice}."
        )
    return numbers


def level_codes(column: Column, values: Values, new: bool) -> np.ndarray:
    """Places among the levels; a value that is none of them is refused."""
    places = {level: r for r, level in enumerate(column.levels)}
    if values.own.dtype.kind == "O":
        own = with_none(values.own, values.missing)
        at = np.array([places.get(value, -1) for value in own], dtype=np.int64)
    else:
        each, which = np.unique(values.own, return_inverse=True)
        at = np.array([places.get(plain(v), -1) if v == v else -1 for v in each], np.int64)[which]
    unknown = (at < 0) & ~values.missing
    if unknown.any():
        i = int(unknown.argmax())
        raise refused_level(column, plain(values.own[i]), i, new)
    return np.where(values.missing, np.nan, at)


def with_none(own: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Values as objects, None where missing."""
    found = own.astype(object)
    found[missing] = None
    return found


def refused_level(column: Column, value: Any, row: int, new: bool) -> ValueError:
    """What is said of a value that is not among the levels."""
    levels = ", ".join(map(shown, column.levels[:10])) + ", …" * (len(column.levels) > 10)
    if not new:
        return ValueError(
            f"Column {column.name!r} has {shown(value)} at row {row}, which is none of its levels "
            f"({levels}); correct it, leave it missing (None or NaN), or add it to the levels."
        )
    count = not isinstance(value, str) and column.kind == "ordinal"
    other = f"types={{{column.name!r}: 'count'}}" if count else "it among the levels in types"
    return ValueError(
        f"Column {column.name!r} has {shown(value)} at row {row}, a value that the fitted rows do "
        f"not have ({levels}); leave it missing (None or NaN), or fit again with {other}."
    )


def shown_levels(column: Column, most: int = 5) -> str:
    """The first levels, in order, or the limits of a censored column.

    >>> shown_levels(Column("stage", "ordinal", ("low", "mid", "high")))
    'low < mid < high'
    >>> shown_levels(Column("time", "censored", high=100.0))
    '100 or more'
    """
    if column.kind == "censored":
        ends = ((column.low, "or less"), (column.high, "or more"))
        return ", ".join(f"{end:g} {word}" for end, word in ends if isfinite(end))
    between = " < " if column.kind == "ordinal" else ", "
    words = [
        str(level) if len(str(level)) <= 20 else f"{str(level)[:19]}…" for level in column.levels
    ]
    if len(words) > most:
        return f"{between.join(words[:most])}{between}… ({len(words)} in all)"
    return between.join(words)


# --------------------------------------------------------------------------- codes into values


def values_of(column: Column, codes: np.ndarray) -> Any:
    """The values (N,) that codes stand for, in the type of the column where that can be.

    NaN is missing. A whole-numbered column gives whole numbers, the nearest ones.
    """
    missing = np.isnan(codes)
    if column.kind not in WITH_LEVELS:
        return in_dtype(codes, missing, column.dtype)
    places = np.where(missing, 0.0, codes)
    wrong = (places != np.rint(places)) | (places < 0) | (places >= len(column.levels))
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(
            f"Column {column.name!r} has the code {places[i]:g} at row {i}, where a {column.kind} "
            f"column has whole numbers from 0 to {len(column.levels) - 1}."
        )
    at = places.astype(np.int64)
    if column.dtype.endswith("category"):
        return pd.Categorical.from_codes(
            np.where(missing, -1, at), list(column.levels), ordered=column.dtype != "category"
        )
    return in_dtype(objects(column.levels)[at], missing, column.dtype)


def in_dtype(own: np.ndarray, missing: np.ndarray, dtype: str) -> Any:
    """Values in a type of NumPy or pandas; in one that can hold missing ones, if there are."""
    try:
        wanted = np.dtype("U") if dtype == "U" else pd.api.types.pandas_dtype(dtype)
    except TypeError:  # of a library that is not installed here
        return own
    kind = wanted.kind
    if own.dtype.kind == "f" and kind in "iu":
        own = rounded(own, wanted)
    if not missing.any() and isinstance(wanted, np.dtype):
        return own.astype(wanted)
    own = with_none(own, missing)
    if not isinstance(wanted, np.dtype):
        return pd.array(own, dtype=wanted)
    return own.astype(wanted if kind == "f" else np.float64) if kind in "iuf" else own


def rounded(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The nearest whole numbers that a type can hold, NaN where there is none."""
    info = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    low, high = float(info.min), float(info.max)
    high = high if int(high) <= info.max else float(np.nextafter(high, 0.0))
    return np.asarray(np.clip(np.rint(x), low, high))
