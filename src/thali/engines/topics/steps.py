r"""The steps that samplers of topics are made of; each leaves the posterior invariant.

    words     each word joins a group of its document, or opens one      kernels/franchise_words
    groups    each group joins a topic, or opens one; dummies likewise   kernels/franchise_groups
    swaps     two places exchange their topics                           kernels/franchise_groups
    moves     topics are split and merged                                kernels/topic_moves
    direct    groups are forgotten, words have topics, groups are drawn  kernels/direct_assignment

Kernels stop where topics need more room than there is, and go on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from thali.engines.base import Info
from thali.engines.topics.state import SPARE, TopicState, make_room
from thali.likelihoods.topic_words import TopicLikelihood
from thali.model import Model
from thali.priors.grouped import GroupedPrior

if TYPE_CHECKING:
    from thali.kernels.corpus import Index, Levels


def sweep_words(rng: np.random.Generator, state: TopicState, levels: Levels) -> None:
    """Every word once."""
    from thali.kernels import corpus, franchise_words

    at = 0
    while at < len(state.corpus.word):
        arrays = state.corpus, state.seating, state.lists, state.topics
        at = franchise_words.sweep_words(rng, *arrays, levels, at)
        make_room(state, SPARE)
    corpus.compact(state.corpus, state.seating)


def sweep_assignments(
    rng: np.random.Generator,
    state: TopicState,
    alpha: float,
    gamma: float,
    beta: float,
    passes: int = 1,
) -> None:
    """Every word so often, its topic alone being known; then its group is drawn.

    α and γ are those of the two Dirichlet processes.
    """
    from thali.kernels import direct_assignment as direct

    weights, left = topic_weights(rng, state, gamma)
    label = direct.topics_of_words(state.corpus, state.seating)
    for _ in range(passes):
        at = 0
        while at < len(label):
            make_room(state, SPARE)
            more = len(state.topics.total) - len(weights)
            weights = np.append(weights, np.zeros(more)) if more else weights
            arrays = state.corpus, label, state.lists, state.topics, weights
            at, left = direct.sweep_assignments(rng, *arrays, left, (alpha, gamma), beta, at)
    direct.draw_groups(rng, state.corpus, label, state.seating, state.topics, weights, alpha)


def topic_weights(
    rng: np.random.Generator, state: TopicState, gamma: float
) -> tuple[np.ndarray, float]:
    """Weights of topics given how many groups they have, by slot, and that of all others."""
    used = state.topics.order[: state.topics.live[0]]
    drawn = rng.standard_gamma(np.append(state.topics.groups[used], gamma).astype(float))
    drawn /= drawn.sum()
    weights = np.zeros(len(state.topics.total))
    weights[used] = drawn[:-1]
    return weights, float(drawn[-1])


def index_of(state: TopicState) -> Index:
    """The words of all groups, for steps on these."""
    from thali.kernels.corpus import index_groups

    return cast("Index", index_groups(state.corpus, state.seating))


def sweep_groups(
    rng: np.random.Generator, state: TopicState, levels: Levels, index: Index, share: float = 1.0
) -> None:
    """Every group once, or a share of them from somewhere on; and every place without one."""
    from thali.kernels import franchise_groups as franchise

    at, end = 0, len(index.place)
    if share < 1.0:
        at = int(rng.random() * (end + share * end) - share * end)
        at, end = max(at, 0), min(at + int(np.ceil(share * end)), end)
    while at < end:
        arrays = index, state.seating, state.lists, state.topics
        at = franchise.sweep_groups(rng, *arrays, levels, state.corpus.vocabulary, at, end)
        make_room(state, SPARE)
    at, dummies = 0, levels.slots - len(index.place)
    while at < dummies:
        at = franchise.sweep_dummies(rng, state.topics, levels, at)
        make_room(state, SPARE)


def swap_places(
    rng: np.random.Generator, state: TopicState, levels: Levels, index: Index, attempts: int
) -> int:
    """So many attempts to exchange the topics of two places; returns how many were made."""
    from thali.kernels import franchise_groups as franchise

    arrays = index, state.seating, state.lists, state.topics
    return int(franchise.swap_places(rng, *arrays, levels, state.corpus.vocabulary, attempts))


def split_or_merge(
    rng: np.random.Generator, state: TopicState, levels: Levels, index: Index, attempts: int
) -> int:
    """So many attempts at a split or a merger of topics; returns how many were made."""
    from thali.kernels.topic_moves import split_or_merge_topics

    make_room(state, attempts + 1)  # a split must be possible wherever a merger leads back from
    arrays = index, state.seating, state.lists, state.topics
    return int(split_or_merge_topics(rng, *arrays, levels, state.corpus.vocabulary, attempts))


def update_hyperparameters(rng: np.random.Generator, model: Model, state: TopicState) -> Info:
    """Those of both parts, given words, groups and topics; and what is known of the step."""
    hyper, counts, words = state.hyper, state.counts(), state.word_counts()
    cast(GroupedPrior, model.prior).resample(rng, model.prior_values(hyper), counts)
    cast(TopicLikelihood, model.likelihood).resample(rng, model.likelihood_values(hyper), words)
    log_joint = model.prior_at(hyper).log_prob_counts(counts)
    log_joint += cast(TopicLikelihood, model.likelihood_at(hyper)).log_marginal_of(words)
    state.sweep += 1
    return Info(state.n_topics, log_joint, dict(hyper), 0.0)
