r"""Mean-field variational inference (Doshi-Velez, Miller, Van Gael and Teh 2009).

    q(Z, A, v) = ∏ Bernoulli(z_nk; ν_nk) · q(A) · ∏ Beta(v_k; τ_k1, τ_k2)

maximizes a lower bound of log P(X) by coordinate ascent. An iteration is a local step over blocks
of rows (ν given the rest), the statistics it leaves, and a global step on these (τ, α, q(A), σ's):
see ``engines/ascent``. A prior with a finite number of features gives the finite method, the
Indian buffet process the infinite one, its sticks cut off at ``truncation``.

No step lowers the bound. It has many local maxima, so that where it begins matters: starts are
raced as for samplers, and features that the bound does not want are dropped, joined or born when
nothing else moves (``thali/engines/ascent/moves.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from thali.backends.block import Block
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.optimizer import (
    PROGRESS,
    Optimizer,
    by_frequency,
    common_arrays,
    features_from_arrays,
    hyperpriors_of,
)
from thali.engines.ascent.state import State, iterate
from thali.engines.ascent.stream import AbsorbsRows, Stream
from thali.hyperparameters import Hyperprior, Values
from thali.likelihoods.base import Expected
from thali.likelihoods.feature_posteriors import GaussianFeatures
from thali.likelihoods.gaussian_scales import LEAST
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.priors.base import Truncates
from thali.registry import ENGINES
from thali.settings import Settings, setting
from thali.starts import Start, melting_scale
from thali.structures.statistics import Statistics

BOUNDS = ("multinomial", "taylor")
FEATURES = ("joint", "factorized")
ERROR = 0.01  # the chance that rows have features beyond the truncation, where it is "auto"
AMOUNTS = ("first", "second", "cost")  # what rows with amounts keep of them


@ENGINES.register("variational")
@dataclass(frozen=True)
class Variational(Settings, Optimizer, AbsorbsRows):
    """Soft assignments that maximize a lower bound of the evidence.

    Parameters
    ----------
    truncation : int or "auto", default "auto"
        The most features there can be. "auto" is so many that data like these need more with a
        probability below 1%; a finite prior has its own number.
    n_init : int, default 2
        How many optimizations are made; the one with the highest bound is kept.
    tol : float, default 1e-6
        An optimization ends when the bound has gained less than this share of itself.
    max_iter : int, default 500
        The most iterations of an optimization.
    anneal : int, default 0
        How many iterations under falling noise come before the first, where a start knows nothing
        of the data.
    stick_bound : {"multinomial", "taylor"}, default "multinomial"
        The bound of E[log(1 − π_k)]. "taylor" is tighter and slower.
    features : {"joint", "factorized"}, default "joint"
        Whether features have one law jointly, or one each, as in the paper, which gives a lower
        bound.
    dtype : {"float64", "float32"}, default "float64"
        The precision of the products with the data. "float32" halves their time and keeps seven
        digits of them; the bound, which has their difference, keeps fewer where the noise is far
        below the data's scale.
    forgetting : float, default 0.7
        How fast ``partial_fit`` with a known number of rows in all forgets earlier pieces: piece t
        counts for (t + delay)^−forgetting. Above 0.5 and at most 1.
    delay : float, default 1.0
        How little the first pieces count, in the same formula.
    init : str, array of shape (n, K), or fitted model, default "race"
        Where the optimizations begin: the name of a start, a matrix Z, or another model's answer.
        "race" tries the starts that suit the likelihood, for a while each, and goes on from the
        best.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> engine = Variational(truncation=8)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> model.assignment_probabilities_.shape == model.Z_.shape, bool(model.elbo_ < 0.0)
    (True, True)
    """

    truncation: int | str = setting(
        "auto", help="Most features there can be", choices=("auto",), minimum=1
    )
    n_init: int = setting(2, help="Runs from other starts, of which the best is kept", minimum=1)
    tol: float = setting(1e-6, help="Gain of the bound, relative, that does not count")
    max_iter: int = setting(500, help="Most iterations", minimum=1)
    anneal: int = setting(0, help="Steps under falling noise before the first", minimum=0)
    stick_bound: str = setting(
        "multinomial", help="Bound of the sticks' logarithms", choices=BOUNDS
    )
    features: str = setting("joint", help="Laws of the features", choices=FEATURES)
    dtype: str = setting(
        "float64", help="Precision of products with the data", choices=("float64", "float32")
    )
    forgetting: float = setting(0.7, help="How fast a stream forgets earlier pieces")
    delay: float = setting(1.0, help="How little the first pieces of a stream count")
    init: Any = setting("race", help="Where to begin")

    needs_prior: ClassVar[tuple[type, ...]] = (Truncates,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (Expected,)

    def __post_init__(self) -> None:
        self.check_limits()
        if not 0.5 < self.forgetting <= 1.0:
            raise ValueError(
                "Variational: forgetting must be above 0.5 and at most 1, not "
                f"{self.forgetting!r}; otherwise the steps do not settle."
            )

    # beginning

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The laws that belong to the start's Z, its most frequent features first."""
        likelihood: Any = model.likelihood
        prior: Any = model.prior
        hyper = dict(start.hyper)
        nu = np.asarray(start.parameters.get("nu", start.latent), float)
        order = by_frequency(nu)
        if isinstance(prior.alpha, Hyperprior):
            hyper["alpha"] = max(len(order), 1) / float((1.0 / np.arange(1, data.n + 1)).sum())
        k = self.truncation_for(model.at(hyper).prior, data.n, len(order))
        refuse_beyond_memory("The truncation", data.n, k, data.d)
        order = order[:k]
        nu = nu[:, order]
        S = None
        if likelihood.amounts is not None:
            S = rng.standard_normal(nu.shape)
            if "S" in start.parameters:
                S = np.asarray(start.parameters["S"], float)[:, order]
        state = State(
            Block.of(data, self.dtype),
            Rows.of(nu, likelihood.amounts, S),
            likelihood.feature_posterior(
                nu.shape[1], data.d, hyper["sigma_a"], self.features == "joint"
            ),
            prior.frequencies(k, hyper["alpha"], self.stick_bound),
            hyper,
            hyperpriors_of(model),
            LEAST,
            hold_sigma=1,  # the start's scales belong to its rows
            backend=self.backend(self.n_init == 1),
        )
        iterate(state, passes=0)
        state.iteration, state.bound = 0, -np.inf  # of a law that no local step has made
        state.hold_sigma = start.hold_sigma
        return state

    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start:
        """Where ``anneal`` iterations under falling noise lead from rows that know nothing.

        All features there may be begin in every row, with probabilities near one half; under much
        noise they are alike, and part from one another as it falls.
        """
        k = self.truncation_for(model.at(start.hyper).prior, data.n, 0)
        undecided = Start(start.name, np.ones((data.n, k), bool), start.hyper, self.anneal + 2)
        state = self.begin(rng, model, data, undecided)
        state.rows.nu[:] = 0.5 + 0.1 * (rng.random(state.rows.nu.shape) - 0.5)
        cold = start.hyper["sigma_x"]
        hot = max(melting_scale(data), cold)
        iterate(state, passes=0)
        for share in np.linspace(0.0, 1.0, self.anneal):
            if stopped():
                break
            state.hyper["sigma_x"] = hot * (cold / hot) ** float(share)
            iterate(state)
        soft = {"nu": state.rows.nu}
        if state.rows.slab is not None:
            soft["S"] = state.rows.amounts[0]
        hyper = {**state.hyper, "sigma_x": cold}
        return Start(start.name, state.rows.nu > 0.5, hyper, parameters=soft)

    def truncation_for(self, prior: Any, n: int, used: int) -> int:
        """How many features the law has; a finite prior has no more than its own."""
        if hasattr(prior, "n_components"):
            return int(prior.n_components)
        if self.truncation == "auto":
            return max(int(prior.truncation(n, ERROR)), used)
        return int(self.truncation)

    # ending

    def params(self, model: Model, state: State) -> dict[str, np.ndarray]:
        """The parameters of q as arrays, and the bound with either law of the features."""
        bounds = self.bounds(model, state)
        arrays = {"nu": state.rows.nu, "tau": state.frequencies.tau, **state.features.arrays()}
        if state.rows.slab is not None:
            arrays |= dict(zip(AMOUNTS, state.rows.amounts, strict=True))
        return arrays | {f"bound_{name}": np.array(value) for name, value in bounds.items()}

    def bounds(self, model: Model, state: State) -> dict[str, float]:
        """The bound with the features' law joint and factorized, where both can be had."""
        if not isinstance(state.features, GaussianFeatures):
            return {"factorized": state.bound}
        assert state.found is not None  # a law is asked for after a step
        other = replace(state.features, joint=not state.features.joint)
        law = other.updated(state.found, state.hyper["sigma_x"], state.hyper["sigma_a"])
        name = "joint" if other.joint else "factorized"
        beside = replace(state, features=law).value(state.found)
        return {self.features: state.bound, name: beside}

    # files

    def to_arrays(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values."""
        arrays, numbers = common_arrays(state)
        arrays |= {"nu": state.rows.nu.copy(), "tau": state.frequencies.tau}
        arrays |= dict(zip(AMOUNTS, (a.copy() for a in state.rows.amounts), strict=False))
        if state.found is not None:
            arrays |= {f"found_{k}": v for k, v in state.found.arrays().items()}
        return arrays, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        """The state that ``to_arrays`` saved."""
        likelihood: Any = model.likelihood
        prior: Any = model.prior
        hyper = dict(numbers["hyper"])
        tau = arrays["tau"]
        features = likelihood.feature_posterior(
            1, data.d, hyper["sigma_a"], self.features == "joint"
        )
        amounts = tuple(arrays[name] for name in AMOUNTS if name in arrays)
        return State(
            Block.of(data, self.dtype),
            Rows(arrays["nu"], likelihood.amounts, amounts),
            features_from_arrays(features, arrays),
            replace(prior.frequencies(len(tau), hyper["alpha"], self.stick_bound), tau=tau),
            hyper,
            hyperpriors_of(model),
            LEAST,
            **{name: numbers[name] for name in PROGRESS},
            found=Statistics.of_arrays(arrays, "found_") if "found_n" in arrays else None,
            backend=self.backend(self.n_init == 1),
        )

    # pieces

    def stream(
        self, model: Model, data: Data, params: dict[str, np.ndarray], hyper: Values
    ) -> Stream:
        """The stream that led to these parameters of q: a plain fit is one of a single piece."""
        arrays = {k: np.array(v) for k, v in params.items()}
        arrays |= {f"features_{k}": v for k, v in arrays.items() if k in ("phi", "V", "mu", "s")}
        at_rest = dict(zip(PROGRESS, (0, 0, -np.inf, 0, False), strict=True))
        state = self.from_arrays(model, data, arrays, at_rest | {"hyper": hyper})
        state.backend = self.backend(alone=True)
        if "stream_n" in params:
            return Stream.from_arrays(state, params)
        iterate(state)
        assert state.found is not None
        return Stream(state, state.found, 1, data.n)
