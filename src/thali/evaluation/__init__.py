"""How good is an answer: matching to a known truth."""

from thali.evaluation.matching import (
    AssignmentMatching,
    Matching,
    match_assignments,
    match_features,
)

__all__ = ["AssignmentMatching", "Matching", "match_assignments", "match_features"]
