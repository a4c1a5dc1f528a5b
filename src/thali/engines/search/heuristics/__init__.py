"""What the rows that a search has not come to may add to a candidate's score.

One file a heuristic. Each has ``admissible`` (whether no row can add more than it says) and either

    future(rows)                  the same for every candidate of so many rows, or
    futures(problem, candidates)  where it ``depends`` on them: of all that follow one candidate

Where the density of a row given all features is at most 1, as for discrete data, ``trivial`` is
admissible too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.engines.search.heuristics.admissible import Admissible
from thali.engines.search.heuristics.cluster import Cluster
from thali.engines.search.heuristics.inadmissible import Inadmissible
from thali.engines.search.heuristics.neighbors import Neighbors
from thali.engines.search.heuristics.trivial import Trivial

NAMES = ("inadmissible", "trivial", "admissible", "cluster", "neighbor", "neighbors_or")
ANY_MODEL = ("inadmissible", "trivial", "admissible")  # those that do not need A integrated out


def heuristic(name: str, problem: Any, rng: np.random.Generator, neighbors: int = 3) -> Any:
    """The heuristic of that name for a problem."""
    if name == "neighbor":
        return Neighbors(problem, 1)
    if name == "neighbors_or":
        return Neighbors(problem, neighbors)
    if name == "cluster":
        return Cluster(problem, rng)
    kinds = {"inadmissible": Inadmissible, "trivial": Trivial, "admissible": Admissible}
    return kinds[name](problem)
