r"""The density of a row given the others, its features integrated out, and j new ones of its own.

    x | z, j ~ N(zμ, σ_x²(V + j/r) I),   V = 1 + z M zᵀ,   r = σ_x²/σ_a²,   ρ = ‖x − zμ‖²

which rises in V up to V* = ρ/Dσ_x² and then falls: from j on it is at most what it is at the larger
of V + j/r and V*.
"""

from typing import NamedTuple

import numpy as np

from thali.kernels.compiling import helper, kernel
from thali.kernels.new_features import factor_of


class Scales(NamedTuple):
    """The likelihood's numbers: both scales, and how many entries a row has.

    D of the data may exceed the stored D' = min(N, D).
    """

    sigma_x: float
    sigma_a: float
    dimensions: float


class GaussianRow(NamedTuple):
    """The factor of new features under one V for the whole row."""

    rho: float
    V: float
    r: float
    half_d: float
    precision: float  # 1/2σ_x²
    best_V: float  # V*
    fall: float  # 0: the bound of the density does not fall with j


@kernel
def log_row_density(rho, V, half_d, precision):
    """log N(x; zμ, σ_x² V I) up to a constant: ρ = ‖x − zμ‖², precision = 1/2σ_x²."""
    return -half_d * np.log(V) - precision * rho / V


@helper
def gaussian_row(rho, V, r, scales):
    """The factor of a row with these ρ and V."""
    return gaussian_row_at(
        rho, V, r, 0.5 * scales.dimensions, 0.5 / (scales.sigma_x * scales.sigma_x)
    )


@helper
def gaussian_row_at(rho, V, r, half_d, precision):
    """The same from D/2 and 1/2σ_x²."""
    return GaussianRow(rho, V, r, half_d, precision, rho * precision / half_d, 0.0)


def density_with(factor, entries, j):
    """log N(x; zμ, σ_x²(V + j/r) I) up to a constant."""
    return log_row_density(factor.rho, factor.V + j / factor.r, factor.half_d, factor.precision)


def highest_with(factor, entries, j):
    """The largest of it over j and more new features, or a little more."""
    V = max(factor.V + j / factor.r, factor.best_V)
    return log_row_density(factor.rho, V, factor.half_d, factor.precision)


factor_of(GaussianRow, density_with, highest_with)
