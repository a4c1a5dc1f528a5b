"""Documents that arrive in pieces: topics keep the counts of all, and only new ones are sampled.

Of documents that came before stay, for each topic, its words and its groups, and what tells of
hyperparameters: how many words and groups documents had, and how large groups were. Given these,
the words of a new piece are sampled as ever (kernels/franchise_words and franchise_groups), new
topics among them; then their counts are added. Earlier documents are not sampled again, though a
later piece could tell of them: an approximation, the better the more the first piece knew.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from thali.data.documents import Documents, lengths_of, words_of
from thali.engines.base import Info
from thali.engines.topics import steps
from thali.engines.topics.state import Earlier, TopicState, levels_of, state_of
from thali.hyperparameters import Values
from thali.likelihoods.topic_words import TopicLikelihood
from thali.model import Model
from thali.priors.grouped import GroupedPrior
from thali.results.fit import Draws, Fit
from thali.results.new_documents import TopicsOfDraw, topics_of, words_by_topic
from thali.results.topic_answer import TopicAnswer
from thali.results.trace import ChainTrace, Kept, with_prefix
from thali.structures.grouped_partitions import GROUPED_PARTITIONS, Grouping, GroupingCounts

SWEEPS = 30  # of a new piece, the later half of which tells of its documents
PREFIX = "stream_"


class Stream(NamedTuple):
    """What is kept of all documents so far, topic by topic."""

    counts: csr_array  # (K, V) words by topic
    groups: np.ndarray  # (K,)
    lengths: np.ndarray  # (D,) words of each document,
    groups_of: np.ndarray  # (D,) how many groups these are in,
    sizes: np.ndarray  # (G,) and how many words these have


def is_stream(fit: Fit) -> bool:
    """Whether more than one piece has been taken in."""
    return fit.extra is not None and f"{PREFIX}groups" in fit.extra


def refuse_places(prior: object) -> None:
    """Refuse a prior over topics that tells of so many groups and no more."""
    if isinstance(prior, GroupedPrior) and prior.places:
        raise ValueError(
            f"partial_fit needs a prior over topics that is consistent: "
            f"{type(prior.of_topics).__name__} tells of slots={prior.places} places for the groups "
            "of all documents together, and says nothing of more. Use topics=thali."
            "DirichletProcess() or thali.PitmanYor()."
        )


def stream_of(fit: Fit, found: Grouping) -> Stream:
    """What a fit keeps: of a plain one, the counts of its answer."""
    if is_stream(fit):
        own = with_prefix(dict(fit.extra or {}), PREFIX)
        groups, shape = own["groups"], (len(own["groups"]), fit.data.d)
        counts = csr_array((own["data"], own["indices"], own["indptr"]), shape=shape)
        return Stream(counts, groups, own["lengths"], own["groups_of"], own["sizes"])
    k, words = found.n_topics, words_of(fit.data)
    counts = words_by_topic(found.topic_of_word, words, k, fit.data.d)
    seen = GROUPED_PARTITIONS.counts(found)
    return Stream(counts, seen.topics, seen.lengths, seen.groups_of, seen.sizes)


def answer(fit: Fit) -> TopicAnswer:
    """What is known of topics from all pieces, and of the documents of the last one."""
    extra, stream = dict(fit.extra or {}), stream_of(fit, fit.pick([0])[0].latent)
    grouping = fit.pick([0])[0].latent._replace(topic=extra[f"{PREFIX}topic"].astype(np.int32))
    unknown = np.full(len(stream.groups), np.nan)
    documents = extra[f"{PREFIX}documents"]
    counts = stream.counts.toarray()
    return TopicAnswer(grouping, counts, documents, np.ones(len(counts)), unknown, 0.0)


def documents_seen(fit: Fit) -> int:
    """How many documents there were in all pieces."""
    return len((fit.extra or {})[f"{PREFIX}lengths"]) if is_stream(fit) else fit.data.n


def topics_of_stream(fit: Fit) -> list[TopicsOfDraw]:
    """The topics as they are, which new documents are given."""
    stream = stream_of(fit, fit.pick([0])[0].latent)
    sizes = stream.groups, np.zeros(len(stream.groups), np.int64)
    place = np.arange(len(stream.groups))
    return [topics_of(fit.model, fit.mean_hyper(), stream.counts, sizes, place)]


def absorbed(fit: Fit, found: Grouping, X: csr_array) -> Draws:
    """The fit after one piece more; what it says of documents is of that piece."""
    model, data, stream = fit.model, Documents(X), stream_of(fit, found)
    pieces = int((fit.extra or {}).get(f"{PREFIX}pieces", np.array([1]))[0])
    rng = np.random.default_rng(np.random.SeedSequence((fit.seed, pieces)))
    lengths = lengths_of(data)
    cast(GroupedPrior, model.prior).check_documents(lengths)
    hyper: Values = dict(fit.mean_hyper())
    first = in_one_group(rng, lengths, stream.groups)
    earlier = Earlier(stream.counts, stream.groups)
    state = state_of(model, data, first, hyper, earlier=earlier)
    chain, labels = ChainTrace(), []
    for sweep in range(SWEEPS):
        chain.record(one_sweep(rng, model, state, stream))
        if sweep >= SWEEPS // 2:
            labels.append(slots_of_words(state))
    chain.keep(Kept(GROUPED_PARTITIONS.pack(state.latent), {}))
    extra = what_is_kept(state, stream, labels) | {"pieces": np.array([pieces + 1])}
    extra = {f"{PREFIX}{name}": value for name, value in extra.items()}
    return Draws(
        *(model, data, fit.engine, fit.seed, (chain,)),
        burn_in=SWEEPS - 1,
        starts=fit.starts,
        sweeps=SWEEPS,
        extra=extra,
    )


def in_one_group(rng: np.random.Generator, lengths: np.ndarray, groups: np.ndarray) -> Grouping:
    """Every document is one group, of a topic at random by how many groups it has."""
    count = int((lengths > 0).sum())
    topic = rng.choice(len(groups), count, p=groups / groups.sum()).astype(np.int32)
    none = np.zeros(0, np.int32)
    return Grouping(lengths.astype(np.int32), np.zeros(int(lengths.sum()), np.int32), topic, none)


def one_sweep(rng: np.random.Generator, model: Model, state: TopicState, stream: Stream) -> Info:
    """New words and groups once, and hyperparameters given all documents."""
    levels = levels_of(model, state)
    steps.sweep_words(rng, state, levels)
    steps.sweep_groups(rng, state, levels, steps.index_of(state))
    own, hyper = state.counts(), state.hyper
    counts = GroupingCounts(
        np.concatenate([stream.lengths, own.lengths]),
        np.concatenate([stream.sizes, own.sizes]),
        np.concatenate([stream.groups_of, own.groups_of]),
        own.topics,
        own.dummies,
    )
    words = state.word_counts()
    cast(GroupedPrior, model.prior).resample(rng, model.prior_values(hyper), counts)
    cast(TopicLikelihood, model.likelihood).resample(rng, model.likelihood_values(hyper), words)
    log_joint = model.prior_at(hyper).log_prob_counts(counts)
    log_joint += cast(TopicLikelihood, model.likelihood_at(hyper)).log_marginal_of(words)
    return Info(state.n_topics, log_joint, dict(hyper), 0.0)


def slots_of_words(state: TopicState) -> np.ndarray:
    """The slot of each new word's topic."""
    from thali.kernels.direct_assignment import topics_of_words

    return np.asarray(topics_of_words(state.corpus, state.seating))


