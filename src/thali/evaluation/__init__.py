"""How good is an answer: matching to a known truth, and how long its chains remember."""

from thali.evaluation.autocorrelation import autocorrelation
from thali.evaluation.matching import (
    AssignmentMatching,
    Matching,
    match_assignments,
    match_features,
)

__all__ = [
    "AssignmentMatching",
    "Matching",
    "autocorrelation",
    "match_assignments",
    "match_features",
]
