"""The best rows of a search so far: as many as there is room for, in a heap."""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper


class Found(NamedTuple):
    """Room for the rows that are kept, a heap with the lowest score first."""

    score: np.ndarray  # (room,)
    bits: np.ndarray  # (room, K) uint8
    new: np.ndarray  # (room,) int64


@helper
def sift(found, size, i):
    """Restore the heap below position i."""
    while True:
        low = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < size and found.score[child] < found.score[low]:
                low = child
        if low == i:
            return
        swap(found, i, low)
        i = low


@helper
def swap(found, a, b):
    found.score[a], found.score[b] = found.score[b], found.score[a]
    found.new[a], found.new[b] = found.new[b], found.new[a]
    for i in range(found.bits.shape[1]):
        found.bits[a, i], found.bits[b, i] = found.bits[b, i], found.bits[a, i]


@helper
def put(found, i, score, z, j):
    found.score[i], found.new[i] = score, j
    for a in range(found.bits.shape[1]):
        found.bits[i, a] = z[a]


@helper
def keep(found, size, score, z, j):
    """Keep a row while there is room, or in place of the lowest; returns how many there are and
    the score that was let go."""
    room = found.score.shape[0]
    if size < room:
        put(found, size, score, z, j)
        i = size
        while i > 0 and found.score[i] < found.score[(i - 1) // 2]:
            swap(found, i, (i - 1) // 2)
            i = (i - 1) // 2
        return size + 1, -np.inf
    lost = found.score[0]
    if score <= lost:
        return size, score
    put(found, 0, score, z, j)
    sift(found, size, 0)
    return size, lost
