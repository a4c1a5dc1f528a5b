r"""Candidates of a search with A integrated out, where entries of X are missing.

Scores are those of what was observed. Columns are independent given Z, and those that miss the
same rows share an M = (Z_oᵀZ_o + rI)⁻¹ (``kernels/masked_particle_rows``): with J such groups a
candidate that is expanded keeps KD + (3J + 1)K² numbers. A row of D_o entries has at most the
density (2πσ_x²)^{−D_o/2}, whatever its features, so bounds stay bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from thali.engines.filtering.gaps import Gaps
from thali.engines.filtering.particles import masked_zeros
from thali.engines.search.best_first import EVERY
from thali.engines.search.candidates import Candidate, Kept, Problem, RowScores

if TYPE_CHECKING:
    from thali.kernels.masked_particle_rows import MaskedParticles


@dataclass
class MaskedProblem(Problem):
    """A search with A integrated out; ``X`` has guesses in its gaps, by which rows are compared and
    nothing is scored."""

    gaps: Gaps = field(kw_only=True)

    def part(self, rows: np.ndarray) -> MaskedProblem:
        X = np.ascontiguousarray(self.X[rows])
        return replace(self, X=X, squares=self.squares[rows], gaps=self.gaps.in_order(rows))

    def unit(self, rows: slice | int) -> np.ndarray:
        """½ D_o log 2πσ_x² of rows."""
        log = np.log(2.0 * np.pi * self.sigma_x**2)
        return np.asarray(0.5 * self.gaps.entries[rows] * log)

    def most_to_come(self) -> np.ndarray:
        return np.concatenate([np.cumsum(-self.unit(slice(None))[::-1])[::-1], [0.0]])

    def own_feature_each(self) -> np.ndarray:
        """log N(x_o; 0, (σ_x² + σ_a²)I) of what each row shows."""
        variance = self.sigma_x**2 + self.sigma_a**2
        each = -0.5 * self.gaps.entries * np.log(2.0 * np.pi * variance)
        return np.asarray(each - 0.5 * self.gaps.squares.sum(axis=1) / variance)

    # candidates

    def nothing(self) -> Kept:
        return Kept(self._zeros(0), np.zeros(0, np.uint8))

    def _zeros(self, k: int) -> MaskedParticles:
        return masked_zeros(1, k, self.gaps.X.shape[1], self.gaps.groups)

    def followed(self, candidate: Candidate[Kept], base: Kept) -> Kept:
        from thali.kernels.masked_particle_rows import extend
        from thali.kernels.particle_rows import Proposals, RowNumbers

        k, arrays = candidate.k, self._zeros(candidate.k)
        for ours, theirs in zip(arrays, base.arrays, strict=True):
            ours[tuple(slice(size) for size in theirs.shape)] = theirs
        z, one = np.zeros((1, k), np.uint8), np.ones(1)
        z[0, : len(candidate.z)] = candidate.z
        numbers = RowNumbers(
            one, one, one, self.sigma_x * one, self.sigma_a * one, -1, float(self.dimensions)
        )
        proposals = Proposals(z, np.array([candidate.new]), np.zeros((1, k)), np.zeros(1))
        extend(arrays, numbers, self.gaps.row(candidate.rows - 1), proposals, 0, 1)
        return Kept(arrays, candidate.still_same(base.same))

    def scores(
        self, candidate: Candidate[Kept], future: float, floor: float, most_new: int
    ) -> RowScores:
        from thali.kernels.search_rows import Seen

        (arrays, _), at = self.kept(candidate), candidate.rows
        view = self.gaps.row(at)
        shown, T = view.shown, arrays.T[0]
        along = np.add.reduceat(T * view.x, view.start[:-1], axis=1).T[shown]  # T_g x_g
        M, G = arrays.M[0][shown], arrays.G[0][shown]
        b = (M @ along[:, :, None])[:, :, 0]

        def evidence(bits: np.ndarray, new: np.ndarray) -> np.ndarray:
            X = np.broadcast_to(view.x, (len(bits), len(view.x)))
            there = np.broadcast_to(self.gaps.shown[at], (len(bits), self.gaps.groups))
            return candidate.evidence + self._observed(X, there, bits.astype(float), arrays, new)

        seen = Seen(M, G, b, view.x2[shown], np.diff(view.start)[shown].astype(float))
        unit = float(self.unit(at))
        return self.row_scores(candidate, seen, future - unit, floor, most_new, evidence)

    def log_densities(self, rows: slice, Z: np.ndarray, arrays: MaskedParticles) -> np.ndarray:
        """log p(x_o | z) of rows with features Z, given a candidate's arrays."""
        return self._observed(self.gaps.X[rows], self.gaps.shown[rows], Z, arrays, 0.0)

    def _observed(
        self,
        X: np.ndarray,
        shown: np.ndarray,
        Z: np.ndarray,
        arrays: MaskedParticles,
        new: np.ndarray | float,
    ) -> np.ndarray:
        """Σ_g log N(x_g; zμ_g, σ_x²(1 + z M_g zᵀ + j/r) I) over the groups that each row shows."""
        total, start = np.zeros(len(X)), self.gaps.start
        for g in range(self.gaps.groups):
            mine, M = slice(start[g], start[g + 1]), arrays.M[0, g]
            V = 1.0 + np.maximum(np.einsum("ni,ni->n", Z @ M, Z), 0.0) + new / self.r
            rho = np.square(X[:, mine] - Z @ (M @ arrays.T[0][:, mine])).sum(axis=1)
            variance, width = self.sigma_x**2 * V, start[g + 1] - start[g]
            logs = -0.5 * width * np.log(2.0 * np.pi * variance) - 0.5 * rho / variance
            total += np.where(shown[:, g], logs, 0.0)
        return total

    # polishing

    def with_best_row(self, Z: np.ndarray, n: int) -> np.ndarray:
        """Z with row n as it is best given the others, one of its own columns for each new one."""
        order = np.append(np.delete(np.arange(self.n), n), n)
        others = Z[order[:-1]]
        others = others[:, others.any(axis=0)]
        others = others[:, np.lexsort(others)] if len(others) else others  # equal ones side by side
        k = others.shape[1]
        same = np.zeros(k, np.uint8)
        same[1:] = (others[:, 1:] == others[:, :-1]).all(axis=0)
        last = self.part(order)
        vars(last)["prior_bound"] = self.prior_bound  # the same, and long in the making
        at: Candidate[Kept] = Candidate(None, np.zeros(0, np.uint8), k, 0.0, 0.0)
        at.rows, at.kept = self.n - 1, Kept(last.afresh(others), same)
        expansion = "all" if k <= EVERY else "within"
        children, _ = last.expand(at, 0.0, expansion=expansion, width=1)
        best = children[0]
        found = np.zeros((self.n, k + best.new), bool)
        found[order[:-1], :k], found[n] = others, best.row()
        return found

    def afresh(self, Z: np.ndarray) -> MaskedParticles:
        """The arrays of the first rows, with features Z."""
        gaps, rows, k = self.gaps, len(Z), Z.shape[1]
        arrays, real = self._zeros(k), Z.astype(float)
        arrays.k[0], arrays.m[0] = k, real.sum(axis=0)
        arrays.C[0], arrays.T[0] = real.T @ real, real.T @ gaps.X[:rows]
        if k == 0:
            return arrays
        pairs = (real[:, :, None] * real[:, None, :]).reshape(rows, k * k)
        C = (gaps.shown[:rows].T.astype(float) @ pairs).reshape(-1, k, k)
        M = np.linalg.inv(C + self.r * np.eye(k))
        each = np.repeat(M, np.diff(gaps.start), axis=0)  # of each column
        mu = (each @ arrays.T[0].T[:, :, None])[:, :, 0]
        arrays.C_g[0], arrays.M[0] = C, M
        arrays.G[0] = np.add.reduceat(mu[:, :, None] * mu[:, None, :], gaps.start[:-1], axis=0)
        return arrays
