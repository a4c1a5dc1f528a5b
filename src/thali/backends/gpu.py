r"""Rows on a GPU: cuBLAS's products, and one kernel for all that a row does with K features.

    B = X E[A]ᵀ,   ν by sweeps over each row,   C = νᵀν,   T = νᵀX

X and ν stay on the device, ν by feature, (K, N); what travels in an iteration is E[A] there and the
statistics back, once (``device_steps.py``). X that is larger than the device has room for stays
here and is sent, some rows at a time, whenever it is needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Self, cast
from weakref import WeakValueDictionary

import numpy as np

from thali.backends.base import PASSES, Globals, HardGlobals
from thali.backends.block import Block
from thali.backends.device import ALIGNED, KINDS, Kind, cupy, locked, on_device
from thali.backends.device_rounds import HardSent, Rounds, piece_size
from thali.backends.device_steps import TERMS, Sent, Sums, row_squares, sweep
from thali.backends.far import AnyBlock
from thali.backends.hard_rounds import GROUP
from thali.backends.local import Local
from thali.backends.rows import Rows
from thali.data import Data
from thali.machine import cores
from thali.structures.statistics import Statistics

AT_ONCE = 2**18  # rows that are worked on at once, of an X that lies on the device
SENT = 2**27  # bytes of an X that does not, likewise
OWN = 2**29  # bytes of the rows' own matrices, where entries are missing
ROOM = 0.7  # of the free device memory that X may take
SENDING = Lock()  # of X, by one restart for all


class OnDevice(WeakValueDictionary[str, Any]):
    """X on the device, by its type, as long as a block has it; nothing of it is pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


