"""The prior start: Z drawn from its prior."""

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import noise_scale

HOLD = 10  # sweeps before σ is sampled: a wrong Z explains nothing, and noise would inflate


@start("prior", entries=2, blind=True)
def prior_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z from the prior at the hyperparameters' first values."""
    hyper = model.start(data)
    Z = model.at(hyper).prior.sample(rng, data.n)
    return Start("prior", Z, noise_scale(model, data, hyper), HOLD)
