r"""Mean-field variational inference (Doshi-Velez, Miller, Van Gael and Teh 2009).

Of a partition it is in ``engines/clusters/variational.py``; here it is of a feature matrix.

    q(Z, A, v) = ∏ Bernoulli(z_nk; ν_nk) · q(A) · ∏ Beta(v_k; τ_k1, τ_k2)

maximizes a lower bound of log P(X) by coordinate ascent. An iteration is a local step over blocks
of rows (ν given the rest), the statistics it leaves, and a global step on these (τ, α, q(A), σ's):
see ``engines/ascent``. A prior with a finite number of features gives the finite method, the
Indian buffet process the infinite one, its sticks cut off at ``truncation``.

No step lowers the bound. It has many local maxima, so that where it begins matters: starts are
raced as for samplers, and features that the bound does not want are dropped, joined or born when
nothing else moves (``thali/engines/ascent/moves.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from thali.backends.base import Backend
from thali.backends.block import dtype_here
from thali.backends.choosing import DTYPES, choose_backend, refuse_tf32
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent.optimizer import (
    FEATURES,
    PROGRESS,
    Optimizer,
    begun,
    by_frequency,
    feature_posterior,
    saved_features,
)
from thali.engines.ascent.state import State, iterate
from thali.engines.ascent.stream import Stream
from thali.engines.ascent.table_state import TableState
from thali.engines.base import AbsorbsRows, Info, Needs, Population, inferred
from thali.engines.clusters import variational as clusters
from thali.engines.clusters.soft_state import SoftClusters
from thali.hyperparameters import Values
from thali.likelihoods.base import Expected
from thali.likelihoods.clusters import ExpectedClusters
from thali.likelihoods.feature_posteriors import FeaturePosterior, GaussianFeatures
from thali.likelihoods.gaussian_scales import LEAST, melting_scale
from thali.likelihoods.table import TableLikelihood
from thali.machine import refuse_beyond_memory
from thali.model import Model
from thali.priors.base import Truncates
from thali.priors.partition import BreaksSticks
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start
from thali.starts.base import RACE
from thali.structures.partitions import PARTITIONS
from thali.structures.statistics import Statistics

BOUNDS = ("multinomial", "taylor")
FORMS = ("joint", "factorized")
MOST_ANNEAL = 10**7  # iterations under falling noise
ERROR = 0.01  # the chance that rows have features beyond the truncation, where it is "auto"
AMOUNTS = ("first", "second", "cost")  # what rows with amounts keep of them


@ENGINES.register("variational")
@dataclass(frozen=True)
class Variational(Optimizer[Any], AbsorbsRows):
    """Soft assignments that maximize a lower bound of the evidence.

    Parameters
    ----------
    truncation : int or "auto", default "auto"
        The most features there can be. "auto" is so many that data like these need more with a
        probability below 1%; a finite prior has its own number. Of a partition it is the most
        clusters there can be, 50 with "auto".
    n_init : int, default 2
        How many optimizations are made; the one with the highest bound is kept.
    tol : float, default 1e-6
        An optimization ends when the bound has gained less than this share of itself.
    max_iter : int, default 500
        The most iterations of an optimization.
    init : str, array of shape (n, K), or fitted model, default "race"
        Where the optimizations begin: the name of a start, a matrix Z, or another model's answer.
        "race" tries the starts that suit the likelihood, for a while each, and goes on from the
        best; for partitions it is k-means with clusters to spare, and labels (n,) can be given.
    anneal : int, default 0
        How many iterations under falling noise come before the first, where a start knows nothing
        of the data.
    stick_bound : {"multinomial", "taylor"}, default "multinomial"
        The bound of E[log(1 − π_k)]. "taylor" is tighter and slower.
    features : {"joint", "factorized"}, default "joint"
        Whether features have one distribution jointly, or one each, as in the paper, which gives a
        lower bound.
    dtype : {"float64", "float32", "tf32"}, default "float64"
        The precision of the products with the data. "float32" halves their time and keeps seven
        digits of them; the bound, which has their difference, keeps fewer where the noise is far
        below the data's scale. On a GPU it is that of the rows too, and "tf32", which only GPUs
        have, is faster still and keeps three digits of each number that is multiplied.
    backend : {"auto", "local", "dask", "gpu"}, default "auto"
        Where rows are worked on: on this machine, by Dask (``pip install 'thali[dask]'``) wherever
        its workers are, or on an NVIDIA GPU (``pip install 'thali[gpu]'``). The GPU is for
        dense data in memory and features without amounts; larger data than it holds are
        sent piece by piece. "auto" takes Dask for its own collections, and the GPU where X is an
        array of CuPy. What is asked of new rows, and ``partial_fit``, are computed here.
    forgetting : float, default 0.7
        How fast ``partial_fit`` with a known number of rows in all forgets earlier pieces: piece t
        counts for (t + delay)^−forgetting. Above 0.5 and at most 1.
    delay : float, default 1.0
        How little the first pieces count, in the same formula.

    Notes
    -----
    Of a table with columns of different kinds (``MixedColumns``, ``MixedFactors``) there is a
    distribution of each latent besides; noise, biases and cutpoints are numbers, at which bound and
    log density together are highest. ``anneal``, ``partial_fit`` and Dask are refused.

    Of a partition, ``anneal``, ``stick_bound``, ``features`` and Dask are refused. α of a Dirichlet
    process has a distribution; other inferred hyperparameters, κ and the scale of Gaussian clusters
    among them, are numbers at which bound and log hyperprior together are highest.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> engine = Variational(truncation=8)
    >>> model = thali.LatentFeatures(engine=engine, random_state=0).fit(X)
    >>> model.assignment_probabilities_.shape == model.Z_.shape, bool(model.elbo_ < 0.0)
    (True, True)
    >>> clusters = thali.LatentPartition(engine=Variational(truncation=8), random_state=0).fit(X)
    >>> clusters.labels_.shape, bool(clusters.elbo_ < 0.0)
    ((60,), True)
    """

    anneal: int = setting(
        0, help="Steps under falling noise before the first", minimum=0, maximum=MOST_ANNEAL
    )
    stick_bound: str = setting(
        "multinomial", help="Bound of the sticks' logarithms", choices=BOUNDS
    )
    features: str = setting("joint", help="Distributions of the features", choices=FORMS)
    dtype: str = setting("float64", help="Precision of products with the data", choices=DTYPES)
    forgetting: float = setting(0.7, help="How fast a stream forgets earlier pieces")
    delay: float = setting(1.0, help="How little the first pieces of a stream count")

    for_features: ClassVar[tuple[str, ...]] = (
        *("anneal", "stick_bound", "features", "forgetting", "delay", "backend"),
    )
    needs_prior: ClassVar[Needs] = ((Truncates, BreaksSticks),)
    needs_likelihood: ClassVar[Needs] = ((Expected, ExpectedClusters),)
    draws_gaps: ClassVar[bool] = False
    auto_large: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 < self.forgetting <= 1.0:
            raise ValueError(
                "Variational: forgetting must be above 0.5 and at most 1, not "
                f"{self.forgetting!r}; otherwise the steps do not converge."
            )

    # beginning

    def start_in_place_of_race(self, model: Model) -> str:
        return clusters.START if model.structure == PARTITIONS else RACE

    def begin(
        self, rng: np.random.Generator, model: Model, data: Data, start: Start
    ) -> State | SoftClusters:
        """q that belongs to the start's value."""
        if model.structure == PARTITIONS:
            self.refuse_what_features_need()
            refuse_tf32(self.dtype)
            return clusters.begin(model, data, start, self.truncation, self._threads(), self.dtype)
        return self._begin(rng, model, data, start)

    def backend_for(self, model: Model, data: Data) -> Backend:
        lacks = ""
        if isinstance(model.likelihood, TableLikelihood):
            lacks = f"what rows of {type(model.likelihood).__name__} show are latents"
        elif cast(Expected, model.likelihood).amounts is not None:
            lacks = f"rows of {type(model.likelihood).__name__} have amounts"
        return choose_backend(self.backend, self.dtype, data, lacks, self._threads())

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: Any) -> Info:
        if isinstance(state, SoftClusters):
            return clusters.step(rng, state, self.tol)
        return super().step(rng, model, data, state)

    def _begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """q that belongs to the start's Z, its most frequent features first."""
        if isinstance(model.likelihood, TableLikelihood):
            self._refuse_what_tables_lack(type(model.likelihood).__name__)
        hyper = dict(start.hyper)
        nu = np.asarray(start.parameters.get("nu", start.latent), float)
        order = by_frequency(nu)
        if "alpha" in inferred(model.prior):
            mass = max(len(order), 1) / float((1.0 / np.arange(1, data.n + 1)).sum())
            model.prior_values(hyper)["alpha"] = mass
        k = self.truncation_for(model, hyper, data.n, len(order))
        self._refuse(model, hyper, data, k)
        order = order[:k]
        nu = nu[:, order]
        slab, amounts = cast(Expected, model.likelihood).amounts, None
        if slab is not None:
            amounts = rng.standard_normal(nu.shape)
            if "S" in start.parameters:
                amounts = np.asarray(start.parameters["S"], float)[:, order]
        features = feature_posterior(model, hyper, len(order), data.d, self.features == "joint")
        state = self._state(model, data, Rows.of(nu, slab, amounts), features, hyper, k)
        state.hold_sigma = 1  # the start's scales belong to its rows
        return begun(state, start.hold_sigma)

    def _state(
        self,
        model: Model,
        data: Data,
        rows: Rows,
        features: FeaturePosterior,
        hyper: Values,
        k: int,
    ) -> State:
        """A state with these rows and features, and frequencies from their prior."""
        alpha = model.prior_values(hyper).get("alpha", np.nan)
        frequencies = cast(Truncates, model.prior).frequencies(k, alpha, self.stick_bound)
        backend = self.backend_for(model, data)
        block, rows = backend.hold(data, rows, self.dtype)
        state = State(block, rows, features, frequencies, hyper, model, LEAST, backend=backend)
        table = isinstance(model.likelihood, TableLikelihood)
        return TableState.begun(state, data, self.dtype) if table else state

    def _refuse_what_tables_lack(self, owner: str) -> None:
        """Settings of data whose columns have one noise."""
        if self.backend == "dask":
            raise ValueError(
                "Variational: backend='dask' is for likelihoods whose columns share one noise; "
                f"those of {owner} are latents, which are held here. Leave it at 'auto'."
            )
        if self.anneal:
            raise ValueError(
                f"Variational: anneal={self.anneal} is for likelihoods whose columns share one "
                f"noise; those of {owner} have their own. Leave it at 0."
            )

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
        k = self.truncation_for(model, start.hyper, data.n, 0)
        self._refuse(model, start.hyper, data, k)
        undecided = Start(start.name, np.ones((data.n, k), bool), start.hyper, self.anneal + 2)
        state = self._begin(rng, model, data, undecided)
        nu = 0.5 + 0.1 * (rng.random((data.n, state.k)) - 0.5)
        rows = Rows(nu, state.rows.slab, state.rows.amounts)
        state.data, state.rows = state.backend.hold(data, rows, self.dtype)
        cold = model.likelihood_values(start.hyper)["sigma_x"]
        hot = max(melting_scale(model.likelihood.guess(data)), cold)
        iterate(state, passes=0)
        for share in np.linspace(0.0, 1.0, self.anneal):
            if stopped():
                break
            state.scales["sigma_x"] = hot * (cold / hot) ** float(share)
            iterate(state)
        soft = {"nu": state.rows.nu}
        if state.rows.slab is not None:
            soft["S"] = state.rows.amounts[0]
        state.scales["sigma_x"] = cold
        return Start(start.name, state.rows.nu > 0.5, dict(state.hyper), parameters=soft)

    def _refuse(self, model: Model, hyper: Values, data: Data, k: int) -> None:
        """Refuse more features than memory holds, and say where their number comes from."""
        own, what = model.prior_values(hyper), "The truncation"
        finite = hasattr(model.prior, "n_components")
        if self.truncation == "auto" and "alpha" in own and not finite:
            what = f"The truncation that alpha={own['alpha']:.3g} asks for"
        refuse_beyond_memory(what, data.n, k, data.d)

    def truncation_for(self, model: Model, hyper: Values, n: int, used: int) -> int:
        """How many features q has; a finite prior has no more than its own."""
        prior = cast(Truncates, model.prior_at(hyper))
        if hasattr(prior, "n_components"):
            return int(prior.n_components)
        if self.truncation == "auto":
            return max(int(prior.truncation(n, ERROR)), used)
        return int(self.truncation)

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: Any
    ) -> Population:
        if isinstance(state, SoftClusters):
            return clusters.population(rng, state)
        return super().population(rng, model, data, state)

    def params(self, model: Model, state: State | SoftClusters) -> dict[str, np.ndarray]:
        """The parameters of q as arrays, and the bound with either form of q(features)."""
        if isinstance(state, SoftClusters):
            return clusters.params(state)
        bounds = self.bounds(model, state)
        arrays = {"nu": state.rows.nu, "tau": state.frequencies.tau, **state.features.arrays()}
        if state.rows.slab is not None:
            arrays |= dict(zip(AMOUNTS, state.rows.amounts, strict=True))
        return arrays | {f"bound_{name}": np.array(value) for name, value in bounds.items()}

    def bounds(self, model: Model, state: State) -> dict[str, float]:
        """The bound with q(features) joint and factorized, where both can be had."""
        if not isinstance(state.features, GaussianFeatures):
            return {"factorized": state.bound}
        assert state.found is not None  # q is asked for after a step
        other = replace(state.features, joint=not state.features.joint)
        features = other.updated(state.found, *state.sigmas)
        name = "joint" if other.joint else "factorized"
        beside = replace(state, features=features).value(state.found)
        return {self.features: state.bound, name: beside}

    # files

    def to_arrays(self, state: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if isinstance(state, SoftClusters):
            return clusters.to_arrays(state)
        arrays, numbers = super().to_arrays(state)
        arrays |= {"nu": state.rows.nu.copy(), "tau": state.frequencies.tau}
        arrays |= dict(zip(AMOUNTS, (a.copy() for a in state.rows.amounts), strict=False))
        if state.found is not None:
            arrays |= {f"found_{k}": v for k, v in state.found.arrays().items()}
        return arrays, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State | SoftClusters:
        if model.structure == PARTITIONS:
            threads = self._threads()
            return clusters.from_arrays(model, data, arrays, numbers, threads, self.dtype)
        return self._from_arrays(model, data, arrays, numbers)

    def _from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        hyper, tau = dict(numbers["hyper"]), arrays["tau"]
        amounts = tuple(arrays[name] for name in AMOUNTS if name in arrays)
        rows = Rows(arrays["nu"], cast(Expected, model.likelihood).amounts, amounts)
        kind = feature_posterior(model, hyper, 1, data.d, self.features == "joint")
        state = self._state(model, data, rows, saved_features(kind, arrays), hyper, len(tau))
        state.frequencies = replace(state.frequencies, tau=tau)
        if "found_n" in arrays:
            state.found = Statistics.of_arrays(arrays, "found_")
        return replace(state, **{name: numbers[name] for name in PROGRESS if name in numbers})

    # pieces

    def stream(
        self, model: Model, data: Data, params: dict[str, np.ndarray], hyper: Values
    ) -> Stream:
        """The stream that led to these parameters of q: a plain fit is one of a single piece."""
        arrays = {k: np.array(v) for k, v in params.items()}
        arrays |= {f"{FEATURES}{k}": v for k, v in arrays.items() if k in ("phi", "V", "mu", "s")}
        at_rest = dict(zip(PROGRESS, (0, 0, -np.inf, 0, 0, False), strict=True))
        where = "auto" if data.far else "local"  # chunks of Dask's collections are not brought here
        alone = self.replace(n_init=1, backend=where, dtype=dtype_here(self.dtype))
        state = alone._from_arrays(model, data, arrays, at_rest | {"hyper": hyper})
        if "stream_n" in params:
            return Stream.from_arrays(state, arrays)
        iterate(state)
        assert state.found is not None
        return Stream(state, state.found, 1, data.n)
