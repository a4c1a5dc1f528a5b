"""How good is an answer: matching to a known truth, and predicting entries held out."""

from thali.evaluation.heldout import Holdout, holdout
from thali.evaluation.matching import (
    AssignmentMatching,
    Matching,
    match_assignments,
    match_features,
)

__all__ = [
    "AssignmentMatching",
    "Holdout",
    "Matching",
    "holdout",
    "match_assignments",
    "match_features",
]
