"""Drawing Z row by row: each customer takes old dishes by their popularity, then some new ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thali.structures.features import left_order


def seat(
    rng: np.random.Generator,
    n: int,
    old: Callable[[int, np.ndarray], np.ndarray],
    new: Callable[[int, int], int],
) -> np.ndarray:
    """Seat n customers; ``old(i, m)`` are the probabilities of dishes taken m times by i others,
    ``new(i, k)`` draws how many new ones join the k there are. Left-ordered."""
    taken: list[np.ndarray] = []
    sums = np.zeros(0)
    for i in range(n):
        again = rng.random(len(sums)) < old(i, sums)
        first = int(new(i, len(sums)))
        taken.append(np.concatenate([again, np.ones(first, bool)]))
        sums = np.concatenate([sums + again, np.ones(first)])
    Z = np.zeros((n, len(sums)), bool)
    for i, row in enumerate(taken):
        Z[i, : len(row)] = row
    return left_order(Z)
