r"""Topics as distributions of words, integrated out.

x | topic t ~ θ_t,    θ_t ~ Dirichlet(β, …, β) over the V words,

so that with n_tx occurrences of word x in topic t, n_t in all,

    log P(x | topics) = Σ_t [log Γ(Vβ) − log Γ(n_t + Vβ) + Σ_x (log Γ(n_tx + β) − log Γ(β))].
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from thali.data import Data
from thali.data.documents import check_counts
from thali.hyperparameters import (
    Hyperprior,
    Value,
    Values,
    as_number,
    check_hyperparameters,
    first_numbers,
    slice_step,
)
from thali.likelihoods.base import Likelihood, TakesSparse, Words
from thali.registry import LIKELIHOODS
from thali.settings import Settings, hyperparameter
from thali.structures.grouped_partitions import GROUPED_PARTITIONS

WORK = 600.0  # about what a word costs in a sweep, in multiply-adds


class WordCounts(NamedTuple):
    """How often numbers occur among the counts n_tx > 0, the totals n_t, and V."""

    count: np.ndarray  # type: ignore[assignment]
    times: np.ndarray
    totals: np.ndarray
    vocabulary: int


class TopicLikelihood(Likelihood):
    """A distribution of words given their topics."""

    structure = GROUPED_PARTITIONS
    starts: ClassVar[tuple[str, ...]] = ("scattered", "one_topic")
    spectrum: ClassVar[bool] = False
    words: ClassVar[Words] = Words(
        "Each topic is a distribution of words, the largest topic first.",
        "A word of a document has a topic, and is drawn from the words of that topic.",
    )

    @property
    @abstractmethod
    def beta(self) -> float:
        """The weight of each word in a topic that has none yet, as a number."""

    @abstractmethod
    def log_marginal_of(self, counts: WordCounts) -> float:
        """log P(words | topics), hyperparameters being numbers."""

    @abstractmethod
    def resample(self, rng: np.random.Generator, hyper: Values, counts: WordCounts) -> None:
        """Update the inferred hyperparameters in ``hyper`` given counts of words, in place."""


@LIKELIHOODS.register("topic_words")
@dataclass(frozen=True)
class TopicWords(Settings, TopicLikelihood, TakesSparse):
    """Topics are distributions of words.

    Parameters
    ----------
    concentration : float or hyperprior, default 0.1
        The weight of each word: the smaller, the fewer words a topic has much of, and the more
        topics there are. A hyperprior such as ``Gamma(1, 1)`` means that it is inferred; texts in
        which words come in bursts then have very many topics of a document or two.

    Examples
    --------
    >>> import numpy as np
    >>> counts = WordCounts(np.array([2]), np.array([1]), np.array([2]), 2)
    >>> round(float(np.exp(TopicWords(concentration=1.0).log_marginal_of(counts))), 6)  # ½ · ⅔
    0.333333
    """

    concentration: float | Hyperprior = hyperparameter(
        0.1, symbol="β", words="how even the words of a topic are"
    )

    def __post_init__(self) -> None:
        check_hyperparameters(self)

    def at(self, **numbers: Value) -> Self:
        return self.replace(**numbers)

    def check_data(self, data: Data) -> None:
        check_counts(data, type(self).__name__)

    def resolve(self, data: Data) -> Self:
        self.check_data(data)
        return self

    def start(self, data: Data) -> dict[str, Value]:
        """A tenth, from which data soon lead away, where it is inferred."""
        found = first_numbers(self)
        if isinstance(self.concentration, Hyperprior):
            found["concentration"] = 0.1
        return found

    def work(self, data: Data, n_components: int) -> float:
        return WORK * float(data.X.sum())

    @property
    def beta(self) -> float:
        return as_number(type(self).__name__, "concentration", self.concentration)

    def log_marginal_of(self, counts: WordCounts) -> float:
        beta, total = self.beta, counts.vocabulary * self.beta
        found = counts.times @ (gammaln(counts.count + beta) - gammaln(beta))
        return float(found + (gammaln(total) - gammaln(counts.totals + total)).sum())

    def resample(self, rng: np.random.Generator, hyper: Values, counts: WordCounts) -> None:
        hyperprior = self.concentration
        if isinstance(hyperprior, Hyperprior):

            def log_density(value: float) -> float:
                return hyperprior.log_density(value) + self.at(concentration=value).log_marginal_of(
                    counts
                )

            hyper["concentration"] = slice_step(rng, hyper["concentration"], log_density, 0.5)
