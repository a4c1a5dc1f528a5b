r"""What the prior of a whole matrix can be, given its first rows.

    log P([Z]) = const + Σ_k λ_{m_k} − Σ_h log K_h!    (and log of free features, if counted)

With R rows to come, a feature taken m times so far ends somewhere between m and m + R times, equal
columns may yet be parted, and features may be opened. A bound is, for R rows left,

    worth[m]   of a feature with count m                  (ties: ``kernels/search_scores.ties``)
    future     of all features yet to be opened

``Convex`` is the largest value itself, one by one: λ is convex in m, so an end of the range has
it. ``Paper`` is that of Rai and Daumé III (2011, section 4), corrected: looser. ``SoFar`` is no
bound: the prior of the rows so far, as if there were no others (greedy search, section 6.7).
"""

from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import gammaln

from thali.hyperparameters import Values
from thali.structures.features import FeatureCounts, FeatureTables, NextRow, potentials

RECENT = 64  # answers that are remembered
NAMES = ("convex", "paper", "so_far")


class SearchPrior(Protocol):
    """A prior at numbers, as a search reads it: ``PredictsRow`` and ``Sequential``."""

    def tables(self, n: int) -> FeatureTables: ...
    def log_prob_counts(self, counts: FeatureCounts) -> float: ...
    def start(self) -> Values: ...
    def next_row(self, n: int, hyper: dict[str, float]) -> NextRow: ...


def constant(prior: SearchPrior, n: int) -> float:
    """log P of the matrix without columns."""
    none = np.zeros(0)
    return float(prior.log_prob_counts(FeatureCounts(n, none, none)))


class Convex:
    """The largest value of each part by itself."""

    ties_part = True  # rows to come may part equal columns

    def __init__(self, prior: SearchPrior, n: int) -> None:
        tables = prior.tables(n)
        self.prior, self.n, self.capacity = prior, n, int(tables.capacity)
        self.potential = potentials(tables)
        self.convex = bool((np.diff(self.potential[1:], 2) >= -1e-12).all())
        self._constant = constant(prior, n)

    def constant(self, left: int) -> float:
        """What every matrix has."""
        return self._constant

    def worth(self, left: int) -> np.ndarray:
        """The most that a feature taken m times so far may be in the end, by m (m = 0 has 0)."""
        last = self.n - left
        within = self.potential[1:]  # m = 1 … n
        if self.convex:
            most = np.maximum(within[:last], within[left : left + last])
        else:
            most = sliding_window_view(within, left + 1).max(axis=1)
        return np.concatenate([[0.0], most])

    def slack(self, left: int) -> np.ndarray:
        """log Σ_s C(R, s) e^{λ_{m+s}}, over all that rows to come may do with a feature taken m
        times so far, above its ``worth``, by m."""
        # the prior is consistent, so that the sum is what the feature is among the rows so far
        seen = self.n - left
        return np.asarray(potentials(self.prior.tables(seen)) - self.never[seen] - self.worth(left))

    @cached_property
    def never(self) -> np.ndarray:
        """log of the probability that a feature which the first n rows do not have is not taken by
        those after them, by n."""
        numbers = dict(self.prior.start())
        rows = [self.prior.next_row(n, numbers) for n in range(1, self.n + 1)]
        each = [float(np.log(row.rest / (row.rest + row.offset))) for row in rows]
        return np.concatenate([np.cumsum(each[::-1])[::-1], [0.0]])

    def future(self, left: int, free: int) -> np.ndarray:
        """The most that features to be opened may add: by the features still free, or one number.

        c of them with one and the same history of m takers add c λ_m − log c!, and there are
        C(R, m) histories; where features are counted, each opened one had at most ``free`` choices.
        """
        if left == 0:
            return np.zeros(max(free, 0) + 1)
        m = np.arange(1, left + 1)
        choices = np.zeros(1) if free < 0 else np.log(np.maximum(np.arange(free + 1.0), 1.0))
        log_weight = self.potential[m] + choices[:, None]
        count = np.floor(np.exp(np.minimum(log_weight, 30.0)) + 1e-12)
        if free >= 0:
            count = np.minimum(count, np.arange(free + 1.0)[:, None])
        gain = np.maximum(count * log_weight - gammaln(count + 1.0), 0.0)
        histories = gammaln(left + 1.0) - gammaln(m + 1.0) - gammaln(left - m + 1.0)
        found = np.where(gain > 0.0, gain * np.exp(np.minimum(histories, 700.0)), 0.0)
        return np.asarray(found.sum(axis=1))


