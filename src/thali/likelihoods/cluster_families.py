r"""Clusters as exponential families: rows enter by a few features, of which sums suffice.

    log p(x | θ_k) = φ(x)·η(θ_k),      S_k = Σ_n r_nk φ(x_n),      φ_0(x) = 1

for weights r_nk of rows. Given S_k the distribution of θ_k is conjugate and known, and with it

    log_evidence   log ∫ exp(S_k·η(θ)) p(θ) dθ      what the bound has of a cluster, but for H[q]
    weights        W_k = E[η(θ_k)], so that E[log p(x | θ_k)] = φ(x)·W_k
    log_predictive log ∫ p(x | θ) p(θ | S_k) dθ     of new rows

Densities of a block of n rows are one product, W φ, and sums another, r φᵀ: 4nKP operations for P
features. Features lie along the first axis, so that all that is done to rows runs along memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from thali.data import Data

Numbers = Mapping[str, Any]  # the likelihood's own hyperparameters


class Family(ABC):
    """What a likelihood of clusters is in these terms, for data of so many columns."""

    @abstractmethod
    def features(self, data: Data) -> np.ndarray:
        """φ of each row, (P, n), the first of them one."""

    @abstractmethod
    def log_evidence(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        """Of each cluster, (K,); S is (K, P)."""

    @abstractmethod
    def weights(self, S: np.ndarray, at: Numbers) -> np.ndarray:
        """E[η(θ_k)] given the sums, (K, P)."""

    @abstractmethod
    def log_predictive(self, S: np.ndarray, at: Numbers, data: Data) -> np.ndarray:
        """log p(x | S_k) of each row in each cluster, (K, n)."""

    @abstractmethod
    def arrays(self, S: np.ndarray, at: Numbers) -> dict[str, np.ndarray]:
        """The parameters of q(θ_k), by their names, clusters along the first axis."""
