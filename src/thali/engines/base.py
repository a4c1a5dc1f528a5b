"""What every engine is: a step, the capabilities it needs, and the kind of result it leads to.

An engine is a frozen dataclass of settings with no loop of its own: ``thali.run`` drives every
engine through the protocol ``Engine``. It inherits one of

    Sampler          draws of the posterior along a chain
    WeightedSampler  weighted draws, once its steps are over
    BoundOptimizer   the parameters of an approximating distribution, and draws of it
    Search           one value, and what is known of it

which have the methods that the loop asks for at the end, and defaults for the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Masked, TakesSparse
from thali.model import Model
from thali.settings import Label
from thali.starts import Start, anneal

Parameters = dict[str, np.ndarray]


class Info(NamedTuple):
    """Diagnostics of one step; the scalars are what traces and progress show."""

    n_components: int
    log_joint: float
    hyper: dict[str, Any]
    drift: float


class Population(NamedTuple):
    """Weighted draws: weights (P,), scalars (P, …) as a trace names them, packed values, log P(X),
    and the parameters of each, if they are kept."""

    weights: np.ndarray
    scalars: np.ndarray
    packed: list[np.ndarray]
    log_evidence: float
    parameters: Sequence[Parameters] = ()


class State(Protocol):
    """What the loop reads of an engine's state."""

    @property
    def latent(self) -> Any:
        """The value of the latent structure, as a trace keeps it."""


class Engine(Protocol):
    """What the loop, the starts and the files ask of an engine."""

    needs_prior: ClassVar[tuple[type, ...]]
    needs_likelihood: ClassVar[tuple[type, ...]]
    masked: ClassVar[bool]  # whether it can deal with missing entries
    sparse: ClassVar[bool]  # whether X may be a sparse matrix
    blocks: ClassVar[bool]  # whether it reads X by blocks: also one that is only read
    unit: ClassVar[str]  # what a step is called
    measure: ClassVar[str]  # what a step tells of how good the state is,
    measure_label: ClassVar[Label]  # and what that is called
    auto_rank: ClassVar[int | None]  # "auto" takes the able engine of lowest rank, if any
    races: ClassVar[bool]  # whether starts can be raced by short runs of it

    @property
    def init(self) -> Any: ...
    @property
    def chains(self) -> int: ...
    @property
    def burned(self) -> int: ...
    @property
    def searches(self) -> bool: ...
    @property
    def settings_need(self) -> dict[str, tuple[type, ...]]: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def replace(self, **changes: Any) -> Self: ...
    def steps(self, data: Data) -> int: ...
    def planned(self, data: Data, n_components: int) -> Self: ...
    def plans(self) -> bool: ...
    def keeps(self, step: int) -> bool: ...
    def racing_sweeps(self, data: Data, n_components: int) -> int: ...
    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> Any: ...
    def step(self, rng: np.random.Generator, model: Model, data: Data, state: Any) -> Info: ...
    def finished(self, state: Any) -> bool: ...
    def level(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any, info: Info
    ) -> float: ...
    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start: ...
    def to_arrays(self, state: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]: ...
    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> Any: ...


