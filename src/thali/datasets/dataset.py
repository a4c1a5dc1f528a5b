"""A data set and the truth behind it: X = Z A + E, E_nd ~ N(0, sigma_x²)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thali.machine import physical_memory
from thali.settings import number_from_zero, positive_number, whole_number

RandomState = int | np.random.Generator | None
LARGEST = 1e100  # of a scale, as of the data that a fit takes


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


def check_counts(maker: str, **counts: int) -> None:
    """Refuse numbers of rows, columns or features that are none."""
    for name, value in counts.items():
        whole_number(maker, name, value, 1)


def check_size(maker: str, n: int, d: int, k: int) -> None:
    """Refuse data of n rows, d columns and k features that memory does not hold."""
    n, d, k = int(n), int(d), int(k)  # NumPy's numbers overflow
    needed = 8 * (n * (2 * d + k) + k * d)
    if needed > physical_memory():
        raise MemoryError(
            f"{maker}: {n:,} rows, {d:,} columns and {k:,} features need {needed / 2**30:,.0f} GB "
            f"of memory, more than the {physical_memory() / 2**30:,.0f} GB here; use fewer."
        )


def check_scales(maker: str, **scales: float) -> None:
    """Refuse standard deviations that are none; zero is one, of data without noise."""
    for name, value in scales.items():
        number_from_zero(maker, name, value, LARGEST)


def check_shares(maker: str, **shares: float) -> None:
    """Refuse probabilities that are none, and zero, of which nothing would come."""
    for name, value in shares.items():
        if positive_number(maker, name, value) > 1.0:
            raise ValueError(f"{maker}: {name} is a probability: at most 1, not {value!r}.")


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
