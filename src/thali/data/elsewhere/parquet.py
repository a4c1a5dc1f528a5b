"""Tables of numbers in Parquet, by record batches into a scratch file: a row group may be large."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thali.data.elsewhere.files import Mapped, copied
from thali.data.elsewhere.source import refuse_shape

BATCH = 2**20  # entries decoded at a time


def from_parquet(path: Path) -> Mapped:
    """The rows of a .parquet file, or of a folder of such."""
    try:
        import pyarrow.dataset
        import pyarrow.parquet
        import pyarrow.types as kinds
    except ImportError:
        raise ModuleNotFoundError(
            f"{path} is a Parquet file, which the package pyarrow reads: "
            "pip install thali[parquet]."
        ) from None
    table: Any = pyarrow.dataset.dataset(str(path), format="parquet")
    schema, n = table.schema, table.count_rows()
    refuse_shape((n, len(schema.names)), str(path))
    for field in schema:
        numbers = kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal
        if not any(kind(field.type) for kind in numbers):
            raise ValueError(
                f"{path} has the column {field.name!r} of type {field.type}, not of numbers; drop "
                "or encode it first."
            )
    size = max(1, BATCH // len(schema.names))

    def frames() -> Iterator[Any]:
        for fragment in table.get_fragments():  # one file after the other, a batch at a time
            with pyarrow.parquet.ParquetFile(fragment.path) as file:
                for batch in file.iter_batches(batch_size=size, columns=schema.names):
                    yield batch.to_pandas()[schema.names]

    found = copied(frames(), (n, len(schema.names)), str(path))
    found.labels, found.path = list(schema.names), path
    return found
