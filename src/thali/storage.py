"""Files: one zip of .npy arrays and one JSON, with a format version; never a pickle.

Written to a temporary file in the same folder and moved into place, so that a reader sees the
old file or the new one, never half of either.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
FORMAT = 1


def write(
    path: str | os.PathLike[str], kind: str, arrays: dict[str, np.ndarray], meta: dict
) -> None:
    """Write arrays and JSON-able values to ``path``, all or nothing."""
    path = Path(path)
    check_writable(path)
    header = {"format": FORMAT, "kind": kind, **meta}
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
                zipped.writestr("thali.json", json.dumps(header, default=_array_to_json))
                for name, array in arrays.items():
                    buffer = io.BytesIO()
                    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
                    zipped.writestr(f"{name}.npy", buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Say at once, not after an hour's work, that a file cannot be written there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: the folder {path.parent} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"Cannot write {path}: it is a folder; name a file in it.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"Cannot write {path}: the folder {path.parent} is not writable.")


def set_aside(path: Path) -> Path:
    """Move a file out of the way of another, from a.thali to a.previous.thali; where it is now."""
    earlier = path.with_name(f"{path.stem}.previous{path.suffix}")
    os.replace(path, earlier)
    return earlier


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
                raise NewerFormat(
                    f"{path} was written by a newer thali (file format {meta['format']}, this one "
                    f"reads up to {FORMAT}); update thali to open it."
                )
            if meta.get("kind") != kind:
                raise ValueError(f"{path} is a thali {meta.get('kind')}, not a {kind}.")
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(zipped.read(name)), allow_pickle=False
                )
                for name in zipped.namelist()
                if name.endswith(".npy")
            }
    except NewerFormat as error:
        raise ValueError(str(error)) from None
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, json.JSONDecodeError) as error:
        if isinstance(error, PermissionError):
            raise
        raise ValueError(f"{path} is not a thali {kind}, or it is damaged.") from None
    except ValueError as error:
        if "thali" in str(error):
            raise
        raise ValueError(f"{path} is damaged: {error}.") from None
    except Exception as error:  # zlib.error and struct.error come from damaged bytes
        raise ValueError(f"{path} is damaged: {error}.") from None
    return arrays, meta


class NewerFormat(Exception):
    """The file's format version is beyond what this version reads."""


def _array_to_json(value: Any) -> Any:
    """A small array among plain values, such as a hyperparameter; NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    raise TypeError(f"{type(value).__name__} cannot be written to a file.")


def _array_from_json(value: dict[str, Any]) -> Any:
    if value.keys() == {"array", "dtype"}:
        return np.array(value["array"], value["dtype"])
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
