"""The start itself, and the check of an engine's ``init`` setting."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.structures.features import as_binary_matrix

NAMES = ("race", "ica", "sparse_ica", "columns", "patterns", "prior", "empty")


@dataclass(frozen=True)
class Start:
    """A latent value, the hyperparameters, and for how many sweeps the scales stay put.

    ``parameters`` are those of its components where the start knows them, by their names.
    """

    name: str
    latent: Any
    hyper: dict[str, Any]
    hold_sigma: int = 0
    parameters: dict[str, np.ndarray] = field(default_factory=dict)


def check_init(owner: str, init: Any) -> Any:
    """A known name or a fitted model as it is, a matrix as bits; anything else is refused."""
    if isinstance(init, str):
        if init not in NAMES:
            near = difflib.get_close_matches(init, NAMES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{owner}: init={init!r} is not a start; use one of {', '.join(NAMES)}, "
                f"a matrix Z, or a fitted model.{hint}"
            )
        return init
    if hasattr(init, "Z_"):
        return init
    return _bits(owner, init)


def _bits(owner: str, init: Any) -> np.ndarray:
    """A matrix given as array, data frame or lists, as one of True and False."""
    try:
        matrix = np.asarray(init)
    except ValueError:
        raise ValueError(f"{owner}: init is a list whose rows differ in length.") from None
    if matrix.ndim != 2:
        raise TypeError(
            f"{owner}: init must be one of {', '.join(NAMES)}, a 0/1 matrix with a row for each "
            f"row of X, or a fitted model; not {type(init).__name__}."
        )
    if matrix.dtype == bool:
        return matrix
    refuse_beyond_memory("init", matrix.shape[0], matrix.shape[1], 1)
    try:
        return as_binary_matrix(matrix)
    except ValueError as error:
        raise ValueError(f"{owner}: init: {error}") from None


def suitable(init: str, model: Model, races: bool = True) -> str:
    """The start that ``init`` means for this model, or one sentence about those it has."""
    likelihood = model.likelihood
    if init == "race" and not races:
        return next(name for name in likelihood.starts if name != "race")
    if init in likelihood.starts:
        return init
    if init == "race":  # the default of engines: where nothing is raced, the likelihood's first
        return likelihood.starts[0]
    raise ValueError(
        f"init={init!r} does not suit {type(likelihood).__name__}; use one of "
        f"{', '.join(likelihood.starts)}, a matrix Z, or a fitted model."
    )
