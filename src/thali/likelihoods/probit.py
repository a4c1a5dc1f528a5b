r"""Tables of yes and no: x_nd = 1 where b_d + z_n a_d + e_nd > 0, e_nd ~ N(0, 1).

That is ``MixedColumns`` of columns with two levels each: P(x_nd = 1 | z_n) = Φ(b_d + z_n a_d), a
probit model (Albert and Chib 1993, whose latents the samplers draw).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thali.data import Table
from thali.data.columns import Columns
from thali.likelihoods.base import Words
from thali.likelihoods.latent_columns import kind_of
from thali.likelihoods.mixed_columns import MixedColumns
from thali.registry import LIKELIHOODS


@LIKELIHOODS.register("probit")
@dataclass(frozen=True)
class Probit(MixedColumns):
    """Columns of two levels each: 0 and 1, True and False, "yes" and "no".

    ``MixedColumns`` of such a table, which refuses any other column. A feature makes the second
    level of a column more probable, or less; under ``NoisyOr`` it can only turn entries on.

    Parameters
    ----------
    types, sigma_a, bias
        As of ``MixedColumns``; ``{"owner": {"kind": "binary", "levels": ["no", "yes"]}}`` gives the
        order of levels, or one that no row has.

    Examples
    --------
    >>> import numpy as np, thali
    >>> rng = np.random.default_rng(0)
    >>> has = rng.random((60, 1)) < 0.5
    >>> X = np.where(rng.random((60, 4)) < np.where(has, 0.9, 0.1), "yes", "no")
    >>> engine = thali.CollapsedGibbs(sweeps=40, chains=1)
    >>> model = thali.LatentFeatures(likelihood="probit", engine=engine, random_state=0).fit(X)
    >>> model.effects()["level"].unique().tolist()
    ['yes']
    """

    words: ClassVar[Words] = Words(
        "Each feature raises or lowers the probability of a yes in each column, in every row that "
        "has it; most frequent first.",
        "A row has a latent number for each column, the sum of a bias, the features A that it has "
        "(Z says which: 1 or 0) and noise of size one; the table shows whether it is positive.",
    )

    def columns_of(self, X: Table) -> Columns:
        """What the columns are, if each has two levels."""
        columns = super().columns_of(X)
        for column in columns:
            if kind_of(column) != "binary" or len(column.levels) != 2:
                raise ValueError(
                    f"Column {column.name!r} is {column.kind} ({column.why}), and Probit takes "
                    "columns of two levels each, such as 0 and 1 or 'no' and 'yes': make two "
                    "levels of it, leave it out, or use likelihood='mixed', which takes columns "
                    "of any kind."
                )
        return columns
