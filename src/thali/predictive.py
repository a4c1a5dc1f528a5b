"""New rows given a fitted Z: the probabilities of their bits, and their predictive density.

With A integrated out (or Gaussian given A) both come from sums over the row's bits; for other
likelihoods the bits are sampled given the parameters, and no density is offered.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from thali.data import Data
from thali.likelihoods.base import GaussianRows
from thali.machine import cores
from thali.model import Model

SCORE_DRAWS = 50  # draws averaged by ``score``, evenly spaced
SWEEPS = 200  # over the bits of new rows, where they are sampled


def probabilities(
    model: Model,
    data: Data,
    Z: np.ndarray,
    hyper: dict[str, float],
    parameters: dict[str, np.ndarray],
    X: np.ndarray,
) -> np.ndarray:
    """P(z_k = 1 | x) of new rows X, (n, K)."""
    fixed = model.at(hyper)
    if isinstance(fixed.likelihood, GaussianRows):
        return rows(fixed, data, Z, X)[0]
    return sampled_bits(model, data, Z, hyper, parameters, X)


def log_densities(
    model: Model,
    data: Data,
    Z: np.ndarray,
    hyper: dict[str, float],
    parameters: dict[str, np.ndarray],
    X: np.ndarray,
) -> np.ndarray:
    """log p(x) of new rows X, (n,)."""
    fixed = model.at(hyper)
    if isinstance(fixed.likelihood, GaussianRows):
        return rows(fixed, data, Z, X)[1]
    raise ValueError(
        f"score is not known for {type(fixed.likelihood).__name__}, whose rows cannot be summed "
        "over their features; compare models by thali.evaluation.holdout instead."
    )


def sampled_bits(
    model: Model,
    data: Data,
    Z: np.ndarray,
    hyper: dict[str, float],
    parameters: dict[str, np.ndarray],
    X: np.ndarray,
) -> np.ndarray:
    """Shares of Gibbs sweeps in which each bit is on, the features' parameters held fixed."""
    from thali.kernels.bit_prior import BitPrior

    likelihood: Any = model.likelihood
    odds = model.at(hyper).prior.tables(data.n + 1).log_odds[Z.sum(axis=0)]  # type: ignore[attr-defined]
    pi = 1.0 / (1.0 + np.exp(-odds))
    new, rng = Data(np.ascontiguousarray(X)), np.random.default_rng(0)
    own = likelihood.new_parameters(rng, new, Z.shape[1], hyper)
    kept = {  # a parameter with a row for each row of X is the new rows' own
        name: own[name] if axis == 1 else parameters[name] for name, axis in likelihood.axes.items()
    }
    bits = np.zeros((new.n, Z.shape[1]), np.uint8)
    total = np.zeros(bits.shape)
    counts = np.full(Z.shape[1], data.n, np.int64)  # in use whatever the new rows do
    for i in range(SWEEPS + SWEEPS // 4):
        likelihood.update_bits(rng, new, bits, kept, hyper, BitPrior(np.zeros(0), counts, pi))
        if i >= SWEEPS // 4:
            total += bits
    return total / SWEEPS


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
