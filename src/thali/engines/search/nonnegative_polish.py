r"""The search with nonnegative features kept at their best, and the polish of its answer.

A pass takes one feature after the other, turns its bits with its a at its best, and gives a row a
feature of its own where that is better (``kernels/search_nonnegative``); then all of A is set to
its best given Z. Other columns are proposed as if A were integrated out and of either sign.

σ_x goes to its best with A. σ_a stays where it is: in the units of the features themselves it would
grow, in those of the data shrink without end, as there is no mode of features and their scale.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import cast

import numpy as np

from thali.engines.search.candidates import Candidate, SearchProblem
from thali.engines.search.columns import rearranged
from thali.engines.search.forms import Answer
from thali.engines.search.nonnegative_candidates import (
    HIGHEST,
    KeptFeatures,
    NonnegativeProblem,
    log_shape,
    unit_of,
)
from thali.engines.search.polish import HasScales
from thali.engines.search.prior_bounds import SearchPrior
from thali.engines.search.real_polish import RealForm
from thali.hyperparameters import Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.search_rows import PositiveFeatures
from thali.priors.base import PredictsRow
from thali.structures.features import feature_counts, potentials

TRIALS = 3  # matrices with other columns that get a pass of their own


class NonnegativeForm(RealForm[KeptFeatures]):
    """What is maximized is log P(X, A/s, [Z]), s the unit of features."""

    heuristics = ("inadmissible", "trivial", "admissible")

    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> NonnegativeProblem:
        scales = self.model.likelihood_values(hyper)
        sigmas = float(scales["sigma_x"]), float(scales["sigma_a"])
        prior = cast(SearchPrior, self.model.prior_at(hyper))
        X = np.ascontiguousarray(self.data.X[order])
        return NonnegativeProblem(X, prior, *sigmas, bound, self._law)

    @property
    def _law(self) -> str:
        return cast(PositiveFeatures, self.model.likelihood).law

    def parameters(
        self, Z: np.ndarray, hyper: Values, given: Parameters | None = None
    ) -> Parameters:
        return {"A": self._best(Z, np.zeros((Z.shape[1], self.data.d)), hyper)}

    def _best(self, Z: np.ndarray, A: np.ndarray, hyper: Values) -> np.ndarray:
        """A at its best given Z, from A on."""
        if not Z.shape[1]:
            return np.zeros((0, self.data.d))
        problem, real = self.problem(np.arange(0), hyper, "convex"), Z.astype(float)
        C, T = real.T @ real, real.T @ self.data.X
        return problem.settled(C, T, A.copy(), 0.0, np.zeros(0, np.uint8)).A

    def found(
        self,
        problem: SearchProblem[KeptFeatures],
        candidate: Candidate[KeptFeatures],
        order: np.ndarray,
    ) -> tuple[Parameters, float]:
        return {"A": problem.kept(candidate).A}, -np.inf

    def coded(
        self,
        problem: SearchProblem[KeptFeatures],
        candidate: Candidate[KeptFeatures],
        Z: np.ndarray,
        order: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        """Each row in one go over its bits, given A."""
        assert isinstance(problem, NonnegativeProblem)
        kept, variance = problem.kept(candidate), problem.sigma_x**2
        left = problem.X[candidate.rows :].copy()
        odds = np.log(kept.m / max(candidate.rows + 1.0 - kept.m.max(initial=0), 1.0))
        for k in np.argsort(-np.square(kept.A).sum(axis=1), kind="stable"):
            a = kept.A[k]
            takes = (2.0 * left @ a - a @ a) / (2.0 * variance) + odds[k] > 0.0
            Z[order[candidate.rows :][takes], k] = True
            left[takes] -= a
        return Z, {"A": self._best(Z, kept.A, hyper)}

    def log_joint(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> float:
        counts, A = feature_counts(Z), parameters["A"]
        left = float(np.square(self.data.X - Z.astype(float) @ A).sum())
        return self._value(
            hyper, left, A, float(self.model.prior_at(hyper).log_prob_counts(counts))
        )

    def _value(self, hyper: Values, left: float, A: np.ndarray, log_prior: float) -> float:
        scales = self.model.likelihood_values(hyper)
        sigma_x, sigma_a = float(scales["sigma_x"]), float(scales["sigma_a"])
        noise = -0.5 * self.data.X.size * np.log(2.0 * np.pi * sigma_x**2) - 0.5 * left / sigma_x**2
        features = A.size * HIGHEST + log_shape(self._law, A, sigma_a)
        return float(noise + features + log_prior)

    def offset(self, answer: Answer) -> float:
        scales = self.model.likelihood_values(answer.hyper)
        return -answer.parameters["A"].size * float(np.log(unit_of(self._law, scales["sigma_a"])))

    def climb(
        self, rng: np.random.Generator, Z: np.ndarray, parameters: Parameters, hyper: Values
    ) -> tuple[np.ndarray, Parameters]:
        from thali.kernels.search_nonnegative import climb

        problem, X = self.problem(np.arange(0), hyper, "convex"), self.data.X
        tables = cast(PredictsRow, self.model.prior_at(hyper)).tables(self.data.n)
        each, variance = self.data.d * HIGHEST, problem.sigma_x**2
        Z, A = np.array(Z, np.uint8, order="C"), parameters["A"].copy()
        lam, capacity = potentials(tables), tables.capacity
        climb(X, Z, A, lam, each, capacity, variance, problem.r, problem.pull)
        Z, A = self._own_features(Z, A, lam[1] + each, capacity, problem)
        used = Z.any(axis=0)
        Z, A = Z[:, used].astype(bool), np.ascontiguousarray(A[used])
        return Z, {"A": self._best(Z, A, hyper)}

    def _own_features(
        self,
        Z: np.ndarray,
        A: np.ndarray,
        weight: float,
        capacity: int,
        problem: NonnegativeProblem,
    ) -> tuple[np.ndarray, np.ndarray]:
        """One more feature of its own for each row where that is better; rows do not touch each
        other's."""
        used, variance, r = Z.any(axis=0), problem.sigma_x**2, problem.r
        left = np.maximum(self.data.X - Z.astype(float) @ A - problem.pull, 0.0)
        gain = np.square(left).sum(axis=1) / (2.0 * variance * (1.0 + r)) + weight
        gain -= np.log(1.0 + Z[:, Z.sum(axis=0) == 1].sum(axis=1))  # those it has already
        free = -1 if capacity < 0 else capacity - int(used.sum())
        new: list[int] = []
        for n in np.argsort(-gain, kind="stable"):
            if free == len(new) or gain[n] + (0.0 if free < 0 else np.log(free - len(new))) <= 1e-9:
                break
            new.append(int(n))
        bits = (np.arange(len(Z))[:, None] == np.array(new, int)).astype(np.uint8)
        rows = left[np.array(new, int)] / (1.0 + r)
        return np.concatenate([Z, bits], axis=1), np.concatenate([A, rows])

    def rearrangements(
        self, rng: np.random.Generator, answer: Answer
    ) -> Iterator[tuple[np.ndarray, Parameters]]:
        from thali.kernels.gaussian_row import Scales

        fixed = self.model.at(answer.hyper)
        likelihood = cast(HasScales, fixed.likelihood)
        scales = Scales(likelihood.sigma_x, likelihood.sigma_a, float(self.data.d))
        tables = cast(PredictsRow, fixed.prior).tables(self.data.n)
        X, lam = self.data.X, potentials(tables)
        for Z in islice(rearranged(rng, answer.Z, X, scales, lam, tables.capacity), TRIALS):
            yield Z, self.parameters(Z, answer.hyper)

    def _by_scales(self, Z: np.ndarray, parameters: Parameters) -> Callable[[Values, float], float]:
        A = parameters["A"]
        left = float(np.square(self.data.X - Z.astype(float) @ A).sum())
        return lambda numbers, log_prior: self._value(numbers, left, A, log_prior)
