"""Labels of rows: their canonical form, and all of them that few rows can have."""

from collections.abc import Iterator

import numpy as np


def canonical_labels(labels: np.ndarray) -> np.ndarray:
    """Labels in the order in which they first appear, without gaps.

    >>> canonical_labels(np.array([7, 2, 7, 5])).tolist()
    [0, 1, 0, 2]
    """
    n = len(labels)
    if n and labels.dtype.kind in "iu" and labels.min() >= 0 and (most := int(labels.max())) < n:
        seen = np.full(most + 1, n)  # where each label is first: no need to sort rows
        seen[labels[::-1]] = np.arange(n - 1, -1, -1)
        return np.asarray(np.argsort(np.argsort(seen, kind="stable"))[labels])
    _, first, found = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return np.asarray(place[found.reshape(-1)])


def all_partitions(n: int) -> Iterator[list[int]]:
    """Every partition of n rows once, as canonical labels.

    >>> list(all_partitions(3))
    [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    """

    def grow(labels: list[int], used: int) -> Iterator[list[int]]:
        if len(labels) == n:
            yield labels
            return
        for k in range(used + 1):
            yield from grow([*labels, k], max(used, k + 1))

    return grow([], 0)
