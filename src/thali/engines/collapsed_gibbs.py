r"""Collapsed Gibbs sampling, with the components' parameters integrated out.

Of a feature matrix it is in ``engines/features/gibbs.py``, of a partition in
``engines/clusters/gibbs.py``; here are its settings, and which of the two a model asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thali.data import Data
from thali.engines.base import Drawn, Info, Needs, Sampler
from thali.engines.chain_settings import ChainSettings, annealing
from thali.engines.clusters import gibbs as clusters
from thali.engines.clusters.gibbs import ClusterState
from thali.engines.features import gibbs as features
from thali.engines.features import state as feature_state
from thali.engines.features.state import FeatureState
from thali.likelihoods.base import Collapsed, GaussianRows, Parameters
from thali.likelihoods.clusters import ConjugateClusters
from thali.likelihoods.gibbs_updates import LatentBits
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.priors.partition import PredictsLabel
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start
from thali.structures.partitions import PARTITIONS

State = FeatureState | ClusterState


@ENGINES.register("collapsed_gibbs")
@dataclass(frozen=True)
class CollapsedGibbs(ChainSettings, Sampler[State]):
    """Sweeps with the components' parameters integrated out, in several chains.

    Over the bits of a feature matrix, or over the labels of a partition.

    Parameters
    ----------
    sweeps : int, optional
        Sweeps of each chain. By default 1000, but fewer, down to 100, where data and features are
        large, and more, up to 3000, where they are small and starts do not come to agree.
    burn_in : int, optional
        How many of the first sweeps are not kept. By default half of them.
    thin : int, default 1
        One of so many sweeps is kept after burn-in.
    chains : int, default 4
        How many chains run side by side.
    init : str, array of shape (n, K) or (n,), or fitted model, default "race"
        Where chains begin: the name of a start, a matrix Z or a vector of labels, or another
        model's answer. "race" tries the starts that suit the likelihood, for a while each, and goes
        on from the best.
    sigma_step : {"slice", "metropolis"}, default "slice"
        How σ_x and σ_a are sampled: a slice step on log σ, or a uniform step of ±0.05 that is
        accepted or not (Anand 2015). For features only.
    moves : int, default 2
        How often a sweep tries to change whole columns (split, join, turn, drop), or to split or
        merge whole clusters (Jain and Neal 2004). Chains leave modes by these moves that they do
        not leave by single bits or labels. 0 is the plain Gibbs sampler.
    anneal : int, default 0
        How many sweeps under falling noise come before the first sweep of a chain that begins at
        "prior" or "empty" (in a race, of those contenders). They belong to the start and are not
        recorded. For features only.

    Examples
    --------
    >>> CollapsedGibbs(sweeps=200, chains=2).kept
    100
    """

    sigma_step: str = setting(
        "slice", help="How the scales are sampled", choices=("slice", "metropolis")
    )
    moves: int = setting(
        2, help="Tries to change whole columns or clusters, a sweep", minimum=0, maximum=10**6
    )
    anneal: int = annealing()

    needs_prior: ClassVar[Needs] = ((PredictsRow, PredictsLabel),)
    weighs_rows: ClassVar[bool] = True
    for_features: ClassVar[tuple[str, ...]] = ("sigma_step", "anneal")
    needs_likelihood: ClassVar[Needs] = (
        (Collapsed, LatentBits, ConjugateClusters),
        (GaussianRows, LatentBits, ConjugateClusters),
    )
    masked: ClassVar[bool] = True
    auto_rank: ClassVar[int | None] = 1

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The state at ``start``, arrays made afresh from its value."""
        if model.structure == PARTITIONS:
            self.refuse_what_features_need()
            return clusters.begin(rng, model, data, start)
        return feature_state.begin(rng, model, data, start)

    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start:
        if model.structure == PARTITIONS:
            self.refuse_what_features_need()
        return super().annealed(rng, model, data, start, stopped)

    def rehearsals(self, model: Model) -> tuple[str, ...]:
        return ("sweeps", "moves") if self.moves else ("sweeps",)

    def rehearse(self, part: str, model: Model, missing: bool) -> None:
        if model.structure == PARTITIONS:
            clusters.rehearse(part, model, missing)
        else:
            features.rehearse(part, model, missing, self.sigma_step)

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Moves when it is their turn, one sweep, and one update of every inferred
        hyperparameter."""
        return self.several(rng, model, data, state, 1, keep=False)[0].info

    def several(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State,
        most: int,
        keep: bool = True,
    ) -> list[Drawn]:
        """Sweeps up to the next moves on columns, in one call of compiled code where it can update
        the hyperparameters too; one sweep where it cannot."""
        if isinstance(state, ClusterState):
            return [clusters.step(rng, model, data, state, self.moves, keep)]
        return features.several(rng, model, data, state, most, keep, self.moves, self.sigma_step)

    def kept_parameters(self, model: Model, state: State) -> Parameters:
        """Those that go with latents behind a table; others are drawn again given Z."""
        return {} if isinstance(state, ClusterState) else dict(state.parameters)

    def level(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State,
        info: Info,
    ) -> float:
        return (
            clusters.level(model, state, info)
            if isinstance(state, ClusterState)
            else info.log_joint
        )

    def to_arrays(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if isinstance(state, ClusterState):
            return clusters.to_arrays(state)
        return feature_state.to_arrays(state)

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        if model.structure == PARTITIONS:
            return clusters.from_arrays(model, data, arrays, numbers)
        return feature_state.from_arrays(model, data, arrays, numbers)
