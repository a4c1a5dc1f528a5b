"""The empty start: no feature at all, and the noise scale held while the first are born."""

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import noise_scale

HOLD = 10  # sweeps before σ is sampled: with no features yet, noise would explain everything


@start("empty", blind=True)
def empty_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """No features; σ_x from the bulk of the singular values."""
    hyper = model.start(data)
    return Start("empty", model.structure.empty(data.n), noise_scale(model, data, hyper), HOLD)
