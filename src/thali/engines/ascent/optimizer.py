"""What engines share that raise a lower bound of the evidence, restart by restart.

An iteration is a local step over blocks of rows, the statistics it leaves, and a global step on
these; where that gains no more, features are dropped, joined or born (``moves.py``).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from thali.backends.base import Backend, Globals, Moments
from thali.backends.choosing import BACKENDS
from thali.data import Data
from thali.engines.ascent.moves import add_features, drop_features, join_features
from thali.engines.ascent.state import AscentState, iterate
from thali.engines.ascent.stream import fresh_rows
from thali.engines.base import BoundOptimizer, Info, Population
from thali.engines.chain_settings import MOST_CHAINS
from thali.hyperparameters import Values, as_scalars
from thali.likelihoods.base import Expected
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.machine import cores
from thali.model import Model
from thali.settings import Label, Settings, check_settings, setting
from thali.starts import Start, check_init
from thali.stopping import stopped

DROP = 5  # iterations between looks at features that might go
QUIET = 2  # iterations in a row with little gain after which nothing moves
RACING = 150  # iterations that a race may think of, at most: few are needed
DRAWS = 100  # of q, for what is averaged over it
DRAWN = 2e8  # bytes of all of them together
DRAWN_SPARSE = 2e7  # where X is sparse, and so small beside them
COOLING = 6  # passes over rows that know nothing yet, under falling noise
PROGRESS = ("hold_sigma", "iteration", "bound", "quiet", "births", "finished")  # plain values
FEATURES = "features_"  # with which the names of q(features) begin in files

StateT = TypeVar("StateT", bound=AscentState)


@dataclass(frozen=True)
class Optimizer(Settings, BoundOptimizer[StateT]):
    """The loop's questions, a step, and draws of the q that is found."""

    truncation: int | str = setting(
        "auto", help="Most features or clusters there can be", choices=("auto",), minimum=1
    )
    n_init: int = setting(
        2,
        help="Runs from other starts, of which the best is kept",
        minimum=1,
        maximum=MOST_CHAINS,
    )
    tol: float = setting(1e-6, help="Gain of the bound, relative, that does not count")
    max_iter: int = setting(500, help="Most iterations", minimum=1)
    init: object = setting("race", help="Where to begin")
    backend: str = setting("auto", help="Where rows are worked on", choices=BACKENDS)

    masked: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    blocks: ClassVar[bool] = True
    unit: ClassVar[str] = "iteration"
    measure_label: ClassVar[Label] = Label("bound", "of the log evidence, from below")

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if isinstance(self.truncation, str) and self.truncation != "auto":
            raise ValueError(
                f"{owner}: truncation must be a number of features or 'auto', "
                f"not {self.truncation!r}."
            )
        check_settings(self)
        object.__setattr__(self, "init", check_init(type(self), self.init))

    # what the loop reads of every engine

    @property
    def chains(self) -> int:
        return self.n_init

    @property
    def searches(self) -> bool:
        return False

    def steps(self, data: Data) -> int:
        return self.max_iter

    def racing_sweeps(
        self, model: Model, data: Data, n_components: int, disagreed: bool = False
    ) -> int:
        work = data.n * data.d * max(n_components, 10)
        return int(min(RACING, self.max_iter, max(10.0, 1e10 / work)))

    # an iteration

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: StateT) -> Info:
        """Rows given the rest, then the rest given the rows; moves where that gains no more."""
        if not state.finished:
            before = state.reported
            state.advance()
            if state.iteration % DROP == 0:
                drop_features(state)
            little = state.reported - before <= self._negligible(state)
            state.quiet = state.quiet + 1 if little else 0
            still = state.quiet >= QUIET and state.iteration > state.hold_sigma
            if still or state.k == 0:
                state.quiet = 0
                state.finished = not (self._move(rng, state) or stopped())
        return Info(state.rows.used, state.reported, dict(state.hyper), 0.0)

    def _move(self, rng: np.random.Generator, state: StateT) -> bool:
        """Try changes of whole features; whether one was kept that is worth going on from."""
        before = state.reported
        drop_features(state)
        join_features(state)
        add_features(state, rng)
        return state.reported - before > self._negligible(state)

    def _negligible(self, state: StateT) -> float:
        """A gain that does not count; a bound near zero is measured by the entries of X."""
        return self.tol * max(abs(state.bound), float(state.data.size))

    def finished(self, state: StateT) -> bool:
        return state.finished

    @abstractmethod
    def backend_for(self, model: Model, data: Data) -> Backend:
        """Where blocks of rows are worked on."""

    def _threads(self) -> int:
        """Restarts run side by side on the cores, one that runs alone has them to itself."""
        return cores() if self.n_init == 1 else 1

    # starts

    def spread(
        self, rng: np.random.Generator, model: Model, data: Data, near: Data, start: Start
    ) -> Start:
        """A start of all rows from one of some of them, which are ``near``: with the features that
        it has there, and the rows' own share of these."""
        if not start.latent.any():
            return replace(start, latent=model.structure.empty(data.n))
        backend = self.backend_for(model, data)
        state = self.replace(backend="local").begin(rng, model, near, start)
        share = (state.rows.nu.sum(axis=0, dtype=float) + 0.5) / (near.n + 1.0)
        rows, cold = fresh_rows(rng, np.tile(share, (data.n, 1)), state.rows.slab), state.sigmas[0]
        block, rows = backend.hold(data, rows, getattr(self, "dtype", "float64"))
        features = Moments.of(state.features, block.masked)
        hot = max(float(np.sqrt(0.5 * np.diagonal(features.gram[0]).max())), cold)
        odds = np.log(share) - np.log1p(-share)
        for sigma in np.geomspace(hot, cold, COOLING):  # undecided rows would take what comes first
            backend.local_step(block, rows, Globals(features, odds, float(sigma)))
        soft = {"nu": rows.nu}
        if rows.slab is not None:
            soft["S"] = rows.amounts[0]
        return replace(start, latent=rows.nu > 0.5, parameters=soft)

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: StateT
    ) -> Population:
        """Draws of q, with equal weights."""
        n, k = state.rows.n, state.rows.k
        size = n * k * (8 if state.rows.slab else 1 / 8) + 8 * k * data.d
        room = DRAWN_SPARSE if data.sparse else DRAWN
        count = int(np.clip(room / max(size, 1.0), 1, DRAWS))
        Z: list[np.ndarray] = []
        parameters, scalars = [], []
        point = state.rows.point  # then all draws share one Z
        for bits, amounts in islice(state.row_draws(rng), count):
            used = np.flatnonzero(bits.any(axis=0))
            kept = {"A": state.features.draw(rng)[used]}
            if amounts is not None:
                kept["S"] = np.ascontiguousarray(amounts[:, used].T)
            Z.append(Z[0] if point and Z else np.ascontiguousarray(bits[:, used]))
            parameters.append(kept)
            scalars.append((float(len(used)), float("nan"), *as_scalars(state.hyper).values()))
        weights = np.full(count, 1.0 / count)
        return Population(weights, np.array(scalars), Z, float("nan"), parameters)

    # files

    def to_arrays(self, state: StateT) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {f"{FEATURES}{name}": value for name, value in state.features.arrays().items()}
        numbers = {name: getattr(state, name) for name in PROGRESS}
        return arrays, {"hyper": dict(state.hyper)} | numbers


def feature_posterior(
    model: Model, hyper: Values, k: int, d: int, joint: bool = False
) -> FeaturePosterior:
    """The prior of k features as a q to begin from."""
    sigma_a = model.likelihood_values(hyper)["sigma_a"]
    return cast(Expected, model.likelihood).feature_posterior(k, d, sigma_a, joint)


def saved_features(kind: FeaturePosterior, arrays: Mapping[str, np.ndarray]) -> FeaturePosterior:
    """The q(features) that ``to_arrays`` saved, of the kind of another."""
    return kind.of_arrays({k.removeprefix(FEATURES): v for k, v in arrays.items() if FEATURES in k})


def begun(state: StateT, hold_sigma: int) -> StateT:
    """The state with all but its rows at their best, and no iteration made."""
    iterate(state, passes=0)
    state.iteration, state.bound = 0, -np.inf  # of rows that no local step has made
    state.hold_sigma = hold_sigma
    return state


def by_frequency(weights: np.ndarray) -> np.ndarray:
    """The columns that are not empty, the most frequent first."""
    sums = weights.sum(axis=0)
    return np.argsort(-sums, kind="stable")[: int((sums > 0).sum())]
