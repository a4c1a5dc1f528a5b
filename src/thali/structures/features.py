"""The latent structure: binary feature matrices up to the order of their columns.

Two matrices with the same columns in another order describe the same features. Their
equivalence class [Z] is what a prior gives a probability to. Every exchangeable prior here has

    log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} − Σ_h log K_h! + const

with m_k the column sums, F_n the row sums (θ = 0 in most priors) and K_h the multiplicities of
equal columns (the histories h).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from thali.machine import refuse_beyond_memory
from thali.structures.base import PointEstimate, Structure
from thali.structures.feature_changes import change_columns
from thali.structures.feature_estimate import match_columns, point_estimate

NO_COUNTS = np.zeros(0, np.int64)


class FeatureTables(NamedTuple):
    """All that a Gibbs kernel needs to know of a feature prior on n rows.

    ``log_odds[m]`` = λ_{m+1} − λ_m is log P(z=1) − log P(z=0), but for θ, when m ≥ 1 of the other
    n−1 rows have the feature. j new features have weight exp(j·new_log_weight) / j! when
    ``capacity`` is −1, and C(capacity − K, j) · exp(j·new_log_weight) when at most ``capacity``
    features exist and the other rows use K of them; new_log_weight = λ_1. A capacity of −2 − L,
    ``held_to(L)``, gives j new ones the weight of −1 as long as K + j ≤ L, and none beyond.
    ``row_potentials`` are θ_0, θ_1, … by the number of features of a row, the last one for all
    larger numbers too; None where θ = 0. A bit's log odds then have θ_{F+1} − θ_F besides, F the
    other features of the row, and j new features of a row have e^{θ_{F+j} − θ_F}.
    """

    log_odds: np.ndarray
    new_log_weight: float
    capacity: int
    row_potentials: np.ndarray | None = None


def held_to(most: int) -> int:
    """The capacity of tables by which there are at most so many features, each new one weighed as
    if there were no limit."""
    return -2 - most


def most_of(capacity: int) -> int:
    """How many features a capacity allows; −1 for any number.

    >>> most_of(7), most_of(-1), most_of(held_to(7))
    (7, -1, 7)
    """
    return capacity if capacity >= -1 else -2 - capacity


def room_left(capacity: int, k: int) -> int:
    """What k features leave of a capacity.

    >>> room_left(7, 2), room_left(-1, 2), room_left(held_to(7), 2) == held_to(5)
    (5, -1, True)
    """
    if capacity == -1:
        return -1
    return capacity - k if capacity >= 0 else capacity + k


class MassLaw(NamedTuple):
    """How a prior's mass α changes between two sweeps, where compiled code can see to it.

    Every e^{λ_m} is proportional to α and log P of no features at all is −α·total, so that under
    α ~ Gamma(shape, rate) it is drawn from Gamma(shape + K, rate + total). A shape of 0 says that
    nothing of the prior changes, and ``constant`` is then that log P, but for θ.
    """

    alpha: float
    unit: float  # λ_1 where α = 1
    shape: float
    rate: float
    total: float
    constant: float


def potentials(tables: FeatureTables) -> np.ndarray:
    """λ_m for m = 0 … n, with λ_0 = 0.

    >>> from thali import IBP
    >>> np.exp(potentials(IBP(alpha=2.0).tables(2))).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    first = tables.new_log_weight
    return np.concatenate([[0.0, first], first + np.cumsum(tables.log_odds[1:])])


class NextRow(NamedTuple):
    """The distribution of the next row given those before, for one or many tables of numbers.

    A row has a feature that m rows before it have with odds (m + offset)/(rest − m); new features
    have the weights of ``FeatureTables``. Each is a number, or an array over particles.
    """

    offset: float | np.ndarray
    rest: float | np.ndarray
    new_log_weight: float | np.ndarray
    capacity: int


class FeatureCounts(NamedTuple):
    """The sufficient statistics of [Z] for an exchangeable prior: n, m_k, K_h and F_n.

    ``row_sums`` are counted for priors with row potentials alone (``with_row_sums``), and are empty
    for all others, so that these do not pay for them.
    """

    n: int
    column_sums: np.ndarray
    multiplicities: np.ndarray
    row_sums: np.ndarray = NO_COUNTS


def with_row_sums(counts: FeatureCounts, tables: FeatureTables, Z: np.ndarray) -> FeatureCounts:
    """The counts with F_n, if the prior of these tables asks for them."""
    if tables.row_potentials is None:
        return counts
    return counts._replace(row_sums=Z.sum(axis=1, dtype=np.int64))


def as_binary_matrix(Z: object, *, n: int | None = None) -> np.ndarray:
    """Return Z as a C-ordered boolean matrix, or say what is wrong with it.

    >>> as_binary_matrix([[1, 0], [0, 1]]).dtype
    dtype('bool')
    """
    if hasattr(Z, "toarray"):
        raise TypeError("Z is a sparse matrix where a dense one is needed: give Z.toarray().")
    array = np.asarray(Z)
    if array.ndim != 2:
        raise ValueError(
            f"Z must be a matrix (rows x features), not an array of {array.ndim} dimensions."
        )
    if n is not None and array.shape[0] != n:
        raise ValueError(f"Z has {array.shape[0]} rows but the data have {n}.")
    if array.dtype != bool:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise ValueError("Z must contain only 0 and 1 (or False and True).")
        array = array.astype(bool)
    return np.ascontiguousarray(array)


