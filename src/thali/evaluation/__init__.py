"""How good is an answer: matching to a known truth, entries held out, how long chains remember,
which prior explains the data better."""

from thali.evaluation.autocorrelation import autocorrelation, autocorrelation_time
from thali.evaluation.bayes_factor import BayesFactor, log_bayes_factor
from thali.evaluation.bayesian_nmf import BayesianNMF
from thali.evaluation.heldout import Holdout, holdout
from thali.evaluation.hidden_words import hide_words
from thali.evaluation.matching import (
    AssignmentMatching,
    Matching,
    match_assignments,
    match_features,
)
from thali.evaluation.power_ep_nmf import PowerEPNMF

__all__ = [
    "AssignmentMatching",
    "BayesFactor",
    "BayesianNMF",
    "Holdout",
    "Matching",
    "PowerEPNMF",
    "autocorrelation",
    "autocorrelation_time",
    "hide_words",
    "holdout",
    "log_bayes_factor",
    "match_assignments",
    "match_features",
]
