r"""A point estimate of Z from draws: the least expected Hamming distance after matching columns.

    loss(Ẑ) = mean over draws of min over matchings of ‖Ẑ − Z_matched‖₁   (padded with zeros)

Draws differ in the order and number of their columns. From several draws as first guesses: match
the columns of every draw to the guess (an assignment problem), replace the guess by the majority
of the matched draws, which lowers the mean distance under that matching, and repeat until it stays.
The shares of the matched draws are the probabilities of the bits.

Draws are kept as rows of features here, (K, n), so that a matched column is read in one piece.
"""

from collections.abc import Sequence

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
    found = [_improve(different[g], different, np.bincount(which)) for g in guesses]
    best = min(found, key=lambda estimate: estimate.loss)
    packed = np.packbits(~best.latent, axis=0)  # ties left-ordered
    share = -best.probabilities.sum(axis=0)
    order = sorted(range(best.latent.shape[1]), key=lambda k: (share[k], packed[:, k].tobytes()))
    return PointEstimate(best.latent[:, order], best.probabilities[:, order], best.loss)


def match_columns(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The matching of columns with the least Hamming distance, and that distance.

    Unmatched columns are matched to zeros. |a − b|₁ = Σa + Σb − 2a·b for bits.
    """
    return _matched(left.T, right.T)


def _matched(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The same of rows of features."""
    from scipy.optimize import linear_sum_assignment

    gain = left @ right.T  # matching k to l saves 2·(a·b) against leaving both unmatched
    mine, theirs = linear_sum_assignment(gain, maximize=True)
    saved = 2.0 * gain[mine, theirs].sum(dtype=float)
    return mine, theirs, float(left.sum(dtype=float) + right.sum(dtype=float) - saved)


def _different(draws: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Each draw once, turned, and which of them every draw is: a heavy one stands there often."""
    places: dict[int, int] = {}  # by what object it is
    which = np.array([places.setdefault(id(Z), len(places)) for Z in draws])
    firsts = np.unique(which, return_index=True)[1]
    return [np.ascontiguousarray(draws[i].T, np.float32) for i in firsts], which


def _improve(
    guess: np.ndarray, draws: Sequence[np.ndarray], times: np.ndarray
) -> PointEstimate[np.ndarray]:
    best, total = None, times.sum()
    for _ in range(ROUNDS):
        shares = np.zeros(guess.shape, np.float32)
        loss = 0.0
        for draw, often in zip(draws, times, strict=True):
            mine, theirs, distance = _matched(guess, draw)
            shares[mine] += draw[theirs] if often == 1 else np.float32(often) * draw[theirs]
            loss += often * distance
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
