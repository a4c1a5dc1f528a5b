"""New rows given a fitted Z: the probabilities of their bits, and their predictive density."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from thali.data import Data
from thali.machine import cores
from thali.model import Model

SCORE_DRAWS = 50  # draws averaged by ``score``, evenly spaced


def rows(model: Model, data: Data, Z: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(z_k = 1 | x) (n, K) and log p(x) (n,) for new rows X, hyperparameters given as numbers.

    The prior of a new row among N+1 comes from the same tables as the sampler's; new dishes of
    the row's own are summed out.
    """
    from thali.kernels.collapsed_rows import Law
    from thali.kernels.row_posterior import row_posteriors

    tables = model.prior.tables(data.n + 1)  # type: ignore[attr-defined]
    sigma_x, sigma_a = model.likelihood.sigma_x, model.likelihood.sigma_a  # type: ignore[attr-defined]
    predict = model.likelihood.rows(data.X, Z)  # type: ignore[attr-defined]
    odds = tables.log_odds[Z.sum(axis=0)]
    free = -1 if tables.capacity < 0 else tables.capacity - Z.shape[1]
    law = Law(
        tables.log_odds, tables.new_log_weight, tables.capacity, sigma_x, sigma_a, float(data.d)
    )
    B = np.ascontiguousarray(X @ predict.mu.T)
    squares = np.einsum("nd,nd->n", X, X)
    shared = (
        np.ascontiguousarray(predict.S),
        np.ascontiguousarray(predict.mu @ predict.mu.T),
        np.ascontiguousarray(odds),
        (sigma_x / sigma_a) ** 2,
        free,
        law,
    )
    marginals, logs = np.zeros(B.shape), np.zeros(len(B))

    def fill(part: slice) -> None:
        row_posteriors(B[part], squares[part], *shared, marginals[part], logs[part])

    blocks = np.linspace(0, len(B), min(len(B), 4 * cores()) + 1).astype(int)
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, [slice(a, b) for a, b in pairwise(blocks)]))
    # the constants: ∏(1 − π_k), the law of new dishes' total, and (2πσ_x²)^{−D/2}
    weight = np.exp(tables.new_log_weight)
    none_new = weight if free < 0 else free * np.log1p(weight)
    constant = -np.logaddexp(0.0, odds).sum() - none_new
    constant -= 0.5 * data.d * np.log(2.0 * np.pi * sigma_x**2)
    return marginals, logs + constant
