"""What the trunk asks of a latent structure, whatever it is.

The loop, the trace, checkpoints, files, starts and point estimates hold values of a structure (a
binary matrix, a vector of labels) without looking inside: they ask the structure to pack a value,
to bring it to its canonical form, to count it, to estimate one from many, to change it a little.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

Latent = TypeVar("Latent")
LARGEST = 200  # draws looked at, evenly spaced: a loss is an average, and converges fast
WORK = 1e8  # numbers looked at in all


class PointEstimate(NamedTuple, Generic[Latent]):
    """A value that stands for many, the probabilities of what it says, and its expected loss."""

    latent: Latent
    probabilities: np.ndarray
    loss: float


class Structure(ABC, Generic[Latent]):
    """A kind of latent object. Structures are equal when their names are.

    ``component`` is what one of its parts is called ("feature", "cluster"), ``name`` what a whole
    is, in the plural.
    """

    name: ClassVar[str]
    component: ClassVar[str]
    answer: ClassVar[str] = "latent_"  # the attribute of a fitted model that holds its value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    # a value and its parts

    @abstractmethod
    def n_components(self, latent: Latent) -> int:
        """How many components the value has."""

    @abstractmethod
    def empty(self, n: int) -> Latent:
        """The value that knows nothing, for n rows."""

    @abstractmethod
    def canonical(self, latent: Latent) -> Latent:
        """The one form of all values that differ only in the order of their components."""

    @abstractmethod
    def counts(self, latent: Latent) -> Any:
        """The sufficient statistics of the value for an exchangeable prior."""

    @abstractmethod
    def check(self, owner: str, given: object, n: int | None = None) -> Latent:
        """A value as a user gives it to begin from, or a refusal in the name of ``owner``."""

    # many values

    @abstractmethod
    def pack(self, latent: Latent) -> np.ndarray:
        """The value in little space."""

    @abstractmethod
    def unpack(self, packed: np.ndarray, n: int) -> Latent:
        """The value of n rows that was packed."""

    @abstractmethod
    def join(self, packed: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Many packed values as a few arrays, for a file."""

    @abstractmethod
    def split(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The packed values that were joined."""

    @abstractmethod
    def point_estimate(
        self, draws: Sequence[Latent], log_joints: np.ndarray
    ) -> PointEstimate[Latent]:
        """The value with the least expected loss over draws of equal weight."""

    def draws_to_use(self, n: int, k: int) -> int:
        """How many draws an estimate looks at: fewer where each of them is large."""
        return int(np.clip(WORK / (n * max(k, 1)), 20, LARGEST))

    # a search among values

    @abstractmethod
    def distance(self, a: Latent, b: Latent) -> float:
        """How much two values differ, whatever the order of their components."""

    @abstractmethod
    def changed(self, rng: np.random.Generator, latent: Latent, capacity: int) -> Latent:
        """The value with a component or two changed at random, for a search to try.

        It has at most ``capacity`` components where that is not negative.
        """


AnyStructure = Structure[Any]  # whatever its values


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """At most ``most`` evenly spaced positions among ``count``.

    >>> evenly_spaced(10, 3).tolist()
    [0, 4, 9]
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
