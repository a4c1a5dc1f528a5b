"""What an estimator accepts: X as array, table or sparse matrix; seeds; ``progress``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_random_state, validate_data

from thali.data import Table
from thali.data.checks import (
    as_matrix,
    as_sparse,
    check_table,
    is_on_device,
    refuse_no_columns,
    refuse_same_names,
    refuse_scarce,
    unmasked,
)
from thali.data.elsewhere import Source, opened
from thali.data.elsewhere.opening import here
from thali.data.sparse import is_sparse
from thali.engines.base import AnyEngine
from thali.engines.capabilities import check_sparse
from thali.estimators import tables, units
from thali.likelihoods.base import Scaled
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.run.checkpoints import seed_of
from thali.run.choices import engines
from thali.settings import no_source_of_chance
from thali.structures.features import FEATURES

if TYPE_CHECKING:
    from thali.estimators.base import LatentModel

Seed = int | np.random.RandomState | np.random.Generator | None
LARGE = 1e8  # bytes of X, beyond which it is not copied


def validated(
    estimator: LatentModel, X: Table, *, reset: bool, copy: bool = False
) -> np.ndarray | csr_array:
    """X as float64 in C order, or a ``csr_array`` of its own; names of columns are kept, or
    compared."""
    X = off_device(X)
    if is_sparse(X):
        refuse_same_names(X)
        if reset:
            refuse_scarce(X)
        array = as_sparse(X)
        if estimator.center:
            raise ValueError(
                "X is a sparse matrix, which center=True would make dense: use center=False, or "
                "make it dense first with X.toarray() if it fits in memory."
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return array
    check_table(X)
    refuse_no_columns(X)
    check = {"dtype": np.float64, "order": "C", "copy": copy, "ensure_all_finite": False}
    return as_matrix(validate_data(estimator, unmasked(X), reset=reset, **check))


def off_device(X: Table) -> Table:
    """X, or a copy of it here where it lies in the memory of a GPU."""
    return cast(Any, X).get() if is_on_device(X) else X


def validated_far(estimator: LatentModel, X: Source) -> Source:
    """X, rows that are read by blocks, and the number and names of their columns."""
    estimator.n_features_in_ = X.shape[1]
    if X.labels is not None:
        estimator.feature_names_in_ = np.array(X.labels, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return X


def by_blocks(X: Source, engine: AnyEngine, model: Model) -> Source | np.ndarray:
    """X as it is where engine and likelihood read it by blocks; else in memory, if it fits there.

    Only products with X are asked for by blocks, which suits Gaussian noise on features; a table of
    columns is looked at column by column.
    """
    likelihood, features = model.likelihood, model.structure == FEATURES
    products = isinstance(likelihood, Scaled) and not isinstance(likelihood, TableLikelihood)
    if getattr(engine, "blocks", False) and features and products:
        return here(X) if getattr(engine, "backend", "auto") == "local" else X
    what = type(engine).__name__ if features and products else type(likelihood).__name__
    return X.load(
        f"{what} needs all of it there; Variational and MaximizationExpectation with "
        "LinearGaussian, NonnegativeLinearGaussian or SparseFactor read X by blocks of rows."
    )


def centered(estimator: LatentModel, X: Table) -> np.ndarray | csr_array:
    """New rows in the units of the fit: less the means of the training data, over its scales; those
    of a table of columns with a column for each latent."""
    if isinstance(estimator.fit_.model.likelihood, TableLikelihood):
        return tables.new_rows(estimator, X)
    X = opened(X)
    if isinstance(X, Source):
        X = X.load("Give new rows a piece at a time.")
    X = validated(estimator, X, reset=False)
    if is_sparse(X):
        check_sparse(estimator.engine_, estimator.fit_.model, X, engines())
        return units.put_into(X, estimator.mean_, estimator._scale)
    return units.put_into(np.array(X), estimator.mean_, estimator._scale)


def to_copy(X: Table, engine: AnyEngine) -> bool:
    """Whether X is to be copied: always, but where it is large and can be used as it is, or is a
    memory map that is only read.

    Kernels are compiled for arrays that can be written to; an engine that reads X by blocks gives
    none of it to a kernel, and takes any array.
    """
    if not isinstance(X, np.ndarray) or not (X.flags.writeable or getattr(engine, "blocks", False)):
        return True
    mapped = isinstance(X, np.memmap) and not X.flags.writeable
    return not (mapped or X.nbytes > LARGE)


def seed_from(random_state: Seed, resumed: str | os.PathLike[str] | None = None) -> int:
    """One whole number that fixes the run: the given int, that of the run whose checkpoint is
    resumed, or one drawn from the given source."""
    given = isinstance(random_state, int | np.integer)
    if resumed is not None and not given and Path(resumed).is_file():
        return seed_of(resumed)
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise ValueError(no_source_of_chance(random_state)) from None


def checked_progress(progress: object) -> bool | str:
    """``progress`` as a run takes it, or one sentence."""
    if isinstance(progress, bool | np.bool_):
        return bool(progress)
    if isinstance(progress, str) and progress == "auto":
        return progress
    raise ValueError(f"progress must be 'auto', True or False, not {progress!r}.")
