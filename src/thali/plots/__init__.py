"""Pictures of a fitted model, drawn with matplotlib and returned, never shown.

Each takes a fitted `LatentFeatures`, `LatentPartition` or `TopicModel` and, where it is one panel,
axes to draw in.
"""

from .chains import autocorrelation, feature_count, trace, trace_of
from .cluster_priors import potentials, size_counts
from .clusters import cluster_map, cluster_profiles, cluster_sizes, co_clustering
from .components import features, frequencies
from .feature_priors import column_sum_counts, feature_potentials, row_sum_counts
from .how_many import truncation
from .rows import assignments, reconstructions
from .sheet import clusters_overview, overview, topics_overview
from .topics import (
    document_topics,
    group_size_counts,
    topic_similarity,
    topic_sizes,
    topic_words,
)

__all__ = [
    "assignments",
    "autocorrelation",
    "cluster_map",
    "cluster_profiles",
    "cluster_sizes",
    "clusters_overview",
    "co_clustering",
    "column_sum_counts",
    "document_topics",
    "feature_count",
    "feature_potentials",
    "features",
    "frequencies",
    "group_size_counts",
    "overview",
    "potentials",
    "reconstructions",
    "row_sum_counts",
    "size_counts",
    "topic_similarity",
    "topic_sizes",
    "topic_words",
    "topics_overview",
    "trace",
    "trace_of",
    "truncation",
]
