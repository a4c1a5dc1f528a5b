r"""Changes of whole columns of an answer, each of which changes of bits may finish.

Where features are split, fused or missing, no change of one bit is for the better. What is tried
instead, of matrices Z with K columns:

    drop      a column goes
    add       one more is grown around what is left unexplained (``kernels/grown_columns``)
    swap      a column goes, and another is grown around what is then left
    pair      others stand in place of a and b: a ∪ b, or a and a ⊕ b, or a ∖ b, b ∖ a and a ∩ b …
              (``kernels/paired_columns``)

All are compared by their log joints as they are, equal columns apart. Where there are many rows or
columns some are drawn, so that a round costs no more than some passes over the bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from thali.kernels.gaussian_row import Scales

SEEDS = 16  # rows from which columns are grown, of each matrix that is to have one more
WORK = 1 << 19  # entries that these may look at in one turn
FEWEST = 4
ADDED, SWAPPED = 3, 2  # of the grown columns, how many are kept
PLACES = 8  # columns that another is grown for
PAIRS = 100  # pairs of columns


def rearranged(
    rng: np.random.Generator,
    Z: np.ndarray,
    X: np.ndarray,
    scales: Scales,
    potential: np.ndarray,
    capacity: int,
) -> Iterator[np.ndarray]:
    """Matrices with other columns, the most probable first; X may be a rotation of the data."""
    from thali.kernels.paired_columns import CHANGES, MADE, PARTS, value_of_pairs, value_without

    bits, real, k = np.ascontiguousarray(Z, np.uint8), Z.astype(float), Z.shape[1]
    C, T = real.T @ real, real.T @ X
    without = value_without(C, T, scales, potential)
    found: list[tuple[float, Any]] = [(without[a], np.delete(Z, a, axis=1)) for a in range(k)]
    for a in (k, *drawn(rng, k, PLACES)):
        base, most = (Z, ADDED) if a == k else (np.delete(Z, a, axis=1), SWAPPED)
        for gain, column in grown(rng, base, X, scales, potential)[:most]:
            found.append((without[a] + gain, np.column_stack([base, column])))
    pairs = np.array(list(combinations(range(k), 2)), int).reshape(-1, 2)
    pairs = pairs[drawn(rng, len(pairs), PAIRS)]
    values = value_of_pairs(X, bits, C, T, pairs, MADE, PARTS, scales, potential)
    for p, o in np.argwhere(values > -np.inf):
        found.append((values[p, o], (pairs[p], CHANGES[o])))
    seen = {class_of(Z)}
    for i in np.argsort([-value for value, _ in found], kind="stable"):
        change = found[i][1]
        other = change if isinstance(change, np.ndarray) else paired(Z, *change)
        if class_of(other) not in seen and (capacity < 0 or other.shape[1] <= capacity):
            seen.add(class_of(other))
            yield other


def drawn(rng: np.random.Generator, count: int, most: int) -> np.ndarray:
    """Up to ``most`` numbers below ``count``."""
    return rng.permutation(count)[:most] if count > most else np.arange(count)


def paired(
    Z: np.ndarray, pair: np.ndarray, change: tuple[tuple[float, float, float], ...]
) -> np.ndarray:
    """Z with other columns in place of two of its own.

    >>> Z = np.array([[1, 1, 0], [0, 1, 1]], bool)
    >>> paired(Z, (1, 2), ((1, 1, -1),)).astype(int)  # a ∪ b
    array([[1, 1],
           [0, 1]])
    """
    a, b = Z[:, pair[0]].astype(int), Z[:, pair[1]].astype(int)
    made = [part[0] * a + part[1] * b + part[2] * a * b > 0.5 for part in change]
    return np.column_stack([np.delete(Z, pair, axis=1), *made])


def class_of(Z: np.ndarray) -> tuple[bytes, ...]:
    """What matrices have in common that differ in the order of columns alone."""
    return tuple(sorted(column.tobytes() for column in np.packbits(Z, axis=0).T))


def grown(
    rng: np.random.Generator, Z: np.ndarray, X: np.ndarray, scales: Scales, potential: np.ndarray
) -> list[tuple[float, np.ndarray]]:
    """Columns that Z might have beside its own, with what each adds to the log joint, the best
    first."""
    from thali.kernels.grown_columns import grow_columns

    (n, k), real, r = Z.shape, Z.astype(float), (scales.sigma_x / scales.sigma_a) ** 2
    M = np.linalg.inv(real.T @ real + r * np.eye(k))
    E = np.ascontiguousarray(X - real @ (M @ (real.T @ X)))
    seeds = drawn(rng, n, min(SEEDS, max(FEWEST, WORK // (n * (X.shape[1] + k * k)))))
    bits = np.ascontiguousarray(Z, np.uint8)
    columns, gains = grow_columns(E, bits, M, potential, scales, seeds)
    best: dict[bytes, int] = {}
    for i in np.argsort(-gains, kind="stable"):
        if gains[i] > -np.inf:
            best.setdefault(columns[i].tobytes(), int(i))
    return [(float(gains[i]), columns[i].astype(bool)) for i in best.values()]
