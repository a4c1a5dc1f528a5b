r"""The device: CuPy behind one door, cuBLAS's products, kernels, and rows of X.

Nothing here is imported with the library: CuPy is looked for when a GPU is asked for.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from thali.backends.rows import pieces_of

SOFT, HARD = (Path(__file__).with_name(name) for name in ("gpu.cu", "gpu_hard.cu"))
TILE = 8  # as in gpu.cu: rows of Q end with zeros, up to a multiple of it
THREADS = 128  # rows of a block of threads, less where their probabilities are many
SHARED = 48 * 1024  # bytes of these that every device has room for in a block's own memory
ALIGNED = 32  # rows of a feature begin where threads can read them together
SHARES = 16  # of the rows, whose sums are added at the end
KERNELS = {
    "expect_bits": SOFT,
    "expect_own_bits": SOFT,
    "outer_products": SOFT,
    "tallies": SOFT,
    "fold": SOFT,
    "fold_double": SOFT,
    "solve_rows": HARD,
}


class Kind(NamedTuple):
    """Of numbers: how C, NumPy and cuBLAS call them, and how cuBLAS multiplies."""

    real: str
    dtype: str
    code: int
    compute: int


KINDS = {
    "float64": Kind("double", "float64", 1, 70),
    "float32": Kind("float", "float32", 0, 68),
    "tf32": Kind("float", "float32", 0, 77),
}


@cache
def cupy() -> Any:
    """CuPy, where there is one and a device for it; else one sentence."""
    try:
        import cupy
    except ImportError as error:
        raise ValueError(
            f"backend='gpu' needs CuPy ({error}): pip install 'thali[gpu]', or use backend='local'."
        ) from None
    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        devices = 0
    if not devices:
        raise ValueError(
            "backend='gpu' needs an NVIDIA GPU, and CUDA finds none here; use backend='local'."
        )
    return cupy


@cache
def kernel(name: str, real: str, few: bool = True, own: bool = False) -> Any:
    """A kernel for numbers of one type, for few features or many, for rows with their own matrices
    or without."""
    options = (f"-DREAL={real}", f"-DFEW={int(few)}", f"-DOWN={int(own)}")
    return cupy().RawKernel(KERNELS[name].read_text("utf-8"), name, options)


def launch(
    kernel: Any, grid: tuple[int, ...], threads: int, *arguments: Any, shared: int = 0
) -> None:
    """Start a kernel; whole numbers are 64 bits wide unless they say otherwise."""
    whole = (np.int64(a) if type(a) is int else a for a in arguments)
    kernel(grid, (threads,), tuple(whole), shared_mem=shared)


class Matrix(NamedTuple):
    """Where a matrix begins, what lies between its columns (as cuBLAS counts), whether it is meant
    the other way round, and how far the next of a batch is."""

    array: Any
    step: int
    turned: bool = False
    next: int = 0

    def at(self, first: int) -> int:
        """The address of the batch's matrix of this number."""
        return int(self.array.data.ptr) + first * self.next * int(self.array.itemsize)


def multiply(
    kind: Kind, shape: tuple[int, int, int], A: Matrix, B: Matrix, C: Matrix, batch: int = 1,
    first: int = 0,
) -> None:  # fmt: skip
    """C = A B, (m, n) of k terms, for each of a batch of matrices in column order.

    A and B are those of the batch from number ``first`` on; C begins where it begins.
    """
    from cupy_backends.cuda.libs import cublas

    m, n, k = shape
    one, none = np.ones(1, kind.dtype), np.zeros(1, kind.dtype)
    cublas.gemmStridedBatchedEx(
        cupy().cuda.device.get_cublas_handle(), int(A.turned), int(B.turned), m, n, k,
        one.ctypes.data, A.at(first), kind.code, A.step, A.next,
        B.at(first), kind.code, B.step, B.next,
        none.ctypes.data, C.at(0), kind.code, C.step, C.next, batch, kind.compute, -1,
    )  # fmt: skip


def sent(dtype: str, *arrays: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Copies of arrays on the device, sent in one piece, and this piece: the device reads it until
    the work that is asked for now is done."""
    from cupyx import empty_pinned

    sizes = [-(-array.size // ALIGNED) * ALIGNED for array in arrays]
    here = empty_pinned((sum(sizes),), dtype)
    there = cupy().empty(len(here), dtype)
    found, first = [], 0
    for array, size in zip(arrays, sizes, strict=True):
        last = first + array.size
        here[first:last].reshape(array.shape)[...] = array
        found.append(there[first:last].reshape(array.shape))
        first += size
    there.set(here)
    return found, here


# rows of X


def locked(X: np.ndarray) -> np.ndarray:
    """The same rows, in memory that the device may read by itself: else copies are slow, not wrong.

    They are let go with the array that is returned.
    """
    runtime, view = cupy().cuda.runtime, np.ascontiguousarray(X).view()
    with suppress(runtime.CUDARuntimeError):  # as of a file that is only mapped
        runtime.hostRegister(view.ctypes.data, view.nbytes, 0)
        finalize(view, runtime.hostUnregister, view.ctypes.data)
    return view


def on_device(X: Any, most: int) -> Iterator[tuple[Any, slice]]:
    """Rows of X in device memory, at most so many at a time, and which they are.

    X may lie there, or here: then the next rows travel while the last are worked on.
    """
    pieces = list(pieces_of(len(X), most))
    if not isinstance(X, np.ndarray):
        yield from ((X[piece], piece) for piece in pieces)
        return
    cuda = cupy().cuda
    work, travel = cuda.get_current_stream(), cuda.Stream(non_blocking=True)
    room = [cupy().empty((min(most, len(X)), X.shape[1]), X.dtype) for _ in range(2)]
    full, free = ([cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))
    for event in free:
        event.record(work)

    def send(i: int) -> None:
        travel.wait_event(free[i % 2])
        part = X[pieces[i]]
        to, copy = room[i % 2].data.ptr, cuda.runtime.memcpyHostToDevice
        cuda.runtime.memcpyAsync(to, part.ctypes.data, part.nbytes, copy, travel.ptr)
        full[i % 2].record(travel)

    send(0)
    for i, piece in enumerate(pieces):
        if i + 1 < len(pieces):
            send(i + 1)
        work.wait_event(full[i % 2])
        yield room[i % 2][: piece.stop - piece.start], piece
        free[i % 2].record(work)
