"""The start itself, and the check of an engine's ``init`` setting."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thali.model import Model

NAMES = ("race", "ica", "sparse_ica", "columns", "patterns", "prior", "empty")


@dataclass(frozen=True)
class Start:
    """Z, a number for every hyperparameter, and for how many sweeps the scales stay put.

    ``parameters`` are those of Z's features where the start knows them, by the likelihood's names.
    """

    name: str
    Z: np.ndarray
    hyper: dict[str, float]
    hold_sigma: int = 0
    parameters: dict[str, np.ndarray] = field(default_factory=dict)


def check_init(owner: str, init: Any) -> None:
    """Refuse an ``init`` that is neither a known name, nor a matrix, nor a fitted model."""
    if isinstance(init, str):
        if init not in NAMES:
            near = difflib.get_close_matches(init, NAMES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{owner}: init={init!r} is not a start; use one of {', '.join(NAMES)}, "
                f"a matrix Z, or a fitted model.{hint}"
            )
    elif not hasattr(init, "Z_") and np.ndim(init) != 2:
        raise TypeError(
            f"{owner}: init must be one of {', '.join(NAMES)}, a 0/1 matrix with a row for each "
            f"row of X, or a fitted model; not {type(init).__name__}."
        )


def suitable(init: str, model: Model) -> str:
    """The start that ``init`` means for this model, or one sentence about those it has."""
    likelihood = model.likelihood
    if init in likelihood.starts:
        return init
    if init == "race":  # the default of engines: where nothing is raced, the likelihood's first
        return likelihood.starts[0]
    raise ValueError(
        f"init={init!r} does not suit {type(likelihood).__name__}; use one of "
        f"{', '.join(likelihood.starts)}, a matrix Z, or a fitted model."
    )
