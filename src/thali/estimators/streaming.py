"""Data that arrive in pieces: a variational fit takes in one after the other and keeps none.

What a fit then says of rows is of the last piece; features, frequencies and hyperparameters are of
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from thali.backends.far import AnyBlock, block_of
from thali.backends.rows import Rows
from thali.data import Data, Table
from thali.engines.base import AbsorbsRows, BoundOptimizer, Info
from thali.estimators.base import LatentModel
from thali.likelihoods.base import Likelihood
from thali.likelihoods.table import TableLikelihood
from thali.results.feature_answer import features_in_use
from thali.results.fit import Fit, VariationalFit
from thali.results.trace import ChainTrace
from thali.run.choices import choose_engine

if TYPE_CHECKING:
    from thali.engines.ascent.stream import Stream

ROUNDS = 20  # of local steps for new rows


def can_stream(estimator: LatentModel) -> bool:
    """Whether its engine can; else no ``partial_fit``, and a sentence that says why."""
    if isinstance(choose_engine(estimator.engine), AbsorbsRows):
        return True
    raise AttributeError(
        "partial_fit needs an engine that keeps a distribution in place of draws: "
        "engine='variational' or thali.Variational(...)."
    )


def refuse_tables(likelihood: Likelihood) -> None:
    """Refuse tables with columns of different kinds, whose columns are found from all rows."""
    if isinstance(likelihood, TableLikelihood):
        raise ValueError(
            f"partial_fit is not there for {type(likelihood).__name__}: the kinds, levels and "
            "units of columns are found from all rows together. Fit to the whole table, or to a "
            "sample of its rows; predict_proba then takes the others."
        )


def is_stream(fit: Fit) -> bool:
    """Whether more than one piece has been taken in."""
    return isinstance(fit, VariationalFit) and "stream_n" in fit.params


def by_bound(fit: Fit) -> bool:
    """Whether new rows are told of by q alone: where the rows of the fit are gone, or lie elsewhere
    with entries missing, of which each column has others."""
    gaps_elsewhere = fit.data.far and fit.data.observed is not None
    return is_stream(fit) or (gaps_elsewhere and isinstance(fit.engine, AbsorbsRows))


def stream_of(fit: Fit) -> Stream:
    """The stream that led to a fit: a plain fit is one of a single piece."""
    engine = cast(AbsorbsRows, fit.engine)
    return engine.stream(fit.model, fit.data, dict(fit.extra or {}), fit.mean_hyper())


def new_rows(fit: Fit, X: Table) -> AnyBlock:
    """Rows in the precision of the engine."""
    return block_of(Data.of(X), cast(AbsorbsRows, fit.engine).dtype)


def absorbed(fit: Fit, X: Table, total_samples: int | None) -> VariationalFit:
    """The fit after one piece more, whose rows are those of the piece."""
    refuse_tables(fit.model.likelihood)
    stream, model, data = stream_of(fit), fit.model, Data.of(X)
    absorbs, optimizer = cast(AbsorbsRows, fit.engine), cast(BoundOptimizer, fit.engine)
    rng = np.random.default_rng(np.random.SeedSequence((fit.seed, stream.pieces)))
    stream.absorb(rng, new_rows(fit, data), total_samples, absorbs.forgetting, absorbs.delay)
    state = stream.state
    longest = max(fit.chains, key=lambda chain: chain.scalars[-1][1])
    chain = ChainTrace(list(longest.names), list(longest.scalars))
    params = optimizer.params(model, state) | stream.to_arrays()
    used = len(features_in_use(params))
    chain.record(Info(used, state.bound, dict(state.hyper), 0.0), optimizer.measure)
    chain.keep_population(optimizer.population(rng, model, data, state))
    return VariationalFit(model, data, fit.engine, fit.seed, (chain,), 0, fit.starts, extra=params)


def probabilities(fit: Fit, X: Table) -> np.ndarray:
    """P(z_k = 1 | x) of new rows given q of features and frequencies, those in use."""
    stream = stream_of(fit)
    rows = rows_given_globals(stream, new_rows(fit, X))
    return rows.nu[:, features_in_use(stream.to_arrays())]


def mean_bound(fit: Fit, X: Table) -> float:
    """The mean over new rows of a lower bound of log p(x), given q of all else."""
    stream, block = stream_of(fit), new_rows(fit, X)
    return float(row_bounds(stream, block, rows_given_globals(stream, block)).mean())


def row_bounds(stream: Stream, block: AnyBlock, rows: Rows) -> np.ndarray:
    """A lower bound of log p(x) for each new row, given q of all else."""
    state = stream.state
    none = float(state.frequencies.log_off().sum())
    return state.backend.row_bounds(block, rows, state.globals(block), none)


def rows_given_globals(stream: Stream, block: AnyBlock) -> Rows:
    """q of new rows given that of features and frequencies."""
    from thali.engines.ascent.stream import fresh_rows

    state = stream.state
    nu = np.tile(state.frequencies.mean()[: state.k], (block.n, 1))
    rows = fresh_rows(np.random.default_rng(0), nu, state.rows.slab)
    given = state.globals(block)
    for _ in range(ROUNDS):
        state.backend.local_step(block, rows, given)
    return rows
