r"""The search with binary parameters Y kept at their best, and the polish of its answer.

A pass takes one feature after the other, turns its bits with its y at their best, and gives a row a
feature of its own where that is better (``kernels/climb_kept``); then all of Y is set to its best
given Z, where there are few features. The log joint depends on hyperparameters through the counts
n_cx of entries with value x and c active features. Where there is no feature, only the hyperpriors
of λ and p would speak of them: they stay.
"""

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from thali.data import Data
from thali.engines.filtering.coding import coded_by_counts
from thali.engines.search.candidates import Candidate, SearchProblem
from thali.engines.search.forms import Form
from thali.engines.search.kept_candidates import MOST_FEATURES, MOST_NEW, KeptLists, KeptProblem
from thali.engines.search.prior_bounds import SearchPrior
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.search_rows import CountedFeatures
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.structures.features import feature_counts, potentials

FEW = 10  # features up to which the best Y is found by looking at all of them


class KeptForm(Form[KeptLists]):
    """The log joint is log P(X, Y, [Z]), the parameters being A = Y."""

    heuristics = ("trivial", "inadmissible", "admissible")

    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> KeptProblem:
        fixed, X = self.model.at(hyper), np.ascontiguousarray(self.data.binary[order])
        likelihood = cast(CountedFeatures, fixed.likelihood)
        probabilities = likelihood.count_probabilities(MOST_FEATURES + MOST_NEW)
        return KeptProblem(X, cast(SearchPrior, fixed.prior), probabilities, bound)

    def parameters(
        self, Z: np.ndarray, hyper: Values, given: Parameters | None = None
    ) -> Parameters:
        """Y at its best given Z; with many features idle, until polishing makes them active."""
        idle = np.zeros((Z.shape[1], self.data.d), np.uint8)
        likelihood = cast(CountedFeatures, self.model.likelihood_at(hyper))
        return {"A": best_parameters(likelihood, self.data.binary, Z, idle)}

    def found(
        self, problem: SearchProblem[KeptLists], candidate: Candidate[KeptLists], order: np.ndarray
    ) -> tuple[Parameters, float]:
        assert isinstance(problem, KeptProblem)
        doubt = -np.inf if problem.is_exact(candidate) else candidate.score
        return {"A": problem.parameters(candidate)}, doubt

    def coded(
        self,
        problem: SearchProblem[KeptLists],
        candidate: Candidate[KeptLists],
        Z: np.ndarray,
        order: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        assert isinstance(problem, KeptProblem)
        Y, m = problem.parameters_so_far(candidate), problem.kept(candidate).m
        table = np.ascontiguousarray(problem.entries.table[: candidate.k + 1])
        Z[order[candidate.rows :]] = coded_by_counts(
            problem.X[candidate.rows :], Y, table, m, candidate.rows
        )
        return Z, {"A": Y}

    def log_joint(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> float:
        fixed, Y = self.model.at(hyper), parameters["A"]
        density = log_density_of(
            cast(CountedFeatures, fixed.likelihood), count_table(self.data.binary, Z, Y), Y
        )
        return float(fixed.prior.log_prob(Z)) + density

    def climb(
        self, rng: np.random.Generator, Z: np.ndarray, parameters: Parameters, hyper: Values
    ) -> tuple[np.ndarray, Parameters]:
        Z, Y = climb(self.model.at(hyper), self.data, Z, parameters["A"])
        return Z, {"A": Y}

    def hyperpriors(self, Z: np.ndarray) -> Mapping[str, Hyperprior]:
        found, own = self.model.hyperpriors, self.model.labels["likelihood"]
        likelihood = cast(CountedFeatures, self.model.likelihood)
        idle = () if Z.shape[1] else [own[name] for name in likelihood.of_features]
        return {name: each for name, each in found.items() if name not in idle}

    def log_joint_by_hyper(
        self, Z: np.ndarray, parameters: Parameters
    ) -> Callable[[Values], float]:
        """Through the counts of entries."""
        Y = parameters["A"]
        counts, entries = feature_counts(Z), count_table(self.data.binary, Z, Y)

        def value(numbers: Values) -> float:
            fixed = self.model.at(numbers)
            density = log_density_of(cast(CountedFeatures, fixed.likelihood), entries, Y)
            return density + float(fixed.prior.log_prob_counts(counts))

        return value


def log_density_of(likelihood: CountedFeatures, counts: np.ndarray, Y: np.ndarray) -> float:
    """log P(X, Y | Z) from n_cx and Y."""
    (table, on, off), active = likelihood.count_probabilities(len(Y)), float(Y.sum())
    return float((counts * table).sum() + active * on + (Y.size - active) * off)


def count_table(X: np.ndarray, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """n_cx: how many entries have c active features and value x, (K + 1, 2)."""
    C = np.rint(Z.astype(float) @ Y.astype(float)).astype(np.int64)
    size = 2 * (Z.shape[1] + 1)
    return np.bincount((2 * C + X).ravel(), minlength=size).reshape(-1, 2)


def best_parameters(
    likelihood: CountedFeatures, X: np.ndarray, Z: np.ndarray, otherwise: np.ndarray
) -> np.ndarray:
    """The best Y given Z where there are few features, else ``otherwise``."""
    from thali.kernels.climb_kept import best_states

    if Z.shape[1] > FEW:
        return otherwise
    table, on, off = likelihood.count_probabilities(Z.shape[1])
    return np.asarray(best_states(X, np.ascontiguousarray(Z, np.uint8), table, on, off))


def climb(model: Model, data: Data, Z: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One pass, hyperparameters being numbers."""
    from thali.kernels.climb_kept import climb as climb_kept

    likelihood = cast(CountedFeatures, model.likelihood)
    tables = cast(PredictsRow, model.prior).tables(data.n)
    Z, Y = np.array(Z, np.uint8, order="C"), Y.copy()
    table, on, off = likelihood.count_probabilities(Z.shape[1] + 1)
    potential = potentials(tables)
    climb_kept(data.binary, Z, Y, table, on, off, potential, tables.capacity)
    used = Z.any(axis=0)
    Z, Y = own_features(
        model, data, np.ascontiguousarray(Z[:, used]), np.ascontiguousarray(Y[used])
    )
    return Z.astype(bool), best_parameters(likelihood, data.binary, Z, Y)


def own_features(
    model: Model, data: Data, Z: np.ndarray, Y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give each row a feature of its own where that is better; rows do not touch each other's."""
    likelihood = cast(CountedFeatures, model.likelihood)
    X, tables = data.binary, cast(PredictsRow, model.prior).tables(data.n)
    weight, capacity = tables.new_log_weight, tables.capacity
    table, on, off = likelihood.count_probabilities(Z.shape[1] + 1)
    C = np.rint(Z.astype(float) @ Y.astype(float)).astype(np.int64)
    active = on - off + table[C + 1, X] - table[C, X]
    own = Z[:, Z.sum(axis=0) == 1].sum(axis=1)
    gain = np.maximum(active, 0.0).sum(axis=1) + data.d * off + weight - np.log(own + 1.0)
    columns, states = [Z], [Y]
    for i in np.argsort(-gain, kind="stable"):
        free = capacity - Z.shape[1] - len(columns) + 1
        if capacity >= 0 and free == 0:
            break
        if gain[i] + (0.0 if capacity < 0 else np.log(free)) <= 0.0:
            break
        columns.append((np.arange(data.n) == i).astype(np.uint8)[:, None])
        states.append((active[i] > 0.0).astype(np.uint8)[None])
    return np.concatenate(columns, axis=1), np.concatenate(states)