def as_amounts(W: object) -> np.ndarray:
    """A matrix of finite numbers, or one sentence."""
    amounts = np.asarray(W, float)
    if amounts.ndim != 2 or not np.isfinite(amounts).all():
        raise ValueError("Z must be a matrix (rows x features) of finite amounts.")
    return amounts


def left_order(Z: ArrayLike) -> np.ndarray:
    """Return the left-ordered form: empty columns dropped, the rest by history, largest first.

    >>> left_order([[0, 1, 0], [1, 1, 0]]).astype(int)
    array([[1, 0],
           [1, 1]])
    """
    used = used_columns(Z)
    histories = [column.tobytes() for column in np.packbits(used, axis=0).T]  # first rows first
    order = sorted(range(len(histories)), key=histories.__getitem__, reverse=True)
    return np.ascontiguousarray(used[:, order])


def used_columns(Z: ArrayLike) -> np.ndarray:
    """Z without its empty columns."""
    bits = as_binary_matrix(Z)
    return bits[:, bits.any(axis=0)]


def feature_counts(Z: ArrayLike) -> FeatureCounts:
    """Count column sums, equal columns and row sums of Z, empty columns left out."""
    used = used_columns(Z)
    _, multiplicities = np.unique(np.packbits(used, axis=0).T, axis=0, return_counts=True)
    if used.shape[1] == 0:
        multiplicities = np.zeros(0, np.int64)
    return FeatureCounts(len(used), used.sum(axis=0), multiplicities, used.sum(axis=1))


def counts_from_gram(n: int, gram: np.ndarray) -> FeatureCounts:
    """The same but for row sums, from ZᵀZ alone.

    Columns k and l are equal just when (ZᵀZ)_kl = m_k = m_l.
    """
    sums = np.diagonal(gram)
    if len(sums) == 0:
        return FeatureCounts(n, sums, np.zeros(0, np.int64))
    equal = (gram == sums[:, None]) & (gram == sums[None, :])
    size = equal.sum(axis=1)
    first = equal.argmax(axis=1) == np.arange(len(size))
    return FeatureCounts(n, sums, size[first])


class Features(Structure[np.ndarray]):
    """Binary matrices Z (N, K): which rows have which features, up to the order of columns."""

    name = "features"
    component = "feature"
    answer = "Z_"

    def n_components(self, latent: np.ndarray) -> int:
        return int(latent.shape[1])

    def empty(self, n: int) -> np.ndarray:
        return np.zeros((n, 0), bool)

    def canonical(self, latent: np.ndarray) -> np.ndarray:
        return left_order(latent)

    def counts(self, latent: np.ndarray) -> FeatureCounts:
        return feature_counts(latent)

    def check(self, owner: str, given: object, n: int | None = None) -> np.ndarray:
        try:
            matrix = np.asarray(given)
        except ValueError:
            raise ValueError(f"{owner}: init is a list whose rows differ in length.") from None
        if matrix.ndim != 2:
            raise TypeError(
                f"{owner}: init must be the name of a start, a 0/1 matrix with a row for each row "
                f"of X, or a fitted model; not {type(given).__name__}."
            )
        if matrix.dtype == bool and n is None:
            return matrix
        refuse_beyond_memory("init", matrix.shape[0], matrix.shape[1], 1)
        try:
            return as_binary_matrix(matrix, n=n)
        except ValueError as error:
            raise ValueError(f"{owner}: init: {error}") from None

    def pack(self, latent: np.ndarray) -> np.ndarray:
        """Eight rows to a byte."""
        return np.packbits(latent, axis=0)

    def unpack(self, packed: np.ndarray, n: int) -> np.ndarray:
        return np.unpackbits(packed, axis=0, count=n).astype(bool)

    def join(self, packed: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        none = np.zeros((-(-n // 8), 0), np.uint8)
        return {
            "k": np.array([z.shape[1] for z in packed], np.int64),
            "Z": np.concatenate([none, *packed], axis=1),
        }

    def split(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        ends = np.cumsum(arrays["k"])
        return [arrays["Z"][:, end - k : end] for end, k in zip(ends, arrays["k"], strict=True)]

    def point_estimate(
        self, draws: Sequence[np.ndarray], log_joints: np.ndarray
    ) -> PointEstimate[np.ndarray]:
        return point_estimate(draws, log_joints)

    def distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Bits that differ once columns are matched."""
        return match_columns(a.astype(np.float32), b.astype(np.float32))[2]

    def changed(self, rng: np.random.Generator, latent: np.ndarray, capacity: int) -> np.ndarray:
        return change_columns(rng, latent, capacity)


FEATURES = Features()
