"""Tables whose columns are of different kinds, of rows that have a feature or not: W = Z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from thali.likelihoods.base import Parameters, Words
from thali.likelihoods.gibbs_updates import GibbsState, LatentBits
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.table import TableLikelihood
from thali.registry import LIKELIHOODS


@LIKELIHOODS.register("mixed")
@dataclass(frozen=True)
class MixedColumns(TableLikelihood, LatentBits):
    """Columns of any kind: numbers, positive numbers, counts, yes or no, ordered levels, levels.

    Parameters
    ----------
    types : "auto" or a mapping, default "auto"
        The kind of each column: "real", "positive", "count", "binary", "ordinal", "categorical" or
        "censored", by the column's name or number; those that are not named are found from the
        data. ``{"stage": {"kind": "ordinal", "levels": ["I", "II", "III"]}}`` gives levels,
        ``{"score": {"kind": "censored", "high": 100}}`` bounds.
    sigma_a : float, hyperprior or "auto", default "auto"
        The size of the features' effects, in units of the noise of each column.
    bias : bool, default True
        Whether every column has a level that all rows share.

    Notes
    -----
    ``components_`` are effects on latents in units of the noise. The log joint is log P(X, A, [Z])
    of what was observed, given noise, bias and cutpoints.

    Examples
    --------
    >>> import numpy as np, thali
    >>> rng = np.random.default_rng(0)
    >>> has = rng.random(60) < 0.5
    >>> X = np.column_stack([has + 0.1 * rng.standard_normal(60), has])
    >>> engine = thali.CollapsedGibbs(sweeps=40, chains=1)
    >>> model = thali.LatentFeatures(likelihood="mixed", engine=engine, random_state=0).fit(X)
    >>> [column.kind for column in model.likelihood_.layout.columns]
    ['real', 'binary']
    """

    axes: ClassVar[dict[str, int]] = {"A": 0}
    starts: ClassVar[tuple[str, ...]] = ("latent_ica", "empty", "prior")
    initial_updates: ClassVar[int] = 10
    words: ClassVar[Words] = Words(
        "Each feature raises or lowers what lies behind the columns, in every row that has it; "
        "most frequent first.",
        "A row has a latent number for each column (one for each level of a categorical one), the "
        "sum of a bias, the features A that it has (Z says which: 1 or 0) and noise; the table "
        "shows the number, its exponential, whether it is positive, in which range it is or which "
        "is the largest.",
    )

    @property
    def inner(self) -> LinearGaussian:
        return LinearGaussian(sigma_x=1.0, sigma_a=self.sigma_a)

    def weigh(self, Z: ArrayLike, parameters: Parameters) -> np.ndarray:
        return np.asarray(Z, float)

    def update_amounts(self, rng: np.random.Generator, state: GibbsState) -> Parameters:
        return {}

    def log_amounts(self, Z: np.ndarray, parameters: Parameters) -> float:
        return 0.0
