r"""Candidates of a search where real parameters are kept at their best: which rows may follow.

A problem tells the evidence of a candidate with one row more, parameters at their best for all its
rows, and, far cheaper, no more than that: with those of the rows so far as they are. Where the
queue is limited, only the rows that look best by the second are scored by the first; what the
others may come to is bounded by ``peak``, the evidence of a row that fits as well as any can.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.engines.search.candidates import Candidate, KeptT, RowScores, SearchProblem
from thali.engines.search.prior_bounds import next_row

if TYPE_CHECKING:
    from thali.kernels.search_heap import Found

MOST_NEW = 8  # features that one row may open
LOOKS = 3  # rows that are scored for each that is kept


class Fits(NamedTuple):
    """The evidence of a candidate with one row more, by its bits and number of new features."""

    best: Callable[[np.ndarray, np.ndarray], np.ndarray]
    quick: Callable[[np.ndarray, np.ndarray], np.ndarray] | None  # no more than that, if known
    peak: float  # no less


class RealProblem(SearchProblem[KeptT]):
    """A search with real parameters kept."""

    @abstractmethod
    def fits(self, candidate: Candidate[KeptT]) -> Fits:
        """Of the rows that may follow."""

    @abstractmethod
    def counted(self, candidate: Candidate[KeptT]) -> tuple[np.ndarray, np.ndarray]:
        """How often each feature was taken, and which columns equal the one before."""

    def scores(
        self, candidate: Candidate[KeptT], future: float, floor: float, most_new: int
    ) -> RowScores:
        from thali.kernels.priors_of_rows import priors_of_new, priors_of_rows
        from thali.kernels.search_scores import RowScore

        (m, same), k, fits = self.counted(candidate), candidate.k, self.fits(candidate)
        prior = next_row(self.prior_bound, self.n, candidate.rows, m)._asdict()
        prior |= {"rest": prior["rest"] + future}
        most = min(MOST_NEW if most_new < 0 else most_new, MOST_NEW)
        row = RowScore(**prior, same=same, most_new=most, floor=floor)
        of_new, beyond = priors_of_new(row)
        count = len(of_new)

        def looked_at(
            bits: np.ndarray, whole: bool, room: int
        ) -> tuple[tuple[np.ndarray, ...], float]:
            """Scores, bits and new features of what is worth it, and a bound of all the rest."""
            base = priors_of_rows(bits, row)
            bits, base = bits[~np.isnan(base)], base[~np.isnan(base)]
            lost = float(base.max() + beyond + fits.peak) if len(base) else -np.inf
            bits, new = np.repeat(bits, count, axis=0), np.tile(np.arange(count), len(base))
            base = np.repeat(base, count) + of_new[new]
            if whole:
                chosen = base + fits.peak >= floor
            elif fits.quick is None:
                chosen = np.ones(len(base), bool)
            else:
                chosen = np.zeros(len(base), bool)
                chosen[np.argsort(-(base + fits.quick(bits, new)), kind="stable")[:room]] = True
            lost = max(lost, float((base[~chosen] + fits.peak).max(initial=-np.inf)))
            bits, new, base = bits[chosen], new[chosen], base[chosen]
            values = base + fits.best(bits, new)
            good = values >= floor
            lost = max(lost, float(values[~good].max(initial=-np.inf)))
            return (values[good], bits[good], new[good]), lost

        def kept(found: Found, rows: tuple[np.ndarray, ...], lost: float) -> tuple[int, float]:
            values, bits, new = rows
            order = np.argsort(-values, kind="stable")
            size = min(len(order), len(found.score))
            for ours, theirs in zip(found, (values, bits, new), strict=True):
                ours[:size] = theirs[order[:size]]
            if len(order) > size:
                lost = max(lost, float(values[order[size]]))
            return size, lost

        def every(found: Found, whole: bool) -> tuple[int, float]:
            rows, lost = looked_at(all_rows(k), whole, LOOKS * len(found.score))
            if whole and len(rows[0]) > len(found.score):
                return -1, lost
            return kept(found, rows, lost)

        def within(found: Found, wide: int) -> int:
            """From the empty row on, the best so far changed in one bit, until none is better."""
            seen = np.zeros((1, k), np.uint8)
            while True:
                rows, _ = looked_at(seen, False, LOOKS * wide)
                order = np.argsort(-rows[0], kind="stable")[:wide]
                best = np.unique(rows[1][order], axis=0)
                near = (best[:, None] ^ np.eye(k, dtype=np.uint8)).reshape(len(best) * k, k)
                wider = np.unique(np.concatenate([best, near]), axis=0)
                if set(map(bytes, wider)) <= set(map(bytes, seen)):
                    return kept(found, rows, -np.inf)[0]
                seen = np.unique(np.concatenate([seen, wider]), axis=0)

        return RowScores(every, within, fits.best)


def all_rows(k: int) -> np.ndarray:
    """Every row of k bits.

    >>> all_rows(2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1).astype(np.uint8)
