"""What engines share that raise a lower bound of the evidence, restart by restart.

An iteration is a local step over blocks of rows, the statistics it leaves, and a global step on
these; where that gains no more, features are dropped, joined or born (``moves.py``). The
settings they share are ``truncation``, ``n_init``, ``tol``, ``max_iter``, ``init``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thali.backends.base import Backend
from thali.backends.local import Local
from thali.data import Data
from thali.engines.ascent.moves import add_feature, drop_features, join_features
from thali.engines.ascent.state import State, iterate
from thali.engines.base import BoundOptimizer, Info, Population
from thali.hyperparameters import Hyperprior
from thali.likelihoods.feature_posteriors import FeaturePosterior
from thali.machine import cores
from thali.model import Model
from thali.settings import Label, check_settings
from thali.starts import check_init

DROP = 5  # iterations between looks at features that might go
QUIET = 2  # iterations in a row with little gain after which nothing moves
RACING = 150  # iterations that a race may think of, at most: few are needed
DRAWS = 100  # of the law, for what is averaged over it
DRAWN = 2e8  # bytes of all of them together
DRAWN_SPARSE = 2e7  # where X is sparse, and so small beside them


class Optimizer(BoundOptimizer):
    """The loop's questions, a step, and draws of the law that is found."""

    truncation: int | str
    n_init: int
    tol: float
    max_iter: int
    init: Any

    masked: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    blocks: ClassVar[bool] = True
    unit: ClassVar[str] = "iteration"
    measure_label: ClassVar[Label] = Label("bound", "of the log evidence, from below")

    def check_limits(self) -> None:
        """Refuse settings that make no sense, with words."""
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

    def racing_sweeps(self, data: Data, n_components: int) -> int:
        work = data.n * data.d * max(n_components, 10)
        return int(min(RACING, self.max_iter, max(10.0, 1e10 / work)))

    # an iteration

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Rows given the rest, then the rest given the rows; moves where that gains no more."""
        if not state.finished:
            before = state.bound
            iterate(state)
            if state.iteration % DROP == 0:
                drop_features(state)
            little = state.bound - before <= self._negligible(state)
            state.quiet = state.quiet + 1 if little else 0
            still = state.quiet >= QUIET and state.iteration > state.hold_sigma
            if still or state.k == 0:
                state.quiet = 0
                state.finished = not self._move(rng, state)
        used = int((state.rows.nu > 0.5).any(axis=0).sum())
        return Info(used, self.reported(state), dict(state.hyper), 0.0)

    def reported(self, state: State) -> float:
        """The bound as people are told it."""
        return state.bound

    def _move(self, rng: np.random.Generator, state: State) -> bool:
        """Try changes of whole features; whether one was kept that is worth going on from."""
        before = state.bound
        drop_features(state)
        join_features(state)
        add_feature(state, rng)
        return state.bound - before > self._negligible(state)

    def _negligible(self, state: State) -> float:
        """A gain that does not count; a bound near zero is measured by the entries of X."""
        return self.tol * max(abs(state.bound), float(state.data.size))

    def finished(self, state: State) -> bool:
        """Whether another step would change nothing."""
        return state.finished

    def backend(self, alone: bool) -> Backend:
        """Where blocks of rows are worked on: restarts run side by side on the cores, what runs
        alone has them to itself."""
        return Local(cores() if alone else 1)

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: State
    ) -> Population:
        """Draws of the law, with equal weights."""
        n, k = state.rows.nu.shape
        size = n * k * (8 if state.rows.slab else 1 / 8) + 8 * k * data.d
        room = DRAWN_SPARSE if data.sparse else DRAWN
        count = int(np.clip(room / max(size, 1.0), 1, DRAWS))
        Z: list[np.ndarray] = []
        parameters, scalars = [], []
        point = state.rows.point  # then all draws share one Z
        bits, S = state.rows.nu > 0.5, None
        given = None if point else state.globals()
        for _ in range(count):
            if given is not None:
                bits, S = state.backend.draw_rows(rng, state.data, state.rows, given)
            used = np.flatnonzero(bits.any(axis=0))
            kept = {"A": state.features.draw(rng)[used]}
            if S is not None:
                kept["S"] = np.ascontiguousarray(S[:, used].T)
            Z.append(Z[0] if point and Z else np.packbits(bits[:, used], axis=0))
            parameters.append(kept)
            scalars.append((float(len(used)), float("nan"), *state.hyper.values()))
        weights = np.full(count, 1.0 / count)
        return Population(weights, np.array(scalars), Z, float("nan"), parameters)


def by_frequency(weights: np.ndarray) -> np.ndarray:
    """The columns that are not empty, the most frequent first."""
    sums = weights.sum(axis=0)
    return np.argsort(-sums, kind="stable")[: int((sums > 0).sum())]


PROGRESS = ("hold_sigma", "iteration", "bound", "quiet", "finished")  # of a state, plain values


def common_arrays(state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What every optimizer's state has: the features' law, hyperparameters, and how far it is."""
    arrays = {f"features_{name}": value for name, value in state.features.arrays().items()}
    return arrays, {"hyper": dict(state.hyper)} | {name: getattr(state, name) for name in PROGRESS}


def features_from_arrays(law: FeaturePosterior, arrays: dict[str, np.ndarray]) -> FeaturePosterior:
    """The features' law that ``common_arrays`` saved, of the kind of ``law``."""
    mark = "features_"
    return law.of_arrays({k.removeprefix(mark): v for k, v in arrays.items() if mark in k})


def hyperpriors_of(model: Model) -> dict[str, Hyperprior]:
    """The laws of the hyperparameters that have one."""
    found = {name: getattr(model.prior, name, None) for name in ("alpha", "beta")}
    found |= {name: getattr(model.likelihood, name, None) for name in ("sigma_x", "sigma_a")}
    return {name: law for name, law in found.items() if isinstance(law, Hyperprior)}
