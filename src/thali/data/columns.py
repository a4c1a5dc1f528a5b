"""The columns of a person's table: what they are, and how values become numbers and come back.

Kinds are found from types and values, or declared (``types``); ``describe`` shows them. The rules
are in ``column_kinds.py``, codes in ``column_codes.py``, and what is read of a table in
``column_values.py``.
"""

from __future__ import annotations

import difflib
import json
import os
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thali.data.column_codes import KINDS, Column, codes_of, shown_levels, values_of
from thali.data.column_kinds import FEW, all_numbers, declared, found
from thali.data.column_values import Values, columns_of
from thali.data.tables import check_file
from thali.data.tables.text import MISSING
from thali.settings import shown

__all__ = ["KINDS", "Column", "Columns", "read_types"]

WIDEST = 30  # characters of a name in ``describe``
NOTHING = frozenset(MISSING) - {"none"}  # "none" may well be an answer


@dataclass(frozen=True)
class Columns:
    """The columns of a table; ``labels`` are their names in a data frame, None of other tables.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [31, 62, 19], "smoker": ["no", "yes", None]})
    >>> columns = Columns.of(X)
    >>> columns.kinds
    ('count', 'binary')
    >>> columns.encode(X)
    array([[31.,  0.],
           [62.,  1.],
           [19., nan]])
    >>> columns.decode([[40, 1]])
       age smoker
    0   40    yes
    """

    columns: tuple[Column, ...]
    labels: tuple[Hashable, ...] | None = None

    @classmethod
    def of(cls, X: object, types: object = "auto", warn: bool = True) -> Columns:
        """Find the kinds of all columns, but those that are declared.

        Parameters
        ----------
        X : data frame, array, masked array or list of rows
            None, NaN, NA, NaT and masked entries are missing.
        types : "auto", mapping or sequence
            A mapping has names or numbers of columns, and for each a kind, or a mapping such as
            ``{"kind": "ordinal", "levels": ["low", "mid", "high"]}`` or
            ``{"kind": "censored", "high": 100.0}``; a sequence has one for each column. What is
            not there, or is "auto", is found.
        warn : whether columns of one value in all rows are warned of, and text that looks like
            numbers or gaps

        Examples
        --------
        >>> Columns.of([[1.5, 0], [2.5, 1], [-0.5, 0]]).kinds
        ('real', 'binary')
        >>> Columns.of([[1.5, 0], [2.5, 1], [-0.5, 0]], types={1: "count"}).kinds
        ('real', 'count')
        """
        values, labels = columns_of(X)
        said = declarations(types, [column.name for column in values], labels)
        refuse_missing(values)
        made = tuple(
            declared(column, said[j]) if j in said else found(column)
            for j, column in enumerate(values)
        )
        if warn:
            warn_constant(values)
            warn_text(own for j, own in enumerate(values) if j not in said)
        return cls(made, labels)

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the columns."""
        return tuple(column.kind for column in self.columns)

    def encode(self, X: object, new: bool = False) -> np.ndarray:
        """The values of X as numbers (N, D), NaN where missing.

        ``new`` rows are others than those by which the columns were found; what is said of a value
        that does not fit is said for them.

        >>> columns = Columns.of([["rice"], ["dal"], ["roti"]])
        >>> columns.encode([["roti"], [None]], new=True).tolist()
        [[2.0], [nan]]
        >>> columns.encode([["naan"]], new=True)
        Traceback (most recent call last):
        ValueError: Column '0' has 'naan' at row 0, a value that the fitted rows do not have...
        """
        values, labels = columns_of(X)
        self._refuse_others(values, labels)
        codes = np.empty((len(values[0].own), len(self.columns)))
        for j, (column, own) in enumerate(zip(self.columns, values, strict=True)):
            codes[:, j] = codes_of(column, own, new)
        return codes

    def decode(self, codes: object) -> np.ndarray | pd.DataFrame:
        """The values that codes (N, D) stand for: a data frame if there was one, or an array.

        Types are those of the table, as far as they can be. Columns of whole numbers are rounded.

        >>> columns = Columns.of([["rice", 1.5], ["dal", -0.5]])
        >>> columns.decode([[0, 2.5]])
        array([['dal', 2.5]], dtype=object)
        """
        array = np.asarray(codes, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != len(self.columns):
            raise ValueError(
                f"codes have shape {array.shape}, where {len(self.columns)} columns are needed, "
                "one for each of the table."
            )
        own = [values_of(column, array[:, j]) for j, column in enumerate(self.columns)]
        if self.labels is None:
            return side_by_side(own)
        # with its type, since pandas would make columns of strings of objects
        frame = pd.DataFrame({j: pd.Series(v, dtype=v.dtype) for j, v in enumerate(own)})
        frame.columns = pd.Index(list(self.labels))
        return frame

    def describe(self) -> str:
        """A small table: name, kind, levels or limits, and how the kind was found.

        >>> print(Columns.of([[0.5, "no"], [1.5, "yes"], [-1.0, "no"]]).describe())
        column  kind    levels   found by
        0       real             numbers with fractions
        1       binary  no, yes  text with 2 different values
        """
        rows = [("column", "kind", "levels", "found by")]
        for column in self.columns:
            name = column.name if len(column.name) <= WIDEST else f"{column.name[: WIDEST - 1]}…"
            rows.append((name, column.kind, shown_levels(column), column.why))
        widths = [max(len(row[j]) for row in rows) for j in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]])
            for row in rows
        )

    def to_json(self) -> str:
        """As JSON: the columns by name, in the form that ``types`` has too.

        >>> print(Columns.of([["no"], ["yes"]]).to_json())
        {
          "0": {"kind": "binary", "levels": ["no", "yes"], "why": "text with 2 ...", "dtype": ...}
        }
        """
        lines = []
        for j, column in enumerate(self.columns):
            said: dict[str, Any] = {"kind": column.kind}
            said |= {"levels": list(column.levels)} if column.levels else {}
            ends = {"low": column.low, "high": column.high}
            said |= {key: end for key, end in ends.items() if isfinite(end)}
            said |= {"why": column.why, "dtype": column.dtype}
            if self.labels is not None:
                said["label"] = writable(self.labels[j])
            name = json.dumps(column.name, ensure_ascii=False)
            lines.append(f"  {name}: {json.dumps(said, ensure_ascii=False)}")
        return "{\n" + ",\n".join(lines) + "\n}"

    @classmethod
    def from_json(cls, text: str) -> Columns:
        """The columns that ``to_json`` wrote.

        >>> columns = Columns.of([["no", 1.5], ["yes", -2.0]])
        >>> Columns.from_json(columns.to_json()) == columns
        True
        """
        made, labels = [], []
        for name, said in parsed(text).items():
            if not isinstance(said, dict) or not {"kind", "why", "dtype"} <= set(said):
                raise ValueError(
                    f"column {name!r} lacks what to_json writes: kind, why and dtype; kinds "
                    "written by hand are declared with Columns.of(X, types)."
                )
            if said["kind"] not in KINDS:
                raise ValueError(f"column {name!r} has the unknown kind {shown(said['kind'])}.")
            levels, low, high = said.get("levels", ()), said.get("low", -inf), said.get("high", inf)
            kind, why, dtype = said["kind"], said["why"], said["dtype"]
            made.append(Column(name, kind, tuple(levels), low, high, why, dtype))
            if "label" in said:
                labels.append(hashable(said["label"]))
        return cls(tuple(made), tuple(labels) if labels else None)

    def _refuse_others(self, values: list[Values], labels: tuple[Hashable, ...] | None) -> None:
        """Refuse a table of other columns."""
        if labels is not None and self.labels is not None:
            names = [column.name for column in values]
            lacking = [name for name in self.names if name not in names]
            more = [name for name in names if name not in self.names]
            if lacking or more:
                what = [f"lacks {listed(lacking)}"] if lacking else []
                what += [f"has {listed(more)}, which the fitted table had not"] if more else []
                raise ValueError(f"X {' and '.join(what)}; give the columns of the fitted table.")
            if tuple(names) != self.names:
                j = next(j for j, name in enumerate(names) if name != self.names[j])
                raise ValueError(
                    f"X has its columns in another order: {names[j]!r} where {self.names[j]!r} "
                    "was; order them by X[names], with the names of the fitted table."
                )
        if len(values) != len(self.columns):
            raise ValueError(
                f"X has {len(values)} columns, where the fitted table had {len(self.columns)}."
            )


def read_types(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The file of a person's declarations, {"column": "kind" or {…}}, as ``types`` takes it.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "types.json"
    >>> _ = file.write_text('{"age": "count", "time": {"kind": "censored", "high": 100}}')
    >>> read_types(file)
    {'age': 'count', 'time': {'kind': 'censored', 'high': 100}}
    """
    file = Path(path)
    check_file(file, "a JSON file of types")
    try:
        return parsed(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not text in UTF-8; save it again as such.") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def parsed(text: str) -> dict[str, Any]:
    """JSON of columns by name, none of them twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} is there twice; leave one of them out.")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"line {error.lineno} is not JSON ({error.msg}); write such as "
            '{"age": "count", "stage": {"kind": "ordinal", "levels": ["low", "high"]}}.'
        ) from None
    if not isinstance(found, dict):
        raise ValueError('this is no mapping of columns; write such as {"age": "count"}.')
    return found


# ----------------------------------------------------------------------------- what is declared


def declarations(
    types: object, names: Sequence[str], labels: Sequence[Hashable] | None
) -> dict[int, Mapping[str, Any]]:
    """What ``types`` says, by the number of the column.

    >>> declarations({"age": "count", 0: "auto"}, ["name", "age"], ["name", "age"])
    {1: {'kind': 'count'}}
    """
    if isinstance(types, str) and types == "auto":
        return {}
    pairs: list[tuple[int, Any]]
    if isinstance(types, Mapping):
        pairs = [(place(key, names, labels), value) for key, value in types.items()]
    elif isinstance(types, list | tuple | np.ndarray | pd.Series):
        if len(types) != len(names):
            raise ValueError(
                f"types has {len(types)} kinds for {len(names)} columns; give one for each "
                '("auto" to find it), or a mapping of names to kinds.'
            )
        pairs = list(enumerate(types))
    else:
        raise TypeError(
            f'types must be "auto", a mapping of columns to kinds, or a list of kinds, one for '
            f"each column, not {shown(types)}."
        )
    said: dict[int, Mapping[str, Any]] = {}
    seen = set()
    for j, value in pairs:
        if j in seen:
            raise ValueError(f"types names column {names[j]!r} twice; once by its number.")
        seen.add(j)
        entry = value if isinstance(value, Mapping) else {"kind": value}
        if not isinstance(entry.get("kind"), str) or entry["kind"] != "auto":
            said[j] = entry
    return said


def place(key: object, names: Sequence[str], labels: Sequence[Hashable] | None) -> int:
    """The number of a column, given by name, or by number where that is no name."""
    whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if str(key) in names and (not whole or labels is None or key in labels):
        return names.index(str(key))
    if isinstance(key, int | np.integer) and whole and 0 <= key < len(names):
        return int(key)
    if whole:
        raise ValueError(
            f"types has column {key}, which is not there: columns are numbered 0 to "
            f"{len(names) - 1}."
        )
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(str(key).lower(), lower, n=3)
    hint = f"did you mean {' or '.join(repr(lower[name]) for name in near)}?"
    raise ValueError(
        f"types has column {key!r}, which is not there; "
        + (hint if near else f"X has {listed(names, 10)}.")
    )


def refuse_missing(values: Sequence[Values]) -> None:
    """Refuse columns of which nothing was observed."""
    empty = [column.name for column in values if column.missing.all()]
    if len(empty) == len(values):
        raise ValueError(
            f"X has no observed entry: all {len(values) * len(values[0].own)} are missing; give at "
            "least one number."
        )
    if empty:
        s, them = ("s", "them") if len(empty) > 1 else ("", "it")
        raise ValueError(
            f"Column{s} {listed(empty)}: no value was observed, all {len(values[0].own)} entries "
            f"are missing; drop {them}."
        )


def warn_constant(values: Sequence[Values]) -> None:
    """One warning for all columns of a single value."""
    same = [column.name for column in values if len(column.distinct) == 1]
    if same:
        have = f"Columns {listed(same)} have" if len(same) > 1 else f"Column {listed(same)} has"
        warnings.warn(
            f"{have} one value in all rows, which tells nothing about them; drop what is not "
            "meant to be there.",
            UserWarning,
            stacklevel=3,
        )


def warn_text(values: Iterable[Values]) -> None:
    """One warning for all columns of text that is numbers, and one for text that says that nothing
    is there: both are taken for levels."""
    numbers, gaps = [], []
    for own in values:
        if own.form == "text" and own.categories is None:
            words = [word for word in own.distinct if word.strip().lower() in NOTHING]
            gaps += [f"{own.name!r} ({shown(word)})" for word in words]
            if len(own.distinct) - len(words) > FEW and all_numbers(own):
                numbers.append(own.name)
    if numbers:
        warnings.warn(
            f"Text that is numbers was taken for levels without order: {listed(numbers)}. Convert "
            "it by pandas.to_numeric(X[name], errors='coerce'), or say that these are levels: "
            "types={name: 'categorical'}.",
            UserWarning,
            stacklevel=3,
        )
    if gaps:
        more = f" and {len(gaps) - 5} more" if len(gaps) > 5 else ""
        warnings.warn(
            "Text that may stand for a missing entry was taken for a level of its own: "
            f"{', '.join(gaps[:5])}{more}. If it does, write None in its place, such as by "
            "X.replace(text, None).",
            UserWarning,
            stacklevel=3,
        )


# ----------------------------------------------------------------------------------- small parts


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names for a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(map(repr, names[:most]))}{more}"


def side_by_side(own: list[np.ndarray]) -> np.ndarray:
    """Columns as one array: of their type where they share one, or of objects."""
    kinds = {column.dtype.kind for column in own}
    if kinds <= set("iuf") or len(kinds) == 1:
        return np.column_stack(own)
    return np.column_stack([column.astype(object) for column in own])


def writable(label: Hashable) -> Any:
    """The name of a column in a data frame as JSON can have it, text where it is none of these."""
    if isinstance(label, tuple):
        return [writable(part) for part in label]
    return label if label is None or isinstance(label, str | bool | int | float) else str(label)


def hashable(label: Any) -> Hashable:
    """A name that ``writable`` wrote, as it was."""
    return tuple(hashable(part) for part in label) if isinstance(label, list) else label
