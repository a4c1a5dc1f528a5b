r"""A point estimate of Z from draws: the least expected Hamming distance after matching columns.

    loss(Ẑ) = mean over draws of min over matchings of ‖Ẑ − Z_matched‖₁   (padded with zeros)

Draws differ in the order and number of their columns. From several draws as first guesses: match
the columns of every draw to the guess (an assignment problem), replace the guess by the majority
of the matched draws, which lowers the mean distance under that matching, and repeat until it stays.
The shares of the matched draws are the probabilities of the bits.

Draws are kept as rows of features here, (K, n), so that a matched column is read in one piece, and
one beneath the other: one product with the guess has what all matchings ask for.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thali.structures.base import PointEstimate, evenly_spaced

GUESSES = 6
ROUNDS = 10


def point_estimate(
    draws: Sequence[np.ndarray], log_joints: np.ndarray
) -> PointEstimate[np.ndarray]:
    """The best estimate found from a few first guesses: the best draw and some evenly spaced.

    >>> a = np.array([[1, 0], [1, 1], [0, 1]], bool)
    >>> point_estimate([a, a[:, ::-1], a], np.zeros(3)).latent.astype(int)
    array([[1, 0],
           [1, 1],
           [0, 1]])
    """
    different, which = _different(draws)
    by_k = np.argsort([z.shape[1] for z in draws], kind="stable")
    middle = by_k[evenly_spaced(len(draws), GUESSES - 1)]
    guesses = np.unique(which[[int(np.argmax(log_joints)), *middle]])
    found = [_improve(different.draw(g), different, np.bincount(which)) for g in guesses]
    best = min(found, key=lambda estimate: estimate.loss)
    packed = np.packbits(~best.latent, axis=0)  # ties left-ordered
    share = -best.probabilities.sum(axis=0)
    order = sorted(range(best.latent.shape[1]), key=lambda k: (share[k], packed[:, k].tobytes()))
    return PointEstimate(best.latent[:, order], best.probabilities[:, order], best.loss)


def match_columns(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The matching of columns with the least Hamming distance, and that distance.

    Unmatched columns are matched to zeros. |a − b|₁ = Σa + Σb − 2a·b for bits.
    """
    mine, theirs, saved = _matched(left.T @ right)
    return mine, theirs, float(left.sum(dtype=float) + right.sum(dtype=float) - saved)


def _matched(gain: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The matching of k to l that saves most, each 2·(a·b) against leaving both unmatched, where
    ``gain`` has a·b; and what it saves."""
    from scipy.optimize import linear_sum_assignment

    mine, theirs = linear_sum_assignment(gain, maximize=True)
    return mine, theirs, 2.0 * float(gain[mine, theirs].sum(dtype=float))


class Stacked(NamedTuple):
    """Draws (K_i, n) one beneath the other."""

    rows: np.ndarray  # (Σ K_i, n)
    ends: np.ndarray  # where each begins, and Σ K_i
    sums: np.ndarray  # Σ z of each

    def draw(self, i: int) -> np.ndarray:
        return self.rows[self.ends[i] : self.ends[i + 1]]


def _different(draws: Sequence[np.ndarray]) -> tuple[Stacked, np.ndarray]:
    """Each draw once, turned, and which of them every draw is: a heavy one stands there often."""
    places: dict[int, int] = {}  # by what object it is
    which = np.array([places.setdefault(id(Z), len(places)) for Z in draws])
    firsts = np.unique(which, return_index=True)[1]
    own = [draws[i] for i in firsts]
    ends = np.concatenate([[0], np.cumsum([Z.shape[1] for Z in own])])
    rows = np.empty((ends[-1], draws[0].shape[0]), np.float32)
    for Z, start, end in zip(own, ends[:-1], ends[1:], strict=True):
        rows[start:end] = Z.T
    return Stacked(rows, ends, np.array([np.count_nonzero(Z) for Z in own])), which


def _improve(guess: np.ndarray, draws: Stacked, times: np.ndarray) -> PointEstimate[np.ndarray]:
    best, total = None, times.sum()
    for _ in range(ROUNDS):
        shares = np.zeros(guess.shape, np.float32)
        loss = float(times @ draws.sums) + total * guess.sum(dtype=float)
        gains = guess @ draws.rows.T
        for i, often in enumerate(times):
            draw = draws.draw(i)
            mine, theirs, saved = _matched(gains[:, draws.ends[i] : draws.ends[i + 1]])
            shares[mine] += draw[theirs] if often == 1 else np.float32(often) * draw[theirs]
            loss -= often * saved
        shares /= total
        loss /= total
        if best is not None and loss >= best.loss:
            break
        best = PointEstimate(guess.T.astype(bool), shares.T.astype(float), loss)
        majority = (shares > 0.5).astype(np.float32)
        majority = majority[majority.any(axis=1)]
        if majority.shape == guess.shape and (majority == guess).all():
            break
        guess = majority
    assert best is not None
    return best
