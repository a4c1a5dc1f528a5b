r"""Topics by way of groups of words: the franchise sampler, for every prior.

Every word joins a group of its document or opens one, every group joins a topic or opens one, two
places exchange topics, topics are split and merged; then hyperparameters given all of it (Welling
and others 2012, section IV; Teh and others 2006, section 5.1).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thali.engines.topics import steps
from thali.engines.topics.settings import TopicChains
from thali.engines.topics.state import TopicState
from thali.model import Model
from thali.registry import ENGINES
from thali.settings import setting


@ENGINES.register("franchise")
@dataclass(frozen=True)
class Franchise(TopicChains):
    """Gibbs sampling of words in groups, and of groups in topics.

    For the hierarchical Dirichlet process ``DirectAssignment`` is faster; this is for all priors.

    Parameters
    ----------
    sweeps, burn_in, thin, chains, init
        How long chains are, which sweeps are kept, how many chains there are and where they begin.
        ``init`` is "scattered" (words over topics at random), "one_topic", or a fitted
        ``TopicModel``.
    moves : int, default 5
        Splits and mergers of topics tried in a sweep.
    swap : bool, default True
        Whether places exchange topics, about as many attempts in a sweep as there are documents.

    Examples
    --------
    >>> Franchise(sweeps=200).burned
    100
    """

    swap: bool = setting(True, help="Whether groups exchange topics")

    auto_rank: ClassVar[int | None] = 11

    def sweep(self, rng: np.random.Generator, model: Model, state: TopicState, levels: Any) -> None:
        steps.sweep_words(rng, state, levels)
        index = steps.index_of(state)
        steps.sweep_groups(rng, state, levels, index)
        if self.swap:
            steps.swap_places(rng, state, levels, index, len(state.seating.used))
        steps.split_or_merge(rng, state, levels, index, self.moves)
