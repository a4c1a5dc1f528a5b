r"""As if every row to come had the dishes of its cluster (Rai and Daumé III 2011, section 5.3).

The rows are clustered (k-means) and the row nearest to each center is taken out; a search of these
alone, by ``trivial``, finds their dishes, and with them features. A row to come then adds the log
density of its data given those features and the dishes of the row that stands for its cluster.
"""

from __future__ import annotations

import numpy as np

from thali.engines.search.candidates import Problem
from thali.engines.search.heuristics.trivial import Trivial

MOST = 40  # clusters
WIDTH = 20  # of the search among those that stand for them


class Cluster:
    """Sums over the rows to come, made once."""

    depends = False
    admissible = False

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        from thali.engines.search.best_first import search

        stands, members = representatives(problem.X, rng)
        few = problem.part(stands)
        found = search(few, Trivial(few), width=WIDTH).answer
        logs = np.zeros(problem.n)
        if found is not None:
            arrays = few.settle(found).arrays
            Z = found.matrix().astype(float)[members]
            logs = problem.log_densities(problem.X, problem.squares, Z, arrays)
        self.sums = np.concatenate([np.cumsum(logs[::-1])[::-1], [0.0]])

    def future(self, rows: int) -> float:
        return float(self.sums[rows])


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
