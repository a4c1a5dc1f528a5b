r"""Maximization-expectation (Reed and Ghahramani 2013).

    q(Z, A) = δ(Z) q(A),   log P(X) ≥ E[log P(X | Z, A)] + log P(Z) + E[log p(A)] + H[q(A)]

Assignments are hard, features have a law. Each row in turn takes the set of features that raises
the bound most, as far as its solver can tell: for features without negative entries this is
maximising a submodular function, and solvers have guarantees (``thali/kernels/row_solvers``). Then
q(A), the scales and the prior's hyperparameters are at their best given Z.

What is maximised has the probability of Z with its columns in one order. What is reported,
``elbo_``, has the left-ordered one, as every log joint here, which is never lower
(``thali/variational/counts.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thali.data import Data
from thali.engines.optimiser import (
    PROGRESS,
    Optimiser,
    by_frequency,
    freeze_common,
    laws_of,
    observe,
    thaw_features,
)
from thali.likelihoods.base import ExpectedBits
from thali.likelihoods.gaussian_scales import LEAST
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.settings import Settings
from thali.starts import Start
from thali.variational.counts import Counts
from thali.variational.hard_rows import SOLVERS, guarantee
from thali.variational.point_state import PointState
from thali.variational.rows import Rows
from thali.variational.state import State, iterate

EXACT = 16  # features for which looking at every set of them is a matter of milliseconds


@dataclass(frozen=True)
class MaximizationExpectation(Settings, Optimiser):
    """Hard assignments and a law of the features that maximise a lower bound of the evidence.

    ``solver`` chooses the features of a row: "local_search", "double_greedy" and
    "randomised_double_greedy" promise a share of the best (1/3, 1/3, and 1/2 on average) where
    features have no negative entries; "exact" looks at all sets of at most 16 features; "best"
    also exchanges one feature for another, from where the row is and, if that moves it, from where
    local search ends. A row never gets worse.
    ``truncation`` is the most features there can be; "auto" leaves it to the bound. Of ``restarts``
    optimisations the one with the highest bound is kept; each ends when the bound has gained less
    than ``tolerance`` of itself, or after ``max_iterations``. A single restart works on blocks of
    rows side by side. ``init`` is as of ``CollapsedGibbs``.

    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> engine = MaximizationExpectation(truncation=8)
    >>> likelihood = thali.NonnegativeLinearGaussian()
    >>> model = thali.LatentFeatures("ibp", likelihood, engine, random_state=0).fit(X)
    >>> bool((model.nu_ == model.Z_).all()), bool(model.elbo_ < 0.0)
    (True, True)
    """

    solver: str = "best"
    truncation: int | str = "auto"
    restarts: int = 2
    tolerance: float = 1e-6
    max_iterations: int = 500
    init: Any = "race"

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (ExpectedBits,)

    def __post_init__(self) -> None:
        owner = "MaximizationExpectation"
        if self.solver not in SOLVERS:
            raise ValueError(
                f"{owner}: solver must be one of {', '.join(map(repr, SOLVERS))}, "
                f"not {self.solver!r}."
            )
        self.check_limits()
        if self.solver == "exact" and self.truncation != "auto" and int(self.truncation) > EXACT:
            raise ValueError(
                f"{owner}: solver='exact' looks at every set of features, at most {EXACT} of them; "
                f"lower truncation={self.truncation}, or use solver='best'."
            )

    # beginning

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The law that belongs to the start's Z, its most frequent features first."""
        likelihood: Any = model.likelihood
        hyper = dict(start.hyper)
        order = by_frequency(start.Z)
        prior: Any = model.prior_at(hyper)
        k = self.most(prior, data.n)
        order = order[:k]
        refuse_beyond_memory("The start", data.n, len(order), data.d)
        state = PointState(
            observe(data, "float64"),
            Rows.hard(start.Z[:, order]),
            likelihood.feature_law(len(order), data.d, hyper["sigma_a"], False),
            Counts(prior, k),  # type: ignore[arg-type]
            hyper,
            laws_of(model),
            LEAST,
            start.hold_sigma,
            solver=self.solver,
            side_by_side=self.restarts == 1,
            rng=rng,
        )
        iterate(state, self._threads, passes=0)
        state.iteration, state.bound = 0, -np.inf  # of rows that no step has looked at
        return state

    def most(self, prior: Any, n: int) -> int:
        """How many features there can be."""
        most = [n] if self.truncation == "auto" else [int(self.truncation)]
        tables = prior.tables(n)
        if len(tables.row_potentials):
            raise ValueError(
                f"MaximizationExpectation cannot run {type(prior).__name__}, which gives weight to "
                "the number of features of each row: it judges a feature by its number of rows "
                "alone. Engines that can: CollapsedGibbs, UncollapsedGibbs."
            )
        capacity = tables.capacity
        return min(*most, capacity if capacity >= 0 else n, EXACT if self.solver == "exact" else n)

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: Any) -> Any:
        """As every optimiser's, with this generator for solvers that need one."""
        state.rng = rng
        return super().step(rng, model, data, state)

    def reported(self, state: Any) -> float:
        return float(state.reported)

    # ending

    def law(self, model: Model, state: Any) -> dict[str, np.ndarray]:
        """The parameters of q as arrays, and the share of the best that rows are sure of
        (0 where their objective may not be submodular)."""
        arrays = {"nu": state.rows.weights(), **state.features.arrays()}
        try:
            share = guarantee(state.features, state.data.mask is not None, self.solver)
        except ValueError:
            share = 0.0
        return arrays | {"guarantee": np.array(share), "bound_factorised": np.array(state.reported)}

    # files

    def freeze(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values."""
        arrays, numbers = freeze_common(state)
        return arrays | {"Z": np.packbits(state.rows.nu > 0.5, axis=0)}, numbers

    def thaw(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        """The state that ``freeze`` saved."""
        likelihood: Any = model.likelihood
        hyper = dict(numbers["hyper"])
        prior: Any = model.prior_at(hyper)
        features = likelihood.feature_law(1, data.d, hyper["sigma_a"], False)
        return PointState(
            observe(data, "float64"),
            Rows.hard(np.unpackbits(arrays["Z"], axis=0, count=data.n)),
            thaw_features(features, arrays),
            Counts(prior, self.most(prior, data.n)),  # type: ignore[arg-type]
            hyper,
            laws_of(model),
            LEAST,
            **{name: numbers[name] for name in PROGRESS},
            solver=self.solver,
            side_by_side=self.restarts == 1,
        )
