"""Sources on disk: arrays that are mapped into memory, Zarr arrays, and scratch files.

A scratch file holds what cannot be read twice, or not by rows: blocks that come by turns, Parquet,
Dask's collections where they are worked on here. It is written once, one block after the other,
lies in the folder for temporary files (``TMPDIR``), and goes when nobody holds it any more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from thali.data.elsewhere.source import Rows, Source, as_numbers, refuse_no_numbers, refuse_shape
from thali.machine import cores

HEADER = 128  # bytes of a scratch file before its numbers: a page is not torn by them


class Mapped(Source):
    """An array in a file, mapped into memory: the system reads what is looked at, and forgets it.

    ``keep`` is what must not go before it does, ``path`` the file that it is, or was made from.
    """

    def __init__(self, array: np.memmap, name: str, keep: object = None) -> None:
        self.name, self.keep = name, keep
        self.path: Path | None = None
        refuse_shape(array.shape, name)
        refuse_no_numbers(array.dtype, name)
        if array.dtype.kind == "O":
            raise ValueError(f"{name} holds Python objects, not numbers.")
        self.shape = int(array.shape[0]), int(array.shape[1])
        self.array: np.memmap | None = array
        where = where_in_file(array)
        assert where is not None  # others are copied
        self.where = where

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Of a .npy file."""
        try:
            array = np.load(path, mmap_mode="r")
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} cannot be read as a .npy file of numbers: {error}.") from None
        found = cls(array, str(path))
        found.path = path
        return found

    @property
    def address(self) -> str:
        if self.path is not None:
            return str(self.path.resolve())
        path = Path(self.where[0])
        whole = self.keep is None and path.suffix == ".npy" and path.exists()
        if whole and where_in_file(np.load(path, mmap_mode="r")) == self.where:
            return str(path.resolve())
        return super().address

    def __getstate__(self) -> dict[str, Any]:
        """In another process the file is opened anew."""
        return self.__dict__ | {"keep": None, "array": None}

    @property
    def told(self) -> np.ndarray:
        return self.opened.view()

    @property
    def opened(self) -> np.ndarray:
        """The map, in this process."""
        if self.array is None:
            path, dtype, offset, shape, order = self.where
            try:
                self.array = np.memmap(path, dtype, "r", offset, shape, order)
            except OSError:
                raise FileNotFoundError(
                    f"{path} cannot be opened where the work is done; put it on a disk that all "
                    "workers see."
                ) from None
        return self.array

    def stored(self, rows: Rows) -> np.ndarray:
        return np.asarray(self.opened[rows])


def where_in_file(array: np.ndarray) -> tuple[Any, ...] | None:
    """The file, type, offset, shape and order of a memory map, or of rows of one that follow each
    other; None where entries do not lie together.

    >>> with tempfile.NamedTemporaryFile() as file:
    ...     whole = np.memmap(file.name, np.float64, "w+", 128, (5, 2))
    ...     where_in_file(whole[2:])[2:], where_in_file(whole[:, 1:])
    ((160, (3, 2), 'C'), None)
    """
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    path = getattr(root, "filename", None)
    if path is None or not (array.flags.c_contiguous or array.flags.f_contiguous):
        return None
    offset = root.offset + array.ctypes.data - root.ctypes.data
    return str(path), array.dtype, offset, array.shape, "C" if array.flags.c_contiguous else "F"


class Zarr(Source):
    """A Zarr array; the chunks of rows that were last read stay, a few of them."""

    def __init__(self, array: Any, name: str) -> None:
        self.name, self._array = name, array
        self.path: Path | None = None
        refuse_shape(tuple(array.shape), name)
        refuse_no_numbers(array.dtype, name)
        self.shape = int(array.shape[0]), int(array.shape[1])
        self.height = max(1, int(array.chunks[0]))
        self._forget()

    @classmethod
    def of_path(cls, path: Path) -> Self:
        """Of a folder or .zip that holds one array."""
        try:
            import zarr
        except ImportError:
            raise ModuleNotFoundError(
                f"{path} is a Zarr store, which the package zarr reads: pip install thali[dask]."
            ) from None
        found = zarr.open(str(path), mode="r")
        if not hasattr(found, "chunks"):
            names = ", ".join(sorted(found.array_keys())) or "none"
            raise ValueError(
                f"{path} is a Zarr group, not an array; name one of its arrays ({names}), such as "
                f"{path}/{names.split(', ')[0]}."
            )
        source = cls(found, str(path))
        source.path = path
        return source

    @property
    def address(self) -> str:
        return super().address if self.path is None else str(self.path.resolve())

    def _forget(self) -> None:
        self._chunks: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_chunks", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def stored(self, rows: Rows) -> np.ndarray:
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            which = range(first // self.height, max(first, last - 1) // self.height + 1)
            parts = []
            for i in which:
                begin = i * self.height
                parts.append(self._chunk(i)[max(first - begin, 0) : max(last - begin, 0)])
            return parts[0] if len(parts) == 1 else np.concatenate(parts)
        rows = np.arange(len(self))[rows]
        of_chunk = rows // self.height
        parts = [
            self._chunk(int(i))[rows[of_chunk == i] % self.height] for i in np.unique(of_chunk)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))

    def _chunk(self, i: int) -> np.ndarray:
        """All columns of a chunk of rows."""
        with self._lock:
            if i in self._chunks:
                self._chunks.move_to_end(i)
                return self._chunks[i]
        found = np.asarray(self._array[i * self.height : (i + 1) * self.height])
        with self._lock:
            self._chunks[i] = found
            while len(self._chunks) > cores() + 1:  # as many as may be read at once, and one more
                self._chunks.popitem(last=False)
        return found


class Scratch:
    """A file of so many rows that is written block by block, and goes when nobody holds it."""

    def __init__(self, shape: tuple[int, int], name: str) -> None:
        self.shape, self.name, self.rows = shape, name, 0
        needed, free = 8 * shape[0] * shape[1], shutil.disk_usage(tempfile.gettempdir()).free
        if needed > free:
            raise OSError(
                f"{name} is copied to a scratch file of {needed / 2**30:,.1f} GB, but "
                f"{tempfile.gettempdir()} has {free / 2**30:,.1f} GB left: name a roomier folder "
                "by TMPDIR, or give X as a .npy file."
            )
        handle, self.path = tempfile.mkstemp(prefix="thali-", suffix=".rows")
        self._file = os.fdopen(handle, "wb")
        self._file.write(b"\0" * HEADER)
        weakref.finalize(self, _remove, self.path, self._file)

    def write(self, block: np.ndarray) -> None:
        """One block more."""
        self._file.write(np.ascontiguousarray(block, np.float64).data)
        self.rows += len(block)

    def done(self) -> Mapped:
        """What was written, as a source."""
        self._file.close()
        array = np.memmap(self.path, np.float64, "r", HEADER, self.shape)
        return Mapped(array, self.name, keep=self)


def _remove(path: str, file: IO[bytes]) -> None:
    file.close()
    with suppress(OSError):
        os.unlink(path)


def copied(blocks: Iterable[Any], shape: tuple[int, int], name: str) -> Mapped:
    """Blocks of rows in a scratch file; ``shape`` is that of all of them together."""
    scratch = Scratch(shape, name)
    for i, block in enumerate(blocks):
        part = as_numbers(block, f"Block {i} of {name}")
        scratch.write(part)
    if scratch.rows != shape[0]:
        raise ValueError(f"{name} has {scratch.rows:,} rows, where {shape[0]:,} were announced.")
    return scratch.done()
