r"""A point estimate of a partition from draws: the least expected loss; and how far draws are.

    expected loss of ĉ = mean over draws of d(ĉ, c)          d: variation of information, or Binder

Up to ``FEW`` rows all partitions are looked at. Beyond, as in salso (Dahl, Johnson, Müller 2022):
rows are put one after the other, in a random order, where each costs least given those before; then
each is taken out and put back while that helps; from several orders, and from the best draws, the
lowest is kept.

Where rows are hardly ever together, all of them alone may be as near to the draws as all of them
together, though no draw has nearly as many clusters; so an estimate may be held to at most as many
as most draws have (``usual_number``).

The credible ball (Wade and Ghahramani 2018) is what holds most draws around it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thali.structures.base import PointEstimate
from thali.structures.labels import all_partitions, canonical_labels
from thali.structures.partition_losses import distance, intersections, weights

FEW = 7  # rows up to which all partitions are looked at: 877 of them
ORDERS = 8  # random orders of rows
BEGINNINGS = 4  # draws from which rows are moved too
SWEEPS = 50
EXTRA = 4  # clusters that an estimate may have beyond the most of a draw


def usual_number(draws: Sequence[np.ndarray]) -> int:
    """A number of clusters that at most one draw in twenty exceeds.

    >>> usual_number([np.array([0, 0, 1]), np.array([0, 1, 1])])
    2
    """
    return int(np.quantile([int(draw.max()) + 1 for draw in draws], 0.95, method="higher"))


def point_estimate(
    draws: Sequence[np.ndarray], loss: str = "vi", seed: int = 0, most: int | None = None
) -> PointEstimate[np.ndarray]:
    """The partition of least expected loss that was found, of at most so many clusters.

    ``probabilities`` tells of each row how much of the rest of its cluster it is with, on average
    over draws; of a cluster of one row, how often it is alone.

    >>> a, b = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])
    >>> point_estimate([a, a, b]).latent.tolist()
    [0, 0, 1, 1]
    """
    own = sum(weights(loss, len(draws[0]))[np.bincount(draw)].sum() for draw in draws) / len(draws)
    search = _Search(np.ascontiguousarray(np.stack(draws, axis=1), np.int32), loss, most)
    rng = np.random.default_rng(seed)
    found = (
        [
            search.value(np.array(labels))
            for labels in all_partitions(len(draws[0]))
            if max(labels) < search.most
        ]
        if len(draws[0]) <= FEW
        else search.beginnings(rng, draws)
    )
    value, labels = min(found, key=lambda each: each[0])
    labels = canonical_labels(labels)
    return PointEstimate(labels, search.together(labels), max(float(value + own), 0.0))


class _Search:
    """Draws as the kernels read them; a value here lacks what all estimates have in common."""

    def __init__(self, draws: np.ndarray, loss: str, most: int | None) -> None:
        self.draws = draws  # (n, S)
        self.f = weights(loss, len(draws))
        self.step = np.append(np.diff(self.f), np.inf)
        self.clusters = int(draws.max()) + 1
        self.most = min(len(draws), self.clusters + EXTRA if most is None else most)

    def shared(self, k: int) -> np.ndarray:
        return np.zeros((k, self.draws.shape[1], self.clusters), np.int32)

    def beginnings(
        self, rng: np.random.Generator, draws: Sequence[np.ndarray]
    ) -> list[tuple[float, np.ndarray]]:
        """Local minima from random orders, and from the draws that are lowest."""
        from thali.kernels.partition_estimates import allocate, overlaps

        found = []
        n = len(self.draws)
        for _ in range(ORDERS):
            labels, sizes = np.full(n, -1, np.int64), np.zeros(self.most, np.int64)
            shared, order = self.shared(self.most), rng.permutation(n)
            used = allocate(self.draws, order, self.step, self.most, labels, sizes, shared)
            found.append(self.sweetened(rng, labels, sizes, shared, used))
        draws = [draw for draw in draws if draw.max() < self.most]
        some = np.unique(np.linspace(0, len(draws) - 1, min(len(draws), 20)).round().astype(int))
        ranked = sorted(some, key=lambda i: self.value(draws[i])[0])
        for i in ranked[:BEGINNINGS]:
            labels = draws[i].astype(np.int64)
            sizes, shared = np.bincount(labels, minlength=self.most), self.shared(self.most)
            overlaps(self.draws, labels, shared)
            found.append(self.sweetened(rng, labels, sizes, shared, int(labels.max()) + 1))
        return found

    def sweetened(
        self,
        rng: np.random.Generator,
        labels: np.ndarray,
        sizes: np.ndarray,
        shared: np.ndarray,
        used: int,
    ) -> tuple[float, np.ndarray]:
        """Rows moved until none is better elsewhere."""
        from thali.kernels.partition_estimates import sweeten

        for _ in range(SWEEPS):
            order = rng.permutation(len(labels))
            used, moved = sweeten(
                self.draws, order, self.step, self.most, labels, sizes, shared, used
            )
            if moved == 0:
                break
        mean = self.f[shared[:used]].sum() / self.draws.shape[1]
        return float(self.f[sizes[:used]].sum() - 2.0 * mean), labels

    def value(self, labels: np.ndarray) -> tuple[float, np.ndarray]:
        """The value of given labels, and these."""
        mean = np.mean([self.f[intersections(labels, draw)].sum() for draw in self.draws.T])
        return float(self.f[np.bincount(labels)].sum() - 2.0 * mean), labels

    def together(self, labels: np.ndarray) -> np.ndarray:
        """For each row, how much of its cluster it is with."""
        from thali.kernels.partition_estimates import overlaps, together

        sizes, out = np.bincount(labels), np.zeros(len(labels))
        shared = self.shared(len(sizes))
        overlaps(self.draws, labels, shared)
        together(self.draws, labels, sizes, shared, out)
        alone = np.zeros(len(labels))  # of a cluster of one row, how often it is alone
        for draw in self.draws.T:
            alone += np.bincount(draw)[draw] == 1
        return np.asarray(np.where(sizes[labels] > 1, out, alone / self.draws.shape[1]))


class CredibleBall(NamedTuple):
    """The draws within ``radius`` of an estimate, and three at its edge.

    ``coarsest`` has the fewest clusters, ``finest`` the most, the farthest of those that tie;
    ``farthest`` is the farthest of all.
    """

    level: float
    radius: float
    coarsest: np.ndarray
    finest: np.ndarray
    farthest: np.ndarray


def credible_ball(
    draws: Sequence[np.ndarray], estimate: np.ndarray, level: float = 0.95, loss: str = "vi"
) -> CredibleBall:
    """The smallest ball around an estimate that holds at least ``level`` of the draws.

    >>> a, b = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])
    >>> ball = credible_ball([a, a, a, b], a, level=0.75)
    >>> ball.radius, ball.finest.tolist()
    (0.0, [0, 0, 1, 1])
    """
    if not 0.0 < level <= 1.0:
        raise ValueError(f"level={level!r} must be a share between 0 and 1.")
    apart = np.array([distance(loss, draw, estimate) for draw in draws])
    radius = float(np.sort(apart)[int(np.ceil(level * len(draws))) - 1])
    inside = [i for i in range(len(draws)) if apart[i] <= radius]
    k = {i: int(draws[i].max()) + 1 for i in inside}
    coarsest = max(inside, key=lambda i: (-k[i], apart[i]))
    finest = max(inside, key=lambda i: (k[i], apart[i]))
    farthest = max(inside, key=lambda i: apart[i])
    return CredibleBall(level, radius, draws[coarsest], draws[finest], draws[farthest])
