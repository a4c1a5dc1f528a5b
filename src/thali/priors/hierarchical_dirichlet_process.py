r"""The hierarchical Dirichlet process: topics shared by documents, as many as the data ask for.

    words of document j in groups ~ DP(α),     groups of all documents in topics ~ DP(γ)

(Teh, Jordan, Beal and Blei 2006), which is a Dirichlet process over topics in each document around
weights of topics that all documents share.
"""

from dataclasses import dataclass
from typing import Self

from thali.hyperparameters import Gamma, Hyperprior, Scope, Value, Values, check_hyperparameter
from thali.priors.buffet import LARGEST_MASS
from thali.priors.grouped import GroupedPrior
from thali.priors.pitman_yor import DirichletProcess
from thali.registry import PRIORS
from thali.settings import Settings, hyperparameter

OWN = {"groups": {"alpha": "alpha"}, "topics": {"alpha": "gamma"}}  # names of either level


@PRIORS.register("hierarchical_dirichlet_process")
@dataclass(frozen=True)
class HierarchicalDirichletProcess(Settings, GroupedPrior):
    """The hierarchical Dirichlet process.

    Parameters
    ----------
    alpha : float or hyperprior, default Gamma(1, 1)
        How many groups of words a document has: the larger, the more topics in each.
    gamma : float or hyperprior, default Gamma(1, 1)
        How many topics there are in all.

    Examples
    --------
    >>> import numpy as np
    >>> prior = HierarchicalDirichletProcess(alpha=1.0, gamma=1.0)
    >>> draw = prior.sample(np.random.default_rng(0), [3, 2])  # documents of 3 and 2 words
    >>> draw.topic_of_word.tolist()
    [0, 0, 1, 2, 3]
    """

    alpha: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="α", words="how many topics a document has"
    )
    gamma: float | Hyperprior = hyperparameter(
        Gamma(1.0, 1.0), symbol="γ", words="how many topics there are"
    )

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma"):
            check_hyperparameter(type(self).__name__, name, getattr(self, name), most=LARGEST_MASS)

    @property
    def of_groups(self) -> DirichletProcess:
        return DirichletProcess(alpha=self.alpha)

    @property
    def of_topics(self) -> DirichletProcess:
        return DirichletProcess(alpha=self.gamma)

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def values_of(self, part: str, hyper: Values) -> Values:
        return Scope(hyper, OWN[part])
