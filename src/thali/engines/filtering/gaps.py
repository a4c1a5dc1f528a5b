"""Data with missing entries as a filter reads them: columns that miss the same rows in groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from thali.data import Data
from thali.engines.filtering.coding import log_odds

if TYPE_CHECKING:
    from thali.kernels.masked_particle_rows import MaskedParticles, MaskedRow


@dataclass(frozen=True)
class Gaps:
    """X with its columns group after group; group g has those from ``start[g]`` to the next."""

    X: np.ndarray  # (N, D) 0 where missing
    shown: np.ndarray  # (N, J) whether the row shows the columns of the group
    start: np.ndarray  # (J + 1,)

    @classmethod
    def of(cls, data: Data) -> Gaps:
        """Those of data with missing entries.

        >>> gaps = Gaps.of(Data.of([[1.0, np.nan, 2.0], [3.0, 4.0, 5.0]]))
        >>> gaps.X.tolist(), gaps.shown.tolist(), gaps.start.tolist()
        ([[1.0, 2.0, 0.0], [3.0, 5.0, 4.0]], [[True, False], [True, True]], [0, 2, 3])
        """
        of_column = data.patterns.of_column
        order = np.argsort(of_column, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(of_column))]).astype(np.int64)
        X = np.ascontiguousarray(np.asarray(data.zeroed)[:, order])
        return cls(X, data.seen[:, order[start[:-1]]], start)

    def in_order(self, order: np.ndarray) -> Gaps:
        """The same with other rows, or in another order."""
        return Gaps(np.ascontiguousarray(self.X[order]), self.shown[order], self.start)

    @property
    def groups(self) -> int:
        return len(self.start) - 1

    @cached_property
    def squares(self) -> np.ndarray:
        """‖x‖² of each row in each group (N, J)."""
        return np.asarray(np.add.reduceat(np.square(self.X), self.start[:-1], axis=1))

    @cached_property
    def entries(self) -> np.ndarray:
        """How many entries each row shows (N,)."""
        return np.asarray(self.shown @ np.diff(self.start))

    def row(self, n: int) -> MaskedRow:
        """A row as kernels read it."""
        from thali.kernels.masked_particle_rows import MaskedRow

        return MaskedRow(self.X[n], self.squares[n], np.flatnonzero(self.shown[n]), self.start)

    def coded(self, particles: MaskedParticles, p: int, rows: int, sigma_x: float) -> np.ndarray:
        """The bits of the rows after the first ``rows`` given the features of particle p, which has
        seen those: by what they show of themselves (``coding.coded``)."""
        from thali.kernels.row_fits import flip_rows

        k = int(particles.k[p])
        A = np.zeros((k, self.X.shape[1]))
        for g in range(self.groups):
            mine = slice(self.start[g], self.start[g + 1])
            A[:, mine] = particles.M[p, g, :k, :k] @ particles.T[p, :k, mine]
        penalty = -2.0 * sigma_x**2 * log_odds(particles.m[p, :k], rows)
        X, shown = self.X[rows:], self.shown[rows:]
        Z = np.zeros((len(X), k), np.uint8)
        kinds, of_row = np.unique(shown, axis=0, return_inverse=True)
        for i, kind in enumerate(kinds):
            alike = np.flatnonzero(of_row.reshape(-1) == i)
            there = A * np.repeat(kind, np.diff(self.start))
            bits = np.zeros((len(alike), k), np.uint8)
            flip_rows(bits, X[alike] @ there.T, there @ there.T, penalty)
            Z[alike] = bits
        return Z.astype(bool)
