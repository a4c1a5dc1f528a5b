"""The start of counts: that of Gaussian data, columns scaled so that their noise is about alike."""

import numpy as np

from thali.data import Data
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import ica_start


@start("count_ica", entries=2)
def count_ica_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z by independent component analysis of (x_d − b_d)/√μ_d, μ_d the mean of column d: Poisson
    counts have about that variance, and rates still add up. b_d, what all rows have, is taken to be
    the mean of the lowest quarter."""
    mean = np.maximum(data.X.mean(axis=0), 1.0 / data.n)
    lowest = np.sort(data.X, axis=0)[: max(1, data.n // 4)].mean(axis=0)
    scaled = Data(np.ascontiguousarray((data.X - lowest) / np.sqrt(mean)))
    gaussian = Model(model.prior, LinearGaussian()).resolve(scaled)
    found = ica_start(rng, gaussian, scaled)
    return Start("count_ica", found.latent, model.start(data))
