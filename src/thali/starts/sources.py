r"""Independent sources behind scores, and the two values of each.

FastICA follows a contrast that is highest where a source is least Gaussian. For a bit that is on
with probability p, the third moment ("square") sees nothing near p = ½, where the skewness is zero,
and the fourth ("cube") nothing near 0.21, where the kurtosis is; each is sure and fast elsewhere.
So the second is followed where the first does not come near to two values, and the sources that
come nearest are taken.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from thali.stopping import check_stop

CHUNK = 16  # sources that are split at a time
ITERATIONS = 100  # a handful to thirty where the contrast sees the sources
NEAR = 0.9  # the share of a source's variance between two values that needs no other contrast
SOME_ROWS = 4096  # by which the sources are found, if there are more

Contrast = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def cube(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u³ and the mean of its derivative: the fourth moment."""
    check_stop()
    squares = u * u
    return squares * u, 3.0 * squares.mean(axis=-1)


def square(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u² and the mean of its derivative: the third moment."""
    check_stop()
    return u * u, 2.0 * u.mean(axis=-1)


def tanh(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """tanh u and the mean of its derivative, which never overflow: heavy tails."""
    check_stop()
    t = np.tanh(u)
    return t, 1.0 - np.square(t).mean(axis=-1)


@contextmanager
def unfinished_is_fine() -> Iterator[None]:
    """No warnings where FastICA has not converged. Filters of warnings belong to the process, so
    this is for around the threads that look for starts, not for within them."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def independent_sources(
    rng: np.random.Generator, scores: np.ndarray, contrast: Contrast
) -> np.ndarray | None:
    """FastICA's sources, found by at most ``SOME_ROWS`` rows at random; None where it fails."""
    from sklearn.decomposition import FastICA

    seed = int(rng.integers(2**31))
    ica = FastICA(fun=contrast, whiten="unit-variance", max_iter=ITERATIONS, random_state=seed)
    some = scores
    if len(scores) > SOME_ROWS:
        some = scores[np.sort(rng.permutation(len(scores))[:SOME_ROWS])]
    with np.errstate(all="ignore"):
        try:
            ica.fit(some)
            sources = scores @ ica.components_.T
            sources -= ica.mean_ @ ica.components_.T
        except (np.linalg.LinAlgError, ValueError):
            return None
    return np.asarray(sources) if np.isfinite(sources).all() else None


def two_valued_sources(rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """Bits (n, K): the sources of the contrast by which they are nearest to two values, split."""
    best, highest = np.zeros((len(scores), 0), bool), -np.inf
    for contrast in (square, cube, tanh):
        if highest > NEAR or (contrast is tanh and best.shape[1]):
            break  # the last is for where the others overflow
        sources = independent_sources(rng, scores, contrast)
        if sources is None:
            continue
        bits, shares = split_in_two(sources)
        if shares.mean() > highest:
            best, highest = bits, shares.mean()
    return best if best.shape[1] else split_in_two(scores)[0]


def split_in_two(sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two means in one dimension, for each source: the cut with the least squares within.

    Which side of the cut each entry is on, and the share of a source's variance between the two.

    >>> split_in_two(np.array([[0.0], [0.1], [5.0], [5.1]]))[0].ravel()
    array([False, False,  True,  True])
    """
    few = (sources[:, i : i + CHUNK] for i in range(0, sources.shape[1], CHUNK))
    bits, shares = zip(*(_split(part) for part in few), strict=True)
    return np.concatenate(bits, axis=1), np.concatenate(shares)


def _split(sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``split_in_two`` of a few sources, of which several copies are made."""
    ordered = np.sort(sources, axis=0)
    n = len(ordered)
    below = np.arange(1, n)[:, None]
    left = np.cumsum(ordered, axis=0)[:-1]
    total = ordered.sum(axis=0)
    right = total - left
    between = left**2 / below + right**2 / (n - below)
    cut = between.argmax(axis=0)
    columns = np.arange(sources.shape[1])
    threshold = 0.5 * (ordered[cut, columns] + ordered[cut + 1, columns])
    middle = total**2 / n
    variance = np.maximum(np.square(ordered).sum(axis=0) - middle, np.finfo(float).tiny)
    shares = (between[cut, columns] - middle) / variance
    return np.asarray(sources > threshold), np.clip(shares, 0.0, 1.0)
