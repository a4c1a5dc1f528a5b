"""Random changes of one or two columns of Z, for a search to try."""

import numpy as np


def change_columns(rng: np.random.Generator, Z: np.ndarray, capacity: int = -1) -> np.ndarray:
    """Drop, split, join or disentangle one or two features, partners by their overlap.

    >>> import numpy as np
    >>> Z = np.eye(4, dtype=bool)
    >>> change_columns(np.random.default_rng(0), Z).shape[0]
    4
    """
    k = Z.shape[1]
    if k < 2:
        return Z
    a, b = overlapping_pair(rng, Z)
    first, second = Z[:, a], Z[:, b]
    rest = np.delete(Z, [a, b], axis=1)
    half = rng.random(len(Z)) < 0.5
    moves = [
        [second],  # drop one
        [],  # drop both
        [first | second],  # join
        [first & ~second, second],  # take the shared rows away
        [first ^ second, second],  # turn the shared rows around
        [first & half, first & ~half, second],  # split one at random
    ]
    if 0 <= capacity < k + 1:
        moves.pop()
    kept = moves[int(rng.integers(len(moves)))]
    changed = np.column_stack([rest, *kept])
    return np.ascontiguousarray(changed[:, changed.any(axis=0)])


def overlapping_pair(rng: np.random.Generator, Z: np.ndarray) -> tuple[int, int]:
    """A random column and a partner, likelier the more rows they share (cosine, plus a little)."""
    a = int(rng.integers(Z.shape[1]))
    bits = Z.astype(float)
    shared = bits[:, a] @ bits
    sums = bits.sum(axis=0)
    weight = 0.05 + shared / np.sqrt(sums * sums[a])
    weight[a] = 0.0
    return a, int(rng.choice(Z.shape[1], p=weight / weight.sum()))
