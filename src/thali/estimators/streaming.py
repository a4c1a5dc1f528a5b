"""Data that arrive in pieces: ``partial_fit``, for engines that keep a law and no draws.

The part of ``LatentFeatures`` that takes in one piece after the other and keeps none of them. What
it says of rows (``Z_``, ``draws()``) is of the last piece; features, frequencies and
hyperparameters are of all.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from thali.backends.rows import Observed, Rows, local_step, row_bounds
from thali.data import Data
from thali.engines import Variational
from thali.engines.ascent.stream import Stream, fresh_rows
from thali.engines.base import Info
from thali.engines.variational import observe, stream_from
from thali.machine import cores
from thali.model import Model
from thali.results.point_estimate import features_in_use
from thali.results.trace import ChainTrace, Trace
from thali.run.choices import choose_engine
from thali.settings import whole_number

ROUNDS = 20  # of local steps for new rows


def is_variational(estimator: Any) -> bool:
    """Whether its engine does; else no ``partial_fit``, and a sentence that says why."""
    if isinstance(choose_engine(estimator.engine), Variational):
        return True
    raise AttributeError(
        "partial_fit needs an engine that keeps a law in place of draws: engine='variational' or "
        "thali.Variational(...)."
    )


class Streaming:
    """For an estimator whose ``fit`` makes the first piece's law."""

    @available_if(is_variational)
    def partial_fit(self, X: Any, y: Any = None, *, total_samples: int | None = None) -> Self:
        """Take in one piece of the data; the first is fitted by itself, and finds the features.

        A model that was fitted, or loaded, goes on from there. ``total_samples`` is how many rows
        there will be in all: pieces then count less the earlier they came (``forgetting`` and
        ``delay`` of the engine). Without it all rows count alike.

        >>> import thali
        >>> X = thali.datasets.images(n=300, random_state=0).X
        >>> model = thali.LatentFeatures(engine=thali.Variational(truncation=8), random_state=0)
        >>> for piece in (X[:100], X[100:200], X[200:]):
        ...     model = model.partial_fit(piece)
        >>> model.components_.shape == (model.n_components_, 36), model.n_rows_seen_
        (True, 300)
        """
        me: Any = self
        if total_samples is not None:
            total_samples = whole_number("partial_fit", "total_samples", total_samples, 1)
        if not isinstance(getattr(me, "engine_", None), Variational):
            return me.fit(X)  # type: ignore[no-any-return]
        with me._undo_on_failure():
            return self._take_in(X, total_samples)

    def _take_in(self, X: Any, total_samples: int | None) -> Self:
        """Absorb a piece into the law so far, and settle on what it then says."""
        me: Any = self
        stream: Stream = me._stream()
        data = Data.of(me._centerd(X))
        engine = me.engine_
        rng = np.random.default_rng(np.random.SeedSequence((me.seed_, stream.pieces)))
        stream.absorb(
            rng,
            observe(data, engine.dtype),
            total_samples,
            engine.forgetting,
            engine.delay,
            cores(),
        )
        trace = trace_of_piece(engine, me._model, data, stream, rng, me._trace)
        seed, mean = me.seed_, me.mean_
        me._forget()
        me.seed_, me.mean_, me.row_names_ = seed, mean, None
        return me._settle(data, me._model, engine, trace)  # type: ignore[no-any-return]

    def _stream(self) -> Stream:
        """The stream that led here: a fit is one of a single piece."""
        me: Any = self
        return stream_from(me.engine_, me._model, me._data, me._trace.law, me._hyper)

    def _is_stream(self) -> bool:
        return "stream_n" in self._trace.law  # type: ignore[attr-defined]


def trace_of_piece(
    engine: Variational,
    model: Model,
    data: Data,
    stream: Stream,
    rng: np.random.Generator,
    before: Trace,
) -> Trace:
    """The record so far with one step more, and draws of the law at this piece."""
    state = stream.state
    longest = max(before.chains, key=lambda chain: chain.scalars[-1][1])
    chain = ChainTrace(list(longest.names), list(longest.scalars))
    law = engine.law(model, state) | stream.to_arrays()
    used = len(features_in_use(law))
    chain.record(Info(used, state.bound, dict(state.hyper), 0.0), engine.measure)
    chain.keep_population(engine.population(rng, model, data, state))
    return Trace(data.n, [chain], 0, "variational", before.starts, law=law)


def probabilities(stream: Stream, X: Any, dtype: str) -> np.ndarray:
    """P(z_k = 1 | x) of new rows under the law of features and frequencies, those in use."""
    rows = rows_given_globals(stream, observe(Data.of(X), dtype))
    return rows.nu[:, features_in_use(stream.to_arrays())]


def mean_bound(stream: Stream, X: Any, dtype: str) -> float:
    """The mean over new rows of a lower bound of log p(x), given the law of all else."""
    state, data = stream.state, observe(Data.of(X), dtype)
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
