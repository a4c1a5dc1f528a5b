"""What the forms of a search have in common: A integrated out (``polish.py``), or parameters
kept at their best: binary ones (``kept_polish.py``), or real ones (``nonnegative_polish.py``).

A form makes the problem of a search, tells the log joint of an answer, and polishes it: a pass of
changes of bits, then hyperparameters that have hyperpriors go to where the log joint plus their log
densities is highest, one after the other until they stay. Where that gains nothing more, matrices
with other columns may (``columns.py``), the best of them given a pass to show it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
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
GAINED = 1e-6  # of log probability: what gains less is not worth another pass


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
    lacks: ClassVar[str] = ""  # what other heuristics need, and why it is not there
    gained: ClassVar[float] = GAINED
    second_looks: ClassVar[int] = 1  # passes that a matrix with other columns gets

    @abstractmethod
    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> SearchProblem[KeptT]:
        """The problem with rows in this order."""

    def parameters(
        self, Z: np.ndarray, hyper: Values, given: Parameters | None = None
    ) -> Parameters:
        """The parameters that are kept, to begin from a Z and those that a start knows; none where
        A is integrated out. Their first axis is that of features."""
        return {}

    def found(
        self, problem: SearchProblem[KeptT], candidate: Candidate[KeptT], order: np.ndarray
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
        Z, parameters = self.coded(problem, candidate, Z, order, hyper)
        used = Z.any(axis=0)
        return self.answer(Z[:, used], {name: a[used] for name, a in parameters.items()}, hyper)

    @abstractmethod
    def coded(
        self,
        problem: SearchProblem[KeptT],
        candidate: Candidate[KeptT],
        Z: np.ndarray,
        order: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        """Z with bits in the rows that the candidate has not come to too, and parameters to go with
        it."""

    @abstractmethod
    def log_joint(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> float:
        """What is maximized, but for the log densities of hyperparameters."""

    def offset(self, answer: Answer) -> float:
        """What the log joint that people are shown is above what is maximized."""
        return 0.0

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
        gain = found.value - answer.value
        return (found, gain) if gain > 0.0 else (answer, 0.0)

    def rearrangements(
        self, rng: np.random.Generator, answer: Answer
    ) -> Iterable[tuple[np.ndarray, Parameters]]:
        """A few matrices with other columns, the most promising first."""
        return ()

    def rearrange(self, rng: np.random.Generator, answer: Answer) -> tuple[Answer, float]:
        """The first matrix with other columns that passes over its bits make better, and what was
        gained, hyperparameters being as they are; or the answer."""
        hyper = answer.hyper
        before = self.log_joint(answer.Z, answer.parameters, hyper)
        for Z, parameters in self.rearrangements(rng, answer):
            now = self.log_joint(Z, parameters, hyper)
            for _ in range(self.second_looks):
                if now > before + self.gained:
                    break
                Z, parameters = self.climb(rng, Z, parameters, hyper)
                last, now = now, self.log_joint(Z, parameters, hyper)
                if now < last + self.gained:
                    break
            if now > before + self.gained:
                gain = now - before
                return Answer(Z, dict(hyper), answer.value + gain, parameters), gain
        return answer, 0.0

    def best_hyper(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> Values:
        """Hyperparameters with hyperpriors at their best, in turn until they stay: first those of
        the prior, then those of the likelihood, since given Z neither has a say in the others."""
        hyper, hyperpriors = dict(hyper), self.hyperpriors(Z)
        if not hyperpriors:
            return hyper
        log_joint = self.log_joint_by_hyper(Z, parameters)

        def value(numbers: Values) -> float:
            densities = sum(p.log_density(numbers[name]) for name, p in hyperpriors.items())
            return log_joint(numbers) + densities

        before = value(hyper)
        for labels in self.model.labels.values():
            own = {name: hyperpriors[name] for name in labels.values() if name in hyperpriors}
            for _ in range(ROUNDS if own else 0):
                for name, hyperprior in own.items():

                    def alone(at: float, name: str = name) -> float:
                        return value({**hyper, name: at})

                    probability = hyperprior.probability
                    hyper[name] = best_number(alone, hyper[name], WIDE, 1e-7, probability)
                now = value(hyper)
                if now - before < 1e-8 * (1.0 + abs(now)):
                    break
                before = now
        return hyper
