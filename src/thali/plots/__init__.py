"""Pictures of a fitted model, drawn with matplotlib and returned, never shown.

Each takes a fitted `LatentFeatures` and, where it is one panel, axes to draw in.
"""

from .chains import feature_count, trace, trace_of
from .components import features, frequencies
from .how_many import truncation
from .rows import assignments, reconstructions
from .sheet import overview

__all__ = [
    "assignments",
    "feature_count",
    "features",
    "frequencies",
    "overview",
    "reconstructions",
    "trace",
    "trace_of",
    "truncation",
]