class DeviceRows(Rows):
    """ν on the device, (K, at least N); ``nu`` is a copy of it here, only read."""

    slab, amounts = None, ()

    def __init__(self, W: Any, n: int) -> None:
        self.W, self._n = W, n
        self.changed()

    @classmethod
    def sent(cls, nu: np.ndarray, dtype: str) -> Self:
        """These probabilities, (N, K), to the device."""
        n, k = nu.shape
        W = cupy().zeros((k, -(-n // ALIGNED) * ALIGNED), dtype)
        W[:, :n] = cupy().asarray(np.ascontiguousarray(nu), dtype).T
        return cls(W, n)

    def changed(self, likely: np.ndarray | None = None) -> None:
        """Forget what was read of ν; ``likely`` are the rows that have each feature, counted."""
        self._nu: np.ndarray | None = None
        self._likely = likely

    @property
    def nu(self) -> np.ndarray:  # type: ignore[override]
        if self._nu is None:
            self._nu = np.ascontiguousarray(self.W[:, : self.n].get().T, float)
            self._nu.flags.writeable = False
        return self._nu

    @property
    def n(self) -> int:
        return self._n

    @property
    def k(self) -> int:
        return int(self.W.shape[0])

    @property
    def likely(self) -> np.ndarray:
        """How many rows have each feature rather than not."""
        if self._likely is None:
            self._likely = np.asarray((self.W[:, : self.n] > 0.5).sum(axis=1).get())
        return self._likely

    @property
    def used(self) -> int:
        return int(np.count_nonzero(self.likely))

    def part(self, rows: slice) -> Rows:  # type: ignore[override]
        return Rows(self.nu[rows])

    def products(self) -> np.ndarray:
        W = self.W[:, : self.n]
        return np.asarray((W @ W.T).get(), float)

    def copied(self) -> Self:
        return type(self)(self.W.copy(), self.n)

    def taken(self, order: np.ndarray) -> Self:
        found = type(self)(self.W[cupy().asarray(order)], self.n)
        found.changed(None if self._likely is None else self._likely[order])
        return found

    def joined(self, a: int, b: int) -> Self:
        both = cupy().maximum(self.W[a], self.W[b])
        found = self.taken(np.delete(np.arange(self.k), b))
        found.W[a] = both
        found.changed()
        return found

    def with_columns(self, columns: np.ndarray) -> Self:
        new = self.sent(columns, self.W.dtype)
        return type(self)(cupy().vstack([self.W, new.W]), self.n)

    def with_column(self, column: np.ndarray, scores: np.ndarray) -> Self:
        return self.with_columns(column[:, None])


@dataclass(frozen=True)
class Gpu:
    """``dtype`` of the products, "float64", "float32" or "tf32"; ``room`` for X, in bytes, is a
    share of what the device has free where it is not given."""

    dtype: str = "float64"
    room: int | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[self.dtype]

    def hold(self, data: Data, rows: Rows, dtype: str) -> tuple[Block, Rows]:
        """X is on the device once, whoever asks, until the last who does has let it go."""
        if data.far:
            far = f"{cast(Any, data.X).name} is read by blocks of rows"
            raise ValueError(f"backend='gpu' is for X in memory, but {far}; use backend='local'.")
        dtype = self.kind.dtype
        with SENDING:
            kept = data.once("device", OnDevice)
            X = kept.get(dtype)
            if X is None:
                X = kept[dtype] = self._send(data)
            squares = data.once(("squares on the device", dtype), lambda: row_squares(X))
            seen = kept.get("seen")
            if data.observed is not None and seen is None:
                seen = kept["seen"] = self._put(data.observed)
        return Block(X, seen, squares), DeviceRows.sent(rows.nu, dtype)

    def _send(self, data: Data) -> Any:
        """X on the device, or here if there is no room for it; zeros where entries are missing."""
        dtype, there = self.kind.dtype, data.device
        if there is not None:
            return cupy().ascontiguousarray(there, dtype)
        X = data.X if data.observed is None else np.where(data.observed, data.X, 0.0)
        return self._put(X.astype(dtype, copy=False))

    def _put(self, array: np.ndarray) -> Any:
        """It on the device, or here if there is no room for it."""
        room = ROOM * cupy().cuda.runtime.memGetInfo()[0] if self.room is None else self.room
        return cupy().asarray(array) if array.nbytes <= room else locked(array)

    def _pieces(self, block: Block, most: int) -> Iterator[tuple[Any, Any, slice]]:
        """Rows of X on the device, at most so many at a time, 1 where an entry of them is missing
        (None where none is), and which they are."""
        if block.mask is None:
            yield from ((X, None, piece) for X, piece in on_device(block.X, most))
            return
        both = zip(on_device(block.X, most), on_device(block.mask, most), strict=True)
        for (X, piece), (seen, _) in both:
            yield X, cupy().logical_not(seen).astype(self.kind.dtype), piece

    def local_step(
        self, block: AnyBlock, rows: Rows, given: Globals, passes: int = PASSES
    ) -> Statistics:
        sent = Sent.of(given, self.kind) if passes and rows.k else None
        return self._step(cast(Block, block), cast(DeviceRows, rows), sent, passes)

    def _step(self, block: Block, rows: DeviceRows, sent: Sent | None, passes: int) -> Statistics:
        """Sweeps over rows that were sent what they need for it, and the sums over all."""
        sums = Sums(self.kind, rows.k, block.d, block.masked)
        for X, gone, piece in self._pieces(block, self._most(block, rows.k)) if rows.k else ():
            W = rows.W[:, piece]
            if sent is not None:
                sweep(self.kind, X, gone, W, sent, passes)
            sums.add(X, gone, W)
        found, likely = sums.statistics(block)
        rows.changed(likely)
        return found

    def tally(self, block: AnyBlock, rows: Rows) -> Statistics:
        found = self._step(cast(Block, block), cast(DeviceRows, rows), None, 0)
        return replace(found, gain=np.zeros(rows.k))

    def residual_scores(
        self, block: AnyBlock, rows: Rows, phi: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        block, rows, dtype = cast(Block, block), cast(DeviceRows, rows), self.kind.dtype
        phi, v = (cupy().asarray(each, dtype) for each in (phi, v))
        beside = v.shape[1:]
        scores, back = cupy().empty((block.n, *beside)), cupy().zeros((block.d, *beside))
        along = phi @ v
        for X, gone, piece in self._pieces(block, self._most(block, rows.k)):
            W = rows.W[:, piece]
            if gone is None:
                e = X @ v - W.T @ along
                back += X.T @ e - phi.T @ (W @ e)
            else:
                E = (X - W.T @ phi) * (1 - gone)
                e = E @ v
                back += E.T @ e
            scores[piece] = e
        return scores.get(), back.get()

    def hard_step(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: HardGlobals
    ) -> Statistics:
        block, rows = cast(Block, block), cast(DeviceRows, rows)
        sums, size = Sums(self.kind, rows.k, block.d, block.masked), piece_size(block, rows.k)
        if block.n <= size:  # so few that each knows what those before it took
            here = Rows.hard(rows.nu)
            Local().hard_step(rng, self._here(block), here, given)
            rows.W[...] = DeviceRows.sent(here.nu, self.kind.dtype).W
            return self.tally(block, rows)
        if rows.k:
            counts = rows.likely.astype(float)
            rounds = Rounds(self.kind, HardSent.of(given, self.kind), counts, block.n, size)
            together = GROUP * size
            most = max(self._most(block, rows.k) // together, 1) * together
            for X, gone, piece in self._pieces(block, most):
                W = rows.W[:, piece]
                rounds.improve(X, gone, W)
                sums.add(X, gone, W)
        found, likely = sums.statistics(block)
        rows.changed(likely)
        return replace(found, gain=np.zeros(rows.k))

    def draw_rows(
        self, rng: np.random.Generator, block: AnyBlock, rows: Rows, given: Globals
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Random numbers are the device's own: other draws than those of the local backend."""
        cp, W = cupy(), cast(DeviceRows, rows).W
        device = cp.random.Generator(cp.random.Philox4x3210(int(rng.integers(2**63))))
        bits = cp.packbits((device.random(W.shape, W.dtype) < W).ravel())  # rows end with zeros
        packed = bits.reshape(len(W), -1)[:, : -(-rows.n // 8)].get()
        return np.ascontiguousarray(packed.T), None

    # what is asked for seldom is done here

    def row_bounds(self, block: AnyBlock, rows: Rows, given: Globals, none: float) -> np.ndarray:
        return Local(cores()).row_bounds(self._here(cast(Block, block)), Rows(rows.nu), given, none)

    def _here(self, block: Block) -> Block:
        mask = None if block.mask is None else cupy().asnumpy(block.mask)
        return block._replace(X=cupy().asnumpy(block.X), mask=mask)

    def _most(self, block: Block, k: int) -> int:
        """Rows that are worked on at once."""
        most, size = AT_ONCE, block.X.itemsize
        if isinstance(block.X, np.ndarray):
            most = SENT // (size * block.d)
        if block.masked:
            most = min(most, OWN // (size * max(k * k, 1)))
        return max(most // TERMS, 1) * TERMS
