"""The two forms of a search: A integrated out, or binary parameters kept at their best.

Each makes the problem of a search, tells the log joint of an answer, and polishes it. An answer is
Z with hyperparameters, and the parameters if they are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.data import Data
from thali.engines.search import kept_polish, polish
from thali.engines.search.candidates import Candidate, Problem
from thali.engines.search.heuristics import ANY_MODEL, NAMES
from thali.engines.search.kept_candidates import MOST_DISHES, MOST_NEW, KeptProblem
from thali.likelihoods.base import CountedFeatures
from thali.model import Model

Parameters = dict[str, np.ndarray]


class Integrated:
    """A integrated out: the log joint is log P(X, [Z])."""

    heuristics = NAMES

    @staticmethod
    def problem(
        model: Model, data: Data, order: np.ndarray, hyper: dict[str, Any], bound: str
    ) -> Problem:
        scales = model.likelihood_values(hyper)
        return Problem(
            np.ascontiguousarray(data.reduced[order]),
            data.squares[order],
            data.d,
            model.prior_at(hyper),
            scales["sigma_x"],
            scales["sigma_a"],
            bound=bound,
        )

    @staticmethod
    def begin(model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Any]) -> Parameters:
        return {}

    @staticmethod
    def log_joint(
        model: Model, data: Data, Z: np.ndarray, parameters: Parameters, hyper: dict[str, Any]
    ) -> float:
        return model.at(hyper).log_joint(data, Z)

    @staticmethod
    def answer(problem: Problem, candidate: Candidate) -> tuple[Parameters, float]:
        """Parameters of a whole matrix, and a bound of what others of the same Z may come to."""
        return {}, -np.inf

    @staticmethod
    def improve(
        rng: np.random.Generator,
        model: Model,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, Any],
    ) -> tuple[np.ndarray, Parameters, dict[str, Any], float]:
        """One pass of polishing, and what was gained."""
        Z, hyper, gain = polish.improve(rng, model, data, Z, hyper)
        return Z, {}, hyper, gain


class Kept:
    """Y kept at its best: the log joint is log P(X, Y, [Z])."""

    heuristics = ANY_MODEL

    @staticmethod
    def problem(
        model: Model, data: Data, order: np.ndarray, hyper: dict[str, Any], bound: str
    ) -> KeptProblem:
        likelihood: Any = model.at(hyper).likelihood
        X = np.ascontiguousarray(data.binary[order])
        law = likelihood.count_probabilities(MOST_DISHES + MOST_NEW)
        return KeptProblem(X, model.prior_at(hyper), law, bound)

    @staticmethod
    def begin(model: Model, data: Data, Z: np.ndarray, hyper: dict[str, Any]) -> Parameters:
        """Y at its best given Z; with many causes idle, until polishing makes them active."""
        idle = np.zeros((Z.shape[1], data.d), np.uint8)
        fixed = model.at(hyper)
        return {"A": kept_polish.best_parameters(fixed.likelihood, data.binary, Z, idle)}

    @staticmethod
    def log_joint(
        model: Model, data: Data, Z: np.ndarray, parameters: Parameters, hyper: dict[str, Any]
    ) -> float:
        return kept_polish.log_joint(model, data, Z, parameters["A"], hyper)

    @staticmethod
    def answer(problem: KeptProblem, candidate: Candidate) -> tuple[Parameters, float]:
        doubt = -np.inf if problem.is_exact(candidate) else candidate.score
        return {"A": problem.parameters(candidate)}, doubt

    @staticmethod
    def improve(
        rng: np.random.Generator,
        model: Model,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, Any],
    ) -> tuple[np.ndarray, Parameters, dict[str, Any], float]:
        Z, Y, hyper, gain = kept_polish.improve(model, data, Z, parameters["A"], hyper)
        return Z, {"A": Y}, hyper, gain


def log_target(
    model: Model, data: Data, Z: np.ndarray, parameters: Parameters, hyper: dict[str, Any]
) -> float:
    """The log joint plus the logarithms of the laws of the hyperparameters."""
    laws = model.hyperpriors
    return float(form_of(model).log_joint(model, data, Z, parameters, hyper)) + sum(
        law.log_density(hyper[name]) for name, law in laws.items()
    )


def form_of(model: Model) -> Any:
    """The form that suits the model's likelihood."""
    return Kept if isinstance(model.likelihood, CountedFeatures) else Integrated


def heuristic_for(name: str, model: Model) -> str:
    """The heuristic that ``name`` means for this model, or a refusal with those that it has."""
    form = form_of(model)
    if name == "auto":
        return "inadmissible" if form is Integrated else "trivial"
    if name in form.heuristics:
        return name
    raise ValueError(
        f"BeamSearch: heuristic={name!r} needs features that can be integrated out, and those of "
        f"{type(model.likelihood).__name__} cannot; use 'auto', {', '.join(map(repr, ANY_MODEL))}."
    )
