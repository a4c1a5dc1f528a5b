"""Features of a prior that people write: what they give, or a sentence about what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np

Features = Callable[..., Any]


def refuse_no_function(owner: str, features: object, of: str) -> None:
    """Refuse what cannot be asked, or cannot be told apart from another."""
    if not callable(features):
        raise TypeError(f"{owner}: features must be a function of {of}, not {features!r}.")
    try:
        hash(features)
    except TypeError as error:
        raise TypeError(
            f"{owner}: features must be hashable, as a plain function is; {error}."
        ) from error


def given_by(owner: str, features: Features, *sums: np.ndarray) -> np.ndarray:
    """φ of these sums: finite numbers, or −inf for what there cannot be."""
    try:
        found = np.atleast_1d(np.asarray(features(*sums), float))
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise TypeError(
            f"{owner}: features must give numbers for any sums; given {_shown(sums)} they say: "
            f"{type(error).__name__}: {error}."
        ) from error
    if found.ndim != 1 or np.isnan(found).any() or (found == np.inf).any():
        raise ValueError(
            f"{owner}: features must give a row of numbers, finite or -inf (which excludes), for "
            f"any sums; given {_shown(sums)} they give {found.tolist()}. Is a return missing?"
        )
    return found


def weighed(owner: str, found: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """w·φ along the last axis; a weight of 0 leaves out what its feature says."""
    if found.shape[-1] != len(weights):
        raise ValueError(
            f"{owner}: features give {found.shape[-1]} numbers, but there are {len(weights)} "
            "weights; as many are needed for any sums."
        )
    total = np.zeros(found.shape[:-1])
    for i in np.flatnonzero(weights):
        total = total + weights[i] * found[..., i]
    if (total == np.inf).any():
        raise ValueError(f"{owner}: a negative weight of a feature that is -inf would be infinite.")
    return np.asarray(total)


def _shown(sums: tuple[np.ndarray, ...]) -> str:
    few = [(str(each[:8].tolist())[:-1], len(each) > 8) for each in sums]
    return " and ".join(f"{text}, …]" if more else f"{text}]" for text, more in few)
