r"""log P(X) from independent unbiased estimates of P(X): their mean, and how sure it is.

The error is the jackknife's: the spread of l = log mean w as each of R estimates is left out in
turn, √((R−1)/R Σ_r (l_r − l̄)²). Where all count alike it is that of the delta method,
sd(w)/(mean(w) √R). Where one of them is most of the sum, it is as large as what that one adds,
while the delta method's is never above 1.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class Evidence(NamedTuple):
    """An estimate of log P(X), its standard error, log w of each run that it is made of, and an
    estimate that is likely above log P(X) where this one is likely below (NaN without one)."""

    estimate: float
    error: float
    runs: np.ndarray
    upper: float = float("nan")

    @property
    def effective_runs(self) -> float:
        """(Σw)²/Σw²: of how many runs the estimate is the mean, in effect."""
        return float(np.exp(2.0 * logsumexp(self.runs) - logsumexp(2.0 * self.runs)))


def evidence_of(log_weights: np.ndarray) -> Evidence:
    """log mean w, and its error, NaN of a single one.

    >>> estimate, error, *_ = evidence_of(np.log([1.0, 2.0, 3.0]))
    >>> round(float(np.exp(estimate)), 6), round(error, 2)
    (2.0, 0.3)
    """
    logs = np.asarray(log_weights, float)
    runs = len(logs)
    estimate = float(logsumexp(logs) - np.log(runs))
    if runs < 2 or not np.isfinite(estimate):
        return Evidence(estimate, float("nan"), logs)
    without = np.array([logsumexp(np.delete(logs, r)) for r in range(runs)])
    return Evidence(estimate, float(np.sqrt((runs - 1.0) * without.var())), logs)
