"""Likelihoods: how features make data (one file a likelihood)."""

from thali.likelihoods.base import Collapsed, Conditional, GaussianRows, GibbsUpdates, RowUpdates
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.noisy_or import NoisyOr

__all__ = [
    "Collapsed",
    "Conditional",
    "GaussianRows",
    "GibbsUpdates",
    "LinearGaussian",
    "NoisyOr",
    "RowUpdates",
]
