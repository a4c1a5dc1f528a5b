r"""The search with A integrated out, and what is done once every row is in.

A pass goes over all rows, and sets each bit, and each row's number of features of its own, to the
likeliest value given all the rest. Then the most probable of the matrices with other columns get a
pass of their own.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import ClassVar, Protocol, cast

import numpy as np

from thali.data import Data
from thali.engines.base import inferred
from thali.engines.filtering.coding import coded
from thali.engines.search.candidates import Candidate, Kept, Problem, SearchProblem
from thali.engines.search.columns import rearranged
from thali.engines.search.forms import Answer, Form
from thali.engines.search.heuristics import NAMES
from thali.engines.search.prior_bounds import SearchPrior
from thali.hyperparameters import Values
from thali.likelihoods.base import Parameters
from thali.likelihoods.gaussian_scales import LEAST
from thali.model import Model
from thali.priors.base import PredictsRow, Prior
from thali.structures.features import FeatureCounts, feature_counts, potentials


class HasScales(Protocol):
    """A likelihood X = Z A + E at numbers."""

    sigma_x: float
    sigma_a: float


class Integrated(Form[Kept]):
    """The log joint is log P(X, [Z])."""

    heuristics = NAMES
    trials: ClassVar[int] = 3  # matrices with other columns that get a pass of their own

    def problem(self, order: np.ndarray, hyper: Values, bound: str) -> Problem:
        data = self.data.filled
        X, squares = np.ascontiguousarray(data.reduced[order]), data.squares[order]
        prior, scales = self.model.prior_at(hyper), self.model.likelihood_values(hyper)
        sigmas = scales["sigma_x"], scales["sigma_a"]
        return Problem(X, squares, self.data.d, cast(SearchPrior, prior), *sigmas, bound=bound)

    def coded(
        self,
        problem: SearchProblem[Kept],
        candidate: Candidate[Kept],
        Z: np.ndarray,
        order: np.ndarray,
        hyper: Values,
    ) -> tuple[np.ndarray, Parameters]:
        arrays, X = problem.kept(candidate).arrays, problem.X[candidate.rows :]
        sigma_x = float(self.model.likelihood_values(hyper)["sigma_x"])
        Z[order[candidate.rows :]] = coded(X, arrays, 0, candidate.rows, sigma_x)
        return Z, {}

    def log_joint(self, Z: np.ndarray, parameters: Parameters, hyper: Values) -> float:
        return self.model.at(hyper).log_joint(self.data, Z)

    def climb(
        self, rng: np.random.Generator, Z: np.ndarray, parameters: Parameters, hyper: Values
    ) -> tuple[np.ndarray, Parameters]:
        return climb(rng, self.model.at(hyper), self.data, Z), {}

    def rearrangements(
        self, rng: np.random.Generator, answer: Answer
    ) -> Iterator[tuple[np.ndarray, Parameters]]:
        from thali.kernels.gaussian_row import Scales

        fixed, X = self.model.at(answer.hyper), self.data.filled.reduced
        likelihood = cast(HasScales, fixed.likelihood)
        scales = Scales(likelihood.sigma_x, likelihood.sigma_a, float(self.data.d))
        tables = cast(PredictsRow, fixed.prior).tables(self.data.n)
        found = rearranged(rng, answer.Z, X, scales, potentials(tables), tables.capacity)
        for Z in islice(found, self.trials):
            yield Z, {}

    def log_joint_by_hyper(
        self, Z: np.ndarray, parameters: Parameters
    ) -> Callable[[Values], float]:
        """Through the eigenvalues of ZᵀZ."""
        from thali.kernels.evidence import log_evidence, spectrum

        model, data = self.model, self.data
        counts, bits = feature_counts(Z), Z.astype(float)
        eigenvalues, lengths = spectrum(bits.T @ bits, bits.T @ data.reduced)
        cut = "sigma_x" in inferred(model.likelihood)
        total, scale = float(data.squares.sum()), float(np.sqrt(data.mean_square))
        of_prior = log_prior_of(model.prior, counts)

        def value(numbers: Values) -> float:
            scales = model.likelihood_values(numbers)
            sigma_x, sigma_a = scales["sigma_x"], scales["sigma_a"]
            if cut and sigma_x < LEAST * max(scale, sigma_a):
                return -np.inf  # where its hyperprior is cut off, as in sampling
            fit = log_evidence(eigenvalues, lengths, total, data.n, float(data.d), sigma_x, sigma_a)
            return float(fit) + of_prior(*model.own_values("prior", numbers).items())

        return value


def log_prior_of(prior: Prior, counts: FeatureCounts) -> Callable[..., float]:
    """log P([Z]) of these counts as a function of the prior's own hyperparameters, each with its
    name; the last answer is remembered, for while others are looked at."""

    @lru_cache(maxsize=1)
    def of(*own: tuple[str, float]) -> float:
        return float(prior.at(**dict(own)).log_prob_counts(counts))

    return of


def climb(rng: np.random.Generator, model: Model, data: Data, Z: np.ndarray) -> np.ndarray:
    """One pass of changes of one bit, hyperparameters being numbers."""
    from thali.kernels.collapsed_rows import Plan, sweeps
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.hyperparameter_steps import ELSEWHERE
    from thali.kernels.maintained_rows import rows_of

    likelihood = cast(HasScales, model.likelihood)
    tables = cast(PredictsRow, model.prior).tables(data.n)
    scales = Scales(likelihood.sigma_x, likelihood.sigma_a, float(data.d))
    rows, k = rows_of(Z, data.reduced), Z.shape[1]
    plan = Plan(1, 0, False, 0)
    rows, report, _, _ = sweeps(
        rng, data.reduced, data.squares, None, rows, k, tables, scales, ELSEWHERE, plan, True
    )
    return np.asarray(rows.Z[:, : int(report.n_components)], bool)
