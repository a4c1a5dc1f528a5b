r"""Candidates of a search: what one is, what follows it, and its score.

A candidate is a path of rows, each with a pointer to the one before, so that no candidate has a
copy of Z. Only one that is expanded gets what the scores of its followers are made from, by a small
change of what its parent keeps. ``Problem`` is for A integrated out, where that is the posterior
of A (``kernels/particle_rows``), changed by rank one: O(K² + KD).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from thali.engines.filtering.particles import zero_particles
from thali.engines.search.memory import CANDIDATE, refuse_beyond_room
from thali.engines.search.prior_bounds import PriorBound, SearchPrior, next_row, prior_bound

if TYPE_CHECKING:
    from thali.kernels.search_heap import Found
    from thali.kernels.search_rows import Seen

PLENTY = 1000  # features that one row may open
WITHIN = 8  # rows at least in the beam within a row
WIDE = 256  # and rows in it where the queue has no limit: it is not exact anyway

KeptT = TypeVar("KeptT")  # what an expanded candidate keeps


class Candidate(Generic[KeptT]):
    """The rows so far: the last one's bits, and the candidate before it."""

    __slots__ = ("base", "evidence", "k", "kept", "new", "parent", "rows", "score", "z")

    def __init__(
        self,
        parent: Candidate[KeptT] | None,
        z: np.ndarray,
        new: int,
        score: float,
        evidence: float,
    ) -> None:
        self.parent, self.z, self.new, self.score = parent, z, new, score
        self.rows: int = 0 if parent is None else parent.rows + 1
        self.k: int = new + (0 if parent is None else parent.k)
        self.evidence = evidence  # log P(X | Z) of the rows so far
        self.base: KeptT | None = None  # what the parent keeps, until this one has its own
        self.kept: KeptT | None = None  # its own

    def matrix(self) -> np.ndarray:
        """Z of the rows so far."""
        Z = np.zeros((self.rows, self.k), bool)
        at: Candidate[KeptT] | None = self
        for n in range(self.rows - 1, -1, -1):
            assert at is not None
            Z[n, : at.k] = at.row()
            at = at.parent
        return Z

    def still_same(self, same: np.ndarray) -> np.ndarray:
        """Which columns equal the one before, if ``same`` tells it of the candidate before."""
        old = len(self.z)
        found = np.ones(self.k, np.uint8)
        found[:old] = same
        found[1:old] &= self.z[1:] == self.z[:-1]
        found[old : old + 1] = 0  # the first new feature is like none before
        return found

    def row(self) -> np.ndarray:
        """The last row's bits, those of the features it opened among them."""
        return np.concatenate([self.z.astype(bool), np.ones(self.new, bool)])


class RowScores(NamedTuple):
    """The rows that may follow a candidate, as kernels look at them.

    ``every(found, all)`` puts the best into ``found``, or all, ``within(found, width)`` those that
    a beam finds; each tells how many, −1 where there was no room for all. ``evidence(bits, new)``
    is that of the candidates with these rows.
    """

    every: Callable[[Found, bool], tuple[int, float]]
    within: Callable[[Found, int], int]
    evidence: Callable[[np.ndarray, np.ndarray], np.ndarray]


