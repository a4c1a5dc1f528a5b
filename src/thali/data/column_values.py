"""The columns of a person's table as they were given: values, what is missing, and their form.

The form is what the values are by themselves: truth values, numbers, text, or numbers and text
mixed. What can be none of these (dates, complex numbers, lists) is refused here, with the name of
the column, the row, and what to do.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Complex, Real
from typing import Any

import numpy as np
import pandas as pd

from thali.data.checks import (
    LARGEST,
    refuse_dimensions,
    refuse_empty,
    refuse_no_columns,
    refuse_other_than_tables,
)
from thali.data.tables.text import numbers
from thali.settings import shown

DATES = datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period
NESTED = list, tuple, dict, set, frozenset, np.ndarray, pd.Series


@dataclass(frozen=True, eq=False)
class Values:
    """One column: ``own`` values of N rows, anything where ``missing``.

    ``dtype`` is the name of the type in which they came. Categories are those of a pandas column.
    """

    name: str
    own: np.ndarray
    missing: np.ndarray
    form: str  # "truth", "number", "text", "mixed"
    dtype: str
    categories: tuple[Any, ...] | None = None
    ordered: bool = False

    @cached_property
    def distinct(self) -> np.ndarray:
        """The different values in order, numbers before text."""
        seen = self.own[~self.missing]
        if self.own.dtype.kind != "O":
            return np.unique(seen)
        order = sorted(set(seen.tolist()), key=lambda value: (isinstance(value, str), value))
        return objects(order)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The values as float64, NaN where missing; the first text that is no number is refused."""
        if self.own.dtype.kind != "O":
            found = self.own.astype(np.float64)
            found[self.missing] = np.nan
            return found
        cells = ["" if gone else str(v) for v, gone in zip(self.own, self.missing, strict=True)]
        found, texts = numbers(cells)
        if texts.any():
            i = int(texts.argmax())
            raise ValueError(
                f"Column {self.name!r} has {shown(self.own[i])} at row {i}, where a number is "
                "needed; correct it, or declare the column 'categorical'."
            )
        refuse_infinite(self.name, found)
        return found


def objects(values: Any) -> np.ndarray:
    """Some values as an array (N,) of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def plain(value: Any) -> Any:
    """A value as Python writes it, whole numbers without a point.

    >>> plain(np.float64(2.0)), plain(np.True_), plain(np.str_("dal"))
    (2, True, 'dal')
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer):
        return int(value)
    number = float(value)
    return int(number) if number.is_integer() else number


def numbers_of_text(X: Any) -> Any:
    """An array or a list of rows in which all text is numbers, as numbers; all else as it is.

    >>> numbers_of_text([["1", "2.5"], ["-3", None]]).tolist()
    [[1.0, 2.5], [-3.0, nan]]
    >>> numbers_of_text([["1", "2.5"], ["three", None]])
    [['1', '2.5'], ['three', None]]
    """
    if not isinstance(X, list | tuple | np.ndarray) or isinstance(X, np.ma.MaskedArray):
        return X
    try:
        kind = np.asarray(X).dtype.kind
        array = np.asarray(X, dtype=object)
    except ValueError:  # of rows of different lengths
        return X
    if kind not in "USO" or array.ndim != 2:
        return X
    if not any(isinstance(value, str | bytes) for value in array.flat):
        return X
    try:
        return np.where(pd.isna(array), np.nan, array).astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        return X


def columns_of(X: object) -> tuple[list[Values], tuple[Hashable, ...] | None]:
    """The columns of a dense table, and the names that they have if it is a data frame.

    >>> columns, labels = columns_of([[1, "dal"], [2, None]])
    >>> [(column.name, column.form) for column in columns], labels
    ([('0', 'number'), ('1', 'text')], None)
    """
    refuse_other_than_tables(X)
    if isinstance(X, pd.DataFrame):
        refuse_no_columns(X)
        refuse_empty(X.shape)
        labels = tuple(X.columns.tolist())
        return [of_series(str(name), X.iloc[:, j]) for j, name in enumerate(labels)], labels
    array = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    refuse_dimensions(X, array)
    refuse_empty(array.shape)
    hidden = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
    return [
        of_array(str(j), array[:, j], None if hidden is None else hidden[:, j])
        for j in range(array.shape[1])
    ], None


def of_series(name: str, series: pd.Series) -> Values:
    """A column of a data frame."""
    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
        dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return of_array(name, series.to_numpy())
    if isinstance(dtype, pd.CategoricalDtype):
        return of_categories(name, series.cat.codes.to_numpy(), dtype)
    if isinstance(dtype, pd.DatetimeTZDtype | pd.PeriodDtype):
        raise refused_dates(name, str(dtype))
    return of_objects(name, series.to_numpy(dtype=object), series.isna().to_numpy(), str(dtype))


def of_categories(name: str, codes: np.ndarray, dtype: Any) -> Values:
    """A column of categories."""
    levels = dtype.categories
    kind = type(levels[0]).__name__ if len(levels) else ""
    if isinstance(levels, pd.IntervalIndex | pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex):
        raise TypeError(
            f"Column {name!r} has categories of type {kind}; make text of them with "
            f"X[{name!r}].cat.rename_categories(str), which keeps their order."
        )
    found = of_series(name, pd.Series(levels)) if len(levels) else None
    own = objects([None] * len(codes)) if found is None else found.own[codes]
    categories = () if found is None else tuple(plain(level) for level in found.own)
    written = "ordered category" if dtype.ordered else "category"
    form = "text" if found is None else found.form
    return Values(name, own, codes < 0, form, written, categories, bool(dtype.ordered))


