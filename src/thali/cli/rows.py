"""What a command that fits is asked to read, and what it finds there."""

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from thali.cli import console, parts, texts
from thali.data import tables
from thali.data.elsewhere import opened
from thali.data.matrix import Table, named, row_names
from thali.data.tables.frame import read_frame

FRAMES = (".csv", ".tsv", ".parquet")
Shape = tuple[int, int] | None  # of rows that are images


class Asked(NamedTuple):
    """What was asked of a command that fits, but for the parts and their settings."""

    data: str
    seed: int | None
    transpose: bool
    columns: str | None
    header: bool | None
    time_budget: float | None
    image_shape: str | None
    out: Path
    resume: bool
    quiet: bool


class Rows(NamedTuple):
    """What was read: what is fitted, the same by which an engine is chosen, and words about it."""

    X: Table
    values: Any
    said: str
    names: list[str] | None = None  # of rows, where X has none
    of_fit: Mapping[str, object] = {}
    why: Callable[[], str | None] = lambda: None  # better words for an error of the fit


def rows_of_table(asked: Asked, shape: Shape) -> Rows:
    """A table, its names with it."""
    return _of_table(asked, _read_table(asked, shape))


def _of_table(asked: Asked, table: tables.Table) -> Rows:
    return Rows(
        named(table.values, table.row_names, table.column_names),
        table.values,
        console.describe_table(asked.data, table),
        why=lambda: console.locate_infinities(asked.data, table),
    )


def lies_elsewhere(asked: Asked, cluster: str | None) -> bool:
    """Whether the file is to be read by blocks of rows: a Zarr store, or any such on a cluster."""
    suffix = Path(asked.data).suffix.lower()
    return suffix == ".zarr" or (cluster is not None and suffix in (".npy", ".parquet"))


def rows_by_blocks(asked: Asked, shape: Shape) -> Rows:
    """A file whose rows are read when they are asked for."""
    if asked.transpose or asked.columns is not None:
        raise ValueError(
            f"--transpose and --columns are not there for {asked.data}, which is read by blocks of "
            "rows; write another file."
        )
    source = opened(asked.data)
    n, d = source.shape
    if shape is not None and shape[0] * shape[1] != d:
        raise ValueError(
            f"--image-shape {asked.image_shape} needs {shape[0] * shape[1]} columns; {asked.data} "
            f"has {d}."
        )
    missing = source.survey.missing
    gaps = f", {missing} of {n * d} entries missing" if missing else ""
    return Rows(source, source, f"{asked.data}: {n} x {d}, read by blocks of rows{gaps}")


def may_be_frame(asked: Asked) -> bool:
    """Whether what is asked for can be read as a table with columns of any kind."""
    text = Path(asked.data).suffix.lower() in FRAMES
    return text and not asked.transpose and asked.image_shape is None


def rows_by_content(asked: Asked, shape: Shape) -> Rows:
    """A table of numbers where all cells are such, beside names of rows; else one with columns of
    any kind."""
    try:
        table = _read_table(asked, shape)
    except ValueError:
        return rows_of_frame((), asked, shape)
    names = table.row_names or []
    return (
        _of_table(asked, table)
        if len(set(names)) == len(names)
        else rows_of_frame((), asked, shape)
    )


def in_whole_numbers(X: Table) -> Table:
    """A data frame whose columns of whole numbers are of that type, to come back in it."""
    if not isinstance(X, pd.DataFrame):
        return X
    whole = {}
    for name, own in X.items():
        if own.dtype != np.float64:
            continue
        seen = own[own.notna()]
        if ((seen % 1.0 == 0.0) & (seen.abs() < 2.0**53)).all():
            whole[name] = "int64" if len(seen) == len(own) else "Int64"
    return X.astype(whole)


def rows_of_frame(declared: Container[str], asked: Asked, shape: Shape) -> Rows:
    """A table with columns of any kind; those of some were ``declared``."""
    if asked.transpose:
        raise ValueError("--transpose: the columns of a table of kinds cannot become rows.")
    if shape is not None:
        raise ValueError("--image-shape: rows of a table of kinds are no images; leave it out.")
    columns = parts.read_columns(asked.columns)
    found = read_frame(asked.data, columns=columns, header=asked.header, declared=declared)
    gone = found.X.isna().to_numpy()
    gaps = f", {int(gone.sum())} of {gone.size} entries missing" if gone.any() else ""
    n, d = gone.shape
    unnamed = found.X.columns.tolist() == [f"column_{j + 1}" for j in range(d)]
    columns_said = "columns without names" if unnamed else "named columns"
    rows_said = "rows without names" if row_names(found.X) is None else "named rows"
    said = f"{asked.data}: {n} x {d}, {rows_said}, {columns_said}{gaps}"
    said = "; ".join([said, *found.notes])
    return Rows(found.X, np.where(gone, np.nan, 0.0), said)


def _read_table(asked: Asked, shape: Shape) -> tables.Table:
    """The table in the file, if its rows can be images of the given shape."""
    columns = parts.read_columns(asked.columns)
    table = tables.read_table(
        asked.data, transpose=asked.transpose, columns=columns, header=asked.header
    )
    if shape is not None and shape[0] * shape[1] != table.values.shape[1]:
        raise ValueError(
            f"--image-shape {asked.image_shape} needs {shape[0] * shape[1]} columns; "
            f"the table has {table.values.shape[1]}."
        )
    return table


def rows_of_documents(wanted: texts.AskedTexts, asked: Asked, shape: Shape) -> Rows:
    """Documents as counts of words, which ``fit`` is told besides."""
    found = texts.read_documents(asked.data, wanted)
    of_fit = {"vocabulary": found.words}
    return Rows(found.X, found.X, found.described(asked.data), found.names, of_fit)
