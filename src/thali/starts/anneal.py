r"""Annealing: the data are let in by degrees, and a start that knows nothing of them is led along.

    σ_x(t) = hot (cold/hot)^{t/(T−1)},  t = 0 … T−1,  hot² = λ_max(XᵀX)/N,  cold the start's σ_x

is what Gaussian noise does meanwhile; other likelihoods have a way of their own
(``likelihoods/tempered.py``). At small noise, features born to rows that nothing explains yet are
many and entangled, and no move undoes them all. Under large noise only what many rows share is
worth a feature; as the noise falls, features come in the order of their size. Scales are held
meanwhile: drawn, they would follow the temperature. A step leaves the posterior at the numbers of
its time invariant. These steps are no draws of the model, so they are none of a chain's: they come
before its first, nothing of them is recorded, and burn-in follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Likelihood
from thali.likelihoods.tempered import Tempered
from thali.model import Model
from thali.starts.base import Start

if TYPE_CHECKING:
    from thali.engines.base import AnyEngine


def anneal(
    rng: np.random.Generator,
    engine: AnyEngine,
    model: Model,
    data: Data,
    start: Start,
    stopped: Callable[[], bool],
) -> Start:
    """Where ``engine.anneal`` steps lead from ``start`` while the likelihood cools."""
    steps = getattr(engine, "anneal", 0)
    likelihood, cold = model.likelihood, model.own_values("likelihood", start.hyper)
    tempered = as_tempered(likelihood, engine)
    numbers = tempered.cooling(data, cold)
    hyper = dict(start.hyper)
    model.likelihood_values(hyper).update(numbers(0.0))
    state = engine.begin(rng, model, data, Start(start.name, start.latent, hyper, steps))
    now = getattr(state, "all_hyper", state.hyper)
    for share in np.linspace(0.0, 1.0, steps):
        if stopped():
            break
        model.likelihood_values(now).update(numbers(float(share)))
        engine.step(rng, model, data, state)
    hyper = dict(now)
    model.likelihood_values(hyper).update(cold)
    kept = dict(getattr(state, "parameters", {}))  # of an engine that keeps them: they go along
    return Start(start.name, state.latent, hyper, start.hold_sigma, kept)


def as_tempered(likelihood: Likelihood, engine: AnyEngine) -> Tempered:
    """The likelihood, or a sentence if it cannot let data in by degrees."""
    if isinstance(likelihood, Tempered):
        return likelihood
    raise ValueError(
        f"{type(engine).__name__}: anneal={getattr(engine, 'anneal', 0)} lets data in by degrees, "
        f"which {type(likelihood).__name__} cannot do; leave it at 0."
    )
