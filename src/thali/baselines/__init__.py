"""Other people's factorizations, to compare with (one file each)."""

from thali.baselines.bayesian_nmf import BayesianNMF

__all__ = ["BayesianNMF"]
