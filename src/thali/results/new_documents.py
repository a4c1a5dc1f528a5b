r"""New documents given the topics that were found, and hidden words of the documents themselves.

In a draw topics stay as they are, φ_t(x) = (n_tx + β)/(n_t + Vβ), and one more group has topic t
with the prior's share

    (groups of t − d)/(G + mass),    (mass + K d)/(G + mass) for a new one, which has φ(x) = 1/V,

or, where there are places, (places of t without a group)/(all of these). Given that, the words of
documents are sampled one document at a time (kernels/folding_in), and what is found is averaged
over sweeps and over several draws of the fit; a word's probability before its logarithm is taken.

Words that are to be predicted are hidden ones of their documents, so that a prior that is not
consistent is asked of documents of their whole length. Hidden words of a document are alike: each
is predicted by the mean of what is known of all.

A hidden word of a document that was fitted needs no new draws: in each of those kept it is taken
out of its group, and has the topic of another group, or of a new one (Welling and others 2012,
section V).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.sparse import coo_array, csr_array

from thali.data.documents import Documents, lengths_of, words_of
from thali.engines.topics.state import levels_of, state_of
from thali.hyperparameters import Values
from thali.likelihoods.topic_words import TopicLikelihood
from thali.machine import cores
from thali.model import Model
from thali.priors.grouped import GroupedPrior
from thali.results.fit import Fit
from thali.results.topic_answer import matching
from thali.structures.grouped_partitions import Grouping

DRAWS = 10  # of a fit that new documents are given
BURN_IN = 5  # sweeps of a document that are not counted,
SWEEPS = 100  # and those that are, over all draws
BLOCK = 2**22  # probabilities held at once
TASKS = 4  # pieces of work for each core


class TopicsOfDraw(NamedTuple):
    """The topics of one draw, as new documents find them."""

    counts: csr_array  # (K, V) words by topic
    share: np.ndarray  # (K + 1,) of one more group; the last of a topic that has no words
    place: np.ndarray  # (K,) the topic of the answer, or −1
    beta: float
    prior: GroupedPrior  # hyperparameters are numbers

    def phi(self, words: np.ndarray) -> np.ndarray:
        """How probable these words are in each topic, and in one without words, (n, K + 1)."""
        k, vocabulary = self.counts.shape
        totals = np.asarray(self.counts.sum(axis=1)).ravel()
        found = np.full((len(words), k + 1), 1.0 / vocabulary)
        own = self.counts.tocsc()[:, words].toarray().T
        found[:, :k] = (own + self.beta) / (totals + vocabulary * self.beta)
        return found


def topics_of(
    model: Model,
    hyper: Values,
    counts: csr_array,
    sizes: tuple[np.ndarray, np.ndarray],
    place: np.ndarray,
) -> TopicsOfDraw:
    """Topics with these counts of words, ``sizes`` being their groups and places without."""
    prior = cast(GroupedPrior, model.prior_at(hyper))
    beta = cast(TopicLikelihood, model.likelihood_at(hyper)).beta
    groups, dummies = sizes
    tables = prior.tables(1)
    share = np.append(groups - tables.discount, tables.mass + len(groups) * tables.discount)
    if tables.slots:
        share = np.append(dummies if dummies.any() else groups, 0.0)
    return TopicsOfDraw(counts, share / share.sum(), place, beta, prior)


def topics_of_fit(fit: Fit, chosen: Grouping) -> list[TopicsOfDraw]:
    """The topics of a few draws, matched with those of the answer; of the answer itself too, where
    it has a topic that none of them has."""
    words, labels, k = words_of(fit.data), chosen.topic_of_word, chosen.n_topics

    def of(latent: Grouping, hyper: Values) -> TopicsOfDraw:
        most = max(latent.n_topics, len(latent.dummies))
        place = np.append(
            matching(labels, k, latent.topic_of_word)[0], np.full(most - latent.n_topics, -1)
        )
        groups = np.bincount(latent.topic, minlength=most)
        dummies = latent.dummies if len(latent.dummies) else np.zeros(most, np.int64)
        counts = words_by_topic(latent.topic_of_word, words, most, fit.data.d)
        return topics_of(fit.model, hyper, counts, (groups, dummies), place)

    picked = fit.pick(fit.representatives(DRAWS))
    found = [of(draw.latent, fit.hyper_of(draw.scalars)) for draw in picked]
    if not np.isin(np.arange(k), np.concatenate([draw.place for draw in found])).all():
        found.append(of(chosen, fit.mean_hyper()))
    return found


def words_by_topic(labels: np.ndarray, words: np.ndarray, k: int, vocabulary: int) -> csr_array:
    """How often each of k topics has each word, (K, V)."""
    seen = words >= 0
    ones = np.ones(int(seen.sum()))
    return csr_array(coo_array((ones, (labels[seen], words[seen])), shape=(k, vocabulary)))


class Folded(NamedTuple):
    """How many words of each document have each topic of a draw, a mean over sweeps."""

    seen: np.ndarray  # (D, K + 1)
    hidden: np.ndarray


def fold_in(topics: TopicsOfDraw, documents: Documents, seed: int, sweeps: int) -> Folded:
    """Documents given the topics of a draw; the same whatever the number of threads."""
    from thali.kernels import folding_in

    words, lengths = words_of(documents), lengths_of(documents)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tables = topics.prior.tables(int(lengths.max(initial=0)))
    used, row = np.unique(cast(Any, documents.X).indices), np.zeros(documents.d, np.int32)
    row[used] = np.arange(len(used))
    share = np.array(topics.share)  # kernels are compiled for arrays that can be written to
    fixed = folding_in.FixedTopics(topics.phi(used), row, share, tables.join, tables.open)
    shape = (len(lengths), len(topics.share))
    seen, hidden = np.zeros(shape), np.zeros(shape)

    def work(begin: int, end: int) -> None:
        run = np.uint64(seed), BURN_IN, sweeps
        folding_in.fold_in(words, first, begin, end, fixed, *run, seen, hidden)

    in_threads(work, lengths)
    return Folded(seen, hidden)


def in_threads(work: Callable[[int, int], None], lengths: np.ndarray) -> None:
    """Do all documents, in pieces of about as many words each."""
    pieces = TASKS * cores() if cores() > 1 else 1
    ends = np.searchsorted(np.cumsum(lengths), np.linspace(0, lengths.sum(), pieces + 1)[1:-1])
    ends = np.unique(np.concatenate([[0], ends, [len(lengths)]]))
    pool = ThreadPoolExecutor(cores())
    try:
        jobs = [pool.submit(work, *pair) for pair in itertools.pairwise(ends.tolist())]
        for job in jobs:
            job.result()
    finally:
        pool.shutdown(cancel_futures=True)


def check_lengths(topics: Sequence[TopicsOfDraw], lengths: np.ndarray) -> None:
    """Refuse documents that are longer than the prior over their words has a say about."""
    topics[0].prior.check_documents(lengths.max(initial=0, keepdims=True))


def sweeps_of_each(topics: Sequence[TopicsOfDraw]) -> int:
    """Sweeps for each draw: more where there are few of them."""
    return -(-SWEEPS // len(topics))


def seed_of(seed: int, draw: int) -> int:
    """A number for what is random in one draw."""
    return int(np.random.SeedSequence((seed, draw)).generate_state(1, np.uint64)[0])


def batches(n: int, k: int) -> Iterator[slice]:
    """A few documents at a time, where there are very many."""
    rows = max(1, BLOCK // (k + 1))
    return (slice(first, first + rows) for first in range(0, n, rows))


def prior_shares(topics: Sequence[TopicsOfDraw], k: int) -> np.ndarray:
    """The share of each topic of the answer in documents of which nothing is known, (K,)."""
    found = np.zeros(k)
    for draw in topics:
        np.add.at(found, draw.place[draw.place >= 0], draw.share[:-1][draw.place >= 0])
    return np.asarray(found / found.sum())


def topic_shares(topics: Sequence[TopicsOfDraw], k: int, X: csr_array, seed: int) -> np.ndarray:
    """The share of each of the k topics of the answer in each document, (D, K).

    Words by topic, a mean over draws; words of topics without a match, and of topics that are new,
    are left out. A document without words has the shares of the prior.
    """
    found = np.zeros((X.shape[0], k))
    documents = Documents(X)
    check_lengths(topics, lengths_of(documents))
    for rows in batches(X.shape[0], max(len(draw.share) for draw in topics)):
        some = Documents(X[rows])
        for i, draw in enumerate(topics):
            own = fold_in(draw, some, seed_of(seed, i), sweeps_of_each(topics)).seen[:, :-1]
            use = draw.place >= 0
            found[rows, draw.place[use]] += own[:, use]
    total = found.sum(axis=1, keepdims=True)
    even = np.tile(prior_shares(topics, k), (len(found), 1))
    return np.asarray(np.divide(found, total, out=even, where=total > 0.0))


def held_probabilities(
    topics: Sequence[TopicsOfDraw], seen: csr_array, held: csr_array, seed: int
) -> np.ndarray:
    """P(word | the words seen of its document) of each entry of ``held``, in its order."""
    count = np.asarray(held.sum(axis=1)).ravel().astype(np.int64)
    check_lengths(topics, lengths_of(Documents(seen, hidden=count)))
    found = np.zeros(held.nnz)
    for rows in batches(seen.shape[0], max(len(draw.share) for draw in topics)):
        some, asked = Documents(seen[rows], hidden=count[rows]), held[rows]
        entries = slice(held.indptr[rows.start], held.indptr[rows.start] + asked.nnz)
        for i, draw in enumerate(topics):
            shares = fold_in(draw, some, seed_of(seed, i), sweeps_of_each(topics)).hidden
            shares /= np.maximum(count[rows], 1)[:, None]
            found[entries] += mixed(shares, draw, asked) / len(topics)
    return found


def held_in_fit(fit: Fit, held: csr_array) -> np.ndarray:
    """P(word | what was fitted) of each entry of ``held``, the hidden words of the documents."""
    found = np.zeros(held.nnz)
    for draw in fit.draws():
        found += held_in_draw(fit, draw.latent, fit.hyper_of(draw.scalars), held) / len(fit)
    return found


def held_in_draw(fit: Fit, latent: Grouping, hyper: Values, held: csr_array) -> np.ndarray:
    """The same in one draw."""
    from thali.kernels.folding_in import hidden_shares

    state = state_of(fit.model, fit.data, latent, hyper)
    k = max(latent.n_topics, len(latent.dummies))
    counts = words_by_topic(latent.topic_of_word, state.corpus.word, k, fit.data.d)
    sizes = state.topics.groups[:k], state.topics.dummies[:k]
    topics = topics_of(fit.model, hyper, counts, sizes, np.zeros(0, np.int64))
    shares = np.zeros((fit.data.n, k + 1))
    levels = levels_of(fit.model, state)
    hidden_shares(state.corpus, state.seating, state.topics, levels, k, shares)
    return mixed(shares, topics, held)


def mixed(shares: np.ndarray, topics: TopicsOfDraw, held: csr_array) -> np.ndarray:
    """Σ_t (share of t in the document) φ_t(x) of each entry."""
    used, column = np.unique(held.indices, return_inverse=True)
    phi, row = topics.phi(used), np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    found = np.empty(held.nnz)
    for some in batches(held.nnz, phi.shape[1]):
        found[some] = np.einsum("et,et->e", shares[row[some]], phi[column[some]])
    return found


def mean_log(probabilities: np.ndarray, held: csr_array) -> float:
    """The mean over words of log P."""
    return float(held.data @ np.log(probabilities) / held.data.sum())


def every_second(X: csr_array) -> tuple[csr_array, csr_array]:
    """Counts in two: of the words of a document, in the order of columns, equal ones side by side,
    the first, third, fifth … and the others.

    >>> first, second = every_second(csr_array([[3, 0, 2], [0, 1, 0]]))
    >>> first.toarray().tolist(), second.toarray().tolist()
    ([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]], [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    """
    counts = X.data.astype(np.int64)
    before = np.cumsum(counts) - counts
    start = np.repeat(
        np.append(before, 0)[np.minimum(X.indptr[:-1], len(counts))], np.diff(X.indptr)
    )
    odd = (before - start) % 2  # whether the first of these words is a second one
    kept = (counts + 1 - odd) // 2
    parts = []
    for data in (kept, counts - kept):
        part = csr_array((data.astype(float), X.indices.copy(), X.indptr.copy()), shape=X.shape)
        part.eliminate_zeros()
        parts.append(part)
    return parts[0], parts[1]
