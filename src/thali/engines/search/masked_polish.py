"""The search with A integrated out where entries of X are missing, and its polishing.

A pass goes over all rows and gives each the bits and features of its own that are best given the
other rows, by what it shows: all 2^K up to 10 features, those of a beam within the row beyond. That
takes long, so matrices with other columns get no pass before one is taken. They are chosen by
guesses in the gaps, and judged by what was observed.
"""

from collections.abc import Callable
from typing import cast

import numpy as np

from thali.engines.base import inferred
from thali.engines.filtering.gaps import Gaps
from thali.engines.search.candidates import Candidate, Kept, SearchProblem
from thali.engines.search.masked_candidates import MaskedProblem
from thali.engines.search.polish import Integrated, log_prior_of
from thali.hyperparameters import Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.gaussian_scales import LEAST
from thali.structures.features import feature_counts


class MaskedIntegrated(Integrated):
    """The log joint is log P(X_o, [Z]) of what was observed."""

    trials = 10
    second_looks = 0

    @property
    def gaps(self) -> Gaps:
        return self.data.once("search_gaps", lambda: Gaps.of(self.data))

    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> MaskedProblem:
        plain = super().problem(order, hyper, bound)
        return MaskedProblem(**vars(plain), gaps=self.gaps.in_order(order))

    def coded(
        self,
        problem: SearchProblem[Kept],
        candidate: Candidate[Kept],
        Z: np.ndarray,
        order: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        arrays, sigma_x = problem.kept(candidate).arrays, self.model.likelihood_values(hyper)
        gaps = cast(MaskedProblem, problem).gaps
        Z[order[candidate.rows :]] = gaps.coded(
            arrays, 0, candidate.rows, float(sigma_x["sigma_x"])
        )
        return Z, {}

    def climb(
        self, rng: np.random.Generator, Z: np.ndarray, parameters: Parameters, hyper: Values
    ) -> tuple[np.ndarray, Parameters]:
        problem, Z = self.problem(np.arange(self.data.n), hyper, "convex"), Z.astype(bool)
        for n in rng.permutation(self.data.n):
            Z = problem.with_best_row(Z, int(n))
        return Z, {}

    def log_joint_by_hyper(
        self, Z: np.ndarray, parameters: Parameters
    ) -> Callable[[Values], float]:
        """Through the eigenvalues of each column's Z_oᵀZ_o, as one column of all entries."""
        from thali.kernels.evidence import log_evidence

        model, data, gaps = self.model, self.data, self.gaps
        counts, real = feature_counts(Z), Z.astype(float)
        T, eigenvalues, lengths = real.T @ gaps.X, [np.zeros(0)], [np.zeros(0)]
        for g in range(gaps.groups):
            there = real[gaps.shown[:, g]]
            values, U = np.linalg.eigh(there.T @ there)
            turned = np.square(U.T @ T[:, gaps.start[g] : gaps.start[g + 1]])
            eigenvalues.append(np.repeat(np.maximum(values, 0.0), turned.shape[1]))
            lengths.append(turned.ravel())
        d, t = np.concatenate(eigenvalues), np.concatenate(lengths)
        cut = "sigma_x" in inferred(model.likelihood)
        total, scale = float(data.total_square), float(np.sqrt(data.mean_square))
        entries = int(gaps.entries.sum())
        of_prior = log_prior_of(model.prior, counts)

        def value(numbers: Values) -> float:
            scales = model.likelihood_values(numbers)
            sigma_x, sigma_a = scales["sigma_x"], scales["sigma_a"]
            if cut and sigma_x < LEAST * max(scale, sigma_a):
                return -np.inf  # where its hyperprior is cut off, as in sampling
            fit = log_evidence(d, t, total, entries, 1.0, sigma_x, sigma_a)
            return float(fit) + of_prior(*model.own_values("prior", numbers).items())

        return value
