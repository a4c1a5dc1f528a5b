"""The doors for people, by scikit-learn's conventions."""

from thali.estimators.latent_features import LatentFeatures
from thali.estimators.saving import load

__all__ = ["LatentFeatures", "load"]
