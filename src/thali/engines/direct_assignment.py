r"""The hierarchical Dirichlet process by topics of words (Teh and others 2006, section 5.3).

Given weights of topics, a word has one of them in proportion to how many words of its document have
it and to that weight; groups are drawn anew after every sweep, and tell of the weights and of α and
γ. Some of them then join other topics as a whole, and topics are split and merged. So both samplers
walk over the same values, and their log joints compare.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thali.engines.topics import steps
from thali.engines.topics.settings import TopicChains
from thali.engines.topics.state import TopicState
from thali.model import Model
from thali.priors.hierarchical_dirichlet_process import HierarchicalDirichletProcess
from thali.registry import ENGINES
from thali.settings import setting

SOME = 0.2  # of the groups, that are moved whole in a sweep: new topics seldom begin with one word


@ENGINES.register("direct_assignment")
@dataclass(frozen=True)
class DirectAssignment(TopicChains):
    """Gibbs sampling of the topics of words, for the hierarchical Dirichlet process.

    Parameters
    ----------
    sweeps, burn_in, thin, chains, init
        How long chains are, which sweeps are kept, how many chains there are and where they begin:
        as of ``Franchise``.
    moves : int, default 5
        Splits and mergers of topics tried in a sweep.
    passes : int, default 8
        How often a sweep visits every word before groups are drawn.

    Examples
    --------
    >>> DirectAssignment(sweeps=200, burn_in=50).burned
    50
    """

    passes: int = setting(8, help="Visits of every word in a sweep", minimum=1, maximum=10**6)

    needs_prior: ClassVar[tuple[type, ...]] = (HierarchicalDirichletProcess,)
    auto_rank: ClassVar[int | None] = 10

    def sweep(self, rng: np.random.Generator, model: Model, state: TopicState, levels: Any) -> None:
        hyper = model.prior_values(state.hyper)
        alpha, gamma = float(hyper["alpha"]), float(hyper["gamma"])
        steps.sweep_assignments(rng, state, alpha, gamma, levels.beta, self.passes)
        index = steps.index_of(state)
        steps.sweep_groups(rng, state, levels, index, SOME)
        steps.split_or_merge(rng, state, levels, index, self.moves)
