"""What every engine is: a step, the capabilities it needs, and the kind of result it leads to.

An engine is a frozen dataclass of settings with no loop of its own: ``thali.run`` drives every
engine through the protocol ``Engine``, which has defaults for most of what the loop asks. An
engine inherits one of

    Sampler          draws of the posterior along a chain
    WeightedSampler  weighted draws, once its steps are over
    BoundOptimizer   the parameters of an approximating distribution, and draws of it
    Search           one value, and what is known of it

each of which names the state that the engine's steps change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from thali.data import Data
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import TakesMissing
from thali.model import Model
from thali.settings import Label, hyperparameters_of, settings_of
from thali.starts import Start, anneal
from thali.starts.base import RACE

if TYPE_CHECKING:
    from thali.engines.ascent.stream import Stream

Parameters = dict[str, np.ndarray]
Needs = tuple[type | tuple[type, ...], ...]  # capabilities; of a tuple within it, any will do
StateT = TypeVar("StateT")  # what the next step of an engine needs


class Info(NamedTuple):
    """Diagnostics of one step; the scalars are what traces and progress show."""

    n_components: int
    log_joint: float
    hyper: Values
    drift: float


class Drawn(NamedTuple):
    """What is known of a step once it is made: its diagnostics, its latent value, packed (None
    where it was not wanted), and the parameters to keep with it."""

    info: Info
    packed: np.ndarray | None
    parameters: Parameters


class Population(NamedTuple):
    """Weighted draws: weights (P,), scalars (P, …) as a trace names them, packed values, log P(X),
    and the parameters of each, if they are kept."""

    weights: np.ndarray
    scalars: np.ndarray
    packed: list[np.ndarray]
    log_evidence: float
    parameters: Sequence[Parameters] = ()


class Engine(Protocol[StateT]):
    """What the loop, the starts and the files ask of an engine, and what most engines answer.

    A sampler's states, and those of engines whose starts are raced, have ``latent``: the value of
    the latent structure, as a trace keeps it.
    """

    needs_prior: ClassVar[Needs] = ()
    needs_likelihood: ClassVar[Needs] = ()
    masked: ClassVar[bool] = False  # whether it can deal with missing entries
    gaps_need: ClassVar[type] = TakesMissing  # and of which likelihoods
    draws_gaps: ClassVar[bool] = True  # and also where they must be drawn, not integrated out
    sparse: ClassVar[bool] = False  # whether X may be a sparse matrix
    blocks: ClassVar[bool] = False  # whether it reads X by blocks: also one that is only read
    unit: ClassVar[str] = "sweep"  # what a step is called
    measure: ClassVar[str] = "log_joint"  # what a step tells of how good the state is,
    measure_label: ClassVar[Label] = Label("log joint", "how well it fits")  # and its name
    # "auto" takes the able engine of lowest rank; one without only for data that no other takes
    auto_rank: ClassVar[int | None] = None
    auto_large: ClassVar[bool] = False  # whether it takes data too large to be sampled in time
    races: ClassVar[bool] = True  # whether starts can be raced by short runs of it
    weighs_rows: ClassVar[bool] = False  # whether it heeds a prior's row potentials
    weighs_all: ClassVar[bool] = False  # and what is no sum over rows and columns
    for_features: ClassVar[tuple[str, ...]] = ()  # settings that mean nothing for partitions

    if TYPE_CHECKING:  # ``Settings`` has these; a property would be taken for a field's default

        @property
        def init(self) -> object: ...  # the name of a start, a value, or a fitted model
        @property
        def chains(self) -> int: ...  # how many chains, or restarts, are made
        def get_params(self, deep: bool = True) -> dict[str, object]: ...
        def replace(self, **changes: object) -> Self: ...

    # steps

    @property
    def heeds_row_potentials(self) -> bool:
        """Whether it heeds row potentials with the settings that it has."""
        return self.weighs_rows

    @property
    def settings_need(self) -> dict[str, Needs]:
        """What some settings need of the model besides, by setting."""
        return {}

    def refuse_what_features_need(self) -> None:
        """Say so where a setting was given that means nothing for a partition."""
        for name in self.for_features:
            if getattr(self, name) != settings_of(type(self))[name].default:
                raise ValueError(
                    f"{type(self).__name__}: {name} is for features; a partition has no use for it."
                )

    @abstractmethod
    def steps(self, data: Data) -> int:
        """How many steps the loop makes in each chain, at most."""

    @abstractmethod
    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> StateT:
        """The state at a start: all that the next step needs."""

    @abstractmethod
    def step(self, rng: np.random.Generator, model: Model, data: Data, state: StateT) -> Info:
        """One step, in place, and its diagnostics."""

    def several(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: StateT,
        most: int,
        keep: bool = True,
    ) -> list[Drawn]:
        """At least one step and at most so many, with the value after each of them if ``keep``.

        How many are made at once changes no draw. An engine whose steps are short overrides this,
        so that a call of compiled code makes several.
        """
        info = self.step(rng, model, data, state)
        return [Drawn(info, *(self.value_kept(model, state) if keep else (None, {})))]

    def value_kept(self, model: Model, state: StateT) -> tuple[np.ndarray | None, Parameters]:
        """What is kept of a state: its latent value, packed, and parameters; samplers keep both."""
        return None, {}

    def finished(self, state: StateT) -> bool:
        """Whether another step would change nothing; samplers never are."""
        return False

    @property
    def burned(self) -> int:
        """Steps not kept at the beginning."""
        return 0

    def planned(self, model: Model, data: Data, n_components: int, disagreed: bool = False) -> Self:
        """This engine with a number of steps; those that leave it open choose it here, by the model
        and the data, how many components there are, and whether starts came to different ends."""
        return self

    def plans(self) -> bool:
        """Whether the number of steps is left open until a few were made."""
        return False

    def keeps(self, step: int) -> bool:
        """Whether the value after a step, counted from the end of burn-in, is kept."""
        return False

    # compiling

    def rehearsals(self, model: Model) -> tuple[str, ...]:
        """Names of what takes seconds to compile, the longest first; none where nothing does."""
        return ()

    def rehearse(self, part: str, model: Model, missing: bool) -> None:
        """Call the kernels of that name on next to nothing, so that they are compiled."""

    # starts

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

    def racing_sweeps(
        self, model: Model, data: Data, n_components: int, disagreed: bool = False
    ) -> int:
        """How many steps a race of starts may think that a chain makes."""
        return self.planned(model, data, n_components, disagreed).steps(data)

    @property
    def searches(self) -> bool:
        """Whether a race goes on by changes at random; not where the engine makes its own."""
        return True

    def start_in_place_of_race(self, model: Model) -> str:
        """What ``init="race"`` means for a model: a start's name where a race is not worth it."""
        return RACE

    def level(
        self, rng: np.random.Generator, model: Model, data: Data, state: StateT, info: Info
    ) -> float:
        """What a race compares states by, after the step that ``info`` tells of."""
        return info.log_joint

    # files

    @abstractmethod
    def to_arrays(self, state: StateT) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as plain arrays and JSON-able values."""

    @abstractmethod
    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> StateT:
        """The state that ``to_arrays`` saved."""


class SpreadsStarts(Engine[StateT], Protocol[StateT]):
    """An engine that reads X by blocks: its starts are found on some rows, and then of all."""

    @abstractmethod
    def spread(
        self, rng: np.random.Generator, model: Model, data: Data, near: Data, start: Start
    ) -> Start:
        """A start of all rows from one of some of them, which are ``near``."""


AnyEngine = Engine[Any]  # for code that holds an engine and its states without looking inside


class HasLatent(Protocol):
    """A state with a value of the latent structure."""

    @property
    def latent(self) -> Any: ...


class Sampler(Engine[StateT]):
    """Leaves the posterior invariant, step by step."""

    def kept_parameters(self, model: Model, state: StateT) -> Parameters:
        """Parameters to keep with a draw, components along the first axis.

        None where a draw's parameters can be drawn exactly later, given its latent value.
        """
        return {}

    def value_kept(self, model: Model, state: StateT) -> tuple[np.ndarray, Parameters]:
        latent = cast(HasLatent, state).latent
        return model.structure.pack(latent), self.kept_parameters(model, state)


class EndsWithPopulation(Engine[StateT]):
    """Keeps nothing on the way."""

    @abstractmethod
    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: StateT
    ) -> Population:
        """What is kept at the end."""


class WeightedSampler(EndsWithPopulation[StateT]):
    """Ends with weighted draws of the posterior."""


class BoundOptimizer(EndsWithPopulation[StateT]):
    """Raises a lower bound of the evidence; of several restarts the highest is kept.

    Its population are draws of the approximating distribution.
    """

    measure: ClassVar[str] = "elbo"

    @abstractmethod
    def params(self, model: Model, state: StateT) -> dict[str, np.ndarray]:
        """The parameters of the approximating distribution."""


class Search(EndsWithPopulation[StateT]):
    """Looks for one value; its population is that value alone, with its parameters."""

    @abstractmethod
    def together(self, model: Model, states: list[StateT]) -> tuple[int, dict[str, np.ndarray]]:
        """Which of several restarts has the best value, and what all of them know of it."""


class AbsorbsRows(ABC):
    """An engine whose fit can go on with rows that come later, as a stream of pieces."""

    dtype: str
    forgetting: float
    delay: float

    @abstractmethod
    def stream(
        self, model: Model, data: Data, params: dict[str, np.ndarray], hyper: Values
    ) -> Stream:
        """The stream that led to these parameters of q: a plain fit is one of a single piece."""


def inferred(part: object) -> dict[str, Hyperprior]:
    """The hyperpriors of a prior or likelihood, by its own names of what is inferred.

    >>> from thali import LinearGaussian
    >>> inferred(LinearGaussian(sigma_x=1.0).resolve(Data.of([[1.0]]))).keys()
    dict_keys(['sigma_a'])
    """
    found = {name: getattr(part, name) for name in hyperparameters_of(part)}
    return {name: value for name, value in found.items() if isinstance(value, Hyperprior)}
