r"""Maximization-expectation (Reed and Ghahramani 2013).

    q(Z, A) = δ(Z) q(A),   log P(X) ≥ E[log P(X | Z, A)] + log P(Z) + E[log p(A)] + H[q(A)]

Assignments are hard, features have a law. Each row in turn takes the set of features that raises
the bound most, as far as its solver can tell: for features without negative entries this is
maximizing a submodular function, and solvers have guarantees (``thali/kernels/row_solvers``). Then
q(A), the scales and the prior's hyperparameters are at their best given Z.

What is maximized has the probability of Z with its columns in one order. What is reported,
``elbo_``, has the left-ordered one, as every log joint here, which is never lower
(``thali/engines/ascent/counts.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thali.backends.block import Block
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.counts import Counts
from thali.engines.ascent.hard_rows import SOLVERS, guarantee
from thali.engines.ascent.optimizer import (
    PROGRESS,
    Optimizer,
    by_frequency,
    common_arrays,
    features_from_arrays,
    hyperpriors_of,
)
from thali.engines.ascent.point_state import PointState
from thali.engines.ascent.state import State, iterate
from thali.likelihoods.base import ExpectedBits
from thali.likelihoods.gaussian_scales import LEAST
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.registry import ENGINES
from thali.settings import Settings, setting
from thali.starts import Start

EXACT = 16  # features for which looking at every set of them is a matter of milliseconds


@ENGINES.register("maximization_expectation")
@dataclass(frozen=True)
class MaximizationExpectation(Settings, Optimizer):
    """Hard assignments and a law of the features that maximize a lower bound of the evidence.

    Parameters
    ----------
    solver : str, default "best"
        How the features of a row are chosen; a row never gets worse. "local_search",
        "double_greedy" and "randomized_double_greedy" promise a share of the best (1/3, 1/3, and
        1/2 on average) where features have no negative entries. "exact" looks at all sets of at
        most 16 features. "best" also exchanges one feature for another, from where the row is and,
        if that moves it, from where local search ends.
    truncation : int or "auto", default "auto"
        The most features there can be. "auto" leaves it to the bound.
    n_init : int, default 2
        How many optimizations are made; the one with the highest bound is kept.
        A single one works on blocks of rows side by side.
    tol : float, default 1e-6
        An optimization ends when the bound has gained less than this share of itself.
    max_iter : int, default 500
        The most iterations of an optimization.
    init : str, array of shape (n, K), or fitted model, default "race"
        Where the optimizations begin: the name of a start, a matrix Z, or another model's answer.
        "race" tries the starts that suit the likelihood, for a while each, and goes on from the
        best.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> engine = MaximizationExpectation(truncation=8)
    >>> likelihood = thali.NonnegativeLinearGaussian()
    >>> model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0).fit(X)
    >>> bool((model.assignment_probabilities_ == model.Z_).all()), bool(model.elbo_ < 0.0)
    (True, True)
    """

    solver: str = setting("best", help="How the features of a row are chosen", choices=SOLVERS)
    truncation: int | str = setting(
        "auto", help="Most features there can be", choices=("auto",), minimum=1
    )
    n_init: int = setting(2, help="Runs from other starts, of which the best is kept", minimum=1)
    tol: float = setting(1e-6, help="Gain of the bound, relative, that does not count")
    max_iter: int = setting(500, help="Most iterations", minimum=1)
    init: Any = setting("race", help="Where to begin")

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (ExpectedBits,)

    def __post_init__(self) -> None:
        self.check_limits()
        if self.solver == "exact" and self.truncation != "auto" and int(self.truncation) > EXACT:
            raise ValueError(
                "MaximizationExpectation: solver='exact' looks at every set of features, at most "
                f"{EXACT} of them; lower truncation={self.truncation}, or use solver='best'."
            )

    # beginning

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The law that belongs to the start's Z, its most frequent features first."""
        likelihood: Any = model.likelihood
        hyper = dict(start.hyper)
        order = by_frequency(start.latent)
        prior: Any = model.prior_at(hyper)
        k = self.most(prior, data.n)
        order = order[:k]
        refuse_beyond_memory("The start", data.n, len(order), data.d)
        state = PointState(
            Block.of(data, "float64"),
            Rows.hard(start.latent[:, order]),
            likelihood.feature_posterior(len(order), data.d, hyper["sigma_a"], False),
            Counts(prior, k),  # type: ignore[arg-type]
            hyper,
            hyperpriors_of(model),
            LEAST,
            start.hold_sigma,
            solver=self.solver,
            side_by_side=self.n_init == 1,
            backend=self.backend(self.n_init == 1),
            rng=rng,
        )
        iterate(state, passes=0)
        state.iteration, state.bound = 0, -np.inf  # of rows that no step has looked at
        return state

    def most(self, prior: Any, n: int) -> int:
        """How many features there can be."""
        most = [n] if self.truncation == "auto" else [int(self.truncation)]
        tables = prior.tables(n)
        if tables.row_potentials is not None:
            raise ValueError(
                f"MaximizationExpectation cannot run {type(prior).__name__}, which gives weight to "
                "the number of features of each row: it judges a feature by its number of rows "
                "alone. Engines that can: CollapsedGibbs, UncollapsedGibbs."
            )
        capacity = tables.capacity
        return min(*most, capacity if capacity >= 0 else n, EXACT if self.solver == "exact" else n)

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: Any) -> Any:
        """As every optimizer's, with this generator for solvers that need one."""
        state.rng = rng
        return super().step(rng, model, data, state)

    def reported(self, state: Any) -> float:
        return float(state.reported)

    # ending

    def params(self, model: Model, state: Any) -> dict[str, np.ndarray]:
        """The parameters of q as arrays, and the share of the best that rows are sure of
        (0 where their objective may not be submodular)."""
        arrays = {"nu": state.rows.weights(), **state.features.arrays()}
        try:
            share = guarantee(state.features, state.data.masked, self.solver)
        except ValueError:
            share = 0.0
        return arrays | {"guarantee": np.array(share), "bound_factorized": np.array(state.reported)}

    # files

    def to_arrays(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values."""
        arrays, numbers = common_arrays(state)
        return arrays | {"Z": np.packbits(state.rows.nu > 0.5, axis=0)}, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        """The state that ``to_arrays`` saved."""
        likelihood: Any = model.likelihood
        hyper = dict(numbers["hyper"])
        prior: Any = model.prior_at(hyper)
        features = likelihood.feature_posterior(1, data.d, hyper["sigma_a"], False)
        return PointState(
            Block.of(data, "float64"),
            Rows.hard(np.unpackbits(arrays["Z"], axis=0, count=data.n)),
            features_from_arrays(features, arrays),
            Counts(prior, self.most(prior, data.n)),  # type: ignore[arg-type]
            hyper,
            hyperpriors_of(model),
            LEAST,
            **{name: numbers[name] for name in PROGRESS},
            solver=self.solver,
            side_by_side=self.n_init == 1,
            backend=self.backend(self.n_init == 1),
        )
