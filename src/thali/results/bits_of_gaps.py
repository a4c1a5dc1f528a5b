r"""Bits of rows with gaps, given all that such a row shows, under a fit that is a distribution q.

q has the bits of a row independent of each other, or one value for each: where noise is small and
two combinations of features explain what a row shows, it has one of them and is sure of it, and so
are intervals for what the row does not show. Given a draw of the features A and of the other rows
the combinations are few enough to be summed over:

    P(z_n | x_n, A, Z_{−n}) ∝ exp(Σ_k z_nk λ_k) N(x_o; z_n A_o, σ_x² I),   o what the row shows,

λ_k being the prior's log odds of a feature that m_{−n,k} other rows have. Features that no other
row has stay as they are. Draws of a row's bits are spread evenly over this distribution: with draw
i of S goes the combination at (i' + u_n)/S, i' one of the S places in random order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thali.data import Data
from thali.likelihoods.base import Likelihood, Scaled
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.nonnegative_linear_gaussian import NonnegativeLinearGaussian
from thali.priors.base import PredictsRow, Prior
from thali.results.fit import Fit, VariationalFit

MOST = 14  # features over which is summed
WORK = 3e10  # multiply-adds, or as much of anything else, that may be done
BESIDE = 100  # what an entry of a table of 2^K costs beside its D multiply-adds
FEWEST = 20  # draws; where fewer could be made, q itself tells
BLOCK = 2e6  # entries of a table
OWN = 1e3  # log odds of a bit that stays


@dataclass(frozen=True)
class Shown:
    """Rows with gaps: which of all they are, what they show (zeros elsewhere), and where."""

    which: np.ndarray
    X: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(cls, data: Data) -> "Shown":
        which = np.flatnonzero(~data.seen.all(axis=1))
        return cls(which, data.zeroed[which], data.seen[which].astype(float))


def draws_for(fit: Fit, rows: int, k: int) -> int:
    """How many draws a sum over each of so many rows is made for; 0 where q itself tells."""
    if not summable(fit.model.prior, fit.model.likelihood) or not isinstance(fit, VariationalFit):
        return 0
    if fit.data.far or k > MOST or "stream_n" in fit.params:
        return 0  # rows of a stream were counted and are gone
    each = rows * 2.0**k * (fit.data.d + BESIDE)
    most = int(min(len(fit), WORK / max(each, 1.0)))
    return most if most >= FEWEST or most == len(fit) else 0


def summable(prior: Prior, likelihood: Likelihood) -> bool:
    """Whether a row's combinations have closed densities, and weights by counts of others alone."""
    kinds = LinearGaussian, NonnegativeLinearGaussian
    if not (isinstance(prior, PredictsRow) and prior.linear and isinstance(likelihood, Scaled)):
        return False
    tables = prior.at(**prior.start()).tables(prior.rows_described or 2)
    return isinstance(likelihood, kinds) and tables.row_potentials is None


def drawn(
    shown: Shown, Z: np.ndarray, A: np.ndarray, log_odds: np.ndarray, sigma: float, u: np.ndarray
) -> np.ndarray:
    """Z with the bits of the rows ``shown`` drawn anew, each by its own uniform number."""
    k = Z.shape[1]
    combinations = ((np.arange(2**k)[:, None] >> np.arange(k)) & 1).astype(float)
    means = combinations @ A  # (2^K, D)
    others = Z.sum(axis=0, dtype=np.int64) - Z[shown.which]
    kept = np.where(Z[shown.which], OWN, -OWN)
    odds = np.where(others > 0, log_odds[np.minimum(others, len(log_odds) - 1)], kept)
    found = Z.copy()
    for part in blocks(len(shown.which), int(BLOCK / 2**k)):
        # log N(x_o; zA_o, σ²I) but for what all z have in common
        logs = (shown.X[part] @ means.T - 0.5 * shown.seen[part] @ np.square(means).T) / sigma**2
        logs += odds[part] @ combinations.T
        below = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        at = (below < u[part, None] * below[:, -1:]).sum(axis=1)
        found[shown.which[part]] = combinations[np.minimum(at, 2**k - 1)] > 0.5
    return found


def blocks(n: int, size: int) -> Iterator[slice]:
    """0 … n, so many at a time and at least one."""
    for first in range(0, n, max(size, 1)):
        yield slice(first, min(first + max(size, 1), n))


def places(seed: int, draws: int, rows: int) -> np.ndarray:
    """(draws, rows) uniform numbers, those of a row spread evenly."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, draws, rows)))
    order = np.argsort(rng.random((draws, rows)), axis=0)
    return np.asarray((order + rng.random(rows)) / draws)
