"""Data that arrive in pieces: a variational fit takes in one after the other and keeps none.

What a fit then says of rows is of the last piece; features, frequencies and hyperparameters are of
all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.backends.rows import Observed, Rows, local_step, row_bounds
from thali.data import Data
from thali.engines import Variational
from thali.engines.ascent.stream import Stream, fresh_rows
from thali.engines.base import Info
from thali.engines.variational import observe, stream_from
from thali.machine import cores
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
    data = Data.validate(X)
    rng = np.random.default_rng(np.random.SeedSequence((fit.seed, stream.pieces)))
    stream.absorb(
        rng,
        observe(data, engine.dtype),
        total_samples,
        engine.forgetting,
        engine.delay,
        cores(),
    )
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
    rows = rows_given_globals(stream, observe(Data.validate(X), engine_of(fit).dtype))
    return rows.nu[:, features_in_use(stream.to_arrays())]


def mean_bound(fit: Fit, X: Any) -> float:
    """The mean over new rows of a lower bound of log p(x), given the law of all else."""
    stream = stream_of(fit)
    state, data = stream.state, observe(Data.validate(X), engine_of(fit).dtype)
    rows = rows_given_globals(stream, data)
    each = row_bounds(data, rows, state.features, state.frequencies, state.hyper["sigma_x"])
    return float(each.mean())


def rows_given_globals(stream: Stream, data: Observed) -> Rows:
    """The law of new rows given features and frequencies."""
    state = stream.state
    nu = np.tile(state.frequencies.mean()[: state.k], (data.n, 1))
    rows = fresh_rows(np.random.default_rng(0), nu, state.rows.slab)
    odds = state.frequencies.log_odds()[: state.k]
    for _ in range(ROUNDS):
        local_step(data, rows, state.features, odds, state.hyper["sigma_x"], cores())
    return rows
