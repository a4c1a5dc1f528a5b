"""Files: one zip of .npy arrays and one JSON, with a format version; never a pickle.

Written to a temporary file in the same folder and then moved, so that a reader sees the
old file or the new one, never half of either.
"""

import io
import json
import os
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

FORMAT = 1

# what a file's JSON can hold, small arrays and NumPy's numbers among it
Json: TypeAlias = (
    "int | float | str | np.generic | np.ndarray | Sequence[Json] | Mapping[str, Json] | None"
)


def write(
    path: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, object],
) -> None:
    """Write arrays and JSON-able values to ``path``, all or nothing."""
    header = {"format": FORMAT, "kind": kind, **meta}
    with replacing(Path(path)) as beside, open(beside, "xb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
            zipped.writestr("thali.json", json.dumps(header, default=_array_to_json))
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
                zipped.writestr(f"{name}.npy", buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name of a file beside ``path`` to write to, which is moved there when all is written."""
    check_writable(path)
    beside = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}")
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Say at once, not after an hour's work, that a file cannot be written there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: the folder {path.parent} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"Cannot write {path}: it is a folder; name a file in it.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"Cannot write {path}: the folder {path.parent} is not writable.")


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what ``write`` wrote; a missing, foreign, broken or newer file gets one sentence."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a thali file.")
    try:
        with zipfile.ZipFile(path) as zipped:
            meta = json.loads(zipped.read("thali.json"), object_hook=_array_from_json)
            if not isinstance(meta, dict) or "format" not in meta:
                raise KeyError("format")
            if meta["format"] > FORMAT:
                raise Foreign(
                    f"{path} was written by a newer thali (file format {meta['format']}, this one "
                    f"reads up to {FORMAT}); update thali to open it."
                )
            if meta.get("kind") != kind:
                raise Foreign(f"{path} is a thali {meta.get('kind')}, not a {kind}.")
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(zipped.read(name)), allow_pickle=False
                )
                for name in zipped.namelist()
                if name.endswith(".npy")
            }
    except (Foreign, PermissionError):
        raise
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, json.JSONDecodeError):
        raise ValueError(f"{path} is not a thali {kind}, or it is damaged.") from None
    except Exception as error:  # ValueError, zlib.error and struct.error come from damaged bytes
        raise ValueError(f"{path} is damaged: {error}.") from None
    return arrays, meta


class Foreign(ValueError):
    """The file is sound, but of another kind, or of a later version."""


def _array_to_json(value: object) -> object:
    """A small array among plain values, such as a hyperparameter; NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    raise TypeError(f"{type(value).__name__} cannot be written to a file.")


def _array_from_json(value: dict[str, Any]) -> object:
    if value.keys() == {"array", "dtype"}:
        return np.array(value["array"], value["dtype"])
    return value
