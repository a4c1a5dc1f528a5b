"""The start itself, how one registers, and the check of an engine's ``init`` setting.

@start("ica", entries=2)
def ica_start(rng, model, data): …
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import numpy as np

from thali.data import Data
from thali.hyperparameters import Values
from thali.likelihoods.base import Likelihood
from thali.model import Model
from thali.registry import STARTS
from thali.settings import did_you_mean

EMPTY = "empty"  # where an engine that races nothing may begin whatever the structure
RACE = "race"  # no start of its own: several of them, and the log joint decides


@dataclass(frozen=True)
class Start:
    """A latent value, the hyperparameters, and for how many sweeps the scales stay put.

    ``parameters`` are those of its components where the start knows them, by their names.
    """

    name: str
    latent: Any
    hyper: Values
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
    return lambda make: STARTS.register(name)(StartMaker(make, entries, blind))


def start_names() -> list[str]:
    """What ``init`` may be called."""
    return [RACE, *STARTS]


def blind_names() -> list[str]:
    """The starts that may be annealed: those that know nothing of the data, or a race of them."""
    return [*(name for name, made in STARTS.items() if made.blind), RACE]


def contenders(likelihood: Likelihood) -> list[str]:
    """Who enters a race: the likelihood's starts in their order, then those that enter again.

    >>> from thali import LinearGaussian
    >>> contenders(LinearGaussian())
    ['ica', 'columns', 'empty', 'prior', 'ica', 'prior']
    """
    able = [name for name in likelihood.starts if name in STARTS]
    heats = max((STARTS[name].entries for name in able), default=0)
    return [name for heat in range(heats) for name in able if STARTS[name].entries > heat]


def check_init(engine: type, init: object) -> object:
    """A known name or a fitted model as it is, a value as the engine's structure has it.

    The structure is that of the parts that the engine needs.
    """
    owner, names = engine.__name__, start_names()
    if isinstance(init, str):
        if init not in names:
            raise ValueError(
                f"{owner}: init={init!r} is not a start; use one of {', '.join(names)}, "
                f"a value to begin from, or a fitted model.{did_you_mean(init, names)}"
            )
        return init
    needs = (*getattr(engine, "needs_prior", ()), *getattr(engine, "needs_likelihood", ()))
    each = [one for need in needs for one in (need if isinstance(need, tuple) else (need,))]
    structures = list(dict.fromkeys(one.structure for one in each if hasattr(one, "structure")))
    if not structures or any(hasattr(init, structure.answer) for structure in structures):
        return init
    for structure in structures[1:]:  # which of several is meant, the model will say
        try:
            structures[0].check(owner, init)
        except (ValueError, TypeError):
            with suppress(ValueError, TypeError):
                return structure.check(owner, init)
    return structures[0].check(owner, init)


def suitable(init: str, model: Model, races: bool = True) -> str:
    """The start that ``init`` means for this model, or one sentence about those it has."""
    likelihood = model.likelihood
    if init == RACE and not races:
        return next(name for name in likelihood.starts if name != RACE)
    if init in likelihood.starts or (init == EMPTY and not races):
        return init
    if init == RACE:  # the default of engines: where nothing is raced, the likelihood's first
        return likelihood.starts[0]
    raise ValueError(
        f"init={init!r} does not suit {type(likelihood).__name__}; use one of "
        f"{', '.join(likelihood.starts)}, a value to begin from, or a fitted model."
    )
