r"""Candidates of a search where parameters Y are kept, at their best for the rows so far.

For likelihoods with ``CountedFeatures``: X and Y are binary, and columns independent given Z. The
search is for the highest P(X, Y, [Z]) over Z and Y together (Rai and Daumé III 2011, section 8):

    score(Z⁰) = max_Y [log P(X⁰ | Z⁰, Y) + log P(Y)] + bound of log P([Z])

A matrix that a candidate becomes has no more: its Y is one of those looked at, and rows to come and
the Y of features to come add logarithms of probabilities. Of each feature log P(Y) is at most
T log max(p, 1−p), which is the part that is known before Y is. It is counted with the prior's
weight of a feature (``PerFeature``), so that features not yet opened have it too.

Lists of the best Y of each group of columns are in ``kernels/search_kept``. They hold all 2^K up
to some number, the best beyond, with a bound of the others: scores stay bounds, and an answer may
or may not be seen to have the best Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.engines.search.candidates import Candidate, RowScores, SearchProblem
from thali.engines.search.prior_bounds import SearchPrior, next_row
from thali.hyperparameters import Values
from thali.likelihoods.search_rows import CountProbabilities
from thali.structures.features import FeatureCounts, FeatureTables, NextRow

if TYPE_CHECKING:
    from thali.kernels.search_kept import Entries, Groups, Lists

LONGEST = 1024  # settings of Y in a list: all of them up to 10 features
ROOM = 1 << 19  # settings in all lists of a candidate
MOST_NEW = 8  # features that one row may open: every setting of theirs is looked at
MOST_FEATURES = 62  # bits of a number


@dataclass(frozen=True)
class PerFeature:
    """A prior with a factor e^weight for each feature."""

    prior: SearchPrior
    weight: float

    def tables(self, n: int) -> FeatureTables:
        tables = self.prior.tables(n)
        return tables._replace(new_log_weight=tables.new_log_weight + self.weight)

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        features = float(np.sum(counts.multiplicities))
        return float(self.prior.log_prob_counts(counts)) + self.weight * features

    def start(self) -> Values:
        return self.prior.start()

    def next_row(self, n: int, hyper: dict[str, float]) -> NextRow:
        return self.prior.next_row(n, hyper)


class KeptLists(NamedTuple):
    """How often each feature was taken, which columns equal the one before, and lists of Y."""

    m: np.ndarray
    same: np.ndarray
    lists: Lists


@dataclass
class KeptProblem(SearchProblem[KeptLists]):
    """A search with binary Y kept: X are 0 and 1, and ``probabilities`` those of its entries, with
    counts up to ``MOST_FEATURES + MOST_NEW``.

    ``prior`` is given as the model has it; then it has the part of log P(Y) of every feature too.
    """

    X: np.ndarray
    prior: SearchPrior
    probabilities: CountProbabilities
    bound: str = "convex"
    longest: int = LONGEST

    most_of_row = 0.0  # the logarithm of a probability

    def __post_init__(self) -> None:
        _, on, off = self.probabilities
        self.prior = PerFeature(self.prior, self.X.shape[1] * max(on, off))

    @cached_property
    def entries(self) -> Entries:
        from thali.kernels.search_kept import Entries

        table, on, off = self.probabilities
        most = max(on, off)
        return Entries(np.ascontiguousarray(table), on - most, off - most)

    @cached_property
    def histories(self) -> tuple[list[Groups], np.ndarray]:
        """The groups of columns after each row, and the group of each column in the end."""
        from thali.kernels.search_kept import Groups

        group, found = np.zeros(self.X.shape[1], np.int64), []
        for x in self.X:
            code, group, weight = np.unique(2 * group + x, return_inverse=True, return_counts=True)
            found.append(Groups(code // 2, code % 2, weight.astype(float)))
        return found, group

    def room(self, row: int) -> int:
        """How long the lists may be once a row is in."""
        groups = len(self.histories[0][row].parent)
        return int(max(min(self.longest, ROOM // groups), 1))

    def own_feature_each(self) -> np.ndarray:
        """max_y [log P(x | y) + log P(y)] of each row with a feature of its own, less what every
        feature has: rows that share features do not pay for them again."""
        (idle, active), entries = self.entries.table[:2], self.entries
        each = np.maximum(entries.off + idle[self.X], entries.on + active[self.X])
        return np.asarray(each.sum(axis=1))

    # candidates

    def nothing(self) -> KeptLists:
        from thali.kernels.search_kept import Lists

        one = np.zeros((1, 1))
        lists = Lists(one, one.astype(np.int64), np.full(1, -np.inf))
        return KeptLists(np.zeros(0, np.int64), np.zeros(0, np.uint8), lists)

    def followed(self, candidate: Candidate[KeptLists], base: KeptLists) -> KeptLists:
        from thali.kernels.search_kept import fits_of, follow

        row, k, old, new = candidate.rows - 1, candidate.k, len(candidate.z), candidate.new
        most = fits_of(self.entries, old, new).most[new]
        lists = follow(
            base.lists,
            self.histories[0][row],
            int(as_numbers(candidate.z)),
            old,
            new,
            self.entries,
            most,
            self.room(row),
        )
        m = np.ones(k, np.int64)
        m[:old] = base.m + candidate.z
        return KeptLists(m, candidate.still_same(base.same), lists)

    def scores(
        self, candidate: Candidate[KeptLists], future: float, floor: float, most_new: int
    ) -> RowScores:
        from thali.kernels import search_kept as kernel
        from thali.kernels.search_scores import RowScore

        (m, same, lists), k = self.kept(candidate), candidate.k
        prior = next_row(self.prior_bound, self.n, candidate.rows, m)._asdict()
        prior |= {"rest": prior["rest"] + future}
        most_new = min(MOST_NEW if most_new < 0 else most_new, MOST_NEW, MOST_FEATURES - k)
        row = RowScore(**prior, same=same, most_new=most_new, floor=floor)
        groups = self.histories[0][candidate.rows]
        fits = kernel.fits_of(self.entries, k, most_new)
        return RowScores(
            lambda found, growing: kernel.every_row(k, lists, groups, fits, row, found, growing),
            lambda found, wide: kernel.within_row(k, lists, groups, fits, row, found, wide),
            lambda bits, new: kernel.fits_of_rows(as_numbers(bits), new, lists, groups, fits),
        )

    # the answer

    def parameters(self, candidate: Candidate[KeptLists]) -> np.ndarray:
        """Y (K×T) of a candidate with all rows: the first of each list."""
        state = self.kept(candidate).lists.state[:, 0][self.histories[1]]
        return np.asarray((state >> np.arange(candidate.k)[:, None]) & 1, np.uint8)

    def parameters_so_far(self, candidate: Candidate[KeptLists]) -> np.ndarray:
        """The same of a candidate with some rows, by the groups of columns after those."""
        group = np.zeros(self.X.shape[1], np.int64)
        for x in self.X[: candidate.rows]:
            group = np.unique(2 * group + x, return_inverse=True)[1]
        state = self.kept(candidate).lists.state[:, 0][group]
        return np.asarray((state >> np.arange(candidate.k)[:, None]) & 1, np.uint8)

    def is_exact(self, candidate: Candidate[KeptLists]) -> bool:
        """Whether no Y that the lists left out is better."""
        lists = self.kept(candidate).lists
        return bool((lists.value[:, 0] >= lists.dropped).all())


def as_numbers(bits: np.ndarray) -> np.ndarray:
    """A row of bits, or each of several, as one number, the first bit the lowest."""
    return np.asarray(bits.astype(np.int64) @ (1 << np.arange(bits.shape[-1], dtype=np.int64)))