def of_array(name: str, array: np.ndarray, hidden: np.ndarray | None = None) -> Values:
    """A column of an array, of which what is ``hidden`` is missing too."""
    kind = array.dtype.kind
    if kind in "mM":
        raise refused_dates(name, str(array.dtype))
    if kind == "c":
        raise refused_complex(name)
    if kind == "V":
        raise TypeError(
            f"Column {name!r} holds records; pandas.DataFrame(X) makes columns of their fields."
        )
    missing = np.zeros(len(array), bool) if hidden is None else hidden
    if kind in "OSU":
        missing = missing | pd.isna(array)
        return of_objects(name, array.astype(object), missing, "U" if kind == "U" else "object")
    if kind == "f":
        missing = missing | np.isnan(array)
        refuse_infinite(name, np.where(missing, 0.0, array))
    return Values(name, array, missing, "truth" if kind == "b" else "number", str(array.dtype))


def of_objects(name: str, array: np.ndarray, missing: np.ndarray, dtype: str) -> Values:
    """A column of objects; numbers and truth values among themselves become an array of such."""
    forms = {kind: form_of(kind) for kind in set(map(type, array[~missing]))}
    for kind, form in forms.items():
        if form not in ("truth", "number", "text"):
            i = next(i for i in np.flatnonzero(~missing) if type(array[i]) is kind)
            raise refused_object(name, array[i], int(i), form)
    found = set(forms.values())
    if found == {"truth"}:
        own = np.where(missing, False, array).astype(bool)
        own_dtype = "object" if missing.any() else "bool"
        return Values(name, own, missing, "truth", own_dtype if dtype == "object" else dtype)
    if found and found <= {"truth", "number"}:
        own = number_array(name, array, missing, list(forms))
        refuse_infinite(name, np.where(missing, 0, own))
        whole = all(issubclass(kind, int | np.integer) for kind in forms)
        own_dtype = "int64" if whole else "float64"
        return Values(name, own, missing, "number", own_dtype if dtype == "object" else dtype)
    form = "mixed" if len(found) > 1 else "text"
    own = array.copy()
    own[~missing] = [plain(value) for value in array[~missing]]
    return Values(name, own, missing, form, dtype)


def number_array(
    name: str, array: np.ndarray, missing: np.ndarray, kinds: list[type]
) -> np.ndarray:
    """Objects that are numbers as int64, if all are whole and fit, or else as float64."""
    if all(issubclass(kind, int | np.integer) for kind in kinds):
        try:
            return np.where(missing, 0, array).astype(np.int64)
        except OverflowError:
            pass
    found = np.zeros(len(array))
    for i in np.flatnonzero(~missing):
        try:
            found[i] = float(array[i])
        except OverflowError:  # of an integer or a fraction
            raise ValueError(
                f"Column {name!r} has {shown(array[i])} at row {i}, beyond the range of real "
                "numbers in 64 bits; divide the column by its scale first."
            ) from None
    return found


def form_of(kind: type) -> str:
    """What values of a type are: a form, or why there is none for them."""
    for form, kinds in (
        ("truth", (bool, np.bool_)),
        ("text", (str,)),
        ("dates", DATES),
        ("nested", NESTED),
        ("number", (Real, Decimal)),
        ("complex", (Complex,)),
    ):
        if issubclass(kind, kinds):
            return form
    return "other"


# ------------------------------------------------------------------------------------- refusals


def refused_object(name: str, value: object, row: int, form: str) -> TypeError | ValueError:
    """What is said of a value that no column can have."""
    kind = type(value).__name__
    if form == "dates":
        return refused_dates(name, kind, row)
    if form == "complex":
        return refused_complex(name, row)
    if form == "nested":
        return TypeError(
            f"Column {name!r} has a {kind} at row {row}, where one value should be; give each of "
            "its parts a column of its own."
        )
    return TypeError(
        f"Column {name!r} has a {kind} at row {row}: a column holds numbers, text or truth "
        "values; make text of it, or drop the column."
    )


def refused_dates(name: str, kind: str, row: int | None = None) -> TypeError:
    """What is said of dates and of lengths of time."""
    lengths = "timedelta" in kind.lower()
    what = "lengths of time" if lengths else "dates or times"
    how = (
        f"days, X[{name!r}] / pandas.Timedelta(days=1)"
        if lengths
        else f"days since the first, (X[{name!r}] - X[{name!r}].min()).dt.days"
    )
    at = "" if row is None else f", the first at row {row}"
    return TypeError(
        f"Column {name!r} holds {what} ({kind}{at}); convert them to numbers first, such as {how}, "
        "or drop the column."
    )


def refused_complex(name: str, row: int | None = None) -> ValueError:
    """What is said of complex numbers."""
    at = "" if row is None else f" at row {row}"
    return ValueError(
        f"Column {name!r} holds complex numbers{at}. Complex data not supported: split it in two "
        "columns."
    )


def refuse_infinite(name: str, found: np.ndarray) -> None:
    """Refuse infinity, and numbers too large to square."""
    found = found.astype(np.float64)  # narrower types cannot be compared with LARGEST
    infinite = np.isinf(found)
    if infinite.any():
        raise ValueError(
            f"Column {name!r} contains infinity: {infinite.sum()} entries, the first at row "
            f"{int(infinite.argmax())}. Replace or drop them first."
        )
    large = np.abs(found) > LARGEST  # NaN is not
    if large.any():
        i = int(large.argmax())
        raise ValueError(
            f"Column {name!r} has {found[i]:.3g} at row {i}, whose square overflows; divide the "
            "column by its scale first."
        )
