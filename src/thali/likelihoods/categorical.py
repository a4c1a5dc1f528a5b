r"""Clusters of rows of categories, the probabilities of their values integrated out.

P(x_nd = v | cluster) = θ_dv,    θ_d ~ Dirichlet(w, …, w)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np

from thali.data import Data
from thali.hyperparameters import Gamma, Hyperprior, Values
from thali.likelihoods.category_clusters import CategoryClusters, Levels
from thali.registry import LIKELIHOODS
from thali.settings import hyperparameter

MOST = 1000  # values of a column beyond which it is no column of categories
FEW = 10  # values that a column of categories may well have, however few rows there are


@LIKELIHOODS.register("categorical")
@dataclass(frozen=True)
class Categorical(CategoryClusters):
    """Clusters of columns that have a few values each, given as numbers without an order.

    Missing entries are integrated out.

    Parameters
    ----------
    concentration : float or hyperprior, default Gamma(1, 1)
        The weight of each value: the smaller, the purer clusters are.
    levels : "auto", or the values of each column
        Those that X has.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0], [2.0], [7.0]])
    >>> lik = Categorical(concentration=1.0, levels=((2.0, 5.0, 7.0),))
    >>> round(float(np.exp(lik.log_marginal(X, [0, 0, 1]))), 6)  # ⅓ · 2/4 · ⅓
    0.055556
    """

    concentration: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="w", words="weight of each value"
    )
    levels: str | Levels = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.levels, str):
            if self.levels != "auto":
                raise ValueError(
                    f"Categorical: levels must be 'auto' or the values of each column, not "
                    f"{self.levels!r}."
                )
            return
        try:
            given = tuple(tuple(sorted({float(v) for v in own})) for own in self.levels)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "Categorical: levels must be 'auto' or a sequence of numbers for each column."
            ) from error
        object.__setattr__(self, "levels", given)

    def check_data(self, data: Data) -> None:
        if not isinstance(self.levels, str):
            self.codes_of(data)

    def resolve(self, data: Data) -> Self:
        """The same with the values that each column has."""
        if self.levels == "auto":
            found = [np.unique(data.X[data.seen[:, d], d]) for d in range(data.d)]
            for d, values in enumerate(found):
                if len(values) > MOST:
                    raise ValueError(
                        f"Categorical: column {d} has {len(values)} different values; more than "
                        f"{MOST} are no categories. Use NormalGamma for numbers."
                    )
            warn_of_numbers(data, found)
            # a column of which nothing was seen has one value, whatever it is
            return self.replace(levels=tuple(tuple(v.tolist()) or (0.0,) for v in found))
        self.check_data(data)
        return self

    def levels_of(self, data: Data) -> Levels:
        if isinstance(self.levels, str):
            raise ValueError("Categorical: levels is 'auto'; call .resolve(data) first.")
        if len(self.levels) != data.d:
            raise ValueError(
                f"Categorical: levels are of {len(self.levels)} columns, but X has {data.d}."
            )
        return self.levels

    def codes_of(self, data: Data) -> np.ndarray:
        codes = np.full(data.X.shape, -1, np.int64)
        for d, own in enumerate(self.levels_of(data)):
            values, seen = np.array(own), data.seen[:, d]
            at = np.searchsorted(values, data.zeroed[seen, d])
            known = values[np.minimum(at, len(values) - 1)] == data.zeroed[seen, d]
            if not known.all():
                row = int(np.flatnonzero(seen)[np.argmin(known)])
                raise ValueError(
                    f"X has {data.X[row, d]:g} at row {row}, column {d}, which is not among the "
                    f"values {', '.join(f'{v:g}' for v in own[:12])} of that column."
                )
            codes[seen, d] = at
        return codes

    def weights_of(self, hyper: Values, levels: Levels) -> np.ndarray:
        return np.full(sum(len(own) for own in levels), float(hyper["concentration"]))


def warn_of_numbers(data: Data, levels: list[np.ndarray]) -> None:
    """Say so where columns look like measurements: fractions, most of which occur once."""
    told = [
        d
        for d, values in enumerate(levels)
        if len(values) > max(FEW, 0.5 * data.seen[:, d].sum()) and (values % 1.0 != 0.0).any()
    ]
    if told:
        warnings.warn(
            f"Categorical: of column {told[0]} ({len(told)} such in all) most values occur once "
            "and some are fractions: these look like measurements, not categories, and nothing "
            "that rows share is left of them. Use NormalGamma, or group the values first.",
            UserWarning,
            stacklevel=2,
        )
