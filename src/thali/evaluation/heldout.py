r"""Held-out entries: hide some of X, fit the rest, and ask how well what was hidden is predicted.

Given a draw's Z, parameters and scales the hidden entries h are independent (x_h ~ N(z_n a_d, σ_x²)
under the linear-Gaussian likelihood), so with S draws of the posterior given what was left

    mean over h of  log (1/S) Σ_s p(x_h | draw s)       each entry by itself: the reported number
    log (1/S) Σ_s ∏_h p(x_h | draw s)                   all of them jointly

The first is an average of marginal predictive densities; the second is one density of very many
dimensions, in which a single draw outweighs the rest, so that it needs far more draws.

Designs: "last_half" hides a share of the columns, drawn afresh for each row, in the last half of
the rows (Doshi-Velez et al. 2009, section 4: one third; Reed and Ghahramani 2013, section 5: one
quarter); "entries" hides a share of all entries.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from thali.data import Data, Table
from thali.data.checks import as_matrix
from thali.datasets.dataset import RandomState
from thali.estimators.latent_features import LatentFeatures
from thali.estimators.tables import layout_of
from thali.likelihoods.base import Masked
from thali.likelihoods.latent_columns import Layout
from thali.model import Model
from thali.settings import generator

DESIGNS = ("last_half", "entries")
DRAWS = 400  # evenly spaced draws that are averaged


@dataclass(frozen=True)
class Holdout:
    """A table with hidden entries, and their true values.

    Attributes
    ----------
    X : array or data frame like the one given
        NaN at hidden entries: what a model should be fitted to.
    observed : bool array of shape (N, D)
        True where an entry is left in X.
    rows, columns : int arrays
        Where the hidden entries are.
    values : array
        Their true values.
    where : str
        The design.
    """

    X: Table
    observed: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    where: str

    @property
    def where_hidden(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the hidden entries are, as an index into X."""
        return self.rows, self.columns

    def log_predictive(self, model: LatentFeatures, *, joint: bool = False) -> float:
        """Mean over hidden entries of the log predictive density of each, averaged over draws.

        Densities are those of X in its own units, also where a model was fitted to scaled columns.
        ``joint=True`` gives the log density of all hidden entries together instead (their total,
        not a mean): the log of the mean over draws of the product over entries.
        """
        table = self._logs(model)
        if joint:
            table = table.sum(axis=1, keepdims=True)
        return float(over_draws(table).mean())

    def log_densities(self, model: LatentFeatures) -> np.ndarray:
        """The log predictive density of each hidden entry, whose mean is ``log_predictive``."""
        return over_draws(self._logs(model))

    def _logs(self, model: LatentFeatures) -> np.ndarray:
        """log p(x_h | draw s), (draws, entries)."""
        values, where = self._as_fitted(model)
        log_scale = np.log(model.scale_[where[1]])  # of densities: of the data that were fitted
        parts = Model(model.prior_, model.likelihood_)
        logs = []
        for draw in model.draws(DRAWS):
            likelihood = cast(Masked, parts.likelihood_at(draw.hyper))
            parameters = {"A": draw.A / model.scale_, **draw.parameters}
            entries = likelihood.entries(draw.Z, parameters, where)
            logs.append(entries.log_density(values) - log_scale)
        return np.array(logs)

    def rmse(self, model: LatentFeatures) -> float:
        """Root mean square of posterior mean less true value, over the hidden entries."""
        self._as_fitted(model)
        if layout_of(model) is not None:
            raise ValueError(
                "rmse: columns of different kinds have no scale in common; use log_predictive, or "
                "compare model.impute() with values column by column."
            )
        filled = np.asarray(model.impute(), dtype=float)[self.rows, self.columns]
        return float(np.sqrt(np.mean(np.square(filled - self.values))))

    def _as_fitted(self, model: LatentFeatures) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """True values as the model has them, less its centre, and where they are among its columns.

        Refuse a model that has seen what was hidden, or other data altogether.
        """
        layout = layout_of(model)
        n, d = len(model.X_), model.X_.shape[1] if layout is None else len(layout.columns)
        rows, columns = self.observed.shape
        if (n, d) != (rows, columns):
            raise ValueError(
                f"The model was fitted to {n} x {d} data, but these are {rows} x {columns}; fit it "
                "to holdout.X."
            )
        where = self.where_hidden
        if layout is None:
            values = (self.values - model.mean_[self.columns]) / model.scale_[self.columns]
        else:
            values, where = self._in_latents(layout)
        if Data.checked(model.X_).seen[where].any():
            raise ValueError(
                "The model was fitted to data in which the hidden entries are not missing; fit it "
                "to holdout.X."
            )
        return values, where

    def _in_latents(self, layout: Layout) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Of a table with columns of any kind: a level is a 1 in a column of its own."""
        whole = pd.DataFrame(self.X).astype(object)
        for j in np.unique(self.columns):
            own = self.columns == j
            whole.iloc[self.rows[own], j] = self.values[own]
        given = whole if layout.table.labels is not None else whole.to_numpy()
        codes = layout.table.encode(given, new=True)[self.where_hidden]
        leveled = np.isin(self.columns, layout.leveled)
        latent = layout.first[self.columns] + np.where(leveled, codes, 0.0).astype(np.int64)
        return np.where(leveled, 1.0, codes), (self.rows, latent)


def holdout(
    X: Table, fraction: float = 0.25, where: str = "last_half", random_state: RandomState = 0
) -> Holdout:
    """Hide a share of X: of the columns of each row in the last half, or of all entries.

    X is a table of numbers, or a data frame with columns of any kind, for ``likelihood="mixed"``.
    Entries that are missing already stay so and are never among the hidden ones.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=40, random_state=0).X
    >>> test = thali.evaluation.holdout(X, 0.25, "last_half")
    >>> test.observed[:20].all(), len(test.values)
    (np.True_, 180)
    >>> engine = thali.CollapsedGibbs(sweeps=40, chains=2)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(test.X)
    >>> test.rmse(model) < 0.9, test.log_predictive(model) > -1.5
    (True, True)
    """
    if where not in DESIGNS:
        raise ValueError(f"holdout: where must be one of {', '.join(DESIGNS)}, not {where!r}.")
    if isinstance(fraction, bool) or not 0.0 < fraction < 1.0:
        raise ValueError(f"holdout: fraction must lie between 0 and 1, not {fraction!r}.")
    values, seen = _values(X)
    rng = generator("holdout", random_state)
    hidden = np.zeros(values.shape, bool)
    if where == "entries":
        _hide(rng, hidden.reshape(-1), np.flatnonzero(seen), fraction)
    else:
        for n in range(len(values) // 2, len(values)):
            _hide(rng, hidden[n], np.flatnonzero(seen[n]), fraction)
    if not hidden.any():
        raise ValueError(
            f"holdout: a share of {fraction} of {values.shape[0]} x {values.shape[1]} entries "
            "hides none of them; use a larger one."
        )
    rows, columns = np.nonzero(hidden)
    if values.dtype == object and isinstance(X, pd.DataFrame):
        return Holdout(X.mask(hidden), seen & ~hidden, rows, columns, values[hidden], where)
    left = np.where(hidden, np.nan, values)
    table = pd.DataFrame(left, X.index, X.columns) if isinstance(X, pd.DataFrame) else left
    return Holdout(table, seen & ~hidden, rows, columns, values[hidden], where)


def over_draws(logs: np.ndarray) -> np.ndarray:
    """The logarithm of the mean over draws, the first axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))


def _values(X: Table) -> tuple[np.ndarray, np.ndarray]:
    """The values of a table, and where there are any; objects where some column has no numbers."""
    if isinstance(X, pd.DataFrame) and not all(map(is_numeric_dtype, X.dtypes)):
        return X.to_numpy(object), X.notna().to_numpy()
    data = Data.checked(as_matrix(X))
    return data.X, data.seen


def _hide(rng: np.random.Generator, hidden: np.ndarray, among: np.ndarray, share: float) -> None:
    """Mark a share of some entries, to the nearest whole number, drawn without replacement."""
    count = int(np.floor(share * len(among) + 0.5))
    hidden[rng.choice(among, size=count, replace=False)] = True
