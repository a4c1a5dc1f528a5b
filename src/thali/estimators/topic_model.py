"""The door for people who look for topics: ``TopicModel``, a scikit-learn transformer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from thali.data import Data
from thali.data.documents import Documents, check_counts, words_of
from thali.engines.base import AnyEngine
from thali.estimators import topic_streaming, validation, word_counts
from thali.estimators.base import LatentModel
from thali.likelihoods.base import Likelihood
from thali.priors.base import Prior
from thali.registry import ESTIMATORS
from thali.results import new_documents, topic_answer
from thali.results.fit import Fit
from thali.results.new_documents import TopicsOfDraw
from thali.results.topic_coherence import npmi
from thali.settings import whole_number
from thali.storage import Json
from thali.structures.grouped_partitions import GROUPED_PARTITIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sklearn.utils import Tags


@ESTIMATORS.register("TopicModel")
class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):  # type: ignore[misc]
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
        The words of each topic, means over the draws that have it: rows sum to one, the largest
        topic first.
    n_components_ : int
    topic_sizes_ : array (K,)
        How many words topics have, means over draws; words of topics that come and go are left
        out, so that they may add up to fewer than there are.
    topic_presence_ : array (K,)
        How much of a topic is found again in other draws, between 0 and 1; NaN where one draw is
        all there is, as after ``partial_fit``.
    document_topics_ : array (D, K)
        The share of each topic in each document that was fitted.
    n_documents_seen_ : int
        How many documents there were, those of all pieces after ``partial_fit``.
    vocabulary_ : list of str
        What columns of X stand for. It can be set: a pipeline fits without ``vocabulary``.
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = tags.input_tags.sparse = True
        tags.input_tags.allow_nan = False
        return tags

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

        ``vocabulary`` names the columns of a matrix; of lists, words that are not in it are left
        out. ``n_hidden`` says how many words each document has besides, of which is not known which
        they are: ``perplexity(None, X_held)`` asks for them. Documents may be empty. The others are
        as of ``LatentFeatures.fit``.
        """
        with self._undo_on_failure():
            X, self._names = word_counts.as_matrix(X, vocabulary)
            self._hidden = n_hidden
            super().fit(X, y, checkpoint=checkpoint, resume=resume, time_budget=time_budget)
        return self

    def fit_transform(self, X: Any, y: object = None, **fit_params: Any) -> np.ndarray:
        """Fit, and the share of each topic in each document as it was fitted: ``document_topics_``.

        ``transform`` of the same documents takes them for new ones, and may differ a little.
        """
        return self.fit(X, y, **fit_params).document_topics_

    def partial_fit(
        self, X: Any, y: object = None, *, vocabulary: Sequence[str] | None = None
    ) -> Self:
        """Take in one piece of the documents; the first is fitted by itself, and finds topics.

        A model that was fitted, or loaded, goes on from there. Topics keep the words and groups of
        all documents seen before; only new documents are sampled, by a few sweeps in which new
        topics may open, and are then counted too. Earlier ones are not revisited, which is an
        approximation: the first piece should be large enough to know most topics. Topics keep
        their numbers, and new ones come last. What is said of documents (``document_topics_``,
        ``fit_``) is of the last piece. The prior over topics must be consistent.

        ``vocabulary`` is as of ``fit``, and stays what it was in the first piece. Of lists of words
        it should be given, of all pieces: without it the words are those of the first piece, and
        others are left out with a warning.

        >>> import thali
        >>> documents = [["dal", "rice", "dal"], ["goal", "ball"], ["rice", "dal"]] * 10
        >>> model = thali.TopicModel(engine=thali.DirectAssignment(sweeps=20), random_state=0)
        >>> for piece in (documents[:20], documents[20:]):
        ...     model = model.partial_fit(piece)
        >>> model.n_documents_seen_, model.document_topics_.shape[0]
        (30, 10)
        """
        topic_streaming.refuse_places(self._part("prior"))
        if not hasattr(self, "fit_"):
            return self.fit(X, y, vocabulary=vocabulary)
        with self._undo_on_failure():
            if vocabulary is not None:
                self._check_same(word_counts.checked_vocabulary(vocabulary))
            X = self._new(X)
            if not X.nnz:
                raise ValueError("X has no words: every count is 0.")
            fit = topic_streaming.absorbed(self.fit_, self.grouping_, X)
            mean = self.mean_
            self._forget()
            self.mean_, self.row_names_ = mean, None
            return self._show(fit)

    def _check_same(self, names: list[str]) -> None:
        """Refuse a vocabulary that is not the one of earlier pieces."""
        if self._names is None:
            self.vocabulary_ = names
        elif names != self._names:
            raise ValueError(
                "vocabulary is not that of earlier pieces, to which it must be equal; leave it out."
            )

    def _with_more(self, data: Data) -> Data:
        word_counts.check_names(self._names, data.d)
        check_counts(data, type(self).__name__)
        hidden = word_counts.checked_hidden(self._hidden, data.n)
        return Documents(word_counts.as_csr(data), hidden=hidden)

    def _show(self, fit: Fit) -> Self:
        super()._show(fit)
        self._worked_out: dict[str, Any] = {}  # at the first question, which changes no attribute
        beta = float(self.fit_.model.likelihood_at(fit.mean_hyper()).beta)  # type: ignore[attr-defined]
        found = (
            topic_streaming.answer(fit)
            if topic_streaming.is_stream(fit)
            else topic_answer.answer(fit, words_of(fit.data))
        )
        self.grouping_ = found.grouping
        self.n_components_ = self._n_features_out = len(found.counts)
        self._words_of_topics = (found.counts > 0.0).sum(axis=1)
        self.components_ = found.counts / np.maximum(found.matched, 1e-300)[:, None]
        self.components_ += beta
        self.components_ /= self.components_.sum(axis=1, keepdims=True)
        self.topic_sizes_ = found.counts.sum(axis=1)
        self.topic_presence_ = found.presence
        self.document_topics_ = self._shares(found.documents)
        self.log_joint_ = float(fit.means()["log_joint"])
        self.n_documents_seen_ = topic_streaming.documents_seen(fit)
        return self

    def _shares(self, counts: np.ndarray) -> np.ndarray:
        """Rows over their sums; a document without words has the shares of the prior."""
        total = counts.sum(axis=1, keepdims=True)
        found = counts / np.maximum(total, 1e-300)
        if not (total > 0.0).all():
            found[total[:, 0] == 0.0] = new_documents.prior_shares(
                self._topics(), self.n_components_
            )
        return found

    def _topics(self) -> list[TopicsOfDraw]:
        """The topics of a few draws, which new documents are given."""
        if "topics" not in self._worked_out:
            self._worked_out["topics"] = (
                topic_streaming.topics_of_stream(self.fit_)
                if topic_streaming.is_stream(self.fit_)
                else new_documents.topics_of_fit(self.fit_, self.grouping_)
            )
        return cast("list[TopicsOfDraw]", self._worked_out["topics"])

    @property
    def vocabulary_(self) -> list[str]:
        """What the columns of X stand for."""
        check_is_fitted(self)
        return [f"x{i}" for i in range(self.fit_.data.d)] if self._names is None else self._names

    @vocabulary_.setter
    def vocabulary_(self, names: Sequence[str]) -> None:
        check_is_fitted(self)
        found = word_counts.checked_vocabulary(names)
        word_counts.check_names(found, self.fit_.data.d)
        self._names = found

    # what the fit says

    def top_words(self, n: int = 10) -> list[list[str]]:
        """The n most probable words of each topic, the largest topic first.

        Words that a topic does not have are left out, so that a topic of few words has fewer.
        """
        n = whole_number("top_words", "n", n, 1)
        names = np.array(self.vocabulary_, dtype=object)
        return [names[columns].tolist() for columns in self._top(n)]

    def _top(self, n: int) -> list[np.ndarray]:
        """The columns of the n most probable words of each topic, of those that it has."""
        return [self._first(k, n) for k in range(self.n_components_)]

    def _first(self, k: int, n: int) -> np.ndarray:
        """The same of one topic."""
        order = np.argsort(-self.components_[k], kind="stable")
        return np.asarray(order[: min(n, self._words_of_topics[k])])

    def coherence(self, n: int = 10, X: Any = None) -> np.ndarray:
        """Whether the n most probable words of each topic are found together in documents, (K,).

        Mean normalized pointwise mutual information (NPMI) of pairs of them, from −1 (never
        together) over 0 (as by chance) to 1 (always). By the documents that were fitted, or by
        others with the same columns: those are the sterner judges. NaN for a topic of one word.
        """
        check_is_fitted(self)
        n = whole_number("coherence", "n", n, 2)
        documents = self.fit_.data.X if X is None else self._new(X)
        return npmi(documents, self._top(n))

    # pictures

    def plot(self) -> Figure:
        """One figure with the most useful pictures."""
        from thali import plots

        return plots.topics_overview(self)

    # new documents

    def _new(self, X: Any) -> csr_array:
        check_is_fitted(self)
        return word_counts.new_counts(self, X, self._names)

    def transform(self, X: Any) -> np.ndarray:
        """The share of each topic in new documents, (n, K); rows sum to one.

        Topics stay as they were found; the words of a document are sampled given these, by
        themselves, and shares are averaged over sweeps and over up to 10 draws of the fit. Words
        that would open a new topic are left out. A document without words has the shares of the
        prior. The same documents have the same answer at every call.
        """
        X = self._new(X)
        return new_documents.topic_shares(self._topics(), self.n_components_, X, self.seed_)

    def perplexity(self, X_seen: Any, X_held: Any) -> float:
        """How many equally probable words there seem to be: exp(−mean log P(a word of X_held)).

        Row i of ``X_held`` has words of the document whose other words are row i of ``X_seen``.
        Documents are taken as new ones of their whole length, topics as they were found. A word's
        probability is averaged over sweeps and draws before its logarithm is taken.

        ``perplexity(None, X_held)`` is of the documents that were fitted, with ``n_hidden`` the
        number of words in each row of ``X_held``: then topics know the words that were seen, and
        all kept draws are averaged over (Welling and others 2012, section V).
        """
        held = self._new(X_held)
        if not held.nnz:
            raise ValueError("X_held has no words to predict: every count is 0.")
        return float(np.exp(-new_documents.mean_log(self._probabilities(X_seen, held), held)))

    def _probabilities(self, X_seen: Any, held: csr_array) -> np.ndarray:
        """Of each entry of ``held``."""
        if X_seen is not None:
            seen = self._new(X_seen)
            if seen.shape[0] != held.shape[0]:
                raise ValueError(
                    f"X_seen has {seen.shape[0]} documents and X_held {held.shape[0]}; rows of "
                    "both must be of the same documents."
                )
            return new_documents.held_probabilities(self._topics(), seen, held, self.seed_)
        count = np.asarray(held.sum(axis=1)).ravel().astype(np.int64)
        hidden = getattr(self.fit_.data, "hidden", None)
        if hidden is None or not np.array_equal(hidden, count):
            raise ValueError(
                "perplexity(None, X_held) is of words that were hidden in the documents that were "
                "fitted: fit(X, n_hidden=X_held.sum(axis=1)) first, or give X_seen."
            )
        return new_documents.held_in_fit(self.fit_, held)

    def score(self, X: Any, y: object = None) -> float:
        """Mean log probability of a word in new documents, given the others: larger is better.

        Of the words of each document, in the order of columns and equal ones side by side, the
        second, fourth, sixth … are predicted from the first, third, fifth …
        """
        seen, held = new_documents.every_second(self._new(X))
        if not held.nnz:
            raise ValueError("X has no document of two words or more: there is none to predict.")
        return new_documents.mean_log(self._probabilities(seen, held), held)

    # files

    def _more_to_save(self) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
        hidden = getattr(self.fit_.data, "hidden", None)
        return {} if hidden is None else {"hidden": hidden}, {"vocabulary": self._names}

    def _take_more(
        self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any], data: Data
    ) -> Data:
        self._names = meta["vocabulary"]
        word_counts.check_names(self._names, data.d)
        check_counts(data, type(self).__name__)
        self._hidden = word_counts.checked_hidden(arrays.get("hidden"), data.n)
        return Documents(data.X, hidden=self._hidden)
