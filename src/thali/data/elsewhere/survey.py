"""What one pass over rows tells of them: sums that add up over blocks, block after block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from thali.data.checks import refuse_squares

At = tuple[int, int]  # a row and a column


@dataclass(frozen=True)
class Survey:
    """Of ``n`` rows, column by column: how many entries were observed, their sum, the least and the
    largest (infinite where nothing was); of all, Σx², and how many are missing or infinite, with
    the first of these.

    >>> both = Survey.of(np.array([[1.0, np.nan]])) + Survey.of(np.array([[3.0, 2.0]]))
    >>> both.n, both.seen.tolist(), both.total.tolist(), both.squares, both.missing
    (2, [2, 1], [4.0, 2.0], 14.0, 1)
    """

    n: int
    seen: np.ndarray
    total: np.ndarray
    low: np.ndarray
    high: np.ndarray
    squares: float
    missing: int
    infinite: int
    first_missing: At | None
    first_infinite: At | None

    @classmethod
    def of(cls, X: np.ndarray) -> Self:
        """Of one block."""
        n, d = X.shape
        with np.errstate(over="ignore", invalid="ignore"):
            total = X.sum(axis=0)
            if np.isfinite(total).all():  # then so are all entries
                ends = X.min(axis=0), X.max(axis=0)
                squares = float(np.square(X).sum())
                return cls(n, np.full(d, n), total, *ends, squares, 0, 0, None, None)
            missing, infinite = np.isnan(X), np.isinf(X)
            seen = np.where(missing | infinite, 0.0, X)
            low = np.where(missing, np.inf, X).min(axis=0)
            high = np.where(missing, -np.inf, X).max(axis=0)
            return cls(
                n, n - missing.sum(axis=0), seen.sum(axis=0), low, high,
                float(np.square(seen).sum()), int(missing.sum()), int(infinite.sum()),
                _first(missing), _first(infinite),
            )  # fmt: skip

    def __add__(self, other: Survey) -> Survey:
        """Of these rows, followed by those."""
        return Survey(
            self.n + other.n,
            self.seen + other.seen,
            self.total + other.total,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.squares + other.squares,
            self.missing + other.missing,
            self.infinite + other.infinite,
            self.first_missing or _later(other.first_missing, self.n),
            self.first_infinite or _later(other.first_infinite, self.n),
        )

    @property
    def means(self) -> np.ndarray:
        """The mean of what was observed in each column, 0 where nothing was."""
        return np.asarray(self.total / np.maximum(self.seen, 1))

    def refuse(self) -> None:
        """Refuse what no engine can work with: nothing at all, infinities, sizes beyond squares."""
        if self.infinite:
            assert self.first_infinite is not None
            i, j = self.first_infinite
            raise ValueError(
                f"X contains infinity: {self.infinite} entries, the first at row {i}, "
                f"column {j}. Replace or drop them first."
            )
        entries = self.n * len(self.seen)
        if self.missing == entries:
            raise ValueError(
                f"X has no observed entry: all {entries} are missing; give at least one number."
            )
        largest = float(max(self.high.max(), -self.low.min()))
        refuse_squares(largest)


def _first(where: np.ndarray) -> At | None:
    """The first place, row after row."""
    if not where.any():
        return None
    i, j = divmod(int(where.argmax()), where.shape[1])
    return i, j


def _later(at: At | None, rows: int) -> At | None:
    return None if at is None else (at[0] + rows, at[1])
