"""Nothing: a candidate is as good as its rows so far (Rai and Daumé III 2011, section 5.1)."""

from __future__ import annotations

from typing import Any


class Trivial:
    """Admissible where the density of a row is at most 1: for discrete data, or much noise."""

    depends = False

    def __init__(self, problem: Any) -> None:
        self.admissible = problem.most_of_row <= 0.0

    def future(self, rows: int) -> float:
        return 0.0