class SearchProblem(ABC, Generic[KeptT]):
    """The rows in the order of the search, the model at numbers, and a bound of its prior."""

    X: np.ndarray
    prior: SearchPrior
    bound: str

    @property
    def n(self) -> int:
        return len(self.X)

    @cached_property
    def prior_bound(self) -> PriorBound:
        return prior_bound(self.bound, self.prior, self.n)

    @property
    @abstractmethod
    def most_of_row(self) -> float:
        """The highest log density that a row can have, whatever its features."""

    def most_to_come(self) -> np.ndarray:
        """The highest log density that all rows after the first n can have together, by n."""
        return np.arange(self.n, -1, -1) * self.most_of_row

    @abstractmethod
    def own_feature_each(self) -> np.ndarray:
        """What each row adds with one feature, of its own."""

    @abstractmethod
    def nothing(self) -> KeptT:
        """What the candidate without rows keeps."""

    @abstractmethod
    def followed(self, candidate: Candidate[KeptT], base: KeptT) -> KeptT:
        """What a candidate keeps, made from what its parent does."""

    @abstractmethod
    def scores(
        self, candidate: Candidate[KeptT], future: float, floor: float, most_new: int
    ) -> RowScores:
        """The rows that may follow, of at most ``most_new`` new features (−1 for any number)."""

    def root(self) -> Candidate[KeptT]:
        """No rows yet."""
        found: Candidate[KeptT] = Candidate(None, np.zeros(0, np.uint8), 0, np.inf, 0.0)
        found.kept = self.nothing()
        return found

    def restored(self, Z: np.ndarray, score: float, evidence: float) -> Candidate[KeptT]:
        """The candidate with these rows, its columns in the order in which they were opened."""
        at, kept = self.root(), self.nothing()
        if len(Z) == 0:
            return at
        opened = np.where(Z.any(axis=0), Z.argmax(axis=0), len(Z))
        for n, row in enumerate(Z):
            old, k = int((opened < n).sum()), int((opened <= n).sum())
            at = Candidate(at, row[:old].astype(np.uint8), k - old, score, evidence)
            kept = self.followed(at, kept)
        at.kept = kept
        return at

    def kept(self, candidate: Candidate[KeptT]) -> KeptT:
        """What an expanded candidate keeps."""
        if candidate.kept is None:
            assert candidate.base is not None
            candidate.kept, candidate.base = self.followed(candidate, candidate.base), None
        return candidate.kept

    def expand(
        self,
        candidate: Candidate[KeptT],
        future: float,
        *,
        expansion: str,
        width: int | None,
        floor: float = -np.inf,
        most_new: int = -1,
    ) -> tuple[list[Candidate[KeptT]], float]:
        """The best candidates with one row more, and a bound of the scores of all others.

        ``future`` is what the rows after it are taken to add. ``width`` limits their number; None
        keeps all that are found whose score is at least ``floor``.
        """
        from thali.kernels.search_heap import Found

        kept, k = self.kept(candidate), candidate.k
        scores = self.scores(candidate, future, floor, most_new)
        room, lost = width or (1 << (k + 6) if expansion == "all" else WIDE), np.inf
        while True:
            found = Found(np.zeros(room), np.zeros((room, k), np.uint8), np.zeros(room, np.int64))
            if expansion == "all":
                count, lost = scores.every(found, width is None)
            else:
                count = scores.within(found, max(room, WITHIN))
            if count >= 0:
                break
            refuse_beyond_room(room, room * (CANDIDATE + k))  # so many were found
            room *= 4
        refuse_beyond_room(count, count * (CANDIDATE + k))
        order = np.argsort(-found.score[:count], kind="stable")
        bits, new = found.bits[order], found.new[order]
        evidence = scores.evidence(bits, new)
        children = []
        for z, *numbers in zip(
            bits, new.tolist(), found.score[order].tolist(), evidence.tolist(), strict=True
        ):
            children.append(Candidate(candidate, z, *numbers))
            children[-1].base = kept
        return children, float(lost)


class Kept(NamedTuple):
    """The posterior of A, and which columns equal the one before."""

    arrays: Any  # ``Particles`` of one, or ``MaskedParticles``
    same: np.ndarray


