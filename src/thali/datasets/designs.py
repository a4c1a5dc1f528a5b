"""Planted designs that are not draws from the model: z_nk ~ Bernoulli(p), A binary or Gaussian.

`noisy_nonnegative` is the synthetic design of Reed and Ghahramani (2013), section 5.
"""

from __future__ import annotations

import numpy as np

from thali.datasets.dataset import Dataset, RandomState, superpose


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
    rng = np.random.default_rng(random_state)
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
    rng = np.random.default_rng(random_state)
    Z = rng.random((n, k)) < p
    A = sigma_a * rng.normal(size=(k, d))
    return superpose(rng, Z, A, sigma_x, f"planted Gaussian {n}x{d}, K={k}")
