"""Draws from a model: Z ~ prior, A ~ likelihood's features, X | Z, A ~ likelihood."""

from __future__ import annotations

import numpy as np

from thali.datasets.dataset import Dataset, RandomState
from thali.likelihoods.base import Conditional
from thali.priors.base import FeaturePrior


def draw(
    prior: FeaturePrior,
    likelihood: Conditional,
    n: int = 100,
    d: int = 36,
    random_state: RandomState = 0,
) -> Dataset:
    """Draw Z, A and X from any prior × likelihood.

    Parameters
    ----------
    prior : IBP, TwoParameterIBP, BetaBernoulli, …
        Distribution of Z. A hyperparameter that has a prior is drawn from it first.
    likelihood : LinearGaussian, …
        Distribution of A, and of X given Z and A. Its hyperparameters must be numbers:
        `LinearGaussian(sigma_x=0.5, sigma_a=1.0)`.
    n, d : int
        Rows and columns of X.
    random_state : int, Generator or None
        Seed.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.draw(
    ...     thali.IBP(alpha=2.0), thali.LinearGaussian(sigma_x=0.5, sigma_a=1.0), n=20, d=8)
    >>> data.X.shape, data.sigma_x, data.Z.shape[1] == data.A.shape[0]
    ((20, 8), 0.5, True)
    """
    rng = np.random.default_rng(random_state)
    Z = np.asarray(prior.sample(rng, n), dtype=np.bool_)
    A = likelihood.sample_features(rng, Z.shape[1], d)
    X = likelihood.sample(rng, Z, A)
    sigma_x = float(getattr(likelihood, "sigma_x", np.nan))  # not every likelihood has one
    name = f"draw from {type(prior).__name__} x {type(likelihood).__name__}"
    return Dataset(X, Z, A, sigma_x, None, name)
