"""P(X | Z) where each column has a noise of its own, by Student's t of what was observed in it.

With σ_d² ~ InverseGamma(a, b) and a column x ~ N(0, σ_d² C), C = I + σ_a² ZZ', x is multivariate t
with 2a degrees of freedom and shape (b/a) C. Nothing here imports the library.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma
from scipy.stats import multivariate_t


def log_evidence(X, Z, sigma_a, shape, scales):
    """log P(X | Z), the noise of each column and its features integrated out; NaN are gaps."""
    C = np.eye(len(Z)) + sigma_a**2 * np.asarray(Z, float) @ np.asarray(Z, float).T
    total = 0.0
    for x, b in zip(np.asarray(X, float).T, scales, strict=True):
        seen = ~np.isnan(x)
        t = multivariate_t(shape=b / shape * C[np.ix_(seen, seen)], df=2.0 * shape)
        total += float(t.logpdf(x[seen]))
    return total


def mean_log_noise(X, Z, sigma_a, shape, scales):
    """E[log σ_d | X, Z] of each column: σ_d² ~ InverseGamma(a + n/2, b + ½ x'C⁻¹x), n of its rows
    observed."""
    C = np.eye(len(Z)) + sigma_a**2 * np.asarray(Z, float) @ np.asarray(Z, float).T
    found = []
    for x, b in zip(np.asarray(X, float).T, scales, strict=True):
        seen = ~np.isnan(x)
        b_n = b + 0.5 * x[seen] @ np.linalg.solve(C[np.ix_(seen, seen)], x[seen])
        found.append(0.5 * (np.log(b_n) - digamma(shape + 0.5 * seen.sum())))
    return np.array(found)
