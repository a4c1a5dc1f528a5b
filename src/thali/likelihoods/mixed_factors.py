"""Tables whose columns are of different kinds, of rows that have features in amounts: W = Z ⊙ S."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from thali.likelihoods.base import Parameters, Words
from thali.likelihoods.gibbs_updates import GibbsState
from thali.likelihoods.sparse_factor import SLABS, SparseFactor
from thali.likelihoods.table import TableLikelihood
from thali.registry import LIKELIHOODS
from thali.settings import check_settings, setting


@LIKELIHOODS.register("mixed_factors")
@dataclass(frozen=True)
class MixedFactors(TableLikelihood):
    """Columns of any kind, as of ``MixedColumns``; a row has each of its features in an amount.

    For columns that vary together without steps: factors of which most rows have some, and a row
    may have none.

    Parameters
    ----------
    types, sigma_a, bias
        As of ``MixedColumns``.
    slab : {"gaussian", "laplace"}, default "gaussian"
        The distribution of amounts.

    Examples
    --------
    >>> import numpy as np, thali
    >>> rng = np.random.default_rng(0)
    >>> size = rng.standard_normal((60, 1))
    >>> X = size * [1.0, 2.0, -1.0] + 0.1 * rng.standard_normal((60, 3))
    >>> engine = thali.UncollapsedGibbs(sweeps=40, chains=1)
    >>> model = thali.LatentFeatures(likelihood="mixed_factors", engine=engine, random_state=0)
    >>> model.fit(X).amounts_.shape == (60, model.n_components_)
    True
    """

    slab: str = setting("gaussian", help="Distribution of the amounts", choices=SLABS)

    axes: ClassVar[dict[str, int]] = {"A": 0, "S": 1}
    starts: ClassVar[tuple[str, ...]] = ("latent_factors", "latent_sparse_ica", "prior", "empty")
    initial_updates: ClassVar[int] = 30
    sums_amounts: ClassVar[bool] = False
    words: ClassVar[Words] = Words(
        "Each feature raises or lowers what lies behind the columns, in an amount of its own, of "
        "either sign, in every row that has it; most frequent first.",
        "A row has a latent number for each column (one for each level of a categorical one), the "
        "sum of a bias, the features A that it has (Z says which: 1 or 0), each in an amount S of "
        "the row’s own, and noise; the table shows the number, its exponential, whether it is "
        "positive, in which range it is or which is the largest.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        super().__post_init__()

    @property
    def inner(self) -> SparseFactor:
        return SparseFactor(slab=self.slab, sigma_x=1.0, sigma_a=self.sigma_a)

    def weigh(self, Z: ArrayLike, parameters: Parameters) -> np.ndarray:
        return np.asarray(Z, float) * parameters["S"]

    def update_amounts(self, rng: np.random.Generator, state: GibbsState) -> Parameters:
        return {"S": self.inner.update_amounts(rng, state)}

    def log_amounts(self, Z: np.ndarray, parameters: Parameters) -> float:
        return self.inner.log_slab(parameters["S"][Z != 0])

    def representative(self, state: GibbsState, draws: Iterable[Parameters]) -> Parameters:
        """Means over the draws, each column turned to the side of the first draw's: (s_k, a_k) and
        (−s_k, −a_k) are the same."""
        first, count = None, 0
        total = {"A": np.zeros(0), "S": np.zeros(0)}
        for draw in draws:
            S, A = draw["S"], draw["A"]
            if first is None:
                first, total = S, {"A": np.zeros(A.shape), "S": np.zeros(S.shape)}
            side = np.where((S * first).sum(axis=0) < 0.0, -1.0, 1.0)
            total = {"A": total["A"] + side[:, None] * A, "S": total["S"] + side * S}
            count += 1
        return {name: value / count for name, value in total.items()}
