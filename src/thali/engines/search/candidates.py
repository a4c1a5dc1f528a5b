r"""Candidates of a search where A is integrated out: what one is, what follows it, and its score.

A candidate is a path of rows, each with a pointer to the one before, so that no candidate has a
copy of Z. Only one that is expanded gets the arrays of its posterior (``kernels/particle_rows``),
made from those of its parent by a change of rank one: O(K² + KD).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from thali.engines.search.prior_bounds import next_row, prior_bound

PLENTY = 1000  # dishes that one row may open
WITHIN = 8  # rows at least in the beam within a row
WIDE = 256  # and rows in it where the queue has no limit: it is not exact anyway


class Candidate:
    """The rows so far: the last one's bits, and the candidate before it."""

    __slots__ = ("base", "evidence", "k", "kept", "new", "parent", "rows", "score", "z")

    def __init__(
        self, parent: Candidate | None, z: np.ndarray, new: int, score: float, evidence: float
    ) -> None:
        self.parent, self.z, self.new, self.score = parent, z, new, score
        self.rows: int = 0 if parent is None else parent.rows + 1
        self.k: int = new + (0 if parent is None else parent.k)
        self.evidence = evidence  # log P(X | Z) of the rows so far
        self.base: Any = None  # the parent's arrays, until this one has its own
        self.kept: Any = None  # its own

    def matrix(self) -> np.ndarray:
        """Z of the rows so far."""
        Z = np.zeros((self.rows, self.k), bool)
        at: Candidate | None = self
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
        found[old : old + 1] = 0  # the first new dish is like none before
        return found

    def followed_by(
        self, kept: Any, bits: np.ndarray, new: np.ndarray, scores: np.ndarray, evidence: np.ndarray
    ) -> list[Candidate]:
        """The candidates with one row more; ``kept`` is what they make their arrays from."""
        found = []
        for z, *numbers in zip(bits, new.tolist(), scores.tolist(), evidence.tolist(), strict=True):
            found.append(Candidate(self, z, *numbers))
            found[-1].base = kept
        return found

    def row(self) -> np.ndarray:
        """The last row's bits, those of the dishes it opened among them."""
        return np.concatenate([self.z.astype(bool), np.ones(self.new, bool)])


class Kept(NamedTuple):
    """What an expanded candidate keeps: its posterior, and which columns equal the one before."""

    arrays: Any  # kernels.particle_rows.Particles of one
    same: np.ndarray