def what_is_kept(
    state: TopicState, stream: Stream, labels: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Counts with those of the piece, and the topics of its documents; new topics come last."""
    k = len(stream.groups)
    used = state.topics.order[: state.topics.live[0]]
    slots = np.concatenate([np.arange(k), np.sort(used[used >= k])])
    place = np.full(len(state.topics.total), -1)
    place[slots] = np.arange(len(slots))
    shape = (len(slots), state.corpus.vocabulary)
    wide = csr_array(
        (
            stream.counts.data,
            stream.counts.indices,
            np.pad(stream.counts.indptr, (0, len(slots) - k), "edge"),
        ),
        shape=shape,
    )
    counts = wide + words_by_topic(place[slots_of_words(state)], state.corpus.word, *shape)
    lengths = np.diff(state.corpus.first)
    document = np.repeat(np.arange(len(lengths)), lengths)
    documents = np.zeros((len(lengths), len(slots)))
    for label in labels:
        some = place[label] >= 0
        np.add.at(documents, (document[some], place[label][some]), 1.0 / len(labels))
    size = state.seating.size
    return {
        "data": counts.data,
        "indices": counts.indices,
        "indptr": counts.indptr,
        "groups": state.topics.groups[slots],
        "lengths": np.concatenate([stream.lengths, lengths]),
        "groups_of": np.concatenate([stream.groups_of, state.seating.used]),
        "sizes": np.concatenate([stream.sizes, size[size > 0]]),
        "documents": documents,
        "topic": place[state.seating.topic[size > 0]],
    }
