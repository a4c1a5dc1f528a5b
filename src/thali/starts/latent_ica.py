"""The start of latent Gaussians: that of Gaussian data, from a first guess of the latents."""

import numpy as np

from thali.data import Data
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.sparse_factor import SparseFactor
from thali.model import Model
from thali.starts.base import Start, start
from thali.starts.ica import ica_start
from thali.starts.sparse_ica import sparse_ica_start


@start("latent_ica")
def latent_ica_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z by independent component analysis of the guess, as if it had been observed."""
    gaussian = Model(model.prior, LinearGaussian()).resolve(data)
    found = ica_start(rng, gaussian, data)
    return Start("latent_ica", found.latent, model.start(data))


@start("latent_sparse_ica")
def latent_sparse_ica_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z, S and A of the guess, by what stands out of its independent components."""
    gaussian = Model(model.prior, SparseFactor()).resolve(data)
    found = sparse_ica_start(rng, gaussian, data)
    return Start("latent_sparse_ica", found.latent, model.start(data), parameters=found.parameters)
