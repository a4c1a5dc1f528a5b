r"""Candidates of a search where parameters Y are kept, at their best for the rows so far.

For likelihoods with ``CountedFeatures``: X and Y are binary, and columns independent given Z. The
search is for the highest P(X, Y, [Z]) over Z and Y together (Rai and Daumé III 2011, section 8):

    score(Z⁰) = max_Y [log P(X⁰ | Z⁰, Y) + log P(Y)] + bound of log P([Z])

A matrix that a candidate becomes has no more: its Y is one of those looked at, and rows to come and
the Y of dishes to come add logarithms of probabilities. Of each dish log P(Y) is at most
T log max(p, 1−p), which is the part that is known before Y is. It is counted with the prior's
weight of a dish (``PerDish``), so that dishes not yet opened have it too.

Lists of the best Y of each group of columns are in ``kernels/search_kept``. They hold all 2^K up
to some number, the best beyond, with a bound of the others: scores stay bounds, and an answer may
or may not be seen to have the best Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from thali.engines.search.candidates import WIDE, WITHIN, Candidate
from thali.engines.search.prior_bounds import next_row, prior_bound
from thali.likelihoods.base import CountProbabilities
from thali.structures.features import FeatureCounts, FeatureTables

LONGEST = 1024  # settings of Y in a list: all of them up to 10 dishes
ROOM = 1 << 19  # settings in all lists of a candidate
MOST_NEW = 8  # dishes that one row may open: every setting of theirs is looked at
MOST_DISHES = 62  # bits of a number


@dataclass(frozen=True)
class PerDish:
    """A prior with a factor e^weight for each dish."""

    prior: Any
    weight: float

    def tables(self, n: int) -> FeatureTables:
        tables = self.prior.tables(n)
        return tables._replace(new_log_weight=tables.new_log_weight + self.weight)  # type: ignore[no-any-return]

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        dishes = float(np.sum(counts.multiplicities))
        return float(self.prior.log_prob_counts(counts)) + self.weight * dishes

    def start(self) -> dict[str, float]:
        return self.prior.start()  # type: ignore[no-any-return]

    def next_row(self, n: int, numbers: Any) -> Any:
        return self.prior.next_row(n, numbers)


class KeptLists(NamedTuple):
    """What an expanded candidate keeps: how often each dish was taken, which columns equal the one
    before, and the lists of Y."""

    m: np.ndarray
    same: np.ndarray
    lists: Any  # kernels.search_kept.Lists


@dataclass
class KeptProblem:
    """The rows (of 0 and 1) in the order of the search, the model's prior and entries, and a bound
    of the prior. ``law`` has counts up to ``MOST_DISHES + MOST_NEW``."""

    X: np.ndarray
    given_prior: Any
    law: CountProbabilities
    bound: str = "convex"
    longest: int = LONGEST

    most_of_row = 0.0  # the logarithm of a probability

    @property
    def n(self) -> int:
        return len(self.X)

    @cached_property
    def prior(self) -> PerDish:
        """With the part of log P(Y) that every dish has."""
        return PerDish(self.given_prior, self.X.shape[1] * max(self.law.on, self.law.off))

    @cached_property
    def prior_bound(self) -> Any:
        return prior_bound(self.bound, self.prior, self.n)

    @cached_property
    def entries(self) -> Any:
        from thali.kernels.search_kept import Entries

        table, on, off = self.law
        most = max(on, off)
        return Entries(np.ascontiguousarray(table), on - most, off - most)

    @cached_property
    def histories(self) -> tuple[list[Any], np.ndarray]:
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

    def own_dish_each(self) -> np.ndarray:
        """max_y [log P(x | y) + log P(y)] of each row with a dish of its own, less what every dish
        has: rows that share dishes do not pay for them again."""
        (idle, active), entries = self.entries.table[:2], self.entries
        return np.maximum(entries.off + idle[self.X], entries.on + active[self.X]).sum(axis=1)

    # candidates

    def root(self) -> Candidate:
        """No rows yet."""
        from thali.kernels.search_kept import Lists

        found = Candidate(None, np.zeros(0, np.uint8), 0, np.inf, 0.0)
        one = np.zeros((1, 1))
        lists = Lists(one, one.astype(np.int64), np.full(1, -np.inf))
        found.kept = KeptLists(np.zeros(0, np.int64), np.zeros(0, np.uint8), lists)
        return found

    def restored(self, Z: np.ndarray, score: float, evidence: float) -> Candidate:
        """The candidate with these rows, its columns in the order in which they were opened."""
        at = self.root()
        if len(Z) == 0:
            return at
        opened = np.where(Z.any(axis=0), Z.argmax(axis=0), len(Z))
        for n, row in enumerate(Z):
            old, k = int((opened < n).sum()), int((opened <= n).sum())
            child = Candidate(at, row[:old].astype(np.uint8), k - old, np.nan, np.nan)
            child.base = self.settle(at)
            at = child
        at.score, at.evidence = score, evidence
        return at

    def settle(self, candidate: Candidate) -> KeptLists:
        """The lists of a candidate, made from its parent's."""
        if candidate.kept is not None:
            return candidate.kept  # type: ignore[no-any-return]
        from thali.kernels.search_kept import fits_of, follow

        before, row = candidate.base, candidate.rows - 1
        k, old, new = candidate.k, len(candidate.z), candidate.new
        most = fits_of(self.entries, old, new).most[new]
        lists = follow(
            before.lists,
            self.histories[0][row],
            as_number(candidate.z),
            old,
            new,
            self.entries,
            most,
            self.room(row),
        )
        m = np.ones(k, np.int64)
        m[:old] = before.m + candidate.z
        same = candidate.still_same(before.same)
        candidate.kept, candidate.base = KeptLists(m, same, lists), None
        return candidate.kept

    def expand(
        self,
        candidate: Candidate,
        future: float,
        *,
        expansion: str,
        width: int | None,
        floor: float = -np.inf,
        most_new: int = -1,
    ) -> tuple[list[Candidate], float]:
        """The best candidates with one row more, and a bound of the scores of all others.

        ``future`` is what the rows after it are taken to add. ``width`` limits their number; None
        keeps all whose score is at least ``floor``.
        """
        from thali.kernels import search_kept as kernel
        from thali.kernels.search_rows import Found

        kept, k = self.settle(candidate), candidate.k
        prior = next_row(self.prior_bound, self.n, candidate.rows, kept.m)
        most_new = min(MOST_NEW if most_new < 0 else most_new, MOST_NEW, MOST_DISHES - k)
        law = kernel.RowScore(
            prior.take,
            kept.same,
            prior.rest + future,
            prior.new,
            prior.future,
            prior.free,
            most_new,
            floor,
            prior.ties_left,
            prior.slack_take,
            prior.slack_stay,
            prior.slack_new,
        )
        groups = self.histories[0][candidate.rows]
        fits = kernel.fits_of(self.entries, k, most_new)
        room = width or (1 << (k + 6) if expansion == "all" else WIDE)
        while True:
            found = Found(np.zeros(room), np.zeros((room, k), np.uint8), np.zeros(room, np.int64))
            if expansion == "all":
                count, lost = kernel.every_row(
                    k, kept.lists, groups, fits, law, found, width is None
                )
            else:
                wide = max(room, WITHIN)
                count = kernel.within_row(k, kept.lists, groups, fits, law, found, wide)
                lost = np.inf
            if count >= 0:
                break
            room *= 4
        order = np.argsort(-found.score[:count], kind="stable")
        bits, new = found.bits[order], found.new[order]
        numbers = bits.astype(np.int64) @ (1 << np.arange(k, dtype=np.int64))
        fit = kernel.fits_of_rows(numbers, new, kept.lists, groups, fits)
        children = candidate.followed_by(kept, bits, new, found.score[order], fit)
        return children, float(lost)

    # the answer

    def parameters(self, candidate: Candidate) -> np.ndarray:
        """Y (K×T) of a candidate with all rows: the first of each list."""
        state = self.settle(candidate).lists.state[:, 0][self.histories[1]]
        return ((state >> np.arange(candidate.k)[:, None]) & 1).astype(np.uint8)

    def is_exact(self, candidate: Candidate) -> bool:
        """Whether no Y that the lists left out is better."""
        lists = self.settle(candidate).lists
        return bool((lists.value[:, 0] >= lists.dropped).all())


def as_number(bits: np.ndarray) -> int:
    """A row of bits as one number, the first bit the lowest."""
    return int(bits.astype(np.int64) @ (1 << np.arange(len(bits), dtype=np.int64)))
