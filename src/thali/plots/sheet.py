"""One sheet of the panels that answer most: what, how often, where, how good, how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from thali.estimators.latent_features import LatentFeatures
from thali.estimators.latent_partition import LatentPartition
from thali.estimators.topic_model import TopicModel

from . import style
from .chains import feature_count, trace_of
from .cluster_priors import potentials, size_counts
from .cluster_reading import potentials as potentials_of
from .clusters import cluster_map, cluster_profiles, cluster_sizes, co_clustering
from .components import features, frequencies
from .reading import image_shape_of
from .rows import assignments, reconstructions
from .topics import document_topics, group_size_counts, topic_similarity, topic_sizes, topic_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def overview(model: LatentFeatures, *, image_shape: tuple[int, int] | None = None) -> Figure:
    """The features, their frequencies, the assignments, some reconstructions, and the chains.

    Examples
    --------
    >>> import thali.plots
    >>> X = thali.datasets.images(n=12).X
    >>> model = thali.LatentFeatures(engine="variational", random_state=0).fit(X)
    >>> figure = thali.plots.overview(model)  # what model.plot() returns
    """
    check_is_fitted(model)
    shape = image_shape_of(model, image_shape)  # a wrong one is refused before anything is drawn
    figure = style.new_figure(11.0, 9.6)
    # One subfigure a line: long names in one line do not push the others.
    lines = figure.subfigures(3, 1, squeeze=False, height_ratios=[1.15, 1.35, 0.8])
    top, middle, bottom = lines.ravel()
    found, often = top.subplots(1, 2, width_ratios=[2, 1])
    where, rebuilt = middle.subplots(1, 2, width_ratios=[1, 2])
    count, walk, measure = bottom.subplots(1, 3)
    features(model, found, image_shape=image_shape, max_features=None if shape else 5)
    frequencies(model, often, max_features=12)
    assignments(model, where)
    reconstructions(model, rebuilt, image_shape=image_shape)
    feature_count(model, count)
    trace_of(model, "n_components", walk)
    trace_of(model, model.fit_.engine.measure, measure)
    return figure


def clusters_overview(model: LatentPartition) -> Figure:
    """The rows, the clusters' sizes and number, who is with whom, what they are like, the prior.

    The last line has the sizes that prior and posterior expect, the potentials of a prior that has
    them (otherwise the trace of K), and the trace of the log joint.

    Examples
    --------
    >>> import thali, thali.plots
    >>> engine = thali.CollapsedGibbs(sweeps=20, chains=2)
    >>> X = [[0.0, 1.0], [0.1, 1.2], [9.0, 9.1], [9.2, 9.0]]
    >>> model = thali.LatentPartition(engine=engine, random_state=0).fit(X)
    >>> figure = thali.plots.clusters_overview(model)  # what model.plot() returns
    """
    check_is_fitted(model)
    figure = style.new_figure(11.5, 11.0)
    lines = figure.subfigures(3, 1, squeeze=False, height_ratios=[1.05, 1.25, 0.85])
    top, middle, bottom = lines.ravel()
    where, often, count = top.subplots(1, 3, width_ratios=[1.2, 1.1, 1.0])
    pairs, like = middle.subplots(1, 2, width_ratios=[1, 1.35])
    expected, own, measure = bottom.subplots(1, 3)
    cluster_map(model, where)
    cluster_sizes(model, often, max_clusters=12)
    feature_count(model, count)
    co_clustering(model, pairs)
    cluster_profiles(model, like)
    size_counts(model, expected)
    if potentials_of(model) is None:
        trace_of(model, "n_components", own)
    else:
        potentials(model, own)
    trace_of(model, model.fit_.engine.measure, measure)
    return figure


def topics_overview(model: TopicModel) -> Figure:
    """The words of topics, their sizes, which are alike, documents, the number of topics, the walk.

    The last line has the posterior of the number of topics, the sizes of groups that prior and
    posterior expect, and the traces of K and of the log joint.

    Examples
    --------
    >>> import thali, thali.plots
    >>> data = thali.datasets.topics(n=10, k=2)
    >>> engine = thali.DirectAssignment(sweeps=10, chains=1)
    >>> model = thali.TopicModel(engine=engine, random_state=0).fit(data.X, vocabulary=data.words)
    >>> figure = thali.plots.topics_overview(model)  # what model.plot() returns
    """
    check_is_fitted(model)
    words = 0.6 + 1.75 * (1 if model.n_components_ <= 5 else 2)
    figure = style.new_figure(13.0, words + 3.6 + 2.3)
    lines = figure.subfigures(3, 1, squeeze=False, height_ratios=[words, 3.6, 2.3])
    top, middle, bottom = lines.ravel()
    topic_words(model, top.subplots(), max_topics=10, n=6)
    sizes, alike, shares = middle.subplots(1, 3, width_ratios=[1.0, 1.25, 1.0])
    count, groups, walk, measure = bottom.subplots(1, 4, width_ratios=[1.25, 1.0, 1.0, 1.1])
    topic_sizes(model, sizes, max_topics=20)
    topic_similarity(model, alike)
    document_topics(model, shares)
    feature_count(model, count)
    group_size_counts(model, groups)
    trace_of(model, "n_components", walk)
    trace_of(model, model.fit_.engine.measure, measure)
    return figure
