"""A data set and the truth behind it: X = Z A + E, E_nd ~ N(0, sigma_x²)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RandomState = int | np.random.Generator | None


class Dataset(NamedTuple):
    """Data with the Z and A that made them.

    Attributes
    ----------
    X : array of shape (N, D)
        The observations.
    Z : bool array of shape (N, K)
        Which row has which feature.
    A : array of shape (K, D)
        The features.
    sigma_x : float
        Standard deviation of the noise.
    image_shape : tuple of int or None
        Height and width when a row is a picture.
    name : str
        What these data are.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.images(n=5)
    >>> data.X.shape, data.Z.shape, data.A.shape
    ((5, 36), (5, 4), (4, 36))
    >>> round(data.sigma_a, 2)
    0.41
    """

    X: NDArray[np.float64]
    Z: NDArray[np.bool_]
    A: NDArray[np.float64]
    sigma_x: float
    image_shape: tuple[int, int] | None
    name: str

    @property
    def sigma_a(self) -> float:
        """Root mean square of A: the feature scale at which N(0, sigma_a²) fits A best."""
        return float(np.sqrt(np.mean(self.A**2))) if self.A.size else 0.0


def superpose(
    rng: np.random.Generator,
    Z: NDArray[np.bool_],
    A: NDArray[np.float64],
    sigma_x: float,
    name: str,
    image_shape: tuple[int, int] | None = None,
) -> Dataset:
    """Add the features of each row and the noise: X = Z A + sigma_x * N(0, 1)."""
    noise = rng.normal(size=(Z.shape[0], A.shape[1]))
    X = Z.astype(np.float64) @ A + sigma_x * noise
    return Dataset(X, Z, A, float(sigma_x), image_shape, name)
