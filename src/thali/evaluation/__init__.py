"""How good is an answer: matching to a known truth, entries held out, how long chains remember."""

from thali.evaluation.autocorrelation import autocorrelation, autocorrelation_time
from thali.evaluation.bayesian_nmf import BayesianNMF
from thali.evaluation.heldout import Holdout, holdout
from thali.evaluation.matching import (
    AssignmentMatching,
    Matching,
    match_assignments,
    match_features,
)

__all__ = [
    "AssignmentMatching",
    "BayesianNMF",
    "Holdout",
    "Matching",
    "autocorrelation",
    "autocorrelation_time",
    "holdout",
    "match_assignments",
    "match_features",
]
