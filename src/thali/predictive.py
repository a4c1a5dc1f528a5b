"""New rows given a fitted Z: the probabilities of their bits, and their predictive density.

With A integrated out both come from sums over the row's bits. For other likelihoods no density is
offered, and the probabilities are given the parameters: by the sum over all rows of bits up to ten
features, beyond, and where amounts are to be integrated out, as shares of Gibbs sweeps.

Entries may be missing (NaN) in the new rows, which then count with what they show, and in the
training data, where each column has the S and μ of the rows that were observed there.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from thali.data import Data
from thali.likelihoods.base import GaussianRows, Place
from thali.machine import cores
from thali.missing import patterns
from thali.model import Model

SCORE_DRAWS = 50  # draws averaged by ``score``, evenly spaced
SWEEPS = 200  # over the bits of new rows, where they are sampled
ENUMERATED = 10  # features up to which they are summed over instead
BLOCK = 4e6  # entries of a table of densities
NO_DIMENSION = 1e-300  # of a row of which nothing was observed; a divisor, so not quite 0


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
    fixed.likelihood.check_data(Data(X))
    if isinstance(fixed.likelihood, GaussianRows):
        return rows(fixed, data, Z, X)[0]
    odds = fixed.prior.tables(data.n + 1).log_odds[Z.sum(axis=0)]  # type: ignore[attr-defined]
    axes: dict[str, int] = fixed.likelihood.axes  # type: ignore[attr-defined]
    if Z.shape[1] <= ENUMERATED and 1 not in axes.values():
        return enumerated_bits(fixed.likelihood, parameters, odds, X)
    return sampled_bits(model, hyper, parameters, odds, X)


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


def enumerated_bits(
    likelihood: Any, parameters: dict[str, np.ndarray], odds: np.ndarray, X: np.ndarray
) -> np.ndarray:
    """P(z_k = 1 | x, parameters) by the sum over all 2^K rows of bits, missing entries left out."""
    k, d = len(odds), X.shape[1]
    bits = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    law = likelihood.entries(bits, parameters, (np.arange(2**k)[:, None], np.arange(d)))
    found = np.empty((len(X), k))
    block = max(1, int(BLOCK / (2**k * d)))
    for first in range(0, len(X), block):
        x = X[first : first + block, None]
        logs = law.log_density(np.nan_to_num(x))
        logs = np.where(np.isnan(x), 0.0, logs).sum(axis=2) + bits @ odds
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        found[first : first + block] = weights @ bits / weights.sum(axis=1, keepdims=True)
    return found


def sampled_bits(
    model: Model,
    hyper: dict[str, float],
    parameters: dict[str, np.ndarray],
    odds: np.ndarray,
    X: np.ndarray,
) -> np.ndarray:
    """Shares of Gibbs sweeps in which each bit is on, the features' parameters held fixed.

    Rows that show the same columns are sampled together, given these columns alone.
    """
    pi = 1.0 / (1.0 + np.exp(-odds))
    mask = ~np.isnan(X)
    kinds = patterns(mask.T)
    shares = np.empty((len(X), len(odds)))
    for kind in range(len(kinds.start) - 1):
        mine = np.flatnonzero(kinds.of_column == kind)
        seen = mask[mine[0]]
        if not seen.any():
            shares[mine] = pi
            continue
        new = Data(np.ascontiguousarray(X[np.ix_(mine, seen)]))
        shown = {  # of parameters with a row for each feature, the columns that are shown
            name: np.ascontiguousarray(value[:, seen])
            for name, value in parameters.items()
            if model.likelihood.axes[name] == 0  # type: ignore[attr-defined]
        }
        shares[mine] = shares_of_sweeps(model, new, shown, hyper, pi)
    return shares


def shares_of_sweeps(
    model: Model,
    new: Data,
    parameters: dict[str, np.ndarray],
    hyper: dict[str, float],
    pi: np.ndarray,
) -> np.ndarray:
    """How often each bit of complete rows is on, their prior probabilities being π."""
    from thali.kernels.bit_prior import BitPrior

    likelihood: Any = model.likelihood
    rng, k = np.random.default_rng(0), len(pi)
    own = likelihood.new_parameters(rng, new, k, hyper)  # those of each row are the new rows' own
    place = Place(new, np.zeros((new.n, k), np.uint8), {**own, **parameters}, hyper)
    total = np.zeros((new.n, k))
    counts = np.full(k, 2 * new.n + 2, np.int64)  # in use whatever the new rows do
    for i in range(SWEEPS + SWEEPS // 4):
        likelihood.update_bits(rng, place, BitPrior(np.zeros(0), counts, pi))
        if i >= SWEEPS // 4:
            total += place.bits
    return total / SWEEPS


def rows(model: Model, data: Data, Z: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(z_k = 1 | x) (n, K) and log p(x) (n,) for new rows X, hyperparameters given as numbers.

    The prior of a new row among N+1 comes from the same tables as the sampler's; new dishes of
    the row's own are summed out.
    """
    from thali.kernels.collapsed_rows import Law

    tables = model.prior.tables(data.n + 1)  # type: ignore[attr-defined]
    sigma_x, sigma_a = model.likelihood.sigma_x, model.likelihood.sigma_a  # type: ignore[attr-defined]
    odds = np.ascontiguousarray(tables.log_odds[Z.sum(axis=0)])
    free = -1 if tables.capacity < 0 else tables.capacity - Z.shape[1]
    law = Law(tables.log_odds, tables.new_log_weight, tables.capacity, sigma_x, sigma_a, 0.0)
    mask = ~np.isnan(X)
    marginals, logs = np.zeros((len(X), Z.shape[1])), np.zeros(len(X))
    known = (odds, (sigma_x / sigma_a) ** 2, free, law)
    fill = _fill_complete if data.mask is None else _fill_masked
    fill(model, data, Z, X, mask, known, marginals, logs)
    # the constants: ∏(1 − π_k), the law of new dishes' total, and (2πσ_x²)^{−D/2}
    weight = np.exp(tables.new_log_weight)
    none_new = weight if free < 0 else free * np.log1p(weight)
    constant = -np.logaddexp(0.0, odds).sum() - none_new
    return marginals, logs + constant - 0.5 * mask.sum(axis=1) * np.log(2.0 * np.pi * sigma_x**2)


