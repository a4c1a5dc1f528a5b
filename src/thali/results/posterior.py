"""What the draws of a fit say: the posterior for ArviZ, the draws one by one, gaps filled in.

The part of ``LatentFeatures`` that reads the trace again after fitting and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thali.data import Data
from thali.model import Model
from thali.results import imputation
from thali.results.trace import Draw, Recorded, Trace
from thali.settings import whole_number


class Posterior:
    """For an estimator that has been fitted and keeps its trace."""

    _data: Data
    _model: Model
    _trace: Trace
    _hyper: dict[str, float]
    X_: np.ndarray
    mean_: np.ndarray
    weights_: np.ndarray
    seed_: int
    row_names_: list[str] | None

    @cached_property
    def posterior_(self) -> Any:
        """ArviZ inference data: n_components, alpha, sigma_x, sigma_a, log_joint; chain × draw.

        Only draws of chains have one; weighted draws are refused.
        """
        check_is_fitted(self)
        return self._trace.to_arviz()

    @cached_property
    def diagnostics_(self) -> dict[str, dict[str, float]]:
        """R-hat and bulk effective sample size of each label-free scalar (NaN where undefined)."""
        check_is_fitted(self)
        return self._trace.diagnostics()

    def draws(self, max_draws: int | None = None) -> Iterator[Draw]:
        """Every kept draw, or at most ``max_draws`` evenly spaced ones; its features A are drawn
        given the rest, the same at every call.

        Each has a weight, and the weights sum to one: equal ones for a sampler's draws, the
        particles' own for a particle filter's (of which ``max_draws`` picks some by their weight,
        to count equally). A mean over the posterior is Σ weight · value.
        """
        check_is_fitted(self)
        count = len(self._trace)
        most = count if max_draws is None else whole_number("draws", "max_draws", max_draws, 0)
        if most >= count:
            return (self._draw(i, recorded) for i, recorded in enumerate(self._trace.matrices()))
        times = np.bincount(self._trace.spread(most), minlength=count)
        return (
            self._draw(i, recorded)._replace(weight=1.0 / most)
            for i, recorded in enumerate(self._trace.matrices())
            for _ in range(times[i])
        )

    @cached_property
    def best_(self) -> Draw:
        """The kept draw with the highest log joint."""
        check_is_fitted(self)
        if self._trace.kind == "variational":
            raise ValueError(
                "This result is variational: it has no best draw. Its answer is Z_, with "
                "assignment_probabilities_, and log_joint_ is the log joint there."
            )
        index = int(np.argmax(self._trace.log_joints()))
        return self._draw(index, self._trace.pick([index])[0])

    def _draw(self, index: int, recorded: Recorded) -> Draw:
        Z, scalars, kept = recorded
        hyper = {name: scalars[name] for name in self._hyper}
        if not kept:
            rng = np.random.default_rng(np.random.SeedSequence((self.seed_, index)))
            likelihood: Any = self._model.at(hyper).likelihood
            kept = {"A": likelihood.draw_features(rng, self._data, Z)}
        alpha, sigma_x, sigma_a = (
            hyper.get(name, np.nan) for name in ("alpha", "sigma_x", "sigma_a")
        )
        axes = getattr(self._model.likelihood, "axes", {})
        others = {k: np.moveaxis(v, 0, axes[k]) for k, v in kept.items() if k != "A"}
        A, log_joint = kept["A"], scalars.get("log_joint", np.nan)
        weight = float(self.weights_[index])
        return Draw(Z, A, alpha, sigma_x, sigma_a, log_joint, hyper, others, weight)

    # missing entries

    def impute(self, *, return_std: bool = False, interval: float | None = None) -> Any:
        """The training data with each missing entry replaced by its posterior mean.

        The law of a missing entry is the mixture, over kept draws, of its law given the draw: with
        A integrated out given Z, the scales and the observed entries where that can be done, else
        given the draw's parameters. Nothing is drawn for it, so the answer is the same at every
        call. At most ``imputation.DRAWS`` evenly spaced draws.
        ``return_std=True`` gives (filled, std), the standard deviation of that law, 0 where an
        entry was observed; ``interval=0.9`` gives (filled, low, high), its central quantiles.
        Data frames come back as data frames.

        >>> import numpy as np, thali
        >>> X = thali.datasets.images(n=30, random_state=0).X
        >>> X[3, 4] = np.nan
        >>> engine = thali.CollapsedGibbs(sweeps=20, chains=1)
        >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
        >>> filled, low, high = model.impute(interval=0.9)
        >>> bool(low[3, 4] < filled[3, 4] < high[3, 4]), int(np.isnan(filled).sum())
        (True, 0)
        """
        check_is_fitted(self)
        if return_std and interval is not None:
            raise ValueError("impute: ask for return_std=True or for an interval, not for both.")
        if self._data.sparse:
            raise ValueError(
                "impute: the model was fitted to a sparse matrix, which has no missing entries: "
                "what it leaves out are zeros."
            )
        law = imputation.missing_entries_of(self._model, self._data, self._trace, self._hyper)
        missing = self._data.where_missing
        center = np.broadcast_to(self.mean_, self.X_.shape)[missing]

        def filled(values: np.ndarray) -> Any:
            table = self.X_.copy()
            table[missing] = values + center
            return self._as_given(table)

        if return_std:
            std = np.zeros(self.X_.shape)
            std[missing] = law.std()
            return filled(law.mean()), self._as_given(std)
        if interval is not None:
            low, high = law.interval(interval)
            return filled(law.mean()), filled(low), filled(high)
        return filled(law.mean())

    def _as_given(self, values: np.ndarray) -> Any:
        """A table like the training data, with its names if it had any."""
        names = getattr(self, "feature_names_in_", None)
        if names is None and self.row_names_ is None:
            return values
        import pandas as pd

        return pd.DataFrame(values, index=self.row_names_, columns=names)
