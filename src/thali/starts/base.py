"""The start itself, how one registers, and the check of an engine's ``init`` setting.

@start("ica", entries=2)
def ica_start(rng, model, data): …
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import numpy as np

from thali.data import Data
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.registry import STARTS
from thali.structures.features import as_binary_matrix

RACE = "race"  # no start of its own: several of them, and the log joint decides


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


Make = Callable[[np.random.Generator, Model, Data], Start]


class StartMaker:
    """A function that makes a start, and what others must know of it.

    ``entries`` is how often it enters a race. ``blind`` says that it knows nothing of the data, so
    that an engine may anneal what it makes.
    """

    def __init__(self, make: Make, entries: int, blind: bool) -> None:
        update_wrapper(self, make)
        self.make, self.entries, self.blind = make, entries, blind

    def __call__(self, rng: np.random.Generator, model: Model, data: Data) -> Start:
        return self.make(rng, model, data)


def start(name: str, *, entries: int = 1, blind: bool = False) -> Callable[[Make], StartMaker]:
    """A decorator that registers a function as the start of that name."""

    def decorate(make: Make) -> StartMaker:
        return STARTS.register(name)(StartMaker(make, entries, blind))

    return decorate


def start_names() -> list[str]:
    """What ``init`` may be called."""
    return [RACE, *STARTS]


def blind_names() -> list[str]:
    """The starts that may be annealed: those that know nothing of the data, or a race of them."""
    return [*(name for name, made in STARTS.items() if made.blind), RACE]


def contenders(likelihood: Any) -> list[str]:
    """Who enters a race: the likelihood's starts in their order, then those that enter again.

    >>> from thali import LinearGaussian
    >>> contenders(LinearGaussian())
    ['ica', 'columns', 'empty', 'prior', 'ica', 'prior']
    """
    able = [name for name in likelihood.starts if name in STARTS]
    heats = max((STARTS[name].entries for name in able), default=0)
    return [name for heat in range(heats) for name in able if STARTS[name].entries > heat]


def check_init(owner: str, init: Any) -> Any:
    """A known name or a fitted model as it is, a matrix as bits; anything else is refused."""
    if isinstance(init, str):
        names = start_names()
        if init not in names:
            near = difflib.get_close_matches(init, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{owner}: init={init!r} is not a start; use one of {', '.join(names)}, "
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
            f"{owner}: init must be one of {', '.join(start_names())}, a 0/1 matrix with a row "
            f"for each row of X, or a fitted model; not {type(init).__name__}."
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
    if init == RACE and not races:
        return next(name for name in likelihood.starts if name != RACE)
    if init in likelihood.starts:
        return init
    if init == RACE:  # the default of engines: where nothing is raced, the likelihood's first
        return likelihood.starts[0]
    raise ValueError(
        f"init={init!r} does not suit {type(likelihood).__name__}; use one of "
        f"{', '.join(likelihood.starts)}, a matrix Z, or a fitted model."
    )
