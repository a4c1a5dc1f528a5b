r"""The patterns start, for noisy-or models: columns of the data that explain the others.

In a column in which one feature alone is active, the nodes that are on are those of the feature,
but for a few. So columns of X, and what two of them share, are candidates v for a column of Z; with
the codes e_it of the features chosen so far (``kernels.noisy_or``), making v active in column t
changes the log joint of that column by

    Δ_t(v) = log p/(1−p) + Σ_i v_i gain[e_it],

and v is worth Σ_t max(0, Δ_t(v)) before what the prior asks for it. The best candidate is taken,
fitted (v_i = 1 where its active columns say so), and so on while the log joint rises.
"""

import numpy as np

from thali.data import Data
from thali.model import Model
from thali.starts.base import Start, start

CANDIDATES = 200  # columns looked at, and as many intersections of two
LARGEST = 100  # features of such a start
FITS = 3  # turns of which columns are active and which rows the pattern has


@start("patterns")
def patterns_start(rng: np.random.Generator, model: Model, data: Data) -> Start:
    """Z by greedy choice among columns of X, at the hyperparameters' first values."""
    from thali.kernels.noisy_or import gains, rates_at

    hyper = model.start(data)
    prior = model.at(hyper).prior
    most = prior.most_components(data.n)
    most = LARGEST if most < 0 else min(LARGEST, most)
    rates = model.likelihood_values(hyper)
    p = rates["p"]
    gain = gains(rates_at(rates["epsilon"], rates["lam"], p), most + 1)
    codes = data.binary.astype(np.int64)
    V = candidates(rng, data.binary).astype(float)
    Z = np.zeros((data.n, 0), bool)
    log_prior = prior.log_prob(Z)
    while Z.shape[1] < most and len(V):
        G, log_odds = gain[codes], np.log(p) - np.log1p(-p)
        worth = np.maximum(V @ G + log_odds, 0.0).sum(axis=1)
        v, active = fitted(V[int(np.argmax(worth))], G, log_odds)
        wider = np.column_stack([Z, v])
        asked = log_prior - prior.log_prob(wider) - data.d * np.log1p(-p)
        if not v.any() or np.maximum(v @ G + log_odds, 0.0).sum() <= asked:
            break
        Z, log_prior = wider, prior.log_prob(wider)
        codes[np.ix_(v, active)] += 2
    return Start("patterns", np.ascontiguousarray(Z), hyper)


def candidates(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Distinct columns of X that are not empty, and intersections of two, as rows."""
    chosen = X[:, rng.permutation(X.shape[1])[:CANDIDATES]].T
    pairs = rng.integers(X.shape[1], size=(2, CANDIDATES))
    both = (X[:, pairs[0]] & X[:, pairs[1]]).T
    found = np.unique(np.concatenate([chosen, both]), axis=0)
    return found[found.any(axis=1)]


def fitted(v: np.ndarray, G: np.ndarray, log_odds: float) -> tuple[np.ndarray, np.ndarray]:
    """The pattern and its active columns, each the best given the other, a few times in turn."""
    active = v @ G + log_odds > 0.0
    for _ in range(FITS):
        v = G[:, active].sum(axis=1) > 0.0
        active = v @ G + log_odds > 0.0
    return np.asarray(v, bool), active
