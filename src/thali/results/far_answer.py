"""The log joint of an answer whose X is read by blocks: from sums over rows, made where X is."""

from typing import Any, cast

import numpy as np

from thali.backends.rows import Rows
from thali.likelihoods.base import Collapsed, Parameters
from thali.likelihoods.evidence_of_sums import log_evidence_of_sums
from thali.likelihoods.gibbs_updates import GibbsState, GibbsUpdates
from thali.likelihoods.sparse_factor import SparseFactor
from thali.results.fit import Fit


def far_log_joint(fit: Fit, Z: np.ndarray, parameters: Parameters) -> float:
    """log P(X, [Z]), or log P(X, parameters, [Z]) where A cannot be integrated out."""
    hyper = fit.mean_hyper()
    fixed = fit.model.at(hyper)
    likelihood: Any = fixed.likelihood
    own = fit.model.likelihood_values(dict(hyper))
    bits = np.ascontiguousarray(Z, np.uint8)
    prior = fixed.prior.log_prob(bits)
    if isinstance(likelihood, Collapsed | SparseFactor):
        backend = cast(Any, fit.engine).backend_for(fit.model, fit.data)
        rows = Rows.hard(bits)
        amounts = 0.0
        if isinstance(likelihood, SparseFactor):
            S = parameters["S"]
            rows = Rows(bits.astype(float), "amounts", (S, np.square(S), np.zeros(S.shape)))
            amounts = likelihood.log_slab(S[Z])
        found = backend.tally(*backend.hold(fit.data, rows, "float64"))
        return log_evidence_of_sums(found, own["sigma_x"], own["sigma_a"]) + amounts + prior
    state = GibbsState(fit.data, bits, parameters, own)
    return float(cast(GibbsUpdates, likelihood).log_density(state) + prior)
