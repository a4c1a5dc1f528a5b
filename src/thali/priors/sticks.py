r"""Frequencies of the features that no row has, under the buffet processes.

The frequencies of IBP(α, β) are the points of a Poisson process of intensity αβ π⁻¹(1−π)^{β−1}
(Thibaux and Jordan 2007). Those that none of n rows has are an independent Poisson process, its
intensity thinned by (1−π)^n; only finitely many lie above any s > 0 (Teh, Görür and Ghahramani
2007 break them as sticks instead, for β = 1).
"""

from __future__ import annotations

import numpy as np


def unused_sticks(
    rng: np.random.Generator, n: int, mass: float, beta: float, above: float
) -> np.ndarray:
    """The points above s of intensity mass·π⁻¹(1−π)^{n+β−1}, in random order.

    Points of mass/π on (s, 1) are s^u, u uniform; each is kept with probability (1−π)^{n+β−1},
    which is one since n ≥ 1.
    """
    pi = above ** rng.random(rng.poisson(mass * -np.log(above)))
    return pi[np.log(1.0 - rng.random(len(pi))) < (n + beta - 1.0) * np.log1p(-pi)]
