"""What an estimator accepts: X as array, table or sparse matrix; seeds; ``progress``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.utils.validation import check_random_state, validate_data

from thali.data.checks import as_matrix, as_sparse, check_table, refuse_same_names, unmasked
from thali.data.sparse import is_sparse
from thali.engines.base import takes_sparse
from thali.model import Model
from thali.run.choices import LIKELIHOODS, PRIORS, check_sparse, choose_engine, named

__all__ = ["Accepting", "checked_progress", "seed_from", "to_copy"]

LARGE = 1e8  # bytes of X, beyond which it is not copied


class Accepting:
    """The checks of X that ``LatentFeatures`` makes, as scikit-learn's conventions have them."""

    prior: Any
    likelihood: Any
    engine: Any
    center: Any
    mean_: np.ndarray
    engine_: Any
    _model: Model

    def _parts(self) -> Model:
        """Prior and likelihood as they are given, or named."""
        return Model(
            named("prior", self.prior, PRIORS), named("likelihood", self.likelihood, LIKELIHOODS)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        with suppress(TypeError, ValueError):  # parts that are none are refused when fitted
            parts = self._parts()
            engine = choose_engine(self.engine, parts)
            tags.input_tags.sparse = takes_sparse(engine, parts) and not self.center
        return tags

    def _centerd(self, X: Any) -> Any:
        """New rows less the means of the training data; sparse ones, where these are none."""
        X = self._validated(X, reset=False)
        if not is_sparse(X):
            return X - self.mean_
        check_sparse(self.engine_, self._model, X)
        return X

    def _validated(self, X: Any, *, reset: bool, copy: bool = False) -> Any:
        if is_sparse(X):
            return self._validated_sparse(X, reset)
        check_table(X)
        if hasattr(X, "columns") and not len(X.columns):
            raise ValueError("X is empty: the data frame has no columns.")
        X = validate_data(
            self,
            unmasked(X),
            reset=reset,
            dtype=np.float64,
            order="C",
            copy=copy,
            ensure_all_finite=False,
        )
        return as_matrix(X)

    def _validated_sparse(self, X: Any, reset: bool) -> Any:
        """A ``csr_array`` of its own; names of columns are kept, or compared, as of any table."""
        refuse_same_names(X)
        array = as_sparse(X)
        if self.center:
            raise ValueError(
                "X is a sparse matrix, which center=True would make dense: use center=False, or "
                "make it dense first with X.toarray() if it fits in memory."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        return array


def to_copy(X: Any) -> bool:
    """Whether X is to be copied: always, but where it is a large array that can be used as it is
    (kernels are compiled for arrays that can be written to)."""
    return not (isinstance(X, np.ndarray) and X.flags.writeable and X.nbytes > LARGE)


def seed_from(random_state: Any) -> int:
    """One whole number that fixes the run: the given int, or one drawn from the given source."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return int(check_random_state(random_state).randint(2**31 - 1))


def checked_progress(progress: Any) -> bool | str:
    """``progress`` as a run takes it, or one sentence."""
    if isinstance(progress, bool | np.bool_):
        return bool(progress)
    if isinstance(progress, str) and progress == "auto":
        return progress
    raise ValueError(f"progress must be 'auto', True or False, not {progress!r}.")
