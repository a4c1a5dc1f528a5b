r"""Independent sources behind scores, and the two values of each.

FastICA follows a contrast that is highest where a source is least Gaussian. For a bit that is on
with probability p, the third moment ("square") sees nothing near p = ½, where the skewness is zero,
and the fourth ("cube") nothing near 0.21, where the kurtosis is; each is sure and fast elsewhere.
So the second is followed where the first does not come near to two values, then their sum, and the
sources that come nearest are taken.
"""

from collections.abc import Callable

import numpy as np

from thali.stopping import check_stop

CHUNK = 16  # sources that are split at a time
ITERATIONS = 200  # a handful to thirty where the contrast sees the sources
STAYS = 1e-4  # a direction that turns by less, in 1 − |cosine|, has converged
NEAR = 0.9  # the share of a source's variance between two values that needs no other contrast
SOME_ROWS = 4096  # by which the sources are found, if there are more
FLAT = 1e-12  # of the largest variance: a direction with less is none

Contrast = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def square(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u² and the means of its derivative: the third moment."""
    return u * u, 2.0 * u.mean(axis=0)


def cube(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u³ and the means of its derivative: the fourth moment."""
    squares = u * u
    return squares * u, 3.0 * squares.mean(axis=0)


def both(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u² + u³, for sources of which some are seen by the one and some by the other."""
    squares = u * u
    return squares * (1.0 + u), (2.0 * u + 3.0 * squares).mean(axis=0)


def tanh(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """tanh u and the means of its derivative, which never overflow: heavy tails."""
    t = np.tanh(u)
    return t, 1.0 - np.square(t).mean(axis=0)


def independent_sources(
    rng: np.random.Generator, scores: np.ndarray, contrast: Contrast
) -> np.ndarray | None:
    """FastICA (Hyvärinen 1999), all directions at once: sources of variance one, or None where they
    are no numbers. They are found by at most ``SOME_ROWS`` rows, at random."""
    some = scores
    if len(scores) > SOME_ROWS:
        some = scores[np.sort(rng.permutation(len(scores))[:SOME_ROWS])]
    mean = some.mean(axis=0)
    with np.errstate(all="ignore"):
        try:
            whitener = whitening(some - mean)
            if not whitener.shape[1]:
                return None
            white = (some - mean) @ whitener
            turned = decorrelated(rng.standard_normal((white.shape[1], white.shape[1])))
            for _ in range(ITERATIONS):
                check_stop()
                bent, slopes = contrast(white @ turned.T)
                other = decorrelated(bent.T @ white / len(white) - slopes[:, None] * turned)
                turns = 1.0 - np.abs(np.einsum("ij,ij->i", other, turned))
                turned = other
                if not turns.max() > STAYS:
                    break
            sources = (scores - mean) @ (whitener @ turned.T)
        except np.linalg.LinAlgError:
            return None
    return np.asarray(sources) if np.isfinite(sources).all() else None


def whitening(centered: np.ndarray) -> np.ndarray:
    """What turns centered scores into ones without correlation, of variance one."""
    variances, directions = np.linalg.eigh(centered.T @ centered / len(centered))
    used = variances > max(FLAT * variances[-1], np.finfo(float).tiny)
    return np.asarray(directions[:, used] / np.sqrt(variances[used]))


def decorrelated(turned: np.ndarray) -> np.ndarray:
    """(W Wᵀ)^{−½} W."""
    values, vectors = np.linalg.eigh(turned @ turned.T)
    scale = 1.0 / np.sqrt(np.maximum(values, np.finfo(float).tiny))
    return np.asarray((vectors * scale) @ vectors.T @ turned)


def two_valued_sources(rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """Bits (n, K): the sources of the contrast by which they are nearest to two values, split."""
    best, highest = np.zeros((len(scores), 0), bool), -np.inf
    for contrast in (square, cube, both, tanh):
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
