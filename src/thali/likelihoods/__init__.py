"""Likelihoods: how features make data (one file a likelihood)."""

from thali.likelihoods.base import Collapsed, Conditional, GaussianRows, Masked
from thali.likelihoods.beta_bernoulli_items import BetaBernoulliItems
from thali.likelihoods.categorical import Categorical
from thali.likelihoods.dirichlet_multinomial import DirichletMultinomial
from thali.likelihoods.gibbs_updates import EstimatesEvidence, GibbsUpdates
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.mixed_columns import MixedColumns
from thali.likelihoods.mixed_factors import MixedFactors
from thali.likelihoods.noisy_or import NoisyOr
from thali.likelihoods.nonnegative_linear_gaussian import NonnegativeLinearGaussian
from thali.likelihoods.normal_gamma import NormalGamma
from thali.likelihoods.normal_wishart import NormalWishart
from thali.likelihoods.poisson import Poisson
from thali.likelihoods.probit import Probit
from thali.likelihoods.search_rows import CountedFeatures, PositiveFeatures, SearchRows, SlabAmounts
from thali.likelihoods.sparse_factor import SparseFactor
from thali.likelihoods.topic_words import TopicWords
from thali.registry import import_family

import_family(__name__, __path__)

__all__ = [
    "BetaBernoulliItems",
    "Categorical",
    "Collapsed",
    "Conditional",
    "CountedFeatures",
    "DirichletMultinomial",
    "EstimatesEvidence",
    "GaussianRows",
    "GibbsUpdates",
    "LinearGaussian",
    "Masked",
    "MixedColumns",
    "MixedFactors",
    "NoisyOr",
    "NonnegativeLinearGaussian",
    "NormalGamma",
    "NormalWishart",
    "Poisson",
    "PositiveFeatures",
    "Probit",
    "SearchRows",
    "SlabAmounts",
    "SparseFactor",
    "TopicWords",
]
