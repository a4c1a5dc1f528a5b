r"""Pre-learning with nonlinear features of the size counts (Welling and others 2012, eq. 5).

    log P(partition) = Σ_i λ_i m_i + w·φ(m) − log 𝒵,    wished for: E[m] = c and E[φ(m)] = e

The gradient in (λ, w) is (c − E[m], e − E[φ]). Expectations are means over exact draws of the
linear prior with E[m] = c, weighted by what the other potentials and the features add (the paper
takes them from a Gibbs sampler, and a small step along the gradient after each of its sweeps). On
the draws the problem is convex, and Newton's method solves it. What is left is the noise of the
draws: a few per cent of a size that one partition in a thousand has.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thali.priors.partition_sums import drawn_size_counts

SizeFeatures = Callable[[np.ndarray], Any]

DRAWS = 100_000
NEWTON = 50
MET = 1e-4  # of an expectation, in standard deviations
FEWEST = 0.01  # of the draws, the effective number that weights must leave


class NonlinearWish(NamedTuple):
    """Wanted size counts, the features, and their wanted expectations."""

    counts: np.ndarray
    features: SizeFeatures
    expected: Any


def learn(
    rng: np.random.Generator, wish: NonlinearWish, potentials: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """λ and w; ``potentials`` are those of the wished size counts alone, to begin from."""
    target = np.atleast_1d(np.asarray(wish.expected, float))
    if wish.expected is None or not np.isfinite(target).all():
        raise ValueError("expected must be a finite number for each of the features.")
    # λ_i + c·i is the same prior, so that one potential can stay: that of a size of many rows
    at = np.flatnonzero(np.isfinite(potentials))
    at = np.delete(at, np.argmax(wish.counts[at] * (at + 1.0)))
    m = drawn_size_counts(rng, potentials, DRAWS)
    phi = np.stack([np.atleast_1d(np.asarray(wish.features(each), float)) for each in m])
    if phi.shape[1] != len(target):
        raise ValueError(
            f"features gives {phi.shape[1]} numbers, but {len(target)} are expected of it."
        )
    values = np.hstack([m[:, at], phi])
    wanted = np.append(wish.counts[at], target)
    found, met = solve(values, wanted)
    if not met:
        raise ValueError(
            "No prior over partitions has these expected features beside these size counts, or one "
            "that is too far from that of the size counts alone: what is wished for may contradict "
            "itself, as a variance of K below that of whole numbers with its mean."
        )
    learned = potentials.copy()
    learned[at] += found[: len(at)]
    return learned, found[len(at) :]


def solve(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, bool]:
    """The weights of the columns of ``values``, (S, F), by which their means are as wanted; and
    whether there are such weights that leave enough of the draws."""
    at = np.zeros(len(wanted))
    scale = np.maximum(values.std(axis=0), 1e-12)

    def moments(point: np.ndarray) -> tuple[float, np.ndarray]:
        logs = values @ point
        top = logs.max()
        shares = np.exp(logs - top)
        total = shares.sum()
        return float(top + np.log(total / len(logs))), shares / total

    known, shares = moments(at)
    for _ in range(NEWTON):
        mean = shares @ values
        slope = wanted - mean
        if np.abs(slope / scale).max() < MET:
            return at, True
        away = (values - mean) / scale
        bow = (away * shares[:, None]).T @ away + 1e-9 * np.eye(len(at))
        step = np.linalg.solve(bow, slope / scale) / scale
        share = 1.0
        while share > 1e-6:
            then, new = moments(at + share * step)
            gain = share * float(wanted @ step) - (then - known)
            if gain >= 0.0 and 1.0 / np.square(new).sum() > FEWEST * len(values):
                break
            share *= 0.5
        else:
            break
        at, known, shares = at + share * step, then, new
    return at, False
