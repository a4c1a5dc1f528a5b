r"""A point estimate of Z from draws: the least expected Hamming distance after matching columns.

    loss(Ẑ) = mean over draws of min over matchings of ‖Ẑ − Z_matched‖₁   (padded with zeros)

Draws differ in the order and number of their columns. From several draws as first guesses: match
the columns of every draw to the guess (an assignment problem), replace the guess by the majority
of the matched draws, which lowers the mean distance under that matching, and repeat until it stays.
The shares of the matched draws are the probabilities of the bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Collapsed, GibbsState
from thali.model import Model

LARGEST = 200  # draws looked at, evenly spaced: the loss is an average, and converges fast
WORK = 1e8  # bits looked at in all
GUESSES = 6
ROUNDS = 10
UPDATES = 100  # of parameters that have no closed mean, to be averaged


class PointEstimate(NamedTuple):
    """Ẑ with columns by falling frequency, P(z=1) of its bits, and the expected loss."""

    Z: np.ndarray
    probabilities: np.ndarray
    loss: float


def draws_to_use(n: int, k: int) -> int:
    """How many draws to look at: fewer where each of them is large."""
    return int(np.clip(WORK / (n * max(k, 1)), 20, LARGEST))


def spaced(count: int, most: int) -> np.ndarray:
    """At most ``most`` evenly spaced positions among ``count``."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def point_estimate(draws: Sequence[np.ndarray], log_joints: np.ndarray) -> PointEstimate:
    """The best estimate found from a few first guesses: the best draw and some evenly spaced.

    >>> a = np.array([[1, 0], [1, 1], [0, 1]], bool)
    >>> point_estimate([a, a[:, ::-1], a], np.zeros(3)).Z.astype(int)
    array([[1, 0],
           [1, 1],
           [0, 1]])
    """
    reals = [z.astype(np.float32) for z in draws]
    by_k = np.argsort([z.shape[1] for z in draws], kind="stable")
    middle = by_k[spaced(len(draws), GUESSES - 1)]
    guesses = {int(np.argmax(log_joints)), *(int(i) for i in middle)}
    found = [_improve(reals[g], reals) for g in sorted(guesses)]
    best = min(found, key=lambda estimate: estimate.loss)
    packed = np.packbits(~best.Z, axis=0)  # ties left-ordered
    share = -best.probabilities.sum(axis=0)
    order = sorted(range(best.Z.shape[1]), key=lambda k: (share[k], packed[:, k].tobytes()))
    return PointEstimate(best.Z[:, order], best.probabilities[:, order], best.loss)


