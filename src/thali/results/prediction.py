"""New rows given a fitted Z: the probabilities of their bits, and their predictive density.

With A integrated out both come from sums over the row's bits and its own new features; for other
likelihoods they are given the draw's parameters (``rows_given_features``). A prior with row
potentials θ says nothing of a row beyond the n that it describes, and is refused.

Entries may be missing (NaN) in the new rows, which then count with what they show, and in the
training data, where each column has the M and μ of the rows that were observed there. Either may be
sparse, and is not made dense.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from thali.data import Data
from thali.data.sparse import row_squares
from thali.hyperparameters import Values
from thali.likelihoods.base import Collapsed, GaussianRows, Parameters
from thali.likelihoods.column_noise import ColumnNoise
from thali.machine import cores
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.results import filtered_rows
from thali.results import prediction_given_features as rows_given_features
from thali.results.fit import Fit
from thali.results.trace import Recorded
from thali.structures.features import FeatureTables, most_of

if TYPE_CHECKING:
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.new_features import NewFeatures

SCORE_DRAWS = 50  # draws averaged by ``score``, evenly spaced
NO_DIMENSION = 1e-300  # of a row of which nothing was observed; a divisor, so not quite 0


class Known(NamedTuple):
    """What all new rows are given: log odds, r = (σ_x/σ_a)², features of their own, and scales."""

    odds: np.ndarray
    r: float
    own: NewFeatures
    scales: Scales


def probabilities(
    fit: Fit, Z: np.ndarray, hyper: Values, parameters: Parameters, new: Data
) -> np.ndarray:
    """P(z_k = 1 | x) of new rows, (n, K)."""
    return _predicted(fit, Recorded(Z, {}, parameters), hyper, new, densities=False)


def mean_log_densities(fit: Fit, new: Data) -> np.ndarray:
    """log of the mean over draws of p(x | draw), of new rows, (n,)."""
    draws = fit.pick(fit.representatives(SCORE_DRAWS))
    particles = filtered_rows.particles_for(len(draws), SCORE_DRAWS)
    logs = [
        _predicted(fit, draw, fit.hyper_of(draw.scalars), new, densities=True, particles=particles)
        for draw in draws
    ]
    return np.asarray(np.logaddexp.reduce(np.array(logs), axis=0) - np.log(len(logs)))


def _predicted(
    fit: Fit,
    given: Recorded,
    hyper: Values,
    new: Data,
    densities: bool,
    particles: int | None = None,
) -> np.ndarray:
    """log p(x) of new rows, or else their bits' probabilities, given one value of the latent."""
    fixed, Z = fit.model.at(hyper), given.latent
    fixed.likelihood.check_data(new)
    if isinstance(fixed.likelihood, GaussianRows):
        return rows(fixed, fit.data, Z, new)[densities]
    if isinstance(fixed.likelihood, ColumnNoise):
        return _in_units(fixed, fit.data, Z, new)[densities]
    odds = tables_of_new(fixed, fit.data.n).log_odds[Z.sum(axis=0)]
    known = fit.model, hyper, given.parameters, odds, new
    if densities:
        return rows_given_features.log_densities(*known, particles)
    return rows_given_features.probabilities(*known)


def _in_units(model: Model, data: Data, Z: np.ndarray, new: Data) -> tuple[np.ndarray, np.ndarray]:
    """The same where each column has its own noise: it is the unit in which all have noise one."""
    likelihood = cast(ColumnNoise, model.likelihood)
    noise = np.asarray(likelihood.noise, float)
    inside = Model(model.prior, likelihood.inner)
    marginals, logs = rows(inside, data.in_units(noise), Z, new.in_units(noise))
    return marginals, logs - new.seen @ np.log(noise)


def tables_of_new(model: Model, n: int) -> FeatureTables:
    """The prior's tables of a new row beside n others, or a sentence if it has none."""
    prior = cast(PredictsRow, model.prior)
    tables = prior.tables(n + prior.consistent)
    if not prior.consistent or tables.row_potentials is not None:
        rows = tables.row_potentials is not None
        what = "the number of features of each row" if rows else "how many of n rows have a feature"
        if most_of(tables.capacity) >= 0:
            what = "how many features n rows have together"
        raise ValueError(
            f"New rows cannot be predicted under {type(prior).__name__}: it gives weight to "
            f"{what}, and such a distribution of n rows is not that of the first n of n + 1. Fit "
            "to the old rows and the new ones together; entries of the new ones may be missing "
            "(NaN)."
        )
    return tables


