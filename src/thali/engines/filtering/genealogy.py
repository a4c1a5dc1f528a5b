"""Who descends from whom: the rows of Z of a population, each kept once.

At every row a particle's bits are kept in its slot, packed; where a row was followed by
resampling, also the slot of each particle's parent. A particle's Z is read by following its
parents back, so that resampling copies no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

CHUNK = 1 << 24  # bits unpacked in one go


@dataclass
class Genealogy:
    """Packed bits of each row by slot, and the parents where resampling followed."""

    bits: list[np.ndarray] = field(default_factory=list)  # (P, bytes) a row
    parents: list[np.ndarray | None] = field(default_factory=list)  # (P,) a row, or none

    @classmethod
    def of(cls, matrices: list[np.ndarray], rows: int) -> Genealogy:
        """One without ancestors, where each particle has rows of its own: from what ``matrices``
        gives."""
        widest = max(Z.shape[1] for Z in matrices)
        step = 8 * max(1, CHUNK // (8 * len(matrices) * max(widest, 1)))
        family = cls()
        for first in range(0, rows, step):
            some = min(step, rows - first)
            bits = np.zeros((some, len(matrices), widest), np.uint8)
            for p, Z in enumerate(matrices):
                bits[:, p, : Z.shape[1]] = np.unpackbits(Z[first // 8 :], axis=0, count=some)
            for z in bits:
                family.record(z)
        return family

    def record(self, z: np.ndarray) -> None:
        """Keep a row's bits (P, K)."""
        self.bits.append(np.packbits(z, axis=1))
        self.parents.append(None)

    def resampled(self, parents: np.ndarray) -> None:
        """After the last row: slot i now holds a copy of the particle in slot parents[i]."""
        self.parents[-1] = parents.astype(np.int32)

    def follow(self, parents: np.ndarray) -> None:
        """After the last row, resampled or not: only copies of some slots go on."""
        before = self.parents[-1]
        self.resampled(parents if before is None else before[parents])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays; −1 where no resampling followed.

        Of rows with equally many slots: fewer go on only at the end of a run that was stopped,
        after which no state is kept.
        """
        none = np.full(len(self.bits[0]) if self.bits else 0, -1, np.int32)
        widths = [bits.shape[1] for bits in self.bits]
        parents = [none if p is None else p for p in self.parents]
        return {
            "rows_widths": np.array(widths, np.int64),
            "rows_bits": np.concatenate(self.bits, axis=1) if self.bits else np.zeros((0, 0)),
            "rows_parents": np.array(parents, np.int32).reshape(len(widths), len(none)),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Genealogy:
        """What ``to_arrays`` gave."""
        ends = np.cumsum(arrays["rows_widths"])
        if not len(ends):
            return cls()
        bits = np.split(arrays["rows_bits"], ends[:-1], axis=1)
        parents = [None if p[0] < 0 else p for p in arrays["rows_parents"]]
        return cls([np.ascontiguousarray(b) for b in bits], parents)

    def matrices(self, k: np.ndarray, slots: np.ndarray) -> Iterator[np.ndarray]:
        """Z of the particles in ``slots``, which have k features each, packed eight rows a byte."""
        n = len(self.bits)
        widest = max(int(k.max(initial=0)), 1)
        step = max(1, CHUNK // (n * widest))
        for first in range(0, len(slots), step):
            some = slots[first : first + step]
            Z = np.zeros((n, len(some), widest), np.uint8)
            at = some
            for row in range(n - 1, -1, -1):
                parents = self.parents[row]
                if parents is not None:
                    at = parents[at]
                there = np.unpackbits(self.bits[row][at], axis=1)[:, :widest]
                Z[row, :, : there.shape[1]] = there
            for i, slot in enumerate(some):
                yield np.packbits(Z[:, i, : k[slot]], axis=0)


def systematic(u: float, weights: np.ndarray, size: int) -> np.ndarray:
    """How many of ``size`` equally spaced points, the first at u/size, fall on each weight.

    >>> systematic(0.5, np.array([0.5, 0.25, 0.25]), 4)
    array([2, 1, 1])
    """
    ends = np.cumsum(weights)
    ends *= size / ends[-1]
    # points u, u+1, … up to an end: there are ⌈end − u⌉ of them
    upto = np.clip(np.ceil(ends - u), 0, size).astype(np.int64)
    upto[-1] = size
    return np.diff(upto, prepend=0)


def parents_of(counts: np.ndarray) -> np.ndarray:
    """Parents by slot: survivors stay where they are, their copies fill the slots of the others.

    >>> parents_of(np.array([2, 0, 1, 1, 0, 2]))
    array([0, 0, 2, 3, 5, 5])
    """
    parents = np.arange(len(counts))
    parents[counts == 0] = np.repeat(parents, np.maximum(counts - 1, 0))
    return parents


def effective_size(weights: np.ndarray) -> float:
    """1/Σw² of normalized weights: of how many equal ones they are worth."""
    return float(1.0 / np.square(weights).sum())