@dataclass
class Problem:
    """The rows in the order of the search, the numbers of the model, and a bound of the prior."""

    X: np.ndarray
    squares: np.ndarray
    dimensions: int  # of the data, which X may be a rotation of
    prior: Any
    sigma_x: float
    sigma_a: float
    bound: str = "convex"

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def r(self) -> float:
        return (self.sigma_x / self.sigma_a) ** 2

    @cached_property
    def prior_bound(self) -> Any:
        return prior_bound(self.bound, self.prior, self.n)

    @property
    def most_of_row(self) -> float:
        """The highest log density that a row can have, whatever its features."""
        return -0.5 * self.dimensions * float(np.log(2.0 * np.pi * self.sigma_x**2))

    def part(self, rows: np.ndarray) -> Problem:
        """The same of some of the rows."""
        return Problem(
            np.ascontiguousarray(self.X[rows]),
            self.squares[rows],
            self.dimensions,
            self.prior,
            self.sigma_x,
            self.sigma_a,
            self.bound,
        )

    def own_dish_each(self) -> np.ndarray:
        """log N(x; 0, (σ_x² + σ_a²)I) of each row."""
        variance = self.sigma_x**2 + self.sigma_a**2
        each = -0.5 * self.dimensions * np.log(2.0 * np.pi * variance)
        return each - 0.5 * self.squares / variance

    # candidates

    def root(self) -> Candidate:
        """No rows yet."""
        found = Candidate(None, np.zeros(0, np.uint8), 0, np.inf, 0.0)
        found.kept = Kept(self._room(0), np.zeros(0, np.uint8))
        return found

    def _room(self, k: int) -> Any:
        from thali.kernels.particle_rows import Particles

        square, d = (1, k, k), self.X.shape[1]
        return Particles(
            np.zeros(1, np.int64),
            np.zeros((1, k)),
            np.zeros(square),
            np.zeros((1, k, d)),
            np.zeros(square),
            np.zeros(square),
            np.zeros(1),
        )

    def restored(self, Z: np.ndarray, score: float, evidence: float) -> Candidate:
        """The candidate with these rows, its columns in the order in which they were opened."""
        from thali.kernels.maintained_rows import fresh

        at = self.root()
        if len(Z) == 0:
            return at
        opened = np.where(Z.any(axis=0), Z.argmax(axis=0), len(Z))
        for n, row in enumerate(Z):
            old, k = int((opened < n).sum()), int((opened <= n).sum())
            at = Candidate(at, row[:old].astype(np.uint8), k - old, np.nan, np.nan)
        at.score, at.evidence = score, evidence
        arrays, k = self._room(at.k), at.k
        bits = Z.astype(float)
        arrays.k[0], arrays.m[0] = k, bits.sum(axis=0)
        arrays.C[0], arrays.T[0] = bits.T @ bits, bits.T @ self.X[: len(Z)]
        if k:
            arrays.S[0], arrays.G[0] = fresh(arrays.C[0].copy(), arrays.T[0], self.r)
        same = np.zeros(k, np.uint8)
        same[1:] = (Z[:, 1:] == Z[:, :-1]).all(axis=0)
        at.kept = Kept(arrays, same)
        return at

    def settle(self, candidate: Candidate) -> Kept:
        """The arrays of a candidate, made from its parent's."""
        if candidate.kept is not None:
            return candidate.kept
        from thali.kernels.particle_rows import Proposals, RowNumbers, extend

        before, row = candidate.base, candidate.rows - 1
        k, old = candidate.k, len(candidate.z)
        arrays = self._room(k)
        for ours, theirs in zip(arrays, before.arrays, strict=True):
            if ours.ndim == 1:
                ours[:] = theirs
            else:
                ours[tuple(slice(size) for size in theirs.shape)] = theirs
        z = np.zeros((1, k), np.uint8)
        z[0, :old] = candidate.z
        x, x2 = self.X[row], float(self.squares[row])
        b = np.zeros((1, k))
        b[0, :old] = before.arrays.S[0] @ (before.arrays.T[0] @ x)
        one = np.ones(1)
        laws = RowNumbers(
            one, one, one, self.sigma_x * one, self.sigma_a * one, -1, float(self.dimensions)
        )
        extend(arrays, laws, x, x2, Proposals(z, np.array([candidate.new]), b, np.zeros(1)), 0, 1)
        same = candidate.still_same(before.same)
        candidate.kept, candidate.base = Kept(arrays, same), None
        return candidate.kept

    def row_law(self, candidate: Candidate, future: float, floor: float, most_new: int) -> Any:
        """What the next row of a candidate adds to its score."""
        from thali.kernels.search_rows import RowScore

        kept = self.settle(candidate)
        m = kept.arrays.m[0].astype(int)
        prior = next_row(self.prior_bound, self.n, candidate.rows, m)
        half_d = 0.5 * self.dimensions
        unit = half_d * np.log(2.0 * np.pi * self.sigma_x**2)
        return RowScore(
            prior.take,
            kept.same,
            float(prior.rest + candidate.evidence + future - unit),
            prior.new,
            prior.future,
            prior.free,
            prior.left,
            self.r,
            half_d,
            0.5 / self.sigma_x**2,
            PLENTY if most_new < 0 else most_new,
            floor,
            prior.ties_left,
            prior.slack_take,
            prior.slack_stay,
            prior.slack_new,
        )

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
        keeps all that are found whose score is at least ``floor``.
        """
        from thali.kernels import search_rows as kernel

        law = self.row_law(candidate, future, floor, most_new)
        assert candidate.kept is not None
        arrays, k = candidate.kept.arrays, candidate.k
        x, x2 = self.X[candidate.rows], float(self.squares[candidate.rows])
        S, G = arrays.S[0], arrays.G[0]
        b = S @ (arrays.T[0] @ x)
        room = width or (1 << (k + 6) if expansion == "all" else WIDE)
        while True:
            found = kernel.Found(
                np.zeros(room), np.zeros((room, k), np.uint8), np.zeros(room, np.int64)
            )
            if expansion == "all":
                count, lost = kernel.every_row(S, G, b, x2, k, law, found, width is None)
            else:
                count = kernel.within_row(S, G, b, x2, k, law, found, max(room, WITHIN))
                lost = np.inf
            if count >= 0:
                break
            room *= 4
        order = np.argsort(-found.score[:count], kind="stable")
        bits, new = found.bits[order], found.new[order]
        density = self._density(bits.astype(float), S, G, b, x2, new)
        children = candidate.followed_by(
            candidate.kept, bits, new, found.score[order], candidate.evidence + density
        )
        return children, float(lost)

    def log_densities(
        self, X: np.ndarray, squares: np.ndarray, Z: np.ndarray, arrays: Any
    ) -> np.ndarray:
        """log N(x; zμ, σ_x²(1 + z S zᵀ) I) of rows with dishes Z, given a candidate's arrays."""
        S, G = arrays.S[0], arrays.G[0]
        b = X @ (S @ arrays.T[0]).T
        return self._density(Z, S, G, b, squares, 0.0)

    def _density(
        self,
        Z: np.ndarray,
        S: np.ndarray,
        G: np.ndarray,
        b: np.ndarray,
        squares: Any,
        new: np.ndarray | float,
    ) -> np.ndarray:
        """log N(x; zμ, σ_x²(1 + z S zᵀ + j/r) I) of each row of Z; b = μ x."""
        V = 1.0 + np.maximum(np.einsum("ni,ni->n", Z @ S, Z), 0.0) + new / self.r
        bent = np.einsum("ni,ni->n", Z @ G - 2.0 * b, Z)
        rho = np.maximum(squares + bent, 0.0)
        scale = 2.0 * np.pi * self.sigma_x**2
        return -0.5 * self.dimensions * np.log(scale * V) - 0.5 * rho / (self.sigma_x**2 * V)
