"""What the two forms of a search have in common: A integrated out (``polish.py``), or binary
parameters kept at their best (``kept_polish.py``).

A form makes the problem of a search, tells the log joint of an answer, and polishes it: a pass of
changes of bits, then hyperparameters that have hyperpriors go to where the log joint plus their log
densities is highest, one after the other until they stay.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic

import numpy as np

from thali.data import Data
from thali.engines.maximum import best_number
from thali.engines.search.candidates import Candidate, KeptT, SearchProblem
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import Parameters
from thali.model import Model

WIDE = 3.0  # of log value: how far a hyperparameter may go in one look
ROUNDS = 20


@dataclass
class Answer:
    """A whole matrix, its rows in the order of the data, with hyperparameters."""

    Z: np.ndarray
    hyper: Values
    value: float  # the log joint and the log densities of hyperparameters
    parameters: Parameters = field(default_factory=dict)  # those that are kept


@dataclass(frozen=True)
class Form(ABC, Generic[KeptT]):
    """A model and data to search."""

    model: Model
    data: Data

    heuristics: ClassVar[tuple[str, ...]]  # the first is what "auto" means

    @abstractmethod
    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> SearchProblem[KeptT]:
        """The problem with rows in this order."""

    def parameters(self, Z: np.ndarray, hyper: Values) -> Parameters:
        """The parameters that are kept, to begin from a Z; none where A is integrated out."""
        return {}

    def found(
        self, problem: SearchProblem[KeptT], candidate: Candidate[KeptT]
    ) -> tuple[Parameters, float]:
        """Parameters of a whole matrix, and a bound of what others of the same Z may come to."""
        return {}, -np.inf

    def completed(
        self,
        problem: SearchProblem[KeptT],
        candidate: Candidate[KeptT],
        order: np.ndarray,
        hyper: Values,
    ) -> Answer:
        """A candidate of some rows as an answer, the others coded by what these have found."""
        Z = np.zeros((self.data.n, candidate.k), bool)
        Z[order[: candidate.rows]] = candidate.matrix()
        Z, parameters = self.coded(problem, candidate, Z, order[candidate.rows :], hyper)
        used = Z.any(axis=0)
        return self.answer(Z[:, used], {name: a[used] for name, a in parameters.items()}, hyper)

    @abstractmethod
    def coded(
        self,
        problem: SearchProblem[KeptT],
        candidate: Candidate[KeptT],
        Z: np.ndarray,
        rest: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        """Z with bits in the rows ``rest`` too, and parameters to go with it."""

    @abstractmethod
    def log_joint(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> float:
        """What is maximized, but for the log densities of hyperparameters."""

    @abstractmethod
    def climb(
        self, rng: np.random.Generator, Z: np.ndarray, parameters: Parameters, hyper: Values
    ) -> tuple[np.ndarray, Parameters]:
        """One pass of changes of Z and the parameters."""

    @abstractmethod
    def log_joint_by_hyper(
        self, Z: np.ndarray, parameters: Parameters
    ) -> Callable[[Values], float]:
        """The log joint as a function of the hyperparameters, quickly."""

    def hyperpriors(self, Z: np.ndarray) -> Mapping[str, Hyperprior]:
        """Of the hyperparameters that Z has a say in."""
        return self.model.hyperpriors

    def answer(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> Answer:
        """A matrix with its value."""
        densities = sum(p.log_density(hyper[name]) for name, p in self.model.hyperpriors.items())
        value = float(self.log_joint(Z, parameters, hyper)) + densities
        return Answer(Z, dict(hyper), value, parameters)

    def improve(self, rng: np.random.Generator, answer: Answer) -> tuple[Answer, float]:
        """One pass, then hyperparameters, and what was gained; nothing changes for the worse."""
        Z, parameters = self.climb(rng, answer.Z, answer.parameters, answer.hyper)
        found = self.answer(Z, parameters, self.best_hyper(Z, parameters, answer.hyper))
        before = self.answer(answer.Z, answer.parameters, answer.hyper)
        gain = found.value - before.value
        if not gain > 0.0:
            found, gain = answer, 0.0
        return Answer(found.Z, found.hyper, answer.value + gain, found.parameters), gain

    def best_hyper(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> Values:
        """Hyperparameters with hyperpriors at their best, in turn until they stay."""
        hyper, hyperpriors = dict(hyper), self.hyperpriors(Z)
        if not hyperpriors:
            return hyper
        log_joint = self.log_joint_by_hyper(Z, parameters)

        def value(numbers: Values) -> float:
            densities = sum(p.log_density(numbers[name]) for name, p in hyperpriors.items())
            return log_joint(numbers) + densities

        before = value(hyper)
        for _ in range(ROUNDS):
            for name, hyperprior in hyperpriors.items():

                def alone(at: float, name: str = name) -> float:
                    return value({**hyper, name: at})

                hyper[name] = best_number(alone, hyper[name], WIDE, 1e-7, hyperprior.probability)
            now = value(hyper)
            if now - before < 1e-8 * (1.0 + abs(now)):
                break
            before = now
        return hyper
