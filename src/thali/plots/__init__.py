"""Pictures of a fitted model, drawn with matplotlib and returned, never shown.

Each takes a fitted `LatentFeatures` or `LatentPartition` and, where it is one panel, axes to draw
in.
"""

from .chains import autocorrelation, feature_count, trace, trace_of
from .cluster_priors import potentials, size_counts
from .clusters import cluster_map, cluster_profiles, cluster_sizes, co_clustering
from .components import features, frequencies
from .feature_priors import column_sum_counts, feature_potentials, row_sum_counts
from .how_many import truncation
from .rows import assignments, reconstructions
from .sheet import clusters_overview, overview

__all__ = [
    "assignments",
    "autocorrelation",
    "cluster_map",
    "cluster_profiles",
    "cluster_sizes",
    "clusters_overview",
    "co_clustering",
    "column_sum_counts",
    "feature_count",
    "feature_potentials",
    "features",
    "frequencies",
    "overview",
    "potentials",
    "reconstructions",
    "row_sum_counts",
    "size_counts",
    "trace",
    "trace_of",
    "truncation",
]