@dataclass
class Problem(SearchProblem[Kept]):
    """A search with A integrated out."""

    X: np.ndarray
    squares: np.ndarray
    dimensions: int  # of the data, which X may be a rotation of
    prior: SearchPrior
    sigma_x: float
    sigma_a: float
    bound: str = "convex"

    @property
    def r(self) -> float:
        return (self.sigma_x / self.sigma_a) ** 2

    @property
    def most_of_row(self) -> float:
        """The highest log density that a row can have, whatever its features."""
        return -0.5 * self.dimensions * float(np.log(2.0 * np.pi * self.sigma_x**2))

    def part(self, rows: np.ndarray) -> Problem:
        """The same of some of the rows."""
        return replace(self, X=np.ascontiguousarray(self.X[rows]), squares=self.squares[rows])

    def own_feature_each(self) -> np.ndarray:
        """log N(x; 0, (σ_x² + σ_a²)I) of each row."""
        variance = self.sigma_x**2 + self.sigma_a**2
        each = -0.5 * self.dimensions * np.log(2.0 * np.pi * variance)
        return np.asarray(each - 0.5 * self.squares / variance)

    # candidates

    def nothing(self) -> Kept:
        return Kept(zero_particles(1, 0, self.X.shape[1]), np.zeros(0, np.uint8))

    def followed(self, candidate: Candidate[Kept], base: Kept) -> Kept:
        from thali.kernels.particle_rows import Proposals, RowNumbers, extend

        row, k, old = candidate.rows - 1, candidate.k, len(candidate.z)
        arrays = zero_particles(1, k, self.X.shape[1])
        for ours, theirs in zip(arrays, base.arrays, strict=True):
            ours[tuple(slice(size) for size in theirs.shape)] = theirs
        z = np.zeros((1, k), np.uint8)
        z[0, :old] = candidate.z
        x, x2 = self.X[row], float(self.squares[row])
        b = np.zeros((1, k))
        b[0, :old] = base.arrays.M[0] @ (base.arrays.T[0] @ x)
        one = np.ones(1)
        numbers = RowNumbers(
            one, one, one, self.sigma_x * one, self.sigma_a * one, -1, float(self.dimensions)
        )
        proposals = Proposals(z, np.array([candidate.new]), b, np.zeros(1))
        extend(arrays, numbers, x, x2, proposals, 0, 1)
        return Kept(arrays, candidate.still_same(base.same))

    def scores(
        self, candidate: Candidate[Kept], future: float, floor: float, most_new: int
    ) -> RowScores:
        from thali.kernels.search_rows import Seen

        (arrays, _), at = self.kept(candidate), candidate.rows
        x, x2, M, G = self.X[at], self.squares[at], arrays.M[0], arrays.G[0]
        b = M @ (arrays.T[0] @ x)

        def evidence(bits: np.ndarray, new: np.ndarray) -> np.ndarray:
            return candidate.evidence + self._density(bits.astype(float), arrays, b, float(x2), new)

        seen = Seen(M[None], G[None], b[None], np.array([x2]), np.array([float(self.dimensions)]))
        unit = -self.most_of_row
        return self.row_scores(candidate, seen, future - unit, floor, most_new, evidence)

    def row_scores(
        self,
        candidate: Candidate[Kept],
        seen: Seen,
        future: float,
        floor: float,
        most_new: int,
        evidence: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> RowScores:
        """The rows that may follow, by what is ``seen`` of the next one."""
        from thali.kernels.search_rows import every_row, within_row
        from thali.kernels.search_scores import Noise, RowScore

        (arrays, same), k = self.kept(candidate), candidate.k
        prior = next_row(self.prior_bound, self.n, candidate.rows, arrays.m[0].astype(int))
        row = RowScore(
            **prior._replace(rest=float(prior.rest + candidate.evidence + future))._asdict(),
            same=same,
            noise=Noise(self.r, 0.5 / self.sigma_x**2),
            most_new=PLENTY if most_new < 0 else most_new,
            floor=floor,
        )
        return RowScores(
            lambda found, growing: every_row(seen, k, row, found, growing),
            lambda found, wide: within_row(seen, k, row, found, wide),
            evidence,
        )

    def log_densities(self, rows: slice, Z: np.ndarray, arrays: Any) -> np.ndarray:
        """log N(x; zμ, σ_x²(1 + z M zᵀ) I) of rows with features Z, given a candidate's arrays."""
        b = self.X[rows] @ (arrays.M[0] @ arrays.T[0]).T
        return self._density(Z, arrays, b, self.squares[rows], 0.0)

    def _density(
        self,
        Z: np.ndarray,
        arrays: Any,
        b: np.ndarray,
        squares: np.ndarray | float,
        new: np.ndarray | float,
    ) -> np.ndarray:
        """log N(x; zμ, σ_x²(1 + z M zᵀ + j/r) I) of each row of Z; b = μ x."""
        M, G = arrays.M[0], arrays.G[0]
        V = 1.0 + np.maximum(np.einsum("ni,ni->n", Z @ M, Z), 0.0) + new / self.r
        bent = np.einsum("ni,ni->n", Z @ G - 2.0 * b, Z)
        rho = np.maximum(squares + bent, 0.0)
        scale = 2.0 * np.pi * self.sigma_x**2
        logs = -0.5 * self.dimensions * np.log(scale * V) - 0.5 * rho / (self.sigma_x**2 * V)
        return np.asarray(logs)
