"""Parquet: columns with their types, the index of pandas as row names. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.data.tables.cells import numbers, written_otherwise
from thali.data.tables.table import Table, brief, choose_columns, row_names_from

__all__ = ["read_parquet"]


def read_parquet(file: Path, columns: Sequence[str] | None) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            f"{file}: reading Parquet needs pyarrow; install it with: pip install 'thali[parquet]'"
        ) from None
    try:
        arrow = pyarrow.parquet.ParquetFile(file).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{file} is not a Parquet file, or a half-written one ({brief(error)}); write it again."
        ) from None
    index = [
        name
        for name in (arrow.schema.pandas_metadata or {}).get("index_columns", [])
        if isinstance(name, str) and name in arrow.column_names
    ]
    row_names = _texts(arrow[index[0]]) if len(index) == 1 else None
    kept = [j for j, name in enumerate(arrow.column_names) if name not in index]
    names = [arrow.column_names[j] for j in kept]
    cells = [arrow.column(j) for j in kept]
    skip, notes = 0, tuple(map(row_names_from, index[:1] if row_names is not None else ()))
    if row_names is None and cells and _holds_text(cells[0]) and names[0] not in (columns or ()):
        texts = _texts(cells[0])
        if columns is not None or not written_otherwise(texts):
            row_names, skip, notes = texts, 1, (row_names_from(names[0]),)
    chosen = choose_columns(file, names, len(names), columns, skip)
    values = np.empty((arrow.num_rows, len(chosen)))
    for j, c in enumerate(chosen):
        values[:, j] = _arrow_numbers(cells[c], file, f"column {names[c]!r}")
    return Table(values, [names[c] for c in chosen], row_names, notes)


def _holds_text(column: Any) -> bool:
    import pyarrow.types as kinds

    kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _texts(column: Any) -> list[str]:
    return ["" if entry is None else str(entry) for entry in column.to_pylist()]


def _arrow_numbers(column: Any, file: Path, label: str) -> NDArray[np.float64]:
    """Return an Arrow column as floats, null as NaN."""
    import pyarrow

    if _holds_text(column):
        texts = [text.strip() for text in _texts(column)]
        return numbers(texts, label, lambda i: f"{file}, row {i + 1}")
    kinds = pyarrow.types
    if not (
        kinds.is_boolean(column.type)
        or kinds.is_integer(column.type)
        or kinds.is_floating(column.type)
        or kinds.is_decimal(column.type)
        or kinds.is_null(column.type)
    ):
        raise ValueError(
            f"{file}, {label}: its entries have the type {column.type}, which is no number; "
            "convert it, or choose columns of numbers with --columns."
        )
    if kinds.is_boolean(column.type):
        column = column.cast(pyarrow.int8())
    return np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy(), dtype=np.float64)
