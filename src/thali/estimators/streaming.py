"""Data that arrive in pieces: a variational fit takes in one after the other and keeps none.

What a fit then says of rows is of the last piece; features, frequencies and hyperparameters are of
all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.backends.block import Block
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines import Variational
from thali.engines.ascent.stream import Stream, fresh_rows
from thali.engines.base import Info
from thali.engines.variational import stream_from
from thali.results.feature_answer import features_in_use
from thali.results.fit import Fit, VariationalFit
from thali.results.trace import ChainTrace
from thali.run.choices import choose_engine

ROUNDS = 20  # of local steps for new rows


def can_stream(estimator: Any) -> bool:
    """Whether its engine can; else no ``partial_fit``, and a sentence that says why."""
    if isinstance(choose_engine(estimator.engine), Variational):
        return True
    raise AttributeError(
        "partial_fit needs an engine that keeps a distribution in place of draws: "
        "engine='variational' or thali.Variational(...)."
    )


def has_begun(estimator: Any) -> bool:
    """Whether there is a fit to go on from."""
    return isinstance(getattr(estimator, "engine_", None), Variational)


def is_stream(fit: Fit) -> bool:
    """Whether more than one piece has been taken in."""
    return isinstance(fit, VariationalFit) and "stream_n" in fit.params


def engine_of(fit: Fit) -> Variational:
    """The engine of a fit that can go on with another piece."""
    assert isinstance(fit.engine, Variational)
    return fit.engine


def stream_of(fit: Fit) -> Stream:
    """The stream that led to a fit: a plain fit is one of a single piece."""
    engine = engine_of(fit)
    return stream_from(engine, fit.model, fit.data, dict(fit.extra or {}), fit.mean_hyper())


def absorbed(fit: Fit, X: Any, total_samples: int | None) -> VariationalFit:
    """The fit after one piece more, whose rows are those of the piece."""
    stream, engine, model = stream_of(fit), engine_of(fit), fit.model
    data = Data.of(X)
    rng = np.random.default_rng(np.random.SeedSequence((fit.seed, stream.pieces)))
    piece = Block.of(data, engine.dtype)
    stream.absorb(rng, piece, total_samples, engine.forgetting, engine.delay)
    state = stream.state
    longest = max(fit.chains, key=lambda chain: chain.scalars[-1][1])
    chain = ChainTrace(list(longest.names), list(longest.scalars))
    params = engine.params(model, state) | stream.to_arrays()
    used = len(features_in_use(params))
    chain.record(Info(used, state.bound, dict(state.hyper), 0.0), engine.measure)
    chain.keep_population(engine.population(rng, model, data, state))
    return VariationalFit(model, data, engine, fit.seed, (chain,), 0, fit.starts, extra=params)


def probabilities(fit: Fit, X: Any) -> np.ndarray:
    """P(z_k = 1 | x) of new rows under the law of features and frequencies, those in use."""
    stream = stream_of(fit)
    rows = rows_given_globals(stream, Block.of(Data.of(X), engine_of(fit).dtype))
    return rows.nu[:, features_in_use(stream.to_arrays())]


def mean_bound(fit: Fit, X: Any) -> float:
    """The mean over new rows of a lower bound of log p(x), given the law of all else."""
    stream = stream_of(fit)
    block = Block.of(Data.of(X), engine_of(fit).dtype)
    rows = rows_given_globals(stream, block)
    return float(row_bounds(stream, block, rows).mean())


def row_bounds(stream: Stream, block: Block, rows: Rows) -> np.ndarray:
    """A lower bound of log p(x) for each new row, given the law of all else."""
    state = stream.state
    none = float(state.frequencies.log_off().sum())
    return state.backend.row_bounds(block, rows, state.globals(block), none)


def rows_given_globals(stream: Stream, block: Block) -> Rows:
    """The law of new rows given features and frequencies."""
    state = stream.state
    nu = np.tile(state.frequencies.mean()[: state.k], (block.n, 1))
    rows = fresh_rows(np.random.default_rng(0), nu, state.rows.slab)
    given = state.globals(block)
    for _ in range(ROUNDS):
        state.backend.local_step(block, rows, given)
    return rows
