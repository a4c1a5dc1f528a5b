r"""As if every row to come had one dish, of its own (Rai and Daumé III 2011, section 5.2).

Rows that share no dish are independent: each adds log N(x; 0, (σ_x² + σ_a²)I), whatever the
candidate. Closer to what rows will add than a bound can be, and so not one.
"""

from __future__ import annotations

import numpy as np

from thali.search.candidates import Problem


class Inadmissible:
    """Sums over the rows to come, made once."""

    depends = False
    admissible = False

    def __init__(self, problem: Problem) -> None:
        variance = problem.sigma_x**2 + problem.sigma_a**2
        each = -0.5 * problem.dimensions * np.log(2.0 * np.pi * variance)
        logs = each - 0.5 * problem.squares / variance
        self.sums = np.concatenate([np.cumsum(logs[::-1])[::-1], [0.0]])

    def future(self, rows: int) -> float:
        return float(self.sums[rows])