class Paper(Convex):
    """Of Rai and Daumé III: all rows to come do alike, each with the last one's probability.

    As printed, a feature that is skipped has the probability of one that was taken by all but the
    last of the rows to come; ``corrected=False`` shows that this is no bound.
    """

    def __init__(self, prior: SearchPrior, n: int, corrected: bool = True) -> None:
        super().__init__(prior, n)
        self.corrected = corrected
        self.numbers = dict(prior.start())

    def worth(self, left: int) -> np.ndarray:
        seen = self.n - left
        if left == 0:
            return super().worth(0)
        so_far = potentials(self.prior.tables(seen))
        m = np.arange(seen + 1.0)
        last = self.prior.next_row(self.n, self.numbers)
        whole = last.rest + last.offset
        take = (m + left - 1.0 + last.offset) / whole
        skip = 1.0 - (m + last.offset) / whole if self.corrected else 1.0 - take
        most = np.maximum(take, skip) if self.corrected else np.where(m > 0.5 * seen, take, skip)
        with np.errstate(divide="ignore"):
            each = np.log(most)
        found = so_far + left * each - self.never[seen]
        found[0] = 0.0
        return np.asarray(found)

    def slack(self, left: int) -> np.ndarray:
        """Unlimited: equal columns are no more than as many single ones."""
        return np.full(self.n - left + 1, np.inf)


class SoFar:
    """The prior of the rows so far."""

    ties_part = False

    def __init__(self, prior: SearchPrior, n: int) -> None:
        self.prior, self.n = prior, n
        self.capacity = int(prior.tables(n).capacity)

    def constant(self, left: int) -> float:
        return constant(self.prior, self.n - left)

    def worth(self, left: int) -> np.ndarray:
        seen = self.n - left
        return potentials(self.prior.tables(seen))

    def slack(self, left: int) -> np.ndarray:
        return np.full(self.n - left + 1, np.inf)

    def future(self, left: int, free: int) -> np.ndarray:
        return np.zeros(max(free, 0) + 1)


PriorBound = Convex | SoFar
KINDS: dict[str, type[PriorBound]] = {"convex": Convex, "paper": Paper, "so_far": SoFar}


def prior_bound(name: str, prior: SearchPrior, n: int) -> PriorBound:
    """The bound of that name for matrices of n rows.

    What it says costs O(n) and is the same for all candidates of so many rows, so the latest
    answers are remembered.
    """
    found = KINDS[name](prior, n)
    for question in ("constant", "worth", "slack", "future"):
        setattr(found, question, lru_cache(RECENT)(getattr(found, question)))
    return found


class RowTerms(NamedTuple):
    """What a bound says of the next row of a candidate, ties and the data left out."""

    take: np.ndarray  # (K,) of taking each feature
    rest: float  # of everything else
    new: float  # of each new feature
    future: np.ndarray  # of features that later rows open: by how many are free, or one number
    free: int  # features that may still be opened, −1 for any number
    ties_left: int  # rows that may still part equal columns
    slack_take: np.ndarray  # (K,) of each feature if it is taken: ``kernels/search_scores.parting``
    slack_stay: np.ndarray  # (K,) and if not
    slack_new: float


def next_row(bound: PriorBound, n: int, rows: int, m: np.ndarray) -> RowTerms:
    """The terms of the row that follows ``rows`` of n, features having been taken m times."""
    left = n - rows - 1
    worth, slack = bound.worth(left), bound.slack(left)
    stay = worth[m]
    free = -1 if bound.capacity < 0 else bound.capacity - len(m)
    opened = 0.0 if free < 0 else gammaln(bound.capacity + 1.0) - gammaln(free + 1.0)
    return RowTerms(
        worth[m + 1] - stay,
        float(bound.constant(left) + opened + stay.sum()),
        float(worth[1]),
        bound.future(left, free),
        free,
        left if bound.ties_part else 0,
        slack[m + 1],
        slack[m],
        float(slack[1]),
    )
