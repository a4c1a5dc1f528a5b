r"""Maximization-expectation (Reed and Ghahramani 2013).

    q(Z, A) = δ(Z) q(A),   log P(X) ≥ E[log P(X | Z, A)] + log P(Z) + E[log p(A)] + H[q(A)]

Assignments are hard, features have a distribution. Each row in turn takes the set of features that
raises the bound most, as far as its solver can tell: for features without negative entries this is
maximizing a submodular function, and solvers have guarantees (``thali/kernels/row_solvers``). Then
q(A), the scales and the prior's hyperparameters are at their best given Z.

What is maximized has the probability of Z with its columns in one order. What is reported,
``elbo_``, has the left-ordered one, as every log joint here, which is never lower
(``thali/engines/ascent/counts.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from thali.backends.base import Backend
from thali.backends.choosing import choose_backend
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.counts import Counts
from thali.engines.ascent.optimizer import (
    PROGRESS,
    Optimizer,
    begun,
    by_frequency,
    feature_posterior,
    saved_features,
)
from thali.engines.ascent.point_state import SOLVERS, PointState, guarantee
from thali.engines.ascent.state import iterate
from thali.engines.base import Info
from thali.engines.chain_settings import annealing, refuse_to_melt
from thali.hyperparameters import Values
from thali.likelihoods.base import ExpectedBits
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.likelihoods.gaussian_scales import LEAST
from thali.likelihoods.tempered import Tempered
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start

ONE_AFTER_THE_OTHER = ("randomized_double_greedy", "exact")  # a GPU has no use for such solvers
HELD = 2**62  # iterations for which scales stay put: more than there are
EXACT = 16  # features for which looking at every set of them is a matter of milliseconds


@ENGINES.register("maximization_expectation")
@dataclass(frozen=True)
class MaximizationExpectation(Optimizer[PointState]):
    """Hard assignments and uncertain features that maximize a lower bound of the evidence.

    Parameters
    ----------
    truncation : int or "auto", default "auto"
        The most features there can be. "auto" leaves it to the bound.
    n_init : int, default 2
        How many optimizations are made; the one with the highest bound is kept.
        A single one works on blocks of rows side by side.
    tol, max_iter, init
        When an optimization ends, and where it begins: as of ``Variational``.
    backend : {"auto", "local", "dask", "gpu"}, default "auto"
        Where rows are worked on: as of ``Variational``. A GPU works on blocks of rows side by side,
        whatever ``n_init``, and has the solvers that need neither chance nor all sets.
    solver : str, default "best"
        How the features of a row are chosen; a row never gets worse. "local_search",
        "double_greedy" and "randomized_double_greedy" promise a share of the best (1/3, 1/3, and
        1/2 on average) where features have no negative entries. "exact" looks at all sets of at
        most 16 features. "best" also exchanges one feature for another, from where the row is and,
        if that moves it, from where local search ends.
    anneal : int, default 0
        How many iterations under falling noise come before the first of a run that begins at
        "prior" or "empty" (in a race, of those contenders). They belong to the start.

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
    anneal: int = annealing()

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (ExpectedBits,)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_to_melt(self)
        if self.solver == "exact" and self.truncation != "auto" and int(self.truncation) > EXACT:
            raise ValueError(
                "MaximizationExpectation: solver='exact' looks at every set of features, at most "
                f"{EXACT} of them; lower truncation={self.truncation}, or use solver='best'."
            )

    # beginning

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> PointState:
        """q that belongs to the start's Z, its most frequent features first."""
        hyper = dict(start.hyper)
        order = by_frequency(start.latent)
        order = order[: self.most(model, hyper, data.n)]
        refuse_beyond_memory("The start", data.n, len(order), data.d)
        features = feature_posterior(model, hyper, len(order), data.d)
        state = self._state(model, data, start.latent[:, order], features, hyper)
        state.hold_sigma, state.rng = start.hold_sigma, rng
        return begun(state, start.hold_sigma)

    def _state(
        self, model: Model, data: Data, Z: np.ndarray, features: FeaturePosterior, hyper: Values
    ) -> PointState:
        backend = self.backend_for(model, data)
        block, rows = backend.hold(data, Rows.hard(Z), "float64")
        return PointState(
            block,
            rows,
            features,
            Counts(cast(PredictsRow, model.prior_at(hyper)), self.most(model, hyper, data.n)),
            hyper,
            model,
            LEAST,
            solver=self.solver,
            side_by_side=self.n_init == 1,
            backend=backend,
        )

    def backend_for(self, model: Model, data: Data) -> Backend:
        lacks = ""
        if self.solver in ONE_AFTER_THE_OTHER:
            lacks = f"solver={self.solver!r} is not there"
        return choose_backend(self.backend, "float64", data, lacks, self._threads())

    def most(self, model: Model, hyper: Values, n: int) -> int:
        """How many features there can be."""
        capacity = model.prior_at(hyper).most_components(n)
        most = n if self.truncation == "auto" else int(self.truncation)
        return min(most, capacity if capacity >= 0 else n, EXACT if self.solver == "exact" else n)

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: PointState) -> Info:
        """As every optimizer's, with this generator for solvers that need one."""
        state.rng = rng
        return super().step(rng, model, data, state)

    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start:
        """Where ``anneal`` iterations under falling noise lead, changes of whole features among
        them: at first none is worth having, and they come in the order of their size."""
        cold = model.own_values("likelihood", start.hyper)
        numbers = cast(Tempered, model.likelihood).cooling(data, cold)
        hyper = dict(start.hyper)
        model.likelihood_values(hyper).update(numbers(0.0))
        state = self.begin(rng, model, data, replace(start, hyper=hyper, hold_sigma=HELD))
        for share in np.linspace(0.0, 1.0, self.anneal):
            if stopped():
                break
            state.scales.update(numbers(float(share)))
            iterate(state, passes=0)  # the bound at this noise, to be raised
            state.advance()
            self._move(rng, state)
        hyper = dict(state.hyper)
        model.likelihood_values(hyper).update(cold)
        return replace(start, latent=state.latent, hyper=hyper)

    # ending

    def params(self, model: Model, state: PointState) -> dict[str, np.ndarray]:
        """The parameters of q as arrays, and the share of the best that rows are sure of
        (0 where their objective may not be submodular)."""
        arrays = {"nu": state.rows.weights(), **state.features.arrays()}
        try:
            share = guarantee(state.features, state.data.masked, self.solver)
        except ValueError:
            share = 0.0
        return arrays | {"guarantee": np.array(share), "bound_factorized": np.array(state.reported)}

    # files

    def to_arrays(self, state: PointState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, numbers = super().to_arrays(state)
        return arrays | {"Z": np.packbits(state.rows.nu > 0.5, axis=0)}, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> PointState:
        hyper = dict(numbers["hyper"])
        features = saved_features(feature_posterior(model, hyper, 1, data.d), arrays)
        Z = np.unpackbits(arrays["Z"], axis=0, count=data.n)
        return replace(
            self._state(model, data, Z, features, hyper),
            **{name: numbers[name] for name in PROGRESS if name in numbers},
        )
