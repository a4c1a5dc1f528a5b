"""The door for people who look for topics: ``TopicModel``, a scikit-learn transformer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from thali.data import Data
from thali.data.documents import (
    Documents,
    check_counts,
    counts_of,
    is_texts,
    is_word_lists,
    words_of,
)
from thali.engines.base import AnyEngine
from thali.estimators import validation
from thali.estimators.base import LatentModel
from thali.likelihoods.base import Likelihood
from thali.priors.base import Prior
from thali.registry import ESTIMATORS
from thali.results import topic_answer
from thali.results.fit import Fit
from thali.results.topic_coherence import npmi
from thali.settings import whole_number
from thali.structures.grouped_partitions import GROUPED_PARTITIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@ESTIMATORS.register("TopicModel")
class TopicModel(TransformerMixin, LatentModel):  # type: ignore[misc]
    """Find an unknown number of topics in documents, and tell how sure they are.

    Parameters
    ----------
    prior : Prior or name, default "hierarchical_dirichlet_process"
        How words go into groups and groups into topics: ``HierarchicalDirichletProcess``, or
        ``HierarchicalFlexible`` with priors of your own at either level.
    likelihood : Likelihood or name, default "topic_words"
        How topics make words.
    engine : Engine or name, default "auto"
        ``DirectAssignment`` for the hierarchical Dirichlet process, else ``Franchise``.
    random_state : int, Generator or None
        An int makes the fit reproducible.
    progress : "auto", True or False
        Whether a progress bar is shown; "auto": on a terminal.

    Attributes
    ----------
    components_ : array (K, V)
        The words of each topic: rows sum to one, the largest topic first.
    n_components_ : int
    topic_sizes_ : array (K,)
        How many words topics have.
    topic_presence_ : array (K,)
        How much of a topic is found again in other draws, between 0 and 1.
    document_topics_ : array (D, K)
        The share of each topic in each document that was fitted.
    vocabulary_ : list of str
        What columns of X stand for.
    log_joint_, history_, posterior_, diagnostics_
        As of ``LatentFeatures``.

    Examples
    --------
    >>> import thali
    >>> documents = [["dal", "rice", "dal"], ["goal", "ball"], ["rice", "dal"]] * 5
    >>> engine = thali.DirectAssignment(sweeps=20, chains=1)
    >>> model = TopicModel(engine=engine, random_state=0).fit(documents)
    >>> model.components_.shape[1], model.vocabulary_
    (4, ['ball', 'dal', 'goal', 'rice'])
    """

    structure = GROUPED_PARTITIONS
    center = False  # counts are counts

    def __init__(
        self,
        prior: Prior | str = "hierarchical_dirichlet_process",
        likelihood: Likelihood | str = "topic_words",
        engine: AnyEngine | str = "auto",
        random_state: validation.Seed = None,
        progress: bool | str = "auto",
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.engine = engine
        self.random_state = random_state
        self.progress = progress

    # fitting

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        vocabulary: Sequence[str] | None = None,
        n_hidden: np.ndarray | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        time_budget: float | None = None,
    ) -> Self:
        """Fit to documents: a matrix of counts of words, sparse or not, or lists of words.

        ``vocabulary`` names the columns of a matrix. ``n_hidden`` says how many words each document
        has besides, of which is not known which they are: ``perplexity(None, X_held)`` asks for
        them. The others are as of ``LatentFeatures.fit``.
        """
        with self._undo_on_failure():
            X, names = as_matrix(X, vocabulary)
            self._hidden = checked_hidden(n_hidden, X)
            self._names = names
            super().fit(X, y, checkpoint=checkpoint, resume=resume, time_budget=time_budget)
        return self

    def _with_more(self, data: Data) -> Data:
        return Documents(data.X, hidden=self._hidden)

    def _show(self, fit: Fit) -> Self:
        super()._show(fit)
        found = topic_answer.answer(fit, words_of(fit.data))
        self.grouping_ = found.grouping
        self.n_components_ = found.grouping.n_topics
        beta = float(self.fit_.model.likelihood_at(fit.mean_hyper()).beta)  # type: ignore[attr-defined]
        smoothed = found.counts + beta
        self.components_ = smoothed / smoothed.sum(axis=1, keepdims=True)
        self.topic_sizes_ = found.counts.sum(axis=1)
        self.topic_presence_ = found.presence
        self.document_topics_ = shares(found.documents)
        self.log_joint_ = float(fit.means()["log_joint"])
        return self

    @property
    def vocabulary_(self) -> list[str]:
        """What the columns of X stand for."""
        check_is_fitted(self)
        names = getattr(self, "_names", None)
        return [f"x{i}" for i in range(self.fit_.data.d)] if names is None else list(names)

    # what the fit says

    def top_words(self, n: int = 10) -> list[list[str]]:
        """The n most probable words of each topic, the largest topic first."""
        check_is_fitted(self)
        n = whole_number("top_words", "n", n, 1)
        names = np.array(self.vocabulary_, dtype=object)
        return [names[row].tolist() for row in self._top(n)]

    def _top(self, n: int) -> np.ndarray:
        """The columns of the n most probable words of each topic."""
        return np.asarray(np.argsort(-self.components_, axis=1, kind="stable")[:, :n])

    def coherence(self, n: int = 10, X: Any = None) -> np.ndarray:
        """Whether the n most probable words of each topic are found together in documents, (K,).

        Mean normalized pointwise mutual information (NPMI) of pairs of them, from −1 (never
        together) over 0 (as by chance) to 1 (always). By the documents that were fitted, or by
        others with the same columns: those are the sterner judges.
        """
        check_is_fitted(self)
        n = whole_number("coherence", "n", n, 2)
        documents = self.fit_.data.X if X is None else self._others(X)
        return npmi(documents, self._top(n))

    def _others(self, X: Any) -> csr_array:
        """Other documents with the columns of those that were fitted."""
        given, _ = as_matrix(X, self.vocabulary_)
        new = csr_array(np.asarray(given, float) if isinstance(given, pd.DataFrame) else given)
        if new.shape[1] != self.fit_.data.d:
            raise ValueError(
                f"X has {new.shape[1]} columns; the documents that were fitted have "
                f"{self.fit_.data.d}, a word each."
            )
        check_counts(Data.of(new), "coherence")
        return new

    # pictures

    def plot(self) -> Figure:
        """One figure with the most useful pictures."""
        from thali import plots

        return plots.topics_overview(self)


def shares(counts: np.ndarray) -> np.ndarray:
    """Rows over their sums; a row without words has equal shares."""
    total = counts.sum(axis=1, keepdims=True)
    even = np.full(counts.shape, 1.0 / max(counts.shape[1], 1))
    return np.divide(counts, total, out=even, where=total > 0.0)


def as_matrix(X: Any, vocabulary: Sequence[str] | None) -> tuple[Any, list[str] | None]:
    """Documents as a sparse matrix of counts, and the names of its columns."""
    if is_texts(X):
        raise TypeError(
            "X is a list of texts. Count their words first: scikit-learn's CountVectorizer, or "
            "[text.split() for text in X]; on the command line: thali topics docs.csv --text column."
        )
    if is_word_lists(X):
        if vocabulary is not None:
            return counts_of(X, {word: i for i, word in enumerate(vocabulary)})
        return counts_of(X)
    names = None if vocabulary is None else [str(word) for word in vocabulary]
    if isinstance(X, pd.DataFrame) and names is None:
        names = [str(column) for column in X.columns]
    return X, names


def checked_hidden(n_hidden: np.ndarray | None, X: Any) -> np.ndarray | None:
    """Whole numbers from zero on, one for each document, or one sentence."""
    if n_hidden is None:
        return None
    hidden = np.asarray(n_hidden)
    if hidden.shape != (X.shape[0],) or hidden.dtype.kind not in "iu" or hidden.min() < 0:
        raise ValueError(
            f"n_hidden must be a whole number from 0 on for each of the {X.shape[0]} documents."
        )
    return hidden.astype(np.int64)
