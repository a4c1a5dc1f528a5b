"""The data matrix, checked once, and the one representation of what is missing in it.

``observed`` is True where an entry of X was observed, and None where all were; X is NaN exactly
where it is False. Nobody else looks for NaN: what depends on gaps asks for one of the views below,
each made once. Complete data that replace such with gaps are ``Augmented``.

Also the exact reduction for D > N: the linear-Gaussian marginal depends on X only through XXᵀ, so
X may be replaced by the N×N factor R̃ = Rᵀ of the QR decomposition Xᵀ = QR, as R̃R̃ᵀ = XXᵀ. It does
not commute with missing entries. A sparse X stays sparse (``sparse.py``), and has neither missing
entries nor that reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, sparray

from thali.data import sparse
from thali.data.checks import as_matrix, as_sparse, is_on_device, refuse_squares
from thali.data.missing import Patterns, first_guess, patterns

Table: TypeAlias = "Data | ArrayLike | pd.DataFrame | sparray"  # what ``Data.of`` takes
Made = TypeVar("Made")
BLOCK = 2**20  # entries looked at together
SAMPLE = 4  # blocks of entries that starts of tall data look at,
FEWEST = 1000  # and rows in any case
BY_GRAM = 600  # columns up to which their Gram matrix is kept, for starts to use again


@dataclass(frozen=True)
class Data:
    """A checked N×D matrix of float64 in C order, never changed after it is made.

    ``observed`` is True where an entry was observed, and X is NaN where not; None when X is
    complete. X may be a ``csr_array``, for engines that declare ``sparse``. ``future`` rows to come
    count where a prior over rows is not consistent. ``device`` is a complete X once more, in the
    memory of a GPU, where it was given there: a backend of a GPU reads that, all else reads X.
    """

    X: np.ndarray | csr_array
    observed: np.ndarray | None = None
    future: int = 0  # rows to come, of which nothing is known but that they are
    device: Any = field(default=None, kw_only=True, compare=False, repr=False)

    @classmethod
    def of(cls, X: Table) -> Data:
        """Check shape, type, finiteness and size; NaN, None and masked entries are missing.

        Data stay as they are.

        >>> Data.of([[1, 2], [3, 4]]).X.dtype
        dtype('float64')
        >>> Data.of([[1, 2], [3, None]]).observed.tolist()
        [[True, True], [True, False]]
        """
        if isinstance(X, Data):
            return X
        if is_on_device(X):
            return cls.on_device(cast(Any, X))
        data = cls.checked(as_sparse(X) if sparse.is_sparse(X) else as_matrix(X))
        if data.observed is not None and not data.observed.any():
            raise ValueError(
                f"X has no observed entry: all {data.X.size} are missing; give at least one number."
            )
        return data

    @classmethod
    def on_device(cls, X: Any) -> Data:
        """Of an array of CuPy: numbers that are all there are looked through where they lie."""
        real = X.ndim == 2 and X.size > 0 and X.dtype.kind == "f"
        largest = float(max(X.max(), -X.min())) if real else np.inf  # not a number, if one is none
        if not np.isfinite(largest):
            return cls.of(X.get()).beside(X)
        refuse_squares(largest)
        here = np.empty(X.shape)
        for block in blocks(here):
            X[block].astype(np.float64).get(out=here[block])
        return cls(here).beside(X)

    @classmethod
    def checked(cls, X: np.ndarray | csr_array) -> Data:
        """Of a matrix that has been checked: NaN alone is looked for. All of it may be missing."""
        if sparse.is_sparse(X) or not any(np.isnan(X[block]).any() for block in blocks(X)):
            return cls(X)
        return cls(X, np.ascontiguousarray(~np.isnan(X)))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: who reads it may have no device."""
        return vars(self) | {"device": None}

    def beside(self, X: object) -> Data:
        """These data, of which X lies on a device as well; there is no use for one with gaps."""
        return self if self.observed is not None else replace(self, device=X)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return sparse.is_sparse(self.X)

    @property
    def far(self) -> bool:
        """Whether X lies elsewhere, and is read by blocks (``thali.data.elsewhere``)."""
        return False

    @cached_property
    def reduced(self) -> np.ndarray | csr_array:
        """X itself, or for D > N, where X is dense, the N×N matrix with the same XXᵀ."""
        if self.observed is not None:
            raise ValueError("Data with missing entries have no reduced form; use data.filled.")
        if self.d <= self.n or self.sparse:
            return self.X
        return np.ascontiguousarray(np.asarray(np.linalg.qr(self.X.T, mode="r")).T)

    @cached_property
    def squares(self) -> np.ndarray:
        """‖x_n‖² of each row."""
        if self.sparse:
            return sparse.row_squares(self.X)
        return np.asarray(np.einsum("nd,nd->n", self.reduced, self.reduced))

    @cached_property
    def binary(self) -> np.ndarray:
        """X as uint8, missing entries as 0, where all that was observed is 0 or 1; else a refusal
        that names the first offender."""
        wrong = (self.X != 0.0) & (self.X != 1.0) & self.seen
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"X has {self.X[i, j]:g} at row {i}, column {j}, where this likelihood needs 0 or "
                "1; code the data as 0 and 1 (not centered), or use another likelihood."
            )
        return np.asarray(self.X == 1.0, np.uint8)

    @cached_property
    def singular_values(self) -> np.ndarray:
        """Singular values of the centered data, largest first, from the smaller Gram matrix."""
        if self.sparse:
            return sparse.singular_values(self.X)
        few = self.reduced.shape[1] <= BY_GRAM
        values = np.linalg.eigvalsh(self.centered_gram if few else self._gram())[::-1]
        return np.asarray(np.sqrt(np.maximum(values, 0.0)))

    @cached_property
    def centered_gram(self) -> np.ndarray:
        """YᵀY of the centered reduced data Y, kept: for at most ``BY_GRAM`` columns."""
        return self._gram()

    def _gram(self) -> np.ndarray:
        """YᵀY, Y being no wider than long."""
        X, mean = self.reduced, self.reduced.mean(axis=0)
        gram = np.zeros((len(mean), len(mean)))
        for block in blocks(X):
            centered = X[block] - mean
            gram += centered.T @ centered
        return gram

    @cached_property
    def mean_square(self) -> float:
        """The mean square of the observed entries: the data's scale, squared."""
        if self.sparse:
            return sparse.sum_of_squares(self.X) / (self.n * self.d)
        X = self.X if self.observed is None else self.X[self.observed][:, None]
        return sum(float(np.square(X[block]).sum()) for block in blocks(X)) / X.size

    @cached_property
    def total_square(self) -> float:
        """Σx² over the observed entries."""
        return sparse.sum_of_squares(self.zeroed)

    @cached_property
    def _kept(self) -> dict[Hashable, Any]:
        return {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What others make of these data, made once for each key and kept with them."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast(Made, self._kept[key])

    # some of the rows

    @property
    def sampled(self) -> int:
        """How many rows a sample has, if there are more."""
        return max(FEWEST, SAMPLE * BLOCK // self.d)

    def sample(self, rng: np.random.Generator) -> tuple[np.ndarray, Data]:
        """Some rows at random, in memory, and which; all of them, where they are few."""
        which = np.arange(self.n)
        if self.n > self.sampled:
            which = np.sort(rng.choice(self.n, self.sampled, replace=False))
        found = Data.checked(np.ascontiguousarray(self.X[which]))
        return which, found if self.device is None else found.beside(self.device[which])

    # missing entries

    @property
    def given(self) -> Data:
        """What was observed: these data, or those that they complete."""
        return self

    @property
    def whole(self) -> bool:
        """Whether X was drawn, all of it, and is to be taken as if it had been observed."""
        return False

    @property
    def missing(self) -> int:
        """How many entries are missing."""
        return 0 if self.observed is None else int(self.observed.size - self.observed.sum())

    @property
    def seen(self) -> np.ndarray:
        """``observed`` as a matrix, also where all was."""
        return np.ones(self.X.shape, bool) if self.observed is None else self.observed

    @cached_property
    def where_missing(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the missing entries, row after row."""
        none = np.zeros((0, 0), bool)
        rows, columns = np.nonzero(none if self.observed is None else ~self.observed)
        return rows, columns

    @cached_property
    def zeroed(self) -> np.ndarray | csr_array:
        """X with 0 in place of what is missing, for sums over what was observed."""
        return self.X if self.observed is None else np.where(self.observed, self.X, 0.0)

    @cached_property
    def filled(self) -> Data:
        """These data, or complete ones with a first guess in place of what is missing."""
        return self if self.observed is None else Data(first_guess(self.X, self.observed))

    @cached_property
    def patterns(self) -> Patterns:
        """Columns by the rows that they miss."""
        return patterns(self.seen)

    def in_units(self, units: np.ndarray) -> Data:
        """Each column divided by its unit; the gaps stay where they are."""
        found = Data(self.X / units, self.observed, self.future)
        if self.observed is not None:
            vars(found)["patterns"] = self.patterns  # looked for once
        return found

    def rows(self, which: slice) -> Data:
        """Some of the rows."""
        return Data(self.X[which], None if self.observed is None else self.observed[which])

    def piece(self, which: slice) -> Data:
        """Some of the rows, with what rows alone say of them (of D > N columns no factor)."""
        found = self.rows(which)
        if self.observed is None:
            vars(found)["squares"] = np.asarray(np.einsum("nd,nd->n", found.X, found.X))
        return found

    def alike(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows that show the same columns, and these (D,), group by group.

        >>> [(r.tolist(), c.tolist()) for r, c in Data.of([[1, None], [2, 3], [4, None]]).alike()]
        [([1], [True, True]), ([0, 2], [True, False])]
        """
        seen = self.seen
        kinds = patterns(seen.T)
        for kind in range(len(kinds.start) - 1):
            rows = np.flatnonzero(kinds.of_column == kind)
            yield rows, seen[rows[0]]


@dataclass(frozen=True)
class Augmented(Data):
    """Complete ``X``, of which kernels of complete data read, in place of the data ``source``.

    A sampler that completes its data holds both as one; answers are told of ``given``. Where X was
    observed and the likelihood is Gaussian, the two agree. A likelihood of other entries has latent
    Gaussians in X wherever it needs them, and what was observed in ``given`` alone.

    >>> gaps = Data.of([[1.0, np.nan]])
    >>> drawn = Augmented(np.array([[1.0, 2.0]]), source=gaps)
    >>> drawn.observed is None, drawn.given.observed.tolist()
    (True, [[True, False]])
    """

    source: Data = field(kw_only=True)
    latent: bool = field(default=False, kw_only=True)  # X is drawn where something was observed too

    @property
    def given(self) -> Data:
        return self.source

    @property
    def whole(self) -> bool:
        return self.latent


def blocks(X: np.ndarray) -> Iterator[slice]:
    """A few rows at a time, so that what is computed of X needs no second X."""
    rows = max(1, BLOCK // X.shape[1])
    return (slice(first, first + rows) for first in range(0, len(X), rows))


def row_names(X: object) -> list[str] | None:
    """The index of a data frame as text, unless it is just 0, 1, 2, …"""
    index = getattr(X, "index", None)
    if not isinstance(index, pd.Index) or isinstance(index, pd.RangeIndex):
        return None
    return [str(name) for name in index]


def named(
    values: np.ndarray | csr_array, rows: Sequence[str] | None, columns: Sequence[str] | None
) -> np.ndarray | csr_array | pd.DataFrame:
    """A data frame with these names, or the values themselves where there are none."""
    if rows is None and columns is None:
        return values
    return pd.DataFrame(values, index=rows, columns=columns)
