"""Logarithms by plain arithmetic, against those of the C library."""

import numpy as np

from thali.kernels.logarithms import quick_log


def test_logarithms_are_those_of_the_library(rng):
    x = np.concatenate(
        [
            np.exp(rng.uniform(-700.0, 700.0, 2000)),
            1.0 + np.exp(rng.uniform(-36.0, 1.0, 2000)),
            1.0 - np.exp(rng.uniform(-36.0, -0.1, 2000)),
            np.sqrt(2.0) * 2.0 ** np.arange(-5.0, 6.0),
            2.0 ** np.arange(-5.0, 6.0),
        ]
    )
    found = np.array([quick_log(one) for one in x])
    # a unit in the last place of log x, and of its largest part where two parts nearly cancel
    assert np.abs(found - np.log(x)).max() < 1e-15 * 700.0
    near = np.abs(x - 1.0) < 0.25
    assert np.allclose(found[near], np.log(x[near]), rtol=1e-15, atol=0.0)
