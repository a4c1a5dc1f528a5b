r"""Clusters of rows of 0 and 1, the probabilities of their columns integrated out.

P(x_nd = 1 | cluster) = p_d,    p_d ~ Beta(a, b)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from thali.data import Data
from thali.hyperparameters import Gamma, Hyperprior, Values
from thali.likelihoods.category_clusters import CategoryClusters, Levels
from thali.likelihoods.clusters import ProfileWords
from thali.registry import LIKELIHOODS
from thali.settings import hyperparameter


@LIKELIHOODS.register("beta_bernoulli_items")
@dataclass(frozen=True)
class BetaBernoulliItems(CategoryClusters):
    """Clusters of yes/no columns: each has its own probability of a yes in every column.

    X must be of 0 and 1; missing entries are integrated out.

    Parameters
    ----------
    a : float or hyperprior, default Gamma(1, 1)
        The weight of ones: the smaller a and b, the purer clusters are.
    b : float or hyperprior, default Gamma(1, 1)
        The weight of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> lik = BetaBernoulliItems(a=1.0, b=1.0)
    >>> round(float(np.exp(lik.log_marginal(np.array([[1.0], [1.0]]), [0, 0]))), 6)  # ½ · ⅔
    0.333333
    """

    a: float | Hyperprior = hyperparameter(Gamma(1.0, 1.0), symbol="a", words="weight of ones")
    b: float | Hyperprior = hyperparameter(Gamma(1.0, 1.0), symbol="b", words="weight of zeros")

    profile_words = ProfileWords("probability of a one", False)

    def check_data(self, data: Data) -> None:
        data.binary  # noqa: B018 refuses all but 0 and 1

    def resolve(self, data: Data) -> Self:
        self.check_data(data)
        return self

    def levels_of(self, data: Data) -> Levels:
        return ((0.0, 1.0),) * data.d

    def codes_of(self, data: Data) -> np.ndarray:
        return np.where(data.seen, data.binary.astype(np.int64), -1)

    def weights_of(self, hyper: Values, levels: Levels) -> np.ndarray:
        return np.tile([float(hyper["b"]), float(hyper["a"])], len(levels))

    def profiles(self, data: Data, labels: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
        """The probability of a one in each cluster."""
        chances = np.stack([own[:, 1] for own in self.chances(data, labels)], axis=1)
        return pd.DataFrame(chances, columns=list(names))
