r"""What the rows that a search has not come to may add to a candidate's score.

    trivial       nothing: a candidate is as good as its rows so far (section 5.1)
    admissible    the highest density that any row can have: for Gaussian noise (2πσ_x²)^{−D/2},
                  whatever the features, for discrete data 1. So no candidate's score is below the
                  best that it can become, and a search with an unlimited queue is exact
    inadmissible  as if every row had one feature, of its own (section 5.2). Rows that share no
                  feature are independent: with A integrated out each adds log N(x; 0, (σ_x² +
                  σ_a²)I), with binary parameters kept the best over those of the row's feature.
                  Closer to what rows will add than a bound can be, and so not one
    cluster       as if every row had the features of its cluster (section 5.3). The rows are
                  clustered (k-means); a search by ``trivial`` of the rows nearest to the centers
                  finds their features, given which each row adds its log density
    neighbor      as if every row had the features of the nearest row so far,
    neighbors_or  or all that one of the k nearest has (section 5.3 names both and tries neither)

of Rai and Daumé III (2011). All but the last two say the same of every candidate of so many rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thali.engines.search.best_first import Heuristic, search
from thali.engines.search.candidates import Candidate, KeptT, Problem, SearchProblem
from thali.machine import refuse_beyond_memory

NAMES = ("inadmissible", "trivial", "admissible", "cluster", "neighbor", "neighbors_or")
MOST = 40  # clusters
WIDTH = 20  # of the search among those that stand for them


@dataclass(frozen=True)
class RowSums(Heuristic):
    """What all rows after the first n add, by n; ``admissible``: none of them can add more."""

    sums: np.ndarray
    admissible: bool = False

    def future(self, rows: int) -> float:
        return float(self.sums[rows])


class Neighbors(Heuristic):
    """A row to come adds its log density given the candidate's features and those of near rows."""

    admissible = False

    def __init__(self, problem: Problem, count: int) -> None:
        refuse_beyond_memory("The distances between rows", problem.n, problem.n, 1)
        squares = np.einsum("nd,nd->n", problem.X, problem.X)
        self.apart = squares[:, None] + squares - 2.0 * (problem.X @ problem.X.T)
        self.problem, self.count = problem, count
        self.near: dict[int, np.ndarray] = {}

    def nearest(self, rows: int) -> np.ndarray:
        """For each row to come, the nearest of the first ``rows``: (n − rows, count)."""
        if rows not in self.near:
            apart, count = self.apart[rows:, :rows], min(self.count, rows)
            self.near[rows] = np.argpartition(apart, count - 1, axis=1)[:, :count]
        return self.near[rows]

    def futures(self, candidates: Sequence[Candidate[Any]]) -> list[float]:
        problem = self.problem
        if not candidates or candidates[0].rows == problem.n:
            return [0.0] * len(candidates)
        parent, rows = candidates[0].parent, candidates[0].rows
        assert parent is not None
        near, before = self.nearest(rows), parent.matrix()
        found = []
        for candidate in candidates:
            Z = np.zeros((rows, candidate.k), bool)
            Z[:-1, : parent.k], Z[-1] = before, candidate.row()
            shared = Z[near].any(axis=1).astype(float)
            arrays = problem.kept(candidate).arrays
            found.append(float(problem.log_densities(slice(rows, None), shared, arrays).sum()))
        return found


def heuristic(
    name: str, problem: SearchProblem[KeptT], rng: np.random.Generator, neighbors: int = 3
) -> Heuristic:
    """The heuristic of that name for a problem."""
    if name == "trivial":
        return trivial(problem)
    if name == "admissible":
        return RowSums(problem.most_to_come(), admissible=True)
    if name == "inadmissible":
        return RowSums(after_each(problem.own_feature_each()))
    assert isinstance(problem, Problem), name  # others need A integrated out
    if name == "cluster":
        return RowSums(after_each(by_cluster(problem, rng)))
    return Neighbors(problem, 1 if name == "neighbor" else neighbors)


def trivial(problem: SearchProblem[KeptT]) -> RowSums:
    """Admissible where the density of a row is at most 1: for discrete data, or much noise."""
    return RowSums(np.zeros(problem.n + 1), admissible=problem.most_of_row <= 0.0)


def after_each(logs: np.ndarray) -> np.ndarray:
    """The sums of what comes after the first 0 … n rows."""
    return np.concatenate([np.cumsum(logs[::-1])[::-1], [0.0]])


def by_cluster(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """The log density of each row given the features of the row that stands for its cluster."""
    stands, members = representatives(problem.X, rng)
    few = problem.part(stands)
    found = search(few, trivial(few), width=WIDTH).answer
    if found is None:
        return np.zeros(problem.n)
    Z = found.matrix().astype(float)[members]
    return problem.log_densities(slice(None), Z, few.kept(found).arrays)


def representatives(X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The rows that stand for clusters, and for each row which of them stands for it."""
    from sklearn.cluster import KMeans

    different = len(np.unique(X, axis=0))
    count = int(min(MOST, different, np.ceil(np.sqrt(len(X))) + 1))
    seed = int(rng.integers(2**31))
    found = KMeans(count, n_init=3, random_state=seed).fit(X)
    near = found.transform(X).argmin(axis=0)
    stands, members = np.unique(near, return_inverse=True)
    return stands, members.reshape(-1)[found.labels_]
