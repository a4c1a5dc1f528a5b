"""thali: Bayesian nonparametric latent features.

An unknown number of overlapping binary features, found in a data matrix, and how sure we are.
"""

from thali import datasets, evaluation
from thali.engines import (
    BeamSearch,
    CollapsedGibbs,
    MaximizationExpectation,
    ParticleFilter,
    UncollapsedGibbs,
    Variational,
)
from thali.estimators.latent_features import LatentFeatures
from thali.estimators.saving import load
from thali.hyperparameters import Beta, Gamma, InverseGamma
from thali.likelihoods import LinearGaussian, NoisyOr, NonnegativeLinearGaussian, SparseFactor
from thali.priors import IBP, BetaBernoulli, TwoParameterIBP

__version__ = "0.1.0"

__all__ = [
    "IBP",
    "BeamSearch",
    "Beta",
    "BetaBernoulli",
    "CollapsedGibbs",
    "Gamma",
    "InverseGamma",
    "LatentFeatures",
    "LinearGaussian",
    "MaximizationExpectation",
    "NoisyOr",
    "NonnegativeLinearGaussian",
    "ParticleFilter",
    "SparseFactor",
    "TwoParameterIBP",
    "UncollapsedGibbs",
    "Variational",
    "datasets",
    "evaluation",
    "load",
]
