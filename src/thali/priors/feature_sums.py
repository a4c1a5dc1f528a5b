r"""How many features i rows have, and how many a row has, of any prior that is a table.

Without row potentials the numbers of features that i of n rows have are independent, and a row has
a feature of i rows with probability i/n:

    m_i ~ Poisson(c_i),    c_i = C(n, i) e^{λ_i},    F_n ~ Poisson(Σ_i i c_i / n)

Where there are at most K features, each is one of i rows with probability c_i/(1 + Σ_i c_i) = q_i:

    E[m_i] = K q_i,        F_n ~ Binomial(K, Σ_i i q_i / n)

With row potentials neither is known; both are estimated by draws of the columns, weighed by them.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from thali.priors.base import PredictsRow
from thali.priors.column_potentials import LEAST, NEVER
from thali.priors.flexible_ibp import FlexibleIBP
from thali.priors.partition_sums import log_choose
from thali.priors.truncated_ibp import TruncatedIBP
from thali.structures.features import FeatureTables, potentials

BEYOND = 1e-9  # chance of more features of a row than are told
MOST = 10_000  # features of a row
DRAWS, FEWEST = 2000, 200  # of the columns
ENTRIES = 1e7  # of all of them


class ExpectedSums(NamedTuple):
    """E[m_i], i = 1 … n, and P(F_n = j), j = 0, 1, …: of features, and of one row."""

    columns: np.ndarray
    rows: np.ndarray
    estimated: bool = False


def log_weights(tables: FeatureTables) -> np.ndarray:
    """log c_i = λ_i + log C(n, i), i = 1 … n; −inf of features that there never are.

    >>> from thali import IBP
    >>> np.exp(log_weights(IBP(alpha=6.0).tables(3))).round(6).tolist()
    [6.0, 3.0, 2.0]
    """
    own = potentials(tables)[1:]
    n = len(own)
    with np.errstate(invalid="ignore"):
        return np.where(own > NEVER / 2, own + log_choose(n, np.arange(1, n + 1)), -np.inf)


def expected_sums(prior: PredictsRow, n: int) -> ExpectedSums | None:
    """What a prior with its hyperparameters fixed expects of n rows; None where nobody knows.

    >>> from thali import BetaBernoulli
    >>> expected_sums(BetaBernoulli(alpha=2.0, n_components=2), 1).columns.tolist()
    [1.0]
    """
    from scipy.stats import binom, poisson

    if not prior.linear:
        return None
    tables = prior.tables(n)
    logs, share, most = log_weights(tables), np.arange(1, n + 1) / n, tables.capacity
    with np.errstate(over="ignore"):
        weights = np.exp(logs)
    if isinstance(prior, TruncatedIBP):
        return _held(prior, share, n)
    if most < 0 and not np.isfinite(weights.sum()):
        return None
    theta = tables.row_potentials
    if theta is not None:
        return None if most >= 0 else _weighed(potentials(tables)[1:].tobytes(), theta.tobytes())
    if most < 0:
        columns, law = weights, poisson(float(share @ weights))
    else:
        chances = np.exp(logs - logsumexp(np.append(0.0, logs)))
        columns, law = most * chances, binom(most, min(float(share @ chances), 1.0))
    return ExpectedSums(columns, law.pmf(np.arange(min(int(law.isf(BEYOND)), MOST) + 1)))


def _held(prior: TruncatedIBP, share: np.ndarray, n: int) -> ExpectedSums:
    """Given K₊ columns are independent: m rows with probability 1/(m H_N)."""
    from scipy.stats import binom

    chances = np.exp(prior.log_numbers(prior.start()["alpha"], n))
    k = np.flatnonzero(chances > BEYOND**2)
    each = 1.0 / share / (1.0 / share).sum()
    rows = chances[k] @ binom.pmf(np.arange(min(k[-1], MOST) + 1), k[:, None], share @ each)
    return ExpectedSums(float(k @ chances[k]) * each, rows)


@lru_cache(maxsize=8)  # several pictures of one model ask for it
def _weighed(column_potentials: bytes, row_potentials: bytes) -> ExpectedSums | None:
    """By weighted draws; None where few of them count, or one takes long."""
    own, theta = np.frombuffer(column_potentials), np.frombuffer(row_potentials)
    prior, n = FlexibleIBP(tuple(own.tolist()), tuple(theta.tolist())), len(own)
    columns = prior.expected_counts(n)
    draws = int(min(DRAWS, ENTRIES / (n * (1.0 + columns.sum()))))
    if draws < FEWEST:
        return None
    found = prior.weighed(np.random.default_rng(0), n, draws)
    if found.worth < LEAST:
        return None
    return ExpectedSums(columns * np.exp(found.log_ratios), found.row_sums, True)
