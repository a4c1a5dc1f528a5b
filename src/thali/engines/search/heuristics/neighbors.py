"""As if every row to come had the dishes of the nearest rows so far.

Of the nearest one (``neighbor``), or all dishes that one of the k nearest has (``neighbors_or``);
Rai and Daumé III (2011, section 5.3) name both and try neither.
"""

from __future__ import annotations

import numpy as np

from thali.engines.search.candidates import Candidate, Problem
from thali.machine import refuse_beyond_memory


class Neighbors:
    """A row to come adds its log density given the candidate's features and those dishes."""

    depends = True
    admissible = False

    def __init__(self, problem: Problem, count: int) -> None:
        refuse_beyond_memory("The distances between rows", problem.n, problem.n, 1)
        squares = np.einsum("nd,nd->n", problem.X, problem.X)
        self.apart = squares[:, None] + squares - 2.0 * (problem.X @ problem.X.T)
        self.count = count
        self.near: dict[int, np.ndarray] = {}

    def nearest(self, rows: int) -> np.ndarray:
        """For each row to come, the nearest of the first ``rows``: (n − rows, count)."""
        if rows not in self.near:
            apart, count = self.apart[rows:, :rows], min(self.count, rows)
            self.near[rows] = np.argpartition(apart, count - 1, axis=1)[:, :count]
        return self.near[rows]

    def futures(self, problem: Problem, candidates: list[Candidate]) -> list[float]:
        """For candidates that follow one and the same."""
        if not candidates or candidates[0].rows == problem.n:
            return [0.0] * len(candidates)
        parent, rows = candidates[0].parent, candidates[0].rows
        assert parent is not None
        near, before, left = self.nearest(rows), parent.matrix(), slice(rows, None)
        found = []
        for candidate in candidates:
            Z = np.zeros((rows, candidate.k), bool)
            Z[:-1, : parent.k], Z[-1] = before, candidate.row()
            shared = Z[near].any(axis=1).astype(float)
            arrays = problem.settle(candidate).arrays
            X, squares = problem.X[left], problem.squares[left]
            found.append(float(problem.log_densities(X, squares, shared, arrays).sum()))
        return found