def match_columns(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The matching of columns with the least Hamming distance, and that distance.

    Unmatched columns are matched to zeros. |a − b|₁ = Σa + Σb − 2a·b for bits.
    """
    from scipy.optimize import linear_sum_assignment

    sums, other = left.sum(axis=0), right.sum(axis=0)
    gain = left.T @ right  # matching k to l saves 2·(a·b) against leaving both unmatched
    rows, columns = linear_sum_assignment(gain, maximize=True)
    return rows, columns, float(sums.sum() + other.sum() - 2.0 * gain[rows, columns].sum())


def _improve(guess: np.ndarray, draws: Sequence[np.ndarray]) -> PointEstimate:
    best = None
    for _ in range(ROUNDS):
        shares = np.zeros(guess.shape, np.float32)
        loss = 0.0
        for draw in draws:
            mine, theirs, distance = match_columns(guess, draw)
            shares[:, mine] += draw[:, theirs]
            loss += distance
        shares /= len(draws)
        loss /= len(draws)
        if best is not None and loss >= best.loss:
            break
        best = PointEstimate(guess.astype(bool), shares.astype(float), loss)
        majority = (shares > 0.5).astype(np.float32)
        majority = majority[:, majority.any(axis=0)]
        if majority.shape == guess.shape and (majority == guess).all():
            break
        guess = majority
    assert best is not None
    return best


def features_in_use(law: dict[str, np.ndarray]) -> np.ndarray:
    """The features that some row is more likely than not to have, the most frequent first.

    Of a stream, whose rows are gone, those that at least one is expected to have had.
    """
    if "stream_counts" in law:
        counts = law["stream_counts"]
        return np.argsort(-counts, kind="stable")[: int((counts > 0.5).sum())]
    used = np.flatnonzero((law["nu"] > 0.5).any(axis=0))
    return used[np.argsort(-law["nu"][:, used].sum(axis=0), kind="stable")]


def variational_answer(
    model: Model,
    data: Data,
    law: dict[str, np.ndarray],
    hyper: dict[str, float],
) -> tuple[PointEstimate, dict[str, np.ndarray], float]:
    """The answer of a variational law: Z where ν > ½, ν itself, means of the parameters, and the
    log joint there. Features in use only, the most frequent first."""
    used = features_in_use(law)
    nu = law["nu"]
    nu = np.ascontiguousarray(nu[:, used])
    Z = nu > 0.5
    loss = sum(float(np.minimum(column, 1.0 - column).sum()) for column in nu.T)  # nu is large
    parameters = {"A": np.ascontiguousarray(law["phi"][used])}
    if "first" in law:
        parameters["S"] = law["first"][:, used] * Z
    fixed = model.at(hyper)
    likelihood: Any = fixed.likelihood
    if isinstance(likelihood, Collapsed):
        log_joint = fixed.log_joint(data, Z)
    else:
        place = GibbsState(data, np.ascontiguousarray(Z, np.uint8), parameters, dict(hyper))
        log_joint = likelihood.log_density(place) + fixed.prior.log_prob(Z)
    return PointEstimate(Z, nu, loss), parameters, log_joint


def answer_at(
    model: Model,
    data: Data,
    Z: np.ndarray,
    hyper: dict[str, float],
    recorded: Sequence[Any],
    seed: np.random.SeedSequence,
    point: bool = False,
) -> tuple[dict[str, np.ndarray], float]:
    """The parameters that belong to Z, and the log joint there.

    Where A can be integrated out: E[A | X, Z] and log P(X, [Z]). Where not: what stands for Gibbs
    updates of the parameters given Z (``representative``), begun from those of the ``recorded``
    draw that is nearest to Z, and log P(X, parameters, [Z]) there. Begun from the prior, with
    little noise, amounts and features would hold each other far from where they fit. Where the one
    that is recorded is a ``point``, an answer with parameters of its own, they are these.
    """
    fixed = model.at(hyper)
    likelihood: Any = fixed.likelihood
    if isinstance(likelihood, Collapsed):
        return {"A": likelihood.features(data, Z)}, fixed.log_joint(data, Z)
    rng, bits = np.random.default_rng(seed), np.ascontiguousarray(Z, dtype=np.uint8)
    parameters = nearest(
        recorded, Z, likelihood.new_parameters(rng, data, Z.shape[1], hyper), likelihood.axes
    )
    place = GibbsState(data, bits, parameters, dict(hyper))
    if point:
        place.parameters = {name: value.astype(float) for name, value in parameters.items()}
        return place.parameters, likelihood.log_density(place) + fixed.prior.log_prob(Z)
    place.data = likelihood.augment(rng, data, bits, parameters)

    def updates() -> Iterator[dict[str, np.ndarray]]:
        for i in range(UPDATES + UPDATES // 2):
            likelihood.update_parameters(rng, place, hold=True)
            place.data = likelihood.augment(rng, data, bits, place.parameters)
            if i >= UPDATES // 2:
                yield place.parameters

    given = GibbsState(data, bits, {}, dict(hyper))
    given.parameters = likelihood.representative(given, updates())
    return given.parameters, likelihood.log_density(given) + fixed.prior.log_prob(Z)


def nearest(
    recorded: Sequence[Any],
    Z: np.ndarray,
    otherwise: dict[str, np.ndarray],
    axes: dict[str, int],
) -> dict[str, np.ndarray]:
    """The parameters of the recorded draw whose Z is nearest, its columns matched to those of Z.

    Columns that it does not have are those of ``otherwise``.
    """
    real = Z.astype(np.float32)
    matched = [match_columns(real, draw.Z.astype(np.float32)) for draw in recorded]
    best = min(range(len(matched)), key=lambda i: matched[i][2])
    draw, (mine, theirs, _) = recorded[best], matched[best]
    alike = (Z[:, mine] & draw.Z[:, theirs]).any(axis=0)
    found = {}
    for name, value in otherwise.items():
        first = np.moveaxis(value, axes[name], 0).copy()
        first[mine[alike]] = draw.parameters[name][theirs[alike]]
        found[name] = np.ascontiguousarray(np.moveaxis(first, 0, axes[name]))
    return found