def _fill_complete(
    model: Model,
    data: Data,
    Z: np.ndarray,
    X: np.ndarray,
    mask: np.ndarray,
    known: tuple[Any, ...],
    marginals: np.ndarray,
    logs: np.ndarray,
) -> None:
    """Complete training data: rows that show the same columns share G = μ_oμ_oᵀ and D_o."""
    from thali.kernels.row_posterior import row_posteriors

    odds, r, free, law = known
    predict = model.likelihood.rows(data.X, Z)  # type: ignore[attr-defined]
    S = np.ascontiguousarray(predict.S)
    kinds = patterns(mask.T)
    for kind in range(len(kinds.start) - 1):
        mine = np.flatnonzero(kinds.of_column == kind)
        seen = mask[mine[0]]
        mu, part = predict.mu[:, seen], X[np.ix_(mine, seen)]
        B = np.ascontiguousarray(part @ mu.T)
        G = np.ascontiguousarray(mu @ mu.T)
        squares = np.einsum("nd,nd->n", part, part)
        local = law._replace(dimensions=max(float(seen.sum()), NO_DIMENSION))
        found, densities = np.zeros(B.shape), np.zeros(len(B))

        def fill(
            block: slice,
            B: np.ndarray = B,
            G: np.ndarray = G,
            squares: np.ndarray = squares,
            local: Any = local,
            found: np.ndarray = found,
            densities: np.ndarray = densities,
        ) -> None:
            row_posteriors(
                B[block], squares[block], S, G, odds, r, free, local, found[block], densities[block]
            )

        _in_blocks(fill, len(B))
        marginals[mine], logs[mine] = found, densities


def _fill_masked(
    model: Model,
    data: Data,
    Z: np.ndarray,
    X: np.ndarray,
    mask: np.ndarray,
    known: tuple[Any, ...],
    marginals: np.ndarray,
    logs: np.ndarray,
) -> None:
    """Training data with gaps: each column has its own S, shared by those of one pattern."""
    from thali.kernels.masked_columns import inverses
    from thali.kernels.masked_row_posterior import masked_row_posteriors

    odds, r, free, law = known
    real = Z.astype(float)
    of_column, start, missing = data.patterns
    S = inverses(np.ascontiguousarray(Z, np.uint8), real.T @ real, start, missing, r)
    mu = np.ascontiguousarray(model.likelihood.features(data.X, Z))  # type: ignore[attr-defined]
    X = np.where(mask, X, 0.0)

    def fill(block: slice) -> None:
        masked_row_posteriors(
            X[block], mask[block], mu, S, of_column, odds, r, free, law,
            marginals[block], logs[block],
        )  # fmt: skip

    _in_blocks(fill, len(X))


def _in_blocks(fill: Callable[[slice], None], n: int) -> None:
    """Blocks of rows side by side: kernels release the interpreter's lock."""
    blocks = np.linspace(0, n, min(n, 4 * cores()) + 1).astype(int)
    if len(blocks) == 2:
        fill(slice(0, n))
        return
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, [slice(a, b) for a, b in pairwise(blocks)]))