class EngineDefaults(ABC):
    """Declarations of an engine, and what most engines answer to the loop's questions."""

    needs_prior: ClassVar[tuple[type, ...]] = ()
    needs_likelihood: ClassVar[tuple[type, ...]] = ()
    masked: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    blocks: ClassVar[bool] = False
    unit: ClassVar[str] = "sweep"
    measure: ClassVar[str] = "log_joint"
    measure_label: ClassVar[Label] = Label("log joint", "how well it fits")
    auto_rank: ClassVar[int | None] = None
    races: ClassVar[bool] = True

    @property
    def settings_need(self) -> dict[str, tuple[type, ...]]:
        """What some settings need of the prior besides, by setting."""
        return {}

    @abstractmethod
    def steps(self, data: Data) -> int:
        """How many steps the loop makes in each chain, at most."""

    @abstractmethod
    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> Any:
        """The state at a start: all that the next step needs."""

    @abstractmethod
    def step(self, rng: np.random.Generator, model: Model, data: Data, state: Any) -> Info:
        """One step, in place, and its diagnostics."""

    @abstractmethod
    def to_arrays(self, state: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as plain arrays and JSON-able values."""

    @abstractmethod
    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> Any:
        """The state that ``to_arrays`` saved."""

    @property
    def burned(self) -> int:
        """Steps not kept at the beginning."""
        return 0

    def planned(self, data: Data, n_components: int) -> Self:
        """This engine with a number of steps; those that leave it open choose it here."""
        return self

    def plans(self) -> bool:
        """Whether the number of steps is left open until a few were made."""
        return False

    def keeps(self, step: int) -> bool:
        """Whether the value after a step, counted from the end of burn-in, is kept."""
        return False

    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start:
        """Where steps under falling noise lead from a start that knows nothing of the data."""
        return anneal(rng, self, model, data, start, stopped)

    def racing_sweeps(self, data: Data, n_components: int) -> int:
        """How many steps a race of starts may think that a chain makes."""
        return self.planned(data, n_components).steps(data)

    @property
    def searches(self) -> bool:
        """Whether a race goes on by changes at random; not where the engine makes its own."""
        return True

    def finished(self, state: Any) -> bool:
        """Whether another step would change nothing; samplers never are."""
        return False

    def level(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any, info: Info
    ) -> float:
        """What a race compares states by, after the step that ``info`` tells of."""
        return info.log_joint


class Sampler(EngineDefaults):
    """Leaves the posterior invariant, step by step."""

    def kept_parameters(self, model: Model, state: Any) -> Parameters:
        """Parameters to keep with a draw, components along the first axis.

        None where a draw's parameters can be drawn exactly later, given its latent value.
        """
        return {}


class WeightedSampler(EngineDefaults):
    """Ends with weighted draws of the posterior."""

    @abstractmethod
    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any
    ) -> Population:
        """The weighted draws."""


class BoundOptimizer(EngineDefaults):
    """Raises a lower bound of the evidence; of several restarts the highest is kept."""

    measure: ClassVar[str] = "elbo"

    @abstractmethod
    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any
    ) -> Population:
        """Draws of the approximating distribution."""

    @abstractmethod
    def params(self, model: Model, state: Any) -> dict[str, np.ndarray]:
        """The parameters of the approximating distribution."""


class Search(EngineDefaults):
    """Looks for one value; its population is that value alone."""

    @abstractmethod
    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any
    ) -> Population:
        """The value found, and its parameters."""

    @abstractmethod
    def together(self, model: Model, states: list[Any]) -> tuple[int, dict[str, np.ndarray]]:
        """Which of several restarts has the best value, and what all of them know of it."""


def missing_capabilities(engine: Any, model: Model) -> list[str]:
    """What the engine needs and the model lacks, in words."""
    lacks = []
    for part, needs in (
        (model.prior, engine.needs_prior),
        (model.likelihood, engine.needs_likelihood),
    ):
        lacks += [
            f"{need.__name__}, which {type(part).__name__} does not have"
            for need in needs
            if not isinstance(part, need)
        ]
    if not isinstance(engine, type):
        lacks += [
            f"{need.__name__} for {setting}, which {type(model.prior).__name__} does not have"
            for setting, needs in engine.settings_need.items()
            for need in needs
            if not isinstance(model.prior, need)
        ]
    return lacks


def check_capabilities(engine: Engine, model: Model, engines: tuple[type[Engine], ...]) -> None:
    """Refuse an invalid combination, and name the engines that could run it."""
    lacks = missing_capabilities(engine, model)
    if lacks:
        able = [e.__name__ for e in engines if not missing_capabilities(e, model)]
        raise ValueError(
            f"{type(engine).__name__} cannot run {type(model.prior).__name__} × "
            f"{type(model.likelihood).__name__}: it needs {' and '.join(lacks)}. "
            f"Engines that can: {', '.join(able) or 'none yet'}."
        )


def takes_missing(engine: Any, model: Model) -> bool:
    """Whether engine and likelihood can both deal with missing entries."""
    return getattr(engine, "masked", False) and isinstance(model.likelihood, Masked)


def check_missing(
    engine: Engine, model: Model, data: Data, engines: tuple[type[Engine], ...]
) -> None:
    """Refuse missing entries that engine or likelihood cannot deal with, and name what could."""
    if data.observed is None or takes_missing(engine, model):
        return
    i, j = (int(places[0]) for places in data.where_missing)
    able = [
        e.__name__
        for e in engines
        if takes_missing(e, model) and not missing_capabilities(e, model)
    ]
    whose = type(engine if isinstance(model.likelihood, Masked) else model.likelihood).__name__
    raise ValueError(
        f"X has {data.missing} of {data.X.size} entries missing (NaN), the first at row {i}, "
        f"column {j}, which {whose} cannot deal with. Engines that can with "
        f"{type(model.likelihood).__name__}: {', '.join(able) or 'none'}; or drop those rows or "
        "columns, or impute them first."
    )


def takes_sparse(engine: Any, model: Model) -> bool:
    """Whether engine and likelihood can both work from a sparse matrix."""
    return getattr(engine, "sparse", False) and isinstance(model.likelihood, TakesSparse)


def check_sparse(engine: Engine, model: Model, X: Any, engines: tuple[type[Engine], ...]) -> None:
    """Refuse a sparse matrix that engine or likelihood cannot work from, and name what could."""
    if takes_sparse(engine, model):
        return
    able = [
        e.__name__ for e in engines if takes_sparse(e, model) and not missing_capabilities(e, model)
    ]
    whose = type(engine if isinstance(model.likelihood, TakesSparse) else model.likelihood).__name__
    megabytes = 8e-6 * X.shape[0] * X.shape[1]
    raise TypeError(
        f"X is a sparse matrix, which {whose} cannot work from. Engines that can with "
        f"{type(model.likelihood).__name__}: {', '.join(able) or 'none'}; or make it dense first "
        f"with X.toarray() if it fits in memory ({max(megabytes, 1.0):,.0f} MB)."
    )
