"""The highest density that any row can have, for each row to come.

For Gaussian noise (2πσ_x²)^{−D/2}, whatever the features; for discrete data 1. So no candidate's
score is below the best that it can become, and a search with an unlimited queue is exact.
"""

from __future__ import annotations

from typing import Any


class Admissible:
    """A constant for each row to come."""

    depends = False
    admissible = True

    def __init__(self, problem: Any) -> None:
        self.n, self.most = problem.n, problem.most_of_row

    def future(self, rows: int) -> float:
        return (self.n - rows) * self.most
