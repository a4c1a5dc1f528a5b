r"""Priors over binary matrices by a potential for each column sum (Welling and others 2012).

    log P([Z]) = Σ_k λ_{m_k} + Σ_n θ_{F_n} + w·φ − Σ_h log K_h! − log 𝒵

m_k rows have feature k, and row n has F_n features. With θ = 0 nothing is approximate: the numbers
of features that i rows have are independent,

    m_i ~ Poisson(C(N, i) e^{λ_i}),        log 𝒵 = Σ_i C(N, i) e^{λ_i},

so that a draw is one of each and of who has them, and λ_i = log c_i − log C(N, i) is the prior with
E[m_i] = c_i. The Indian buffet process has C(N, i) e^{λ_i} = α/i. With θ, or any features φ of all
column and row sums together, the normalizer also has the factor E[∏_n e^{θ_{F_n}} e^{w·φ}] under
these Poissons, which is not known, and can be estimated.

These priors are not consistent: the first rows of a larger draw are no draw of a smaller one, so
that N, the number of rows, belongs to them.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from thali.machine import refuse_beyond_memory
from thali.priors.base import PredictsRow
from thali.priors.buffet import log_orders
from thali.priors.partition_sums import log_choose
from thali.settings import Settings, whole_number
from thali.structures.features import FeatureCounts, FeatureTables, left_order

NEVER, FURTHER = -1e6, -1e3  # a potential that stands for −inf, and what each row more adds to it
TRIES = 100_000  # draws of the columns, of which one is accepted where rows have a say
LEAST = 50.0  # draws that weighted ones must be worth
WEIGHTED = 500  # draws of the columns, of which one is chosen by features


class Normalizer(NamedTuple):
    """An estimate of log E[∏ e^{θ_{F_n}} e^{w·φ}], and its standard error."""

    estimate: float
    error: float


class Weighed(NamedTuple):
    """Draws of the columns, each with the weight w(Z) = ∏ e^{θ_{F_n}} that its rows give it."""

    log_ratios: np.ndarray  # log E[w(Z and a column of i rows more)]/E[w(Z)], i = 1 … n
    row_sums: np.ndarray  # P(F_n = j), j = 0, 1, …
    worth: float  # as many draws of equal weight


class ColumnPotentials(Settings, PredictsRow):
    """Potentials of column sums, whatever form they are given in, and of row sums."""

    consistent = False
    row_potentials: Any = None

    def potentials_for(self, n: int) -> np.ndarray:
        """λ_1 … λ_n."""
        raise NotImplementedError

    def expected_counts(self, n: int) -> np.ndarray:
        """C(n, i) e^{λ_i}, i = 1 … n: E[m_i] where rows have no say."""
        return np.asarray(np.exp(self.potentials_for(n) + log_choose(n, np.arange(1, n + 1))))

    def tables(self, n: int) -> FeatureTables:
        """Where no feature is in more rows than some number, those that a chain begins with lose
        their rows; numbers left out in between no chain could cross, and are refused."""
        own = self.potentials_for(n)
        allowed = np.flatnonzero(own > -np.inf)
        if not len(allowed) or allowed[-1] + 1 > len(allowed):
            raise ValueError(
                f"{type(self).__name__}: rows come to a feature one by one, so that features of "
                f"{1 + int(np.argmax(own == -np.inf))} rows cannot be left out where features of "
                "more rows are not; expect few of them (0.001, say) instead of none."
            )
        beyond = np.arange(n) - allowed[-1]
        own = np.where(beyond > 0, NEVER + FURTHER * beyond, own)
        log_odds = np.append(-np.inf, np.diff(own))
        theta = None if self.row_potentials is None else np.array(self.row_potentials)
        if theta is None and not self.linear:
            theta = np.zeros(1)  # so that rows are counted
        return FeatureTables(log_odds, float(own[0]), -1, theta)

    def log_prob_counts(self, counts: FeatureCounts) -> float:
        """With row potentials or features, up to the constant of which ``log_normalizer`` is an
        estimate."""
        own = self.potentials_for(counts.n)
        sums = np.asarray(counts.column_sums, np.int64)
        found = own[sums - 1].sum() - log_orders(counts)
        found -= self.expected_counts(counts.n).sum()
        return float(found + self._beside(sums, counts.row_sums))

    @property
    def heeds_rows(self) -> bool:
        """Whether log P([Z]) depends on row sums, so that its normalizer is not known."""
        return self.row_potentials is not None or not self.linear

    @property
    def normalized(self) -> bool:
        return not self.heeds_rows

    def _beside(self, column_sums: np.ndarray, row_sums: np.ndarray) -> float:
        """Σ_n θ_{F_n} + w·φ: what log P([Z]) has beside the columns."""
        found = self.beyond_tables(len(row_sums), column_sums, row_sums)
        if self.row_potentials is not None:
            theta = np.asarray(self.row_potentials)
            found += float(theta[np.minimum(row_sums, len(theta) - 1)].sum())
        return found

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Exact: with row potentials, the first draw of the columns that they accept. With
        features, one of many weighted draws."""
        n = whole_number(f"{type(self).__name__}.sample", "n", n, 1)
        if not self.linear:
            try:
                return left_order(self._weighted(rng, n, WEIGHTED, "sample")[0])
            except ValueError as error:
                raise NotImplementedError(f"{error} A chain can still sample it.") from error
        if self.row_potentials is None:
            return left_order(self._columns(rng, n))
        most = n * float(np.max(self.row_potentials))
        for _ in range(TRIES):
            Z = self._columns(rng, n)
            if np.log(1.0 - rng.random()) < self._beside(Z.sum(axis=0), Z.sum(axis=1)) - most:
                return left_order(Z)
        raise NotImplementedError(
            f"{type(self).__name__}.sample: of {TRIES:,} draws of the columns the row potentials "
            "accept none; sample by a chain."
        )

    def _columns(self, rng: np.random.Generator, n: int, times: float = 1.0) -> np.ndarray:
        """Columns as they come, without a say of the rows; so many times as many as expected."""
        expected = times * self.expected_counts(n)
        owner = type(self).__name__
        if not np.isfinite(expected).all():
            raise ValueError(f"{owner}.sample: its potentials expect features without end.")
        refuse_beyond_memory(f"A draw of {owner}", n, int(expected.sum()), 1)
        sums = np.repeat(np.arange(1, n + 1), rng.poisson(expected))
        order = np.argsort(rng.random((len(sums), n)), axis=1)
        return np.ascontiguousarray((order < sums[:, None]).T)

    def log_normalizer(self, n: int, draws: int = 2000, seed: int = 0) -> Normalizer:
        """An estimate of what ``log_prob`` of n rows lacks, by draws of the columns.

        It is 0, and exact, where rows have no say. The error is that of these draws: it knows
        nothing of matrices the like of which were not drawn.
        """
        owner = f"{type(self).__name__}.log_normalizer"
        n, draws = whole_number(owner, "n", n, 1), whole_number(owner, "draws", draws, 2)
        self.potentials_for(n)
        if not self.heeds_rows:
            return Normalizer(0.0, 0.0)
        return self._weighted(np.random.default_rng(seed), n, draws, "log_normalizer")[1]

    def _weighted(
        self, rng: np.random.Generator, n: int, draws: int, name: str
    ) -> tuple[np.ndarray, Normalizer]:
        """One of so many draws of the columns, by the weights that rows and features give them,
        and the mean of these weights.

        A fourth of the draws are of columns with other masses, from few to many, e^a times as many
        as expected: rows and features may favour what the columns hardly ever are. Each is weighed
        against all these laws together.
        """
        mass = float(self.expected_counts(n).sum())
        roots = np.arange(0.3, np.sqrt(4.0 * mass + 40.0), 1.0)
        tilts = np.append(0.0, np.log(roots**2 / mass)) if mass > 0.0 else np.zeros(1)
        share = np.append(0.75, np.full(len(tilts) - 1, 0.25 / max(len(tilts) - 1, 1)))
        share /= share.sum()
        which = rng.choice(len(tilts), size=draws, p=share)
        found = [self._columns(rng, n, float(np.exp(tilts[j]))) for j in which]
        K = np.array([Z.shape[1] for Z in found])
        laws = np.log(share) + K[:, None] * tilts - mass * np.expm1(tilts)
        logs = np.array([self._beside(Z.sum(axis=0), Z.sum(axis=1)) for Z in found])
        logs = logs - logsumexp(laws, axis=1)
        weights = np.exp(logs - logs.max()) if logs.max() > -np.inf else np.zeros(draws)
        worth = weights.sum() ** 2 / max(np.square(weights).sum(), 1e-300)
        if not worth >= LEAST:
            raise ValueError(
                f"{type(self).__name__}.{name}: what is weighed beside the columns is so far from "
                f"what the columns make of it that few of {draws:,} draws count; use weaker "
                "potentials, or features nearer to those of the columns alone."
            )
        error = float(weights.std(ddof=1) / weights.mean() / np.sqrt(draws))
        one = int(rng.choice(draws, p=weights / weights.sum()))
        return found[one], Normalizer(float(logs.max() + np.log(weights.mean())), error)

    def weighed(self, rng: np.random.Generator, n: int, draws: int) -> Weighed:
        """What row potentials, which it has, make of draws of the columns.

        E[m_i] = C(n, i) e^{λ_i} E[w(Z and a column more)]/E[w(Z)], a column of i rows at random:
        one order of the rows, drawn at random, has a column of each sum.
        """
        theta = np.asarray(self.row_potentials)
        gains = np.append(np.diff(theta), 0.0)
        logs, more, rows = np.zeros(draws), np.zeros((draws, n)), []
        for s in range(draws):
            sums = self._columns(rng, n).sum(axis=1)
            rows.append(np.bincount(sums))
            sums = np.minimum(sums, len(theta) - 1)
            logs[s] = theta[sums].sum()
            more[s] = np.cumsum(gains[rng.permutation(sums)])
        logs -= logsumexp(logs)
        weights, found = np.exp(logs), np.zeros(max(map(len, rows)))
        for weight, own in zip(weights, rows, strict=True):
            found[: len(own)] += weight * own / n
        ratios = np.asarray(logsumexp(more + logs[:, None], axis=0))
        return Weighed(ratios, found, float(1.0 / np.square(weights).sum()))
