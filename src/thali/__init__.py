"""thali: Bayesian nonparametric latent structure.

An unknown number of overlapping binary features, or of clusters, found in a data matrix, and how
sure we are.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from thali import engines
from thali.data.elsewhere import RowBlocks
from thali.estimators.latent_features import LatentFeatures
from thali.estimators.latent_partition import LatentPartition
from thali.estimators.saving import load
from thali.estimators.topic_model import TopicModel
from thali.hyperparameters import Beta, Gamma, InverseGamma, Normal
from thali.likelihoods import (
    BetaBernoulliItems,
    Categorical,
    DirichletMultinomial,
    LinearGaussian,
    MixedColumns,
    MixedFactors,
    NoisyOr,
    NonnegativeLinearGaussian,
    NormalGamma,
    NormalWishart,
    Poisson,
    Probit,
    SparseFactor,
    TopicWords,
)
from thali.priors import (
    IBP,
    BetaBernoulli,
    DirichletProcess,
    FlexibleIBP,
    FlexiblePartition,
    HierarchicalDirichletProcess,
    HierarchicalFlexible,
    LearnedIBP,
    LearnedPartition,
    PitmanYor,
    SmoothIBP,
    SmoothPartition,
    TruncatedIBP,
    TwoParameterIBP,
)
from thali.results.discrete import DiscreteData
from thali.results.findings import (
    BurnInCutShort,
    DegenerateFit,
    NoiseCollapsed,
    SingleColumnFeatures,
    TiledFactor,
    TooFewDraws,
    TooManyFeatures,
)

__version__ = "0.1.0"

__all__ = [
    "IBP",
    "BeamSearch",
    "Beta",
    "BetaBernoulli",
    "BetaBernoulliItems",
    "BurnInCutShort",
    "Categorical",
    "CollapsedGibbs",
    "DegenerateFit",
    "DirectAssignment",
    "DirichletMultinomial",
    "DirichletProcess",
    "DiscreteData",
    "FlexibleIBP",
    "FlexiblePartition",
    "Franchise",
    "Gamma",
    "HierarchicalDirichletProcess",
    "HierarchicalFlexible",
    "InverseGamma",
    "LatentFeatures",
    "LatentPartition",
    "LearnedIBP",
    "LearnedPartition",
    "LinearGaussian",
    "MaximizationExpectation",
    "Metropolis",
    "MixedColumns",
    "MixedFactors",
    "NoiseCollapsed",
    "NoisyOr",
    "NonnegativeLinearGaussian",
    "Normal",
    "NormalGamma",
    "NormalWishart",
    "ParticleFilter",
    "PitmanYor",
    "Poisson",
    "Probit",
    "RowBlocks",
    "SingleColumnFeatures",
    "SmoothIBP",
    "SmoothPartition",
    "SparseFactor",
    "TiledFactor",
    "TooFewDraws",
    "TooManyFeatures",
    "TopicModel",
    "TopicWords",
    "TruncatedIBP",
    "TwoParameterIBP",
    "UncollapsedGibbs",
    "Variational",
    "datasets",
    "evaluation",
    "load",
]

# engines, and what not every user needs, are imported when they are first asked for
if TYPE_CHECKING:
    from thali import datasets, evaluation
    from thali.engines import (
        BeamSearch,
        CollapsedGibbs,
        DirectAssignment,
        Franchise,
        MaximizationExpectation,
        Metropolis,
        ParticleFilter,
        UncollapsedGibbs,
        Variational,
    )
else:

    def __getattr__(name):
        if name in engines.__all__:
            return getattr(engines, name)
        if name in ("datasets", "evaluation"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
