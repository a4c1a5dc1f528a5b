r"""Candidates of a search where nonnegative features are kept, at their best for the rows so far.

    score(Z⁰) = max_{A ≥ 0} [log P(X⁰ | Z⁰, A) + log p(A/s)] + bound of log P([Z])

(Rai and Daumé III 2011, section 8.) Features count in units s of their own scale, B = A/s: a
density of A itself would change with the unit of X, by as much for each feature, and with it which
matrix is the best. s is σ_a, and σ_a/√π where entries are exponential: log p(b) is then at most
½ log 2/π an entry under either law, and a feature of zeros costs the same. A matrix that a
candidate becomes has no more than its score but for the rows to come: its A is one of those looked
at, and the most that p(b) can be is counted with the prior's weight of a feature (``PerFeature``),
so that features not yet opened have it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thali.engines.search.candidates import Candidate
from thali.engines.search.kept_candidates import PerFeature
from thali.engines.search.prior_bounds import SearchPrior
from thali.engines.search.real_candidates import Fits, RealProblem
from thali.likelihoods.exponential_features import rate_of
from thali.likelihoods.search_rows import EXPONENTIAL, HALF_NORMAL

HIGHEST = 0.5 * float(np.log(2.0 / np.pi))  # log density of an entry of B at 0
CLOSE = 1e-10  # of log probability


def unit_of(law: str, sigma_a: float) -> float:
    """The unit s of features."""
    return sigma_a / float(np.sqrt(np.pi)) if law == EXPONENTIAL else sigma_a


def log_shape(law: str, A: np.ndarray, sigma_a: float) -> float:
    """log p(A/s) less what it is at A = 0."""
    if law == EXPONENTIAL:
        return -rate_of(sigma_a) * float(A.sum())
    return -0.5 * float(np.square(A).sum()) / sigma_a**2


class KeptFeatures(NamedTuple):
    """ZᵀZ, ZᵀX and A at its best; what that is worth, −‖X − ZA‖² − r‖A‖² − 2 pull ΣA; and the
    columns."""

    C: np.ndarray
    T: np.ndarray
    A: np.ndarray
    worth: float
    squares: float
    m: np.ndarray
    same: np.ndarray


@dataclass
class NonnegativeProblem(RealProblem[KeptFeatures]):
    """A search with A ≥ 0 kept."""

    X: np.ndarray
    prior: SearchPrior
    sigma_x: float
    sigma_a: float
    bound: str = "convex"
    law: str = HALF_NORMAL

    def __post_init__(self) -> None:
        self.prior = PerFeature(self.prior, self.X.shape[1] * HIGHEST)

    @property
    def r(self) -> float:
        return 0.0 if self.law == EXPONENTIAL else (self.sigma_x / self.sigma_a) ** 2

    @property
    def pull(self) -> float:
        return rate_of(self.sigma_a) * self.sigma_x**2 if self.law == EXPONENTIAL else 0.0

    @property
    def most_of_row(self) -> float:
        return -0.5 * self.X.shape[1] * float(np.log(2.0 * np.pi * self.sigma_x**2))

    def own_feature_each(self) -> np.ndarray:
        """max_a [log P(x | a) + log p(a)] of each row with a feature of its own, less what every
        feature has: rows that share features do not pay for them again."""
        left = np.square(self.X).sum(axis=1)
        left -= np.square(np.maximum(self.X - self.pull, 0.0)).sum(axis=1) / (1.0 + self.r)
        return np.asarray(self.most_of_row - 0.5 * left / self.sigma_x**2)

    def nothing(self) -> KeptFeatures:
        none, no = np.zeros((0, self.X.shape[1])), np.zeros(0, np.int64)
        return KeptFeatures(np.zeros((0, 0)), none, none, 0.0, 0.0, no, no.astype(np.uint8))

    def followed(self, candidate: Candidate[KeptFeatures], base: KeptFeatures) -> KeptFeatures:
        x, z = self.X[candidate.rows - 1], candidate.row().astype(float)
        old, k = len(candidate.z), candidate.k
        C, T, A = np.zeros((k, k)), np.zeros((k, len(x))), np.zeros((k, len(x)))
        C[:old, :old], T[:old], A[:old] = base.C, base.T, base.A
        C += np.outer(z, z)
        T += np.outer(z, x)
        return self.settled(C, T, A, base.squares + float(x @ x), candidate.still_same(base.same))

    def settled(
        self, C: np.ndarray, T: np.ndarray, A: np.ndarray, squares: float, same: np.ndarray
    ) -> KeptFeatures:
        """What a candidate keeps, A being made the best."""
        from thali.kernels.search_nonnegative import best_features

        worth = best_features(C, T, A, self.r, self.pull, self.close) - squares
        return KeptFeatures(C, T, A, worth, squares, np.diag(C).astype(np.int64), same)

    @property
    def close(self) -> float:
        return CLOSE * 2.0 * self.sigma_x**2

    def counted(self, candidate: Candidate[KeptFeatures]) -> tuple[np.ndarray, np.ndarray]:
        kept = self.kept(candidate)
        return kept.m, kept.same

    def fits(self, candidate: Candidate[KeptFeatures]) -> Fits:
        from thali.kernels.search_nonnegative import worth_of_rows

        kept, x = self.kept(candidate), self.X[candidate.rows]
        rows, squares = candidate.rows + 1, kept.squares + float(x @ x)

        def evidence(worth: np.ndarray | float) -> np.ndarray:
            return np.asarray(rows * self.most_of_row + 0.5 * np.asarray(worth) / self.sigma_x**2)

        def best(bits: np.ndarray, new: np.ndarray) -> np.ndarray:
            numbers = x, np.ascontiguousarray(bits), new, self.r, self.pull, self.close
            return evidence(worth_of_rows(kept.C, kept.T, kept.A, *numbers) - squares)

        def quick(bits: np.ndarray, new: np.ndarray) -> np.ndarray:
            left = x - bits.astype(float) @ kept.A
            own = np.square(np.maximum(left - self.pull, 0.0)).sum(axis=1)
            own = own * new / np.maximum(new + self.r, np.finfo(float).tiny)  # 0 where none is new
            return evidence(kept.worth - np.square(left).sum(axis=1) + own)

        return Fits(best, quick, float(evidence(kept.worth)))
