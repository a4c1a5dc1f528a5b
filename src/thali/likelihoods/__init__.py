"""Likelihoods: how features make data (one file a likelihood)."""

from thali.likelihoods.base import Collapsed, Conditional, RowUpdates
from thali.likelihoods.linear_gaussian import LinearGaussian

__all__ = ["Collapsed", "Conditional", "LinearGaussian", "RowUpdates"]
