"""What a command that fits is asked to read, and what it finds there."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from thali.cli import console, parts, texts
from thali.data import tables
from thali.data.matrix import Table, named

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
    table = _read_table(asked, shape)
    return Rows(
        named(table.values, table.row_names, table.column_names),
        table.values,
        console.describe_table(asked.data, table),
        why=lambda: console.locate_infinities(asked.data, table),
    )


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
