"""What both samplers of topics can be told, and what they do alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from thali.data import Data
from thali.data.documents import lengths_of
from thali.engines.base import Info, Sampler
from thali.engines.chain_settings import ChainSettings
from thali.engines.topics import steps
from thali.engines.topics.state import TopicState, levels_of, state_of
from thali.hyperparameters import Values
from thali.likelihoods.topic_words import TopicLikelihood
from thali.model import Model
from thali.priors.grouped import GroupedPrior
from thali.settings import setting
from thali.starts import Start
from thali.starts.topics import scattered, with_places
from thali.structures.grouped_partitions import GROUPED_PARTITIONS

KEPT = 10  # draws of a chain that are kept where nothing else is said: each is as long as the data


@dataclass(frozen=True)
class TopicChains(ChainSettings, Sampler[TopicState]):
    """Chains of topics of words."""

    thin: int | None = setting(  # type: ignore[assignment]
        None, help="Keep one of so many sweeps; as many as leaves 10 draws of a chain", minimum=1
    )
    chains: int = setting(2, help="Chains, run side by side", minimum=1, maximum=10**4)
    init: object = setting("scattered", help="Where to begin")
    moves: int = setting(
        5, help="Splits and mergers of topics tried in a sweep", minimum=0, maximum=10**6
    )

    needs_prior: ClassVar[tuple[type, ...]] = (GroupedPrior,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (TopicLikelihood,)
    sparse: ClassVar[bool] = True
    races: ClassVar[bool] = False

    def planned(self, model: Model, data: Data, n_components: int, disagreed: bool = False) -> Self:
        own = super().planned(model, data, n_components, disagreed)
        if own.thin is not None:
            return own
        return own.replace(thin=max(1, -(-(own.steps(data) - own.burned) // KEPT)))

    def keeps(self, step: int) -> bool:
        return step % (self.thin or 1) == 0

    @property
    def kept(self) -> int:
        """Draws kept of each chain, once the number of sweeps is known."""
        return -(-(self._known() - self.burned) // (self.thin or 1))

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> TopicState:
        prior = model.prior
        assert isinstance(prior, GroupedPrior)
        lengths = lengths_of(data)
        prior.check_documents(lengths)
        latent = start.latent
        if not latent.lengths.any():  # a stop came before there was a start
            latent = scattered(rng, lengths, 1, prior.places)
        check_same_lengths(type(self).__name__, latent.lengths, lengths)
        latent = with_places(rng, latent, prior.places)
        return state_of(model, data, latent, dict(start.hyper))

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: TopicState) -> Info:
        levels = levels_of(model, state)
        self.sweep(rng, model, state, levels)
        return steps.update_hyperparameters(rng, model, state)

    def sweep(self, rng: np.random.Generator, model: Model, state: TopicState, levels: Any) -> None:
        """All words, groups and topics once."""
        raise NotImplementedError

    def to_arrays(self, state: TopicState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as it is: the order of slots and of lists decides what is drawn next."""
        arrays: dict[str, np.ndarray] = {}
        for name in ("seating", "lists", "topics"):
            own = getattr(state, name)._asdict()
            arrays |= {f"{name}_{k}": np.asarray(v).copy() for k, v in own.items()}
        return arrays, {"sweep": state.sweep, "hyper": dict(state.hyper)}

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> TopicState:
        from thali.kernels.corpus import Seating, Topics, WordLists

        hyper: Values = dict(numbers["hyper"])
        empty = scattered(np.random.default_rng(0), lengths_of(data), 1)
        state = state_of(model, data, empty, hyper, numbers["sweep"])
        kinds: dict[str, Any] = {"seating": Seating, "lists": WordLists, "topics": Topics}
        for name, kind in kinds.items():
            own = (np.ascontiguousarray(arrays[f"{name}_{k}"]) for k in kind._fields)
            setattr(state, name, kind(*own))
        return state

    def value_kept(
        self, model: Model, state: TopicState
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return GROUPED_PARTITIONS.pack(state.latent), {}


def check_same_lengths(owner: str, given: np.ndarray, lengths: np.ndarray) -> None:
    """Refuse to begin with the words of other documents."""
    wrong = np.flatnonzero(given != lengths)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"{owner}: init was fitted to other documents: document {i} has {given[i]} words there "
            f"and {lengths[i]} here, hidden ones included."
        )