def rows(model: Model, data: Data, Z: np.ndarray, new: Data) -> tuple[np.ndarray, np.ndarray]:
    """P(z_k = 1 | x) (n, K) and log p(x) (n,) of new rows, hyperparameters given as numbers.

    The prior of a new row among N+1 comes from the same tables as the sampler's; new features of
    the row's own are summed out.
    """
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.new_features import MOST_NEW, NewFeatures

    tables = tables_of_new(model, data.n)
    fixed: Any = model.likelihood
    sigma_x, sigma_a = fixed.sigma_x, fixed.sigma_a
    odds = np.ascontiguousarray(tables.log_odds[Z.sum(axis=0)])
    free = -1 if tables.capacity < 0 else tables.capacity - Z.shape[1]
    own = NewFeatures(tables.new_log_weight, free, 0, MOST_NEW)
    r = (sigma_x / sigma_a) ** 2
    if r == 0.0:
        raise ValueError(
            f"sigma_a={sigma_a:.3g} is so far above sigma_x={sigma_x:.3g} that rows cannot be "
            "predicted in double precision; give sigma_a a number, or a hyperprior with less "
            "weight far from the data's scale."
        )
    known = Known(odds, r, own, Scales(sigma_x, sigma_a, 0.0))
    told = _given_complete if data.observed is None else _given_gaps
    marginals, logs = told(model, data, Z, new, known)
    seen = np.full(new.n, float(new.d)) if new.sparse else new.seen.sum(axis=1)
    # the constants: ∏(1 − π_k), the total weight of new features, and (2πσ_x²)^{−D/2}
    weight = np.exp(tables.new_log_weight)
    none_new = weight if free < 0 else free * np.log1p(weight)
    constant = -np.logaddexp(0.0, odds).sum() - none_new
    return marginals, logs + constant - 0.5 * seen * np.log(2.0 * np.pi * sigma_x**2)


def _given_complete(
    model: Model, data: Data, Z: np.ndarray, new: Data, known: Known
) -> tuple[np.ndarray, np.ndarray]:
    """Complete training data: rows that show the same columns share G = μ_oμ_oᵀ and D_o."""
    predict = cast(GaussianRows, model.likelihood).rows(data, Z)
    if new.sparse:  # all columns, of which products are all that is needed
        return _alike(new.X, row_squares(new.X), predict.M, predict.mu, known)
    marginals, logs = np.zeros((new.n, Z.shape[1])), np.zeros(new.n)
    for mine, seen in new.alike():
        part = new.X[np.ix_(mine, seen)]
        squares = np.einsum("nd,nd->n", part, part)
        marginals[mine], logs[mine] = _alike(part, squares, predict.M, predict.mu[:, seen], known)
    return marginals, logs


def _alike(
    X: np.ndarray | csr_array, squares: np.ndarray, M: np.ndarray, mu: np.ndarray, known: Known
) -> tuple[np.ndarray, np.ndarray]:
    """The bits' probabilities and log densities of rows that show the same columns."""
    from thali.kernels.row_posterior import row_posteriors

    odds, r, own, scales = known
    B, G = np.ascontiguousarray(X @ mu.T), np.ascontiguousarray(mu @ mu.T)
    M = np.ascontiguousarray(M)
    local = scales._replace(dimensions=max(float(X.shape[1]), NO_DIMENSION))
    found, densities = np.zeros(B.shape), np.zeros(len(B))

    def fill(block: slice) -> None:
        row_posteriors(
            B[block], squares[block], M, G, odds, r, own, local, found[block], densities[block]
        )

    _in_blocks(fill, len(B))
    return found, densities


def _given_gaps(
    model: Model, data: Data, Z: np.ndarray, new: Data, known: Known
) -> tuple[np.ndarray, np.ndarray]:
    """Training data with gaps: each column has its own M, shared by those of one pattern."""
    from thali.kernels.masked_columns import inverses
    from thali.kernels.masked_row_posterior import masked_row_posteriors

    if new.sparse:
        raise TypeError(
            "X is a sparse matrix, but the model was fitted to data with missing entries, where "
            "each column of a new row counts by itself; make it dense first with X.toarray()."
        )
    odds, r, own, scales = known
    of_column, start, missing = data.patterns
    M = inverses(np.ascontiguousarray(Z, np.uint8), start, missing, r)
    mu = np.ascontiguousarray(cast(Collapsed, model.likelihood).features(data, Z))
    marginals, logs, seen = np.zeros((new.n, Z.shape[1])), np.zeros(new.n), new.seen

    def fill(block: slice) -> None:
        masked_row_posteriors(
            new.zeroed[block], seen[block], mu, M, of_column, odds, r, own, scales,
            marginals[block], logs[block],
        )  # fmt: skip

    _in_blocks(fill, new.n)
    return marginals, logs


def _in_blocks(fill: Callable[[slice], None], n: int) -> None:
    """Blocks of rows side by side: kernels release the interpreter's lock."""
    blocks = np.linspace(0, n, min(n, 4 * cores()) + 1).astype(int)
    if len(blocks) == 2:
        return fill(slice(0, n))
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, [slice(a, b) for a, b in pairwise(blocks)]))
