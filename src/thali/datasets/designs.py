"""Draws from a model, and planted designs: z_nk ~ Bernoulli(p), A binary or Gaussian.

`noisy_nonnegative` is the synthetic design of Reed and Ghahramani (2013), section 5.
"""

import numpy as np

from thali.datasets.dataset import (
    Dataset,
    RandomState,
    check_counts,
    check_scales,
    check_shares,
    check_size,
    superpose,
)
from thali.likelihoods.base import Conditional
from thali.priors.base import FeaturePrior
from thali.settings import generator


def noisy_nonnegative(
    n: int = 500,
    d: int = 500,
    k: int = 20,
    p: float = 0.4,
    density: float = 0.3,
    sigma_x: float = 1.0,
    random_state: RandomState = 0,
) -> Dataset:
    """Binary features under unit noise, after Reed and Ghahramani (2013), section 5.

    z_nk ~ Bernoulli(p), a_kd ~ Bernoulli(density), x_nd ~ N((Z A)_nd, sigma_x²).
    The paper states p = 0.4 and unit noise, and leaves the density of its
    "random, potentially overlapping binary factors" open.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.noisy_nonnegative(n=40, d=30, k=5)
    >>> data.X.shape, data.Z.shape, sorted(set(data.A.ravel().tolist()))
    ((40, 30), (40, 5), [0.0, 1.0])
    """
    check_counts("noisy_nonnegative", n=n, d=d, k=k)
    check_size("noisy_nonnegative", n, d, k)
    check_shares("noisy_nonnegative", p=p, density=density)
    check_scales("noisy_nonnegative", sigma_x=sigma_x)
    rng = generator("noisy_nonnegative", random_state)
    Z = rng.random((n, k)) < p
    A = (rng.random((k, d)) < density).astype(np.float64)
    return superpose(rng, Z, A, sigma_x, f"noisy nonnegative {n}x{d}, K={k}")


def planted(
    n: int = 1000,
    d: int = 100,
    k: int = 4,
    sigma_x: float = 0.1,
    sigma_a: float = 1.0,
    p: float = 0.5,
    random_state: RandomState = 0,
) -> Dataset:
    """A stated number of Gaussian features: z_nk ~ Bernoulli(p), a_kd ~ N(0, sigma_a²).

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.planted(n=50, d=10, k=3)
    >>> data.X.shape, data.A.shape, data.sigma_x
    ((50, 10), (3, 10), 0.1)
    """
    check_counts("planted", n=n, d=d, k=k)
    check_size("planted", n, d, k)
    check_shares("planted", p=p)
    check_scales("planted", sigma_x=sigma_x, sigma_a=sigma_a)
    rng = generator("planted", random_state)
    Z = rng.random((n, k)) < p
    A = sigma_a * rng.normal(size=(k, d))
    return superpose(rng, Z, A, sigma_x, f"planted Gaussian {n}x{d}, K={k}")


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
    check_counts("draw", n=n, d=d)
    check_size("draw", n, d, 0)
    rng = generator("draw", random_state)
    Z = np.asarray(prior.sample(rng, n), dtype=np.bool_)
    A = likelihood.sample_features(rng, Z.shape[1], d)
    X = likelihood.sample(rng, Z, A)
    sigma_x = float(getattr(likelihood, "sigma_x", np.nan))  # not every likelihood has one
    name = f"draw from {type(prior).__name__} x {type(likelihood).__name__}"
    return Dataset(X, Z, A, sigma_x, None, name)
