r"""Annealing: the noise falls from a scale at which nothing is worth a feature to a start's own.

    σ_x(t) = hot (cold/hot)^{t/(T−1)},  t = 0 … T−1,  hot² = λ_max(XᵀX)/N,  cold the start's σ_x

At small noise, features born to rows that nothing explains yet are many and entangled, and no move
undoes them all. Under large noise only what many rows share is worth a feature; as the noise falls,
features come in the order of their size. These sweeps are no draws of the model, so they are none
of a chain's: they come before its first, nothing of them is recorded, and burn-in follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from thali.data import Data, sparse
from thali.model import Model
from thali.starts.base import Start

if TYPE_CHECKING:
    from thali.engines.base import AnyEngine


def melting_scale(data: Data) -> float:
    """The root mean square of the data along their main direction.

    >>> import numpy as np
    >>> round(melting_scale(Data(np.array([[3.0, 4.0], [3.0, 4.0]]))), 6)
    5.0
    """
    if data.sparse:
        return sparse.main_length(data.X) / float(np.sqrt(data.n))
    X = data.reduced
    gram = X.T @ X if X.shape[1] <= X.shape[0] else X @ X.T
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0) / data.n))


def anneal(
    rng: np.random.Generator,
    engine: AnyEngine,
    model: Model,
    data: Data,
    start: Start,
    stopped: Callable[[], bool],
) -> Start:
    """Where ``engine.anneal`` steps under falling noise lead from ``start``."""
    sweeps, cold = getattr(engine, "anneal", 0), model.likelihood_values(start.hyper)["sigma_x"]
    hot = max(melting_scale(data), cold)
    held = Start(start.name, start.latent, start.hyper, hold_sigma=sweeps)
    state = engine.begin(rng, model, data, held)
    for share in np.linspace(0.0, 1.0, sweeps):
        if stopped():
            break
        model.likelihood_values(state.hyper)["sigma_x"] = hot * (cold / hot) ** float(share)
        engine.step(rng, model, data, state)
    hyper = dict(state.hyper)
    model.likelihood_values(hyper)["sigma_x"] = cold
    return Start(start.name, state.latent, hyper, start.hold_sigma)
