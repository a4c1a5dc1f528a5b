r"""The search with amounts S at their best and A integrated out, and the polish of its answer.

A pass takes one row after the other, turns its bits with all its amounts at their best, those of
features of its own among them (``kernels/search_amounts``); then all amounts together go uphill to
a local maximum. σ_x goes to its best given Z and S. σ_a stays where it is: else features would grow
and amounts shrink towards zero, where their slab is the highest.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from scipy.optimize import minimize

from thali.engines.search.amounts_candidates import AmountsProblem, KeptAmounts, log_density
from thali.engines.search.candidates import Candidate, SearchProblem
from thali.engines.search.prior_bounds import SearchPrior
from thali.engines.search.real_polish import RealForm
from thali.hyperparameters import Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.search_rows import SlabAmounts
from thali.priors.base import PredictsRow
from thali.structures.features import feature_counts, potentials

SPARE = 4  # features more than there are that a pass may open
FIRST = 3  # passes over amounts that are not known


class AmountsForm(RealForm[KeptAmounts]):
    """The log joint is log P(X, S, [Z]); parameters are A = E[A | X, W] and S, each by features."""

    heuristics = ("inadmissible", "trivial")
    gained = 1e-3  # since scales and amounts go uphill in turn, by ever less
    lacks = "more than is known of rows where amounts are at their best"

    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> AmountsProblem:
        scales = self.model.likelihood_values(hyper)
        laplace = cast(SlabAmounts, self.model.likelihood).slab == "laplace"
        sigmas = float(scales["sigma_x"]), float(scales["sigma_a"])
        prior = cast(SearchPrior, self.model.prior_at(hyper))
        X = np.ascontiguousarray(self.data.reduced[order])
        return AmountsProblem(X, self.data.d, prior, *sigmas, laplace, bound)

    def _whole(self, hyper: Values) -> AmountsProblem:
        return self.problem(np.arange(self.data.n), hyper, "convex")

    def _with_features(self, Z: np.ndarray, S: np.ndarray, problem: AmountsProblem) -> Parameters:
        """A and S by features, from S by rows."""
        real, r = np.where(Z, S, 0.0), problem.numbers[0]
        A = np.linalg.solve(real.T @ real + r * np.eye(Z.shape[1]), real.T @ self.data.X)
        return {"A": A, "S": np.ascontiguousarray(real.T)}

    def parameters(
        self, Z: np.ndarray, hyper: Values, given: Parameters | None = None
    ) -> Parameters:
        """Amounts that are best row by row, from those given on, or from 1."""
        if given and "S" in given:
            S = self._settled(Z, np.where(Z, given["S"].T, 0.0), hyper, 1)
        else:
            S = self._settled(Z, Z.astype(float), hyper, FIRST)
        return self._with_features(Z, S, self._whole(hyper))

    def _settled(self, Z: np.ndarray, S: np.ndarray, hyper: Values, passes: int) -> np.ndarray:
        from thali.kernels.search_amounts import settle_rows

        problem, S = self._whole(hyper), np.array(S, order="C")
        bits, every = np.ascontiguousarray(Z, np.uint8), np.arange(len(Z))
        for _ in range(passes if Z.shape[1] else 0):
            C, T = S.T @ S, S.T @ problem.X
            settle_rows(problem.X, bits, S, C, T, every, *problem.numbers)
        return S

    def found(
        self,
        problem: SearchProblem[KeptAmounts],
        candidate: Candidate[KeptAmounts],
        order: np.ndarray,
    ) -> tuple[Parameters, float]:
        assert isinstance(problem, AmountsProblem)
        kept = problem.kept(candidate)
        Z, S = np.zeros(kept.Z.shape, bool), np.zeros(kept.S.shape)
        Z[order], S[order] = kept.Z, kept.S
        return self._with_features(Z, S, problem), np.inf

    def coded(
        self,
        problem: SearchProblem[KeptAmounts],
        candidate: Candidate[KeptAmounts],
        Z: np.ndarray,
        order: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        """Each of the rows that are left in turn, given all before it; none opens a feature."""
        assert isinstance(problem, AmountsProblem)
        bits, S = np.ascontiguousarray(Z, np.uint8), np.zeros(Z.shape)
        S[order[: candidate.rows]] = problem.kept(candidate).S
        self._climbed(bits, S, order[candidate.rows :], hyper)
        return bits.astype(bool), self._with_features(bits, S, problem)

    def climb(
        self, rng: np.random.Generator, Z: np.ndarray, parameters: Parameters, hyper: Values
    ) -> tuple[np.ndarray, Parameters]:
        bits = np.ascontiguousarray(np.pad(Z, ((0, 0), (0, SPARE))), np.uint8)
        S = np.ascontiguousarray(np.pad(parameters["S"].T, ((0, 0), (0, SPARE))))
        self._climbed(bits, S, rng.permutation(len(Z)), hyper)
        used = bits.any(axis=0)
        Z, S = bits[:, used].astype(bool), self._refined(bits[:, used], S[:, used], hyper)
        return Z, self._with_features(Z, S, self._whole(hyper))

    def _climbed(self, bits: np.ndarray, S: np.ndarray, rows: np.ndarray, hyper: Values) -> float:
        from thali.kernels.search_amounts import climb

        problem, prior = self._whole(hyper), cast(PredictsRow, self.model.prior_at(hyper))
        tables = prior.tables(self.data.n)
        lam, capacity = potentials(tables), tables.capacity
        return float(climb(problem.X, bits, S, rows, lam, capacity, *problem.numbers))

    def _refined(self, bits: np.ndarray, S: np.ndarray, hyper: Values) -> np.ndarray:
        """All amounts at once at a local maximum, by their gradient; under a Laplace slab each
        stays on its side of zero, where it is smooth. With R = X − Wμ that is

            ∂ log P(X | W) / ∂W = Rμᵀ/σ_x² − D W M
        """
        problem, on = self._whole(hyper), bits != 0
        r, d, variance, laplace = problem.numbers
        X, squares = problem.X, float(np.square(problem.X).sum())
        if not on.any():
            return S
        sides = np.sign(S[on])

        def downhill(s: np.ndarray) -> tuple[float, np.ndarray]:
            W = np.zeros(S.shape)
            W[on] = s
            C, T = W.T @ W, W.T @ X
            M = np.linalg.inv(C + r * np.eye(len(C)))
            mu = M @ T
            slope = ((X - W @ mu) @ mu.T / variance - d * (W @ M))[on]
            slope -= sides if laplace else s
            return -log_density(C, T, squares, len(X), problem, s), -slope

        ends = [(0.0, None) if side >= 0.0 else (None, 0.0) for side in sides]
        found = minimize(
            downhill, S[on], jac=True, method="L-BFGS-B", bounds=ends if laplace else None
        )
        if not found.fun < downhill(S[on])[0]:
            return S
        best = np.zeros(S.shape)
        best[on] = found.x
        return best

    def log_joint(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> float:
        prior = float(self.model.prior_at(hyper).log_prob_counts(feature_counts(Z)))
        return self._density(Z, parameters)(hyper) + prior

    def _density(self, Z: np.ndarray, parameters: Parameters) -> Callable[[Values], float]:
        """log P(X, S | Z) by the scales."""
        from thali.kernels.evidence import log_evidence, spectrum

        X, S = self.data.reduced, parameters["S"].T
        eigenvalues, lengths = spectrum(S.T @ S, np.ascontiguousarray(S.T @ X))
        slab = cast(SlabAmounts, self.model.likelihood).log_slab(S[Z != 0])
        squares, n, d = float(np.square(X).sum()), len(S), float(self.data.d)

        def value(hyper: Values) -> float:
            scales = self.model.likelihood_values(hyper)
            sigmas = float(scales["sigma_x"]), float(scales["sigma_a"])
            return float(log_evidence(eigenvalues, lengths, squares, n, d, *sigmas) + slab)

        return value

    def _by_scales(self, Z: np.ndarray, parameters: Parameters) -> Callable[[Values, float], float]:
        density = self._density(Z, parameters)
        return lambda numbers, log_prior: density(numbers) + log_prior
