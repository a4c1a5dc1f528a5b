r"""Candidates of a search where amounts S are kept and A is integrated out: X = (Z ⊙ S) A + E.

    score(Z⁰) = max_S log P(X⁰, S⁰ | Z⁰) + bound of log P([Z]) + what the rows to come may add

(Rai and Daumé III 2011, section 8.) S has no closed form and more than one local maximum: a row
that follows gets the best amounts given those before it (``kernels/search_amounts``), and each time
a candidate is taken out a few of its rows get theirs anew, in turn. So no score is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thali.engines.search.candidates import Candidate
from thali.engines.search.prior_bounds import SearchPrior
from thali.engines.search.real_candidates import Fits, RealProblem

AGAIN = 6  # rows whose amounts are set anew


class KeptAmounts(NamedTuple):
    """Z and S of the rows so far, WᵀW, WᵀX and log P(X, S | Z) of these, and the columns."""

    Z: np.ndarray
    S: np.ndarray
    C: np.ndarray
    T: np.ndarray
    value: float
    m: np.ndarray
    same: np.ndarray


@dataclass
class AmountsProblem(RealProblem[KeptAmounts]):
    """A search with amounts of a slab kept; X may be a rotation of the data."""

    X: np.ndarray
    dimensions: int
    prior: SearchPrior
    sigma_x: float
    sigma_a: float
    laplace: bool
    bound: str = "convex"

    most_of_row = np.inf  # of a row and the amounts of all before it

    @property
    def numbers(self) -> tuple[float, float, float, bool]:
        """r, D, σ_x² and the slab, as kernels take them."""
        ratio = (self.sigma_x / self.sigma_a) ** 2
        return ratio, float(self.dimensions), self.sigma_x**2, self.laplace

    @property
    def unit(self) -> float:
        return -0.5 * self.dimensions * float(np.log(2.0 * np.pi * self.sigma_x**2))

    def own_feature_each(self) -> np.ndarray:
        """log P(x, s) of each row with one feature, of its own, less log p(0), which every entry
        costs."""
        nothing, one = self.nothing(), np.ones(1, np.int64)
        none, slab = np.zeros((1, 0), np.uint8), -np.log(2.0)
        if not self.laplace:
            slab = -0.5 * np.log(2.0 * np.pi)
        each = [self._worth(nothing, x, none, one)[0] for x in self.X]
        return np.array(each) + self.unit - slab

    def _worth(
        self, kept: KeptAmounts, x: np.ndarray, bits: np.ndarray, new: np.ndarray
    ) -> np.ndarray:
        from thali.kernels.search_amounts import worth_of_rows

        bits = np.ascontiguousarray(bits)
        return np.asarray(worth_of_rows(kept.C, kept.T, x, bits, new, *self.numbers)[0])

    def nothing(self) -> KeptAmounts:
        none, no = np.zeros((0, 0)), np.zeros(0, np.int64)
        T, bits = np.zeros((0, self.X.shape[1])), np.zeros((0, 0), np.uint8)
        return KeptAmounts(bits, none, none, T, 0.0, no, no.astype(np.uint8))

    def followed(self, candidate: Candidate[KeptAmounts], base: KeptAmounts) -> KeptAmounts:
        from thali.kernels.search_amounts import settle_rows, worth_of_rows

        rows, k, old = candidate.rows, candidate.k, len(candidate.z)
        x, z = self.X[rows - 1], np.ascontiguousarray(candidate.z[None], np.uint8)
        new = np.array([candidate.new], np.int64)
        amounts = worth_of_rows(base.C, base.T, x, z, new, *self.numbers)[1][0]
        Z, S = np.zeros((rows, k), np.uint8), np.zeros((rows, k))
        Z[:-1, :old], S[:-1, :old] = base.Z, base.S
        Z[-1], S[-1, : old + min(candidate.new, 1)] = (
            candidate.row(),
            amounts[: k if k == old else old + 1],
        )
        X = np.ascontiguousarray(self.X[:rows])
        C, T = S.T @ S, S.T @ X
        again = np.unique((np.arange(AGAIN) + AGAIN * rows) % rows)
        settle_rows(X, Z, S, C, T, again, *self.numbers)
        return self.keeping(Z, S, X, candidate.still_same(base.same))

    def keeping(self, Z: np.ndarray, S: np.ndarray, X: np.ndarray, same: np.ndarray) -> KeptAmounts:
        """What a candidate keeps of Z and S."""
        C, T = S.T @ S, S.T @ X
        value = log_density(C, T, float(np.square(X).sum()), len(X), self, S[Z != 0])
        return KeptAmounts(Z, S, C, T, value, Z.sum(axis=0, dtype=np.int64), same)

    def counted(self, candidate: Candidate[KeptAmounts]) -> tuple[np.ndarray, np.ndarray]:
        kept = self.kept(candidate)
        return kept.m, kept.same

    def fits(self, candidate: Candidate[KeptAmounts]) -> Fits:
        kept, x = self.kept(candidate), self.X[candidate.rows]

        def best(bits: np.ndarray, new: np.ndarray) -> np.ndarray:
            return kept.value + self.unit + self._worth(kept, x, bits, new)

        return Fits(best, None, np.inf)


def log_density(
    C: np.ndarray, T: np.ndarray, squares: float, n: int, problem: AmountsProblem, s: np.ndarray
) -> float:
    """log P(X, S | Z) from WᵀW, WᵀX, the sum of all x² and the amounts that are on."""
    from thali.kernels.evidence import log_evidence, spectrum

    d = float(problem.dimensions)
    eigenvalues, lengths = spectrum(C, np.ascontiguousarray(T))
    scales = problem.sigma_x, problem.sigma_a
    fit = log_evidence(eigenvalues, lengths, squares, n, d, *scales)
    if problem.laplace:
        return float(fit - np.abs(s).sum() - s.size * np.log(2.0))
    return float(fit - 0.5 * np.square(s).sum() - 0.5 * s.size * np.log(2.0 * np.pi))
