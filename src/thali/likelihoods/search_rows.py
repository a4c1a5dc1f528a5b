"""What a likelihood can do for a search that builds Z row by row (beam search)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from thali.likelihoods.base import Conditional, FeatureLikelihood, Scale


class SearchRows(FeatureLikelihood):
    """A search can build Z row by row (beam search): a promise that there are ``Collapsed`` and
    ``GaussianRows``, A being integrated out, or ``CountedFeatures`` or ``PositiveFeatures``, A
    being at its best, or ``SlabAmounts``, S being so."""


class CountProbabilities(NamedTuple):
    """log P(x | c) by c and x (K + 1, 2), and log P(y) of an active and of an idle feature."""

    table: np.ndarray
    on: float
    off: float


class CountedFeatures(Conditional, SearchRows):
    """X and the one parameter "A" (K×D) are of 0 and 1, the entries of A independent and alike, and
    P(x_nd = 1 | z_n, a_d) depends on the number z_n·a_d alone, with which it rises.

    ``of_features`` names the hyperparameters of which data without features say nothing.
    """

    of_features: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def count_probabilities(self, most: int) -> CountProbabilities:
        """Of entries with up to ``most`` active features, hyperparameters being numbers."""


HALF_NORMAL, EXPONENTIAL = "half_normal", "exponential"


class PositiveFeatures(Conditional, SearchRows):
    """X = Z A + E with the one parameter "A" (K×D) of half-normal or exponential entries (``law``)
    of root mean square ``sigma_a``, and Gaussian noise of scale ``sigma_x``."""

    sigma_x: Scale
    sigma_a: Scale
    law: str


class SlabAmounts(SearchRows):
    """X = (Z ⊙ S) A + E with amounts S of a ``slab`` of unit scale, "laplace" or "gaussian", normal
    A of scale ``sigma_a`` and noise of scale ``sigma_x``; parameters "A" and "S"."""

    slab: str
    sigma_x: Scale
    sigma_a: Scale

    @abstractmethod
    def log_slab(self, s: np.ndarray) -> float:
        """Σ log p(s)."""
