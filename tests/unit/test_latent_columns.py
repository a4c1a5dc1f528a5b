"""How probable it is that one of several latents is the largest, held to quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.special import log_ndtr

from thali.kernels.latent_columns import NODES, chance_of_level, level_chances, log_levels


def by_quadrature(mean):
    """∫ N(u; mean_r, 1) Π_{j≠r} Φ(u − mean_j) du, for every r."""

    def inside(u):
        below = log_ndtr(u - mean)
        return np.exp(below.sum() - below - 0.5 * (u - mean) ** 2) / np.sqrt(2.0 * np.pi)

    ends = mean.min() - 40.0, mean.max() + 40.0
    return quad_vec(inside, *ends, epsabs=1e-13, limit=2000)[0]


@pytest.mark.parametrize("n_levels", [1, 2, 3, 20, 150])
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 7.0])
def test_chances_of_all_levels_and_of_one_are_right(n_levels, spread, rng):
    mean = 5.0 + spread * rng.standard_normal((4, n_levels))
    found = np.empty(mean.shape)
    level_chances(mean, found)
    exact = np.array([by_quadrature(row) for row in mean])
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=1e-9)
    one = [chance_of_level(row, n_levels - 1, np.empty(NODES)) for row in mean]
    np.testing.assert_allclose(one, exact[:, -1], rtol=1e-6, atol=1e-14)


def test_a_level_that_cannot_be_has_next_to_no_chance():
    found = np.empty((2, 3))
    level_chances(np.array([[0.0, 300.0, 1e9], [-1e9, 1e9, 1e9]]), found)
    np.testing.assert_allclose(found, [[0.0, 0.0, 1.0], [0.0, 0.5, 0.5]], atol=1e-10)
    assert (found > 0.0).all()


def test_logarithms_are_of_levels_that_are_known(rng):
    mean = rng.standard_normal((5, 4))
    exact = np.array([by_quadrature(row[1:]) for row in mean])
    level = np.array([0, 2, -1, 1, -1])
    told = log_levels(mean, level, 1, 4)
    assert told == pytest.approx(np.log([exact[0, 0], exact[1, 2], exact[3, 1]]).sum(), rel=1e-9)
